"""Makes variants: other readings of a snippet that are small changes to a finished merge.

A snippet leaves questions open.  Which differences from the file are careless?  Does a new line replace the hidden line
beside it?  Where does a scope end if the snippet shows only a part of it?  Does a blank line belong to the snippet?
Each function here answers one of these questions differently from the finished merge, and returns the merge that
results.  A line of the file is hidden if the snippet does not show it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain

from rapidfuzz import fuzz

from apply_service.merge.proposal import Proposal
from apply_service.merge.reading import ReadSnippet
from apply_service.merge.statements import essence, imported, likeness, statements
from apply_service.merge.wording import (
    Pair,
    changes_type,
    find_pairs,
    has_blank_changes,
    keep_wording,
    lone_pairs,
    may_be_misquoted,
    passed_over,
)
from apply_service.merge.write import single_gaps
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
from apply_service.types import LineOp, Merge

FORMAT = frozenset({"indent", "columns", "quotes", "spacing", "signs", "layout", "stub"})
LOOSE = FORMAT | {"remark", "reordered", "annotation", "omission"}
POLICIES: tuple[tuple[str, frozenset[str], bool, str], ...] = (
    ("literal", frozenset({"stub"}), False, ""),
    ("stubs", frozenset(), False, ""),
    ("headers+leads", frozenset({"stub", "renewed"}), False, "leads"),
    ("lone", LOOSE, False, "leads"),
    ("format", FORMAT, False, ""),
    ("loose", LOOSE, False, "leads"),
    ("most+blanks", FORMAT | {"remark", "reordered", "comment"}, True, ""),
    ("all", LOOSE | {"comment"}, False, "leads"),
    ("all+blanks", LOOSE | {"comment"}, True, "leads"),
    ("all+gaps", LOOSE | {"comment"}, True, "all"),
)
RETOUCHED = frozenset({"literal", "format", "loose", "all"})
"""Policies whose merges are also tried with all further changes of this module.  A policy (see `by_policy`) decides
which differences from the file count as careless."""
REACH = 40
"""At most this many hidden lines on each side of a change are compared with its new lines."""
MIN_ALIKE = 0.5
MIN_SPELT = 90
"""Two names count as spellings of one name if their likeness (0 to 100) is at least this."""
MAX_CUT = 20
"""At most this many lines beyond an edge of the snippet may be removed although no marker mentions them."""
MIN_SAME = (0.5, 0.8)
"""A hidden definition counts as renamed if the new one has at least this share of lines in common with it.  Each share
gives a reading."""
MAX_RENEWED = 4
"""If at most this many changes of a merge stand beside lines that they may replace, each is also tried alone."""
_KEY = re.compile(r"^\W*([\w.@$-]{2,})\s*(?:[:=({]|$)")
_JUMP = re.compile(r"\s*(return|throw|raise|break|continue|goto)\b")
_NAME = re.compile(r"[\w.$-]{3,}")
_WORD = re.compile(r"[^\W\d]\w+")
_REMOVED = re.compile(r"\b(?:removed?|removes|deleted?|dropped|gone)\b", re.IGNORECASE)
MAX_OTHERS = 8
"""`other_merges` returns at most this many merges."""
FAR = 60
"""New lines may replace at most this many lines beside them."""
Change = tuple[int, int, tuple[LineOp, ...]]
"""Operations, and the range of operations that they replace: from the first number up to, but not including, the
second."""


# -- carelessness ------------------------------------------------------------------------------------------------------
def by_policy(literal: Proposal, stubs: Collection[int]) -> Iterator[Proposal]:
    """Yield the merge of each policy, made from `literal`, which takes every shown line literally."""
    ops = literal.ops
    pairs = find_pairs(ops)
    kinds = [pair_kind(ops, pair, stubs) for pair in pairs]
    passed = {"": (), **{gaps: passed_over(ops, gaps) for gaps in ("leads", "all")}}
    lone = lone_pairs(ops, pairs)
    known: dict[tuple[object, ...], list[tuple[tuple[str, ...], Merge]]] = {}
    for name, kept, blanks, gaps in POLICIES:
        chosen = [
            (pair, kind)
            for pair, kind in zip(pairs, kinds, strict=True)
            if kind == "elided" or (kind in kept and (pair.old[0] in lone or not name.startswith("lone")))
        ]
        key = (
            tuple(pair.old for pair, _ in chosen),
            blanks and has_blank_changes(ops),
            passed[gaps],
            name in RETOUCHED,
        )
        if key not in known:
            found = Merge(keep_wording(ops, [pair for pair, _ in chosen], blanks=blanks, gaps=passed[gaps]))
            known[key] = [*retouches(literal.snippet, found)] if name in RETOUCHED else []
            known[key].append(((), found))
        policy, *extras = name.split("+")
        for more, merge in known[key]:
            way = literal.way._replace(policy=policy, extras=(*extras, *more))
            yield replace(literal, ops=merge, ways=(way,))


def pair_kind(ops: Sequence[LineOp], pair: Pair, stubs: Collection[int]) -> str:
    """Return the pair's kind.

    The kind of a stub's header is `stub` if the header is quoted carelessly, and `renewed` if it has something new.
    """
    if not all(ops[k].update_line in stubs for k in pair.new):
        return pair.kind
    old, new = ("\n".join(ops[k].text for k in side) for side in (pair.old, pair.new))
    is_namesake = header_name(old.split("\n")[0]) == header_name(new.split("\n")[0]) or (
        header_name(" ".join(old.split())) == header_name(" ".join(new.split())) is not None
    )
    if pair.kind in LOOSE and (is_namesake or pair.kind != "omission") and not changes_type(old, new):
        return "stub"
    return "renewed" if is_namesake else pair.kind


def stub_headers(reading: ReadSnippet) -> set[int]:
    """Return the update lines of headers whose body is only a marker.  Such a header says that the definition stays."""
    found: set[int] = set()
    snippet = reading.snippet
    for b, block in enumerate(snippet.blocks):
        texts = reading.block_texts(b)
        part = statements(texts)[-1]
        indent = indent_of(texts[part.start])
        if not block.marked_after or header_name(texts[part.start]) is None:
            continue
        after = reading.marker_indent(block.gap_after)
        below = indent_of(reading.texts[snippet.blocks[b + 1].lines[0]]) if b + 1 < len(snippet.blocks) else -1
        if block.lines[part.start] in reading.elided or (below <= indent and (after is None or after > indent)):
            found.update(block.lines[part.start : part.stop])
    return found


# -- new lines for hidden ones -----------------------------------------------------------------------------------------
def renewed_at_changes(ops: Merge) -> list[set[int]]:
    """Return the hidden lines of the statements that the new lines of each change may replace.  Changes without such
    lines are left out."""
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


def _without(ops: Merge, gone: Collection[int]) -> Merge:
    out = list(ops)
    for k in gone:
        out[k] = ops[k]._replace(kind="drop")
    return Merge(out)


def _hidden(ops: Merge, places: range, *, passes_blanks: bool) -> list[int]:
    """Return the hidden lines beside a change, in order, up to the first line that is shown or blank.

    `passes_blanks`: ignore blank lines right beside the change.  Jumps and imports need this, because a block has one
    place for a jump, and a file has one place for imports.
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
    """Yield the hidden lines that the new statements may replace, beginning beside the change.

    Each new statement replaces one hidden statement; an import may replace several.
    """
    lines = [ops[k].text for k in hidden]
    parts: list[range] = []
    for one in statements(lines):
        if parts and one.start < parts[-1].stop:
            continue
        # Lines inside parentheses belong to the statement around them.
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
    """Tell whether `new` may be a changed form of the statement `old`."""
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
    """Return the merge without the hidden rest of each scope that the snippet opens, if the snippet's next marker
    stands outside the scope."""
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
    """Return the indentation of the marker after the shown line above `start`.

    At the end of the snippet, return the indentation of the least indented line of the block.  The result is None if
    the block does not show the line that opens the scope.
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
    """Return the merge in which new definitions replace hidden ones.  A definition is replaced if the new one has at
    least the proportion `share` of lines in common with it."""
    out: dict[int, list[LineOp]] = {}
    """The operations that replace a single operation, by its number."""
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
    """Return the operations of the hidden definition with the largest share of lines in common with the new one.

    Headers do not count.  The result is None if the largest share is below `share`.
    """
    for other in reading.definitions_like(tuple(new), share):
        at = next(k for k, op in enumerate(ops) if op.original_line == other.header)
        first, last = at - (other.header - other.lines.start), at + other.lines.stop - other.header
        while first < at and ops[first].kind != "keep":  # Comments and decorators above the definition may be shown.
            first += 1
        if all(op.kind == "keep" for op in ops[first:last]):
            return range(first, last)
    return None


def _with_blanks(ops: Merge, lines: range) -> range:
    """Return the lines, and the hidden blank lines below them."""
    stop = lines.stop
    while stop < len(ops) and ops[stop].kind == "keep" and not ops[stop].text.strip():
        stop += 1
    return range(lines.start, stop)


# -- definitions that comments call removed ---------------------------------------------------------------------------
def delete(reading: ReadSnippet, ops: Merge) -> Merge:
    """Return the merge without the hidden definitions that a comment calls removed."""
    snippet = reading.snippet
    words: set[str] = set()
    for i, role in enumerate(snippet.roles):
        if role not in (Role.CONTENT, Role.BLANK, Role.ELSEWHERE) and _REMOVED.search(snippet.texts[i]):
            words.update(_NAME.findall(snippet.texts[i].lower()))
    if not words:
        return ops
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
    return Merge(out)


# -- hidden lines inside a new scope ----------------------------------------------------------------------------------
def wrap(reading: ReadSnippet, ops: Merge) -> list[LineOp]:
    """Return the merge with hidden lines indented like their marker, if that marker stands below a new line and deeper
    than they do."""
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
                break  # the end of the wrapped scope
            if ops[k].text.strip():
                out[k] = LineOp("take", None, None, new + ops[k].text[len(old) :])
    drops = {k: ops[k]._replace(kind="drop") for k in range(len(ops)) if out[k] is not ops[k]}
    return [one for k, op in enumerate(out) for one in ((drops[k], op) if k in drops else (op,))]


# -- lines beyond an edge of the snippet without a marker --------------------------------------------------------------
def cut(reading: ReadSnippet, ops: Merge) -> list[LineOp]:
    """Return the merge without the few hidden lines beyond an edge of the snippet, if the snippet has no marker at that
    edge."""
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


def retouches(reading: ReadSnippet, ops: Merge) -> Iterator[tuple[tuple[str, ...], Merge]]:
    """Yield all other merges that the questions above lead to, each with the names of the changes.

    If only a few changes stand beside lines that they may replace, each of these changes also gets a merge of its own.
    """
    renewed = renewed_at_changes(ops)
    single = [_without(ops, gone) for gone in renewed] if 1 < len(renewed) <= MAX_RENEWED else []
    all_renewed = _without(ops, set().union(*renewed))
    deleted = delete(reading, ops)
    changed: list[tuple[tuple[str, ...], Merge]] = [(("renewed",), all_renewed)]
    others = (("closed", close), ("wrapped", wrap), ("cut", cut))
    changed += [((name,), Merge(retouch(reading, ops))) for name, retouch in others]
    if deleted != ops:
        gone = set().union(*renewed_at_changes(deleted))
        changed += [(("deleted",), deleted), (("deleted", "renewed"), _without(deleted, gone))]
    changed += [(("renamed",), rename(reading, ops, share)) for share in MIN_SAME]
    changed += [(("renewed", "renamed"), rename(reading, all_renewed, share)) for share in MIN_SAME]
    told = {ops}
    for one in single:
        yield ("renewed",), Merge(single_gaps(list(one)))
    for names, other in changed:
        if other not in told:
            told.add(other)
            yield names, Merge(single_gaps(list(other)))


# -- what a merge most often gets wrong --------------------------------------------------------------------------------
def other_merges(ops: Merge, texts: Sequence[str]) -> list[Merge]:
    """Return at most MAX_OTHERS merges with other texts, the likeliest kinds first.

    `texts`: the update's lines as the merge reads them.  The questions are: Do new lines replace the hidden ones beside
    them?  What is the wording of a line that both sides show?  Does a blank line belong to the snippet?
    """
    found: list[Merge] = []
    known = {ops.text}
    kinds = (_kept, _replaced, _other_wording, partial(_other_blanks, texts=texts))
    for start, stop, new in chain(
        chain.from_iterable(find(ops, *change) for find in kinds for change in ops.changed), _shown_wording(ops, texts)
    ):
        other = Merge((*ops[:start], *new, *ops[stop:]))
        if other.text not in known:
            known.add(other.text)
            found.append(other)
        if len(found) == MAX_OTHERS:
            break
    return found


def _split(ops: Sequence[LineOp]) -> tuple[list[LineOp], list[LineOp]]:
    """Return the removed and the added lines."""
    return [op for op in ops if op.kind == "drop"], [op for op in ops if op.kind == "take"]


def _kept(ops: Merge, start: int, stop: int) -> Iterator[Change]:
    """Yield changes that keep removed lines below or above the new lines: either all removed lines, or those on one
    side of a blank line among them."""
    drops, takes = _split(ops[start:stop])
    if not drops:
        return
    keeps = [op._replace(kind="keep") for op in drops]
    blank = [not op.text.strip() for op in drops]
    last = max((i for i, is_blank in enumerate(blank) if not is_blank), default=0)
    gaps = [i for i in range(1, last) if blank[i] and not blank[i - 1]]
    for gap in (0, *gaps):
        yield start, stop, (*drops[:gap], *takes, *keeps[gap:])
    for gap in (*gaps, len(drops)):
        yield start, stop, (*keeps[:gap], *drops[gap:], *takes)


def _replaced(ops: Merge, start: int, stop: int) -> Iterator[Change]:
    """Yield changes in which the new lines also replace hidden lines beside them.

    Hidden lines below are replaced down to a line that equals the last new line; hidden lines above are replaced up to
    a line that equals the first new line.
    """
    takes = [op for op in ops[start:stop] if op.kind == "take" and op.text.strip()]
    if not takes:
        return
    below = next((i for i in range(stop, min(len(ops), stop + FAR)) if ops[i].text == takes[-1].text), None)
    if below is not None and (gone := _dropped(ops[stop : below + 1])):
        drops, rest = _split(ops[start:stop])
        yield start, below + 1, (*drops, *gone, *rest)
    above = next((i for i in range(start - 1, max(-1, start - 1 - FAR), -1) if ops[i].text == takes[0].text), None)
    if above is not None and (gone := _dropped(ops[above:start])):
        yield above, stop, (*gone, *ops[start:stop])


def _dropped(ops: Sequence[LineOp]) -> list[LineOp]:
    """Return `ops` as removals.  The result is empty unless all operations keep hidden lines."""
    return [op._replace(kind="drop") for op in ops] if all(op.kind == "keep" for op in ops) else []


def _other_wording(ops: Merge, start: int, stop: int) -> Iterator[Change]:
    """Yield the change that keeps the replaced lines, if each new line may be a misquotation of its old one."""
    drops, takes = _split(ops[start:stop])
    pairs = list(zip(drops, takes, strict=False))
    if len(drops) != len(takes) or not all(may_be_misquoted(new.text, old.text) for old, new in pairs):
        return
    both = tuple(LineOp("both", old.original_line, new.update_line, old.text) for old, new in pairs)
    yield start, stop, both


def _shown_wording(ops: Merge, texts: Sequence[str]) -> Iterator[Change]:
    """Yield changes that write a line as shown although it was taken for a misquotation.  A difference only in trailing
    white space does not count, because nobody sees it."""
    for at, op in enumerate(ops):
        if op.kind != "both" or op.update_line is None:
            continue
        shown = texts[op.update_line]
        if shown.rstrip() != op.text.rstrip():
            drop, take = LineOp("drop", op.original_line, None, op.text), LineOp("take", None, op.update_line, shown)
            yield at, at + 1, (drop, take)


def _other_blanks(ops: Merge, start: int, stop: int, *, texts: Sequence[str]) -> Iterator[Change]:
    """Yield changes that leave out a blank line at an end of the new lines, or add one that the update has there."""
    drops, takes = _split(ops[start:stop])
    if not takes:
        return
    if len(takes) > 1 and not takes[0].text.strip():
        yield start, stop, (*drops, *takes[1:])
    if len(takes) > 1 and not takes[-1].text.strip():
        yield start, stop, (*drops, *takes[:-1])
    placed = {op.update_line for op in ops}
    for take, step in ((takes[0], -1), (takes[-1], 1)):
        line = -1 if take.update_line is None else take.update_line + step
        # This blank line of the update is not in the merge yet.
        if 0 <= line < len(texts) and line not in placed and not texts[line].strip():
            blank = LineOp("take", None, line, texts[line])
            yield start, stop, (*drops, blank, *takes) if step < 0 else (*drops, *takes, blank)
