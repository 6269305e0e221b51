"""Twenty edits as models write them, of the files in `project`, and what each is to make of its file: `edits.md`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tests.edits.case_files import read_cases

HERE = Path(__file__).parent
PROJECT = HERE / "project"


class Edit(NamedTuple):
    """One edit."""

    kind: str
    file: str
    snippet: str
    before: str
    after: str


EDITS = tuple(
    Edit(case.name.split(": ", 1)[1], Path(case.fields["file"]).name, case.edit, case.original, case.wanted)
    for case in read_cases(HERE / "edits.md")
)
