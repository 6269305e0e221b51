"""Drafts by copying what the output is expected to repeat: the predicted merge, the original, the update.

A cursor follows the output through one source.  After a rejection, all sources are searched for the longest suffix of
the output.  A match counts more if it is near the output's position in the source (docs/drafting.md).  A drafter
decides how fast the output comes, never what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from apply_service.drafting.drafter import Counts, LearningDrafter
from apply_service.drafting.lookup import MAX_MATCH, agreement
from apply_service.protocols import EMPTY_DRAFT, Draft, DraftContext, DraftSource

MIN_MATCH = 3
"""At least this many tokens must agree for a match anywhere in a source.  If the merge was wrong, 3 gave 2-4% fewer
rejections than 2 (docs/log.md)."""
LONG_MATCH = 8
"""A match of this many tokens counts as long: it is almost sure."""
NEAR_TOKENS = 16
"""A match of fewer than MIN_MATCH tokens counts only within this many tokens after the place of the output."""
BACKWARD_PENALTY = 3.0
"""The score that a match loses for going back in its source, because edits keep the order of the text."""
TEXT_TAILS = (64, 32, 16, 8)
"""If no suffix of tokens matches, the output's last characters are looked for instead: first 64 of them, then 32, and
so on."""
SETTLED_TOKENS = 32
"""A cursor counts as "followed" once it has agreed for this many tokens, however it was found."""
PRIORS: dict[str, Counts] = {
    "start predicted": (2500.0, 0.5),
    "start": (400.0, 1.0),
    "followed predicted": (2500.0, 0.5),
    "followed": (400.0, 1.0),
    "long": (50.0, 1.0),
    "short": (20.0, 1.0),
    "loose": (8.0, 1.0),
    "guess": (0.5, 2.0),
}
"""The prior of each kind of draft: accepted and rejected tokens.  The means were measured on edits mined from commits
(docs/log.md).

The kind tells how the cursor was found.  "start": the output has only begun, so nothing was searched for.  "followed":
the cursor has agreed for SETTLED_TOKENS.  "long" and "short": it was found by many or few agreeing tokens.  "loose": it
was found by one token near by, by text, or by a line with a different indentation.  "guess": nothing matched.  Kinds
with "predicted" are for drafts from the predicted merge.
"""

MAX_REINDENTED_CHARS = 1500
"""How many characters of text are re-indented at a time: about one window."""
KEPT_TOKENS = 16
"""A re-indented block ends before a run of this many tokens that the predicted merge copies from the original, because
such text already has the right indentation."""
MAX_LINE_TOKENS = 12
"""The start of the output's last line is looked for in this many tokens at its end."""
BLANKS = " \t"


def indentation_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip(BLANKS))]


class Source:
    """A text to copy from.  The output has reached token `position` of it.

    The predicted merge may wrongly leave out lines before token `position`.  In that case the output is farther back,
    but not before token `earliest`.
    """

    def __init__(self, given: DraftSource) -> None:
        self.name, self.text, self.ids, self.starts = given.name, given.text, given.ids, given.starts
        self.position = self.earliest = 0

    def __len__(self) -> int:
        return len(self.ids)

    def move_to(self, position: int) -> None:
        self.position = self.earliest = position

    def token_at(self, char: int) -> tuple[int, int]:
        """Return the first token that starts at character `char` or after it, and the character at which the token
        starts.

        A line end may be part of a token that starts before it.
        """
        place = int(np.searchsorted(self.starts[:-1], char))
        return place, int(self.starts[place])

    def cursor_at(self, char: int) -> Cursor | None:
        """Return a cursor at the token that starts at this character; None if no token does."""
        place, start = self.token_at(char)
        return Cursor(self, place) if place < len(self) and start == char else None


@dataclass(frozen=True, slots=True)
class Cursor:
    """What to draft: `prefix` from `n_used` on, then `source` from token `place` on.

    The prefix is text of the source that was tokenised again, and perhaps re-indented.  It begins at character
    `prefix_char` of the source's text.
    """

    source: Source
    place: int
    prefix: tuple[int, ...] = ()
    prefix_char: int = 0
    n_used: int = 0

    @property
    def is_in_prefix(self) -> bool:
        return self.n_used < len(self.prefix)

    def peek(self, n_tokens: int) -> list[int]:
        """Return the next tokens, at most `n_tokens`."""
        head = list(self.prefix[self.n_used : self.n_used + n_tokens])
        room = n_tokens - len(head)
        return head + self.source.ids[self.place : self.place + room].tolist() if room else head

    def advance(self, n_tokens: int) -> Cursor:
        """Return the cursor `n_tokens` later.  Once the prefix is used up, this also moves the source's position."""
        n_used = min(len(self.prefix), self.n_used + n_tokens)
        place = min(len(self.source), self.place + n_tokens - (n_used - self.n_used))
        if n_used == len(self.prefix):
            self.source.move_to(place)
        return replace(self, place=place, n_used=n_used)

    def source_char(self, decode: Callable[[Sequence[int]], str]) -> int:
        """Return the index of the next character in the source's text."""
        text = self.source.text
        if not self.is_in_prefix:
            return int(self.source.starts[min(self.place, len(self.source))])
        *above, last = decode(self.prefix[: self.n_used]).split("\n")
        at = self.prefix_char
        if not above:
            return at + len(last)
        for _ in above:
            at = text.find("\n", at) + 1 or len(text)
        # The indentation of this line in the output may differ from that in the source.
        line_end = text.find("\n", at) + 1 or len(text)
        content = last.lstrip(BLANKS)
        return at + len(indentation_of(text[at:line_end])) + len(content) if content else at


def indented_anew(line: str, known: str, written: str) -> str:
    """Return the line as the target will probably indent it, given that the target wrote the indentation `written`
    where the source has `known`.

    The indentation changes by the same number of characters.  If tabs become spaces or the reverse, it is scaled.
    """
    indentation = indentation_of(line)
    width = len(indentation) + len(written) - len(known)
    if known and written and ("\t" in known) != ("\t" in written):
        width = round(len(indentation) * len(written) / len(known))
    blank = "\t" if "\t" in written or (not written and "\t" in known) else " "
    return blank * max(0, width) + line.lstrip(BLANKS)


class CopyDrafter(LearningDrafter):
    """Drafts from the sources in `names`, the preferred one first.

    A subclass with the predicted merge must name all three, because their positions move along the merge's alignment.
    """

    names: tuple[str, ...] = ()

    def __init__(self, context: DraftContext) -> None:
        super().__init__(context, PRIORS)
        given = context.sources
        self._encode, self._decode = given.encode, given.decode
        known = {"predicted": given.predicted, "original": given.original, "update": given.update}
        self._sources = {name: Source(known[name]) for name in self.names}
        self._alignment = {"original": given.predicted_to_original, "update": given.predicted_to_update}
        self._cursor = Cursor(self._sources[self.names[0]], 0)
        self._found = "start"
        self._n_agreed = 0
        self._n_seen = 0

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        """Follow the new output in the sources, whichever drafter proposed it, and return the tokens that come next."""
        written = list(output_ids[self._n_seen :])
        self._n_seen = len(output_ids)
        expected = self._cursor.peek(len(written))
        if expected == written:
            self._cursor = self._cursor.advance(len(written))
            self._n_agreed += len(written)
        else:
            pairs = enumerate(zip(written, expected, strict=False))
            n_agreed = next((i for i, (a, b) in pairs if a != b), len(expected))
            self._found, self._cursor = self._realign(self._cursor.advance(n_agreed), output_ids)
            self._n_agreed = 0
        if limit <= 0:
            return EMPTY_DRAFT
        name = self._cursor.source.name
        kind = self._found if self._n_agreed < SETTLED_TOKENS else "followed"
        kind = f"{kind} predicted" if kind in ("start", "followed") and name == "predicted" else kind
        return self.draft(self._cursor.peek(limit), kind, name)

    def resume(self, tail: Sequence[int], limit: int) -> Sequence[int]:
        """Return what follows the tokens `tail` in a source; empty if fewer than MIN_MATCH tokens agree.  No position
        moves."""
        matches = [(*_best_match(one, tail[-MAX_MATCH:]), one) for one in self._sources.values()]
        _, place, n_tokens, source = max(matches, key=lambda match: match[0])
        return source.ids[place : place + limit].tolist() if n_tokens >= MIN_MATCH else []

    def _realign(self, cursor: Cursor, output_ids: Sequence[int]) -> tuple[str, Cursor]:
        """Return how the next cursor was found, and that cursor, after the target has left `cursor`."""
        source, tail = cursor.source, list(output_ids[-MAX_MATCH:])
        if cursor.is_in_prefix:
            source.move_to(source.token_at(cursor.source_char(self._decode))[0])
        self._follow(source)
        resumed = self._resume(cursor, tail)
        if resumed is not None and source.name == "predicted":
            return "loose", resumed
        matches = [(*_best_match(one, tail), one) for one in self._sources.values()]
        score, place, n_tokens, matched = max(matches, key=lambda match: match[0])
        if score > 0:
            found = "loose" if n_tokens < 2 else "short" if n_tokens < LONG_MATCH else "long"
            return found, Cursor(matched, place)
        resumed = resumed or self._by_text(output_ids)
        # Nothing matches: assume that the target replaced one token.
        return ("guess", cursor.advance(1)) if resumed is None else ("loose", resumed)

    def _follow(self, moved: Source) -> None:
        """Move the predicted merge to the place aligned with `moved`.  If `moved` is the merge, move the others."""
        predicted = self._sources.get("predicted")
        if predicted is None:
            return
        if moved is not predicted:
            predicted.move_to(int(np.searchsorted(self._alignment[moved.name], moved.position)))
            return
        # The target may still write the lines that the merge drops before this line.
        newline = moved.text.rfind("\n", 0, int(moved.starts[moved.position]))
        line = min(moved.position, int(np.searchsorted(moved.starts[:-1], max(0, newline))))
        for name, places in self._alignment.items():
            other, kept_before = self._sources[name], np.flatnonzero(self._kept[name][:line])
            other.position = int(places[moved.position])
            other.earliest = int(places[kept_before[-1]]) + 1 if len(kept_before) else 0

    @cached_property
    def _kept(self) -> dict[str, np.ndarray]:
        """For each source, an array [n_predicted] that tells whether each token of the predicted merge is copied from
        it."""
        predicted, found = self._sources["predicted"].ids, {}
        for name, places in self._alignment.items():
            other, here = self._sources[name].ids, places[:-1]
            is_kept = (np.diff(places) == 1) & (here < len(other))
            is_kept[is_kept] = other[here[is_kept]] == predicted[: len(here)][is_kept]
            found[name] = is_kept
        return found

    def _resume(self, cursor: Cursor, output_tail: Sequence[int]) -> Cursor | None:
        """Return a cursor that continues the output's last line, if that line differs from the source's line only in
        its indentation.

        The result is None if anything else differs, or if the line can't be tokenised that way.  `output_tail`: the
        output's last tokens.

        Models indent snippets at a different depth or width than the file, and the predicted merge may keep that
        indentation.  One rejection shows how the target indents one line.  The lines after it are indented by the same
        shift, so that a block costs one pass instead of one for each line.
        """
        source, text = cursor.source, cursor.source.text
        _, newline, line = self._decode(output_tail[-MAX_LINE_TOKENS:]).rpartition("\n")
        if not newline:
            return None
        content = len(text) - len(text[cursor.source_char(self._decode) :].lstrip(" \t\n"))
        line_start = text.rfind("\n", 0, content) + 1
        indentation, written = text[line_start:content], indentation_of(line)
        if content == len(text) or indentation.strip() or not text.startswith(line[len(written) :], content):
            return None
        if not line and (unindented := source.cursor_at(line_start)) is not None:
            return unindented
        n_content = len(line) - len(written)
        if indentation == written:
            return source.cursor_at(content + n_content)
        # Some vocabularies put the last blank of an indentation into the token of the next word.
        for expected in [written] if n_content else [written, written + " "]:
            shifted = self._shifted(source, line, line_start, content, expected)
            if shifted is not None:
                return shifted
        return None

    def _shifted(self, source: Source, line: str, line_start: int, content: int, expected: str) -> Cursor | None:
        """Return a cursor on the source's lines from `line_start` on, re-indented.  The text of the first line starts
        at `content`.

        The first line gets the indentation `expected`, and the others get the same shift.  The cursor stands after
        `line`, which the output already contains.  The result is None if no token ends there.
        """
        text, indentation = source.text, source.text[line_start:content]
        end = line_start + MAX_REINDENTED_CHARS
        if source.name == "predicted":
            first = int(np.searchsorted(source.starts[:-1], line_start))
            is_kept = self._kept["original"][first:]
            runs = np.convolve(is_kept, np.ones(KEPT_TOKENS), "valid") if len(is_kept) >= KEPT_TOKENS else np.zeros(0)
            stops = np.flatnonzero(runs == KEPT_TOKENS)
            end = min(end, int(source.starts[first + stops[0]])) if len(stops) else end
        line_end = text.rfind("\n", content, end + 1) if end < len(text) else len(text)
        line_end = line_end if line_end > 0 else text.find("\n", content)
        place, end = source.token_at(len(text) if line_end < 0 else line_end)
        rest, *lines = text[content:end].split("\n")
        shifted = [indented_anew(one, indentation, expected) if one.strip() else one for one in lines]
        ids = self._encode("\n" + "\n".join([expected + rest, *shifted]))
        for n_begun in range(1, min(len(ids), MAX_LINE_TOKENS)):
            if self._decode(ids[:n_begun]) == "\n" + line:
                return Cursor(source, place, tuple(ids[n_begun:]), content)
        return None

    def _by_text(self, output_ids: Sequence[int]) -> Cursor | None:
        """Find the output's last characters in a source's text, because an edit may shift the token boundaries.

        The rest of that line is tokenised again.  From the line end on, the source's own tokens follow.
        """
        written = self._decode(output_ids[-2 * MAX_MATCH :])
        for n_chars in TEXT_TAILS:
            tail = written[-n_chars:]
            if len(tail) < n_chars or not tail.strip():
                continue
            for source in self._sources.values():
                here = max(0, int(source.starts[min(source.position, len(source))]) - len(tail))
                at = source.text.find(tail, here)
                at = at if at >= 0 else source.text.find(tail)
                if at < 0:
                    continue
                end, line_end = at + len(tail), source.text.find("\n", at + len(tail))
                place, next_start = source.token_at(len(source.text) if line_end < 0 else line_end)
                prefix = tuple(self._encode(source.text[end:next_start])) if next_start > end else ()
                return Cursor(source, place, prefix, end)
        return None


def _best_match(source: Source, tail: Sequence[int]) -> tuple[float, int, int]:
    """Return the best match of a suffix of the output in a source: its score, the place after it, and its length.

    The score is the length, less a penalty for the distance from the source's position and for going back.  It is 0 if
    no match is long enough.
    """
    places = np.flatnonzero(source.ids == tail[-1])
    if not len(places):
        return 0.0, source.position, 0
    lengths, ends = agreement(source.ids, places, tail), places + 1
    from_position, from_earliest = ends - source.position, ends - source.earliest
    is_near = (from_position >= 0) & (from_position <= NEAR_TOKENS)
    is_near |= (from_earliest >= 0) & (from_earliest <= NEAR_TOKENS)
    distance = np.minimum(np.abs(from_position), np.abs(from_earliest))
    penalty = np.log2(1 + distance) / 2 + np.where(from_earliest < 0, BACKWARD_PENALTY, 0.0)
    scores = np.where((lengths >= MIN_MATCH) | is_near, np.maximum(lengths - penalty, 0.01 * lengths), 0.0)
    best = int(np.argmax(scores))
    return float(scores[best]), int(ends[best]), int(lengths[best])


class Original(CopyDrafter):
    """Copies from the original file alone: plain speculative edits."""

    names = ("original",)


class OriginalSnippet(CopyDrafter):
    """Copies from the original and the update, without a predicted merge."""

    names = ("original", "update")


class MergedEdit(CopyDrafter):
    """Copies from the predicted merge, then the original, then the update.  The default chain begins with it."""

    names = ("predicted", "original", "update")
