"""Writes the operations of a merge from an alignment: which lines stay, which are removed and which are new.

A block shows every line between its first and its last matched line.  Lines that the snippet shows unchanged keep the
original's bytes.  The writer also collects reasons for doubt.  An anchor is a line of the file that a block shows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise, takewhile

from apply_service.merge.align import Match
from apply_service.merge.candidates import Candidates, Kind, key_of, substance, tight
from apply_service.merge.loose import (
    balanced_end,
    place_block,
    replaced_above,
    replaced_below,
    usual_gap,
)
from apply_service.merge.reading import DEFINITIONS_STAY, LEFT_OUT, SECTIONED, Block, ReadSnippet
from apply_service.merge.removals import find_removed
from apply_service.merge.wording import is_elided, is_misquoted, may_be_misquoted
from apply_service.text.lines import (
    header_name,
    indent_of,
    is_attached,
    is_closer,
    is_definition,
    new_definitions,
)
from apply_service.text.markers import PLAIN_NOTE, Role, deletion_target, strip_comment
from apply_service.types import LineOp, Merge

DATA = ("toml", "ini", "yaml", "json", "jsonc")
"""Languages of files whose entries may stand in any order."""
MAX_LEFT_OUT = 40
"""If a block leaves out more lines than this, and a definition is among them, that causes a doubt."""
SHORTENED = "the snippet shortens a line; the file's own line is kept"
MIN_MOVED = 0.8
"""Lines count as moved only if their total `substance` is more than this."""


@dataclass(slots=True)
class LaidBlock:
    """The place of a block: `body` replaces the original lines `start:end`."""

    start: int
    end: int
    body: list[LineOp]


class Writer:
    """Writes one alignment of a reading.

    `trusts_all`: every difference is an edit, and none is a misquotation.  `added`: update lines that replace no
    hidden line at the end of a block.
    """

    def __init__(
        self,
        reading: ReadSnippet,
        candidates: Mapping[int, Candidates],
        matches: Sequence[Match],
        *,
        trusts_all: bool = False,
        added: Collection[int] = (),
    ) -> None:
        self._added = added
        self._reading = reading
        self._original = reading.original
        self._candidates = candidates
        self._trusts_all = trusts_all
        self.doubts: list[str] = []
        self.texts = list(reading.texts)
        self._spent: set[int] = set()
        self._reworded: list[int] = []
        """Original comments between unchanged lines, if the snippet shows the comments in other words."""
        visible = [i for _, i in reading.visible]
        self._columns = {visible[m.row]: m.column for m in matches}
        """The original line of each matched update line.  Only the first update line of a group is listed."""
        self._groups = {
            visible[m.row]: (visible[m.row + m.n_rows - 1], m.column + m.n_columns)
            for m in matches
            if m.n_rows > 1 or m.n_columns > 1
        }
        """For each group's first update line: the group's last update line, and one past the group's last original
        line."""
        ceilings = [len(self._original)]
        for block in reading.snippet.blocks[::-1]:
            ceilings.append(min((self._columns[i] for i in block.lines if i in self._columns), default=ceilings[-1]))
        self._ceilings = list(accumulate(ceilings, min))[::-1]
        """For each block, the first original line that this block or a later one matches.  The last entry is the file's
        end."""

    @cached_property
    def _headers(self) -> dict[int, int | None]:
        """For each block, the nearest line above its first line that is indented less and is not a part of the block.
        In files with sections, the nearest heading."""
        found: dict[int, int | None] = {}
        is_page, heading = self._reading.language in SECTIONED, None
        open_lines: list[tuple[int, int]] = []
        texts = self._reading.texts
        for block in self._reading.snippet.blocks:
            level = indent_of(texts[block.lines[0]])
            found[block.lines[0]] = next((i for at, i in reversed(open_lines) if at < level), None)
            if is_page:
                found[block.lines[0]] = heading
                heading = next((i for i in reversed(block.lines) if header_name(texts[i])), heading)
            for i in () if is_page else block.lines:
                if texts[i].strip():
                    level = indent_of(texts[i])
                    while open_lines and open_lines[-1][0] >= level:
                        open_lines.pop()
                    open_lines.append((level, i))
        return found

    def write(self) -> list[LineOp]:
        spans: list[LaidBlock | None] = []
        floor = 0
        for b in range(len(self._reading.snippet.blocks)):
            span = self._anchored_span(b, floor)
            spans.append(span)
            floor = span.end if span is not None else floor
        placed = self._with_deletions(self._place_loose(spans))
        ops: list[LineOp] = []
        at = 0
        for span in placed:
            ops += self._reading.keeps[at : span.start]
            ops += span.body
            at = span.end
        if self._reworded and sum(op.kind in ("drop", "take") for op in ops) > 2 * len(self._reworded):
            self.doubts.append("the snippet shows a comment of the file in other words")
        return single_gaps(self._with_shown_blanks(ops + self._reading.keeps[at:]))

    def _with_shown_blanks(self, ops: list[LineOp]) -> list[LineOp]:
        """Return the operations, with the blank lines that the snippet shows between a marker and lines that replace
        nothing."""
        blocks = self._reading.snippet.blocks
        gaps_above: dict[int | None, Sequence[int]] = {block.lines[0]: block.gap_before[::-1] for block in blocks}
        gaps_below: dict[int | None, Sequence[int]] = {block.lines[-1]: block.gap_after for block in blocks}
        out: list[LineOp] = []
        at = 0
        for start, stop in Merge(ops).changed:
            run = ops[start:stop]
            out += ops[at:start]
            at = stop
            solid = [k for k, op in enumerate(run) if op.text.strip()]
            if solid and all(run[k].kind == "take" for k in solid):
                first, last = solid[0], solid[-1]
                level = indent_of(run[first].text)
                above = (ops[k] for k in range(start + first - 1, -1, -1))
                below = (ops[k] for k in range(start + last + 1, len(ops)))
                out += run[:first]
                out += self._missing(gaps_above.get(run[first].update_line), above, level)
                out += run[first : last + 1]
                out += self._missing(gaps_below.get(run[last].update_line), below)
                out += run[last + 1 :]
            else:
                out += run
        return out + ops[at:]

    def _missing(self, gap: Sequence[int] | None, beside: Iterable[LineOp], level: int | None = None) -> list[LineOp]:
        """Return the blank lines at the start of a gap that the operations beside it lack.

        The list is empty at the edge of a scope, that is, if the line beside the gap is indented less than `level` or
        closes a scope.
        """
        roles, texts = self._reading.snippet.roles, self._reading.snippet.texts
        # A blank line may be a marker itself.
        blanks = takewhile(lambda i: roles[i] in (Role.BLANK, Role.MARKER) and not texts[i].strip(), gap or ())
        n_shown = len([*blanks])
        if gap is None or not n_shown or all(roles[i] is Role.BLANK for i in gap):
            return []
        n_there = 0
        for op in beside:
            if op.text.strip():
                is_edge = is_closer(op.text) if level is None else indent_of(op.text) < level
                return [] if is_edge else self._take(self._free_lines(gap, max(0, n_shown - n_there)))
            n_there += op.kind != "drop"
        return []

    # -- anchored blocks ---------------------------------------------------------------------------------------------
    def _past(self, block: Block, k: int, j: int) -> tuple[int, int]:
        """Return one past the lines of an anchor, as (index in the block, original line)."""
        last, end = self._groups.get(block.lines[k], (block.lines[k], j + 1))
        return bisect_left(block.lines, last) + 1, end

    def _anchored_span(self, b: int, floor: int) -> LaidBlock | None:
        block = self._reading.snippet.blocks[b]
        anchors = [(k, self._columns[i]) for k, i in enumerate(block.lines) if i in self._columns]
        """(Index in the block, original line) of the block's matched lines."""
        if not anchors:
            return None
        first, last = anchors[0], anchors[-1]
        start = first[1]
        if first[0] > 0:
            shown = [self.texts[i] for i in block.lines[: first[0]]]
            if not any(span.start == 0 for span in new_definitions(shown, self._reading.names)):
                self.doubts.append("the snippet shows no line of the file above new lines")
            if block.lines[0] not in self._added:
                start -= replaced_above(self._reading, b, first, floor)
        start -= self._n_moved(block.lines, range(start - 1, floor - 1, -1))
        body = self._drop(start, first[1])
        start, new = self._new_above(block, block.lines[: first[0]], start, start if body else floor)
        body += new
        for (k, j), (next_k, next_j) in pairwise(anchors):
            body += self._anchor(block, k, j)
            past_k, past_j = self._past(block, k, j)
            body += self._between(block, past_k - 1, next_k, past_j, next_j)
        past_k, past_j = self._past(block, *last)
        end = self._end(b, (past_k - 1, past_j - 1), is_group=block.lines[last[0]] in self._groups)
        end += self._n_moved(block.lines[::-1], range(end, self._ceilings[b + 1]))
        ending = self._anchor(block, last[0], last[1])
        body += [op for op in ending if op.kind != "take"] + self._drop(past_j, end)
        body += [op for op in ending if op.kind == "take"] + self._take(block.lines[past_k:])
        return LaidBlock(start, end, body + self._parted_below(block, past_k - 1, end))

    def _new_above(self, block: Block, takes: Sequence[int], start: int, floor: int) -> tuple[int, list[LineOp]]:
        """Return the place and the operations of the new lines above line `start`, which the block shows.

        A new definition gets the usual number of blank lines above it.  If the block shows as many blank lines below
        the new definition as the file has, it begins above the file's blank lines, but not before line `floor`.
        """
        n_solid = max((k for k, i in enumerate(takes, 1) if self.texts[i].strip()), default=0)
        n_there = self._reading.blanks_before(start)
        top = start - n_there
        gap = usual_gap(self._reading, (self.texts[i] for i in takes)) if block.gap_before and top else 0
        level = indent_of(self.texts[takes[0]]) if gap else 0
        above = self._original[top - 1]
        is_apart = indent_of(above) == level and not is_attached(above)
        if n_there:
            is_apart = len(takes) - n_solid == n_there != gap and indent_of(above) >= level and top >= floor
        if not gap or not is_apart:
            is_glued = bool(block.gap_before) and self.texts[block.gap_before[-1]].strip() != ""
            if is_glued and not gap and 0 < n_there == len(takes) - n_solid and top >= floor and n_solid:
                # The marker right above shows that the new lines continue the lines above.  The blank lines are those
                # of the file.
                return top, self._take(takes[:n_solid]) + self._pair(takes[n_solid:], top, start)
            return start, self._take(takes)
        blanks = self._take(self._free_lines(block.gap_before[::-1], gap)[::-1])
        rest = self._pair(takes[n_solid:], top, start) if n_there else self._take(takes[n_solid:])
        return top, blanks + self._take(takes[:n_solid]) + rest

    def _n_moved(self, lines: Sequence[int], hidden: Sequence[int]) -> int:
        """Return how many hidden lines beside a block stand as new lines at its edge, because they were moved past the
        lines there.

        `lines`: the block's lines from the edge inwards.  `hidden`: the original lines from the edge outwards.
        """
        index = self._reading.index
        at_edge = list(takewhile(self._columns.__contains__, lines))
        new = [self.texts[i].rstrip() for i in takewhile(lambda i: i not in self._columns, lines[len(at_edge) :])]
        for n in range(min(len(new), len(hidden)) if at_edge else 0, 0, -1):
            if new[n - 1] != self._original[hidden[0]].rstrip():
                continue
            moved = [self._original[j].rstrip() for j in hidden[:n]]
            if moved == new[:n][::-1] and all(index.count(line) == 1 for line in moved):
                return n if sum(map(substance, moved)) > MIN_MOVED else 0
        return 0

    def _parted_below(self, block: Block, last: int, end: int) -> list[LineOp]:
        """Return the blank lines below a new definition that ends a block, if the file separates definitions with blank
        lines."""
        takes = [self.texts[i] for i in block.lines[last + 1 :]]
        header = next((text for text in takes if is_definition(text) and not is_attached(text)), None)
        below = self._original[end] if end < len(self._original) else ""
        if header is None or indent_of(below) != indent_of(header) or not is_definition(below):
            return []
        if not (is_closer(takes[-1]) or indent_of(takes[-1]) > indent_of(header)):
            return []
        return self._take(self._free_lines(block.gap_after, usual_gap(self._reading, [header])))

    def _end(self, b: int, last: tuple[int, int], *, is_group: bool) -> int:
        """Return one past the last original line that the block replaces."""
        block = self._reading.snippet.blocks[b]
        ceiling = self._ceilings[b + 1]
        if last[0] < len(block.lines) - 1:
            shown = [self.texts[i] for i in block.lines[last[0] + 1 :]]
            if not any(span.stop == len(shown) for span in new_definitions(shown, self._reading.names)):
                self.doubts.append("the snippet shows no line of the file below new lines")
            if block.lines[-1] in self._added:
                return last[1] + 1
            return last[1] + 1 + replaced_below(self._reading, b, last, ceiling, self._columns)
        i = block.lines[last[0]]
        if not is_group and self._candidates[i].kind_at(last[1]) is Kind.SIMILAR:
            return balanced_end(self._original, last[1], last[1] + 1, [self.texts[i]], ceiling)
        return last[1] + 1

    def _anchor(self, block: Block, k: int, j: int) -> list[LineOp]:
        i = block.lines[k]
        if i in self._groups:
            past_k, past_j = self._past(block, k, j)
            if past_k == k + 1 and is_elided(tight(self.texts[i]), tight("".join(self._original[j:past_j]))):
                self.doubts.append(SHORTENED)
                return [LineOp("both", j, i, self._original[j]), *self._reading.keeps[j + 1 : past_j]]
            return [*self._drop(j, past_j), *self._take(block.lines[k:past_k])]
        if self._keeps_wording(block, k, j):
            return [LineOp("both", j, i, self._original[j])]
        return [*self._drop(j, j + 1), *self._take([i])]

    def _keeps_wording(self, block: Block, k: int, j: int) -> bool:
        """Tell whether the shown line stands for the original's line j, although it may be written differently."""
        i = block.lines[k]
        kind, edge = self._candidates[i].kind_at(j), k in (0, len(block.lines) - 1)
        shown, line = self.texts[i], self._original[j]
        if kind is Kind.SAME:
            if shown == line:
                return True
            self.doubts.append("blanks at the end of a line differ from the file's")
            return edge or not self._reading.keeps_trailing_blanks
        if kind is Kind.ELIDED:
            self.doubts.append(SHORTENED)
            return True
        respaced = kind is Kind.MOVED or (kind is Kind.SPACED and shown.split() == line.split())
        loose = is_misquoted(shown, line) or (edge and respaced)
        is_comment = strip_comment(shown).is_comment and strip_comment(line).is_comment
        if is_comment and shown.split() != line.split() and self._is_alone(block, k, j):
            self._reworded.append(j)
        is_namesake = header_name(shown) is not None and header_name(shown) == header_name(line)
        if loose or (not is_namesake and (edge or may_be_misquoted(shown, line))):
            self.doubts.append(
                "a shown line is like a line of the file, but not equal: it may be its new form or a line of its own"
            )
        if kind is Kind.MOVED and not (self._reading.knows_margin(shown) and self._has_cause(block, k, j)):
            self.doubts.append("the snippet shows a line of the file at another indentation, for no reason")
        return loose and not self._trusts_all

    def _has_cause(self, block: Block, k: int, j: int) -> bool:
        """Tell whether line k has a reason for an indentation other than that of line j.

        Directly below an unchanged line there is no such reason.
        """
        above = block.lines[k - 1] if k else None
        return above is None or self._columns.get(above) != j - 1 or self.texts[above] != self._original[j - 1]

    def _is_alone(self, block: Block, k: int, j: int) -> bool:
        """Tell whether the lines around line k stand in the original around line j."""
        for i, at in ((block.lines[k + step], j + step) for step in (-1, 1) if 0 <= k + step < len(block.lines)):
            is_equal = 0 <= at < len(self._original) and self.texts[i].strip() == self._original[at].strip()
            if not is_equal or self._columns.get(i, at) != at:
                return False
        return True

    def _between(self, block: Block, k: int, next_k: int, start: int, end: int) -> list[LineOp]:
        """Return the operations between two anchors.

        Blank lines are paired from both ends.  The other original lines are dropped, and the other shown lines are
        taken.
        """
        lines = block.lines[k + 1 : next_k]
        noted = bisect_right(block.deletions, block.lines[k])
        note = block.deletions[noted] if noted < len(block.deletions) else None
        note = note if note is not None and note < block.lines[next_k] else None
        if note is not None:
            self._check_deletion(note, start, end)
        head = 0
        while head < len(lines) and start + head < end and self._both_blank(lines[head], start + head):
            head += 1
        tail = 0
        while tail < min(len(lines), end - start) - head and self._both_blank(lines[-1 - tail], end - 1 - tail):
            tail += 1
        if note is not None and head + tail == len(lines):
            return self._blanks_at_note(lines, start, end)
        if note is not None and any(not self.texts[i].strip() for i in lines):
            self.doubts.append("it is not clear how many blank lines are kept at a comment about a removal")
        if note is None and self._passes_over(block, k, next_k, start, end):
            return [LineOp("keep", j, None, self._original[j]) for j in range(start, end)]
        gone = [line for line in self._original[start:end] if line.strip()]
        if (
            gone
            and not any(self.texts[i].strip() for i in lines)
            and all(strip_comment(line).is_comment for line in gone)
        ):
            self.doubts.append("a comment of the file is left out between two shown lines")
        ops = [LineOp("both", start + h, lines[h], self._original[start + h]) for h in range(head)]
        ops += self._drop(start + head, end - tail) + self._take(lines[head : len(lines) - tail])
        ops += [LineOp("both", end - t, lines[-t], self._original[end - t]) for t in range(tail, 0, -1)]
        kept = [(op.text, op.update_line) for op in ops if op.kind == "both"]
        respaced = any(i is not None and text != self.texts[i] for text, i in kept)
        blank = [{op.text for op in ops if op.kind == kind and not op.text.strip()} for kind in ("drop", "take")]
        if respaced or (blank[0] and blank[1] and blank[0] != blank[1]):
            self.doubts.append("blanks at the end of a line differ from the file's")
        return ops

    def _passes_over(self, block: Block, k: int, next_k: int, start: int, end: int) -> bool:
        """Tell whether lines stay although a block leaves them out.

        A snippet with markers deletes the lines that a block leaves out.  Definitions stay, however, if the snippet has
        no markers at all, or if the block only names the scopes that they stand in.
        """
        if any(self.texts[i].strip() for i in block.lines[k + 1 : next_k]):
            return False
        gone = [line for line in self._original[start:end] if line.strip()]
        level = min(map(indent_of, gone), default=0)
        definitions = sum(_defines_at(line, level) for line in gone)
        header, below = self.texts[block.lines[k]], self.texts[block.lines[next_k]]
        is_bare = is_definition(header) and indent_of(header) < indent_of(below) == level
        if definitions and (is_bare or definitions > 1 or len(gone) > MAX_LEFT_OUT):
            self.doubts.append("definitions of the file are left out between two shown lines")
        if gone and (
            block.lines[next_k] in self._reading.addresses or self._skips_entries(block, k, next_k, gone, level)
        ):
            self.doubts.append(LEFT_OUT)
            return True
        if self._reading.snippet.has_markers or not definitions:
            return False
        columns = [self._columns[i] for i in block.lines if i in self._columns]
        span = [line for line in self._original[columns[0] : columns[-1] + 1] if line.strip()]
        if self._reading.has_addresses and (definitions > 1 or is_bare) and 2 * len(columns) <= len(span):
            self.doubts.append(DEFINITIONS_STAY)
            return True
        if not self._reading.has_addresses or not definitions >= self._shown_beside(block, k, level) > 0:
            return False
        names = {header_name(self.texts[i]) for i in block.lines}
        if any(header_name(line) in names for line in gone if _defines_at(line, level)):  # the definition was moved
            return False
        self.doubts.append(LEFT_OUT)
        return True

    def _shown_beside(self, block: Block, k: int, level: int) -> int:
        """Return how many definitions the block shows in the scope around line k.  `level`: the scope's indentation."""
        texts = [self.texts[i] for i in block.lines]
        outside = [n for n, text in enumerate(texts) if text.strip() and indent_of(text) < level]
        start = max((n for n in outside if n <= k), default=-1)
        stop = min((n for n in outside if n > k), default=len(texts))
        return sum(_defines_at(text, level) for text in texts[start + 1 : stop]) if level else 0

    def _skips_entries(self, block: Block, k: int, next_k: int, gone: Sequence[str], level: int) -> bool:
        """Tell whether a block without markers leaves out entries of a data file beside a changed entry.

        If the file has both lines around the gap, the answer is no, because the entries between them are deleted.
        """
        reading = self._reading
        if reading.language not in DATA or not reading.has_addresses or reading.snippet.has_markers:
            return False
        is_known = [reading.index.has(self.texts[block.lines[n]].rstrip()) for n in (k, next_k)]
        return not all(is_known) and all(key_of(line) for line in gone if indent_of(line) == level)

    def _both_blank(self, i: int, j: int) -> bool:
        if self.texts[i].strip() or self._original[j].strip():
            return False
        return self.texts[i] == self._original[j] or not self._reading.keeps_trailing_blanks

    # -- deletions ---------------------------------------------------------------------------------------------------
    def _check_deletion(self, note: int, start: int, end: int) -> None:
        dropped = "\n".join(self._original[start:end]).lower()
        target = deletion_target(self.texts[note])
        words = [word.lower() for word in target.replace("(", " ").replace(".", " ").split() if len(word) > 2]
        if not dropped.strip():
            self.doubts.append("a comment says that something was removed, but the file has nothing there")
        elif words and not any(word.strip("`'\",:;)") in dropped for word in words):
            self.doubts.append("a comment says what was removed, but the lines removed there have none of its words")
        elif not PLAIN_NOTE.match(strip_comment(self.texts[note]).core):
            self.doubts.append("a comment about a removal was taken for a note and left out")

    def _with_deletions(self, placed: Sequence[LaidBlock]) -> list[LaidBlock]:
        """Return the given spans, and spans for what notes between markers call deleted."""
        spans = list(placed)
        for note in self._reading.snippet.stray_deletions:
            n = sum(block.lines[0] < note for block in self._reading.snippet.blocks)
            low = placed[n - 1].end if n else 0
            high = placed[n].start if n < len(placed) else len(self._original)
            self.doubts.append("a comment between markers says that something was removed")
            gone = find_removed(self._reading, note, low, high)
            if gone is not None:
                spans.append(LaidBlock(gone.start, gone.stop, self._drop(gone.start, gone.stop)))
        # Sort the spans by their place in the original, and leave out those that overlap an earlier one.
        kept: list[LaidBlock] = []
        for span in sorted(spans, key=lambda span: span.start):
            if not kept or span.start >= kept[-1].end:
                kept.append(span)
        return kept

    def _blanks_at_note(self, lines: Sequence[int], start: int, end: int) -> list[LineOp]:
        """Return the operations of a stretch that shows only a deletion note and blank lines.

        The original has blank lines above and below the deleted lines; the longer of the two runs stays.
        """
        above, below = start, end
        while above < end and not self._original[above].strip():
            above += 1
        while below > above and not self._original[below - 1].strip():
            below -= 1
        if not lines:
            return self._drop(start, end)
        if max(above - start, end - below) != len(lines):
            self.doubts.append("it is not clear how many blank lines are kept at a comment about a removal")
        if above - start >= end - below:
            return self._pair(lines, start, above) + self._drop(above, end)
        return self._drop(start, below) + self._pair(lines, below, end)

    def _pair(self, lines: Sequence[int], start: int, end: int) -> list[LineOp]:
        """Return the original's blank lines `start:end`, paired in order with the snippet's blank lines `lines`."""
        ops = []
        for n, j in enumerate(range(start, end)):
            shown = lines[n] if n < len(lines) else None
            ops.append(LineOp("keep" if shown is None else "both", j, shown, self._original[j]))
        return ops

    # -- loose blocks ------------------------------------------------------------------------------------------------
    def _place_loose(self, spans: Sequence[LaidBlock | None]) -> list[LaidBlock]:
        placed: list[LaidBlock] = []
        below = [len(self._original)]
        for anchored in spans[:0:-1]:
            below.append(below[-1] if anchored is None else anchored.start)
        low = 0
        for b, (span, high) in enumerate(zip(spans, below[::-1], strict=False)):
            if span is None:
                high = min(high, self._end_of_scope(b))
                placement = place_block(self._reading, b, low, max(low, high), self._stub_above(b))
                self.doubts.append(placement.reason)
                block = self._reading.snippet.blocks[b]
                for i in block.lines:
                    self.texts[i] = placement.shift.apply(self.texts[i])
                before = self._free_lines(block.gap_before[::-1], placement.blanks_before)[::-1]
                # If the snippet begins with the block, the blank lines above it are made anew.
                n_made = 0 if block.gap_before else placement.blanks_before
                n_left = placement.blanks_before + placement.blanks_after - len(before) - n_made
                after = self._free_lines(block.gap_after, n_left)
                body = [LineOp("take", None, None, "")] * n_made + self._take([*before, *block.lines, *after])
                span = LaidBlock(placement.at, placement.at, body)
            placed.append(span)
            low = max(low, span.end)
        return placed

    def _stub_above(self, b: int) -> int | None:
        """Return the original line of the header right above the block.  The result is None unless the snippet leaves
        out the header's body and goes on after the block."""
        block, snippet = self._reading.snippet.blocks[b], self._reading.snippet
        if b == len(snippet.blocks) - 1 and not block.marked_after:
            return None
        header = snippet.blocks[b - 1].lines[-1] if b else -1
        indent = indent_of(self.texts[header])
        marks = self._reading.marker_indents(block.gap_before)
        is_stub = min(marks) > indent if marks else header in self._reading.elided
        return self._columns.get(header) if is_stub and indent_of(self.texts[block.lines[0]]) == indent else None

    def _end_of_scope(self, b: int) -> int:
        """Return one past the scope in which the block is shown.  The nearest line above the block that is indented
        less opens it."""
        block = self._reading.snippet.blocks[b]
        header = self._headers[block.lines[0]]
        if self._reading.language in SECTIONED:
            # A section ends with the next heading of its rank, not with its indentation.
            heading = self._columns.get(-1 if header is None else header)
            return next((s.end_line for s in self._reading.scopes if s.header_line == heading), len(self._original))
        if header not in self._columns or block.hint is not None:
            return len(self._original)
        return self._reading.close_of(self._columns[header])

    def _free_lines(self, gap: Sequence[int], n: int) -> list[int]:
        """Return up to n lines of a gap (marker, note, blank), each of which becomes one blank line of the output.

        Each line of a gap is used only once.
        """
        free = [i for i in gap if i not in self._spent][:n]
        self._spent.update(free)
        for i in free:
            self.texts[i] = ""
        return free

    def _drop(self, start: int, end: int) -> list[LineOp]:
        return [LineOp("drop", j, None, self._original[j]) for j in range(start, end)]

    def _take(self, lines: Sequence[int]) -> list[LineOp]:
        return [LineOp("take", None, i, self.texts[i]) for i in lines]


def _defines_at(line: str, level: int) -> bool:
    return indent_of(line) == level and is_definition(line) and not is_attached(line)


def single_gaps(ops: list[LineOp]) -> list[LineOp]:
    """Return the operations without those new blank lines that stand beside hidden blank lines between the same two
    lines."""
    gone: set[int] = set()
    stop = 0
    for k in [k for k, op in enumerate(ops) if op.kind == "take" and not op.text.strip()]:
        if k < stop:
            continue
        start, stop = k, k
        while start and _is_gap(ops[start - 1]):
            start -= 1
        while stop < len(ops) and _is_gap(ops[stop]):
            stop += 1
        new = [n for n in range(start, stop) if ops[n].kind == "take"]
        hidden = sum(ops[n].kind == "keep" for n in range(start, stop))
        shown = sum(ops[n].kind == "both" for n in range(start, stop))
        gone.update(new[: min(hidden, len(new) + shown)])
    return [op for n, op in enumerate(ops) if n not in gone] if gone else ops


def _is_gap(op: LineOp) -> bool:
    return op.kind == "drop" or not op.text.strip()
