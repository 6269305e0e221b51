"""`make heads`: train a head that drafts for a pretrained model, in pieces of under ten minutes.

    python -m training.heads eagle3 --model runs/models/NAME [--steps 2000] [--run runs/heads/NAME-eagle3]

Heads: `medusa`, `eagle3`, and `p-eagle`, its parallel form.  The model stays as it is.  A head learns what the model
itself chooses along the samples that `make finetune-prepare` recorded: depth 0 is the first token that a draft has.
Beyond it `eagle3` reads its own states, as it does when it drafts, and its keys and values lie as they lie then
(training-time test).  Every piece leaves the head so far in `head/`, in the public layout, for `--draft-head`.
`scores.jsonl` has for each depth the share of right tokens, were those before it right.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn import functional as F  # noqa: N812

from apply_service.engine.attention import register
from apply_service.engine.heads.base import read_config, read_text
from apply_service.engine.heads.eagle3 import LAYER_KEY, Eagle3
from apply_service.engine.heads.medusa import Medusa
from apply_service.engine.torch_local import TorchEngine
from apply_service.engine.weights import dtype_of
from apply_service.errors import ApplyError, FileNotReadable
from training.batch import Array, Batch
from training.checkpoint import Progress
from training.finetune import PieceTrainer, digest_of_tokenizer, rows_of
from training.recorded import Recorded
from training.train_gpu import END_S, add_piece_arguments, bring_checkpoint, train_piece

KINDS = ("medusa", "eagle3", "p-eagle")
DEPTH_SHARE = 0.8
"""Weight of a depth's loss against that of the depth before it."""
DRAFT_VOCABULARY = 16_384
PROMPT = 0.5
"""Weight of a prompt's token.  The model reads it anyway, and code in a prompt teaches as code in an answer does."""


class Learnt(NamedTuple):
    """What one text teaches at one depth: logits [n, n_known], the right tokens among them [n] and weights [n]."""

    logits: torch.Tensor
    wanted: torch.Tensor
    weights: torch.Tensor


@dataclass
class Unrolled:
    """The attention of an EAGLE layer over all depths of a text, in the place of a pass.

    At depth j, row i drafts with the target's states up to row i - j.  So it sees the first depth's keys up to there,
    and behind them one key of each depth in between: those that stand in the cache when it drafts.
    """

    keys: list[torch.Tensor] = field(default_factory=list)
    values: list[torch.Tensor] = field(default_factory=list)

    def attend(
        self, _layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, scale: float, **_unused: Any
    ) -> torch.Tensor:
        """Do as `PackedPass.attend` does."""
        group = len(query) // len(key)
        self.keys.append(key.repeat_interleave(group, 0))
        self.values.append(value.repeat_interleave(group, 0))
        depth, rows = len(self.keys) - 1, torch.arange(query.shape[1], device=query.device)
        scores = query @ self.keys[0].transpose(1, 2) * scale
        scores = scores.masked_fill(rows[None] > rows[:, None] - depth, -torch.inf)
        moved = [(later.roll(depth - s, 1), told.roll(depth - s, 1)) for s, later, told in self._later()]
        beside = [(query * later).sum(-1, keepdim=True) * scale for later, _ in moved]
        weights = torch.cat([scores, *beside], -1).softmax(-1)
        found = weights[..., : len(rows)] @ self.values[0]
        for i, (_, told) in enumerate(moved):
            found = found + weights[..., len(rows) + i, None] * told
        return found.transpose(0, 1)

    def _later(self) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
        for s in range(1, len(self.keys)):
            yield s, self.keys[s], self.values[s]


@dataclass(frozen=True, slots=True)
class HeadShape:
    kind: str
    depth: int
    n_known: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class LearningHead:
    """A frozen model, and the head that learns from it."""

    def __init__(self, kind: str, folder: Path, device: str, known: Sequence[int], *, depth: int) -> None:
        """`known`: the model's ids that the head may draft, rising."""
        from transformers import AutoModelForCausalLM

        sizes = read_config(folder, kind)
        dtype = dtype_of("auto", torch.device(device), matrix=(sizes["hidden_size"], sizes["intermediate_size"]))
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, attn_implementation=register(), use_safetensors=True
        )
        engine = TorchEngine(model.eval().requires_grad_(False).to(device), name=kind, buckets=(4,), kv_cache_bytes=0)
        self.depth, self.engine, self.device = depth, engine, device
        self.is_narrow = dtype == torch.bfloat16
        self.config = config_of(model.config.get_text_config(), kind, len(known), depth)
        self.known: torch.Tensor | None = None
        self.head: Medusa | Eagle3
        if kind == "medusa":
            self.head = Medusa(engine, depth, has_bias=False)
            for parameter in self.head.parameters():
                torch.nn.init.zeros_(parameter)  # as the model's own head, one token late
            self.shape = HeadShape(kind, depth, engine.n_vocab)
        else:
            self.head = Eagle3(engine, self.config)
            self.known = torch.tensor(known, device=device)
            with torch.no_grad():
                self.head.lm_head.weight.copy_(model.get_output_embeddings().weight[self.known])
            self.shape = HeadShape(kind, depth, len(known))
        self.head.to(device).float()

    def state_dict(self) -> dict[str, torch.Tensor]:
        return dict(self.head.state_dict())

    def load_state_dict(self, state: dict[str, torch.Tensor], /) -> object:
        return self.head.load_state_dict(state)

    def learn(self, ids: torch.Tensor, weights: torch.Tensor) -> Iterator[Learnt]:
        """Yield what a text [n] teaches at each depth.  `weights` [n] are those of its tokens."""
        with torch.no_grad():
            states = read_text(self.engine, ids.tolist())
            choices = torch.cat([self.engine.head(part[None]).argmax(-1) for part in torch.split(states[-1], 256)])
        watched = torch.cat([states[layer] for layer in self.head.watched], -1)
        rows = torch.arange(len(ids) - 2, device=self.device)
        for depth, logits in enumerate(self._logits(watched, ids, rows)):
            # Row i says what the model chooses after token i + 1.
            wanted, counts = choices[rows[depth:] + 1], weights[rows[depth:] + 2]
            if self.known is not None:
                place = torch.searchsorted(self.known, wanted).clamp(max=len(self.known) - 1)
                counts = counts * (self.known[place] == wanted)
                wanted = place
            chosen = counts > 0
            yield Learnt(logits(chosen), wanted[chosen], counts[chosen])

    def _logits(self, watched: torch.Tensor, ids: torch.Tensor, rows: torch.Tensor) -> Iterator[Any]:
        """Yield for each depth what gives the logits of the chosen ones among rows `depth` and on."""
        if isinstance(self.head, Medusa):
            for depth in range(self.depth):
                yield lambda chosen, depth=depth: self.head.say(watched[: len(rows) - depth][chosen], depth)
            return
        head, unrolled = self.head, Unrolled()
        embed = self.engine.model.get_input_embeddings()
        words, positions = embed(ids[1:-1])[None].to(watched.dtype), rows[None]
        features = head.fuse(watched[: len(rows)])
        for depth in range(self.depth):
            states = head.forward(words, features[None], positions, apply_pass=unrolled)[0]
            yield lambda chosen, depth=depth, states=states: head.logits(head.norm(states[depth:][chosen]))
            features = states.roll(1, 0)
            if head.n_masked:
                token, feature = head.mask()
                words = embed(torch.tensor([[token]], device=self.device)).expand_as(words).to(watched.dtype)
                features = feature.expand_as(features)

    def write(self, folder: Path) -> Path:
        """The head in the public layout.  Returns the file."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.config, indent=2), encoding="utf-8")
        dtype = next(self.engine.model.parameters()).dtype
        tensors = {name: one.detach().to("cpu", dtype).contiguous() for name, one in self.head.state_dict().items()}
        if isinstance(self.head, Medusa):
            tensors = {name.removeprefix("heads.").replace(".layers.", "."): one for name, one in tensors.items()}
            tensors = {name.replace(".weight", ".linear.weight"): one for name, one in tensors.items()}
        elif self.known is not None:
            known = self.known.cpu()
            tensors["d2t"] = known - torch.arange(len(known))
            tensors["t2d"] = torch.isin(torch.arange(self.engine.n_vocab), known)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return folder / "model.safetensors"


def config_of(target: Any, kind: str, n_known: int, depth: int) -> dict[str, Any]:
    """What stands in config.json: a layer as the target's are, without biases."""
    n_layers = target.num_hidden_layers
    watched = (2, n_layers // 2, n_layers - 3) if n_layers > 6 else (0, n_layers // 2, n_layers)
    found = {
        name: getattr(target, name)
        for name in ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "vocab_size")
    }
    found |= {"max_position_embeddings": target.max_position_embeddings, "rms_norm_eps": target.rms_norm_eps}
    found |= {"rope_parameters": target.rope_parameters, "head_dim": getattr(target, "head_dim", None)}
    found |= {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "num_hidden_layers": 1}
    found |= {"draft_vocab_size": n_known, "eagle_config": {LAYER_KEY: list(watched), "use_aux_hidden_state": True}}
    if kind == "p-eagle":
        mask_id = target.vocab_size - 1
        found |= {"parallel_drafting": True, "ptd_token_id": mask_id, "num_speculative_tokens": depth}
    if kind == "medusa":
        found = {"model_type": "medusa", "medusa_num_heads": depth, "medusa_num_layers": 1}
    return {name: value for name, value in found.items() if value is not None}


class HeadTrainer(PieceTrainer):
    """A run that trains a head."""

    def __init__(self, network: LearningHead, run: Path, *, steps: int, lr: float) -> None:
        super().__init__(network, network.head.parameters(), run, steps=steps, lr=lr)
        self.network = network

    def step(self, batch: Batch) -> float:
        return super().step(with_prompts(batch))

    def parts(self, batch: Batch) -> Iterator[tuple[torch.Tensor, int]]:
        for text in texts_of(batch):
            losses = [
                DEPTH_SHARE**depth * (F.cross_entropy(one.logits, one.wanted, reduction="none") * one.weights).sum()
                for depth, one in enumerate(self.learn(text))
            ]
            yield torch.stack(losses).sum(), len(text[0])

    def learn(self, text: tuple[Array, Array]) -> Iterator[Learnt]:
        """Yield what a text teaches at each depth, logits in float32."""
        network = self.network
        ids, weights = (torch.from_numpy(part).to(network.device) for part in text)
        with torch.autocast(network.device, torch.bfloat16, enabled=network.is_narrow):
            for one in network.learn(ids, weights):
                yield one._replace(logits=one.logits.float())


def with_prompts(batch: Batch) -> Batch:
    """Give weights to the tokens of prompts: all that have none, up to the last token of a row that has one."""
    is_read = np.flip(np.maximum.accumulate(np.flip(batch.weights, 1), 1), 1) > 0
    weights = np.where(is_read & (batch.weights == 0), np.float32(PROMPT), batch.weights)
    return batch._replace(weights=weights)


def texts_of(batch: Batch) -> list[tuple[Array, Array]]:
    """Ids and weights of each text in a batch: several are packed into a row, and their positions begin again."""
    found = []
    for ids, positions, weights in rows_of(batch):
        bounds = [*np.flatnonzero(positions == 0).tolist(), len(ids)]
        for start, stop in pairwise(bounds):
            if stop - start > 2:
                found.append((ids[start:stop], weights[start:stop]))
    return found


@torch.no_grad()
def score(trainer: HeadTrainer, batches: Sequence[Batch]) -> dict[str, float]:
    """On held-out samples: for each depth the share of tokens that are the model's own choice, by weight."""
    depth = trainer.network.depth
    right, total = np.zeros(depth), np.zeros(depth)
    for text in (text for batch in batches for text in texts_of(batch)):
        for j, one in enumerate(trainer.learn(text)):
            right[j] += float(((one.logits.argmax(-1) == one.wanted) * one.weights).sum())
            total[j] += float(one.weights.sum())
    return {f"right_{j}": round(right[j] / max(1e-9, total[j]), 6) for j in range(depth)}


def frequent_ids(recorded: Recorded, n: int, n_vocab: int) -> list[int]:
    """The `n` tokens of `n_vocab` that occur most in the samples, rising."""
    ids = np.concatenate([ids for chunk in recorded.chunks for group in chunk for ids, _, _ in group])
    return sorted(np.argsort(-np.bincount(ids, minlength=n_vocab), kind="stable")[:n].tolist())


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    try:
        progress = run(options)
    except ApplyError as error:
        sys.exit(f"{error.code}: {error.message} ({error.value}); {error.remedy}")
    left = options.steps - progress.step
    print(f"{left} steps left; run the same command again" if left > 0 else f"the run is complete: {options.run}/head")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m training.heads", description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--model", type=Path, required=True, help="folder of the model that it is to draft for")
    parser.add_argument("--depth", type=int, default=4, help="tokens of a draft that are learnt")
    parser.add_argument("--vocabulary", type=int, default=DRAFT_VOCABULARY, help="tokens that an EAGLE head knows")
    add_piece_arguments(parser, run=None, steps=2_000, lr=5e-4)
    options = parser.parse_args(arguments)
    options.run = options.run or Path("runs/heads") / f"{options.model.name}-{options.kind}"
    options.batches = options.batches or Path("runs/finetune") / options.model.name / "batches.safetensors.xz"
    return options


def run(options: argparse.Namespace) -> Progress:
    """One piece.  Raises FileNotReadable: there are no recorded samples, they are of another tokenizer, or the parts of
    the checkpoint are damaged."""
    stop_s = time.monotonic() + options.piece_s - END_S
    recorded = Recorded.read(options.batches)
    if recorded.origin.get("tokenizer") != digest_of_tokenizer(options.model):
        message, remedy = "the samples are of another model's tokenizer", "make them again: make finetune-prepare"
        raise FileNotReadable(message, value=str(options.batches), remedy=remedy)
    bring_checkpoint(options.run)
    torch.manual_seed(options.seed)
    n_vocab = read_config(options.model, options.model.name)["vocab_size"]
    known = frequent_ids(recorded, options.vocabulary, n_vocab)
    network = LearningHead(options.kind, options.model, options.device, known, depth=options.depth)
    trainer = HeadTrainer(network, options.run, steps=options.steps, lr=options.lr)
    progress = train_piece(trainer, recorded, options, score, stop_s)
    print(network.write(options.run / "head"))
    return progress


if __name__ == "__main__":
    raise SystemExit(main())
