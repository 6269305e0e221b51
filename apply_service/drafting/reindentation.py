"""Drafts for a target that indents a source's lines otherwise than the source does.

Models write snippets at another depth, or with another width, than the file has, and the predicted merge may carry that
over wrongly.  One rejection tells how the target indents one line; the lines after it are written anew with the
same shift, so that a block costs one pass instead of one for each line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from apply_service.drafting.tracks import Course, Track, Tracks
from apply_service.protocols import DraftSource, DraftSources

MAX_CHARS = 1500
"""Text written anew at a time: about a window's worth."""
KEPT_TOKENS = 16
"""So many tokens in a row that the predicted merge keeps from the original end a shifted block: they stand right."""
MAX_LINE_TOKENS = 12
"""Tokens that the indentation of a line may have."""
BLANKS = " \t"


def indentation_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip(BLANKS))]


def step_of(text: str) -> int:
    """The least step between the indentations of lines that follow each other, in characters; 4 where there is none."""
    widths = [len(indentation_of(line)) for line in text.split("\n") if line.strip()]
    return min((abs(a - b) for a, b in pairwise(widths) if a != b), default=4)


class Break(NamedTuple):
    """Where target and source part at the start of a line: the output's line so far, the source's indentation, and the
    characters of the source's text where that line and its content begin."""

    written: str
    source: str
    line_start: int
    content_start: int

    @property
    def written_indentation(self) -> str:
        return indentation_of(self.written)

    @property
    def n_content(self) -> int:
        """Characters of the line's content that are written."""
        return len(self.written.lstrip(BLANKS))


@dataclass(slots=True)
class Shift:
    """How the target's indentation follows from a source's: the pairs seen, and for other depths a straight line
    through them.  With one pair the slope is 1, or the ratio of the steps where tabs meet spaces or the steps fit."""

    track: Track
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
        elif source and written and _is_scaled(source, written, source_step, file_step):
            self.slope = len(written) / len(source)

    def apply(self, source: str) -> str:
        """The indentation that the target is expected to write for the source's."""
        if source in self.seen:
            return self.seen[source]
        known, written = self.last
        blank = "\t" if "\t" in written or (not written and "\t" in known) else " "
        return blank * max(0, round(len(written) + (len(source) - len(known)) * self.slope))


def _is_scaled(source: str, written: str, source_step: int, file_step: int) -> bool:
    if ("\t" in source) != ("\t" in written):
        return True
    return source_step != file_step and len(source) * file_step == len(written) * source_step


class Reindenter:
    """Finds such breaks and writes the course past them; remembers the shift between them."""

    def __init__(self, sources: DraftSources, tracks: Tracks) -> None:
        self._encode, self._decode = sources.encode, sources.decode
        self._original = sources.original
        self._tracks = tracks
        self._shift: Shift | None = None
        self._steps: dict[str, int] = {}

    def resume(self, course: Course, output_tail: Sequence[int]) -> Course | None:
        """The course after a target's line start that differs from the course's in white space alone; None where it
        does not, or the text can't be tokenised so.  `output_tail`: the output's last tokens."""
        found = self._find_break(course, self._decode(output_tail[-MAX_LINE_TOKENS:]))
        if found is None:
            return None
        if not found.written and (unindented := self._at_token(course.track, found.line_start)) is not None:
            return unindented
        if found.source == found.written_indentation:
            return self._at_token(course.track, found.content_start + found.n_content)
        # Some vocabularies give the last blank of an indentation to the word after it.
        for indentation in (found.written_indentation, found.written_indentation + " ")[: 1 if found.n_content else 2]:
            resumed = self._shifted(course.track, found, indentation)
            if resumed is not None:
                return resumed
        return None

    def _find_break(self, course: Course, written: str) -> Break | None:
        """None unless the output's line holds blanks, then nothing but the start of the source's next content, and all
        before that is written."""
        _, newline, line = written.rpartition("\n")
        text = course.track.source.text
        if not newline:
            return None
        at = course.source_char(self._decode)
        content = at + len(text[at:]) - len(text[at:].lstrip(" \t\n"))
        line_start = text.rfind("\n", 0, content) + 1
        is_start = content < len(text) and not text[line_start:content].strip() and not text[line_start:at].strip()
        if not is_start or not text.startswith(line.lstrip(BLANKS), content):
            return None
        return Break(line, text[line_start:content], line_start, content)

    def _at_token(self, track: Track, char: int) -> Course | None:
        place, start = track.token_at(char)
        return Course(track, place) if place < len(track) and start == char else None

    def _shifted(self, track: Track, found: Break, indentation: str) -> Course | None:
        """The source's lines from the break on, indented anew, less what the output has of them."""
        shift = self._learnt(track, found.source, indentation)
        text = track.source.text
        place, end = track.token_at(self._block_end(track, found))
        first, *lines = text[found.content_start : end].split("\n")
        shifted = [shift.apply(indentation_of(line)) + line.lstrip(BLANKS) if line.strip() else line for line in lines]
        ids = self._encode("\n" + "\n".join([indentation + first, *shifted]))
        begun = "\n" + found.written
        sizes = range(1, min(len(ids), MAX_LINE_TOKENS))
        n_begun = next((size for size in sizes if self._decode(ids[:size]) == begun), None)
        if n_begun is None:
            return None
        self._shift = shift
        return Course(track, place, tuple(ids[n_begun:]), found.content_start)

    def _learnt(self, track: Track, source: str, written: str) -> Shift:
        """The shift with this pair; a fresh one where the last one is of another source."""
        old = self._shift
        shift = Shift(track) if old is None or old.track is not track else replace(old, seen=dict(old.seen))
        if shift.seen.get(source) != written:
            shift.learn(source, written, source_step=self._step(track.source), file_step=self._step(self._original))
        return shift

    def _step(self, source: DraftSource) -> int:
        if source.name not in self._steps:
            self._steps[source.name] = step_of(source.text)
        return self._steps[source.name]

    def _block_end(self, track: Track, found: Break) -> int:
        """The character of a line's end, or of the text's: where the block ends that is indented otherwise."""
        text, starts = track.source.text, track.source.starts
        end = found.line_start + MAX_CHARS
        if track.name == "predicted":
            first = int(np.searchsorted(starts[:-1], found.line_start))
            is_kept = self._tracks.kept["original"].is_kept[first:]
            runs = np.convolve(is_kept, np.ones(KEPT_TOKENS), "valid") if len(is_kept) >= KEPT_TOKENS else np.zeros(0)
            stops = np.flatnonzero(runs == KEPT_TOKENS)
            end = min(end, int(starts[first + stops[0]])) if len(stops) else end
        line_end = text.rfind("\n", found.content_start, end + 1) if end < len(text) else len(text)
        line_end = line_end if line_end > 0 else text.find("\n", found.content_start)
        return len(text) if line_end < 0 else line_end
