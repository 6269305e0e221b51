"""Timed runs, and the figures by target, batch and contender that are made of them: medians of speeds and times, means
of counts, ratios of paired runs with intervals.

`plain` is a contender of its own here: of every group of edits the faster of the undrafted runs.  Every speed-up
divides by it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from apply_eval.statistics import median, median_interval, share_of

PLAIN, PLAIN_ENGINE, PLAIN_PEER, LOOKUP_PEER = "plain", "plain_engine", "hf_plain", "hf_prompt_lookup"
WIDE_LOOKUP_PEER = "hf_prompt_lookup_128"
UNDRAFTED = (PLAIN_ENGINE, PLAIN_PEER)
BASELINES = (PLAIN, LOOKUP_PEER, WIDE_LOOKUP_PEER)
"""What ratios are given against; the library's prompt lookup takes a single edit at a time."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one contender on edits decoded together; times in seconds, counts summed over the edits.

    `decode_s` runs from the moment when every prompt is prefilled to the last token; `n_tokens` are the tokens
    committed in it, `passes` the forwards, counted for each edit.  `first_token_s` is the median over the edits, from
    the request on; `end_to_end_s` ends with the merged text of the last edit.  Where `is_capped`, only the beginning of
    each output was decoded, and there is no end-to-end time.
    """

    target: str
    contender: str
    batch: int
    group: str
    """The ids of the edits, which pair the contenders' samples."""
    n_prompt_tokens: int
    n_tokens: int
    n_chars: int
    """Characters of the text that `n_tokens` stand for."""
    decode_s: float
    first_token_s: float
    passes: int
    drafted: int
    accepted: int
    rejections: int
    is_capped: bool
    end_to_end_s: float | None
    draft_s: float | None
    """Seconds spent on drafting, within `decode_s`; None where the peer does not tell."""
    n_exact: int
    """Edits whose text is the wanted one; of a capped output: its beginning."""
    captures: int = 0
    """Kinds of passes that were captured as CUDA graphs while it ran: what they took is in its times."""

    @property
    def tok_s(self) -> float:
        """Tokens a second of decoding, over all edits of the batch."""
        return self.n_tokens / self.decode_s

    def as_json(self) -> dict[str, Any]:
        return {name: round(value, 6) if isinstance(value, float) else value for name, value in asdict(self).items()}


def with_plain(samples: Sequence[Sample]) -> list[Sample]:
    """The samples, and for every group its `plain`: the undrafted run that decoded faster."""
    best: dict[tuple[str, int, str], Sample] = {}
    for sample in samples:
        if sample.contender in UNDRAFTED:
            key = (sample.target, sample.batch, sample.group)
            best[key] = max(best.get(key, sample), sample, key=lambda s: s.tok_s)
    return [*(replace(sample, contender=PLAIN) for sample in best.values()), *samples]


def summarise(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """One row for every target, batch and contender, in the order in which they came, `plain` first."""
    by_key: dict[tuple[str, int, str], list[Sample]] = {}
    for sample in sorted(with_plain(samples), key=lambda s: (s.batch, s.contender != PLAIN)):
        by_key.setdefault((sample.target, sample.batch, sample.contender), []).append(sample)
    targets = list(dict.fromkeys(sample.target for sample in samples))
    return [_row(key, by_key) for key in sorted(by_key, key=lambda key: targets.index(key[0]))]


MEDIANS: Mapping[str, Callable[[Sample], float | None]] = {
    "tok_s": lambda s: s.tok_s,
    "decode_chars_s": lambda s: s.n_chars / s.decode_s,
    "chars_s": lambda s: share_of(s.n_chars, s.end_to_end_s),
    "first_token_s": lambda s: s.first_token_s,
    "end_to_end_s": lambda s: s.end_to_end_s,
}


def _row(key: tuple[str, int, str], by_key: Mapping[tuple[str, int, str], list[Sample]]) -> dict[str, Any]:
    target, batch, contender = key
    samples = by_key[key]
    row: dict[str, Any] = {"target": target, "batch": batch, "contender": contender, "n": len(samples)}
    for name, of in MEDIANS.items():
        middle = median([value for value in map(of, samples) if value is not None])
        row[name] = None if middle is None else round(middle, 6)
    row |= _shares(samples)
    row |= {"n_exact": sum(sample.n_exact for sample in samples), "n_edits": batch * len(samples)}
    for baseline in BASELINES:
        ratio = _ratio(samples, by_key.get((target, batch, baseline), []))
        if ratio is not None and contender != baseline:
            row[f"vs_{baseline}"] = ratio
    return row


def _shares(samples: Sequence[Sample]) -> dict[str, float | None]:
    """Counts of all samples over counts of all samples; by edit only where outputs are whole."""
    total = {name: sum(getattr(s, name) for s in samples) for name in ("passes", "drafted", "accepted", "rejections")}
    n_edits = 0 if any(s.is_capped for s in samples) else sum(s.batch for s in samples)
    draft_s = None if any(s.draft_s is None for s in samples) else sum(s.draft_s or 0.0 for s in samples)
    found = {
        "tokens_per_pass": share_of(sum(s.n_tokens for s in samples), total["passes"]),
        "passes_per_edit": share_of(total["passes"], n_edits),
        "rejections_per_edit": share_of(total["rejections"], n_edits),
        "acceptance": share_of(total["accepted"], total["drafted"]),
        "draft_us_per_token": None if draft_s is None else share_of(1e6 * draft_s, total["drafted"]),
    }
    return {name: None if value is None else round(value, 6) for name, value in found.items()}


def _ratio(samples: Sequence[Sample], baseline: Sequence[Sample]) -> dict[str, Any] | None:
    """Of the decoding speeds, over the groups that both ran: median, its interval (None below two), and how many."""
    speeds = {sample.group: sample.tok_s for sample in baseline}
    ratios = [sample.tok_s / speeds[sample.group] for sample in samples if sample.group in speeds]
    if not ratios:
        return None
    interval = median_interval(ratios, seed=0)
    bounds = (None, None) if interval is None else (round(interval.low, 4), round(interval.high, 4))
    return {"median": round(statistics.median(ratios), 4), "low": bounds[0], "high": bounds[1], "n": len(ratios)}
