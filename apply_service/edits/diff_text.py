"""The unified diff of an answer, as git writes it and `git apply` takes it.

Only renders; reading diffs is `unified_diff`'s work.  Lines end at `\\n` alone here, as git has it: the `\\r` of a CRLF
file is part of the diff's lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from apply_service.edits.line_diff import Hunk, diff_lines

CONTEXT_LINES = 3
NO_NEWLINE = "\\ No newline at end of file"
NOTHING = "/dev/null"
PLAIN_MODE = "100644"
EXECUTABLE_MODE = "100755"


@dataclass(frozen=True, slots=True)
class FileNames:
    """What a diff's header says of one file.  `source`: its name before, None for a new one; `path`: its name after,
    None for a deleted one; modes as git writes them, None where they stay."""

    source: str | None
    path: str | None
    is_copy: bool = False
    new_mode: str | None = None


def unified_diff_text(original: str, merged: str, path: str) -> str:
    """The diff; empty where the texts are equal.  An empty original is a new file, as everywhere in the service."""
    if original == merged:
        return ""
    return change_diff_text(original, merged, FileNames(None if original == "" else path, path))


def change_diff_text(original: str, merged: str, names: FileNames) -> str:
    """The diff of a change that may also create, delete, move or copy the file, or set its mode."""
    old, new = _lines(original), _lines(merged)
    out = [*_change_headers(names)]
    hunks = [line for group in _groups(diff_lines(old, new)) for line in _hunk(old, new, group)]
    if original != merged:
        out += (*_text_headers(names), *hunks)
    return "".join(line + "\n" for line in out)


def _lines(text: str) -> list[str]:
    """Lines with their ends: a last line without one differs from the same line with one."""
    *whole, last = text.split("\n")
    return [line + "\n" for line in whole] + ([last] if last else [])


def _change_headers(names: FileNames) -> Iterator[str]:
    old, new = _shown(names.source or names.path), _shown(names.path or names.source)
    yield f"diff --git {_quoted('a/' + old)} {_quoted('b/' + new)}"
    if names.source is None:
        yield f"new file mode {names.new_mode or PLAIN_MODE}"
    elif names.path is None:
        yield f"deleted file mode {PLAIN_MODE}"
    elif names.new_mode is not None:
        yield f"old mode {PLAIN_MODE if names.new_mode != PLAIN_MODE else EXECUTABLE_MODE}"
        yield f"new mode {names.new_mode}"
    if old != new:
        word = "copy" if names.is_copy else "rename"
        yield f"{word} from {_quoted(old)}"
        yield f"{word} to {_quoted(new)}"


def _text_headers(names: FileNames) -> Iterator[str]:
    for sign, side, path in (("---", "a/", names.source), ("+++", "b/", names.path)):
        quoted = NOTHING if path is None else _quoted(side + _shown(path))
        # git ends a name that holds a blank with a tab, so that no date can be read into it
        yield f"{sign} {quoted}" + ("\t" if " " in quoted and not quoted.startswith('"') else "")


def _shown(path: str | None) -> str:
    return (path or "").lstrip("/") or "file"


def _quoted(path: str) -> str:
    """The path as git quotes it: in C style where it holds quotes, backslashes or control characters."""
    if not any(character in '"\\' or character < " " or character == "\x7f" for character in path):
        return path
    return '"' + "".join(_escaped(character) for character in path) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character < " " or character == "\x7f":
        return f"\\{ord(character):03o}"
    return character


def _groups(hunks: Sequence[Hunk]) -> Iterator[list[Hunk]]:
    """Hunks whose context would touch or overlap, together."""
    group: list[Hunk] = []
    for hunk in hunks:
        if group and hunk.a0 - group[-1].a1 > 2 * CONTEXT_LINES:
            yield group
            group = []
        group.append(hunk)
    if group:
        yield group


def _hunk(old: Sequence[str], new: Sequence[str], group: Sequence[Hunk]) -> Iterator[str]:
    before = min(CONTEXT_LINES, group[0].a0)
    after = min(CONTEXT_LINES, len(old) - group[-1].a1)
    a0, b0 = group[0].a0 - before, group[0].b0 - before
    a1, b1 = group[-1].a1 + after, group[-1].b1 + after
    yield f"@@ -{_range(a0, a1)} +{_range(b0, b1)} @@"
    at = a0
    for hunk in group:
        yield from _marked(" ", old[at : hunk.a0])
        yield from _marked("-", old[hunk.a0 : hunk.a1])
        yield from _marked("+", new[hunk.b0 : hunk.b1])
        at = hunk.a1
    yield from _marked(" ", old[at:a1])


def _range(start: int, end: int) -> str:
    """1-based start and length; an empty range names the line before it."""
    length = end - start
    first = start + 1 if length else start
    return str(first) if length == 1 else f"{first},{length}"


def _marked(sign: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield sign + line.removesuffix("\n")
        if not line.endswith("\n"):
            yield NO_NEWLINE
