"""Runs `apply-service engine`: prints the command by which another engine serves a model with drafts, and the memory
that the model takes.

Nothing is started.  The lines follow the engines' own documentation; `is_run` says which of the lines were run here.
"""

from __future__ import annotations

import json
import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apply_service.commands.output import OK, write_json, write_line, write_note
from apply_service.errors import InvalidField
from apply_service.models import hub

PROPOSER = "apply_service.engine.vllm.proposer.MergedEditProposer"
DRAFT = "DRAFT"
"""The placeholder in a line for the folder of a draft model or head."""
CONTEXT_TOKENS = 32_768
"""The number of tokens of one sequence, unless the model takes fewer."""
ROOM = 1.15
"""The memory of a card as a multiple of weights, keys and values; the rest is for activations, workspaces and the
driver."""
CARDS_GIB = (6, 8, 12, 16, 24, 32, 40, 48, 80, 141, 180)


@dataclass(frozen=True, slots=True)
class Line:
    """How one engine is told to draft."""

    options: Sequence[str]
    """Words that follow those that start the engine with a model."""
    needs_draft: bool = False
    """Whether the engine needs the files of a draft model or head."""
    variables: str = ""
    """Environment variables, in the syntax of a shell."""
    file: str = ""
    """The text of the configuration file `speculation.yaml`."""
    is_run: bool = False
    note: str = ""


def _speculation(**values: Any) -> list[str]:
    return ["--speculative-config", json.dumps(values)]


def _sglang(name: str, *, n_tokens: int) -> list[str]:
    steps = ["--speculative-num-steps", str(n_tokens - 1), "--speculative-eagle-topk", "1"]
    return ["--speculative-algorithm", name, *steps, "--speculative-num-draft-tokens", str(n_tokens)]


def _yaml(**values: str | int) -> str:
    return "speculative_config:\n" + "".join(f"  {name}: {value}\n" for name, value in values.items())


_YAML = ("--extra_llm_api_options", "speculation.yaml")
_SGLANG_DRAFT = ("--speculative-draft-model-path", DRAFT)
STARTS: Mapping[str, Sequence[str]] = {
    "vllm": ("vllm", "serve", "MODEL"),
    "sglang": ("python", "-m", "sglang.launch_server", "--model-path", "MODEL"),
    "llama.cpp": ("llama-server", "-m", "MODEL"),
    "tensorrt-llm": ("trtllm-serve", "MODEL"),
}
LINES: Mapping[str, Mapping[str, Line]] = {
    "vllm": {
        "merged_edit": Line(
            ["--max-num-batched-tokens", "8192",
             *_speculation(method="custom_class", model=PROPOSER, num_speculative_tokens=127)],
            variables="VLLM_PLUGINS=apply_service",
            is_run=True,
            note="It needs this package in vLLM's environment.",
        ),
        "prompt_lookup": Line(
            _speculation(method="ngram", num_speculative_tokens=127, prompt_lookup_max=4),
            is_run=True,
        ),
        "suffix": Line(
            _speculation(method="suffix", num_speculative_tokens=32), is_run=True, note="It needs arctic-inference."
        ),
        "draft_model": Line(_speculation(method="draft_model", model=DRAFT, num_speculative_tokens=5), True),
        "eagle3": Line(_speculation(method="eagle3", model=DRAFT, num_speculative_tokens=3), True),
        "medusa": Line(_speculation(method="medusa", model=DRAFT, num_speculative_tokens=3), True),
        "mtp": Line(_speculation(method="mtp", num_speculative_tokens=1)),
    },
    "sglang": {
        "prompt_lookup": Line(
            ["--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", "64"], note="It runs on CUDA alone."
        ),
        "draft_model": Line([*_sglang("STANDALONE", n_tokens=5), *_SGLANG_DRAFT], True),
        "eagle3": Line([*_sglang("EAGLE3", n_tokens=4), *_SGLANG_DRAFT], True),
        "mtp": Line(_sglang("NEXTN", n_tokens=2)),
    },
    "llama.cpp": {
        "prompt_lookup": Line(["--spec-type", "ngram-simple", "--draft-max", "64"]),
        "draft_model": Line(["-md", DRAFT, "--draft-max", "16"], True),
        "eagle3": Line(["--spec-type", "draft-eagle3", "-md", DRAFT], True),
    },
    "tensorrt-llm": {
        "prompt_lookup": Line(_YAML, file=_yaml(decoding_type="NGram", max_draft_len=64, max_matching_ngram_size=7)),
        "draft_model": Line(
            _YAML, True, file=_yaml(decoding_type="DraftTarget", max_draft_len=4, speculative_model=DRAFT)
        ),
        "eagle3": Line(_YAML, True, file=_yaml(decoding_type="Eagle3", max_draft_len=3, speculative_model=DRAFT)),
        "mtp": Line(_YAML, file=_yaml(decoding_type="MTP", num_nextn_predict_layers=1)),
    },
}  # fmt: skip


def run(arguments: Namespace, _: object) -> int:
    """Run `engine` and return the exit code.

    Raises:
        InvalidField: the engine has no such drafter or can't read the model's files, the drafter needs files that
            `--draft` does not name, or `--context` is no number of tokens.
        UnknownModel: the model's name is malformed.
    """
    drafter = arguments.by_drafter or next(iter(LINES[arguments.name]))
    folder = _folder(arguments.of_model)
    line = _checked_line(arguments, drafter, folder)
    names = {"MODEL": arguments.of_model, DRAFT: arguments.draft or DRAFT}
    words = [names.get(word, word.replace(f'"{DRAFT}"', json.dumps(names[DRAFT])))
             for word in (*STARTS[arguments.name], *line.options)]  # fmt: skip
    command = " ".join([*([line.variables] if line.variables else []), shlex.join(words)])
    file = line.file.replace(DRAFT, names[DRAFT])
    draft = _folder(arguments.draft) if line.needs_draft else None
    memory = None if folder is None else memory_of(folder, arguments.context, draft=draft)
    if arguments.json:
        told = {"command": command, "file": file, "is_run": line.is_run, "memory": memory}
        write_json(told | {"engine": arguments.name, "drafter": drafter})
        return OK
    if file:
        script = f"cat > speculation.yaml <<'END'\n{file}END"
        write_line(script)
    write_line(command)
    write_note(_memory_words(memory))
    write_note(
        "This project has run such a line, on a CPU and with a small model."
        if line.is_run
        else "This project has not run such a line: it follows the engine's pages."
    )
    if line.note:
        write_note(line.note)
    return OK


def _checked_line(arguments: Namespace, drafter: str, folder: Path | None) -> Line:
    """Return the line of a drafter for a model in `folder`.  Raises InvalidField, as `run` does."""
    lines = LINES[arguments.name]
    if drafter not in lines:
        raise InvalidField(f"There is no drafter {drafter} for {arguments.name}.", remedy=f"It has {', '.join(lines)}.")
    if lines[drafter].needs_draft and arguments.draft is None:
        raise InvalidField(f"{drafter} needs a model or head of its own.", remedy="Name its folder: --draft FOLDER.")
    if arguments.context is not None and arguments.context < 1:
        raise InvalidField("--context is a number of tokens, at least 1.", remedy="Correct it, or leave it out.")
    if arguments.name == "llama.cpp" and folder is not None and folder.is_dir():
        remedy = "Make a GGUF file of it with llama.cpp's convert_hf_to_gguf.py, or name another engine."
        raise InvalidField("llama.cpp reads GGUF files alone, and this is a folder.", remedy=remedy)
    return lines[drafter]


def _folder(model: str) -> Path | None:
    """Return where a model lies, by its name; None if it is not here."""
    folder = hub.find(model) if hub.is_hub_name(model) else Path(model)
    return folder if folder is not None and folder.exists() else None


def memory_of(
    path: Path, context: int | None = None, *, draft: Path | None = None
) -> dict[str, float | int | None] | None:
    """Return the bytes that a model takes: its files, the keys and values of one sequence, and the smallest card.

    `draft` is a draft model or head that is loaded beside it: its bytes are added.  The bytes of keys and values are
    None for a GGUF file, which is not opened, and for models that do not state their shape.  The result is None if
    there are no weights.
    """
    files = [path] if path.is_file() else [*path.glob("*.safetensors")] or [*path.glob("*.gguf")]
    weights = sum(file.stat().st_size for file in files)
    if not weights:
        return None
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        config = None
    config = config.get("text_config", config) if isinstance(config, dict) else {}
    n_tokens = context or min(config.get("max_position_embeddings", CONTEXT_TOKENS), CONTEXT_TOKENS)
    slot = _slot_bytes(config)
    cache = None if slot is None else slot * n_tokens
    if draft is not None and (more := memory_of(draft, n_tokens)) is not None:
        weights += int(more["weights"] or 0)
        cache = None if cache is None else cache + int(more["kv_cache"] or 0)
    needed = (weights + (cache or 0)) * ROOM
    card = next((gib for gib in CARDS_GIB if needed <= gib * 2**30), None)
    return {"weights": weights, "kv_cache": cache, "context": n_tokens, "smallest_card_gib": card}


def _slot_bytes(config: Mapping[str, Any]) -> int | None:
    """Return the bytes of one token's keys and values in 16 bits; None if the configuration does not say."""
    n_heads, n_layers = config.get("num_attention_heads"), config.get("num_hidden_layers")
    if not n_heads or not n_layers or not (config.get("head_dim") or config.get("hidden_size")):
        return None
    head = config.get("head_dim") or config["hidden_size"] // n_heads
    return int(2 * n_layers * (config.get("num_key_value_heads") or n_heads) * head * 2)


def _memory_words(memory: Mapping[str, Any] | None) -> str:
    if memory is None:
        return "The model's weights are not here, so its memory can't be told."
    cache = "" if memory["kv_cache"] is None else (
        f", keys and values of one sequence of {memory['context']:,} tokens {memory['kv_cache'] / 2**30:.1f} GiB"
    )  # fmt: skip
    card = memory["smallest_card_gib"]
    fits = f"a card of {card} GiB or more" if card else f"more than one card of {CARDS_GIB[-1]} GiB"
    return f"Weights {memory['weights'] / 2**30:.1f} GiB{cache}: {fits}."
