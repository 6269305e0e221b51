"""The unified diff of an answer, as git writes it and `git apply` takes it.

Only renders; reading diffs is `unified_diff`'s work.  Lines end at `\\n` alone here, as git has it: the `\\r` of a CRLF
file is part of the diff's lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from apply_service.edits.line_diff import Hunk, diff_lines

CONTEXT_LINES = 3
NO_NEWLINE = "\\ No newline at end of file"
NOTHING = "/dev/null"


def unified_diff_text(original: str, merged: str, path: str) -> str:
    """The diff; empty where the texts are equal.  An empty original is a new file, as everywhere in the service."""
    if original == merged:
        return ""
    old, new = _lines(original), _lines(merged)
    out = [*_headers(path, is_new=original == "")]
    for group in _groups(diff_lines(old, new)):
        out += _hunk(old, new, group)
    return "".join(line + "\n" for line in out)


def _lines(text: str) -> list[str]:
    """Lines with their ends: a last line without one differs from the same line with one."""
    *whole, last = text.split("\n")
    return [line + "\n" for line in whole] + ([last] if last else [])


def _headers(path: str, *, is_new: bool) -> Iterator[str]:
    path = path.lstrip("/") or "file"
    yield f"diff --git {_quoted('a/' + path)} {_quoted('b/' + path)}"
    if is_new:
        yield "new file mode 100644"
    for sign, name in (("---", NOTHING if is_new else "a/" + path), ("+++", "b/" + path)):
        quoted = _quoted(name)
        # git ends a name that holds a blank with a tab, so that no date can be read into it
        yield f"{sign} {quoted}" + ("\t" if " " in quoted and not quoted.startswith('"') else "")


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
