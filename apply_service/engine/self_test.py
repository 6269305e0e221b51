"""Which row counts give bit-equal rows on this device with this model: measured at start, not assumed.

A verified window may put a position at any row of any bucket; the lossless law holds bit for bit if its logits are
the same there as alone in a padded window.  Random tokens are run one a pass through the largest bucket (the oracle's
way), then in windows of every size; a bucket whose rows differ is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from apply_service.engine.torch_local import KEY_GRAIN, TorchEngine, TorchSession

N_PROBES = 16
PROMPT_LENGTH = KEY_GRAIN - 72
"""So that passes of few rows attend to one block of keys and passes of many rows to two: other lengths, same bits."""


@dataclass(frozen=True, slots=True)
class SelfTest:
    """What was found.  `differing_rows` is the share of probed rows whose logits differed in any bit, by bucket;
    `flipped_choices` the share whose argmax did."""

    buckets: tuple[int, ...]
    differing_rows: dict[int, float]
    flipped_choices: dict[int, float]

    @property
    def determinism(self) -> Literal["bitwise", "tolerant"]:
        return "bitwise" if self.differing_rows[max(self.differing_rows)] == 0.0 else "tolerant"


@torch.inference_mode()
def run_self_test(engine: TorchEngine, *, seed: int = 0) -> SelfTest:
    """Compare every bucket of `engine` with one-at-a-time decoding in the largest bucket."""
    generator = torch.Generator().manual_seed(seed)
    n_vocab = engine.model.config.get_text_config().vocab_size
    n_prompt = min(PROMPT_LENGTH, engine.context_limit - N_PROBES - 2)
    ids = torch.randint(0, n_vocab, (n_prompt + N_PROBES,), generator=generator).tolist()
    largest = engine.buckets[-1]
    differing, flipped = {}, {}
    with engine.open(ids[: n_prompt + 1], N_PROBES + 1) as session:
        assert isinstance(session, TorchSession)
        oracle = _logits(engine, session, ids[n_prompt:], n_rows=largest, step=1)
        for bucket in engine.buckets:
            steps = {1, min(5, bucket), min(bucket, N_PROBES)} - ({1} if bucket == largest > 1 else set())
            rows = [_logits(engine, session, ids[n_prompt:], n_rows=bucket, step=step) for step in steps]
            differing[bucket] = max(float((r != oracle).any(dim=-1).float().mean()) for r in rows)
            flipped[bucket] = max(float((r.argmax(-1) != oracle.argmax(-1)).float().mean()) for r in rows)
    equal = tuple(bucket for bucket in engine.buckets if differing[bucket] == 0.0)
    return SelfTest(equal if largest in equal else (largest,), differing, flipped)


def _logits(engine: TorchEngine, session: TorchSession, ids: list[int], *, n_rows: int, step: int) -> torch.Tensor:
    """Logits [len(ids), vocab] after each of `ids`, decoded `step` tokens a pass in windows of `n_rows` rows; the
    session is left as it was."""
    rows = []
    for start in range(0, len(ids), step):
        chunk = ids[start : start + step]
        hidden = engine._hidden(session, chunk, n_rows)
        rows.append(engine.head(hidden)[: len(chunk)].float().clone())
        session.length += len(chunk)
    session.rewind(len(ids))
    return torch.cat(rows)
