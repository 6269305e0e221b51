"""Small changes to a finished merge that give another reading of the same snippet.

A snippet does not say whether a new line stands for the hidden line beside it.  It does not say either where a scope
ends that it shows in part.  Each function here answers one such question the other way and returns the merge that
follows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from apply_service.edits.code_lines import header_name, indent_of, is_attached, is_closer
from apply_service.edits.lazy.quotes import Merge, find_pairs
from apply_service.edits.lazy.reading import Reading
from apply_service.edits.lazy.statements import essence, imported, likeness, statements
from apply_service.edits.markers import Role, strip_comment
from apply_service.types import LineOp

REACH = 40
"""The most hidden lines on each side of a change that are compared with its new lines."""
MIN_ALIKE = 0.5
_KEY = re.compile(r"^\W*([\w.@$-]{2,})\s*(?:[:=({]|$)")
_NAME = re.compile(r"[\w.$-]{3,}")
_ALL = frozenset({"rest", "everything", "other", "others", "remaining", "all", "below", "above", "existing", "etc"})
_FILLERS = frozenset({"...", "unchanged", "code", "same", "stay", "stays", "the", "and", "with", "this", "here"})
_REMOVED = re.compile(r"\b(?:removed?|removes|deleted?|dropped|gone)\b", re.IGNORECASE)
_DOCUMENTS = {'"""': '"""', "'''": "'''", "/**": "*/", "/*": "*/"}


# -- new lines for hidden ones -----------------------------------------------------------------------------------------
def renew(_: Reading, ops: Merge) -> list[LineOp]:
    """The merge without the hidden statements that the new statements beside them may replace."""
    gone: set[int] = set()
    for start, stop in ops.changed:
        new = _statements(tuple(op.text for op in ops[start:stop] if op.kind == "take"))
        if new:
            below, above = range(stop, min(len(ops), stop + REACH)), range(start - 1, max(-1, start - 1 - REACH), -1)
            gone.update(_renewed(ops, _hidden(ops, below), new, is_above=False))
            gone.update(_renewed(ops, _hidden(ops, above), new[::-1], is_above=True))
    return [op._replace(kind="drop") if k in gone else op for k, op in enumerate(ops)]


def _hidden(ops: Merge, places: range) -> list[int]:
    """The hidden lines beside a change, in order, up to the first line that is shown or blank."""
    found: list[int] = []
    for k in places:
        if ops[k].kind != "keep" or not ops[k].text.strip():
            break
        found.append(k)
    return sorted(found)


@lru_cache(maxsize=4096)
def _statements(lines: tuple[str, ...]) -> list[str]:
    return ["\n".join(lines[part.start : part.stop]) for part in statements(lines)]


def _renewed(ops: Merge, hidden: Sequence[int], new: Sequence[str], *, is_above: bool) -> Iterator[int]:
    """The hidden lines that the new statements may replace, beginning beside the change.

    Each new statement replaces one hidden statement; an import may replace several.
    """
    lines = [ops[k].text for k in hidden]
    parts = statements(lines)
    left = list(new)
    for part in reversed(parts) if is_above else parts:
        text = "\n".join(lines[part.start : part.stop])
        at = next((n for n, other in enumerate(left) if is_namesake(text, other)), None)
        if at is None:
            return
        if not imported(text) & imported(left[at]):
            del left[at]
        yield from hidden[part.start : part.stop]


def is_namesake(old: str, new: str) -> bool:
    """Whether `new` may be the new form of the statement `old`."""
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


# -- new lines beside hidden ones --------------------------------------------------------------------------------------
def insert(_: Reading, ops: Merge) -> list[LineOp]:
    """The merge that keeps the dropped lines beside hidden ones, if new lines were taken to replace them."""
    edited = {k for pair in find_pairs(ops) if pair.kind == "edit" for k in pair.old}
    out = list(ops)
    for start, stop in ops.changed:
        drops = [op._replace(kind="keep") for op in ops[start:stop] if op.kind == "drop"]
        takes = [op for op in ops[start:stop] if op.kind == "take"]
        if not takes or not edited.intersection(range(start, stop)):
            continue
        if start and ops[start - 1].kind == "keep":
            out[start:stop] = [*drops, *takes]
        elif stop < len(ops) and ops[stop].kind == "keep":
            out[start:stop] = [*takes, *drops]
    return out


# -- scopes that the snippet closes ------------------------------------------------------------------------------------
def close(reading: Reading, ops: Merge) -> list[LineOp]:
    """The merge without the hidden rest of a scope, if the snippet opens it and its next marker stands outside it."""
    out = list(ops)
    for start, stop in ops.hidden:
        if start == 0:
            continue
        margin = _margin_below(reading, ops, start)
        if margin is None or indent_of(ops[start - 1].text) <= margin:
            continue
        inside = [k for k in range(start, stop) if ops[k].text.strip()]
        end = next((k for k in inside if indent_of(ops[k].text) <= margin), None)
        last = max((k for k in inside if end is None or k < end), default=None)
        if last is not None and (end is not None or stop == len(ops)):
            out[start : last + 1] = [op._replace(kind="drop") for op in ops[start : last + 1]]
    return out


def _margin_below(reading: Reading, ops: Merge, start: int) -> int | None:
    """The indentation of the marker after the shown line above `start`.

    At the end of the snippet it is that of the least indented line of the block.  None if the block does not show the
    line that opens the scope.
    """
    above = ops[start - 1].update_line
    snippet = reading.snippet
    block = next((block for block in snippet.blocks if above in block.lines), None)
    if block is None or above is None:
        return None
    shown = [indent_of(reading.texts[i]) for i in block.lines if reading.texts[i].strip() and i <= above]
    marks = [indent_of(snippet.texts[i]) for i in block.gap_after if snippet.roles[i] is Role.MARKER]
    margin = marks[0] if marks else min(shown)
    return margin if block.lines[-1] == above and min(shown) <= margin else None


# -- definitions that comments name ------------------------------------------------------------------------------------
def narrow(reading: Reading, ops: Merge) -> list[LineOp]:
    """The merge without hidden definitions that their marker does not name, if the marker names some of them.

    Definitions between two named ones stay.
    """
    out = list(ops)
    for start, stop in ops.hidden:
        if start == 0:
            continue
        words = _marker_words(reading, ops, start, stop)
        if not words or words & _ALL:
            continue
        units = _units([op.text for op in ops[start:stop]])
        named = [n for n, (_, name) in enumerate(units) if name & words]
        ends = [*(at for at, _ in units[1:]), stop - start]
        for n, (at, _) in enumerate(units):
            if named and not named[0] <= n <= named[-1]:
                unit = slice(start + at, start + ends[n])
                out[unit] = [op._replace(kind="drop") for op in out[unit]]
    return out


def _marker_words(reading: Reading, ops: Merge, start: int, stop: int) -> set[str]:
    """The words of the marker for a hidden run; empty if there is not exactly one marker."""
    above = ops[start - 1].update_line
    shown = (op.update_line for op in ops[stop:] if op.update_line is not None)
    below = next(shown, len(reading.snippet.roles))
    if above is None:
        return set()
    marks = [i for i in range(above + 1, below) if reading.snippet.roles[i] is Role.MARKER]
    return set(_NAME.findall(reading.snippet.texts[marks[0]].lower())) - _FILLERS if len(marks) == 1 else set()


def _units(lines: Sequence[str]) -> list[tuple[int, set[str]]]:
    """The start of each definition or statement of the outermost level, with the words that may name it."""
    solid = [k for k, line in enumerate(lines) if line.strip()]
    margin = min((indent_of(lines[k]) for k in solid), default=0)
    found: list[tuple[int, set[str]]] = []
    is_lead, quote = False, ""
    for k in solid:
        text = lines[k].strip()
        if quote:
            quote = "" if quote in text else quote
            continue
        if indent_of(lines[k]) > margin or is_closer(lines[k]):
            continue
        if is_lead:
            found[-1][1].update(_names_of(text))
        else:
            found.append((k, _names_of(text)))
        is_lead = is_attached(text) and not text.startswith(('"""', "'''"))
        opened = next((sign for sign in _DOCUMENTS if text.startswith(sign)), "")
        if opened and _DOCUMENTS[opened] not in text[len(opened) :]:
            quote, is_lead = _DOCUMENTS[opened], opened == "/**"
    return found


def _names_of(line: str) -> set[str]:
    key = _KEY.match(line)
    name = header_name(line) or (key[1] if key else "")
    found = {name.lower().strip("'\"`"), name.lower().split(".")[-1]} - {""}
    if line.lstrip().startswith(tuple(_DOCUMENTS)):
        found |= {"docstring", "docstrings"}
    if line.lstrip().startswith(("import ", "from ", "use ", "#include")):
        found |= {"imports", "import"}
    return found


def delete(reading: Reading, ops: Merge) -> list[LineOp]:
    """The merge without the hidden definitions that a comment calls removed."""
    snippet = reading.snippet
    words: set[str] = set()
    for i, role in enumerate(snippet.roles):
        if role not in (Role.CONTENT, Role.BLANK, Role.CHAT) and _REMOVED.search(snippet.texts[i]):
            words.update(_NAME.findall(snippet.texts[i].lower()))
    if not words:
        return list(ops)
    place = {op.original_line: k for k, op in enumerate(ops) if op.original_line is not None}
    out = list(ops)
    for scope in reading.scopes:
        lines = [place[j] for j in range(scope.lead_line, scope.end_line) if j in place]
        if lines and scope.name.lower().strip("'\"`") in words and all(ops[k].kind == "keep" for k in lines):
            last = lines[-1] + 1
            while last < len(ops) and ops[last].kind == "keep" and not ops[last].text.strip():
                lines.append(last)
                last += 1
            first = lines[0]
            while last == len(ops) and first and ops[first - 1].kind == "keep" and not ops[first - 1].text.strip():
                first -= 1
                lines.append(first)
            for k in lines:
                out[k] = ops[k]._replace(kind="drop")
    return out


RETOUCHES: tuple[tuple[str, Callable[[Reading, Merge], list[LineOp]]], ...] = (
    ("renewed", renew),
    ("inserted", insert),
    ("closed", close),
    ("narrowed", narrow),
    ("deleted", delete),
)
