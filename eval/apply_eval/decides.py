"""`apply-eval target`: what a target decides better than the merger, counted by kind of edit.

Each edit that its format does not determine is answered twice: by the merger, and by the target token by token.  A
merge that is no guess has to be beaten: of the edits that one of both alone gets right, the target must get more than
half, whatever the interval.  A guess is refused without a target, so there the target must be right more often than
wrong.  What is counted goes into the model's record, or into the setting `decides`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from apply_eval.datasets import EditRecord
from apply_eval.statistics import Interval, wilson
from apply_service.engine.record import KINDS, Count, Kind
from apply_service.errors import ApplyError
from apply_service.models import RECORD_FILE
from apply_service.pipeline import apply, read_request
from apply_service.strategies import kind_of
from apply_service.target import Runtime
from apply_service.text.fidelity import normalise
from apply_service.types import ApplyRequest

HALF = 0.5


class Pair(NamedTuple):
    """One edit, and who is right on it."""

    kind: Kind
    is_merge_right: bool
    is_target_right: bool


def compare_edit(record: EditRecord, runtime: Runtime, timeout_s: float | None = None) -> Pair | None:
    """Answer an edit both ways; None if its format determines the text, or if it can't be read.  A target without an
    answer in time is not right."""
    request = ApplyRequest(record.before, record.update, path=record.path, timeout_s=timeout_s, strategy="model")
    try:
        job = read_request(request, runtime).job
    except ApplyError:
        return None
    if (kind := kind_of(job)) is None:
        return None
    try:
        is_target_right = apply(request, runtime).merged_code == record.after
    except ApplyError:
        is_target_right = False
    return Pair(kind, job.prediction.text == normalise(record.after), is_target_right)


def count_kinds(pairs: Iterable[Pair]) -> dict[Kind, Count]:
    """The counts of each kind that there is."""
    pairs = list(pairs)
    by_kind = {kind: [pair for pair in pairs if pair.kind == kind] for kind in KINDS}
    return {kind: judge(kind, found) for kind, found in by_kind.items() if found}


def judge(kind: Kind, pairs: Sequence[Pair]) -> Count:
    """Whether the target may decide edits of this kind."""
    n_merge = sum(pair.is_merge_right for pair in pairs)
    n_target = sum(pair.is_target_right for pair in pairs)
    n_won = sum(pair.is_target_right and not pair.is_merge_right for pair in pairs)
    n_lost = sum(pair.is_merge_right and not pair.is_target_right for pair in pairs)
    if kind in ("guess", "instruction"):
        interval = wilson(n_target, len(pairs))
    else:
        interval = wilson(n_won, n_won + n_lost) if n_won + n_lost else Interval(0.0, 1.0)
    return Count(len(pairs), n_merge, n_target, round(interval.low, 4), round(interval.high, 4), interval.low > HALF)


def print_counts(counts: Mapping[Kind, Count]) -> None:
    """Print a sentence for each kind, and the setting that follows."""
    for kind, count in counts.items():
        share = f"{count.low:.0%} to {count.high:.0%}"
        alone = "right in" if kind in ("guess", "instruction") else "of those that one alone gets right, it gets"
        verdict = "the target decides" if count.decides else "the merge stays"
        if kind == "guess" and not count.decides:
            verdict = "not asked"
        print(
            f"{kind}: {count.n} edits; the merge is right in {count.merge_right}, the target in "
            f"{count.target_right} ({alone} {share}): {verdict}"
        )
    decided = [kind for kind, count in counts.items() if count.decides]
    print(f"--decides {','.join(decided) or 'none'}")


def write_counts(folder: Path, counts: Mapping[Kind, Count]) -> Path:
    """Put the counts into the record of a model's folder, whose other entries stay.  Raises OSError, ValueError."""
    path = folder / RECORD_FILE
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    values["counts"] = {kind: count._asdict() for kind, count in counts.items()}
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    return path
