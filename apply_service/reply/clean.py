"""Removes what models put around an edit: thoughts, tool calls, byte-order marks, line numbers, indentation.

A prefix of every line is removed only if the file has the lines without the prefix, or can't have them with it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from apply_service.formats.calls import opens_call, read_calls, walk
from apply_service.formats.json_edit import read_replacements
from apply_service.formats.recognise import MIN_KNOWN, Recognised
from apply_service.text.english import MAX_PROSE
from apply_service.text.fences import find_fences, is_fence
from apply_service.text.fidelity import MARK, normalise
from apply_service.text.line_search import FileLines

THOUGHTS = ("think", "thinking", "reasoning")
"""Tags around the reasoning at the start of some models' replies."""
INSTRUCTIONS = ("instruction", "instructions")
"""Names that tools give to a sentence about the edit."""
_MARKED = re.compile("^([-+ ]?)\ufeff", re.MULTILINE)
_NUMBERED = re.compile(r"\s*(?P<number>\d+)(?: ?[|│→:] ?|\t)(?P<code>.*)")


class Called(NamedTuple):
    """The edit that a tool call holds."""

    format: str
    text: str
    prose: str = ""
    """The call's words about the edit."""
    is_mended: bool = False
    """Whether the call's JSON was broken and has been mended."""


def clean(text: str, original: str, file: FileLines, formats: Collection[type[Recognised]]) -> list[str]:
    """Return the lines of a reply in the form that the formats read."""
    if MARK in text and MARK not in original and not any(one.keeps_bom(text) for one in formats):
        text = _MARKED.sub(r"\1", text)  # the file keeps its own marks
    lines = text.split("\n")
    edits = [stretch for one in formats for stretch in one.indented(lines, file)]
    found = list(lines)
    for stretch in [*_movable_fences(lines, file), *edits]:  # in list items, they move to the left edge
        line = found[stretch.start]
        blanks = line[: len(line) - len(line.lstrip())]
        texts = found[stretch.start : stretch.stop]
        if blanks and not file.stands([line]) and all(not text.strip() or text.startswith(blanks) for text in texts):
            found[stretch.start : stretch.stop] = [text.removeprefix(blanks) for text in texts]
    return _unnumbered(found, file)


def open_call(text: str, formats: Mapping[str, type[Recognised]]) -> Called | None:
    """Return the edit in a tool call; None if the reply is not a call, or if its format reads calls itself.

    Operations on several files become patches, one after the other.  Raises MalformedEdit if the call is not well
    formed.
    """
    words = [word for one in formats.values() for word in (*one.signs, *one.call_words)]
    if not _is_call(text) or not any(word in text for word in words) or read_replacements(text)[0]:
        return None
    values, is_mended = read_calls(text)
    found: list[Called] = []
    for call in walk(values, everywhere=True):
        told = [value for name in INSTRUCTIONS if isinstance(value := call.fields.get(name), str)]
        edits = ((name, one.in_call(call)) for name, one in formats.items())
        found += [Called(name, normalise(edit), "\n".join(told), is_mended) for name, edit in edits if edit is not None]
    if len(found) > 1 and all(formats[one.format].is_patch for one in found):
        return found[0]._replace(text="\n".join(one.text for one in found))
    return found[0] if len(found) == 1 else None


def _is_call(text: str) -> bool:
    """Tell whether the reply is a call, with or without tags, or has a call as its only fence."""
    if opens_call(text):
        return True
    lines = text.split("\n")
    fences = find_fences(lines) if "```" in text or "~~~" in text else []
    return (
        len(fences) == 1
        and fences[0].language in ("", "json", "xml", "tool_call")
        and opens_call("\n".join(lines[k] for k in fences[0].body))
    )


def without_thoughts(text: str, original: str) -> str:
    """Return the reply without the reasoning above the edit.

    Some servers remove the opening tag, so that only the closing tag is left, alone on its line.  The reply stays as it
    is if nothing follows the reasoning, or if the file has such a tag itself.
    """
    for tag in THOUGHTS:
        opening, closing = f"<{tag}>", f"</{tag}>"
        thoughts, end, rest = text.partition(closing)
        if not end or not rest.strip() or closing in original:
            continue
        said, begin, _ = thoughts.partition(opening)
        stands_alone = said[-1:] in ("", "\n") if begin else thoughts[-1:] in ("", "\n") and rest[0] == "\n"
        is_fenced = sum(map(is_fence, (said if begin else thoughts).split("\n"))) % 2 == 1
        if (stands_alone or not said.strip()) and not is_fenced:
            return (said if begin else "") + rest.lstrip("\n")
    return text


def _unnumbered(lines: list[str], file: FileLines) -> list[str]:
    """Return the lines without line numbers, if consecutive numbers stand before all code of a fence or of the text.

    The numbers are removed only if the file has one of the lines without its number, and none of them with it.
    """
    found = list(lines)
    for stretch in [fence.body for fence in find_fences(lines)] or [range(len(lines))]:
        at = [k for k in stretch if lines[k].strip()]
        codes = _read_numbered([lines[k] for k in at])
        says = [code for code in codes if sum(map(str.isalnum, code)) >= MIN_KNOWN]
        if any(file.stands([code]) for code in says) and not any(file.stands([lines[k]]) for k in at):
            for k, code in zip(at, codes, strict=True):
                found[k] = code
    return found


def _read_numbered(lines: Sequence[str]) -> list[str]:
    """Return the lines without their consecutive numbers; empty if they are numbered in any other way."""
    matches = [match for line in lines if len(line) <= MAX_PROSE and (match := _NUMBERED.match(line)) is not None]
    numbers = [int(match["number"][:9]) for match in matches]
    if len(lines) < 2 or len(matches) < len(lines) or any(b != a + 1 for a, b in pairwise(numbers)):
        return []
    return [match["code"] for match in matches]


def _movable_fences(lines: Sequence[str], file: FileLines) -> list[range]:
    """Return the fences that may be moved.  The result is empty if a fence is indented and a line of the file stands
    outside the fences, because the fences may then be text of the file."""
    fences = [range(fence.opening, min(fence.closing + 1, len(lines))) for fence in find_fences(lines)]
    if not any(lines[fence.start][:1] in (" ", "\t") for fence in fences):
        return fences
    fenced = {at for fence in fences for at in fence}
    outside = (line for at, line in enumerate(lines) if at not in fenced)
    says = [line for line in outside if sum(map(str.isalnum, line)) >= MIN_KNOWN]
    return [] if any(file.stands([line]) for line in says) else fences
