"""Drafts for a target that indents a source's lines otherwise than the source does.

Models write snippets at another depth, or with another width, than the file has, and the predicted merge may carry that
over wrongly.  One rejection tells how the target indents one line; the lines after it are written anew with the
same shift, so that a block costs one pass instead of one for each line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from apply_service.drafting.sources import BLANKS, Cursor, Source, Sources, indentation_of
from apply_service.protocols import DraftSources

MAX_CHARS = 1500
"""Text written anew at a time: about a window's worth."""
KEPT_TOKENS = 16
"""So many tokens in a row that the predicted merge keeps from the original end a shifted block: they are right."""
MAX_LINE_TOKENS = 12
"""Tokens that the indentation of a line may have."""


class Break(NamedTuple):
    """Where target and source part at the start of a line."""

    written: str
    """The output's line so far."""
    source: str
    """The source's indentation."""
    line_start: int
    content_start: int
    """The characters of the source's text where that line and its content begin."""


@dataclass(slots=True)
class Shift:
    """How the target's indentation follows from a source's: the pairs seen, and for other depths a straight line
    through them.  With one pair the slope is 1, or the ratio of the steps where tabs meet spaces or the steps fit."""

    seen: dict[str, str] = field(default_factory=dict)
    last: tuple[str, str] = ("", "")
    slope: float = 1.0

    def learn(self, source: str, written: str, *, source_step: int, file_step: int) -> None:
        self.seen[source] = written
        self.last = (source, written)
        widths = sorted((len(a), len(b)) for a, b in self.seen.items())
        (low, low_to), (high, high_to) = widths[0], widths[-1]
        if high > low:
            self.slope = (high_to - low_to) / (high - low)
        elif source and written:
            is_other_blank = ("\t" in source) != ("\t" in written)
            fits_steps = source_step != file_step and len(source) * file_step == len(written) * source_step
            if is_other_blank or fits_steps:
                self.slope = len(written) / len(source)

    def apply(self, source: str) -> str:
        """The indentation that the target is expected to write for the source's."""
        if source in self.seen:
            return self.seen[source]
        known, written = self.last
        blank = "\t" if "\t" in written or (not written and "\t" in known) else " "
        return blank * max(0, round(len(written) + (len(source) - len(known)) * self.slope))


class Reindenter:
    """Finds such breaks and takes the cursor past them; remembers the shift for each source."""

    def __init__(self, given: DraftSources, sources: Sources) -> None:
        self._encode, self._decode = given.encode, given.decode
        self._sources = sources
        self._shift = Shift()
        self._shifted_source: Source | None = None

    def resume(self, cursor: Cursor, output_tail: Sequence[int]) -> Cursor | None:
        """The cursor after the start of a line that the target writes as the source has it but for white space; None
        where it does not, or the text can't be tokenised so.  `output_tail`: the output's last tokens."""
        source = cursor.source
        found = self._find_break(cursor, self._decode(output_tail[-MAX_LINE_TOKENS:]))
        if found is None:
            return None
        if not found.written and (unindented := _at_token(source, found.line_start)) is not None:
            return unindented
        written = indentation_of(found.written)
        n_content = len(found.written) - len(written)
        if found.source == written:
            return _at_token(source, found.content_start + n_content)
        # Some vocabularies give the last blank of an indentation to the word after it.
        candidates = [written] if n_content else [written, written + " "]
        resumed = (self._shifted(source, found, indentation) for indentation in candidates)
        return next((one for one in resumed if one is not None), None)

    def _find_break(self, cursor: Cursor, written: str) -> Break | None:
        """None unless the output's line holds blanks, then nothing but the start of the source's next content, and all
        before that is written."""
        _, newline, line = written.rpartition("\n")
        text = cursor.source.text
        if not newline:
            return None
        at = cursor.source_char(self._decode)
        content = at + len(text[at:]) - len(text[at:].lstrip(" \t\n"))
        line_start = text.rfind("\n", 0, content) + 1
        is_start = content < len(text) and not text[line_start:content].strip() and not text[line_start:at].strip()
        if not is_start or not text.startswith(line.lstrip(BLANKS), content):
            return None
        return Break(line, text[line_start:content], line_start, content)

    def _shifted(self, source: Source, found: Break, indentation: str) -> Cursor | None:
        """The source's lines from the break on, indented anew, less what the output has of them."""
        old = self._shift if self._shifted_source is source else Shift()
        shift = Shift(dict(old.seen), old.last, old.slope)
        if shift.seen.get(found.source) != indentation:
            file_step = self._sources.by_name["original"].step
            shift.learn(found.source, indentation, source_step=source.step, file_step=file_step)
        place, end = source.token_at(self._block_end(source, found))
        first, *lines = source.text[found.content_start : end].split("\n")
        shifted = [shift.apply(indentation_of(line)) + line.lstrip(BLANKS) if line.strip() else line for line in lines]
        ids = self._encode("\n" + "\n".join([indentation + first, *shifted]))
        begun = "\n" + found.written
        sizes = range(1, min(len(ids), MAX_LINE_TOKENS))
        n_begun = next((size for size in sizes if self._decode(ids[:size]) == begun), None)
        if n_begun is None:
            return None
        self._shift, self._shifted_source = shift, source
        return Cursor(source, place, tuple(ids[n_begun:]), found.content_start)

    def _block_end(self, source: Source, found: Break) -> int:
        """The character of a line's end, or of the text's: where the block ends that is indented otherwise."""
        text, starts = source.text, source.starts
        end = found.line_start + MAX_CHARS
        if source.name == "predicted":
            first = int(np.searchsorted(starts[:-1], found.line_start))
            is_kept = self._sources.kept["original"][first:]
            runs = np.convolve(is_kept, np.ones(KEPT_TOKENS), "valid") if len(is_kept) >= KEPT_TOKENS else np.zeros(0)
            stops = np.flatnonzero(runs == KEPT_TOKENS)
            end = min(end, int(starts[first + stops[0]])) if len(stops) else end
        line_end = text.rfind("\n", found.content_start, end + 1) if end < len(text) else len(text)
        line_end = line_end if line_end > 0 else text.find("\n", found.content_start)
        return len(text) if line_end < 0 else line_end


def _at_token(source: Source, char: int) -> Cursor | None:
    place, start = source.token_at(char)
    return Cursor(source, place) if place < len(source) and start == char else None
