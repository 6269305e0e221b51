"""Makes proposals: each maker applies a lazy snippet to the file in its own way.

The makers are asked in this order: diff signs, words, alignments.  If signs or words decide the whole edit, no other
maker is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from apply_service.merge.candidates import key_of
from apply_service.merge.fitting import OPENERS
from apply_service.merge.notes import KINDS as NOTE_KINDS
from apply_service.merge.proposal import Proposal, texts_of
from apply_service.merge.reading import STAYS, ReadSnippet
from apply_service.merge.rows import Rows, aligned_matches, fresh_parts
from apply_service.merge.signed import is_signed, read_signed
from apply_service.merge.twins import find_twins
from apply_service.merge.variants import by_policy, other_merges, pair_kind, stub_headers
from apply_service.merge.wording import find_pairs, keep_wording
from apply_service.merge.words.directives import MIN_TOLD, Directive, find_directives, judge
from apply_service.merge.words.mentions import Relation, read_words
from apply_service.merge.words.sites import Placed, merge_placed, place
from apply_service.merge.write import Writer
from apply_service.text.lines import header_name, indent_of, is_attached, is_closer
from apply_service.text.markers import Role
from apply_service.types import LineOp, Merge, Way

FRESH = "fresh"
"""The name of the maker whose alignments take more of the snippet's lines as new."""


def propose(reading: ReadSnippet, update: Sequence[str], instruction: str) -> Iterator[Proposal]:
    """Yield all proposals for a snippet, the default one first.  Several may have the same text."""
    if is_signed(reading.original, update):
        yield from read_signed(reading, update)
        return
    directives = find_directives(reading.original, update, language=reading.language, path=reading.path)
    placed = list(_placed(reading, update, instruction)) if directives or instruction.strip() else []
    if directives:
        yield from placed or _mixed(reading, update, directives)
    elif placed and _words_tell_all(reading, instruction):
        yield from placed
        return
    first: list[Proposal] = []
    for one in _laid(reading):
        if one.way.maker != FRESH and len(first) < 2 and all(one.text != other.text for other in first):
            first.append(one)
        yield one
    yield from _laid_anew(reading, first)
    if not directives:
        yield from placed
    yield from _varied(first, () if directives else placed)


def _laid_anew(reading: ReadSnippet, first: Sequence[Proposal]) -> Iterator[Proposal]:
    """Yield the alignments of the snippet read in other ways.  `first`: the alignments of the snippet as it was first
    read."""
    for name, again in _reread(reading, skips=any(STAYS.intersection(one.reasons) for one in first)):
        for one in _laid(again) if again.visible else ():
            yield replace(one, ways=(one.way._replace(snippet=name),))


def _varied(first: Sequence[Proposal], placed: Sequence[Proposal]) -> Iterator[Proposal]:
    """Yield each alignment with one frequent mistake undone.  If words lead to the same merge as an alignment, the
    features of those words are handed on."""
    told = {one.text: one.features for one in reversed(placed)}
    for one in first:
        features = {**told.get(one.text, {}), **one.features}
        for n, ops in enumerate(other_merges(one.ops, one.texts)):
            told.setdefault(ops.text, features)
            yield replace(one, ops=ops, ways=(Way("other", n),), features=features)


def _words_tell_all(reading: ReadSnippet, instruction: str) -> bool:
    """Tell whether the snippet is all new and a sentence around it says where it goes."""
    lower = "\n".join(reading.original).lower()
    sentences = map(str.strip, instruction.split("\n"))
    if all(judge(one, lower, stands_free=True, is_told=True) < MIN_TOLD for one in sentences):
        return False
    words = read_words(instruction, lambda phrase: phrase.lower() in lower)
    is_beside = any(mention.relation in (Relation.AFTER, Relation.BEFORE) for mention in words.mentions)
    return is_all_new(reading, inserts=is_beside and words.inserts and not (words.replaces or words.deletes))


def is_all_new(reading: ReadSnippet, *, inserts: bool = False) -> bool:
    """Tell whether the snippet has no marker and no outermost line that the file has, so that only words can place it.

    `inserts`: only the first line's text counts, because inserted code may repeat a name of the file.
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
    """Yield other ways to read the snippet itself, each with a name.

    Comments that may be markers (`notes`) count as such: only the clearest kind, or all kinds.  If the snippet has no
    marker, its blank lines count as markers (`_partings`).  If the first reading gave the snippet the file's
    indentation, one way keeps the snippet's own.  A snippet that lost its indentation gets the file's.  If the first
    reading may keep lines left out without a marker (`addresses`, `has_excerpts`, `skips`), one way removes them.
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
    """Return the blank lines that may stand for lines left out, if the snippet has no marker.

    The first list has all blank lines except those inside a new scope and those between two new definitions.  The
    second list has only those of the first list that stand between outermost lines.  An empty list is left out, and so
    is a second list equal to the first.
    """
    roles, texts = reading.snippet.roles, reading.texts
    found: list[list[int]] = [[], []]
    open_lines: list[str] = []
    """The lines that may enclose the next line, each indented deeper than the one before."""
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


def _placed(reading: ReadSnippet, update: Sequence[str], instruction: str) -> Iterator[Proposal]:
    """Yield merges with the snippet's code at the places that its directives or the instruction name."""
    found = merge_placed(
        reading.original, update, language=reading.language, path=reading.path, instruction=instruction
    )
    for n, (places, ops) in enumerate(found):
        yield Proposal(
            Merge(ops),
            reading,
            texts_of(ops, update),
            (Way("placed", n),),
            reasons=tuple(place.reason for place in places),
            features=_worst(places),
            told=frozenset(i for place in places for i in place.directive.lines),
        )


def _worst(places: Sequence[Placed]) -> dict[str, float]:
    """Return the features of several places together, each with its least favourable value."""
    return {
        "placed_agreement": min(place.agreement for place in places),
        "placed_margin": min(place.margin for place in places),
    }


def _mixed(reading: ReadSnippet, update: Sequence[str], directives: Sequence[Directive]) -> Iterator[Proposal]:
    """Merge the snippet's lines that belong to no directive, carry out the directives on each of these merges, and
    yield the results."""
    original, language = reading.original, reading.language
    covered = {i for directive in directives for i in (*directive.lines, *directive.block)}
    rest = reading.again(passed_over=covered)
    choices = [place(original, update, directive, language=language)[:1] for directive in directives]
    if not all(choices):
        return
    places = [choice[0] for choice in choices]
    keep = Merge(LineOp("keep", j, None, line) for j, line in enumerate(original))
    nothing = Proposal(keep, rest, tuple(rest.texts), (Way("line", policy="careful"),))
    for one in _laid(rest) if rest.visible else [nothing]:
        ops: Sequence[LineOp] | None = one.ops
        for item in places:
            ops = _spliced(ops, item, original) if ops is not None else None
        if ops is not None:
            ways = (one.way._replace(snippet="mixed"),)
            texts, features = texts_of(ops, one.texts), _worst(places)
            yield replace(one, ops=Merge(ops), snippet=reading, texts=texts, ways=ways, features=features)


def _spliced(ops: Sequence[LineOp], placed: Placed, original: Sequence[str]) -> list[LineOp] | None:
    """Return the merge with a change at one more place; None if the merge already changes lines at that place."""
    places = (k for k, op in enumerate(ops) if op.original_line is not None and op.original_line >= placed.start)
    at = next(places, len(ops))
    stop = at + placed.end - placed.start
    if any(op.kind not in ("keep", "both") for op in ops[at:stop]):
        return None
    drops = [LineOp("drop", j, None, original[j]) for j in range(placed.start, placed.end)]
    return [*ops[:at], *drops, *(LineOp("take", None, i, text) for i, text in placed.lines), *ops[stop:]]


def _laid(reading: ReadSnippet) -> Iterator[Proposal]:
    """Yield the snippet aligned with the file, in several ways."""
    rows = Rows(reading)
    line = Way("line")
    aligned = {line: (rows, aligned_matches(reading, rows))}
    if rows.groups:
        aligned[Way("group")] = (rows, aligned_matches(reading, rows, groups=True))
    best, added = aligned[line][1], dict[Way, set[int]]()
    for n, part in enumerate(fresh_parts(reading, best)):
        aligned[Way(FRESH, n)] = (rows, [match for match in best if match.row not in part])
        added[Way(FRESH, n)] = {reading.visible[r][1] for r in part}
    stubs = stub_headers(reading)
    reasons: dict[Way, tuple[str, ...]] = {}
    twins: dict[str, float] = {}
    known = set[str]()
    for way, (of, matches) in aligned.items():
        writer = Writer(reading, of.candidates, matches, added=added.get(way, ()))
        ops = Merge(writer.write())
        if way in added and ops.text in known:
            continue
        known.add(ops.text)
        if not twins:
            twins["twins"] = float(len(find_twins(reading, ops)))
        reasons[way] = tuple(dict.fromkeys([*reading.doubts, *writer.doubts]))
        kept = [pair for pair in find_pairs(ops) if pair_kind(ops, pair, stubs) == "stub"] if stubs else []
        merged = Merge(keep_wording(ops, kept)) if kept else ops
        ways = (way._replace(policy="careful"),)
        yield Proposal(merged, reading, tuple(writer.texts), ways, reasons=reasons[way], features=twins)
    for way, doubts in reasons.items():
        of, matches = aligned[way]
        writer = Writer(reading, of.candidates, matches, trusts_all=True, added=added.get(way, ()))
        ops = Merge(writer.write())
        yield from by_policy(Proposal(ops, reading, tuple(writer.texts), (way,), doubts, twins), stubs)
