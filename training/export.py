"""`python -m training.export`: a checkpoint becomes a model directory that transformers loads without remote code.

bfloat16 safetensors, a Llama config, the tokenizer, the engine's record and a card.  Nothing here trains or scores.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from apply_service.engine.record import CALIBRATION_FILE
from apply_service.prompts.compact import LineVocabulary
from training.card import write_card
from training.checkpoint import Progress, load_checkpoint
from training.corpus import read_edits, split_by_repository
from training.initialisation import initialise
from training.model import Network, Shape

RECORD = {"prompt_format": "compact", "windows": "always"}
"""How the engine is to run the model."""


def config_of(shape: Shape, vocabulary: LineVocabulary) -> dict[str, Any]:
    """The config of `LlamaForCausalLM`."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.n_vocab,
        "hidden_size": shape.d_model,
        "intermediate_size": shape.d_ff,
        "num_hidden_layers": shape.n_layers,
        "num_attention_heads": shape.n_heads,
        "num_key_value_heads": shape.n_heads,
        "head_dim": shape.d_head,
        "hidden_act": "silu",
        "max_position_embeddings": shape.context,
        "rms_norm_eps": shape.norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_theta},
        "attention_bias": True,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": True,
        "bos_token_id": vocabulary.original,
        "eos_token_id": vocabulary.end,
        "pad_token_id": vocabulary.pad,
        "dtype": "bfloat16",
    }


def load_network(directory: Path) -> Network:
    """The network of an exported model, in float32, for evaluation."""
    config = json.loads((directory / "config.json").read_text())
    shape = Shape(
        config["vocab_size"],
        config["num_hidden_layers"],
        config["hidden_size"],
        config["num_attention_heads"],
        config["intermediate_size"],
        config["rope_parameters"]["rope_theta"],
        config["rms_norm_eps"],
        config["max_position_embeddings"],
    )
    network = Network(shape)
    network.load_state_dict({name: value.float() for name, value in load_file(directory / "model.safetensors").items()})
    return network.eval()


def load_run(checkpoint: Path) -> tuple[Network, Progress]:
    """The network of a training checkpoint, and where it stood."""
    with safe_open(checkpoint, framework="pt") as file:
        shape = Shape(**json.loads(file.metadata()["shape"]))
    network = Network(shape)
    progress = load_checkpoint(checkpoint, network)
    return network.eval(), progress


def average_with_start(network: Network, vocabulary: LineVocabulary, *, share: float, seed: int = 0) -> None:
    """Pull the weights back towards the circuits they started from: `share` of the way from start to end is kept.

    Noisy short training costs the circuits some sharpness; between the two lies what keeps both (after Wortsman et al.
    2021, weight-space ensembles; chosen on held-out edits).
    """
    start = Network(network.shape)
    initialise(start, vocabulary, seed=seed)
    with torch.no_grad():
        for trained, initial in zip(network.parameters(), start.parameters(), strict=True):
            trained.copy_(initial.lerp(trained, share))


def export(network: Network, tokenizer: Path, out: Path) -> None:
    """Write config.json, model.safetensors and tokenizer.json into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    vocabulary = LineVocabulary.from_file(tokenizer)
    tensors = {name: value.to(torch.bfloat16).contiguous() for name, value in network.state_dict().items()}
    weights = out / "model.safetensors"
    save_file(tensors, weights, metadata={"format": "pt"})
    weights.chmod(0o644)  # the package installs it for everyone
    (out / "config.json").write_text(json.dumps(config_of(network.shape, vocabulary), indent=2) + "\n")
    (out / "apply_service.json").write_text(json.dumps(RECORD) + "\n")
    (out / CALIBRATION_FILE).unlink(missing_ok=True)  # it was made for other weights: `training.calibrate` makes one
    if tokenizer.resolve() != (out / "tokenizer.json").resolve():
        shutil.copyfile(tokenizer, out / "tokenizer.json")


def main() -> None:
    parser = argparse.ArgumentParser(description="export a run as a model directory with its card")
    parser.add_argument("--run", type=Path, required=True, help="run directory: checkpoint and log of scores")
    parser.add_argument("--data", type=Path, default=Path(), help="what the run was trained on")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--hardware", default=platform.processor() or platform.machine())
    parser.add_argument("--keep", type=float, default=1.0, help="share of the way from the start that is kept")
    parser.add_argument("--max-lines", type=int, default=130, help="of the run's curriculum, for the card")
    parser.add_argument("--results", type=Path, help="Markdown table of results on evaluation sets, for the card")
    arguments = parser.parse_args()
    network, progress = load_run(arguments.run / "checkpoint.safetensors")
    if arguments.keep < 1:
        average_with_start(network, LineVocabulary.from_file(arguments.tokenizer), share=arguments.keep)
    export(network, arguments.tokenizer, arguments.out)
    train, held_out = split_by_repository(read_edits(arguments.data))
    write_card(
        arguments.out,
        network=network,
        progress=progress,
        scores=[json.loads(line) for line in (arguments.run / "scores.jsonl").read_text().splitlines()],
        train=train,
        held_out=held_out,
        hardware=arguments.hardware,
        max_lines=arguments.max_lines,
        kept=arguments.keep,
        results="" if arguments.results is None else arguments.results.read_text(encoding="utf-8"),
    )


if __name__ == "__main__":
    main()
