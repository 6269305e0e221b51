"""Takes off a reply what models put around every line of it: thoughts, JSON, byte-order marks, numbers, indentation.

Each is taken off only where the file has the lines without it, or can't have the lines with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from itertools import pairwise

from apply_service.formats.json_edit import has_pair, opens_json
from apply_service.formats.recognise import MIN_KNOWN, Recognised
from apply_service.text.english import MAX_PROSE
from apply_service.text.fences import find_fences, is_fence
from apply_service.text.fidelity import MARK, normalise
from apply_service.text.line_search import FileLines

THOUGHTS = ("think", "thinking", "reasoning")
"""Tags around the reasoning that some models begin their replies with."""
_MARKED = re.compile("^([-+ ]?)\ufeff", re.MULTILINE)
_NUMBERED = re.compile(r"\s*(?P<number>\d+)(?: ?[|│→:] ?|\t)(?P<code>.*)")


def clean(text: str, original: str, file: FileLines, formats: Collection[type[Recognised]]) -> list[str]:
    """Return the lines of a reply, as the formats read them."""
    signs = [sign for one in formats for sign in one.signs]
    text = _unwrapped(_without_thoughts(text, original), signs)
    if MARK in text and MARK not in original and not any(one.keeps_bom(text) for one in formats):
        text = _MARKED.sub(r"\1", text)  # the file keeps its own
    lines = text.split("\n")
    edits = [stretch for one in formats for stretch in one.indented(lines, file)]
    return _unnumbered(_unindented(lines, edits, file), file)


def _without_thoughts(text: str, original: str) -> str:
    """Return the reply without the reasoning that it begins with.  Some servers take off the opening tag: then the
    closing one stands alone on its line.  The text stays where nothing follows, or where the file has such a tag
    itself."""
    for tag in THOUGHTS:
        thoughts, closing, rest = text.partition(f"</{tag}>")
        if not closing or not rest.strip() or closing in original:
            continue
        is_alone = thoughts[-1:] in ("", "\n") and rest[0] == "\n" and f"<{tag}>" not in text
        is_fenced = sum(map(is_fence, thoughts.split("\n"))) % 2 == 1
        if text.lstrip().startswith(f"<{tag}>") or (is_alone and not is_fenced):
            return rest.lstrip("\n")
    return text


def _unwrapped(text: str, signs: Sequence[str]) -> str:
    """Return the edit in the JSON of a tool call: its only string with signs of an edit."""
    if not opens_json(text) or not any(sign in text for sign in signs) or has_pair(text):
        return text
    try:
        value: object = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return text
    found: list[str] = []
    waiting = [value]
    while waiting and len(found) < 2:
        item = waiting.pop()
        if isinstance(item, str) and any(sign in item for sign in signs):
            found.append(item)
        waiting += list(item.values()) if isinstance(item, dict) else item if isinstance(item, list) else []
    return normalise(found[0]) if len(found) == 1 and "\n" in found[0] else text


def _unnumbered(lines: list[str], file: FileLines) -> list[str]:
    """Return the lines, with the numbers taken off that stand before all code of a fence, or of the whole text, one
    after the other; only where the file has a line without its number, and none with it."""
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
    """Return lines that are numbered one after the other, without their numbers; none of any others."""
    matches = [match for line in lines if len(line) <= MAX_PROSE and (match := _NUMBERED.match(line)) is not None]
    numbers = [int(match["number"][:9]) for match in matches]
    if len(lines) < 2 or len(matches) < len(lines) or any(b != a + 1 for a, b in pairwise(numbers)):
        return []
    return [match["code"] for match in matches]


def _movable_fences(lines: Sequence[str], file: FileLines) -> list[range]:
    """Return the fences; none of them if a line of the file stands outside, so that they may be text of the file
    too."""
    fences = [range(fence.opening, min(fence.closing + 1, len(lines))) for fence in find_fences(lines)]
    if not any(lines[fence.start][:1] in (" ", "\t") for fence in fences):
        return fences
    fenced = {at for fence in fences for at in fence}
    outside = (line for at, line in enumerate(lines) if at not in fenced)
    says = [line for line in outside if sum(map(str.isalnum, line)) >= MIN_KNOWN]
    return [] if any(file.stands([line]) for line in says) else fences


def _unindented(lines: Sequence[str], edits: Sequence[range], file: FileLines) -> list[str]:
    """Return the lines, with fenced text and `edits` inside list items moved to the left edge."""
    found = list(lines)
    for stretch in [*_movable_fences(lines, file), *edits]:
        line = found[stretch.start]
        blanks = line[: len(line) - len(line.lstrip())]
        texts = found[stretch.start : stretch.stop]
        if blanks and not file.stands([line]) and all(not text.strip() or text.startswith(blanks) for text in texts):
            found[stretch.start : stretch.stop] = [text.removeprefix(blanks) for text in texts]
    return found
