"""All the ways to read a lazy snippet, each as a finished merge with its features."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from apply_service.merge.alternatives import find_alternatives
from apply_service.merge.candidates import key_of
from apply_service.merge.fitting import OPENERS
from apply_service.merge.notes import KINDS as NOTE_KINDS
from apply_service.merge.quotes import (
    Merge,
    Pair,
    changes_type,
    find_pairs,
    has_blank_changes,
    keep_wording,
    lone_pairs,
    passed_over,
)
from apply_service.merge.rank.features import Features, SnippetFacts, features_of
from apply_service.merge.rank.twins import find_twins
from apply_service.merge.reading import STAYS, ReadSnippet
from apply_service.merge.removals import comments_of_code, ignored_notes
from apply_service.merge.retouch import retouches
from apply_service.merge.rows import Rows, aligned_matches, fresh_parts
from apply_service.merge.signed import is_signed, read_signed
from apply_service.merge.statements import statements
from apply_service.merge.words.directives import MIN_TOLD, Directive, find_directives, judge
from apply_service.merge.words.mentions import Relation, read_words
from apply_service.merge.words.orders import adds_to_file, find_orders
from apply_service.merge.words.sites import Placed, merge_placed, place
from apply_service.merge.write import Writer, single_gaps
from apply_service.text.lines import header_name, indent_of, is_attached, is_closer
from apply_service.text.markers import Role
from apply_service.types import Certainty, LineOp, Prediction

CARELESS = frozenset({"columns", "quotes", "spacing", "signs", "reordered", "remark", "annotation", "stub"})
"""Kinds of difference that carry no meaning, except those of indentation."""
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
AT_END = "Add this at the end of the file:"
"""Where a new definition or section goes that is to be added to the file."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")
_LEAVE = re.compile(
    r"\b(?:can|could|may|might|should)\b(?:\s+\w+){0,3}\s+(?:be\s+)?(?:remove|delete|drop)[sd]?\b", re.IGNORECASE
)
_QUOTED = re.compile(r"`([^`\n]{1,200})`")
FRESH = "fresh"
"""The start of the name of an alignment with more new lines."""
RETOUCHED = frozenset({"literal", "format", "loose", "all"})
"""Policies whose merges get every retouch as well."""


@dataclass
class FinishedMerge:
    """One reading as a finished merge.  `texts` are the update's lines as this draft reads them."""

    ops: Merge
    texts: tuple[str, ...]
    name: str
    reasons: tuple[str, ...] = ()
    extra: Mapping[str, float] = field(default_factory=dict)
    """Features that come from `signed`, `place` or `twins`."""
    reading: ReadSnippet | None = None
    """The snippet as it was read for this draft; None, until the merge is finished, if it was read as it stands."""
    told: frozenset[int] = frozenset()
    """The update lines of comments that this draft carries out."""

    @cached_property
    def text(self) -> str:
        return "\n".join([op.text for op in self.ops if op.kind != "drop"])


@dataclass(slots=True)
class Ways:
    """A reading, and the names of all ways that lead to its text."""

    draft: FinishedMerge
    names: list[str]
    features: Features = field(default_factory=dict)
    has_order: bool = False
    """The prose above the code says what to do with it."""
    only_placed: bool = True
    """It says no more than where the code goes."""
    ignores_order: bool = False
    """The order is about something else, or nothing that can be done."""
    may_be_placed: bool = False
    """Words say where the code goes, for this reading or another."""
    leave: str | None = None
    """What the prose says may be removed, and stays."""
    ignored_note: str | None = None
    """A comment that says that something was removed, where nothing of it is."""
    risks: dict[str, str] = field(default_factory=dict)
    """What makes this reading less sure, by name, in words."""


def find_readings(
    original: Sequence[str], update: Sequence[str], *, language: str | None, path: str | None, instruction: str = ""
) -> list[Ways]:
    """All readings that give different texts; the default one is first."""
    found: dict[str, Ways] = {}
    reading = ReadSnippet(original, update, language, path)
    if adds_to_file(instruction, path) and _is_all_new(reading) and header_name(reading.block_texts(0)[0]):
        instruction = AT_END
    if (
        Role.DELETION in reading.snippet.roles
        and (first := next(_drafts(reading, update, instruction), None)) is not None
    ):
        # A comment that says that something was removed, where nothing goes, is the program's.
        ignored = ignored_notes(reading, first.ops)
        reading = reading.again(comments=comments_of_code(reading, ignored, first.ops)) if ignored else reading
    for draft in _drafts(reading, update, instruction):
        ways = found.setdefault(draft.text, Ways(draft, []))
        ways.names.append(draft.name)
        ways.draft.extra = {**draft.extra, **ways.draft.extra}
    whole = {text: ways for text, ways in found.items() if not writes_marker(reading, ways.draft.ops)}
    found = whole or found
    # A comment that is carried out whole is not written: none of 209 right readings of such snippets does.
    told = frozenset[int]().union(*(ways.draft.told for ways in found.values()))
    found = {text: ways for text, ways in found.items() if not _takes(ways.draft.ops, told)} if told else found
    _mark_ignored_orders(reading, update, instruction, found.values())
    found = {text: ways for text, ways in found.items() if not ways.ignores_order} or found
    facts = {reading: SnippetFacts(reading)}
    for n, ways in enumerate(found.values()):
        draft = ways.draft
        draft.reading = read = draft.reading or reading
        if read not in facts:
            facts[read] = SnippetFacts(read)
        shown = draft.texts if draft.name.startswith("signed") else read.texts
        known = features_of(facts[read], draft.ops, ways.names, draft.reasons, draft.extra, len(found), shown)
        ways.ignored_note = next((read.snippet.texts[i].strip() for i in ignored_notes(read, draft.ops)), None)
        ways.leave = next((name for name in _leaves(instruction) if name in draft.text), None)
        ways.features = known | {"is_first": float(n == 0)}
    may_be_placed = any(ways.features["by_placed"] for ways in found.values())
    return [replace(ways, may_be_placed=may_be_placed) for ways in found.values()]


def _leaves(instruction: str) -> Iterator[str]:
    """The things in backticks that the prose allows to remove ("You can remove `x` later")."""
    for sentence in _SENTENCE_END.split(instruction):
        if _LEAVE.search(sentence):
            yield from _QUOTED.findall(sentence)


def _mark_ignored_orders(
    reading: ReadSnippet, update: Sequence[str], instruction: str, readings: Collection[Ways]
) -> None:
    """Marks the readings that do not do what the prose above the code orders."""
    if any(name.startswith("signed") for ways in readings for name in ways.names):
        return
    roles = reading.snippet.roles
    orders = find_orders(
        reading.original, update, roles, language=reading.language, path=reading.path, instruction=instruction
    )
    is_alone = Role.ELSEWHERE not in roles
    is_unclear = any(order.is_unclear for order in orders)
    for ways in readings if orders else ():
        is_carried = any(name.startswith(("placed", "mixed")) for name in ways.names)
        is_followed = orders[0].is_followed(ways.draft.ops) if is_alone else is_carried
        is_followed = is_followed and (is_carried or not orders[0].only_places)
        ways.has_order, ways.ignores_order = True, is_unclear or not is_followed
        ways.only_placed = all(order.only_places for order in orders)


def _takes(ops: Merge, lines: Collection[int]) -> bool:
    return any(ops[k].kind == "take" and ops[k].update_line in lines for k in ops.shown)


def writes_marker(reading: ReadSnippet, ops: Merge) -> bool:
    """Whether the merge writes a line of the snippet that only stands for a line of the file."""
    return _takes(ops, reading.elided)


def _drafts(reading: ReadSnippet, update: Sequence[str], instruction: str) -> Iterator[FinishedMerge]:
    original, language, path = reading.original, reading.language, reading.path
    if is_signed(original, update):
        for n, signed in enumerate(read_signed(original, update, language=language, path=path)):
            extra = {f"signed_{name}": value for name, value in signed.features.items()}
            yield FinishedMerge(
                Merge(signed.ops), signed.update_lines, f"signed{n}", reasons=signed.reasons, extra=extra
            )
        return
    directives = find_directives(original, update, language=language, path=path)
    placed = list(_placed(reading, update, instruction)) if directives or instruction.strip() else []
    if directives:
        yield from placed or _mixed(reading, update, directives)
    elif (
        placed and _tells_place(instruction, original) and _is_all_new(reading, inserts=_inserts(instruction, original))
    ):
        yield from placed
        return
    first: list[FinishedMerge] = []
    for draft in _laid(reading):
        is_main = not draft.name.startswith(FRESH)
        if is_main and len(first) < 2 and all(draft.text != other.text for other in first):
            first.append(draft)
        yield draft
    for name, again in _reread(reading, skips=any(STAYS.intersection(draft.reasons) for draft in first)):
        for draft in _laid(again) if again.visible else ():
            yield replace(draft, name=f"{name}:{draft.name}", reading=again)
    if not directives:
        yield from placed
    for draft in first:
        prediction = Prediction(draft.ops, draft.texts, Certainty.LIKELY)
        for n, other in enumerate(find_alternatives(prediction)):
            yield replace(draft, ops=Merge(other.of(draft.ops)), name=f"other{n}")


def _tells_place(instruction: str, original: Sequence[str]) -> bool:
    """Whether one of the sentences around the snippet says where it goes."""
    lower = "\n".join(original).lower()
    return any(
        judge(line.strip(), lower, stands_free=True, is_told=True) >= MIN_TOLD for line in instruction.split("\n")
    )


def _inserts(instruction: str, original: Sequence[str]) -> bool:
    """Whether the words tell to put something beside a thing, and nothing to change or remove."""
    lower = "\n".join(original).lower()
    words = read_words(instruction, lambda phrase: phrase.lower() in lower)
    is_beside = any(mention.relation in (Relation.AFTER, Relation.BEFORE) for mention in words.mentions)
    return is_beside and words.inserts and not (words.replaces or words.deletes)


def _is_all_new(reading: ReadSnippet, *, inserts: bool = False) -> bool:
    """Whether the snippet has no marker, and the file has no outermost line of it: words alone say where it goes.

    What the words tell to insert may have the name of another thing, and only its first line counts.
    """
    if len(reading.snippet.blocks) != 1 or reading.snippet.has_markers:
        return False
    texts = [text for text in reading.block_texts(0) if text.strip()]
    level = min(map(indent_of, texts))
    outer = [text for text in texts if indent_of(text) == level and not is_closer(text)]
    if inserts:
        return not any(map(reading.index.count, [text for text in outer if not is_attached(text)][:1]))
    names = {header_name(text) for text in outer} - {None}
    is_known = any(reading.index.count(text) or (key_of(text), level) in reading.index.keys for text in outer)
    return not is_known and names.isdisjoint(map(header_name, reading.original if names else ()))


def _reread(reading: ReadSnippet, *, skips: bool) -> Iterator[tuple[str, ReadSnippet]]:
    """Other ways to read the snippet itself, each with a name.

    Its notes count as markers: only the clearest kind of note, or all kinds.  If the snippet has no marker, its blank
    lines count as markers (`_partings`).  If the snippet was shifted, it keeps its own indentation; if it lost its own,
    it gets the file's.  If it has nested headers, or `skips` lines that stay, the lines that it does not show go.
    """
    found = reading.found_notes
    kinds = [kind for kind in NOTE_KINDS if kind in found.values()]
    for n in {1, len(kinds)} if kinds else ():
        chosen = frozenset(i for i, kind in found.items() if kind in kinds[:n])
        yield "noted", reading.again(notes=chosen)
    for blanks in _partings(reading):
        yield "parted", reading.again(notes=blanks)
    if reading.is_shifted:
        yield "unshifted", reading.again(shifts=False)
    for texts in reading.refitted():
        yield "refitted", reading.again(texts=texts, shifts=False)
    if reading.addresses or reading.has_excerpts or skips:
        yield "shown", reading.again(has_addresses=False)


def _partings(reading: ReadSnippet) -> list[list[int]]:
    """The blank lines of a snippet without markers that may stand for lines: all but those inside what a new line
    opens and between two new definitions; and of these only those between its outermost lines."""
    roles, texts = reading.snippet.roles, reading.texts
    found: list[list[int]] = [[], []]
    open_lines: list[str] = []
    """The lines that the lines below may stand inside, each indented deeper than the one before."""
    blanks: list[int] = []
    least = min((indent_of(texts[i]) for _, i in reading.visible), default=0)
    for i, role in enumerate(roles if Role.MARKER not in roles else ()):
        if role is Role.BLANK:
            blanks.append(i)
        elif role is Role.CONTENT:
            level = indent_of(texts[i])
            above = ""
            while open_lines and indent_of(open_lines[-1]) >= level + is_closer(texts[i]):
                above = open_lines.pop()
            header = open_lines[-1] if open_lines else ""
            is_new = header.rstrip().endswith(OPENERS) and _is_new(reading, header)
            is_new = is_new or all(header_name(text) and _is_new(reading, text) for text in (above, texts[i]))
            found[0] += [] if is_new else blanks
            found[1] += blanks if level == least and not is_new else []
            blanks = []
            open_lines.append(texts[i])
    return [blanks for n, blanks in enumerate(found) if blanks and blanks not in found[:n]]


def _is_new(reading: ReadSnippet, line: str) -> bool:
    return not reading.index.count(line) and (header_name(line) or "") not in reading.names


def _placed(reading: ReadSnippet, update: Sequence[str], instruction: str) -> Iterator[FinishedMerge]:
    """Merges with the snippet's code at the places that its directives or the instruction name."""
    found = merge_placed(
        reading.original, update, language=reading.language, path=reading.path, instruction=instruction
    )
    for n, (places, ops) in enumerate(found):
        reasons = tuple(place.reason for place in places)
        told = frozenset(i for place in places for i in place.directive.lines)
        draft = FinishedMerge(Merge(ops), texts_of(ops, update), f"placed{n}", reasons=reasons, extra=_worst(places))
        yield replace(draft, told=told)


def _worst(places: Sequence[Placed]) -> dict[str, float]:
    """The features of several places together: for each the least favourable value."""
    return {
        "placed_agreement": min(place.agreement for place in places),
        "placed_margin": min(place.margin for place in places),
    }


def texts_of(ops: Sequence[LineOp], update: Sequence[str]) -> tuple[str, ...]:
    """The update's lines as a merge writes them: some are moved to another indentation."""
    texts = list(update)
    for op in ops:
        if op.kind == "take" and op.update_line is not None:
            texts[op.update_line] = op.text
    return tuple(texts)


def _mixed(reading: ReadSnippet, update: Sequence[str], directives: Sequence[Directive]) -> Iterator[FinishedMerge]:
    """Merges of the lines beside the directives, with the directives carried out on them."""
    original, language = reading.original, reading.language
    covered = {i for directive in directives for i in (*directive.lines, *directive.block)}
    rest = reading.again(passed_over=covered)
    choices = [place(original, update, directive, language=language)[:1] for directive in directives]
    if not all(choices):
        return
    places = [choice[0] for choice in choices]
    keep = tuple(LineOp("keep", j, None, line) for j, line in enumerate(original))
    for draft in _laid(rest) if rest.visible else [FinishedMerge(Merge(keep), tuple(rest.texts), "line:careful")]:
        ops: Sequence[LineOp] | None = draft.ops
        for item in places:
            ops = _spliced(ops, item, original) if ops is not None else None
        if ops is not None:
            texts, name = texts_of(ops, draft.texts), f"mixed:{draft.name}"
            yield replace(draft, ops=Merge(ops), texts=texts, name=name, extra=_worst(places))


def _spliced(ops: Sequence[LineOp], placed: Placed, original: Sequence[str]) -> list[LineOp] | None:
    """A merge with one more place changed; None if the merge already changes lines there."""
    places = (k for k, op in enumerate(ops) if op.original_line is not None and op.original_line >= placed.start)
    at = next(places, len(ops))
    stop = at + placed.end - placed.start
    if any(op.kind not in ("keep", "both") for op in ops[at:stop]):
        return None
    drops = [LineOp("drop", j, None, original[j]) for j in range(placed.start, placed.end)]
    return [*ops[:at], *drops, *(LineOp("take", None, i, text) for i, text in placed.lines), *ops[stop:]]


def _laid(reading: ReadSnippet) -> Iterator[FinishedMerge]:
    """The snippet aligned with the file, in several ways."""
    rows = Rows(reading)
    aligned = {"line": (rows, aligned_matches(reading, rows))}
    if rows.groups:
        aligned["group"] = (rows, aligned_matches(reading, rows, groups=True))
    best, added = aligned["line"][1], dict[str, set[int]]()
    for n, part in enumerate(fresh_parts(reading, best)):
        aligned[f"{FRESH}{n}"] = (rows, [match for match in best if match.row not in part])
        added[f"{FRESH}{n}"] = {reading.visible[r][1] for r in part}
    stubs = stub_headers(reading)
    reasons: dict[str, tuple[str, ...]] = {}
    twins: dict[str, float] = {}
    known = set[tuple[str, ...]]()
    for base, (of, matches) in aligned.items():
        writer = Writer(reading, of.candidates, matches, added=added.get(base, ()))
        ops = Merge(writer.write())
        text = tuple(op.text for op in ops if op.kind != "drop")
        if base in added and text in known:
            continue
        known.add(text)
        if not twins:
            twins["twins"] = float(len(find_twins(reading, ops)))
        reasons[base] = tuple(dict.fromkeys([*reading.doubts, *writer.doubts]))
        kept = [pair for pair in find_pairs(ops) if _kind(ops, pair, stubs) == "stub"] if stubs else []
        merged = Merge(keep_wording(ops, kept)) if kept else ops
        yield FinishedMerge(merged, tuple(writer.texts), f"{base}:careful", reasons=reasons[base], extra=twins)
    for base in reasons:
        of, matches = aligned[base]
        writer = Writer(reading, of.candidates, matches, trusts_all=True, added=added.get(base, ()))
        written = Merge(writer.write())
        draft = FinishedMerge(written, tuple(writer.texts), base, reasons=reasons[base], extra=twins)
        yield from _by_policy(reading, draft, stubs)


def _by_policy(reading: ReadSnippet, literal: FinishedMerge, stubs: set[int]) -> Iterator[FinishedMerge]:
    """The merge of each policy, made from `literal`, which takes every shown line literally."""
    ops, base = literal.ops, literal.name
    pairs = find_pairs(ops)
    kinds = [_kind(ops, pair, stubs) for pair in pairs]
    passed = {"": (), **{gaps: passed_over(ops, gaps) for gaps in ("leads", "all")}}
    lone = lone_pairs(ops, pairs)
    known: dict[tuple[object, ...], list[FinishedMerge]] = {}
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
            draft = replace(literal, ops=found, name="")
            known[key] = [draft]
            for retouched, changed in retouches(reading, draft.ops) if name in RETOUCHED else ():
                changed = Merge(single_gaps(list(changed)))
                known[key].insert(-1, replace(draft, ops=changed, name=f"+{retouched}"))
        for draft in known[key]:
            other = replace(draft, name=f"{base}:{name}{draft.name}")
            other.__dict__["text"] = draft.text  # The text is joined only once.
            yield other


def _kind(ops: Sequence[LineOp], pair: Pair, stubs: set[int]) -> str:
    """The pair's kind.

    For the header of a stub it is `stub` if the header is quoted carelessly, and `renewed` if it has something new.
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
    """The update lines of headers whose body is only a marker.  Such a header says that the definition stays."""
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
