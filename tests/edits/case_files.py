"""Example edits as case files: how `tests/edits/cases/**/*.md` are read.  Their README says how they are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CASES = Path(__file__).parent / "cases"
MARGIN = "    "
FILE, EDIT, WANTED = " =.-!", " =+!>", " =.+*"
"""The signs of the lines that stand in each of the three texts."""
GAP = "@@"
FIELDS = frozenset(("asks", "certainty", "file", "instruction", "language", "line ends", "no final newline", "path"))


@dataclass(frozen=True, slots=True)
class Case:
    """One example edit.  `fields`: what the case and its group say besides the texts."""

    name: str
    original: str
    edit: str
    wanted: str
    fields: Mapping[str, str]

    def said(self, field: str) -> str | None:
        return self.fields.get(field)


def read_all(folder: Path = CASES) -> list[Case]:
    """Every case below the folder, in order of its file and place."""
    return [case for path in sorted(folder.rglob("*.md")) if path.name != "README.md" for case in read_cases(path)]


def read_cases(path: Path) -> list[Case]:
    """The cases of one file."""
    title = path.relative_to(CASES if path.is_relative_to(CASES) else path.parent).with_suffix("").as_posix()
    group: dict[str, str] = {}
    shared: list[str] | None = None
    cases = []
    for level, heading, fields, lines in _sections(path.read_bytes().decode().split("\n")):
        where = f"{title}: {heading}"
        assert fields.keys() <= FIELDS, f"{where}: unknown fields {fields.keys() - FIELDS}"
        if level < 3:
            group, shared = fields, lines or None
            if "file" in fields:
                shared = (path.parent / fields["file"]).read_text(encoding="utf-8").splitlines()
            continue
        texts = _texts(lines, shared, where)
        known = group | fields
        end = {"crlf": "\r\n"}.get(known.get("line ends", ""), "\n")
        open_ended = known.get("no final newline", "").split(", ")
        written = (
            (end if name != "edit" else "\n").join([*text, ""] if text and name not in open_ended else text)
            for name, text in zip(("file", "edit", "wanted"), texts, strict=True)
        )
        cases.append(Case(where, *written, known))
    names = [case.name for case in cases]
    assert len({*names}) == len(names), f"{title}: two cases have one name"
    return cases


def _sections(lines: Sequence[str]) -> Iterator[tuple[int, str, dict[str, str], list[str]]]:
    """Each heading with its level, its fields and its indented lines, without their margin."""
    starts = [n for n, line in enumerate(lines) if line.startswith("#")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        signs, _, heading = lines[start].partition(" ")
        fields = {}
        code: list[str] = []
        for line in lines[start + 1 : end]:
            name, colon, value = line.partition(": ")
            if not line.strip() or line.startswith(MARGIN):
                code.append(line[len(MARGIN) :])
            elif colon and name in FIELDS and not any(code):
                fields[name] = value
            else:
                assert not any(code), f"{heading}: {line!r} is neither indented nor a field"
        while code and not code[0]:
            del code[0]
        while code and not code[-1]:
            del code[-1]
        yield len(signs), heading, fields, code


def _texts(listing: Sequence[str], shared: Sequence[str] | None, where: str) -> tuple[list[str], list[str], list[str]]:
    """The lines of file, edit and wanted text."""
    pieces: list[list[str]] = [[]]
    for line in listing:
        if line == GAP:
            pieces.append([])
        else:
            pieces[-1].append(line or " ")
    assert all(line[0] in FILE + EDIT + WANTED for piece in pieces for line in piece), f"{where}: no such sign"
    edit = [line[1:] for piece in pieces for line in piece if line[0] in EDIT]
    if shared is None:
        assert len(pieces) == 1, f"{where}: a gap, but no file of its group"
        old, new = ([line[1:] for line in pieces[0] if line[0] in signs] for signs in (FILE, WANTED))
        return old, edit, new
    wanted: list[str] = []
    done = 0
    for piece in pieces:
        old, new = ([line[1:] for line in piece if line[0] in signs] for signs in (FILE, WANTED))
        found = [n for n in range(len(shared) - len(old) + 1) if [*shared[n : n + len(old)]] == old]
        assert len(found) == 1, f"{where}: {old} stands {len(found)} times in the file"
        assert found[0] >= done, f"{where}: {old} stands above what comes before it"
        wanted += [*shared[done : found[0]], *new]
        done = found[0] + len(old)
    return [*shared], edit, [*wanted, *shared[done:]]
