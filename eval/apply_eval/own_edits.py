"""The default data set: real edits of the project that this package is checked out from, else the shipped ones.

A fresh clone can be measured with nothing else; an installed package, or a shallow clone, takes the fixture.
"""

from __future__ import annotations

from pathlib import Path

from apply_eval.datasets import EditRecord, read_records
from apply_eval.errors import DataError, GitError
from apply_eval.mine import MineFilter, mine

FIXTURE = Path(__file__).parent / "fixtures" / "own_edits.jsonl"
ROOT = Path(__file__).resolve().parents[2]
MIN_EDITS = 10
"""A history that gives less is no data set."""
LICENCE = "Apache-2.0"


def own_records(*, limit: int, max_lines: int, seed: int, root: Path = ROOT) -> list[EditRecord]:
    """At most `limit` edits of files of at most `max_lines`, mined from the git history at `root`; the same history and
    seed give the same edits.

    Raises:
        DataError: not even the shipped edits have one as short as that.
    """
    filters = MineFilter(max_lines=max_lines, min_lines=min(MineFilter().min_lines, max_lines))
    try:
        found = list(mine(root, filters=filters, limit=limit, seed=seed, styles="mixed", licence=LICENCE))
    except (DataError, GitError):
        found = []
    if len(found) < min(MIN_EDITS, limit):
        found = [r for r in read_records(FIXTURE) if r.measures.n_lines_before <= max_lines][:limit]
    if not found:
        raise DataError(f"no shipped edit has {max_lines} lines or less", value=0, limit=1, remedy="raise --max-lines")
    return found
