"""Search/replace blocks read from an update: the fences of Aider, Cline, Roo, Void and Zed.

    <<<<<<< SEARCH      ------- SEARCH      <<<<<<< ORIGINAL      <old_text line=12>
    old lines           old lines           old lines             old lines
    =======             =======             =======               </old_text><new_text>
    new lines           new lines           new lines             new lines
    >>>>>>> REPLACE     +++++++ REPLACE     >>>>>>> UPDATED       </new_text>

A block inside a block is content (files about this format hold such text), and so is a divider that does not fit;
which divider fits is for `search_replace` to say, which knows the file.  One pass over the lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

from apply_service.edits.envelope import find_fences, is_around, is_fence, is_path, mentioned_path, named_path
from apply_service.errors import MalformedEdit

MarkKind = Literal["open", "divide", "close"]
TAG = 0
"""Length of a fence that is a tag."""
MIN_RUN = 5
MAX_MARK = 300
OLD_WORDS, NEW_WORDS = ("SEARCH", "ORIGINAL"), ("REPLACE", "UPDATED")
LINE_NOTE = re.compile(r"^:(?P<which>start|end)_line:? ?(?P<line>\d+)\s*$")
_HINT = re.compile(r"^(?:\(|:)?(?:(?:start_)?line)?[ =:]?(?P<line>\d+)\)?$", re.I)
REMEDY = "write each block as <<<<<<< SEARCH, old lines, =======, new lines, >>>>>>> REPLACE"


class Mark(NamedTuple):
    """A line that can only be a fence of a block."""

    kind: MarkKind
    length: int
    stated_line: int | None = None
    path: str | None = None
    is_odd: bool = False
    """Nearly a fence: its signs are mixed, or stand where none belong."""


def read_mark(line: str) -> Mark | None:
    """The fence that a line is, if it is one.  Fences stand at the start of their line."""
    if line[:1] not in ("<", ">", "=", "-", "+") or len(line) > MAX_MARK:
        return None
    text = line.rstrip()
    if text.startswith(("<old_text", "</old_text>", "</new_text>")):
        return _read_tag(text)
    sign = text[0]
    length = len(text) - len(text.lstrip(sign))
    rest = text[length:]
    if sign == "=":
        return Mark("divide", length) if length >= MIN_RUN and not rest else None
    words = rest.lstrip("<>-+=")
    is_mixed = words != rest
    word, _, tail = words.strip().partition(" ")
    bare = word.rstrip("<>")
    bare, tail = _cut_hint(bare, tail)
    if sign in "<-" and (bare in OLD_WORDS or (sign == "<" and bare.upper() in OLD_WORDS)):
        if length < (2 if sign == "<" else MIN_RUN):
            return None
        return _opening(length, tail.strip(), is_odd=is_mixed or length < MIN_RUN)
    if sign in ">+" and length >= MIN_RUN and bare.upper() in NEW_WORDS and (sign == ">" or bare in NEW_WORDS):
        return Mark("close", length, is_odd=is_mixed) if not tail.strip("<> ") else None
    return None


def _read_tag(text: str) -> Mark | None:
    """The tags that stand for fences; each on a line of its own."""
    if text == "</new_text>":
        return Mark("close", TAG)
    if text in ("</old_text>", "</old_text><new_text>"):
        return Mark("divide", TAG)
    name, _, rest = text.partition(" ")
    if text == "<old_text>" or (name == "<old_text" and rest.endswith(">")):
        return _opening(TAG, rest.rstrip(">").replace('"', "").strip(), is_odd=False)
    return None


def _cut_hint(word: str, tail: str) -> tuple[str, str]:
    """`SEARCH:12` and `SEARCH(line=2)` as the word and what is glued to it."""
    for sign in (":", "("):
        if sign in word:
            head, _, hint = word.partition(sign)
            return head, f"{hint} {tail}"
    return word, tail


def _opening(length: int, tail: str, *, is_odd: bool) -> Mark | None:
    if not tail:
        return Mark("open", length, is_odd=is_odd)
    if hint := _HINT.match(tail):
        return Mark("open", length, max(int(hint["line"][:9]) - 1, 0), is_odd=is_odd)
    if not tail.strip("<>"):
        return Mark("open", length, is_odd=True)
    return Mark("open", length, path=tail, is_odd=is_odd) if is_path(tail) else None


@dataclass(frozen=True, slots=True)
class Block:
    """One block, as line numbers of the update."""

    label: str
    opening: int
    start: int
    """First line of the old text."""
    dividers: tuple[int, ...]
    closing: int
    path: str | None = None
    stated_line: int | None = None
    mention: str | None = None
    """The file that the text above speaks of, where none names it outright."""


@dataclass(frozen=True, slots=True)
class BlockText:
    """The blocks of an update, and the lines around them that are no blocks, blanks, fences, names or sentences."""

    blocks: tuple[Block, ...]
    strays: tuple[int, ...]
    outside: tuple[int, ...]
    """Every line that is in no block."""


def read_blocks(lines: Sequence[str], is_content: Callable[[int], bool] | None = None) -> BlockText:
    """The blocks of an update.  `is_content`: whether a line that looks like a fence is the file's own text.

    Raises:
        MalformedEdit: none, or one that is not complete; names the line.
    """
    is_content = is_content or (lambda _: False)
    blocks: list[Block] = []
    outside: list[int] = []
    path: str | None = None
    mention: str | None = None
    at = 0
    while at < len(lines):
        mark = read_mark(lines[at])
        if mark is not None and mark.kind != "divide" and not is_content(at):
            if mark.kind == "close":
                raise _malformed(f"line {at + 1} ends a block that has not begun", lines[at])
            path = mark.path or path
            block = _read_block(lines, at, mark, f"block {len(blocks) + 1}", path, is_content)
            blocks.append(block if path else replace(block, mention=mention))
            at = blocks[-1].closing + 1
            continue
        path = _path_before(lines, at) or path
        mention = mentioned_path(lines[at]) or mention
        outside.append(at)
        at += 1
    if not blocks:
        raise _malformed("there is no search/replace block", lines[0] if lines else "")
    strays = tuple(at for at in outside if not is_around(lines[at]) and lines[at].strip() not in ("...", "…"))
    return BlockText(tuple(blocks), strays, tuple(outside))


def _path_before(lines: Sequence[str], at: int) -> str | None:
    """The path that a line between blocks names, on its own, as a fence's title or as a heading."""
    if is_fence(lines[at]):
        found = find_fences([lines[at]])
        return found[0].path if found else None
    heading = lines[at].lstrip()
    return named_path(lines[at]) or (mentioned_path(heading) if heading.startswith(("#", "**")) else None)


def _read_block(
    lines: Sequence[str], opening: int, mark: Mark, label: str, path: str | None, is_content: Callable[[int], bool]
) -> Block:
    """The block from its opening on.  Blocks inside it must be whole: an opening alone would swallow what follows."""
    if mark.is_odd:
        raise _malformed(f"{label} (line {opening + 1}) has a marker that is nearly right", lines[opening])
    start, stated_line = _skip_notes(lines, opening + 1)
    open_at, dividers = [opening], [list[int]()]
    for at in range(start, len(lines)):
        inner = read_mark(lines[at])
        if inner is None or is_content(at):
            continue
        if inner.kind == "open":
            open_at.append(at)
            dividers.append([])
        elif inner.kind == "divide":
            dividers[-1].append(at)
        elif not dividers[-1]:
            what = "has no divider =======" if len(open_at) == 1 else "holds a lone marker in its text"
            raise _malformed(f"{label} (line {open_at[-1] + 1}) {what}", lines[open_at[-1]])
        elif len(open_at) > 1:
            open_at.pop()
            dividers.pop()
        else:
            stated = mark.stated_line if stated_line is None else stated_line
            return Block(label, opening, start, _fitting(lines, mark, dividers[0]), at, path, stated)
    inside = f": line {open_at[-1] + 1} opens another inside it" if len(open_at) > 1 else ""
    raise _malformed(f"{label} (line {opening + 1}) has no end{inside}; the edit may be cut short", lines[opening])


def _skip_notes(lines: Sequence[str], at: int) -> tuple[int, int | None]:
    """Past the line numbers that some models put above the old text."""
    stated: int | None = None
    end = at
    while end < len(lines) and len(lines[end]) < MAX_MARK and (note := LINE_NOTE.match(lines[end])):
        if note["which"] == "start":
            stated = max(int(note["line"][:9]) - 1, 0)
        end += 1
    if end > at and end < len(lines) and len(run := lines[end].rstrip()) >= MIN_RUN and not run.strip("-"):
        end += 1
    return end, stated


def _fitting(lines: Sequence[str], mark: Mark, dividers: Sequence[int]) -> tuple[int, ...]:
    """Dividers of the opening fence's kind and length, if there are such."""
    alike = tuple(at for at in dividers if (found := read_mark(lines[at])) and found.length == mark.length)
    return alike or tuple(dividers)


def _malformed(message: str, line: str) -> MalformedEdit:
    return MalformedEdit(message, value=line[:200], remedy=REMEDY)


Numbered = list[tuple[int, str]]
"""Text as (line of the update, text)."""


def splits(block: Block, lines: Sequence[str]) -> Iterator[tuple[Numbered, Numbered]]:
    """Old and new text for each divider that may be the one."""
    for divider in block.dividers:
        old = [(at, lines[at]) for at in range(block.start, divider)]
        start = divider + 1
        if lines[divider].rstrip() == "</old_text>":
            start = next((at for at in range(start, block.closing) if lines[at].strip()), start)
            start += lines[start].strip() == "<new_text>"
        yield old, [(at, lines[at]) for at in range(start, block.closing)]


def is_line_note(line: str) -> bool:
    """Whether the line is a note of line numbers, which belongs above old text alone."""
    return len(line) < MAX_MARK and LINE_NOTE.match(line.strip()) is not None


def unescaped(text: str) -> str:
    r"""The line without the backslash that tells a fence or line note of the file from the block's own (`\=======`)."""
    if not text.startswith("\\") or len(text) > MAX_MARK:
        return text
    bare = text[1:]
    is_mark = read_mark(bare) is not None or is_line_note(bare)
    return bare if is_mark or bare.startswith(("<<<<<<<", ">>>>>>>", "-------")) else text


def without_numbers(old: Numbered) -> tuple[Numbered, int] | None:
    """Old text whose every line starts with its number (`12 | x`), without them, and the first number."""
    found: Numbered = []
    numbers: list[int] = []
    for at, text in old:
        head = text[:12].lstrip()
        digits = head[: len(head) - len(head.lstrip("0123456789"))]
        rest = text.lstrip()[len(digits) :]
        sign = rest.lstrip(" ")[:1]
        if not digits or sign not in ("|", "\t", "→"):
            return None
        numbers.append(int(digits))
        body = rest.lstrip(" ")[1:]
        found.append((at, body.removeprefix(" ") if sign == "|" else body))
    is_rising = all(a + 1 == b for a, b in pairwise(numbers))
    return (found, numbers[0]) if numbers and is_rising else None
