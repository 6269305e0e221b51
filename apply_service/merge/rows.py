"""Aligns a reading (a snippet, cut into blocks) with the file.

`Rows` finds the places in the original where each shown line may stand, and the cost of taking the line as new.
`align` solves the problem.  `aligned_matches` prefers an alignment that keeps brackets in pairs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, groupby, islice, pairwise, takewhile

import numpy as np
import numpy.typing as npt

from apply_service.merge.align import FORCED, INSERT_COST, TAKE, Group, Match, Row, Terrain, align
from apply_service.merge.candidates import (
    FACTOR,
    MAX_FUZZY_LENGTH,
    MAX_JOINED,
    NOTHING,
    Candidates,
    Kind,
    key_of,
    substance,
    tight,
)
from apply_service.merge.reading import Block, ReadSnippet
from apply_service.merge.statements import Statement, essence, gist, imported, likeness, statements
from apply_service.merge.write import DATA, Writer
from apply_service.text.fences import find_fences, read_fence
from apply_service.text.lines import (
    are_other_arms,
    arm_words,
    attached_start,
    balance,
    definition_end,
    header_name,
    indent_of,
    is_attached,
    is_branch,
    is_closer,
    is_definition,
    is_one_more,
    leading,
    name_at,
    new_definitions,
    surplus,
)
from apply_service.text.markers import Role, strip_comment
from apply_service.types import LineOp

COPY_COST = 0.3
"""Cost of taking a line as new although the file has an equal line."""
TWIN_COST = 1.0
"""The same cost if the file has just one equal line and the line's `substance` (how much it says) is above
MIN_SAYING."""
OVERLOADED = ("java", "csharp", "cpp", "kotlin", "swift", "scala")
"""Languages in which one name may stand for several functions."""
_CLOSING_TAG = re.compile(r"\s*</([\w.:-]+)")
_PARAMETERS = re.compile(r"\([^()]*(?:\([^()]*\)[^()]*)*\)")
MAX_PARTS = 3
"""At most this many parts of a snippet are read as new, one at a time."""
MIN_SAYING = 0.8
TWICE_COST = 0.8
"""Cost of a new line that defines a name or sets a key that the file already has."""
EDGE_COST = 9.0
"""Extra cost of taking the first or last line of a block as new: authors show these lines to mark the place."""
SIGNPOST_COST = 60.0
"""Extra cost if the whole block is an unchanged run of the file, because the author showed the block to mark the
place."""
NAMESAKE_WORTH = 0.7
"""Score of matching a changed line that defines the same name or sets the same key."""
SHELL = ("bash", "shell")
"""Languages in which each line begins with a command.  A different command beside a marker is an added line."""
GROUP_WORTH = 0.9
MIN_GROUP_LIKENESS = 0.6
LATER_WORTH = 0.01
"""How much more a line of the last block scores for a match at the file's end than for one at the file's start."""
WHOLE_FILE_SHARE = 0.6
HELD_WORTH = 20.0
Columns = npt.NDArray[np.int64]
_REMARK = re.compile(r"(?<=\S)\s+(?:#|//|/\*|--)\s")
_NAME = re.compile(r"[A-Za-z_$][\w$]{2,}")
WHOLE_WORTH = 3.0
"""Score of matching the end of a definition that is shown whole: more than the cost of dropping a hundred lines."""
UNPAIRED_COST = 0.25
"""Cost of matching a closing line that does not close the scope of its opener."""
MAX_TRIES = 16
"""At most this many lines with brackets are tried as new instead of matched, or the other way round."""
MAX_CELLS = 200_000
"""A problem is solved again only if it has at most this many cells (rows times lines)."""


class Rows:
    """The candidates of every visible line, by update line, and the alignment's rows made from these candidates."""

    def __init__(self, reading: ReadSnippet) -> None:
        self._reading = reading
        self._texts = reading.texts
        self._orphans: set[int] = set()
        self.openers: dict[int, int] = {}
        """For each closing line, the line of the same block that opens its scope."""
        self.namesakes: dict[int, int] = {}
        """For each changed line, how many lines of the file define the same name or set the same key."""
        self._changed_arms: set[int] = set()
        """New conditions above a body that the file has."""
        self._known: dict[str, list[int]] = {}
        """The original's definitions by name."""
        for j in range(len(reading.original)):
            name = self._opened(reading.original, j)
            if name is not None:
                self._known.setdefault(name, []).append(j)
        new = self._lines_of_new_definitions()
        self.candidates = {i: NOTHING if i in new else self._find(i) for _, i in reading.visible}
        self._keep_named()
        self._keep_attached()
        self._keep_inside()
        self._pair_closers()
        self._hold_ends()
        self._pair_fences()
        self._hold_whole_file()

    def rows(self) -> list[Row]:
        rows: list[Row] = []
        blocks = self._reading.snippet.blocks
        last = len(blocks) - 1 if blocks and blocks[-1].marked_before and not blocks[-1].marked_after else -1
        previous: tuple[int, int] | None = None
        for b, i in self._reading.visible:
            gap = previous is None or previous[0] != b or i in self._reading.addresses
            found = self.candidates[i]
            scope = self._scope_indent(previous, i) if gap else 0
            # If the last block fits several places equally well, the last place is the likeliest.
            later = LATER_WORTH * found.columns / len(self._reading.original) if b == last else 0.0
            rows.append(Row(found.columns, found.scores + later, gap, scope, self._take_cost(b, i, found)))
            previous = (b, i)
        return rows

    @cached_property
    def groups(self) -> list[Group]:
        """Statements that have other line breaks in the file than in the snippet, with equal or similar words."""
        index, found = self._reading.index, []
        row_of = {i: r for r, (_, i) in enumerate(self._reading.visible)}
        blocks = []
        wanted: set[tuple[str, ...]] = set()
        for b, block in enumerate(self._reading.snippet.blocks):
            texts = self._reading.block_texts(b)
            parts = statements(texts)
            said = [gist("\n".join(texts[part.start : part.stop])) for part in parts]
            blocks.append((block, texts, parts, said))
            wanted |= {sum(said[n:m], ()) for n in range(len(parts)) for m in range(n + 1, n + 1 + MAX_JOINED)}
        known = index.runs_saying(wanted - {()})
        for block, texts, parts, said in blocks:
            for n, part in enumerate(parts):
                key: tuple[str, ...] = ()
                row = row_of[block.lines[part.start]]
                is_found = False
                for m in range(n, min(n + MAX_JOINED, len(parts))):
                    key = key + said[m]
                    if len(key) < 2 or not said[n] or not said[m]:
                        continue
                    shown = [text for text in texts[part.start : parts[m].stop] if text.strip()]
                    places = known.get(key, ())
                    worth = GROUP_WORTH * substance(" ".join(key)) * len(shown) / max(1, len(places))
                    for start, stop in places[:20]:
                        lines = [line.strip() for line in index.lines[start:stop] if line.strip()]
                        if (len(shown) > 1 or stop - start > 1) and lines != [text.strip() for text in shown]:
                            found.append(Group(row, len(shown), start, stop - start, worth))
                            is_found = is_found or m == n
                if not is_found and not self.candidates[block.lines[part.start]].is_exact:
                    found += self._similar_groups(row, texts, part)
        return found

    def _similar_groups(self, row: int, texts: Sequence[str], part: Statement) -> list[Group]:
        """Statements of the file that are similar to `part`, if at least one of the two has several lines."""
        index = self._reading.index
        shown = [text for text in texts[part.start : part.stop] if text.strip()]
        if 2 * sum(map(index.count, shown)) > len(shown):
            return []
        if part.stop - part.start == 1 and ("..." in texts[part.start] or "…" in texts[part.start]):
            long_parts, joined = index.long_statements
            whole = [long_parts[n] for n in joined.places(tight(texts[part.start]))]
            worth = 0.8 * substance(texts[part.start])
            return [Group(row, 1, other.start, other.stop - other.start, worth / len(whole)) for other in whole]
        name = header_name(texts[part.start])
        text = " ".join(texts[part.start : part.stop])[:MAX_FUZZY_LENGTH]
        near = set(self._known.get(name or "", [])[:3]) | set(index.sharing(text)[:8])
        said = essence("\n".join(texts[part.start : part.stop]))
        found = []
        for n in {index.statement_at[j] for j in near if j in index.statement_at}:
            other = index.statements[n]
            if other.stop - other.start == 1 and part.stop - part.start == 1:
                continue
            same = name is not None and header_name(index.lines[other.start]) == name
            alike = likeness(essence("\n".join(index.lines[other.start : other.stop])), said)
            if alike >= MIN_GROUP_LIKENESS or same:
                worth = substance(text) * max(alike - 0.35, NAMESAKE_WORTH * same) + 0.05 * (part.stop - part.start)
                found.append(Group(row, part.stop - part.start, other.start, other.stop - other.start, worth))
        return found

    def admit(self, i: int) -> None:
        """Let line i match any equal line, although line i was taken for a line of a new definition."""
        found, equal = self.candidates[i], self._reading.index.equal(self._texts[i])
        same = [j for j, kind in zip(equal.columns.tolist(), equal.kinds, strict=True) if kind is Kind.SAME]
        self.candidates[i] = found.joined(sorted(set(same) - set(found.columns.tolist())), UNPAIRED_COST, Kind.SAME)

    def _find(self, i: int) -> Candidates:
        index, text = self._reading.index, self._texts[i]
        for look in (index.equal, index.elided):
            found = look(text)
            if len(found.columns):
                return found
        return self._find_other(i)

    def _find_other(self, i: int) -> Candidates:
        """Return lines that are similar to line i, define the same name or set the same key."""
        index, text = self._reading.index, self._texts[i]
        name, key = name_at(self._texts, i), key_of(text)
        namesakes = self._known.get(name, []) if name is not None else []
        if not namesakes and key is not None:
            namesakes = index.keys.get((key, indent_of(text)), [])
        if namesakes:
            self.namesakes[i] = len(namesakes)
        code = _REMARK.split(text.strip(), maxsplit=1)[0]
        if code != text.strip() and index.has(leading(text) + code) and not strip_comment(text).is_comment:
            return NOTHING.joined(index.places(code), NAMESAKE_WORTH)
        if heads := self._same_heads(text):
            return NOTHING.joined(heads, NAMESAKE_WORTH)
        found = index.similar(text)
        if i in self._at_edges:
            is_beside = self._at_edges[i]
            is_entry = is_beside and key is not None and self._reading.language in DATA
            is_command = is_beside and key is None and self._reading.language in SHELL
            is_same = [
                not is_one_more(text, index.lines, j)
                and not (is_entry and key_of(index.lines[j]) not in (None, key))
                and not (is_command and index.lines[j].split(None, 1)[0] != text.split(None, 1)[0])
                for j in found.columns.tolist()
            ]
            found = found.only(np.array(is_same, np.bool_))
        if (words := arm_words(text)) and i not in self._changed_arms:
            # A branch or an entry with another name is a different branch or entry.
            is_same = [not are_other_arms(words, arm_words(index.lines[j])) for j in found.columns.tolist()]
            found = found.only(np.array(is_same, np.bool_))
            namesakes = namesakes or [
                j for j in index.arms.get(words, ()) if indent_of(index.lines[j]) == indent_of(text)
            ]
        return found.joined(namesakes[:3], NAMESAKE_WORTH)

    @cached_property
    def _at_edges(self) -> dict[int, bool]:
        """The lines at blocks' edges that the file does not have; and for each, whether a marker stands beside it."""
        found: dict[int, bool] = {}
        has = self._reading.index.has
        for block in self._reading.snippet.blocks:
            for is_marked, lines in ((block.marked_before, block.lines), (block.marked_after, block.lines[::-1])):
                edge = takewhile(lambda i: not has(self._texts[i].rstrip()), lines)
                found.update((i, is_marked or found.get(i, False)) for i in edge)
        return found

    def _same_heads(self, text: str) -> list[int]:
        """Return the file's lines that open a definition which `text` shows in a single line, including its whole
        body."""
        head, sign, body = text.partition("{")
        if not sign or not head.strip() or not body.rstrip(" ;,").endswith("}") or balance([text]):
            return []
        index = self._reading.index
        places = (index.places(head.strip() + end) for end in ("{", " {"))
        return [j for found in places for j in found if indent_of(index.lines[j]) == indent_of(text)]

    def _keep_named(self) -> None:
        """Keep a definition that a marker names between the lines shown above and below the marker."""
        snippet, visible = self._reading.snippet, self._reading.visible
        shown = {name_at(self._texts, i) for _, i in visible}
        gaps = [block.gap_before for block in snippet.blocks] + [block.gap_after for block in snippet.blocks[-1:]]
        end = len(self._reading.original)
        last, first = [-1] * (len(gaps) + 1), [end] * (len(gaps) + 1)
        """For each gap, the last line above it and the first line below it, among lines with only one possible
        place."""
        for b, i in visible:
            found = self.candidates[i]
            if len(found.columns) == 1 and found.is_exact:
                last[b + 1], first[b] = max(last[b + 1], found.columns[0]), min(first[b], found.columns[0])
        last, first = list(accumulate(last, max)), list(accumulate(first[::-1], min))[::-1]
        floors, ceilings = [-1] * (len(gaps) + 1), [end] * (len(gaps) + 1)
        for n, gap in enumerate(gaps):
            said = "\n".join(snippet.texts[i] for i in gap if snippet.roles[i] is Role.MARKER)
            named = [self._known[name] for name in set(_NAME.findall(said)) - shown if name in self._known]
            places = [found[0] for found in named if len(found) == 1 and last[n] < found[0] <= first[n]]
            floors[n], ceilings[n] = max(places, default=-1), min(places, default=end)
        floors, ceilings = list(accumulate(floors, max)), list(accumulate(ceilings[::-1], min))[::-1]
        for b, i in visible:
            found = self.candidates[i]
            is_between = (found.columns > floors[b]) & (found.columns < ceilings[b + 1])
            self.candidates[i] = found if is_between.all() else found.only(is_between)

    def _opened(self, lines: Sequence[str], i: int) -> str | None:
        """Return the name that line i defines; in a style sheet, the selector."""
        is_rule = self._reading.language in ("css", "scss", "less") and lines[i].rstrip().endswith("{")
        return lines[i].rstrip(" {").strip() if is_rule else name_at(lines, i)

    def _keep_attached(self) -> None:
        """Keep a line above a known header right above that header, if the line might stand elsewhere too.  An
        attribute or a decorator stays right above any line of the file."""
        lines = self._reading.original
        for b, block in enumerate(self._reading.snippet.blocks):
            texts = self._reading.block_texts(b)
            for k, text in enumerate(texts):
                found = self.candidates.get(block.lines[k], NOTHING)
                is_header = header_name(text) in self._known
                is_held = is_header or (found.is_exact and not is_attached(text))
                start = attached_start(texts, k, 0) if is_held else k
                spans = [(attached_start(lines, j, 0), j) for j in found.columns.tolist()] if start < k else []
                for i in block.lines[start:k] if spans else ():
                    if not is_header and strip_comment(self._texts[i]).is_comment:
                        continue
                    above = self.candidates.get(i, NOTHING)
                    is_near = [any(low <= c < high for low, high in spans) for c in above.columns.tolist()]
                    self.candidates[i] = above.only(np.array(is_near, np.bool_))

    def _keep_inside(self) -> None:
        """If a line is indented deeper than a header above it, keep the line inside the scopes that the header may
        open."""
        open_scopes: list[tuple[int, Columns, Columns]] = []
        """For each header: its indentation, its possible columns, and the furthest end of the scopes up to each
        column."""
        previous, above = 0, -1
        for b, i in self._reading.visible:
            text = self._texts[i]
            indent = indent_of(text)
            if b != previous:
                open_scopes, previous = [], b
                self._close_stub(above, b, i)
            above = i if text.strip() else above
            while open_scopes and open_scopes[-1][0] >= indent + is_closer(text):
                open_scopes.pop()
            found = self.candidates[i]
            if open_scopes and open_scopes[-1][0] < indent and len(found.columns):
                inside = _within(found.columns, *open_scopes[-1][1:])
                if not inside.all():
                    if not inside.any():
                        found = self._find_other(i)
                        inside = _within(found.columns, *open_scopes[-1][1:])
                    found = found.only(inside)
                    if len(found.columns) == 1 and found.kinds[0] in FACTOR and header_name(text) is not None:
                        # The header above names the scope, so the scope's only such line matches.
                        found = NOTHING.joined(found.columns.tolist(), substance(text.strip()), found.kinds[0])
                    self.candidates[i] = found
            opens = header_name(text) is not None or arm_words(text)
            if is_closer(text) or not opens or not len(found.columns):
                continue
            ends = np.maximum.accumulate(self._reading.scope_ends[found.columns])
            open_scopes.append((indent, found.columns, ends))

    def _close_stub(self, header: int, b: int, i: int) -> None:
        """Match line i to the end of the scope whose body the snippet leaves out above block b.  Line i closes that
        scope."""
        text = self._texts[i]
        levels = self._reading.marker_indents(self._reading.snippet.blocks[b].gap_before)
        indent = indent_of(text)
        if is_closer(text) and indent_of(self._texts[header]) == indent < min(levels, default=0):
            closers = self._reading.closers[self.candidates.get(header, NOTHING).columns]
            found = self._with_other_ends(self.candidates[i], text, closers)
            if len(closers) == 1 and not np.isin(self.candidates[i].columns, closers).any():
                found = NOTHING.joined(found.columns[np.isin(found.columns, closers)].tolist(), HELD_WORTH)
            is_end = np.isin(found.columns, closers)
            self.candidates[i] = found.only(is_end) if is_end.any() else found

    def _hold_whole_file(self) -> None:
        """Match the first and the last line of a snippet that is the whole file.

        A snippet is taken for the whole file if it has no marker and repeats most of the file's lines.
        """
        reading = self._reading
        solid = [j for j, text in enumerate(reading.index.stripped) if text]
        if len(reading.snippet.blocks) != 1 or reading.snippet.has_markers or not solid:
            return
        shown = Counter(map(str.strip, reading.block_texts(0)))
        if (shown & Counter(reading.index.stripped[j] for j in solid)).total() < WHOLE_FILE_SHARE * len(solid):
            return
        for (_, i), j in ((reading.visible[0], solid[0]), (reading.visible[-1], solid[-1])):
            if self._texts[i].rstrip() == reading.original[j].rstrip():
                self.candidates[i] = NOTHING.joined([j], HELD_WORTH, Kind.SAME)

    # -- new definitions ---------------------------------------------------------------------------------------------
    def _lines_of_new_definitions(self) -> set[int]:
        """Return the lines of definitions that the original does not have.  They match nothing."""
        new: set[int] = set()
        for b, block in enumerate(self._reading.snippet.blocks):
            texts = self._reading.block_texts(b)
            new.update(block.lines[: self._reading.end_of_new_elements(b)])
            is_import = block.lines[-1] in self._reading.new_imports and all(map(imported, texts))
            if is_import and not any(map(self._reading.index.count, texts)):
                new.update(block.lines)
            for k, text in enumerate(texts):
                name = self._opened(texts, k) if block.lines[k] not in new else None
                if self._has_body_of_arm(texts, k):
                    self._changed_arms.add(block.lines[k])
                elif self._is_new_arm(text):
                    is_open = text.rstrip().endswith(("{", "(", "[")) and not text.lstrip().startswith("}")
                    deeper = (n for n in range(k + 1, len(texts)) if indent_of(texts[n] or text) <= indent_of(text))
                    end = definition_end(texts, k, len(texts)) if is_open else next(deeper, len(texts))
                    new.update(block.lines[k:end])
                    continue
                if name is None or name in self._known or self._reading.index.count(text) or self._is_assigned(text):
                    continue
                end = definition_end(texts, k, len(texts))
                if end > k + 1 and not (end == len(texts) and self._is_cut_off(block, texts, k)):
                    new.update(block.lines[attached_start(texts, k, 0) : end])
        return new

    def _is_assigned(self, text: str) -> bool:
        """Tell whether the line gives a value to a name that already has a value, of whatever kind, in the file."""
        return "=" in text and (key_of(text), indent_of(text)) in self._reading.index.keys

    def _is_new_arm(self, text: str) -> bool:
        """Tell whether the line opens a new branch or entry, and not a changed form of one in the file."""
        words = arm_words(text)
        return bool(words) and all(are_other_arms(words, known) for known in self._reading.index.arms)

    def _has_body_of_arm(self, texts: Sequence[str], k: int) -> bool:
        """Tell whether the file has this condition's body below another condition.  If so, the condition was
        changed."""
        below = next((text for text in texts[k + 1 :] if text.strip()), "")
        lines, is_condition = self._reading.original, texts[k].lstrip(" \t}").startswith("el")
        if not is_condition or not self._is_new_arm(texts[k]):
            return False
        return any(
            j and arm_words(lines[j - 1]) and lines[j - 1] not in texts for j in self._reading.index.places(below)
        )

    def _is_cut_off(self, block: Block, texts: Sequence[str], k: int) -> bool:
        """Tell whether the definition at the end of a block goes on in the original.

        In that case it is not new, because nobody leaves out part of a new definition.
        """
        last = texts[-1]
        if indent_of(last) == indent_of(texts[k]) and is_closer(last):
            return False
        if texts[k].rstrip().endswith(("{", "(", "[")) or texts[k + 1 : k + 2] == [leading(texts[k]) + "{"]:
            return True
        indent = self._reading.marker_indent(block.gap_after)
        if indent == indent_of(texts[k]):
            return False
        shown = sum(self._texts[i].strip() == last.strip() for _, i in self._reading.visible)
        is_known = shown == self._reading.index.count(last) == 1
        return is_known or (indent is not None and indent > indent_of(texts[k]))

    # -- closing lines -----------------------------------------------------------------------------------------------
    def _pair_closers(self) -> None:
        """Make each closing line prefer the line that closes the scope of its opener's match.

        A line that closes new lines matches none.  Closing lines without an opener go into `_orphans`.
        """
        open_at: list[tuple[int, int, int]] = []
        for b, i in self._reading.visible:
            indent = indent_of(self._texts[i])
            while open_at and open_at[-1][0] > indent:
                open_at.pop()
            closes = is_closer(self._texts[i])
            if open_at and open_at[-1][0] == indent and self._texts[i].strip() == "{":
                continue
            if open_at and open_at[-1][0] == indent:
                opener, block = open_at.pop()[1:]
                if closes and self._may_open(opener, i):
                    self._pair(opener, i, same_block=block == b)
                elif closes:
                    self._orphans.add(i)
            elif closes and (not open_at or open_at[-1][2] != b):
                self._orphans.add(i)
            open_at.append((indent, i, b))

    def _hold_ends(self) -> None:
        """Match the last line of each definition that is shown whole to the end of the file's definition, so that the
        rest of the file's definition is removed.  A definition that contains others does not count, because it may
        leave some out."""
        original, addresses = self._reading.original, self._reading.addresses
        for b, block in enumerate(self._reading.snippet.blocks):
            texts = self._reading.block_texts(b)
            for k, text in enumerate(texts):
                known = self._known.get(name_at(texts, k) or "", ()) if is_definition(text) else ()
                stop = definition_end(texts, k, len(texts)) if known else k
                inside, last = range(k + 1, stop), block.lines[stop - 1]
                closes = stop > k + 1 and is_closer(texts[stop - 1]) and indent_of(texts[stop - 1]) == indent_of(text)
                if not inside or not (closes or stop < len(texts)) or not addresses.isdisjoint(block.lines[k:stop]):
                    continue
                if any(is_definition(texts[n]) and not is_attached(texts[n]) for n in inside):
                    continue
                places = self.candidates[block.lines[k]].columns
                ends = {definition_end(original, j, len(original)) - 1 for j in known if j in places}
                if closes:
                    ends &= set(self.candidates[last].columns.tolist())
                self.candidates[last] = self.candidates[last].joined(sorted(ends), WHOLE_WORTH * len(ends))

    def _pair_fences(self) -> None:
        """Let the end of a Markdown fence match only the end of a fence that the line above may open."""
        if self._reading.language != "markdown":
            return
        ends = {fence.opening: fence.closing for fence in find_fences(self._reading.original)}
        above = {j: k for k, j in pairwise(j for j, text in enumerate(self._reading.index.stripped) if text)}
        opened: list[int] | None = None
        """The possible first lines of the open fence."""
        previous: tuple[int, int] | None = None
        for b, i in self._reading.visible:
            fence, found = read_fence(self._texts[i]), self.candidates[i]
            if fence is not None and opened is not None and not fence.title:
                self.candidates[i] = found.only(np.isin(found.columns, [ends[j] for j in opened]))
                opened = None
            elif fence is not None:
                opened = [j for j in found.columns.tolist() if j in ends]
                if previous is not None and previous[0] == b:
                    text = self._texts[previous[1]].strip()
                    opened = [j for j in opened if self._reading.index.stripped[above.get(j, 0)] == text] or opened
                self.candidates[i] = found.only(np.isin(found.columns, opened))
            previous = (b, i) if self._texts[i].strip() else previous

    def _may_open(self, opener: int, closer: int) -> bool:
        """Tell whether line `opener` has the bracket or tag that line `closer` closes.  A word fits almost any
        opener."""
        if (tag := _CLOSING_TAG.match(self._texts[closer])) is not None:
            return f"<{tag[1]}" in self._texts[opener] or self._texts[opener].strip()[:1] == ">"
        bracket = {"}": "{", ")": "(", "]": "["}.get(self._texts[closer].strip()[:1])
        text = self._texts[opener].rstrip()
        if bracket is None:
            return text[-1:] not in (",", ";")
        return bracket in text and text.count(bracket) >= text.count(self._texts[closer].strip()[0])

    def _pair(self, opener: int, closer: int, *, same_block: bool) -> None:
        if same_block:
            self.openers[closer] = opener
        found, columns = self.candidates[closer], self.candidates[opener].columns
        original = self._reading.original
        opened = [original[j] for j in columns]
        if balance([self._texts[opener]]) > 0 and opened and all(map(_closes_itself, opened)):
            # A scope that opens and closes in one line of the file has no closing line.
            self.candidates[closer] = NOTHING
            return
        ends = self._reading.closers[columns]
        if not self.candidates[opener].is_exact or not len(found.columns):
            # If the opener has another form, the closing line may have one too.  A closing line that the file lacks was
            # changed.
            found = self._with_other_ends(found, self._texts[closer], ends)
        between = (i for i in range(opener + 1, closer) if i in self.candidates)
        is_empty = not any(self.candidates[i].is_exact and substance(self._texts[i].strip()) >= 0.4 for i in between)
        alone = not len(ends) and same_block and is_empty
        self.candidates[closer] = NOTHING if alone else found.preferring(ends, UNPAIRED_COST)

    def _with_other_ends(self, found: Candidates, text: str, ends: Columns) -> Candidates:
        """Return the candidates of a closing line, and the lines of `ends` that close with a different sign (`}` for
        `};`).

        If the line has no candidates, an end that begins with the same bracket counts too, like `}` for `}.freeze`.
        """
        lines, text = self._reading.original, text.rstrip().rstrip(";,")
        at = len(leading(text)) + 1 if not len(found.columns) else None
        closing = [end for end in ends.tolist() if end < len(lines) and (at is None or not is_branch(lines[end]))]
        others = {end for end in closing if lines[end].rstrip().rstrip(";,")[:at] == text[:at]}
        return found.joined(sorted(others - set(found.columns.tolist())), UNPAIRED_COST)

    @cached_property
    def _signposts(self) -> set[int]:
        """The blocks that equal a run of the file's lines, at least one of which occurs only once in the file."""
        index, found = self._reading.index, set()
        for b in range(len(self._reading.snippet.blocks)):
            texts = [text.rstrip() for text in self._reading.block_texts(b)]
            alone = next((k for k, text in enumerate(texts) if text.strip() and index.count(text) == 1), None)
            if alone is None or max(map(substance, map(str.strip, texts))) <= MIN_SAYING:
                continue
            start = index.places(texts[alone])[0] - alone
            if start >= 0 and [line.rstrip() for line in index.lines[start : start + len(texts)]] == texts:
                found.add(b)
        return found

    # -- costs -------------------------------------------------------------------------------------------------------
    def _take_cost(self, b: int, i: int, found: Candidates) -> float:
        """Return the cost of taking line i as new.  A line that the file has is rarely new, especially at a block's
        edge."""
        if not found.is_exact:
            return INSERT_COST + (TWICE_COST / self.namesakes[i] if i in self.namesakes else 0.0)
        lines = self._reading.snippet.blocks[b].lines
        says = substance(self._texts[i].strip())
        unique = len(found.columns) == 1 and says > MIN_SAYING
        cost = INSERT_COST + (TWIN_COST if unique else COPY_COST * says / len(found.columns))
        if i in (lines[0], lines[-1]):
            cost += EDGE_COST * (1.0 if i in self._orphans else 0.6 + 0.4 * says)
        return cost + SIGNPOST_COST * (b in self._signposts)

    def _scope_indent(self, previous: tuple[int, int] | None, i: int) -> int:
        """Return the indentation below which a skip before line i leaves the scope."""
        if previous is None:
            return 0
        here, above = indent_of(self._texts[i]), indent_of(self._texts[previous[1]])
        closes = is_closer(self._texts[i])
        if here > above or (here == above and closes):
            return above + 1
        return here + 1 if closes else here


def _closes_itself(line: str) -> bool:
    """Tell whether the line closes all brackets that it opens."""
    return balance([line]) == 0 and any(sign in line for sign in "([{")


def _within(columns: Columns, headers: Columns, ends: Columns) -> npt.NDArray[np.bool_]:
    """Tell, for each column, whether it lies between a scope's header (not included) and its end (included).

    `headers` are ascending; `ends[k]` is the furthest end of the scopes up to `headers[k]`.
    """
    above = np.searchsorted(headers, columns)
    return np.asarray((above > 0) & (columns <= ends[above - 1]))


# -- brackets in pairs -------------------------------------------------------------------------------------------------
def aligned_matches(reading: ReadSnippet, rows: Rows, *, groups: bool = False) -> Sequence[Match]:
    """Return the best alignment, or a similar one if only that one keeps brackets in pairs.

    An alignment most easily mistakes a line that has only brackets: a closing line of new code looks like a closing
    line of the file, and vice versa.  So each such line is tried the other way, one at a time.  Among the merges that
    keep brackets in pairs, the one with the fewest changes is taken.  If the best alignment keeps brackets in pairs,
    only closing lines of new code at the ends of blocks are tried.
    """
    problem, terrain = rows.rows(), Terrain(reading.index.weights, reading.index.scope_indents)
    known_groups = rows.groups if groups else ()
    chosen: Sequence[Match] = align(problem, terrain, known_groups)
    if len(problem) * terrain.n_lines > MAX_CELLS:
        return chosen
    problem, chosen = _read_as_added(reading, rows, problem, terrain, known_groups, chosen)
    ops = Writer(reading, rows.candidates, chosen).write()
    columns = [TAKE] * len(problem)
    for match in chosen:
        for n in range(match.n_rows):
            columns[match.row + n] = match.column + min(n, match.n_columns - 1)
    found: list[tuple[int, Sequence[Match]]] = []
    if keeps_pairs(ops):
        found = [(_n_changes(ops), chosen)]
        row_of = {i: r for r, (_, i) in enumerate(reading.visible)}
        ends = [block.lines[-1] for block in reading.snippet.blocks]
        closers = [i for i in ends if i in rows.openers and columns[row_of[rows.openers[i]]] == TAKE]
        uneven = [row_of[i] for i in closers if columns[row_of[i]] != TAKE]
    else:
        uneven = [r for r, (_, i) in enumerate(reading.visible) if any(surplus([reading.texts[i]]))]
        # Keep only rows that are new, or whose neighbour in the snippet is new or not adjacent in the file.
        uneven = [
            r for r in uneven
            if columns[r] == TAKE or any(b != a + 1 for a, b in pairwise(columns[max(0, r - 1) : r + 2]))
        ]  # fmt: skip
        # Try the rows at the ends of blocks first.
        uneven.sort(key=lambda r: not (problem[r].gap_before or r + 1 == len(problem) or problem[r + 1].gap_before))
    others = ((r, other) for r in uneven if (other := _read_otherwise(reading, r, problem[r], columns[r])) is not None)
    for r, row in islice(others, MAX_TRIES):
        matches = align([*problem[:r], row, *problem[r + 1 :]], terrain, known_groups)
        if any(match.row == r for match in matches):
            rows.admit(reading.visible[r][1])
        ops = Writer(reading, rows.candidates, matches).write()
        if keeps_pairs(ops):
            found.append((_n_changes(ops), matches))
    best = min(found, key=lambda pair: pair[0])[1] if found else chosen
    if best is not chosen:
        reading.doubts.append("lines with nothing but brackets were matched by the lines around them")
    return best


def fresh_parts(reading: ReadSnippet, matches: Sequence[Match]) -> Iterator[set[int]]:
    """Yield sets of rows that may be new although the alignment matches some of them: each part alone, then all parts.

    A part is a definition that the file does not have.  It may also be an end of a block whose matches are all frequent
    lines of the file.  A new element of a series (a call, a test, a step) ends like the element below it.  So the
    alignment may take the new element for a changed form of the element below.
    """
    index, original = reading.index, reading.original
    at = {match.row + n: match.column + min(n, match.n_columns - 1) for match in matches for n in range(match.n_rows)}
    texts = [reading.texts[i].strip() for _, i in reading.visible]
    exact = {r for r, j in at.items() if index.stripped[j] == texts[r]}
    parts: list[set[int]] = []
    for b, rows_of_block in groupby(range(len(texts)), key=lambda r: reading.visible[r][0]):
        block, own = reading.snippet.blocks[b], list(rows_of_block)
        held = {r for r in own if r in exact and index.count(original[at[r]]) == 1}
        for side in (own, own[::-1]):
            for before, r in pairwise(side):  # A match next to a sure match is sure too.
                if before in held and r in exact:
                    low, high = sorted((at[before], at[r]))
                    held.update([r] if not any(index.stripped[low + 1 : high]) else [])
        for is_marked, side in ((block.marked_after, own[::-1]), (block.marked_before, own)):
            loose = side[: next((n for n, r in enumerate(side) if r in held), 0)]
            if not is_marked or exact.issuperset(loose):
                continue
            # A line is new as well if it opens the first new line's scope, is attached to the first new line, or closes
            # the last one.
            level = min((indent_of(reading.texts[reading.visible[r][1]]) for r in loose), default=0)
            for r in side[len(loose) :]:
                text = reading.texts[reading.visible[r][1]]
                if side is own:
                    belongs = is_closer(text) or text.lstrip().startswith("#endif")
                else:
                    belongs = is_attached(text) or text.strip() in ("{", "[", "(")
                belongs = belongs and indent_of(text) >= level
                if r not in exact or not belongs or index.count(original[at[r]]) == 1:
                    break
                loose.append(r)
            parts.append({*loose})
            lines = [reading.visible[r][1] for r in sorted(loose)]
            paragraph = next((n for n, (i, j) in enumerate(pairwise(lines), 1) if j > i + 1), 0)
            if side is not own and paragraph:
                parts.append({*sorted(loose)[paragraph:]})
        row_of = {reading.visible[r][1]: r for r in own}
        for span in _maybe_new(reading, b):
            rows = {row_of[i] for i in block.lines[span.start : span.stop] if i in row_of}
            if not rows.isdisjoint(at) and rows not in parts:
                parts.append(rows)
    yield from parts if len(parts) <= MAX_PARTS else ()
    if len(parts) > 1:
        yield {r for part in parts for r in part}


def _maybe_new(reading: ReadSnippet, b: int) -> list[range]:
    """Return the definitions of a block that the file does not have, by name.  In languages with overloading, a
    function with a known name but other parameters counts as new."""
    texts, known = reading.block_texts(b), {*reading.names}
    for text in texts if reading.language in OVERLOADED else ():
        own, name = _parameters(text), header_name(text)
        if own and name in known and is_definition(text):
            namesakes = (line for line in reading.original if header_name(line) == name)
            known -= {name} if own not in map(_parameters, namesakes) else set()
    return new_definitions(texts, known)


def _parameters(header: str) -> str:
    """Return the text between the first brackets of a definition's header; empty if the brackets do not close on this
    line."""
    found = _PARAMETERS.search(header)
    return "".join(found[0].split()) if found else ""


def _read_as_added(
    reading: ReadSnippet,
    rows: Rows,
    problem: list[Row],
    terrain: Terrain,
    groups: Sequence[Group],
    chosen: Sequence[Match],
) -> tuple[list[Row], Sequence[Match]]:
    """Return the rows and the alignment in which each block that can only add lines counts as added, even if its lines
    are similar to lines of the file."""
    for b, rows_of_block in groupby(range(len(problem)), key=lambda r: reading.visible[r][0]):
        block, found = reading.snippet.blocks[b], list(rows_of_block)
        inside = range(found[0], found[-1] + 1)
        lines = [reading.visible[r][1] for r in inside]
        exact = {r for r, i in zip(inside, lines, strict=True) if rows.candidates[i].is_exact or i in rows.namesakes}
        ends = {inside[0], inside[-1]}
        edges = (lines[0], lines[-1])
        is_held = all(rows.candidates[i].is_exact and marks_place(reading.texts[i]) for i in edges)
        matched = [match.row for match in chosen if match.row in inside]
        if block.deletions or not is_held or exact.issuperset(matched) or _only_adds(reading, inside, chosen):
            continue
        trial = [
            replace(row, columns=row.columns[:0], scores=row.scores[:0]) if r in inside and r not in exact else row
            for r, row in enumerate(problem)
        ]
        others = align(trial, terrain, [group for group in groups if group.row not in inside])
        if ends <= {match.row for match in others} and _only_adds(reading, inside, others):
            problem, chosen = trial, others
    return problem, chosen


def _only_adds(reading: ReadSnippet, inside: range, matches: Sequence[Match]) -> bool:
    """Tell whether the rows match every line of the file that is not blank, from their first match to their last."""
    spans = [range(match.column, match.column + match.n_columns) for match in matches if match.row in inside]
    columns = {j for span in spans for j in span}
    between = range(spans[0].start, spans[-1].stop) if spans else range(0)
    return all(j in columns or not reading.index.stripped[j] for j in between)


def _n_changes(ops: Sequence[LineOp]) -> int:
    """Return the number of added and removed lines that are not blank."""
    return sum(op.kind in ("drop", "take") and op.text.strip() != "" for op in ops)


def keeps_pairs(ops: Sequence[LineOp]) -> bool:
    """Tell whether the new lines open and close as many brackets as the removed lines."""
    gone, new = ([op.text for op in ops if op.kind == kind] for kind in ("drop", "take"))
    return surplus(gone) == surplus(new)


def _read_otherwise(reading: ReadSnippet, r: int, row: Row, column: int) -> Row | None:
    """Return the row in its other reading; None if the row has no other reading.

    A matched line becomes new if it has only brackets, or if the file has none or several lines equal to it.  A new
    line becomes matched if the file has an equal line.
    """
    text = reading.texts[reading.visible[r][1]]
    if column != TAKE:
        is_weak = not any(map(str.isalnum, text)) or reading.index.count(text) != 1
        return replace(row, columns=row.columns[:0], scores=row.scores[:0]) if is_weak else None
    equal = reading.index.equal(text)
    same = np.array([kind is Kind.SAME for kind in equal.kinds], bool)
    if not same.any():
        return None
    return replace(row, columns=equal.columns[same], scores=equal.scores[same], take_cost=FORCED)


def marks_place(line: str) -> bool:
    """Tell whether a line has a letter or digit, or closes something.  A line with only other signs ("*", "---") may be
    new."""
    return any(map(str.isalnum, line[:200])) or is_closer(line)
