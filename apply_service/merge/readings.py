"""Collects all readings of a lazy snippet: groups the makers' proposals by text and computes what ranking needs.

Each reading gets its features, its risks and the highest probability that it may have.  `merge` ranks them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from apply_service.merge.makers import is_all_new, propose
from apply_service.merge.proposal import Proposal
from apply_service.merge.rank.features import Features, SnippetFacts, features_of
from apply_service.merge.rank.risks import RISKS, Said, find_risks, most_likely
from apply_service.merge.reading import ReadSnippet
from apply_service.merge.removals import comments_of_code, ignored_notes
from apply_service.merge.words.orders import adds_to_file, find_orders
from apply_service.text.lines import header_name
from apply_service.text.markers import Role
from apply_service.types import LineOp, Merge

AT_END = "Add this at the end of the file:"
"""The instruction that is used if words add a new definition or section to the file without naming a place."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")
_LEAVE = re.compile(
    r"\b(?:can|could|may|might|should)\b(?:\s+\w+){0,3}\s+(?:be\s+)?(?:remove|delete|drop)[sd]?\b", re.IGNORECASE
)
_QUOTED = re.compile(r"`([^`\n]{1,200})`")


def readings(
    original: str, update: str, *, language: str | None = None, path: str | None = None, instruction: str = ""
) -> list[Proposal]:
    """Return one reading for each different text, unranked, the default one first.  The chooser is fitted to these
    readings."""
    lines = original.split("\n")
    ends_with_newline = len(lines) > 1 and lines[-1] == ""
    shown = update.split("\n")
    reading = ReadSnippet(lines[:-1] if ends_with_newline else lines, shown, language, path)
    if adds_to_file(instruction, path) and is_all_new(reading) and header_name(reading.block_texts(0)[0]):
        instruction = AT_END
    reading = _without_remarks(reading, shown, instruction)
    gathered = _gather(reading, propose(reading, shown, instruction))
    said = _words_about(reading, shown, instruction, gathered)
    kept = [n for n, words in enumerate(said) if not words.is_ignored] or range(len(said))
    facts: dict[ReadSnippet, SnippetFacts] = {}
    features: list[Features] = []
    for n in kept:
        one = gathered[n]
        of = facts.setdefault(one.snippet, SnippetFacts(one.snippet))
        features.append(features_of(of, one, len(kept)) | {"is_first": float(n == kept[0])})
    may_be_placed = any(known["by_placed"] for known in features)
    found = []
    for n, known in zip(kept, features, strict=True):
        one = gathered[n]
        ordered = list(one.ops)
        for start, stop in one.ops.changed:  # `LineOp` demands drops before takes
            ordered[start:stop] = sorted(ordered[start:stop], key=lambda op: op.kind == "take")
        if ends_with_newline:  # the file's empty last line stays
            ordered.append(LineOp("keep", len(lines) - 1, None, ""))
        ops = Merge(ordered)
        risks = find_risks(one.snippet, ops, known, said[n], may_be_placed=may_be_placed)
        # If the file has no final newline and the snippet shows the last line, the file may or may not get a final
        # newline.
        open_end = float(not ends_with_newline and one.ops[-1].kind != "keep")
        told = {name: float(name in risks) for name in RISKS}
        features_ = known | told | {"open_end": open_end}
        found.append(replace(one, ops=ops, features=features_, risks=risks, limit=most_likely(risks, said[n])))
    return found


def _without_remarks(reading: ReadSnippet, update: Sequence[str], instruction: str) -> ReadSnippet:
    """Return the snippet with its program comments kept.  These are comments that seem to announce a removal although
    nothing was removed there."""
    if Role.DELETION not in reading.snippet.roles:
        return reading
    first = next(propose(reading, update, instruction), None)
    ignored = ignored_notes(reading, first.ops) if first is not None else []
    if first is None or not ignored:
        return reading
    return reading.again(comments=comments_of_code(reading, ignored, first.ops))


def _gather(reading: ReadSnippet, proposals: Iterator[Proposal]) -> list[Proposal]:
    """Return the first proposal of each text, with all ways that lead to it.

    Proposals that write a marker, or a comment that another proposal carries out, are dropped if others are left.  None
    of 209 right readings of snippets with such comments writes such a comment.
    """
    by_text: dict[str, list[Proposal]] = {}
    for one in proposals:
        by_text.setdefault(one.text, []).append(one)
    found = []
    for same in by_text.values():
        features = {name: value for one in reversed(same) for name, value in one.features.items()}
        found.append(replace(same[0], ways=tuple(one.way for one in same), features=features))
    found = [one for one in found if not _takes(one.ops, reading.elided)] or found
    told = frozenset[int]().union(*(one.told for one in found))
    return [one for one in found if not _takes(one.ops, told)] if told else found


def _takes(ops: Merge, lines: Collection[int]) -> bool:
    return any(ops[k].kind == "take" and ops[k].update_line in lines for k in ops.shown)


# -- what words say ----------------------------------------------------------------------------------------------------
def _words_about(
    reading: ReadSnippet, update: Sequence[str], instruction: str, proposals: Sequence[Proposal]
) -> list[Said]:
    """Return what the prose and the notes say about each reading."""
    found = []
    roles = reading.snippet.roles
    is_signed = any(way.maker == "signed" for one in proposals for way in one.ways)
    orders = (
        []
        if is_signed
        else find_orders(
            reading.original, update, roles, language=reading.language, path=reading.path, instruction=instruction
        )
    )
    is_alone = Role.ELSEWHERE not in roles
    is_unclear = any(order.is_unclear for order in orders)
    only_places = all(order.only_places for order in orders)
    leaves = [*_leaves(instruction)]
    for one in proposals:
        notes = (one.snippet.snippet.texts[i].strip() for i in ignored_notes(one.snippet, one.ops))
        said = Said(leaves=next((name for name in leaves if name in one.text), None), ignored_note=next(notes, None))
        if orders:
            is_carried = any(way.maker == "placed" or way.snippet == "mixed" for way in one.ways)
            is_followed = orders[0].is_followed(one.ops) if is_alone else is_carried
            is_followed = is_followed and (is_carried or not orders[0].only_places)
            said = said._replace(orders=True, only_places=only_places, is_ignored=is_unclear or not is_followed)
        found.append(said)
    return found


def _leaves(instruction: str) -> Iterator[str]:
    """Yield the things in backticks that the prose allows to remove ("You can remove `x` later")."""
    for sentence in _SENTENCE_END.split(instruction):
        if _LEAVE.search(sentence):
            yield from _QUOTED.findall(sentence)
