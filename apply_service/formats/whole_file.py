"""Reads a whole new file as an edit, and judges whether a fence holds one.

A text is surely the whole file only if the request names this format.  A snippet without markers looks the same, and
users of such tools complain most about snippets that overwrite their files.  If the only fence of a reply begins like a
file, it is read both as the whole file and as a snippet, and the results are compared (`beside_snippet`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from apply_service.errors import MalformedEdit
from apply_service.formats.calls import Arguments
from apply_service.formats.hunks import Trust
from apply_service.formats.recognise import Recognised
from apply_service.protocols import EditContext
from apply_service.text.english import is_sentence
from apply_service.text.fences import PAGE_TITLES, PROSE_TITLES, SHELLS, Fence, find_fences
from apply_service.text.fidelity import normalise
from apply_service.text.lines import header_name, is_import
from apply_service.text.markers import is_marker, strip_comment
from apply_service.text.paths import is_prose, is_same_file
from apply_service.types import Certainty, Prediction

MIN_SHARE = 0.4
"""A result with a smaller share of the original's characters and lines may be cut short."""
MIN_LINES = 10
"""Originals with fewer lines are not checked for this."""
MANY_LINES = 10
"""A fence with fewer lines may show only one place of the file."""
FEW_KNOWN, HALF = 0.3, 0.5
"""A fence with a smaller share of its lines in the file is no snippet, because a snippet shows where it belongs.
`HALF` is for fences that have half of the file's outermost names."""
MOST = 0.6
"""A fence with more than this share of the file's lines may be the file."""
_OPENINGS = ("#!", "<!doctype", "<?xml", "<?php", "package ")
"""Beginnings of a first line that only a whole file has."""
WRITERS = ("write_to_file", "write_file", "Write", "write", "create_file", "save_file")
"""Tools that write a whole file."""
CONTENTS = ("content", "contents", "file_text", "text")
"""The names that these tools use for the file's text."""
WHOLE_OR_PART = "the fence may hold the whole file, or a part of it"


def predict(original: str, update: str, about: EditContext) -> Prediction:
    """Return the update as the new file, without its fence.  The final newline stays as in the original."""
    lines = update.split("\n")
    trust = Trust()
    fence = file_fence(lines, about.path, original)
    start, end = (0, len(lines)) if fence is None else (fence.opening + 1, fence.closing)
    end -= end == len(lines) and lines[-1] == ""
    if fence is None:
        first = next((line for line in lines if line.strip()), "")
        if is_sentence(first) and first not in original and find_fences(lines):
            trust.doubt("the first line may be a remark about the file")
    else:
        _doubt_fence(fence, lines, about.path, trust)
    new = lines[start:end]
    _doubt_whole(original, new, trust)
    ends_open = fence is None and lines[-1] != ""
    has_newline = original.endswith("\n") if original.strip() else not ends_open
    return trust.prediction_of(original, "\n".join([*new, ""] if has_newline else new), lines)


class FoundFile(Recognised):
    """The file in a reply, if the request or a tool call says that it holds one."""

    is_whole = True
    call_words = WRITERS

    @classmethod
    def in_call(cls, call: Arguments) -> str | None:
        """Return the file in a call that writes files.  A fence is put around the file, so that its own fences stay
        text."""
        contents = [call.fields[name] for name in CONTENTS if isinstance(call.fields.get(name), str)]
        if call.tool not in WRITERS or call.path is None or "name" in call.fields or len(contents) != 1:
            return None  # a `name` among the fields means data: a tool's name stands beside them
        text = normalise(str(contents[0]))
        fence = max((len(line) - len(line.lstrip("`")) for line in text.split("\n")), default=0) + 3
        return f"{'`' * fence}\n{text.removesuffix(chr(10))}\n{'`' * fence}"

    @property
    def lines(self) -> Collection[int]:
        fence = file_fence(self.reply.lines, self.reply.path, self.reply.original)
        return super().lines if fence is None else range(fence.opening, fence.closing + 1)


recognise = FoundFile


def _wraps_all(fences: Sequence[Fence], lines: Sequence[str]) -> bool:
    """Tell whether nothing stands above the first fence or below the last one."""
    shown = [at for at, line in enumerate(lines) if line.strip()]
    return fences[0].opening == shown[0] and fences[-1].closing >= shown[-1]


def _page_fence(fences: Sequence[Fence], lines: Sequence[str], known: set[str], is_beside_code: bool) -> Fence | None:
    """Return the fence around a page of text that no fence names; None if the fences belong to the page."""
    first, wraps_all = fences[0], _wraps_all(fences, lines)
    is_titled = first.language in PAGE_TITLES
    if wraps_all and is_titled:
        return Fence(first.opening, fences[-1].closing, first.title)
    body = [lines[at] for at in first.body if lines[at].strip()]
    is_most = 2 * len(known.intersection(line.strip() for line in body)) > len(known)
    is_page = is_most or (body != [] and body[0].startswith("# "))
    return first if len(fences) == 1 and (wraps_all or is_titled or (is_page and not is_beside_code)) else None


def _outer_fence(fences: Sequence[Fence], lines: Sequence[str]) -> Fence | None:
    """Return the fence around a file, if the file's own fences have cut that fence short; otherwise None."""
    first, last = fences[0], fences[-1]
    is_cut = len(fences) > 1 and not (first.path or any(fence.path or fence.title for fence in fences[1:]))
    if not is_cut or not _wraps_all(fences, lines):
        return None
    shown = max(at for at, line in enumerate(lines) if line.strip())
    return Fence(first.opening, shown if last.opening == shown else last.closing, first.title)


def _doubt_whole(original: str, new: Sequence[str], trust: Trust) -> None:
    """Record a doubt if the text may be only a part of the file."""
    old = original.split("\n")
    marker = next((text for text in new if is_marker(text) and text not in old), None)
    if marker is not None and original.strip():
        trust.guess(f"a line is a marker for omitted code, so this is not the whole file: {marker.strip()[:80]!r}")
    n_new = sum(len(text) + 1 for text in new)
    if len(old) > MIN_LINES and n_new < MIN_SHARE * len(original) and len(new) < MIN_SHARE * len(old):
        trust.doubt(f"the result has {len(new)} lines, the original {len(old)}: it may be cut short")


def _doubt_fence(fence: Fence, lines: Sequence[str], path: str | None, trust: Trust) -> None:
    """Record a doubt if the fence has no end, may belong to the page, or names another file."""
    if fence.closing == len(lines):
        trust.doubt("the code block with the file has no end: the file may be cut short")
    if is_prose(path) and fence.path is None and fence.language not in PROSE_TITLES:
        trust.doubt("the marks of a code block around the whole file were removed")
    if fence.path is not None and fence.is_surely_named and not is_same_file(fence.path, path):
        trust.doubt(f"the edit names another file: {fence.path}")


def file_fence(lines: Sequence[str], path: str | None, original: str) -> Fence | None:
    """Return the fence that holds the file; None if the text itself is the file.

    Raises MalformedEdit if there are several fences and none is known to hold this file.
    """
    fences = find_fences(lines)
    if not fences:
        return None
    mine = [fence for fence in fences if fence.path is not None and is_same_file(fence.path, path)]
    outside = _outside(fences, lines)
    known = {line.strip() for line in original.split("\n")} - {""}
    is_beside_code = not known.isdisjoint(map(str.strip, outside))
    if is_prose(path) and not mine:
        return _page_fence(fences, lines, known, is_beside_code)
    if not is_prose(path) and (outer := _outer_fence(fences, lines)) is not None:
        return outer
    if not mine and (is_beside_code or any(line[:1] in " \t" for line in outside)):
        return None
    return _only_one(mine or [fence for fence in fences if fence.language not in SHELLS] or fences, fences, path)


def _only_one(candidates: Sequence[Fence], fences: Sequence[Fence], path: str | None) -> Fence:
    if len(candidates) > 1:
        raise MalformedEdit(
            "the reply has several code blocks, and it is not clear which of them is this file",
            value=path,
            limit=[fence.path for fence in fences],
            remedy="send the file's name in the reply as `path`, or send only the code block of this file",
        )
    return candidates[0]


def _outside(fences: Sequence[Fence], lines: Sequence[str]) -> list[str]:
    """Return the lines outside the fences, without blank lines."""
    inside = {at for fence in fences for at in range(fence.opening, fence.closing + 1)}
    return [line for at, line in enumerate(lines) if at not in inside and line.strip()]


def beside_snippet(original: str, body: str, snippet: Prediction) -> Prediction:
    """Return the file that the only fence of a reply means, as the whole file or as a part.  The fence has no markers.

    `snippet` is the merge of the fence as a part.  If both readings give the same text, no doubt is added.  Otherwise
    the likelier reading is taken.  The whole file then gets a doubt.  A part gets one more reason if its merge is in
    doubt and the fence may be the whole file.

    Counted on fences made of commits, rewritten files and snippets without markers, 393 of 393 were right if both
    readings agreed, and 138 of 142 if the fence was taken for the whole file.
    """
    whole = predict(original, body, EditContext(None))
    look = _look_at(original.split("\n"), body.split("\n"))
    if look is None or whole.certainty is Certainty.GUESS:
        return snippet
    if whole.text == snippet.text:
        return whole if look.has_all else snippet
    if look.is_likelier:
        trust = Trust()
        for reason in (WHOLE_OR_PART, *whole.reasons):
            trust.doubt(reason)
        return trust.prediction_of(original, whole.text, body.split("\n"))
    is_doubted = look.is_likely and snippet.certainty is not Certainty.CERTAIN
    return replace(snippet, reasons=(WHOLE_OR_PART, *snippet.reasons)) if is_doubted else snippet


class _Look(NamedTuple):
    """How much a fence that begins like a file also looks like the whole file."""

    has_all: bool
    """Whether the fence has all outermost names and at least half of the lines of the file."""
    is_likelier: bool
    """Whether the fence is more likely the whole file than a part."""
    is_likely: bool
    """Whether the fence may be the whole file."""


def _may_begin(old: str, new: str) -> bool:
    """Tell whether a file that begins with the line `old` may begin with `new` after an edit."""
    is_noted = strip_comment(old).is_comment and strip_comment(new).is_comment and new[:1] not in (" ", "\t")
    return is_noted or new == old or is_import(new)


def _telling(lines: Sequence[str]) -> set[str]:
    """Return the lines that say more than a bracket, without the blanks around them."""
    return {line.strip() for line in lines if sum(map(str.isalnum, line)) > 2}


def _outer_names(lines: Sequence[str]) -> set[str]:
    return {name for line in lines if line[:1] not in (" ", "\t") and (name := header_name(line)) is not None}


def _look_at(old: Sequence[str], new: Sequence[str]) -> _Look | None:
    """Compare a fence with the file; the result is None if the fence does not begin like a file."""
    old, new = ([line.rstrip() for line in lines if line.strip()] for lines in (old, new))
    if not old or not new:
        return None
    first = new[0]
    opens = first.lower().startswith(_OPENINGS) or (first[0] == old[0][0] and not any(map(str.isalnum, "".join(old))))
    return _compare(old, new, opens=opens) if opens or _may_begin(old[0], new[0]) else None


def _compare(old: Sequence[str], new: Sequence[str], *, opens: bool) -> _Look:
    """Compare a fence that begins like a file with the file.  `opens`: only a file begins like that."""
    told, shown = _telling(old), _telling(new)
    names, own = _outer_names(old), _outer_names(new)
    known, covers = len(told & shown) / max(1, len(shown)), len(names & own) / len(names) if names else 1.0
    ends, is_long = new[-1] == old[-1], len(new) >= MANY_LINES and len(new) > MIN_SHARE * len(old)
    is_other = known < FEW_KNOWN and (opens or is_long)
    has_all_names = ends and covers == 1.0 and len(names) > 1
    has_many_names = is_long and known < HALF and names != set() and covers >= HALF
    has_all = covers == 1.0 and 2 * len(told & shown) >= len(told)
    return _Look(has_all, is_other or has_all_names or has_many_names, ends or len(new) > MOST * len(old))
