"""Tells whether a reading does what the prose above the code orders ("Replace the last line of `start` with:").

A comment in a snippet may belong to the program, so the chooser weighs it.  But an order in prose is meant for the
merger alone, so a reading that does something else is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from apply_service.merge.words.directives import Directive, find_directives
from apply_service.merge.words.mentions import NAMING, Relation, read_words
from apply_service.merge.words.outline import FileOutline
from apply_service.merge.words.sites import Search, Site
from apply_service.text.english import is_order, reads_as_english
from apply_service.text.markers import Role
from apply_service.text.paths import is_path, is_same_file
from apply_service.types import LineOp

SLACK = 1.0
"""The score of the changed place (its agreement with the words) may be at most this far below the best place's
score."""

MIN_KNOWN = 6
"""A line of code can show a place only if it has at least this many letters and digits."""


def find_orders(
    original: Sequence[str],
    update: Sequence[str],
    roles: Sequence[Role],
    *,
    language: str | None,
    path: str | None,
    instruction: str = "",
) -> list[Order]:
    """Return the orders between the fences of the update.  If there are none, return the instruction's order about the
    whole snippet.

    A snippet with markers shows its place itself.  An order to replace the file itself says nothing about a place.
    """
    if Role.ELSEWHERE in roles:
        directives = find_directives(original, update, language=language, path=path)
        said = [one for one in directives if any(roles[i] is Role.ELSEWHERE for i in one.lines)]
    else:
        lines = [line for line in instruction.split("\n") if line.strip()]
        texts = [text for text in (*lines, " ".join(lines)) if is_order(text) and reads_as_english(text)]
        solid = [i for i, role in enumerate(roles) if role in (Role.CONTENT, Role.ASIDE)]
        if not texts or not solid or Role.MARKER in roles:
            return []
        said = [Directive((), texts[0].strip().rstrip(":*_"), tuple(range(solid[0], solid[-1] + 1)))]
    orders = [Order(original, update, directive, language) for directive in said]
    orders = [order for order in orders if not order.says_nothing]
    return [order for order in orders if not any(is_path(m.text) and is_same_file(m.text, path) for m in order.named)]


def adds_to_file(instruction: str, path: str | None) -> bool:
    """Tell whether the instruction is one sentence that only says to add the code to the file at `path`."""
    lines = [line for line in instruction.split("\n") if line.strip()]
    if len(lines) != 1 or not is_order(lines[0]):
        return False
    words = read_words(lines[0], "".__contains__)
    named = [mention for mention in words.mentions if mention.kind in NAMING or mention.kind == "edge"]
    is_file = bool(named) and path is not None and all(is_path(m.text) and is_same_file(m.text, path) for m in named)
    return is_file and words.inserts and not (words.replaces or words.deletes)


class Order:
    """One order, looked up in a file."""

    def __init__(self, original: Sequence[str], update: Sequence[str], directive: Directive, language: str | None):
        self._search = Search(FileOutline(original, language), directive, update)
        finder, words = self._search.finder, self._search.words
        self.named = [m for m in finder.spans if m.relation in (Relation.TARGET, Relation.GONE)]
        """The things that the order removes or replaces."""
        is_found = any(map(finder.spans.get, self.named))
        self.is_unclear = (words.replaces or words.deletes) and bool(self.named) and not is_found
        self.is_unclear = self.is_unclear or (words.body and not self._search.bodies)
        """Whether the order concerns something that the file does not have."""
        self.says_nothing = words.inserts and not (any(finder.spans.values()) or finder.edges)
        """Whether the order names no place and nothing that the file has ("Add a check:")."""
        edges = {line.strip() for line in (*self._search.solid[:1], *self._search.solid[-1:])}
        says = {text for text in edges if sum(map(str.isalnum, text)) >= MIN_KNOWN}
        is_loose = not any(line.strip() in says for line in original)
        self.only_places = words.inserts and not (words.replaces or words.deletes) and is_loose
        """Whether the order says only where the code goes, and no line of the code shows the place."""
        ranked = [] if self.is_unclear else self._search.ranked()
        self._wanted = self._search.agree(ranked[0][1])[0] - SLACK if ranked else None
        sites = [site for score, site, _ in ranked if score >= ranked[0][0] - SLACK]
        spans = [Site(span.start, span.end) for m in self.named for span in finder.spans[m]]
        self._may_go = {j for site in (*sites, *spans) for j in range(*site)}

    def is_followed(self, ops: Sequence[LineOp]) -> bool:
        """Tell whether the merge changes the place that the order names, in the way that it names."""
        gone = {op.original_line for op in ops if op.kind == "drop" and op.text.strip()}
        if self._wanted is None or not self._may_go.issuperset(gone):
            return False
        sites = [_site(ops, ("drop", "take")), _site(ops, ("drop", "take", "both"))]
        return any(site is not None and self._search.agree(site)[0] >= self._wanted for site in sites)


def _site(ops: Sequence[LineOp], kinds: Sequence[str]) -> Site | None:
    """Return the original lines from the first to the last operation of these kinds; None if there are none."""
    at, found = 0, []
    for op in ops:
        start = op.original_line if op.original_line is not None else at
        at = start + (op.original_line is not None)
        if op.kind in kinds and (op.text.strip() or op.kind == "drop"):
            found += [start, at]
    return Site(min(found), max(found)) if found else None
