"""Finds where the code of a directive goes: it scores candidate sites by how well they agree with the words.

The code of a directive is called its block.  `Search` proposes insertions, replacements and deletions near the things
that the words name, and scores them.  It writes the best sites: the block is re-indented, lines that are already there
are left out, and the usual blank lines are added.  `place` returns the best ways to carry out one directive.
`merge_placed` returns merges of whole snippets that consist of directives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import combinations, product
from typing import NamedTuple

from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq

from apply_service.merge.fitting import Shift
from apply_service.merge.statements import imports_more
from apply_service.merge.words.directives import Directive, find_directives
from apply_service.merge.words.mentions import Mention, Relation
from apply_service.merge.words.outline import FileOutline, Finder, MentionPlace
from apply_service.text.lines import (
    balance,
    find_unit,
    gaps_between,
    header_name,
    indent_of,
    is_attached,
    is_closer,
    is_definition,
    is_import,
)
from apply_service.text.markers import Role, classify
from apply_service.types import LineOp

MAX_WEIGHED = 60
"""At most this many candidates are scored in full: those that agree best with the words."""
MAX_WRITTEN = 20
MAX_PLACED = 4
MIN_SCORE = 2.0
IMPORT_SCORE = 2 * MIN_SCORE
MAX_COMPARED = 1500
"""Only this many first characters of each text are compared."""
MAX_COUNTED = 400
"""If a site has fewer lines than this, the block is compared with the site without the lines that the words remove."""
MAX_BETWEEN = 4
"""Two things are replaced together only if at most this many lines lie between them."""
MAX_SAID = 60
"""A reason quotes at most this many characters of a directive."""
MIN_ALIKE = 0.7
"""If words only put a block beside something, it may replace lines only if their `likeness` to it is at least this."""
MAX_REPEATED = 8
"""At most this many lines of a block may already be at its place."""
WEIGHTS = {
    Relation.TARGET: 3.0, Relation.GONE: 2.0, Relation.AFTER: 3.0, Relation.BEFORE: 3.0, Relation.WITHIN: 2.0,
    Relation.UNTIL: 2.0, Relation.SHORT_OF: 2.0,
}  # fmt: skip
LESS_INSIDE = 0.05
SURELY_NAMED = 0.8
"""A mention surely means a place if the place's quality is at least this."""
BODY_WORTH = 4.0
"""How much higher replacing a whole body scores than replacing a part of it."""
_BESIDE = (Relation.AFTER, Relation.BEFORE)
_LABEL = re.compile(r"""\s*(?:[-*]\s+)?["']?(?P<name>[\w.$@-]{2,80})["']?\s{0,8}[:=(]""")
_OPEN_TAG = re.compile(r"\s*<(?!(?:meta|link|img|br|hr|input|source)\b)[A-Za-z][^<>]{0,400}(?<!/)>$")
_LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s|\s*\|")
_CLOSING = re.compile(r"\s*[\])}]")
_WITH_END = ("ruby", "lua", "elixir", "bash")
_OPENS = re.compile(
    r"(?:if|unless|while|until|for|case|def|class|module|function)\b(?!.*\b(?:end|fi|done)$)|.*\b(?:do|then)$"
)
"""The header of a block that a word such as `end` closes."""
_CLOSES = re.compile(r"</|[\])}]|end\b")

Lines = tuple[tuple[int | None, str], ...]
"""The update line number (None for an added blank line) and the text of each line."""


class Site(NamedTuple):
    """The original lines [start, end) that the block replaces; an insertion replaces nothing."""

    start: int
    end: int


class Placed(NamedTuple):
    """One way to carry out a directive."""

    directive: Directive
    start: int
    end: int
    """The original lines [start, end) are replaced ..."""
    lines: Lines
    """... by these lines, which are re-indented."""
    score: float
    agreement: float
    """How well the place agrees with the words."""
    reason: str
    margin: float = 0.0
    """How far the place's score exceeds the score of the next place."""
    variants: tuple[tuple[int, int, Lines], ...] = ()
    """Other ways to write the change, as start, end and lines: an insertion with different blank lines around it, or a
    replacement that keeps its own indentation."""


def label(line: str) -> str | None:
    """Return the first name that a line declares, assigns or calls."""
    name = header_name(line)
    match = _LABEL.match(line) if name is None else None
    return match["name"] if match is not None else name


class Search:
    """The search for places for the block of one directive."""

    def __init__(self, layout: FileOutline, directive: Directive, update: Sequence[str]) -> None:
        self.layout, self.lines = layout, layout.lines
        self.said = directive.text
        self.finder = Finder(layout, directive.text)
        self.words = self.finder.words
        self.block = [(i, update[i]) for i in directive.block]
        self.texts = [text.strip() for _, text in self.block]
        self.solid = [text for _, text in self.block if text.strip()]
        self.key = next((text for text in self.solid if not is_attached(text)), self.solid[0] if self.solid else "")
        """The block's first line other than a comment or decorator."""
        self.depth = balance(self.texts)
        self.is_apart = bool(directive.lines and directive.block) and directive.block[0] > directive.lines[-1] + 1
        """Whether a blank line separates the block from the comment above it."""
        told = self.finder.by_relation(Relation.TARGET, Relation.GONE)
        is_beside = bool(self.finder.by_relation(*_BESIDE))
        self.only_inserts = is_beside and not (self.words.replaces or self.words.deletes or told)
        """Whether the words name only a neighbour of the block.  In that case the block may replace only lines that are
        much like it."""
        behind = update[directive.block[-1] + 1 :] if directive.block else []
        self.ends_blank = len(behind) > 1 and not any(map(str.strip, behind))
        """Whether the snippet ends with several blank lines after the block."""
        has_tail = bool(behind) and behind[0] != "" and not any(map(str.strip, behind))
        self.tail: list[tuple[int | None, str]] = [(directive.block[-1] + 1, behind[0])] if has_tail else []
        """The blank line after the block, if it has white space of its own.  Such a line is shown on purpose."""

    def ranked(self) -> list[tuple[float, Site, float]]:
        """Return the candidates, the best first, as score, site, and how well the site agrees with the words."""
        imports = range(self.layout.last_import if len(self.solid) == 1 and is_import(self.solid[0]) else 0)
        if known := [Site(j, j + 1) for j in imports if imports_more(self.lines[j], self.solid[0])]:
            # If a new import repeats an import of the file and has more names, it replaces that import, whatever place
            # the words name.
            return [(IMPORT_SCORE, site, 1.0) for site in known]
        sites = {site for site in self.candidates() if site.start <= site.end}
        agreeing = sorted(((*self.agree(site), site) for site in sites), key=lambda item: (-item[0], item[2]))
        weighed = []
        for score, agreement, site in agreeing[:MAX_WEIGHED]:
            if site.start < site.end and self.solid:
                if self.only_inserts and self.likeness(site) < MIN_ALIKE:
                    continue
                score += 3.0 * (self.likeness(site) - 0.4) * (0.5 if self.finder.is_stretch else 1.0)
            weighed.append((score + self.form_score(site), site, agreement))
        return sorted(weighed, key=lambda item: (-item[0], item[1]))

    # -- candidates ------------------------------------------------------------------------------------------------
    @cached_property
    def bodies(self) -> set[Site]:
        """Whole bodies of named things that the block replaces, with their headers if the block shows them."""
        found = set[Site]()
        for span in self.finder.by_relation(Relation.WITHIN) if self.words.body and self.solid else ():
            if span.end > span.line + 1 and span.quality >= SURELY_NAMED:
                is_whole = header_name(self.key) is not None and label(self.key) == label(self.lines[span.line])
                found.add(Site(*((span.line, span.end) if is_whole else self.layout.body(span.start, span.end))))
        return found

    def candidates(self) -> Iterator[Site]:
        """Yield sites at and beside the things named, and at lines similar to the block.  The sites are unscored and
        may repeat."""
        finder, layout, lines = self.finder, self.layout, self.lines
        targets, gone = finder.by_relation(Relation.TARGET), finder.by_relation(Relation.GONE)
        anchors = {relation: finder.by_relation(relation) for relation in _BESIDE}
        behind = [at for span in anchors[Relation.AFTER] for at in finder.after(span)]
        ahead = [at for span in anchors[Relation.BEFORE] for at in finder.before(span)]
        like: list[int] = []
        """Lines similar to the block's first line, in the named scopes or else in the whole file."""
        if self.solid:
            points = [*behind, *ahead, *((layout.end, 0) if finder.edges else ())]
            for _, start, end, _ in finder.regions:
                points += [start, end, *(finder.edge_of(edge, start, end) for edge in finder.edges)]
            if is_import(self.solid[0]) or any(mention.sort == "import" for mention in self.words.mentions):
                points += [layout.first_import, layout.last_import]
            yield from (Site(at, at) for at in points)
            ranges = [(line, end) for line, _, end, quality in finder.regions if quality > 0.5]
            within = [j for j in range(len(lines)) if not ranges or any(a <= j <= b for a, b in ranges)]
            like = list(dict.fromkeys(self.most_like(self.key, within, 5) + self.most_like(self.solid[0], within, 3)))
        named = [span.line for span in [*targets, *gone, *finder.by_relation(Relation.WITHIN)]]
        below = (layout.solid_from[at] for at in behind)
        for line in {*named, *like, *(j for j in below if j < len(lines))}:
            yield from self.extents(line)
        for span in [*targets, *gone]:
            yield from (Site(*around) for around in layout.enclosing(span.line)[:2])
        for span, line in product(gone, [*(target.line for target in targets), *like]):
            for start, end in self.extents(line):
                if max(start, span.start) - min(end, span.end) <= MAX_BETWEEN:
                    yield Site(min(start, span.start), max(end, span.end))
        for one, other in product(*anchors.values()):
            if one.end <= other.start:
                yield Site(layout.solid_from[one.end], layout.before_blanks(other.start))
        for above in {layout.before_blanks(at) for at in ahead} - {0}:
            first = above - 1
            while first > 0 and is_attached(lines[first - 1]) and is_attached(lines[first]):
                first -= 1
            yield from (Site(above - 1, above), Site(first, above))
        for line in like if len(self.solid) > 1 else ():
            # The site ends with the line that is most similar to the block's last line.
            reach = range(line + 1, min(len(lines), line + 3 * len(self.block) + 20))
            yield from (Site(line, last + 1) for last in self.most_like(self.solid[-1], reach, 3))
        yield from self.bodies
        yield from self.runs()

    def runs(self) -> Iterator[Site]:
        """Yield sites from one named thing to another, or from the start to the end of a stretch."""
        layout, relations = self.layout, (Relation.TARGET, Relation.UNTIL, Relation.GONE)
        yield from self.rests
        stops = self.finder.by_relation(Relation.SHORT_OF)
        for first, last in product(self.finder.by_relation(Relation.TARGET, Relation.GONE)[:5], stops[:5]):
            for start in {first.start, layout.lead(first.start)}:
                if start < last.start:
                    yield Site(start, layout.before_blanks(last.start))
        targets = [(m, spans) for m, spans in self.finder.spans.items() if m.relation in relations and spans]
        for (mention, spans), (later, others) in combinations(targets, 2):
            is_stretch = Relation.UNTIL in (mention.relation, later.relation)
            for pair in product(spans[:5], others[:5]):
                first, second = sorted(pair, key=lambda span: span.line)
                if is_stretch or second.start - first.end <= MAX_BETWEEN:
                    for start in {first.start, layout.lead(first.start)}:
                        yield Site(start, max(first.end, layout.chain(second.start, second.end)))
                        yield Site(start, second.line + 1)
        for mention, spans in targets:
            for span in spans if mention.number > 1 else ():
                yield Site(span.start, layout.after_units(span.end, len(self.lines), mention.number - 1))

    @cached_property
    def rests(self) -> set[Site]:
        """The sites from a named thing to an edge of a scope around it ("everything after x"), and the site of all
        imports."""
        layout, words, found = self.layout, self.words, set[Site]()
        if not self.solid:
            return found
        if words.whole and words.replaces:
            for span in self.finder.by_relation(Relation.AFTER):
                for start, end in layout.enclosing(span.line)[:3]:
                    for at in {layout.chain(span.start, span.end), span.line + 1}:
                        found.add(Site(layout.solid_from[at], layout.body(start, end)[1]))
            for span in self.finder.by_relation(Relation.BEFORE):
                for start, end in layout.enclosing(span.line)[:3]:
                    found.add(Site(layout.body(start, end)[0], layout.before_blanks(span.start)))
        if any(m.sort == "import" and m.relation is Relation.TARGET for m in words.mentions) and layout.last_import:
            found.add(Site(layout.first_import, layout.last_import))
        return found

    def extents(self, line: int) -> Iterator[Site]:
        """Yield the sites that the thing at a line may mean: the line, its header, or the whole unit, each with or
        without the comments and decorators above it."""
        start, end = self.layout.unit(line)
        lead, scope = self.layout.lead(start), self.layout.scope_at(line)
        header_end = scope.body_start_line if scope is not None else end
        for first, last in product((line, start, lead), (line + 1, end, self.layout.chain(start, end), header_end)):
            if first < last:
                yield Site(first, last)
        if start > lead or line > start:
            yield Site(start, line)

    def most_like(self, text: str, within: Iterable[int], at_most: int) -> list[int]:
        """Return the lines that are most similar to a text, the most similar first."""
        wanted, name = text.strip()[:200], label(text)
        ranked = []
        for j in within:
            line = self.lines[j]
            likeness = fuzz.ratio(wanted, line.strip()[:200], score_cutoff=55)
            is_same = name is not None and name in line and name == label(line)
            if likeness or is_same:
                ranked.append((-likeness - 20.0 * is_same, j))
        return [j for _, j in sorted(ranked)[:at_most]]

    # -- agreement with the words ----------------------------------------------------------------------------------
    def agree(self, site: Site) -> tuple[float, float]:
        """Return two numbers: a score of how well a site agrees with the words, and the plain sum of its agreements
        with the mentions."""
        finder, words, is_insert = self.finder, self.words, site.start == site.end
        total = agreed = 0.0
        for mention, spans in finder.spans.items():
            if mention.relation is Relation.KEPT and mention.kind != "words":
                total -= 1.0 * any(site.start <= span.line < site.end for span in spans)
            weight = WEIGHTS.get(mention.relation, 0.0)
            if not weight or not spans:
                continue
            if mention.kind == "words" and " " not in mention.text:
                weight *= 0.6 if mention.sort == "" else 0.8
            weight += 1.0 * (mention.relation is Relation.GONE and not self.solid)
            agreement = self.agreement(mention, site, spans)
            agreed += agreement
            total += weight * agreement
        # The site may be at an edge that the words name.
        at_edge, solid_from = 0.0, self.layout.solid_from
        for edge in finder.edges:
            bodies = [(start, end, quality) for _, start, end, quality in finder.regions]
            bodies.append((0, self.layout.end, 0.4 if bodies else 0.8))
            side = solid_from[site.start if edge.ordinal > 0 else site.end]
            hits = (q for start, end, q in bodies if solid_from[finder.edge_of(edge, start, end)] == side)
            at_edge += 1.5 * max(hits, default=0.0)
            if edge.sort == "file" and edge.ordinal in (1, -1) and not any(finder.spans.values()):
                first = self.layout.first_import if self.solid and is_import(self.solid[0]) else 0
                at_edge += 1.5 * (solid_from[first if edge.ordinal > 0 else self.layout.end] == side)
        total += min(at_edge, 4.0) * (1.0 if is_insert else 0.5)
        # The words may ask for an insertion, or for something else.
        if not self.solid:
            return total, agreed
        total += BODY_WORTH * (site in self.bodies or (words.whole and site in self.rests))
        if words.replaces or finder.by_relation(Relation.TARGET) or (words.head_only and not words.inserts):
            return total + (-2.0 if is_insert else 0.5), agreed
        if words.inserts and not words.deletes:
            return total + (1.5 if is_insert else -3.0), agreed
        if not is_insert and finder.by_relation(*_BESIDE) and not words.deletes:
            return total - 1.5, agreed
        if words.deletes or words.keeps_rest or not is_insert:
            return total - 1.0 * ((words.deletes or words.keeps_rest) and is_insert), agreed
        return total + (0.8 if finder.by_relation(*_BESIDE) or finder.edges else -0.3), agreed

    def agreement(self, mention: Mention, site: Site, spans: Sequence[MentionPlace]) -> float:
        """Return how well a site agrees with one mention, at the best of its possible places."""
        relation, found = mention.relation, []
        if relation is Relation.WITHIN:
            return max(self.inside(site, span) * span.quality for span in spans)
        if relation is Relation.SHORT_OF:
            ends_at = self.layout.solid_from[site.end]
            return max(s.quality * (site.start < s.line and ends_at in (s.start, s.line)) for s in spans)
        if relation in _BESIDE:
            # The agreement is 1 if only blank lines separate the site from the thing, and small if the site is merely
            # on the right side.
            is_after = relation is Relation.AFTER
            at = self.layout.solid_from[site.start if is_after else site.end]
            for span in spans:
                is_right_side = site.start > span.line if is_after else site.end <= span.line
                worth = self.finder.worth(relation, span).get(at, 0.15 if is_right_side else -0.4)
                found.append(worth * span.quality)
            return max(found)
        for span in spans:
            if not site.start <= span.line < site.end:
                continue
            starts_here = site.start in (span.start, span.line)
            if relation is Relation.UNTIL:
                worth = float(site.start < span.line and site.end <= max(span.end, span.line + 1))
            elif self.finder.is_stretch and relation is Relation.TARGET and not starts_here:
                worth = 0.5
            else:
                # If there is no new code, a thing is removed as a whole.
                ends = (span.end,) if not self.solid else (span.end, span.line + 1)
                worth = 1.1 if starts_here and site.end in ends else 1.0
            found.append(worth * span.quality)
        share = min(1.0, len(found) / mention.number) if 1 < mention.number <= len(spans) else 1.0
        return max(found, default=0.0) * share

    def inside(self, site: Site, span: MentionPlace) -> float:
        """Return how far a site stands inside a thing, or inside a scope around the thing."""
        is_insert = site.start == site.end
        if is_insert and site.start in (span.start, span.end) and is_import(self.lines[span.line]):
            return 1.0
        best = 0.0
        if span.end > span.line + 1 and span.start <= site.start and site.end <= span.end:
            best = 1.0 if not is_insert or site.start > span.line else 0.0
            # Additions to a thing go to the end of the thing.
            body_end = self.layout.body(span.start, span.end)[1]
            is_early = is_insert and is_definition(self.key) and self.layout.before_blanks(site.start) != body_end
            best -= LESS_INSIDE * is_early * best
        elif not is_insert and site.start <= span.line < site.end:
            best = 0.6
        for k, (start, end) in enumerate(self.layout.enclosing(span.line)[:2]):
            if start <= site.start and site.end <= end and (not is_insert or site.start > start):
                best = max(best, 0.8 - 0.2 * k)
        return best

    # -- likeness and form -----------------------------------------------------------------------------------------
    def likeness(self, site: Site) -> float:
        """Return how similar the block is to the lines that it would replace."""
        if site.start == site.end or not self.solid:
            return 0.0
        gone: set[int] = set()
        if site.end - site.start < MAX_COUNTED:
            gone = {j for span in self.finder.by_relation(Relation.GONE) for j in range(span.start, span.end)}
        if gone.issuperset(range(*site)):
            gone = set()
        far = min(site.end, site.start + 4 * len(self.block) + 40)
        old = [text for j in range(site.start, far) if j not in gone and (text := self.lines[j].strip())]
        if not old:
            return 0.0
        new = [text for text in self.texts if text]
        whole = fuzz.ratio("\n".join(old)[:MAX_COMPARED], "\n".join(new)[:MAX_COMPARED]) / 100
        first = fuzz.ratio(old[0][:200], new[0][:200]) / 100
        name, end = label(self.key), label(self.solid[-1])
        same_end = 0.05 * (end is not None and end == label(old[-1]))
        is_namesake = name is not None and name == label(self.lines[self.first_of(site)])
        return 0.5 * whole + 0.5 * max(first, 0.9 if is_namesake else 0.0) + same_end

    def first_of(self, site: Site) -> int:
        """Return the first line of a site other than a comment or decorator."""
        own = (j for j in range(*site) if self.lines[j].strip() and not is_attached(self.lines[j]))
        return next(own, site.start)

    def form_score(self, site: Site) -> float:
        """Return a score of the form: brackets in pairs, headers with bodies, and the block at a level that fits.

        This function is longer than 60 lines because it adds up many small scores.
        """
        layout, words, lines, total = self.layout, self.words, self.lines, 0.0
        indents = layout.indents[site.start : site.end]
        total -= 1.0 * (bool(indents) and min(indents) < indents[0])
        if layout.depth(*site) != self.depth:
            total -= 1.5
        if not self.solid:
            start, end = layout.unit(self.first_of(site))
            return total + 0.3 * (site == (layout.lead(start), end))
        # If a block ends with a header, the header's body must be the old body, or the lines below.
        ending = self.solid[-1].strip()
        opens = _OPEN_TAG.match(ending) is not None or ending.endswith(("{", "(", "["))
        opens = opens or (ending.endswith(":") and layout.language in ("python", None, "yaml"))
        opens = opens or (layout.language in _WITH_END and _OPENS.match(ending) is not None)
        last = layout.before_blanks(site.end) - 1
        old_opens = last >= site.start and site.start < site.end and layout.opens(last)
        is_line = words.one_line and len(self.solid) == 1 and site.end == site.start + 1
        if opens != old_opens and site.end < len(lines) and not is_line:
            total -= 1.2
        level = indent_of(self.solid[0])
        if site.start == site.end:
            if is_import(self.solid[0]):
                near = (layout.before_blanks(site.start) - 1, layout.solid_from[site.start])
                is_among = any(0 <= j < len(lines) and is_import(lines[j]) for j in near)
                total += 0.6 * (site.start <= layout.last_import) + 0.4 * is_among
            total += 0.5 * (level in layout.levels(site.start))
            name = header_name(self.solid[0])
            return total - 0.5 * (name is not None and bool(layout.scopes_named(name)) and not words.inserts)
        start, end = layout.unit(site.start)
        is_part = site.start == start and site.end < layout.before_blanks(end)
        same_end = last >= site.start and fuzz.ratio(lines[last].strip()[:200], ending[:200]) > 75
        if words.keeps_rest or words.head_only:
            has_lead = site.start < self.first_of(site) and not is_attached(self.solid[0])
            total -= 1.0 * (has_lead and not words.deletes)
            total += 0.6 * is_part + 0.6 * (is_part and same_end)
        elif is_line:
            total += 0.5
        else:
            total -= 0.8 * is_part * (not opens)
        targets = [m for m in words.mentions if m.relation in (Relation.TARGET, Relation.UNTIL, Relation.GONE)]
        names_several = len(targets) > 1 or any(m.number > 1 for m in words.mentions) or words.whole
        names_several = names_several or words.body
        if site.end > layout.chain(start, end) and not names_several and not same_end:
            total -= 0.4
        total -= (0.7 if level else 0.3) * (indent_of(lines[site.start]) != level)
        if not lines[site.start].strip() or not lines[site.end - 1].strip():
            total -= 1.0
        return total

    def reason(self, site: Site) -> str:
        """Return a sentence that says what was done and quotes the words for it."""
        said = self.said if len(self.said) <= MAX_SAID else f"{self.said[:MAX_SAID].rstrip()} ..."
        named = next((m for m in self.words.mentions if self.finder.spans.get(m) and m.relation in WEIGHTS), None)
        what = f"`{named.text}`" if named is not None else "the file's edge"
        if not self.solid:
            return f'removed {what}, as "{said}" says'
        if site.start < site.end:
            return f'replaced lines {site.start + 1} to {site.end} ({what}), as "{said}" says'
        sides = {Relation.AFTER: "after", Relation.BEFORE: "before"}
        side = sides.get(named.relation, "in") if named is not None else "at"
        return f'placed {side} {what}, as "{said}" says'

    # -- writing ---------------------------------------------------------------------------------------------------
    def write(self, start: int, end: int, *, gaps: str = "", is_shifted: bool = True) -> tuple[int, int, Lines]:
        """Return the change at a site as start, end and lines, without lines that are already there.

        `gaps`: as in `with_gaps`.  Without `is_shifted`, the lines keep their own indentation.
        """
        layout, lines = self.layout, self.lines
        above, below = layout.before_blanks(start), layout.solid_from[end]
        if not self.solid:
            # Of the two runs of blank lines around deleted lines, one is deleted too.
            if below == len(lines) or (above < start and below - end > start - above):
                return above, end, ()
            takes_below = (above < start and below > end) or start == 0 or (below > end and layout.opens(start - 1))
            return start, below if takes_below else end, ()
        is_insert = start == end
        above, below = (above, below) if is_insert else (start, end)
        for k in range(1, min(len(self.texts), MAX_REPEATED + 1)):
            says = is_insert or any(len(text) > 3 and not _CLOSES.match(text) for text in self.texts[:k])
            if says and [line.strip() for line in lines[max(0, above - k) : above]] == self.texts[:k]:
                start = above - k
            says = any(len(text) > 3 for text in self.texts[-k:])
            if says and [line.strip() for line in lines[below : below + k]] == self.texts[-k:]:
                end = below + k
        shift, own, unit = Shift(), find_unit(self.solid), layout.unit_of_indent
        if own is not None and unit is not None and ("\t" in own.text) != ("\t" in unit.text):
            shift = Shift(0, own.columns, unit.text)
        base = indent_of(shift.apply(self.solid[0]))
        if start < end:
            first = layout.solid_from[start]
            shift = shift.moved(indent_of(lines[first]) - base) if first < end and is_shifted else shift
        else:
            shift = shift.moved(self.level_at(start, base) - base)
        new = [(i, shift.apply(text) if text.strip() else text) for i, text in self.block]
        return self.with_gaps(start, new, gaps=gaps) if start == end else (start, end, (*new, *self.tail))

    def variants(self, site: Site) -> Iterator[tuple[int, int, Lines]]:
        """Yield other ways to write the change at a site."""
        if not self.solid:
            return
        if site.start == site.end:
            yield self.write(*site, gaps="other")
            if len(self.solid) > 1 and not is_import(self.solid[0]):
                yield self.write(*site, gaps="both")
        elif indent_of(self.solid[0]) in self.layout.levels(site.start):
            yield self.write(*site, is_shifted=False)

    def level_at(self, at: int, own: int) -> int:
        """Return the indentation of an insertion: its own if that fits there, or else the indentation of the thing that
        the words name."""
        levels, below = self.layout.levels(at), self.layout.solid_from[at]
        if below < len(self.lines) and is_closer(self.lines[below]) and not is_closer(self.solid[0]):
            # A line above a closing bracket is inside the brackets, so it is deeper.
            levels = {level for level in levels if level > indent_of(self.lines[below])} or levels
        named = self.finder.by_relation(*_BESIDE)
        least = min(SURELY_NAMED, max((s.quality for s in named), default=0.0))
        beside = [s.line for s in named if s.quality >= least]
        inside = [a for _, a, b, quality in self.finder.regions if quality > 0.8 and a <= at <= b and a < b]
        inner = [indent_of(self.lines[j]) for j in inside]
        if own in levels and not (own == 0 and inner and min(inner) > 0 and at < self.layout.end):
            return own
        wanted = (level for level in (*(indent_of(self.lines[j]) for j in beside), *inner) if level in levels)
        return next(wanted, max(levels, default=own))

    def with_gaps(self, at: int, new: Sequence[tuple[int | None, str]], *, gaps: str = "") -> tuple[int, int, Lines]:
        """Return an insertion with as many blank lines around it as its neighbours have.

        `gaps`: "other" adds a blank line if and only if the neighbours have none; "both" adds a blank line on both
        sides.
        """
        layout, blank = self.layout, (None, "")
        above, below = layout.before_blanks(at), layout.solid_from[at]
        if all(map(is_attached, self.solid)) and below < len(self.lines) and is_definition(self.lines[below]):
            # Decorators and comments go right above the definition below.
            return below, below, tuple(new)
        gap, wanted = below - above, self.gap(above, below, new[0][1])
        wanted = int(not wanted) if gaps == "other" else wanted
        if self.tail or gaps == "both":
            before = (max(gap, 1) if gaps == "both" else gap) if above > 0 else 0
            behind = [*self.tail] or [blank] * (below < len(self.lines))
            return above + min(before, gap), below, (*[blank] * max(before - gap, 0), *new, *behind)
        if below == len(self.lines):
            return above, above, (*[blank] * (wanted if above > 0 else 0), *new)
        opens = above > 0 and layout.opens(above - 1)
        closes = indent_of(self.lines[below]) < indent_of(new[0][1])
        if wanted and not opens and not (closes and gap >= wanted):
            before, after = wanted, (wanted if not closes else gap)
        elif wanted and opens and not closes:
            before, after = gap, wanted
        elif gap and (wanted or closes):
            before, after = (wanted, gap) if closes else (gap, wanted)
        else:
            # The block touches the line above if the words put it after that line, and not only before the line below.
            points = (at for span in self.finder.by_relation(Relation.AFTER) for at in self.finder.after(span)[:3])
            is_after = at <= above or any(layout.before_blanks(point) == above for point in points)
            before, after = (0, gap) if is_after else (gap, 0)
        before = before if above > 0 else 0
        # The existing blank lines stay on one side of the block; new ones are added on the other.
        if gap >= after > 0:
            return below - after, below - after, (*[blank] * max(before - (gap - after), 0), *new)
        place, left = above + min(before, gap), gap - min(before, gap)
        return place, place, (*[blank] * max(before - gap, 0), *new, *[blank] * max(after - left, 0))

    def gap(self, above: int, below: int, first: str) -> int:
        """Return the number of blank lines between the block and its neighbours.  `first`: the block's first line as
        written."""
        layout, lines, level = self.layout, self.lines, indent_of(first)
        there = below - above if above and below < len(lines) else 0
        if self.words.blank is not None:
            return max(there, 1) if self.words.blank else 0
        if layout.is_prose:
            return 0 if _LIST_ITEM.match(first) else 1
        if self.ends_blank or (above and is_import(lines[above - 1]) and not any(map(is_import, self.solid))):
            return max(there, 1)
        is_flat = all(indent_of(text) == indent_of(self.solid[0]) for text in self.solid)
        series = {" ".join(line.split()[:1]) for line in (*lines[max(0, above - 2) : above], first)}
        if is_flat and above > 1 and len(series) == 1 and indent_of(lines[above - 1]) == level:
            return 0
        is_long = len(self.solid) > 1 and not is_import(first)
        opener = above - 1
        while opener >= 0 and indent_of(lines[opener]) >= level:
            opener = layout.parents[opener]
        is_listed = opener >= 0 and lines[opener].rstrip().endswith(("(", "["))
        has_body = sum(not is_attached(text) for text in self.solid) > 1
        is_code = is_long and has_body and is_definition(self.key) and not is_listed
        is_only_import = is_import(first) and above == 0 and not (below < len(lines) and is_import(lines[below]))
        if is_only_import or (is_code and (layout.language not in ("yaml", "json", "toml") or first.startswith("["))):
            return gaps_between(lines, layout.scopes).get(level, there or 1)
        if not is_long and (is_import(first) or not is_definition(first)):
            ends_file = below == len(lines) and above > 0 and not is_import(first)
            return int(ends_file and (is_closer(lines[above - 1]) or indent_of(lines[above - 1]) > level))
        # Use the gaps of the nearest units at this level: the one above (unless it is the first in its scope) and the
        # one below.
        near = []
        j = above - 1
        while j >= 0 and indent_of(lines[j]) > level:
            j = layout.parents[j]
        if j >= 0 and indent_of(lines[j]) == level and not _CLOSING.match(lines[j]):
            over = layout.before_blanks(layout.lead(j)) - 1
            near += [j] if over >= 0 and indent_of(lines[over]) >= level else []
        if below < len(lines) and above and indent_of(lines[below]) == level and not layout.opens(above - 1):
            near.append(below)
        leads = [layout.lead(j) for j in near if layout.unit(j)[1] > j + 1]
        usual = max((lead - layout.before_blanks(lead) for lead in leads), default=0)
        return usual or int(self.is_apart and is_long and not is_listed)


def place(
    original: Sequence[str], update: Sequence[str], directive: Directive, *, language: str | None
) -> list[Placed]:
    """Return the best ways to carry out a directive, the best first; at most four, and none if nothing fits."""
    return _ways(FileOutline(original, language), update, directive)


def _ways(layout: FileOutline, update: Sequence[str], directive: Directive) -> list[Placed]:
    search = Search(layout, directive, update)
    if not search.solid and not search.words.deletes:
        return []
    found: dict[tuple[int, int, Lines], Placed] = {}
    for score, site, agreement in search.ranked()[:MAX_WRITTEN]:
        if score < MIN_SCORE or len(found) == MAX_PLACED:
            break
        written = search.write(*site)
        others = tuple(other for other in dict.fromkeys(search.variants(site)) if other != written)
        one = Placed(directive, *written, score, agreement, search.reason(site), variants=others)
        found.setdefault(written, one)
    ways = list(found.values())
    scores = [*(item.score for item in ways), 0.0]
    return [item._replace(margin=item.score - scores[k + 1]) for k, item in enumerate(ways)]


def merge_placed(
    original: Sequence[str], update: Sequence[str], *, language: str | None, path: str | None, instruction: str = ""
) -> list[tuple[list[Placed], tuple[LineOp, ...]]]:
    """Return merges of a snippet that consists of directives and their code, the best first.

    The list is empty if there is other code.  At its end are variants of the best merge, each with one part written
    differently.
    """
    directives = find_directives(original, update, language=language, path=path)
    roles = classify(update, original, language=language, path=path)
    outside = (Role.BLANK, Role.FENCE, Role.ELSEWHERE, Role.FILE_NAME, Role.MARKER)
    solid = [i for i, role in enumerate(roles) if role not in outside]
    if not directives and instruction.strip() and solid:
        directives = [Directive((), instruction, tuple(range(solid[0], solid[-1] + 1)))]
    covered = {i for directive in directives for i in (*directive.lines, *directive.block)}
    if not directives or not covered.issuperset(solid):
        return []
    layout = FileOutline(original, language)
    readings: list[tuple[float, list[Placed]]] = [(0.0, [])]
    """The best combinations of places that do not overlap."""
    for ways in [_ways(layout, update, directive) for directive in directives]:
        grown = [
            (total + item.score, [*reading, item])
            for total, reading in readings
            for item in ways
            if not any(_overlap(item, other) for other in reading)
        ]
        readings = sorted(grown, key=lambda pair: -pair[0])[: 2 * MAX_PLACED]
    chosen = [reading for _, reading in readings[:MAX_PLACED]]
    for n, item in enumerate(chosen[0][:MAX_PLACED] if chosen else ()):
        for start, end, lines in item.variants:
            one, others = item._replace(start=start, end=end, lines=lines), [*chosen[0][:n], *chosen[0][n + 1 :]]
            if not any(_overlap(one, other) for other in others):
                chosen.append([*others[:n], one, *others[n:]])
    keeps = [LineOp("keep", j, None, line) for j, line in enumerate(original)]
    return [(reading, _operations(keeps, reading)) for reading in chosen]


def _overlap(one: Placed, other: Placed) -> bool:
    return one.start < other.end and other.start < one.end


def _operations(keeps: Sequence[LineOp], reading: Sequence[Placed]) -> tuple[LineOp, ...]:
    """Return the operations of places that do not overlap.  `keeps`: the operations that keep the whole original."""
    ops: list[LineOp] = []
    at = 0
    for item in sorted(reading, key=lambda placed: (placed.start, placed.end)):
        ops += keeps[at : item.start]
        old = [op.text for op in keeps[item.start : item.end]]
        for part in LCSseq.opcodes(old, [text for _, text in item.lines]):
            rows, new = range(part.src_start, part.src_end), item.lines[part.dest_start : part.dest_end]
            if part.tag == "equal":
                ops += [LineOp("both", item.start + j, i, old[j]) for j, (i, _) in zip(rows, new, strict=True)]
            else:
                ops += [LineOp("drop", item.start + j, None, old[j]) for j in rows]
                ops += [LineOp("take", None, i, text) for i, text in new]
        at = item.end
    return (*ops, *keeps[at:])
