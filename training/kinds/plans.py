"""From what changes to a snippet that shows it: which lines are shown, where markers stand, and in how many places of
the file the snippet can be read.

The check of places knows nothing of how a merger works.  It asks for each stretch of shown lines where in the file its
unchanged lines stand in this order: next to each other where nothing between them changed, a little further apart
where something was replaced.  A stretch below a header of less indentation must stand inside what the header opens.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from textwrap import dedent

from rapidfuzz import fuzz

from training.kinds.shape import comment_line, indent, is_blank, is_closer, margin, owners
from training.kinds.sources import Source

SLACK = 8
FAR = 400
"""Lines that a second reading may replace, or delete, more than the first."""


@dataclass(frozen=True, slots=True)
class Op:
    """Lines `start:end` of the file become `new`.

    `key` is how the first of them begins, where this alone says which line is meant.  `note` is shown there and not
    kept.  `is_exact`: the lines around leave no doubt how much is replaced.
    """

    start: int
    end: int
    new: tuple[str, ...] = ()
    key: str = ""
    note: tuple[str, ...] = ()
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What changes, and how it must be shown.

    `shown` are lines of the file that are shown in any case.  `above`, `below`: fewest lines of context around each
    change (0: none may be added).  `header`: whether the headers above are shown.  `places` are the first lines of all
    places that are equally good, where the kind is ambiguous.
    """

    ops: tuple[Op, ...]
    shown: frozenset[int] = frozenset()
    above: int = 1
    below: int = 1
    header: str = "may"
    places: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Edit:
    """A snippet and what must become of the file."""

    update: str
    after: str
    wanted: tuple[str, ...] = ()
    """The file after each reading, in the order of the plan's places."""


@dataclass(frozen=True, slots=True)
class _Look:
    """How a snippet looks, drawn once for each."""

    markers: tuple[str, ...]
    has_first: bool
    has_last: bool
    blank_around: bool
    is_indented: bool
    headers: str
    above: int
    below: int
    is_dedented: bool


MARKERS = (
    "... existing code ...",
    "... existing code ...",
    "... existing code ...",
    "...",
    "... rest of code ...",
    "... unchanged ...",
    "... (unchanged) ...",
    "... rest of the code stays the same ...",
    "... other code ...",
    "existing code ...",
    "[existing code]",
    "... keep as is ...",
)


def apply_ops(lines: Sequence[str], ops: Sequence[Op]) -> list[str]:
    """The lines after the changes, which stand in order and do not overlap."""
    after: list[str] = []
    at = 0
    for op in ops:
        if not at <= op.start <= op.end <= len(lines):
            raise ValueError(f"changes out of order at line {op.start}")
        after += [*lines[at : op.start], *op.new]
        at = op.end
    return [*after, *lines[at:]]


def compose(source: Source, plan: Plan, rng: random.Random) -> Edit | None:
    """The snippet of a plan, or None where it can't be made clear."""
    after = source.with_lines(apply_ops(source.lines, plan.ops))
    if after == source.text or not after.strip() or after.endswith("\n\n"):
        return None
    look = _draw_look(source, plan, rng)
    for more in range(4):
        shown = _shown(source, plan, look, more)
        if shown is None or not _is_framed(source, plan, shown):
            continue
        parts = _parts(source, plan.ops, shown)
        if _read_back(source, plan, shown) != after:
            raise ValueError(f"a snippet hides a change: {source.path}")
        n_places = count_places(source, parts)
        if (n_places == 1 and not plan.places) or (n_places > 1 and plan.places):
            update = _render(source, parts, look, rng)
            if look.is_dedented and count_places(source, parts, is_flat=True) == 1:
                update = dedent(update)
            wanted = tuple(_read_at(source, plan, place) for place in plan.places)
            return Edit(update, after, wanted) if len(set(wanted)) == len(wanted) else None
        if plan.places:
            return None
    return None


def _read_at(source: Source, plan: Plan, place: int) -> str:
    shift = place - plan.ops[0].start
    ops = [replace(op, start=op.start + shift, end=op.end + shift) for op in plan.ops]
    return source.with_lines(apply_ops(source.lines, ops))


def _draw_look(source: Source, plan: Plan, rng: random.Random) -> _Look:
    is_bare = not plan.above or not plan.below
    may_dedent = not plan.places and source.language not in {"yaml", "markdown", "makefile", "dockerfile"}
    first = rng.choice(MARKERS)
    return _Look(
        markers=(first,) if rng.random() < 0.7 else (first, rng.choice(MARKERS)),
        has_first=is_bare or rng.random() < 0.85,
        has_last=is_bare or rng.random() < 0.9,
        blank_around=rng.random() < 0.4,
        is_indented=rng.random() < 0.8,
        headers=rng.choice(("none", "inner", "inner", "all")),
        above=rng.choice((1, 1, 2, 3)),
        below=rng.choice((1, 1, 2, 3)),
        is_dedented=rng.random() < 0.2 and may_dedent,
    )


def _shown(source: Source, plan: Plan, look: _Look, more: int) -> set[int] | None:
    """The lines of the file that are shown, with `more` lines of context than the look asks for."""
    lines = source.lines
    shown = set(plan.shown)
    for op in plan.ops:
        if plan.above:
            shown |= _nearest(lines, range(op.start - 1, -1, -1), max(plan.above, look.above) + more)
        if plan.below:
            shown |= _nearest(lines, range(op.end, len(lines)), max(plan.below, look.below) + more)
    gone = {i for op in plan.ops for i in range(op.start, op.end)}
    wanted = plan.header if plan.header != "may" else ("must" if more > 1 and not plan.places else look.headers)
    if wanted != "none" and wanted != "never":
        for op in plan.ops:
            above = [one for one in owners(source, op.start) if one[1] <= op.start]
            if wanted == "must" and not above:
                if plan.header == "must":
                    return None
                continue
            for start, end in above if wanted == "all" else above[-1:]:
                shown |= set(range(start, end))
    shown -= gone
    return _without_small_gaps(source, plan, shown)


def _nearest(lines: Sequence[str], span: range, n_lines: int) -> set[int]:
    found: set[int] = set()
    blank: set[int] = set()
    for i in span:
        if n_lines == 0:
            break
        if is_blank(lines[i]):
            blank.add(i)
            continue
        found |= {i, *blank}
        blank.clear()
        n_lines -= 1
    return found


def _without_small_gaps(source: Source, plan: Plan, shown: set[int]) -> set[int]:
    """With the gaps shown that are blank or one line long: no marker stands for less."""
    gone = {i for op in plan.ops for i in range(op.start, op.end)}
    keyed = {i for op in plan.ops if op.key for i in (op.start, op.end)}
    limits = sorted({*shown, *gone, *(op.start for op in plan.ops if op.start == op.end), len(source.lines)})
    filled = set(shown)
    at = 0
    for limit in limits:
        hidden = [i for i in range(at, limit) if i not in shown and i not in gone]
        is_small = len(hidden) <= 1 or all(is_blank(source.lines[i]) for i in hidden)
        if hidden and is_small and not (keyed & {at, limit}) and plan.above and plan.below:
            filled |= set(hidden)
        at = limit
    return filled


def _is_framed(source: Source, plan: Plan, shown: set[int]) -> bool:
    """Whether the neighbours of each change are shown where the snippet would be unclear without them."""
    for op in plan.ops:
        above, below = op.start - 1 in shown, op.end in shown
        if not op.new and not (above and below):
            return False
        if op.new and is_blank(op.new[0]) and not (above or op.start == 0):
            return False
        if op.new and is_blank(op.new[-1]) and not (below or op.end == len(source.lines)):
            return False
        if not (above or below or op.key):
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Span:
    """How many lines one shown line may stand below another: `least` to `most`.  Where `put_in` is set, more than
    `least` only if the lines between are ones that it may replace, because they resemble it."""

    least: int
    most: int
    put_in: str = ""

    def allows(self, lines: Sequence[str], above: int, below: int) -> bool:
        if not self.least <= below - above <= self.most:
            return False
        return not self.put_in or below - above == self.least or self._resembles(lines[above + 1 : below])

    def _resembles(self, between: Sequence[str]) -> bool:
        return fuzz.ratio("\n".join(filter(None, map(str.strip, between))), self.put_in) > 60


def _span(distance: int, changed: Sequence[Op]) -> _Span:
    """The span of two shown lines that stand this far apart, with these changes between them."""
    if all(op.is_exact or op.key for op in changed):
        return _Span(distance, distance)
    n_gone = sum(op.end - op.start for op in changed)
    if n_gone == 0:
        put_in = [line.strip() for op in changed for line in op.new if line.strip()]
        return _Span(distance, distance + len(put_in) + SLACK, "\n".join(put_in))
    is_deletion = not any(op.new for op in changed)
    return _Span(max(1, distance - n_gone), distance + (FAR if is_deletion else SLACK))


@dataclass(frozen=True, slots=True)
class _Part:
    """A stretch that is shown without a gap: `kept` are its unchanged lines and keys as (line, text, is_key)."""

    first: int
    last: int
    texts: tuple[str, ...]
    kept: tuple[tuple[int, str, bool], ...] = ()
    spans: tuple[_Span, ...] = field(default=())
    """For each of `kept` but the first how far it may stand below the one before."""


def _parts(source: Source, all_ops: Sequence[Op], shown: set[int]) -> list[_Part]:
    lines = source.lines
    ops = {op.start: op for op in all_ops}
    parts: list[_Part] = []
    texts: list[str] = []
    kept: list[tuple[int, str, bool]] = []
    changed: list[Op] = []
    spans: list[_Span] = []
    first = 0

    def keep(i: int, text: str, *, is_key: bool) -> None:
        if kept:
            distance = i - kept[-1][0]
            spans.append(_span(distance, changed))
        changed.clear()
        kept.append((i, text, is_key))

    def close(last: int) -> None:
        if texts:
            parts.append(_Part(first, last, tuple(texts), tuple(kept), tuple(spans)))
        for one in (texts, kept, changed, spans):
            one.clear()

    i = 0
    while i <= len(lines):
        op = ops.get(i)
        if op is not None:
            if not texts:
                first = i
            texts += [*op.note, *op.new]
            if op.key:
                keep(op.start, op.key, is_key=True)
            else:
                changed.append(op)
            if op.end > i:
                i = op.end
                continue
        if i < len(lines) and i in shown:
            if not texts:
                first = i
            texts.append(lines[i])
            if not is_blank(lines[i]):
                keep(i, lines[i].rstrip(), is_key=False)
        elif i < len(lines):
            close(i)
        i += 1
    close(len(lines))
    return parts


@lru_cache(maxsize=256)
def _where(source: Source, *, is_flat: bool) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for i, line in enumerate(source.lines):
        found.setdefault(line.strip() if is_flat else line.rstrip(), []).append(i)
    return found


def _read_back(source: Source, plan: Plan, shown: set[int]) -> str:
    """The file that comes of the shown parts at their own places, with all that no part covers unchanged."""
    after: list[str] = []
    at = 0
    for part in _parts(source, [replace(op, note=()) for op in plan.ops], shown):
        after += [*source.lines[at : part.first], *part.texts]
        at = part.last
    return source.with_lines([*after, *source.lines[at:]])


def count_places(source: Source, parts: Sequence[_Part], *, is_flat: bool = False) -> int:
    """In how many places of the file the parts can be read, counted up to two; `is_flat`: whatever the indentation."""
    where = _where(source, is_flat=is_flat)
    owner = [_owner(source, parts, index) for index in range(len(parts))]

    def candidates(text: str, is_key: bool) -> list[int]:
        if not is_key:
            return where.get(text.strip() if is_flat else text, [])
        return [i for i, line in enumerate(source.lines) if line.lstrip().startswith(text)]

    def ways(part: _Part, low: int, high: int) -> list[tuple[int, int]]:
        """First and last line of each way to read a part between two lines."""
        found = [(i, i) for i in candidates(*part.kept[0][1:]) if low <= i < high]
        for (_, text, is_key), span in zip(part.kept[1:], part.spans, strict=True):
            at = candidates(text, is_key)
            found = [(f, i) for f, last in found for i in at if i < high and span.allows(source.lines, last, i)]
        return found

    def count(index: int, low: int, placed: tuple[int, ...]) -> int:
        if index == len(parts):
            return 1
        part = parts[index]
        if not part.kept:
            return 2
        high = len(source.lines)
        above = owner[index]
        if above is not None:
            high = _scope_end(source, placed[above])
        total = 0
        for _, last in ways(part, low, high):
            total += count(index + 1, last + 1, (*placed, last))
            if total > 1:
                return 2
        return total

    return count(0, 0, ())


def _owner(source: Source, parts: Sequence[_Part], index: int) -> int | None:
    """The part before this one whose last line is a header that this one stands below, if any."""
    depth = min((indent(text) for text in parts[index].texts[:1] if text.strip()), default=0)
    for above in range(index - 1, -1, -1):
        kept = [text for _, text, is_key in parts[above].kept if not is_key]
        if not kept or parts[above].texts[-1].rstrip() != kept[-1]:
            continue
        line = kept[-1]
        if _opens_section(source, line) or (indent(line) < depth and not is_closer(line)):
            return above
        if is_closer(line) and re.search(r"[{:]$", line) and indent(line) < depth:
            return above
    return None


def _opens_section(source: Source, line: str) -> bool:
    if source.language == "markdown":
        return re.match(r"#{1,6} ", line) is not None
    return source.language == "toml" and line.startswith("[")


def _scope_end(source: Source, header: int) -> int:
    lines = source.lines
    depth = indent(lines[header])
    if source.language == "markdown" and lines[header].startswith("#"):
        level = len(lines[header]) - len(lines[header].lstrip("#"))
        return next((i for i in range(header + 1, len(lines)) if re.match(rf"#{{1,{level}}} ", lines[i])), len(lines))
    if source.language == "toml" and lines[header].startswith("["):
        return next((i for i in range(header + 1, len(lines)) if lines[i].startswith("[")), len(lines))
    for i in range(header + 1, len(lines)):
        if not is_blank(lines[i]) and indent(lines[i]) <= depth and not lines[i].startswith("#"):
            return i + is_closer(lines[i])
    return len(lines)


def _render(source: Source, parts: Sequence[_Part], look: _Look, rng: random.Random) -> str:
    lines = source.lines
    out: list[str] = []
    at = 0
    if parts[0].first == 0:
        look = replace(look, has_last=True)  # without any marker it would look like the whole file
    if parts[-1].last == len(lines):
        look = replace(look, has_first=True)
    for part in parts:
        _put_marker(source, out, range(at, part.first), part.texts[0], look, rng, is_first=at == 0)
        out += part.texts
        at = part.last
    _put_marker(source, out, range(at, len(lines)), "", look, rng, is_first=False)
    return "\n".join(out) + "\n"


def _put_marker(
    source: Source, out: list[str], hidden: range, following: str, look: _Look, rng: random.Random, *, is_first: bool
) -> None:
    """A marker for a hidden stretch, if there is one and the look does not leave it off."""
    if not hidden or (is_first and not look.has_first) or (hidden.stop == len(source.lines) and not look.has_last):
        return
    lines = source.lines
    content = [lines[i] for i in hidden if not is_blank(lines[i])]
    if not content:
        return
    inside = [line for line in (content[0], following or content[0]) if line.strip()]
    deepest = max(inside, key=indent) if out and indent(content[0]) > indent(out[-1]) else min(inside, key=indent)
    pad = margin(deepest) if look.is_indented or source.language in {"python", "yaml"} else ""
    if look.blank_around and out and is_blank(lines[hidden.start]):
        out.append("")
    out.append(pad + comment_line(source.language, rng.choice(look.markers)))
    if look.blank_around and is_blank(lines[hidden.stop - 1]):
        out.append("")
