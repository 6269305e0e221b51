"""Small changes to a finished merge that give another reading of the same snippet.

A snippet does not say whether a new line stands for the hidden line beside it.  It does not say either where a scope
ends that it shows in part.  Each function here answers one such question the other way and returns the merge that
follows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

from rapidfuzz import fuzz

from apply_service.merge.quotes import Merge
from apply_service.merge.reading import ReadSnippet
from apply_service.merge.statements import essence, imported, likeness, statements
from apply_service.text.lines import (
    are_other_arms,
    arm_words,
    header_name,
    indent_of,
    is_attached,
    is_import,
    leading,
    new_definitions,
    surplus,
)
from apply_service.text.markers import Role, strip_comment
from apply_service.types import LineOp

REACH = 40
"""The most hidden lines on each side of a change that are compared with its new lines."""
MIN_ALIKE = 0.5
MIN_SPELT = 90
"""The likeness (0 to 100) of two spellings of one name."""
MAX_CUT = 20
"""The most lines beyond an edge of the snippet that may go without a word."""
MIN_SAME = (0.5, 0.8)
"""The shares of their lines that a definition has in common with another one whose new name it may be: each is a
reading."""
MAX_RENEWED = 4
"""The most changes of a merge that are read one at a time."""
_KEY = re.compile(r"^\W*([\w.@$-]{2,})\s*(?:[:=({]|$)")
_JUMP = re.compile(r"\s*(return|throw|raise|break|continue|goto)\b")
_NAME = re.compile(r"[\w.$-]{3,}")
_WORD = re.compile(r"[^\W\d]\w+")
_REMOVED = re.compile(r"\b(?:removed?|removes|deleted?|dropped|gone)\b", re.IGNORECASE)


# -- new lines for hidden ones -----------------------------------------------------------------------------------------
def renewed_at_changes(ops: Merge) -> list[set[int]]:
    """The hidden lines of the statements that the new ones beside them may replace, for each change beside which there
    are some."""
    found: list[set[int]] = []
    for start, stop in ops.changed:
        gone: set[int] = set()
        new = _statements(tuple(op.text for op in ops[start:stop] if op.kind == "take"))
        if new:
            below, above = range(stop, min(len(ops), stop + REACH)), range(start - 1, max(-1, start - 1 - REACH), -1)
            level = min(map(indent_of, new))
            passes = any((_JUMP.match(text) and indent_of(text) == level) or is_import(text) for text in new)
            for beside, own, is_above in ((below, new, False), (above, new[::-1], True)):
                replaced = {*_renewed(ops, _hidden(ops, beside, passes_blanks=passes), own, is_above=is_above)}
                n_passed = next((n for n, k in enumerate(beside) if k in replaced), 0)
                gone.update(replaced, beside[:n_passed])
        found += [gone] if gone else []
    return found


def _without(ops: Merge, gone: Collection[int]) -> list[LineOp]:
    out = list(ops)
    for k in gone:
        out[k] = ops[k]._replace(kind="drop")
    return out


def _hidden(ops: Merge, places: range, *, passes_blanks: bool) -> list[int]:
    """The hidden lines beside a change, in order, up to the first line that is shown or blank.

    `passes_blanks`: blank lines right beside the change do not count: a block has one place for a jump, a file one for
    an import.
    """
    found: list[int] = []
    for k in places:
        if ops[k].kind == "keep" and not ops[k].text.strip() and passes_blanks and not found:
            continue
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
    parts: list[range] = []
    for one in statements(lines):
        if parts and one.start < parts[-1].stop:
            continue
        # What stands in parentheses belongs to the statement that opens and closes them.
        stops = (k for k in range(one.stop, len(lines) + 1) if sum(surplus(lines[one.start : k])[:2]) <= 0)
        parts.append(range(one.start, next(stops, one.stop)))
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
    name, other = (header_name(text.split("\n")[0]) for text in (old, new))
    if name != other and (name is None or other is None or fuzz.ratio(name, other) < MIN_SPELT):
        return False
    if are_other_arms(*(arm_words(text.split("\n")[0]) for text in (old, new))):
        return False
    jumps = [_JUMP.match(text) for text in (old, new)]
    if jumps[0] and jumps[1] and jumps[0][1] == jumps[1][1]:
        return True
    keys = [_KEY.match(text) for text in (old, new)]
    if keys[0] and keys[1] and keys[0][1] == keys[1][1]:
        return True
    found = (set(_WORD.findall(text)) for text in (old, new))
    return bool(set.intersection(*found)) and likeness(essence(old), essence(new)) >= MIN_ALIKE


# -- scopes that the snippet closes ------------------------------------------------------------------------------------
def close(reading: ReadSnippet, ops: Merge) -> list[LineOp]:
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


def _margin_below(reading: ReadSnippet, ops: Merge, start: int) -> int | None:
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
    marks = reading.marker_indents(block.gap_after)
    margin = marks[0] if marks else min(shown)
    return margin if block.lines[-1] == above and min(shown) <= margin else None


# -- definitions under a new name --------------------------------------------------------------------------------------
def rename(reading: ReadSnippet, ops: Merge, share: float) -> Merge:
    """The merge in which each new definition takes the place of the hidden one that has this share of its lines."""
    out: dict[int, list[LineOp]] = {}
    """What stands in the place of some of the operations."""
    for start, stop in ops.changed:
        new = [k for k in range(start, stop) if ops[k].kind == "take"]
        for span in new_definitions([ops[k].text for k in new], reading.names):
            own = new[span.start : span.stop]
            old = same_hidden(reading, ops, [ops[k].text for k in own], share)
            if old is None or any(k in out for k in old):
                continue
            is_alone = len(new) == stop - start and not any(ops[k].text.strip() for k in new if k not in own)
            out |= {k: [ops[k]._replace(kind="drop")] for k in (old if is_alone else _with_blanks(ops, old))}
            if is_alone:
                above = {op.text.strip() for op in ops[max(0, old.start - span.stop) : old.start] if op.kind == "both"}
                while is_attached(ops[own[0]].text) and ops[own[0]].text.strip() in above:
                    del own[0]
                out |= {k: [] for k in new}
                out[old.start] += (ops[k] for k in own)
    return Merge(one for k, op in enumerate(ops) for one in out.get(k, (op,))) if out else ops


def same_hidden(reading: ReadSnippet, ops: Merge, new: Sequence[str], share: float) -> range | None:
    """The operations of the hidden definition that has the largest share of its lines in common with a new one, headers
    aside, if that is at least `share`."""
    for other in reading.definitions_like(tuple(new), share):
        at = next(k for k, op in enumerate(ops) if op.original_line == other.header)
        first, last = at - (other.header - other.lines.start), at + other.lines.stop - other.header
        while first < at and ops[first].kind != "keep":  # What is attached to it may be shown.
            first += 1
        if all(op.kind == "keep" for op in ops[first:last]):
            return range(first, last)
    return None


def _with_blanks(ops: Merge, lines: range) -> range:
    """The lines and the hidden blank ones below them."""
    stop = lines.stop
    while stop < len(ops) and ops[stop].kind == "keep" and not ops[stop].text.strip():
        stop += 1
    return range(lines.start, stop)


# -- definitions that comments call removed ---------------------------------------------------------------------------
def delete(reading: ReadSnippet, ops: Merge) -> list[LineOp]:
    """The merge without the hidden definitions that a comment calls removed."""
    snippet = reading.snippet
    words: set[str] = set()
    for i, role in enumerate(snippet.roles):
        if role not in (Role.CONTENT, Role.BLANK, Role.ELSEWHERE) and _REMOVED.search(snippet.texts[i]):
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


# -- hidden lines inside a new scope ----------------------------------------------------------------------------------
def wrap(reading: ReadSnippet, ops: Merge) -> list[LineOp]:
    """The merge with the hidden lines indented as their marker is, where this stands deeper, below a new line."""
    markers = {block.lines[-1]: block.gap_after for block in reading.snippet.blocks}
    out = list(ops)
    for start, stop in ops.hidden:
        above = ops[start - 1] if start else None
        if above is None or above.kind != "take" or above.update_line not in markers:
            continue
        marker = next((i for i in markers[above.update_line] if reading.snippet.roles[i] is Role.MARKER), None)
        first = next((op.text for op in ops[start:stop] if op.text.strip()), None)
        if marker is None or first is None or indent_of(above.text) >= indent_of(reading.texts[marker]):
            continue
        old, new = leading(first), leading(reading.texts[marker])
        for k in range(start, stop if old != new and new.startswith(old) else start):
            if ops[k].text.strip() and not ops[k].text.startswith(old):
                break  # the scope that is wrapped ends here
            if ops[k].text.strip():
                out[k] = LineOp("take", None, None, new + ops[k].text[len(old) :])
    drops = {k: ops[k]._replace(kind="drop") for k in range(len(ops)) if out[k] is not ops[k]}
    return [one for k, op in enumerate(out) for one in ((drops[k], op) if k in drops else (op,))]


# -- lines beyond an edge of the snippet that no marker stands for -----------------------------------------------------
def cut(reading: ReadSnippet, ops: Merge) -> list[LineOp]:
    """The merge without the few hidden lines before the first or after the last shown line, where the snippet has no
    marker there."""
    blocks, hidden = reading.snippet.blocks, ops.hidden
    out = list(ops)
    if not hidden or not blocks:
        return out
    head, tail = hidden[0], hidden[-1]
    edges = [head] * (head[0] == 0 and not blocks[0].marked_before)
    edges += [tail] * (tail[1] == len(ops) and not blocks[-1].marked_after)
    for start, stop in edges:
        if sum(bool(op.text.strip()) for op in ops[start:stop]) <= MAX_CUT:
            out[start:stop] = [op._replace(kind="drop") for op in ops[start:stop]]
    return out


def retouches(reading: ReadSnippet, ops: Merge) -> Iterator[tuple[str, Merge]]:
    """All other readings of a merge that this module knows, each with a name.

    Where a few changes stand beside lines that they may replace, one reading for each of them replaces only these.
    """
    renewed = renewed_at_changes(ops)
    for gone in renewed if 1 < len(renewed) <= MAX_RENEWED else ():
        yield "renewed", Merge(_without(ops, gone))
    all_renewed = Merge(_without(ops, set().union(*renewed)))
    deleted = Merge(delete(reading, ops))
    others = (("closed", close), ("wrapped", wrap), ("cut", cut))
    changed = [("renewed", all_renewed), *((name, Merge(retouch(reading, ops))) for name, retouch in others)]
    if deleted != ops:
        gone = set().union(*renewed_at_changes(deleted))
        changed += [("deleted", deleted), ("deleted+renewed", Merge(_without(deleted, gone)))]
    changed += [("renamed", rename(reading, ops, share)) for share in MIN_SAME]
    changed += [("renewed+renamed", rename(reading, all_renewed, share)) for share in MIN_SAME]
    told = {ops}
    for name, other in changed:
        if other not in told:
            told.add(other)
            yield name, other
