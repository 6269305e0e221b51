"""Reads search/replace blocks, which quote the old text and give the new text.

The fences have the forms that Aider, Cline, Roo, Void and Zed use:

    <<<<<<< SEARCH      ------- SEARCH      <<<<<<< ORIGINAL      <old_text line=12>
    old lines           old lines           old lines             old lines
    =======             =======             =======               </old_text><new_text>
    new lines           new lines           new lines             new lines
    >>>>>>> REPLACE     +++++++ REPLACE     >>>>>>> UPDATED       </new_text>

A block inside a block is content, because files about this format hold such text.  If several lines may be the divider,
it is the line below the old text that the file has.  The others are content too.  If quotes are exact and unique, they
determine the result.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from typing import Literal, NamedTuple

from apply_service.errors import MalformedEdit, NeedsMoreContext, TooLarge
from apply_service.formats.file_change import pick_for_file
from apply_service.formats.hunks import QuotedHunk, Trust, hunk_of_replacement, merge_hunks, name_labels
from apply_service.formats.recognise import FilePart, Recognised, ReplyLines, Sureness
from apply_service.protocols import EditContext
from apply_service.text.fences import is_around, read_fence
from apply_service.text.line_search import FileLines, Likeness
from apply_service.text.paths import is_path, is_prose, is_same_file, mentioned_path, named_path, titled_path
from apply_service.types import Prediction

TAG = 0
"""The length that is given to a fence that is a tag."""
MIN_RUN = 5
MAX_MARK = 300
MAX_DIVIDERS = 50
MAX_BROKEN = 4
"""Once this many blocks can't be read, the rest of the update isn't read either."""
OLD_WORDS, NEW_WORDS = ("SEARCH", "ORIGINAL"), ("REPLACE", "UPDATED")
_LINE_NOTE = re.compile(r"^:(?P<which>start|end)_line:? ?(?P<line>\d+)\s*$")
_HINT = re.compile(r"^(?:\(|:)?(?:(?:start_)?line)?[ =:]?(?P<line>\d+)\)?$", re.I)

Numbered = list[tuple[int, str]]
"""Lines of text as (line of the update, text)."""


def predict(original: str, update: str, about: EditContext) -> Prediction:
    """Return the original with the blocks applied.  The text around the blocks is left out."""
    lines, file, trust = update.split("\n"), FileLines(original), Trust()
    blocks = _pick_blocks(read_all_blocks(lines, file), about.path, trust)
    _refuse_broken(blocks)
    hunks = [_read_hunk(block, lines, file, about.path, trust) for block in blocks]
    return merge_replacements(original, update, hunks, trust)


def merge_replacements(original: str, update: str, hunks: Sequence[QuotedHunk], trust: Trust) -> Prediction:
    """Return the original with the old text of each hunk replaced.  A hunk without old text makes a new file.

    The hunks may have any order.  Raises NeedsMoreContext if an old text has no place, or if a hunk has no old text and
    the file is not empty.
    """
    lines = update.split("\n")
    if not original.strip() and len(hunks) == 1 and not hunks[0].quotes:
        if original:
            trust.doubt("the file has nothing but blanks, which are replaced")
        return trust.prediction_of(original, "\n".join([*hunks[0].new, ""]), lines)
    for hunk in hunks:
        if original.strip() and not hunk.quotes:
            raise NeedsMoreContext(
                f"{hunk.label} has no old text, but the file is not empty",
                value="",
                remedy="quote the lines to replace, or a line next to which the new ones go; "
                "no old text means a new file",
            )
    return merge_hunks(original, update, hunks, is_ordered=False, trust=trust)


def _pick_blocks(blocks: list[SearchBlock], path: str | None, trust: Trust) -> list[SearchBlock]:
    """Return the blocks for the file, by the names above them.  If no block has a name, the mentioned files count."""
    if any(block.path for block in blocks):
        return pick_for_file(blocks, path, trust)
    mentions = {block.mention for block in blocks if block.mention is not None}
    if path is None or len(mentions) < 2 or not any(is_same_file(name, path) for name in mentions):
        return blocks
    return [block for block in blocks if block.mention is None or is_same_file(block.mention, path)]


# -- in a reply --------------------------------------------------------------------------------------------------------
class FoundBlocks(Recognised):
    """The blocks in a reply; empty if any block is not complete."""

    has_marks = True
    signs = ("<<<<<<< SEARCH", "------- SEARCH")

    def __init__(self, reply: ReplyLines) -> None:
        super().__init__(reply)
        self._marks = {at: mark for at, line in enumerate(reply.lines) if (mark := read_mark(line)) is not None}
        self._has_marks = any(mark.kind != "divide" for mark in self._marks.values())
        self._blocks: Sequence[SearchBlock] = ()
        if self._has_marks:
            with suppress(MalformedEdit):
                blocks = read_all_blocks(reply.lines, reply.file)
                _refuse_broken(blocks)
                self._blocks = blocks
        self.blocks = [FilePart(block.opening, block.closing, block.path) for block in self._blocks]
        self.mentions = [block.mention for block in self._blocks if block.mention]
        reply.claim(part[:2] for part in self.blocks)

    @classmethod
    def indented(cls, lines: Sequence[str], file: FileLines) -> Iterator[range]:
        opening, divider = -1, -1
        for at, line in enumerate(lines):
            mark = read_mark(line.strip()) if line[:1] in (" ", "\t") else None
            kind = "" if mark is None else mark.kind
            if kind == "open" and opening < 0:
                opening = divider = at
            elif kind == "divide" and divider == opening:
                divider = at
            elif kind == "close" and opening >= 0:
                n_blanks = len(lines[opening]) - len(lines[opening].lstrip())
                if divider > opening and file.stands([text[n_blanks:] for text in lines[opening + 1 : divider]]):
                    yield range(opening, at + 1)
                opening = -1

    @property
    def confidence(self) -> Sureness:
        if not self._has_marks:
            return Sureness.NONE
        return Sureness.QUOTES if any(map(self._is_quoted, self._blocks)) else Sureness.MARKS

    def _is_quoted(self, block: SearchBlock) -> bool:
        reply = self.reply
        head, old = (reply.lines[start : block.dividers[0] + 1] for start in (block.opening, block.start))
        if not any(map(str.strip, old[:-1])):
            return reply.is_new_file
        return reply.file.stands(old[:-1]) and not reply.file.stands(head, Likeness.TRAILING)

    @property
    def lines(self) -> Collection[int]:
        if self.blocks or not self._marks:
            return self.reply.within(part[:2] for part in self.blocks)
        first, last = min(self._marks), max(self._marks)
        return range(first, last + 1 if self._marks[last].kind == "close" else len(self.reply.lines))

    @property
    def is_foreign(self) -> bool:
        return not any(part.path is None or is_same_file(part.path, self.reply.path) for part in self.blocks)

    @property
    def whole_files(self) -> Sequence[str]:
        reply = self.reply
        named = [f.path for f in reply.plain_fences if f.is_surely_named and reply.claimed.isdisjoint(f.body)]
        of_blocks = [part.path for part in self.blocks if part.path]
        return [path for path in named if path and of_blocks and not any(is_same_file(path, one) for one in of_blocks)]

    @property
    def paths(self) -> Sequence[str]:
        named = [*(part.path for part in self.blocks if part.path), *self.whole_files]
        path = self.reply.path
        is_routed = path and any(is_same_file(mention, path) for mention in self.mentions)
        return self.mentions if is_routed and not named else named

    def parts(self) -> Mapping[str, str]:
        """Return the blocks of each file, including blocks that can't be read.  Only the file of such a block is then
        refused."""
        lines, blocks = self.reply.lines, self._blocks
        if self._has_marks and not blocks:
            with suppress(MalformedEdit):
                blocks = read_all_blocks(lines, self.reply.file)
        parts: defaultdict[str, str] = defaultdict(str)
        for block in blocks:
            if not block.path or named_path(block.path) != block.path:
                return {}
            parts[block.path] += "\n".join([block.path, *lines[block.opening : block.closing + 1], ""])
        return parts


recognise = FoundBlocks


def write_block(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return the lines of a block."""
    return ["<<<<<<< SEARCH", *old, "=======", *new, ">>>>>>> REPLACE"]


# -- fences ------------------------------------------------------------------------------------------------------------
class Mark(NamedTuple):
    """A line that can only be a fence of a block: its opening, its divider or its end."""

    kind: Literal["open", "divide", "close", "odd"]
    """`odd`: almost an opening or an end, but with too few signs, mixed signs, or signs where none belong."""
    length: int
    stated_line: int | None = None
    path: str | None = None


def read_mark(line: str) -> Mark | None:
    """Return the mark in a line; None if it has none.  A mark stands at the start of its line."""
    if line[:1] not in ("<", ">", "=", "-", "+") or len(line) > MAX_MARK:
        return None
    text = line.rstrip()
    if text.startswith(("<old_text", "</old_text>", "</new_text>")):
        if text == "</new_text>":
            return Mark("close", TAG)
        if text in ("</old_text>", "</old_text><new_text>"):
            return Mark("divide", TAG)
        name, _, rest = text.partition(" ")
        is_whole = text == "<old_text>" or (name == "<old_text" and rest.endswith(">"))
        return _opening(TAG, rest.rstrip(">").replace('"', "").strip()) if is_whole else None
    length = len(text) - len(text.lstrip(text[0]))
    if text[0] == "=":
        return Mark("divide", length) if length >= MIN_RUN and length == len(text) else None
    return _read_signs(text[0], length, text[length:])


def _read_signs(sign: str, length: int, rest: str) -> Mark | None:
    """Return the opening or closing mark that consists of `length` signs and `rest`; None if this is not a mark."""
    words = rest.lstrip("<>-+=")
    known, tail = _read_word(words, sign)
    if sign in "<-" and known in OLD_WORDS and length >= (2 if sign == "<" else MIN_RUN):
        has_signs_behind = tail.strip() != "" and not tail.strip("<> ")
        is_odd = words != rest or length < MIN_RUN or has_signs_behind
        return Mark("odd", length) if is_odd else _opening(length, tail.strip())
    if sign in ">+" and known in NEW_WORDS and length >= MIN_RUN and not tail.strip("<> "):
        return Mark("close" if words == rest else "odd", length)
    return None


def _read_word(words: str, sign: str) -> tuple[str, str]:
    """Return the word behind the signs of a mark, and the text after it.  After < and > it may be in lower case."""
    word, _, tail = words.strip().partition(" ")
    word = word.rstrip("<>")
    if glue := next((glue for glue in (":", "(") if glue in word), ""):  # `SEARCH:12`, `SEARCH(line=2)`
        word, _, hint = word.partition(glue)
        tail = f"{hint} {tail}"
    return word.upper() if sign in "<>" else word, tail


def _opening(length: int, tail: str) -> Mark | None:
    """Return an opening mark, with the line number or file name behind its word.  The result is None if there is any
    other text."""
    if hint := _HINT.match(tail):
        return Mark("open", length, max(int(hint["line"][:9]) - 1, 0))
    if not tail.strip("<>"):
        return Mark("open", length)
    return Mark("open", length, path=tail) if is_path(tail) else None


# -- blocks ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class SearchBlock:
    """One block, as line numbers of the update."""

    label: str
    opening: int
    start: int
    """The first line of the old text."""
    dividers: tuple[int, ...]
    """Every line that may divide the old from the new text."""
    closing: int
    stated_line: int | None = None
    path: str | None = None
    mention: str | None = None
    """The file that the text above mentions, if no line names one outright."""
    error: MalformedEdit | None = None
    """Why the block can't be read.  `closing` is then the last line before the next block and its file's name."""


def _refuse_broken(blocks: Sequence[SearchBlock]) -> None:
    """Raise the error of the first broken block, if there is one.  The error also names the blocks that can be read."""
    error = next((block.error for block in blocks if block.error is not None), None)
    if error is not None:
        if labels := [block.label for block in blocks if block.error is None]:
            error.remedy += f"; {name_labels(labels)} can be read, and sent alone"
        raise error


def read_all_blocks(lines: Sequence[str], file: FileLines) -> list[SearchBlock]:
    """Return the blocks of an update to this file.  A block that can't be read has its error.

    If there is such a block, all blocks are read once more.  This time, a line that looks like a fence is text if the
    file has it between the same lines.  Raises MalformedEdit if there is no block.
    """
    marks = {at: mark for at, line in enumerate(lines) if (mark := read_mark(line)) is not None}
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, line in enumerate(file.lines):
        if read_mark(line) is not None:
            rows[line.rstrip()].append(row)
    blocks = _read_blocks(lines, marks)
    if not rows or all(block.error is None for block in blocks):
        return blocks

    def is_content(at: int) -> bool:
        for row in rows.get(lines[at].rstrip(), ())[:50]:
            above = row > 0 and at > 0 and lines[at - 1].strip() and lines[at - 1] == file.lines[row - 1]
            below = row + 1 < len(file) and at + 1 < len(lines) and lines[at + 1] == file.lines[row + 1]
            if above and (below or at + 1 in marks):
                return True
        return False

    return _read_blocks(lines, {at: mark for at, mark in marks.items() if not is_content(at)})


def _read_blocks(lines: Sequence[str], marks: Mapping[int, Mark]) -> list[SearchBlock]:
    blocks: list[SearchBlock] = []
    path: str | None = None
    mention: str | None = None
    at = n_broken = 0
    while at < len(lines):
        mark, line = marks.get(at), lines[at]
        if mark is None or mark.kind == "divide":
            path = named_by(line) or path
            mention = mentioned_path(line) or mention
            at += 1
            continue
        path, label = mark.path or path, f"block {len(blocks) + 1}"
        try:
            if mark.kind != "open":
                raise _malformed(
                    f"line {at + 1} is a marker inside or at the end of a block, but no block begins above it", line
                )
            block = _read_block(lines, marks, at, label)
        except MalformedEdit as error:
            n_broken += 1
            stop = _broken_end(lines, marks, at) if n_broken < MAX_BROKEN else len(lines)
            while stop > at + 1 and is_around(lines[stop - 1]):  # this line may name the next block's file
                stop -= 1
            block = SearchBlock(label, at, at, (), stop - 1, error=error)
        blocks.append(replace(block, path=path, mention=None if path else mention))
        at = block.closing + 1
    if not blocks:
        raise _malformed("there is no search/replace block", lines[0] if lines else "")
    return blocks


def named_by(line: str) -> str | None:
    """Return the file that a line above a block names: in a fence's title, in a heading, or as the whole line."""
    if fence := read_fence(line):
        return titled_path(fence.title)
    is_heading = line.lstrip().startswith(("#", "**"))
    return named_path(line) or (mentioned_path(line) if is_heading else None)


def _broken_end(lines: Sequence[str], marks: Mapping[int, Mark], at: int) -> int:
    """Return the line at which the block after a broken one begins."""
    return next((k for k in range(at + 1, len(lines)) if k in marks and marks[k].kind == "open"), len(lines))


def _start_of_old(lines: Sequence[str], opening: int, stated: int | None) -> tuple[int, int | None]:
    """Return the first line of the old text, and its line number if the opening or a note below it states one."""
    start = opening + 1
    while start < len(lines) and len(lines[start]) < MAX_MARK and (note := _LINE_NOTE.match(lines[start])):
        if note["which"] == "start":
            stated = max(int(note["line"][:9]) - 1, 0)
        start += 1
    ruler = lines[start].rstrip() if opening + 1 < start < len(lines) else ""
    return start + (len(ruler) >= MIN_RUN and not ruler.strip("-")), stated


def _read_block(lines: Sequence[str], marks: Mapping[int, Mark], opening: int, label: str) -> SearchBlock:
    """Return the block that begins at `opening`.

    Blocks inside this block must be whole, because a lone opening would swallow the text after it.  Raises
    MalformedEdit if the block, or one inside it, is not complete.
    """
    mark = marks[opening]
    start, stated = _start_of_old(lines, opening, mark.stated_line)
    open_at, dividers = [opening], [list[int]()]
    for at in range(start, len(lines)):
        inner = marks.get(at)
        if inner is None:
            continue
        if inner.kind in ("open", "odd"):
            open_at.append(at)
            dividers.append([])
        elif inner.kind == "divide":
            dividers[-1].append(at)
        elif not dividers[-1]:
            what = (
                "has no divider =======" if len(open_at) == 1 else "has a marker in its text that belongs to no block"
            )
            raise _malformed(f"{label} (line {open_at[-1] + 1}) {what}", lines[open_at[-1]])
        elif len(open_at) > 1:
            open_at.pop()
            dividers.pop()
        else:
            alike = [k for k in dividers[0] if marks[k].length == mark.length]
            return SearchBlock(label, opening, start, tuple(alike or dividers[0]), at, stated)
    inside = f": line {open_at[-1] + 1} opens another inside it" if len(open_at) > 1 else ""
    raise _malformed(f"{label} (line {opening + 1}) has no end{inside}; the edit may be cut short", lines[opening])


def _malformed(message: str, line: str) -> MalformedEdit:
    return MalformedEdit(
        message,
        value=line[:200],
        remedy="write each block as <<<<<<< SEARCH, old lines, =======, new lines, >>>>>>> REPLACE",
    )


# -- old and new text --------------------------------------------------------------------------------------------------
def _read_hunk(block: SearchBlock, lines: Sequence[str], file: FileLines, path: str | None, trust: Trust) -> QuotedHunk:
    """Return the block as a hunk.

    Raises MalformedEdit if the new text has a note of a line number, or a line that may be meant as the divider.
    Raises TooLarge if the block has more than `MAX_DIVIDERS` dividers, because each would be tried.
    """
    if len(block.dividers) > MAX_DIVIDERS:
        raise TooLarge(
            f"{block.label}: too many of its lines look like the divider =======",
            value=len(block.dividers),
            limit=MAX_DIVIDERS,
            remedy="write \\======= where the file itself has such a line",
        )
    found = [_divided(block, divider, lines, file) for divider in block.dividers]
    fitting = [hunk for hunk in found if not hunk.quotes or file.stands(hunk.old, Likeness.EDGES)] or found[:1]
    undivided = [hunk for hunk in fitting if not _added_dividers(hunk)]
    hunk = max(undivided or fitting, key=lambda hunk: len(hunk.old))
    if len(fitting) > 1:
        say = trust.doubt if len(undivided) == 1 else trust.guess
        say(f"{block.label}: has several dividers")
    spare = [text for text in _added_dividers(hunk) if text not in hunk.old]
    if len(found) == 1 or not spare:
        return hunk
    if is_prose(path) and not {hunk.new[0], hunk.new[-1]} & {*spare}:
        trust.doubt(f"{block.label}: a line of its new text looks like a divider")
    elif (whole := _without_edge_dividers(hunk)) is not None:
        trust.doubt(f"{block.label}: a second divider beside its new text was left out")
        return whole
    else:
        raise MalformedEdit(
            f"{block.label}: its new text has a line like the divider =======",
            value=spare[0],
            remedy="end each block with >>>>>>> REPLACE; write \\======= where the file itself has such a line",
        )
    return hunk


def _divided(block: SearchBlock, divider: int, lines: Sequence[str], file: FileLines) -> QuotedHunk:
    """Return the block as a hunk, as if line `divider` divided it.  Escapes and line numbers are left out, unless the
    file has the old text with them.

    Raises MalformedEdit if the new text has a note of a line number.
    """
    start, stated = divider + 1, block.stated_line
    if lines[divider].rstrip() == "</old_text>":
        start = next((at for at in range(start, block.closing) if lines[at].strip()), start)
        start += lines[start].strip() == "<new_text>"
    old: Numbered = list(enumerate(lines[block.start : divider], block.start))
    new: Numbered = list(enumerate(lines[start : block.closing], start))
    texts = [text for _, text in old]
    if not file.stands(texts, Likeness.TRAILING):
        if (numbered := _without_numbers(old)) is not None:
            old, stated = numbered[0], numbered[1] - 1
            new = (_without_numbers(new) or (new, 0))[0]
        old = [(at, _unescaped(text)) for at, text in old]
    for _, text in new:
        if _is_line_note(text) and text not in texts:
            raise MalformedEdit(
                f"{block.label}: the new text has a :start_line: line, which belongs above the old text",
                value=text[:200],
                remedy="move it there; if it is a line of the file itself, write \\:start_line:",
            )
    escaped = {text for _, text in old if text.startswith("\\")}
    new = [(at, text if text in escaped else _unescaped(text)) for at, text in new]
    return hunk_of_replacement(block.label, old, new, stated_line=stated)


def _added_dividers(hunk: QuotedHunk) -> list[str]:
    """Return the added lines that look like a divider."""
    return [line.text for line in hunk.lines if line.kind == "add" and _is_divider(line.text)]


def _without_edge_dividers(hunk: QuotedHunk) -> QuotedHunk | None:
    """Return the hunk without dividers at the edges of its added lines; None if a divider stands among the other added
    lines."""
    added = [at for at, x in enumerate(hunk.lines) if x.kind == "add"]
    edges = set(takewhile(lambda at: _is_divider(hunk.lines[at].text), added))
    edges |= set(takewhile(lambda at: _is_divider(hunk.lines[at].text), reversed(added)))
    kept = tuple(x for at, x in enumerate(hunk.lines) if at not in edges)
    without = replace(hunk, lines=kept)
    return None if _added_dividers(without) else without


def _is_divider(line: str) -> bool:
    mark = read_mark(line)
    return mark is not None and mark.kind == "divide"


def _is_line_note(line: str) -> bool:
    return len(line) < MAX_MARK and _LINE_NOTE.match(line.strip()) is not None


def _unescaped(text: str) -> str:
    r"""Return the line without its backslash, if the backslash escapes a fence or line note of the file: `\=======`."""
    if not text.startswith("\\") or len(text) > MAX_MARK:
        return text
    bare = text[1:]
    is_mark = read_mark(bare) is not None or _is_line_note(bare)
    return bare if is_mark or bare.startswith(("<<<<<<<", ">>>>>>>", "-------")) else text


def _without_numbers(side: Numbered) -> tuple[Numbered, int] | None:
    """Return the text without the line numbers at the start of its lines (`12 | x`), and the first number.

    The result is None if a line has no number, or if the numbers do not rise by one.
    """
    found: Numbered = []
    numbers: list[int] = []
    for at, text in side:
        head = text[:12].lstrip()
        digits = head[: len(head) - len(head.lstrip("0123456789"))]
        rest = text.lstrip()[len(digits) :].lstrip(" ")
        if not digits or rest[:1] not in ("|", "\t", "→"):
            return None
        numbers.append(int(digits))
        found.append((at, rest[1:].removeprefix(" ") if rest[0] == "|" else rest[1:]))
    return (found, numbers[0]) if numbers and all(a + 1 == b for a, b in pairwise(numbers)) else None
