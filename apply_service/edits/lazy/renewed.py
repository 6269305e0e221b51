"""New lines that may stand for the hidden lines beside them: the same key, definition or call, shown in its new form.

Takes a finished merge.  A snippet that leaves out what it replaces looks like one that adds a line there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from apply_service.edits.headers import header_name
from apply_service.edits.indentation import indent_of
from apply_service.edits.lazy.quotes import changes
from apply_service.edits.lazy.statements import essence, likeness, statements
from apply_service.edits.markers import strip_comment
from apply_service.types import LineOp

REACH = 40
"""Hidden lines beside a change that are looked at."""
MIN_ALIKE = 0.5
_KEY = re.compile(r"^\W*([\w.@$-]{2,})\s*(?:[:=({]|$)")


def renew(ops: Sequence[LineOp]) -> list[LineOp]:
    """The same merge without the hidden statements beside new ones that these may stand for."""
    gone: set[int] = set()
    for start, stop in changes(ops):
        new = _statements([op.text for op in ops[start:stop] if op.kind == "take"])
        if new:
            gone.update(_renewed(ops, _hidden(ops, range(stop, min(len(ops), stop + REACH))), new, is_above=False))
            gone.update(_renewed(ops, _hidden(ops, range(start - 1, max(-1, start - 1 - REACH), -1)), new[::-1], is_above=True))
    return [op._replace(kind="drop") if k in gone else op for k, op in enumerate(ops)]


def _hidden(ops: Sequence[LineOp], places: range) -> list[int]:
    """The lines that stay without being shown, in order, from the change on until the first that is shown or blank."""
    found: list[int] = []
    for k in places:
        if ops[k].kind != "keep" or not ops[k].text.strip():
            break
        found.append(k)
    return sorted(found)


def _statements(lines: Sequence[str]) -> list[str]:
    return ["\n".join(lines[part.start : part.stop]) for part in statements(lines)]


def _renewed(ops: Sequence[LineOp], hidden: Sequence[int], new: Sequence[str], *, is_above: bool) -> Iterator[int]:
    """The hidden lines that the new statements stand for, from the change on, each for another one."""
    lines = [ops[k].text for k in hidden]
    parts = statements(lines)
    left = list(new)
    for part in reversed(parts) if is_above else parts:
        text = "\n".join(lines[part.start : part.stop])
        at = next((n for n, other in enumerate(left) if is_namesake(text, other)), None)
        if at is None:
            return
        del left[at]
        yield from hidden[part.start : part.stop]


def is_namesake(old: str, new: str) -> bool:
    """Whether one statement may be another in its new form."""
    if indent_of(old) != indent_of(new) or old == new:
        return False
    comments = [strip_comment(text).is_comment for text in (old, new)]
    if any(comments):
        return all(comments)
    if header_name(old.split("\n")[0]) != header_name(new.split("\n")[0]):
        return False
    keys = [_KEY.match(text) for text in (old, new)]
    if keys[0] and keys[1] and keys[0][1] == keys[1][1]:
        return True
    return likeness(essence(old), essence(new)) >= MIN_ALIKE
