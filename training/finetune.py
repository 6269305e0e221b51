"""`make finetune`: teach a pretrained model to merge, by a LoRA adapter, in pieces of under ten minutes.

    python -m training.finetune --model runs/models/NAME --base OWNER/ID [--steps 1000] [--run runs/finetune/NAME]

Needs torch, transformers, safetensors, numpy and peft (the extra `train`), and the samples that `make finetune-prepare`
recorded.  Pieces, checkpoints and parts are those of `training.train_gpu`.  Every piece leaves the adapter so far in
`adapter/`, of at most 16 MiB; `--adapter` of the service loads it.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn import functional as F  # noqa: N812

from apply_service.errors import ApplyError, FileNotReadable, missing_extra
from training.batch import Array, Batch
from training.checkpoint import Kept, Progress, load_checkpoint, save_checkpoint
from training.optimizer import set_rate
from training.recorded import Recorded
from training.train import CLIP, rate_at
from training.train_gpu import END_S, add_piece_arguments, bring_checkpoint, train_piece

MAX_BYTES = 16 * 2**20
"""Of an adapter's file."""
HEADER_BYTES = 64 * 2**10
MAX_RANK = 16
COPIED, CHANGED, WRONG = 0.1, 1.0, 2.0
"""Weights of the loss: of a token that the file and the draft have as the answer does, of one that the file has not,
and of one that the draft has not."""
SCORED = {"right": COPIED, "decisions_right": CHANGED, "wrong_drafts_right": WRONG}
"""Shares that are scored, each of the tokens of at least a weight."""


@dataclass(frozen=True, slots=True)
class LoraShape:
    rank: int
    alpha: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Adapted:
    """A pretrained model whose weights stay as they are, with an adapter that learns."""

    def __init__(self, folder: Path, rank: int | None, device: str, *, dtype: torch.dtype = torch.bfloat16) -> None:
        """`rank` None: the largest up to 16 that leaves a file of at most 16 MiB."""
        try:
            import peft
        except ImportError as error:
            raise missing_extra("An adapter is trained with peft", "train") from error
        from transformers import AutoModelForCausalLM

        self._peft = peft
        # With cuDNN's attention the loss became NaN in the second step on an H100 (torch 2.11); without it it did not.
        torch.backends.cuda.enable_cudnn_sdp(False)
        # The library sees from positions that begin again that a row holds several texts, and masks each from the rest.
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, attn_implementation="sdpa", use_safetensors=True
        )
        rank = rank or rank_that_fits(model)
        self.shape = LoraShape(rank, 2 * rank)
        config = peft.LoraConfig(
            r=rank, lora_alpha=2 * rank, target_modules="all-linear", lora_dropout=0.0, task_type="CAUSAL_LM"
        )
        self.model: Any = peft.get_peft_model(model, config).to(device)

    def learning(self) -> list[torch.nn.Parameter]:
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The adapter alone."""
        return dict(self._peft.get_peft_model_state_dict(self.model, save_embedding_layers=False))

    def load_state_dict(self, state: dict[str, torch.Tensor], /) -> object:
        return self._peft.set_peft_model_state_dict(self.model, state)

    def logits(self, ids: torch.Tensor, positions: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Of one row [n]: [n_places, n_vocab], each after the token at a place."""
        found = self.model(input_ids=ids[None], position_ids=positions[None], logits_to_keep=places, use_cache=False)
        logits: torch.Tensor = found.logits[0]
        return logits

    def write(self, folder: Path, base: str) -> Path:
        """The adapter as peft writes it, in bfloat16; `base` is the name of the model that it belongs to.  Returns the
        file.  Raises ValueError: it has more than 16 MiB."""
        folder.mkdir(parents=True, exist_ok=True)
        config = self.model.peft_config["default"]
        config.base_model_name_or_path, config.inference_mode = base, True
        config.target_modules = sorted(config.target_modules)
        config.save_pretrained(folder)
        tensors = {name: value.detach().to("cpu", torch.bfloat16) for name, value in self.state_dict().items()}
        file = folder / "adapter_model.safetensors"
        save_file({name: value.contiguous() for name, value in tensors.items()}, file, metadata={"format": "pt"})
        if (n_bytes := file.stat().st_size) > MAX_BYTES:
            raise ValueError(f"the adapter has {n_bytes:,} bytes, above {MAX_BYTES:,}: take a lower --rank")
        return file


def rank_that_fits(model: torch.nn.Module) -> int:
    """The largest rank up to 16 whose adapter of all linear layers but the head has at most 16 MiB in bfloat16."""
    head = model.get_output_embeddings()  # type: ignore[operator]
    layers = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear) and layer is not head]
    n_bytes = 2 * sum(layer.in_features + layer.out_features for layer in layers)
    return max(1, min(MAX_RANK, (MAX_BYTES - HEADER_BYTES) // n_bytes))


class PieceTrainer:
    """One run that may stop and go on: what learns, its optimizer, and where the run stands."""

    is_compiled = False

    def __init__(
        self, network: Kept, learning: Iterable[torch.nn.Parameter], run: Path, *, steps: int, lr: float
    ) -> None:
        """`network`: what a checkpoint holds; `learning`: the parameters that learn."""
        self._kept = network
        self._steps = steps
        self._learning = list(learning)
        self.optimizers = [torch.optim.AdamW(self._learning, lr=lr, betas=(0.9, 0.95), weight_decay=0.0)]
        self.path = run / "checkpoint.safetensors"
        self.progress = Progress()
        if self.path.exists():
            self.progress = load_checkpoint(self.path, network, self.optimizers)

    def leave_compiler(self) -> None:
        """Nothing is compiled."""

    def save(self) -> None:
        save_checkpoint(self.path, self._kept, self.optimizers, self.progress)

    def step(self, batch: Batch) -> float:
        """Make one update, and return the weighted mean loss."""
        start = time.perf_counter()
        set_rate(self.optimizers, rate_at(self.progress.step, self.progress.step / self._steps))
        total, loss, n_tokens = float(batch.weights[:, 1:].sum()), 0.0, 0
        for weighted, n_read in self.parts(batch):
            part = weighted / total
            part.backward()  # type: ignore[no-untyped-call]
            loss += part.item()
            n_tokens += n_read
        torch.nn.utils.clip_grad_norm_(self._learning, CLIP)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        seconds = time.perf_counter() - start
        self.progress = self.progress.after(tokens=n_tokens, seconds=seconds, place=batch.following)
        return loss

    def parts(self, batch: Batch) -> Iterator[tuple[torch.Tensor, int]]:
        """Yield the weighted sum of losses of each part of a batch, and the tokens that the part has."""
        raise NotImplementedError


class Finetuner(PieceTrainer):
    """A run that trains an adapter."""

    def __init__(self, network: Adapted, run: Path, *, steps: int, lr: float, device: str) -> None:
        super().__init__(network, network.learning(), run, steps=steps, lr=lr)
        self.network = network
        self.device = device

    def parts(self, batch: Batch) -> Iterator[tuple[torch.Tensor, int]]:
        for row in rows_of(batch):
            losses, weights = self.losses(row)
            yield (losses * weights).sum(), len(row[0])

    def losses(self, row: tuple[Array, Array, Array]) -> tuple[torch.Tensor, torch.Tensor]:
        """Losses and weights of the tokens of a row that have a weight [n_places] each."""
        logits, wanted, weights = self.decisions(row)
        return F.cross_entropy(logits, wanted, reduction="none"), weights

    def decisions(self, row: tuple[Array, Array, Array]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Logits [n_places, n_vocab] (float32), right ids and weights [n_places] of the tokens that have a weight."""
        ids, positions, weights = (torch.from_numpy(part).to(self.device) for part in row)
        places = weights[1:].nonzero()[:, 0]
        with torch.autocast(self.device, torch.bfloat16, enabled=self.network.model.dtype == torch.bfloat16):
            logits = self.network.logits(ids, positions, places)
        return logits.float(), ids[places + 1], weights[places + 1]


def digest_of_tokenizer(model: Path) -> str:
    """The sha256 of a model folder's tokenizer."""
    return hashlib.sha256((model / "tokenizer.json").read_bytes()).hexdigest()


def rows_of(batch: Batch) -> list[tuple[Array, Array, Array]]:
    """The rows of a batch without their padding; the last token of a row has a weight."""
    ends = [int(np.flatnonzero(weights)[-1]) + 1 for weights in batch.weights]
    return [(batch.ids[at, :n], batch.positions[at, :n], batch.weights[at, :n]) for at, n in enumerate(ends)]


@torch.no_grad()
def score(trainer: Finetuner, batches: Sequence[Batch]) -> dict[str, float]:
    """On held-out samples, each token given what is before it: the weighted mean loss, and the shares of tokens whose
    likeliest is the right one."""
    loss, n_right, n_all = 0.0, dict.fromkeys(SCORED, 0), dict.fromkeys(SCORED, 0)
    for row in (row for batch in batches for row in rows_of(batch)):
        logits, wanted, weights = trainer.decisions(row)
        loss += float((F.cross_entropy(logits, wanted, reduction="none") * weights).sum())
        is_right = logits.argmax(-1) == wanted
        for name, least in SCORED.items():
            n_right[name] += int(is_right[weights >= least].sum())
            n_all[name] += int((weights >= least).sum())
    total = sum(float(batch.weights[:, 1:].sum()) for batch in batches)
    shares = {name: round(n_right[name] / n, 6) for name, n in n_all.items() if n}
    return shares | {"held_out_loss": round(loss / max(1e-9, total), 6)}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    try:
        progress = run(options)
    except ApplyError as error:
        sys.exit(f"{error.code}: {error.message} ({error.value}); {error.remedy}")
    left = options.steps - progress.step
    print(
        f"{left} steps left; run the same command again" if left > 0 else f"the run is complete: {options.run}/adapter"
    )
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m training.finetune", description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="folder of the model")
    parser.add_argument("--base", help="what the adapter calls it, as its id on the hub; default: the folder's name")
    parser.add_argument("--rank", type=int, help="of the adapter; default: at most 16 and what 16 MiB hold")
    add_piece_arguments(parser, run=None, steps=1_000, lr=2e-4)
    options = parser.parse_args(arguments)
    options.base = options.base or options.model.name
    options.run = options.run or Path("runs/finetune") / options.model.name
    options.batches = options.batches or options.run / "batches.safetensors.xz"
    return options


def run(options: argparse.Namespace) -> Progress:
    """One piece.  Raises FileNotReadable: there are no recorded samples, they are of another tokenizer, or the parts of
    the checkpoint are damaged; MissingDependency: no peft."""
    stop_s = time.monotonic() + options.piece_s - END_S
    recorded = Recorded.read(options.batches)
    if recorded.origin.get("tokenizer") != digest_of_tokenizer(options.model):
        message, remedy = "the samples are of another model's tokenizer", "make them again: make finetune-prepare"
        raise FileNotReadable(message, value=str(options.batches), remedy=remedy)
    bring_checkpoint(options.run)
    torch.manual_seed(options.seed)
    network = Adapted(options.model, options.rank, options.device)
    trainer = Finetuner(network, options.run, steps=options.steps, lr=options.lr, device=options.device)
    progress = train_piece(trainer, recorded, options, score, stop_s)
    print(network.write(options.run / "adapter", options.base))
    return progress


if __name__ == "__main__":
    raise SystemExit(main())
