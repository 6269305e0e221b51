"""What the chooser of readings is fitted to: real edits with all their readings, each told right or wrong.

Reads sets, asks the merger, compares; fits nothing.  What figures are reported on is refused here: development sets,
the `check` split, and their repositories under any other name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from apply_eval.datasets import EditRecord, join_updates, read_records
from apply_eval.errors import DataError
from apply_eval.scores import is_slight
from apply_service.errors import ApplyError
from apply_service.reply.reader import detect_format
from apply_service.text.fidelity import normalise, restore
from apply_service.types import Reading
from training.corpus import is_excluded

CHECK_REPOSITORIES = frozenset(
    {"catchorg/catch2", "square/retrofit", "uber-go/zap", "reduxjs/redux-toolkit", "pypa/hatch"}
)
"""Of the `check` split of `model_written_fit`."""
REPORTED_ON = re.compile(r"(^|[^a-z])(dev|check|test)([^a-z]|$)")
"""In the name of a file that nothing may be fitted to."""
LAZY = "lazy_snippet"

Readings = Callable[[EditRecord], Sequence[tuple[Reading, float]]]
"""The readings of an edit, each with the most that its probability may be."""


class Choice(NamedTuple):
    """One edit: the features of its readings in the merger's order, which of them give the wanted text, and the most
    that the probability of each may be.  No reading where the merger refused.  `weight` is how much it counts, `source`
    the file it came from."""

    id: str
    source: str
    repo: str
    style: str
    weight: float
    features: tuple[Mapping[str, float], ...]
    right: tuple[bool, ...]
    limits: tuple[float, ...]
    slight: tuple[bool, ...] = ()
    """Which readings are wrong in white space, blank lines and words of comments alone."""


def read_fit_records(path: Path, updates: Path | None = None) -> list[EditRecord]:
    """The records of a set that may be fitted to, with other snippets where `updates` has some; those of a `check`
    split are left out.  Raises DataError: a set that is reported on, a record of a repository that is, a record without
    a repository, or nothing that is left."""
    for file in (path, updates):
        if file is not None and REPORTED_ON.search(file.name.lower()):
            raise DataError(f"{file.name} is reported on: nothing may be fitted to it", value=file.name)
    records = [record for record in read_records(path) if record.split in ("", "fit")]
    if not records:
        raise DataError(f"{path.name} has no record that may be fitted to", value=path.name)
    for repo in sorted({record.repo for record in records}):
        if not repo or is_excluded(repo) or repo.lower() in CHECK_REPOSITORIES:
            raise DataError(f"{path.name} has records of {repo or 'no repository'}: nothing may be fitted to them")
    return records if updates is None else join_updates(records, updates)


def collect(
    records: Iterable[EditRecord], readings_of: Readings, *, source: str, weight: float = 1.0, n_processes: int = 1
) -> tuple[list[Choice], int]:
    """The choices of a set, and how many records it has in other formats than lazy snippets.  Raises DataError:
    readings of different features, or a feature that is not finite."""
    one = partial(_choice, readings_of=readings_of, source=source, weight=weight)
    if n_processes == 1:
        made = [one(record) for record in records]
    else:
        with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
            made = list(pool.map(one, records, chunksize=20))
    choices = [choice for choice in made if choice is not None]
    names = {frozenset(reading) for choice in choices for reading in choice.features}
    if len(names) > 1:
        differing = sorted(frozenset.union(*names) - frozenset.intersection(*names))
        raise DataError(f"readings of {source} differ in their features: {', '.join(differing)}", value=differing)
    if not all(math.isfinite(x) for choice in choices for reading in choice.features for x in reading.values()):
        raise DataError(f"a feature of a reading of {source} is not finite")
    return choices, len(made) - len(choices)


def _choice(record: EditRecord, *, readings_of: Readings, source: str, weight: float) -> Choice | None:
    """The choice of an edit; None in another format than lazy snippets."""
    if detect_format(normalise(record.update), named=None) != LAZY:
        return None
    try:
        readings = readings_of(record)
    except ApplyError:
        readings = ()
    texts = [restore(record.before, reading.ops) for reading, _ in readings]
    right = tuple(text == record.after for text in texts)
    slight = tuple(text != record.after and is_slight(record.after, text) for text in texts)
    features = tuple(dict(reading.features) for reading, _ in readings)
    limits = tuple(limit for _, limit in readings)
    return Choice(record.id, source, record.repo, record.style, weight, features, right, limits, slight)


def feature_names(choices: Sequence[Choice]) -> tuple[str, ...]:
    """The features of all readings, in the order of the first.  Raises DataError: there is no reading, or sets differ
    in their features."""
    all_names = [tuple(reading) for choice in choices for reading in choice.features]
    if not all_names or any({*names} != {*all_names[0]} for names in all_names):
        raise DataError("there is no reading, or the sets differ in their features", value=len(all_names))
    return all_names[0]
