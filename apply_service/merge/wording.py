"""Decides whether a line that differs from the file's line is an edit or a careless copy.

Two lines are compared: one may misquote the other (shortened, re-spaced, or a word lost).  In a finished merge, the
statements that a change removes and adds are paired.  For each pair, the question is whether the new statement says
anything that the old one does not.  This module judges; the caller decides which lines keep the file's wording.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from rapidfuzz.distance import Indel, Postfix, Prefix

from apply_service.merge.statements import QUOTES, Statement, essence, gist, likeness, statements
from apply_service.text.lines import header_name, indent_of, is_attached
from apply_service.text.markers import strip_comment
from apply_service.types import LineOp, Merge

_RETURN_TYPE = re.compile(r"\s*->\s*[^{:;]+?(?=\s*(?:\{|:|;|$|\bwhere\b))")
_ELLIPSIS = re.compile(r"\.{3}|…")
_VISIBLE = re.compile(r"\S")
_CODE = re.compile(r"[={};<>\[\]]|[:,(]$")
MAX_LOST_WORDS = 2
MIN_WORDS = 5
MAX_RUN = 400
"""A change's lines are paired if there are at most this many.  A longer change is taken literally."""
MIN_ALIKE = 0.45
MAX_JOINED = 5
KINDS = ("indent", "columns", "quotes", "spacing", "signs", "layout", "reordered", "remark", "comment", "annotation",
         "omission", "elided", "edit")  # fmt: skip
_MODIFIERS = frozenset(("abstract", "async", "const", "declare", "default", "export", "final", "inline", "override",
                        "private", "protected", "pub", "public", "readonly", "static"))  # fmt: skip


# -- two lines ---------------------------------------------------------------------------------------------------------
def is_misquoted(shown: str, line: str) -> bool:
    """Tell whether `shown` reads as a careless copy of `line` rather than an edit of it."""
    shown, line = shown.strip(), line.strip()
    untyped = _RETURN_TYPE.sub("", line)
    return is_elided(shown, line) or (untyped != line and "".join(untyped.split()) == "".join(shown.split()))


def may_be_misquoted(shown: str, line: str) -> bool:
    """Tell whether `shown` may be either an edit or a careless copy of `line`.

    For example, columns of spaces became one space, or a word or two are missing from a comment or a line of prose.
    """
    shown, line = shown.strip(), line.strip()
    if "  " in line and shown == " ".join(line.split()):
        return True
    here, there = shown.split(), line.split()
    if len(there) < MIN_WORDS or not 0 < len(there) - len(here) <= MAX_LOST_WORDS:
        return False
    rest = iter(there)
    return _is_said(shown) and _is_said(line) and all(word in rest for word in here)


def is_elided(shown: str, line: str) -> bool:
    """Tell whether `shown` is `line` with dots in place of a part."""
    if "..." not in shown and "…" not in shown:
        return False
    n_head, n_tail = Prefix.similarity(shown, line), Postfix.similarity(shown, line)
    last = 0
    for dots in _ELLIPSIS.finditer(shown):
        start, end = dots.span()
        head = last + len(shown[last:start].rstrip())
        last = end
        if head > n_head:
            return False
        beside = shown[max(0, start - 1) : start] + shown[end : end + 1]
        is_in_word = any(sign.isalnum() or sign == "_" for sign in beside)
        visible = _VISIBLE.search(shown, end)
        tail = len(shown) - visible.start() if visible else 0
        if not is_in_word and tail <= n_tail and 6 <= head + tail < len(line):
            return True
    return False


def _is_said(text: str) -> bool:
    """Tell whether the text is a comment, or has no sign of code."""
    return strip_comment(text).is_comment or not _CODE.search(text)


class ElidedLines:
    """Finds the lines of a file that a text with dots shows only in part."""

    def __init__(self, lines: Sequence[str]) -> None:
        """Index the file's `lines`, which have no white space at their ends."""
        self._lines = lines

    @cached_property
    def _forwards(self) -> list[tuple[str, int]]:
        return sorted((line, j) for j, line in enumerate(self._lines))

    @cached_property
    def _backwards(self) -> list[tuple[str, int]]:
        return sorted((line[::-1], j) for j, line in enumerate(self._lines))

    def places(self, shown: str) -> list[int]:
        """Return the numbers of the lines that `shown` stands for.  `shown` has no white space at its ends.

        Only lines that begin like `shown` are compared, or the lines that end like `shown` if there are fewer of these.
        """
        if "..." not in shown and "…" not in shown:
            return []
        parts = _ELLIPSIS.split(shown)
        heads = _with_beginning(self._forwards, parts[0].rstrip())
        tails = _with_beginning(self._backwards, parts[-1].lstrip()[::-1])
        return sorted(j for _, j in min(heads, tails, key=len) if is_elided(shown, self._lines[j]))


def _with_beginning(ordered: Sequence[tuple[str, int]], beginning: str) -> Sequence[tuple[str, int]]:
    """Return the lines with this beginning.  The lines are sorted."""
    n = len(beginning)
    low = bisect_left(ordered, (beginning, -1))
    return ordered[low : bisect_right(ordered, beginning, low, key=lambda pair: pair[0][:n])]


# -- two sides of a change ---------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Pair:
    """Old lines and new lines that say the same thing, or that are the old and the new form of something."""

    old: tuple[int, ...]
    """Indices of the operations that drop the old lines."""
    new: tuple[int, ...]
    """Indices of the operations that take the new lines."""
    kind: str
    """The kind of difference between them, one of KINDS."""


def find_pairs(ops: Merge) -> list[Pair]:
    """Return the pairs in all changes of a merge, in order."""
    found: list[Pair] = []
    for start, stop in ops.changed:
        drops = [k for k in range(start, stop) if ops[k].kind == "drop"]
        takes = [k for k in range(start, stop) if ops[k].kind == "take"]
        if drops and takes and len(drops) + len(takes) <= MAX_RUN:
            texts = (tuple(ops[k].text for k in side) for side in (drops, takes))
            for old, new, kind in _pair_texts(*texts):
                found.append(Pair(tuple(drops[k] for k in old), tuple(takes[k] for k in new), kind))
    return found


@lru_cache(maxsize=4096)
def _pair_texts(old_lines: tuple[str, ...], new_lines: tuple[str, ...]) -> list[tuple[range, range, str]]:
    """Return the lines of each pair, and its kind.  The result is cached, because most readings of an edit have changes
    in common."""
    old, new = statements(old_lines), statements(new_lines)
    found = []
    for a, b in _match(old_lines, old, new_lines, new):
        from_old, from_new = range(old[a[0]].start, old[a[-1]].stop), range(new[b[0]].start, new[b[-1]].stop)
        kind = _kind("\n".join(old_lines[k] for k in from_old), "\n".join(new_lines[k] for k in from_new))
        found.append((from_old, from_new, kind))
    return found


def _match(
    old_lines: Sequence[str], old: Sequence[Statement], new_lines: Sequence[str], new: Sequence[Statement]
) -> list[tuple[range, range]]:
    """Return the pairs of statements, in order on both sides, with the greatest total likeness.

    Several statements of one side pair with one statement of the other side if they say the same.
    """
    sides = (old_lines, old), (new_lines, new)
    said = [[essence("\n".join(lines[s.start : s.stop])) for s in parts] for lines, parts in sides]
    gists = [[gist("\n".join(lines[s.start : s.stop])) for s in parts] for lines, parts in sides]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    step: dict[tuple[int, int], tuple[int, int]] = {}
    for a in range(len(old) + 1):
        for b in range(len(new) + 1):
            options = [(best[a - 1][b], -1, 0)] if a else []
            options += [(best[a][b - 1], 0, -1)] if b else []
            if a and b:
                alike = likeness(said[0][a - 1], said[1][b - 1], same_kind=old[a - 1].kind == new[b - 1].kind)
                if alike >= MIN_ALIKE:
                    options.append((best[a - 1][b - 1] + alike, 1, 1))
                for n in range(2, MAX_JOINED + 1):
                    if a >= n and sum(gists[0][a - n : a], ()) == gists[1][b - 1]:
                        options.append((best[a - n][b - 1] + 1.05, n, 1))
                    if b >= n and sum(gists[1][b - n : b], ()) == gists[0][a - 1]:
                        options.append((best[a - 1][b - n] + 1.05, 1, n))
            if options:
                score, *move = max(options, key=lambda option: option[0])
                best[a][b] = score
                step[a, b] = (move[0], move[1])
    found: list[tuple[range, range]] = []
    a, b = len(old), len(new)
    while a or b:
        x, y = step[a, b]
        if x > 0:
            found.append((range(a - x, a), range(b - y, b)))
        a, b = a - abs(x), b - abs(y)
    return found[::-1]


def _kind(before: str, after: str) -> str:
    """Return the kind of difference between `before` and `after`: the most harmless kind that explains all of it."""
    old, new = essence(before), essence(after)
    if ("..." in after and "..." not in before) or ("…" in after and "…" not in before):
        return "elided"
    if old == new:
        return _format(before, after)
    if (gist(before) and gist(before) == gist(after)) or essence(before.lower()) == essence(after.lower()):
        return "layout"
    if sorted(old) == sorted(new):
        return "reordered"
    code = essence(_without_comment(before))
    if code and code == essence(_without_comment(after)):
        return "remark"
    if strip_comment(before).is_comment and strip_comment(after).is_comment:
        return "comment"
    n_gained = (len(new) - len(old) + Indel.distance(old, new)) / 2
    if n_gained > 0:
        return "edit"
    return "annotation" if _loses_types(old, new) else "omission"


def _format(before: str, after: str) -> str:
    """Return the kind of difference between two texts that say the same.

    The texts differ in the white space before lines or between words, in quotes, in other white space, or in other
    signs.
    """
    if [line.strip() for line in before.split("\n")] == [line.strip() for line in after.split("\n")]:
        return "indent"
    if before.split() == after.split():
        return "columns"
    if before.translate(QUOTES) == after.translate(QUOTES):
        return "quotes"
    return "spacing" if "".join(before.split()) == "".join(after.split()) else "signs"


def _loses_types(old: Sequence[str], new: Sequence[str]) -> bool:
    """Tell whether `new` lacks only types and modifiers of `old`."""
    steps = (step for step in Indel.opcodes(old, new) if step.tag == "delete")
    return all(_is_type(tuple(old[step.src_start : step.src_end])) for step in steps)


def changes_type(old: str, new: str) -> bool:
    """Tell whether `new` lacks the first words of a type (old: `&mut Term`, new: `&Term`)."""
    before, after = essence(old), essence(new)
    lost = [(step.src_start, step.src_end) for step in Indel.opcodes(before, after) if step.tag == "delete"]
    beside = [(before[start - 1], before[stop]) for start, stop in lost if start > 0 and stop < len(before)]
    return any(sign in (":", "&", "*") and word.isidentifier() for sign, word in beside)


def _is_type(lost: tuple[str, ...]) -> bool:
    """Tell whether a run of tokens begins like an annotation, or holds only modifiers."""
    if lost[0] in (":", "<", "?") or lost[:2] == ("-", ">") or lost in (("&",), ("*",)):
        return True
    return (lost[0] == "|" and lost[1:2] != ("|",)) or _MODIFIERS.issuperset(lost)


def _without_comment(text: str) -> str:
    """Return the text without the comments at the ends of its lines.  A comment begins with a comment sign that follows
    a blank."""
    return "\n".join(re.split(r"\s(?:#|//|/\*)\s?", line)[0] for line in text.split("\n"))


def lone_pairs(ops: Merge, pairs: Sequence[Pair]) -> set[int]:
    """Return the first operation of each pair that stands beside no edit.

    The run of changes around such a pair holds only pairs that are not edits.  Blank lines are ignored.
    """
    found: set[int] = set()
    for start, stop in ops.changed:
        inside = [pair for pair in pairs if start <= pair.old[0] < stop]
        paired = {k for pair in inside if pair.kind != "edit" for k in (*pair.old, *pair.new)}
        if all(k in paired or not ops[k].text.strip() for k in range(start, stop)):
            found.update(pair.old[0] for pair in inside)
    return found


def keep_wording(ops: Merge, pairs: Sequence[Pair], *, blanks: bool = False, gaps: Sequence[int] = ()) -> list[LineOp]:
    """Return the same merge, but the old lines of each pair in `pairs` stay.

    With `blanks`, the file's blank lines between lines that stay are kept too.  `gaps`: the starts of the changes to
    undo.
    """
    out: list[LineOp] = []
    at = 0
    for start, stop in ops.changed:
        out += ops[at:start]
        inside = [pair for pair in pairs if start <= pair.old[0] < stop]
        if start in gaps and not inside:
            out += [ops[k]._replace(kind="keep") for k in range(start, stop) if ops[k].kind == "drop"]
            at = stop
            continue
        out += _kept(ops, start, stop, inside, blanks=blanks)
        at = stop
    return out + list(ops[at:])


def passed_over(ops: Merge, gaps: str) -> tuple[int, ...]:
    """Return the starts of the changes that only remove lines, which the snippet leaves out without a marker.

    `gaps`: "leads" for changes beside the header of a definition; "all" for all of them.
    """
    return tuple(start for start, stop in ops.changed if _is_passed_over(ops, start, stop, gaps))


def has_blank_changes(ops: Merge) -> bool:
    """Tell whether the merge adds or removes a blank line."""
    return any(not op.text.strip() for start, stop in ops.changed for op in ops[start:stop])


def _is_passed_over(ops: Sequence[LineOp], start: int, stop: int, gaps: str) -> bool:
    """Tell whether lines were removed and none added, and the snippet may have left the removed lines out as
    unimportant."""
    run = ops[start:stop]
    if any(op.kind == "take" and op.text.strip() for op in run) or not any(op.text.strip() for op in run):
        return False
    gone = [op.text for op in run if op.kind == "drop" and op.text.strip()]
    above = next((ops[k].text for k in range(start - 1, -1, -1) if ops[k].text.strip()), "")
    below = next((ops[k].text for k in range(stop, len(ops)) if ops[k].text.strip()), "")
    is_head = header_name(above) is not None and indent_of(gone[0]) > indent_of(above)
    is_lead = header_name(below) is not None and all(map(is_attached, gone)) and indent_of(gone[0]) == indent_of(below)
    return gaps == "all" or is_lead or (is_head and header_name(below) is not None)


def _kept(ops: Sequence[LineOp], start: int, stop: int, pairs: Sequence[Pair], *, blanks: bool) -> list[LineOp]:
    drops = [k for k in range(start, stop) if ops[k].kind == "drop"]
    takes = [k for k in range(start, stop) if ops[k].kind == "take"]
    out: list[LineOp] = []
    for pair in pairs:
        out += _section(ops, [k for k in drops if k < pair.old[0]], [k for k in takes if k < pair.new[0]], blanks)
        for n, k in enumerate(pair.old):
            shown = ops[pair.new[n]].update_line if n < len(pair.new) else None
            out.append(LineOp("keep" if shown is None else "both", ops[k].original_line, shown, ops[k].text))
        drops = [k for k in drops if k > pair.old[-1]]
        takes = [k for k in takes if k > pair.new[-1]]
    return out + _section(ops, drops, takes, blanks)


def _section(ops: Sequence[LineOp], drops: Sequence[int], takes: Sequence[int], blanks: bool) -> list[LineOp]:
    """Return the operations between two statements that stay.

    With `blanks`, the file's blank lines stay unless other lines are removed too.  The file's blank lines then replace
    the snippet's around new lines.
    """
    is_old = any(ops[k].text.strip() for k in drops)
    if not blanks or is_old or not drops:
        return [ops[k] for k in (*drops, *takes)]
    keeps = [ops[k]._replace(kind="keep") for k in drops]
    shown = [ops[k] for k in takes]
    while shown and not shown[0].text.strip():
        del shown[0]
    while shown and not shown[-1].text.strip():
        del shown[-1]
    if not shown:
        return keeps
    return [*keeps, *shown] if takes and not ops[takes[0]].text.strip() else _beside(ops, keeps, shown, drops, takes)


def _beside(
    ops: Sequence[LineOp], keeps: list[LineOp], shown: list[LineOp], drops: Sequence[int], takes: Sequence[int]
) -> list[LineOp]:
    """Return the new lines above or below the file's blank lines, beside the neighbour that they resemble more."""
    low, high = min(*drops, *takes), max(*drops, *takes)
    above = next((ops[k].text for k in range(low - 1, -1, -1) if ops[k].text.strip()), "")
    below = next((ops[k].text for k in range(high + 1, len(ops)) if ops[k].text.strip()), "")
    is_below = likeness(essence(below), essence(shown[-1].text)) >= likeness(essence(above), essence(shown[0].text))
    return [*keeps, *shown] if is_below and ops[takes[-1]].text.strip() else [*shown, *keeps]
