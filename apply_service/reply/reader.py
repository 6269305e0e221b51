"""Finds the edit in a model's reply: its format, the text that the format reads, and the prose around it.

Complete markers of search/replace blocks, V4A patches, unified diffs or JSON edits decide the format, whatever stands
around them.  A reply without such markers is a lazy snippet, and is taken out of its fence if prose stands around it.

Content is never control: if the text around the markers is code, and the file lacks the lines that they quote, the
markers are text of that code, as in a test that holds a diff.  What is left out is told in `prose` and `findings`.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, pairwise

from apply_service.errors import MalformedEdit, UnknownEditFormat
from apply_service.formats.file_change import FileChange, PatchText
from apply_service.formats.json_edit import OTHER_CALLS, PAIRS, has_pair, read_replacements
from apply_service.formats.search_replace import SearchBlock, read_all_blocks, read_file_blocks, read_mark
from apply_service.formats.unified_diff import HUNK_HEADER, is_preamble, parse_diff, starts_diff
from apply_service.formats.v4a import is_call, parse_v4a, patch_spans
from apply_service.formats.whole_file import file_fence
from apply_service.merge.signed import is_signed
from apply_service.registry import EDIT_FORMATS
from apply_service.reply.prose import find_prose, join
from apply_service.text.english import MAX_PROSE, as_lead, asks_to_delete, is_order, leads_to_usage, reads_as_english
from apply_service.text.fences import PAGE_TITLES, SHELLS, Fence, fence_tag, find_fences, is_fence, page_fence
from apply_service.text.fidelity import MARK, normalise
from apply_service.text.line_search import FileLines, Likeness
from apply_service.text.lines import is_import
from apply_service.text.markers import is_marker, strip_comment
from apply_service.text.paths import has_same_name, is_prose, is_same_file, match_files, named_path
from apply_service.types import DOUBT, Prediction, Severity, Verdict

CHECK = "reply"
OTHER_FILES = "other_files"
"""The names of two checks: some lines of the reply are left out, or the reply also changes other files; the second is
no warning where the reply has a part for the file that the request names."""
DIFF_TITLES = ("diff", "patch", "udiff")
CODE_WORDS = (
    *("def ", "class ", "import ", "from ", "#include", "const "),
    *("let ", "var ", "function ", "export ", "return "),
)
_SENTENCE_END = re.compile(r"(?<=[.!])\s+")
_ORDER_BEHIND = re.compile(
    r"(?:(?:also|then|and|finally|next|please|you (?:should|must|need to|can|may|could)|don't forget to|remember to|"
    r"now),? )*"
    r"(?:remove|delete|drop|rename|move|add|insert|append|replace|change|update|swap|put)\b.*[.!]$",
    re.IGNORECASE,
)
_REPEATS = re.compile(
    r"(?:^|[.;:,] |\b(?:should|must|to|please|then|also|and|you) )(?:do|make|apply|repeat|mirror|change|update)\b"
    r"[^.]{0,80}\b(?:the same|analogous\w*|similar\w*|likewise|corresponding\w*)\b",
    re.IGNORECASE,
)
"""An order to make the change of the edit at another place as well."""
_OTHER_FILE = re.compile(r"\b(?:another|other|separate|different) (?:script|file|module|page)\b", re.IGNORECASE)
_NEXT_ORDER = re.compile(
    r",? (?:and|then|and then|and also) "
    r"(?=(?:remove|delete|drop|rename|move|add|insert|append|replace|change|update)\b)"
)
_CHANGE_TO = re.compile(r"(?:change|update) (?P<what>.+) to:$", re.IGNORECASE)
_OLD_CODE = re.compile(
    r"\W*(?:.*[.,:] )?(?:(?:please|then|and|next|so|now|just|first),? )*"
    r"(?:(?:replace|change|swap|turn)\b.*|(?:before|old|from|was|currently)\b.{0,40})$",
    re.IGNORECASE,
)
_NEW_CODE = re.compile(r"\W*(?:and |then )*(?:to|with|by|into|after|new|becomes|now)\b.{0,60}$", re.IGNORECASE)
"""The words above code that is to be replaced, and above the code that replaces it."""
_MARKED = re.compile("^([-+ ]?)\ufeff", re.MULTILINE)
_NUMBERED = re.compile(r"\s*(?P<number>\d+)(?: ?[|│→:] ?|\t)(?P<code>.*)")
_ADDED_CODE = re.compile(
    r"(?:(?:also|then|and|finally|next|please|don't forget to|remember to|now),? )*"
    r"(?:add|insert|put|place|include|append) (?:the |an? )?(?:\w+ ){0,2}`(?P<code>[^`]+)`",
    re.IGNORECASE,
)
_MAY_DELETE = re.compile(
    r"\byou (?:can|may|should) (?:now |safely |also |then )*(?:remove|delete|drop)\b", re.IGNORECASE
)
_CONDITION = re.compile(r"\b(?:if|once|when|unless|until|later|afterwards?|eventually|someday)\b", re.IGNORECASE)
_SUGGESTION = re.compile(
    r"\W*(?:(?:but|and|or) )?(?:if|unless|once|optionally|alternatively|later)\b.*:$", re.IGNORECASE
)
_OF_IMPORTS = re.compile(r"\b(?:imports?|requires?|includes?|at the (?:very )?top)\b", re.IGNORECASE)
IMPORT_ORDER = "Add this import after the imports:"
_OF_THIS_CODE = re.compile(
    r"(?:please )?(?:add|insert|append|put|place) (?:this|these|it|them|that|the (?:\w+ )?above)\b", re.IGNORECASE
)
_WISH = re.compile(r"\b(?:can|may|could|should) ", re.IGNORECASE)
THOUGHTS = ("think", "thinking", "reasoning")
"""Tags around the reasoning that some models begin their replies with."""
WRAPPED_SIGNS = ("*** Begin Patch", "<<<<<<< SEARCH", "------- SEARCH", "+++ ")
MAX_BEHIND = 20
"""Paragraphs behind an edit that are read for orders."""
MIN_WORDS = 4
MIN_KNOWN = 6
"""The letters and digits that a line needs to be recognised as a line of the file."""


@dataclass(frozen=True, slots=True)
class FoundEdit:
    """The edit in a reply, as read for one file."""

    format: str
    update: str
    """The text that the format reads, with LF line ends."""
    prose: str = ""
    """The text around the edit, which may say where the edit belongs."""
    findings: tuple[Verdict, ...] = ()
    """Reports of the parts of the reply that were left out."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """The part of the edit for each file that it names; empty if the edit can't be divided by files."""
    may_be_file: bool = False
    """Whether it is the reply's only fence for the file, without a marker or an order: it may be the whole file."""

    @property
    def is_patch(self) -> bool:
        """Whether the edit is a patch, which may be over any number of files."""
        return self.format in ("unified_diff", "v4a_patch")

    def but(self, check: str, warning: str) -> FoundEdit:
        """The same edit with one more warning."""
        return replace(self, findings=(*self.findings, Verdict(check, "warning", warning)))


def read_reply(
    text: str, *, original: str, path: str | None = None, language: str | None = None, named: str | None = None
) -> FoundEdit:
    """The edit of the file at `path` in a reply.  `named`: the format that the caller says it has.  Raises
    UnknownEditFormat: the service does not know the format `named`; MalformedEdit: the reply has edits of several files
    or several texts, and it is unclear which is for this file."""
    reader = _Reader(text, original, path, language)
    return reader.read(reader.format if named is None else detect_format(text, named=named))


def detect_format(update: str, *, named: str | None, original: str = "") -> str:
    """The registry's name of the format of a reply's edit.  `update` has LF line ends.  Raises UnknownEditFormat: the
    service does not know the format `named`."""
    if named is None:
        return _Reader(update, original).format
    if named not in EDIT_FORMATS:
        raise UnknownEditFormat(
            "no such edit format",
            value=named,
            limit=list(EDIT_FORMATS),
            remedy="name one of these, or leave the format out",
        )
    return named


def named_files(text: str, known: Collection[str] = ()) -> tuple[str, ...]:
    """The files that a reply says it edits, in the order of the reply.

    A file that only the sentence above a fence mentions counts if it is one of the `known` files.
    """
    return _Reader(text, "").named_files(known)


def read_patch_reply(text: str, originals: Iterable[str] = ()) -> FoundEdit:
    """The edit in a reply over several files.

    A unified diff or V4A patch comes without the text around it.  For any other format `update` is the whole reply: the
    caller reads for each file its part in `parts`, or the whole reply if there are no parts.
    """
    reader = _Reader(text, "\n".join(originals))
    if reader.format == "unified_diff":
        return reader.read("unified_diff")
    if reader.format == "v4a_patch":
        return reader.read_patch()
    if parts := reader.parts():
        return replace(reader.read(reader.format), update=text, parts=parts)
    return FoundEdit(reader.format, text)


def name_finding(edit: FoundEdit, prediction: Prediction) -> Verdict | None:
    """A warning if the first line of a snippet was left out because it looks like the file's name."""
    if edit.format != "lazy_snippet":
        return None
    lines = edit.update.split("\n")
    first = next((at for at, line in enumerate(lines) if line.strip()), None)
    if first is None or named_path(lines[first]) is None or first not in prediction.unplaced:
        return None
    return Verdict(
        CHECK, "warning", f"the first line was taken for the file's name and left out: {lines[first][:80]!r}"
    )


class _Reader:
    """Reads a reply for one file: finds its markers, and gives the text that each format reads."""

    def __init__(self, text: str, original: str, path: str | None = None, language: str | None = None) -> None:
        self._file = FileLines(original)
        lines = _unmarked(_unwrapped(_without_thoughts(text, original)), original).split("\n")
        self._lines = lines = _unnumbered(_unindented(lines, self._file), self._file)
        self._text = "\n".join(lines)
        self._original = original
        self._path = path
        self._language = language
        self._is_prose_file = language == "markdown" or is_prose(path)
        self._marks = {at: mark for at, line in enumerate(lines) if (mark := read_mark(line)) is not None}
        self._has_marks = any(mark.kind != "divide" for mark in self._marks.values())
        self._blocks: Sequence[SearchBlock] = ()
        if self._has_marks:
            with suppress(MalformedEdit):
                self._blocks = read_file_blocks(lines, self._file)
        self._in_blocks = self._within((block.opening, block.closing) for block in self._blocks)
        spans = patch_spans(lines) if "*** " in self._text else []
        self._patch_spans = [span for span in spans if span[0] not in self._in_blocks]
        self._patch: PatchText | None = None
        if self._patch_spans:
            with suppress(MalformedEdit):
                self._patch = parse_v4a(self._text)
        # Nothing else begins inside the lines of blocks and patches.
        self._in_marked = self._in_blocks | self._within(self._patch_spans)
        self._fences = find_fences(lines, self._in_marked)
        # The fences if no line counts as a marker.
        self._plain_fences = find_fences(lines) if self._in_marked else self._fences
        self._json_fences = [f for f in self._fences if f.body and _opens_json(lines[f.opening + 1])]
        self._replacements = read_replacements(self._text)

    @cached_property
    def diff_start(self) -> int | None:
        """The line with which a diff begins.  Raises MalformedEdit if it is a combined diff."""
        starts = (at for at in range(len(self._lines)) if at not in self._in_marked and starts_diff(self._lines, at))
        return next(starts, None)

    def _within(self, stretches: Iterable[tuple[int, int]]) -> set[int]:
        """The lines in the stretches.  A stretch includes its last line."""
        stop = len(self._lines)
        return {at for first, last in stretches for at in range(first, min(last + 1, stop))}

    # -- which format --------------------------------------------------------------------------------------------------
    @cached_property
    def format(self) -> str:
        """The format whose markers the reply has; if there are several, the one that quotes the file."""
        # A text that can only be meant as JSON edits has this format even if it is broken.
        names_pair = has_pair(self._text, PAIRS[:-1]) or (
            '"command"' in self._text and any(f'"{name}"' in self._text for name in OTHER_CALLS)
        )
        is_there = {
            "search_replace": self._has_marks,
            "v4a_patch": bool(self._patch_spans),
            "unified_diff": self.diff_start is not None,
            "json_edit": bool(self._replacements)
            or (names_pair and (_opens_json(self._text) or bool(self._json_fences))),
        }
        found = [name for name in is_there if is_there[name]]
        if found == ["search_replace"] and self._has_own_fence and not any(map(self._may_be_own, self._blocks)):
            return "lazy_snippet"  # the blocks are of other files
        for name in found:
            if self._stands(name):
                return name
        if len(found) == 1 and not any(map(self._is_code, self._outside(found[0]))):
            return found[0]
        if found == ["unified_diff"]:
            # The text begins with a diff's file names, so the rest must be a diff.  Otherwise it is refused.
            first = next(at for at, line in enumerate(self._lines) if line.strip())
            is_named = self._lines[first].startswith(("diff --git ", "--- "))
            if is_named and first == self.diff_start and not self._is_of_file(first):
                return "unified_diff"
        return "lazy_snippet"

    @cached_property
    def _has_own_fence(self) -> bool:
        """Whether a fence without blocks is that of this file."""
        return any(
            fence.path is not None and is_same_file(fence.path, self._path) and self._in_marked.isdisjoint(fence.body)
            for fence in self._plain_fences
        )

    @cached_property
    def _whole_files(self) -> list[str]:
        """The files that have a fence of their own without blocks, in a reply with blocks of others."""
        named = [f.path for f in self._plain_fences if f.is_surely_named and self._in_marked.isdisjoint(f.body)]
        of_blocks = [block.path for block in self._blocks if block.path]
        return [path for path in named if path and of_blocks and not any(is_same_file(path, one) for one in of_blocks)]

    def _may_be_own(self, block: SearchBlock) -> bool:
        return block.path is None or is_same_file(block.path, self._path)

    def _stands(self, name: str) -> bool:
        """Whether the file has the lines that the format quotes, and not only inside such markers of its own."""
        is_new_file = not self._original.strip()
        if name == "search_replace":
            heads = [(self._lines[b.opening : b.dividers[0] + 1], b.start - b.opening) for b in self._blocks]
            return any(
                self._file.stands(head[start:-1]) and not self._file.stands(head, Likeness.TRAILING)
                if any(map(str.strip, head[start:-1]))
                else is_new_file
                for head, start in heads
            )
        if name == "json_edit":
            if any(map(self._is_code, self._outside(name))):
                return False  # It is a value in a program.
            return any(item.old in self._original if item.old.strip() else is_new_file for item in self._replacements)
        for change in self._changes(name):
            # Ignore a hunk that changes nothing: code may have a line that looks like the header of a hunk.
            quotes = [hunk.old for hunk in change.hunks if hunk.quotes and hunk.old != hunk.new]
            if any(map(self._file.stands, quotes)) or (not quotes and change.path and is_new_file):
                return True
        return False

    def _changes(self, name: str) -> Sequence[FileChange]:
        """The changes that a diff or patch tells; none where it can't be read."""
        text = self._patch if name == "v4a_patch" else self._diff
        return text.changes if text is not None else ()

    def _used(self, name: str) -> Collection[int]:
        """The lines of the format's edit."""
        lines = range(len(self._lines))
        if name == "search_replace":
            if self._blocks or not self._marks:
                return self._in_blocks
            first, last = min(self._marks), max(self._marks)
            return range(first, last + 1 if self._marks[last].kind == "close" else len(lines))
        if name == "v4a_patch":
            return self._within(self._patch_spans)
        if name == "unified_diff":
            return self._diff_kept.difference(self._diff.strays if self._diff is not None else ())
        if name == "json_edit":
            first = next((at for at in lines if _opens_json(self._lines[at])), 0)
            return self._within((f.opening, f.closing - 1) for f in self._json_fences) or range(first, len(lines))
        if name == "whole_file" and (fence := file_fence(self._lines, self._path, self._original)) is not None:
            return range(fence.opening, fence.closing + 1)
        return lines

    def _outside(self, name: str) -> Iterator[int]:
        """The lines outside the format's edit.  Fenced text counts only if its fence holds a part of the edit."""
        inside = self._in_marked.union(self._used(name))
        first = min(inside, default=0)
        is_own = self._file.stands(self._lines[first : first + 3], Likeness.TRAILING)
        for fence in self._fences if not is_own else ():
            holds_part = not inside.isdisjoint(range(fence.opening, fence.closing + 1))
            inside.update((fence.opening, fence.closing) if holds_part else range(fence.opening, fence.closing + 1))
        for at, line in enumerate(self._lines):
            if at not in inside and line.strip() and not (name == "unified_diff" and is_preamble(line)):
                yield at

    @cached_property
    def _known(self) -> set[str]:
        return {line.strip() for line in self._file.lines if sum(map(str.isalnum, line[:80])) >= MIN_KNOWN}

    def _is_of_file(self, at: int) -> bool:
        line = self._lines[at]
        return line.strip() in self._known or (strip_comment(line).is_comment and is_marker(line))

    def _is_code(self, at: int) -> bool:
        """Whether a line is code and not prose: it is a line of the file, marks code, or looks like code."""
        return self._is_of_file(at) or _is_code_shaped(self._lines[at])

    # -- what each format reads ----------------------------------------------------------------------------------------
    def read(self, name: str) -> FoundEdit:
        """The reply as the format of that name.  An order behind the edit is doubted: only some are carried out, and
        none beside a format that says exactly what changes."""
        edit = self._read(name)
        if self._is_prose_file and name in ("lazy_snippet", "whole_file") and not self._plain_fences:
            return edit
        carries_out = name == "lazy_snippet" and not is_signed(self._original.split("\n"), edit.update.split("\n"))
        done = edit.update if carries_out else ""
        left = [x for x in self._orders_behind if x.rstrip(".!") not in done and (_added_import(x) or x) not in done]
        for asked in (*self._repeats(edit), *left[:1]):
            edit = edit.but(DOUBT, f"the edit may not do what this sentence asks: {asked[:80]!r}")
        if not left or any(map(_OF_THIS_CODE.match, left)):
            return edit
        # They say nothing about the place of the code above them.
        told = [order.rstrip(".!").lower() for order in left]
        said = (x for x in edit.prose.split("\n") if not any(x.lower() in t or t in x.lower() for t in told))
        return replace(edit, prose="\n".join(said))

    def _repeats(self, edit: FoundEdit) -> list[str]:
        """The sentence around the edit that asks for the same change of something else in the file, if there is one."""
        inside = self._within((fence.opening, fence.closing) for fence in self._fences)
        outside = (line for at, line in enumerate(self._lines) if at not in inside and "`" in line)
        asking = (one for one in outside if len(one) <= MAX_PROSE and _REPEATS.search(one.strip()) is not None)
        found = [line for line in islice(asking, MAX_BEHIND) if reads_as_english(line)]
        # Prose quotes the names that it speaks of.
        code = "\n".join(line for line in edit.update.split("\n") if "`" not in line) if found else ""
        for line in found:
            named = [word.strip("()") for word in line.split("`")[1::2]]
            if any(word and word in self._original and word not in code for word in named):
                return [line.strip()]
        return []

    def _read(self, name: str) -> FoundEdit:
        if name == "lazy_snippet":
            return self._read_snippet()
        if name == "unified_diff":
            if self.diff_start is None:  # without headers it is read like a snippet
                return replace(self._read_snippet(), format="unified_diff")
            changes, strays = self._diff or ((), ())
            hunks = [hunk for change in changes for hunk in change.hunks]
            last = max((line.update_line for hunk in hunks for line in hunk.lines), default=-1)
            kept = self._diff_kept.difference(at for at in strays if at >= last)
            others = [change.path for change in changes if not change.is_for(self._path)]
            return self._found("unified_diff", self._blanked(kept), kept, others)
        others = [path for path in self._paths(name) if self._path is not None and not is_same_file(path, self._path)]
        return self._found(name, self._text, self._used(name), others)

    def _paragraph_above(self, row: int) -> tuple[int, int]:
        """The first line of the last paragraph above `row`, and one past its last line."""
        stop = next((at + 1 for at in range(row - 1, -1, -1) if self._lines[at].strip()), 0)
        least = max(0, stop - MAX_PROSE)
        return next((at + 1 for at in range(stop - 1, least - 1, -1) if not self._lines[at].strip()), least), stop

    @cached_property
    def _orders_behind(self) -> list[str]:
        """The orders in the prose at the reply's end that tell to change something more."""
        found: list[str] = []
        stop = len(self._lines)
        for _ in range(MAX_BEHIND):
            fence = next((fence for fence in self._plain_fences if fence.opening < stop <= fence.closing + 1), None)
            if fence is not None and self._shows_usage(fence):
                stop = self._paragraph_above(fence.opening)[0]
                continue
            start, stop = self._paragraph_above(stop)
            start = max([start, *(fence.closing + 1 for fence in self._plain_fences if fence.closing < stop)])
            text = join(self._lines, range(start, stop))
            is_of_file = any(map(self._is_of_file, range(start, stop)))
            if fence is not None or not start or len(text) > MAX_PROSE or is_of_file:
                break
            orders: list[str] = []
            for sentence in filter(_ORDER_BEHIND.match, _SENTENCE_END.split(text)):
                parts = _NEXT_ORDER.split(sentence.rstrip(".!"))
                orders += [f"{part[:1].upper()}{part[1:]}." for part in parts] if len(parts) > 1 else [sentence]
            if text and not orders and not reads_as_english(text):
                break
            found, stop = orders + found, start
        return found

    def read_patch(self) -> FoundEdit:
        """The patches with all other lines blanked.

        If they can't be read, the text stays as it is, so that the error of the format says why.
        """
        if self._patch is None:
            return FoundEdit("v4a_patch", self._text)
        kept = self._within(self._patch_spans)
        return self._found("v4a_patch", self._blanked(kept), kept, ())

    def parts(self) -> dict[str, str]:
        """The blocks or JSON edits of each file; empty unless each of them names its file directly."""
        parts: defaultdict[str, list[str]] = defaultdict(list)
        if self._whole_files:  # each file reads the reply for itself
            return {}
        is_json = self.format == "json_edit" and all(item.path for item in self._replacements)
        blocks = self._blocks
        if self._has_marks and not blocks:  # One can't be read: its file alone is refused.
            with suppress(MalformedEdit):
                blocks = read_all_blocks(self._lines, self._file)
        if self.format == "search_replace" and all(b.path and named_path(b.path) == b.path for b in blocks):
            for block in blocks:
                lines = self._lines[block.opening : block.closing + 1]
                parts[block.path or ""].append("\n".join([block.path or "", *lines, ""]))
        for item in self._replacements if is_json else ():
            parts[item.path or ""].append(item.as_json())
        return {path: f"[{', '.join(part)}]" if is_json else "".join(part) for path, part in parts.items()}

    def _paths(self, name: str) -> list[str]:
        """The files that the format's edit names."""
        if name in ("v4a_patch", "unified_diff"):
            return [change.path for change in self._changes(name) if change.path]
        if name == "json_edit":
            return [item.path for item in self._replacements if item.path]
        if name != "search_replace":
            return [fence.path for fence in self._fences if fence.path]
        named = [*(block.path for block in self._blocks if block.path), *self._whole_files]
        is_routed = self._path and any(is_same_file(mention, self._path) for mention in self._mentions)
        return self._mentions if is_routed and not named else named

    @property
    def _mentions(self) -> list[str]:
        """The files that the text above blocks speaks of, where none is named outright."""
        return [block.mention for block in self._blocks if block.mention]

    def named_files(self, known: Collection[str]) -> tuple[str, ...]:
        """The files that the edit in the reply's format names."""
        if self.format in ("lazy_snippet", "unified_diff") and self.diff_start is None:
            is_known = match_files((fence.path for fence in self._fences if fence.path), known)
            found = [f.path for f in self._fences if f.path and (f.is_surely_named or is_known[f.path])]
        else:
            found = self._paths(self.format)
        if not found and self.format == "search_replace":
            is_known = match_files(self._mentions, known)
            found = [mention for mention in self._mentions if is_known[mention]]
        return tuple(dict.fromkeys(found))

    def _found(self, name: str, update: str, used: Iterable[int], others: Iterable[str | None]) -> FoundEdit:
        """The edit with reports of the parts left out: prose as a remark, code and other files as warnings."""
        kept = set(used)
        own = {path for path in (*self._paths(name), *(f.path for f in self._plain_fences)) if path}
        if any(is_same_file(path, self._path) for path in own):  # what is another file's part is not left out
            foreign = [f for f in self._plain_fences if f.path and not is_same_file(f.path, self._path)]
            kept |= self._within((fence.opening, fence.closing) for fence in foreign)
            others = {*others, *(fence.path for fence in foreign)}
            if name == "lazy_snippet":  # blocks beside the file's own fence are of others
                kept |= self._in_blocks
                others |= {block.path for block in self._blocks}
        left = [
            at
            for at, line in enumerate(self._lines)
            if at not in kept and line.strip() not in ("", "...", "…") and not is_call(line)
            if not (is_fence(line) or fence_tag(line) is not None or named_path(line) is not None)
        ]
        findings: list[Verdict] = []
        if left:
            in_code = [f for f in self._fences if f.language not in SHELLS and f.opening not in kept]
            is_code = any(at in f.body for f in in_code for at in left[:200]) or any(map(self._is_code, left))
            for line in () if is_code else (self._lines[at] for at in left):
                has_few_words = sum(word.isalpha() for word in line.split()) < MIN_WORDS
                is_code |= has_few_words and line.rstrip().endswith((";", "{", "}"))
            severity: Severity = "warning" if is_code and name != "whole_file" else "pass"
            told = self._lines[left[0]].strip()[:80]
            n = "1 line" if len(left) == 1 else f"{len(left)} lines"
            findings.append(Verdict(CHECK, severity, f"{n} around the edit ignored: {told!r}"))
            unused = [f for f in in_code if not f.path or is_same_file(f.path, self._path)]
            others_in_code = {at for fence in unused for at in fence.body}
            first = next((self._lines[at].strip() for at in left if at in others_in_code), None)
            if first is not None and name != "whole_file":
                findings.append(Verdict(DOUBT, "warning", f"code in the reply was ignored: {first[:80]!r}"))
        if names_left := sorted({path for path in others if path}):
            named = self._paths(name)
            is_own = self._path is not None and any(is_same_file(path, self._path) for path in named)
            if not is_own and len({*named}) == 1 and has_same_name(named[0], self._path):
                names_left = []  # the only one, under another folder
            severity = "pass" if is_own else "warning"
            told = "the reply also changes " + ", ".join(names_left)
            findings += [Verdict(OTHER_FILES, severity, told)] if names_left else []
        return FoundEdit(name, update, "\n".join(self._lines[at] for at in left), tuple(findings))

    # -- diffs ---------------------------------------------------------------------------------------------------------
    @cached_property
    def _diff_kept(self) -> set[int]:
        """The lines that may belong to a diff: the fences that hold one, else all lines from the first header on."""
        holding = [*self._diff_fences]
        mine = [f for f in holding if f.path is None or not f.is_surely_named or is_same_file(f.path, self._path)]
        # Keep a fence's end too: it shows that the diff is complete.
        kept = self._within((fence.opening + 1, fence.closing) for fence in mine or holding)
        if self.diff_start is not None and max(kept, default=-1) < self.diff_start:
            kept.update(range(self.diff_start, len(self._lines)))
        if not kept:
            try:
                own = self._own_fences()
            except MalformedEdit:
                own = self._plain_fences
            kept = self._within((fence.opening + 1, fence.closing) for fence in own)
        return kept or set(range(len(self._lines)))

    @cached_property
    def _diff_fences(self) -> dict[Fence, str]:
        """The fences that hold a diff, each with the diff's first line.  A line with a sign opens no fence."""
        signed = {at for at, line in enumerate(self._lines) if line[:1] in (" ", "+", "-")}
        found: dict[Fence, str] = {}
        for fence in find_fences(self._lines, signed | self._in_marked):
            body = self._lines[fence.opening + 1 : fence.closing]
            if (first := next((line for at, line in enumerate(body) if starts_diff(body, at)), None)) is not None:
                found[fence] = first
        return found

    @cached_property
    def _diff(self) -> PatchText | None:
        with suppress(MalformedEdit):
            return parse_diff(self._blanked(self._diff_kept))
        return None

    def _blanked(self, kept: Collection[int]) -> str:
        """All lines, with those outside `kept` blanked, so that the others keep their numbers."""
        lines = [("```" if fence_tag(line) else line) if at in kept else "" for at, line in enumerate(self._lines)]
        for fence, first in self._diff_fences.items():
            if fence.path and fence.is_surely_named and HUNK_HEADER.match(first):
                lines[fence.opening] = f"diff --git a/{fence.path} b/{fence.path}"
        return "\n".join(lines)

    # -- snippets ------------------------------------------------------------------------------------------------------
    def _own_fences(self) -> list[Fence]:
        """The fences that hold the snippet of this file, without the prose around them.

        These are the fences that name the file and those that name no file.  If no fence names this file, they are all
        fences.  The list is empty if the fences are text of the file.

        Raises MalformedEdit: the fences name several files, and none of them is known to be this one.
        """
        fences = self._plain_fences
        if self.format == "lazy_snippet" and self._has_own_fence:  # blocks are then of other files
            fences = [fence for fence in fences if self._in_blocks.isdisjoint(fence.body)]
        if self._is_prose_file and (page := page_fence(self._lines, fences)) is not None:
            return [page]
        outside = [at for at, line in enumerate(self._lines) if at not in self._fenced and line.strip()]
        if not fences or any(map(self._is_of_file, outside)):
            return []
        if self._is_prose_file:
            is_diff = fences[0].language in DIFF_TITLES
            is_titled = is_diff or fences[0].language in PAGE_TITLES
            if not is_titled and not any(fence.is_surely_named for fence in fences):
                return []
            if is_diff and not is_signed(self._original.split("\n"), self._body(fences)):
                return []
        elif (
            self._original.strip()  # of a new file no fence can show a line
            and not any(map(self._shows_file, fences))
            and any(_is_code_shaped(self._lines[at]) for at in outside)
        ):
            return []
        if len(fences) > 1 and not (self._path or "").endswith((".sh", ".bash", ".zsh", ".ps1")):
            fences = [fence for fence in fences if fence.language not in SHELLS] or fences
        fences = [fence for fence in fences if not self._shows_usage(fence)] or fences
        fences = [fence for fence in fences if not self._is_suggested(fence)] or fences
        if len(fences) > 1:
            fences = [fence if fence.path else self._named_inside(fence) for fence in fences]
        named = {fence.path for fence in fences if fence.path is not None}
        mine = [fence for fence in fences if fence.path is not None and is_same_file(fence.path, self._path)]
        if mine and not self._original.strip():  # what has no name may be of any file
            fences = mine
        elif self._path is not None and mine:
            fences = sorted([*mine, *(fence for fence in fences if fence.path is None)], key=lambda f: f.opening)
        elif len(named) > 1 and any(fence.is_surely_named for fence in fences):
            raise MalformedEdit(
                "the reply is for several files, and it is not clear which of them is this one",
                value=self._path,
                limit=sorted(named),
                remedy="send the `path` of the file, as the reply names it",
            )
        return self._without_others(fences)

    def _named_inside(self, fence: Fence) -> Fence:
        """The fence with the path that a comment in its first line names."""
        first = self._lines[fence.opening + 1] if fence.body else ""
        is_note = strip_comment(first).is_comment and not self._is_of_file(fence.opening + 1)
        path = named_path(first) if is_note else None
        return fence if path is None else replace(fence, path=path, is_surely_named=True)

    def _without_others(self, fences: list[Fence]) -> list[Fence]:
        """The fences without those of another file, and without those that only quote the file; all of them if none
        were left."""
        mine = [fence for fence in fences if self._path is None or not self._is_foreign(fence)]
        if not mine or self._replaced(mine):
            return mine or fences
        left = [f for f in mine if is_order(self._lead(f)) or not self._lead(f).strip() or not self._quotes(f)]
        return left if left and all(map(self._shows_file, left)) else mine

    def _shows_file(self, fence: Fence) -> bool:
        """Whether a line of the file stands in the fence."""
        return any(map(self._is_of_file, fence.body))

    def _quotes(self, fence: Fence) -> bool:
        """Whether the file has the text of the fence as it is, and something in it says more than a bracket."""
        says = any(sum(map(str.isalnum, self._lines[at])) >= MIN_KNOWN for at in fence.body)
        return says and self._file.stands(self._body([fence]), Likeness.TRAILING)

    def _replaced(self, fences: Sequence[Fence]) -> list[str]:
        """Search/replace blocks of fences that come in pairs: "Change this:" with code of the file, and "to this:"."""
        blocks: list[str] = []
        for old, new in zip(fences[::2], fences[1::2], strict=False):
            if not (self._quotes(old) and _OLD_CODE.match(self._lead(old)) and _NEW_CODE.match(self._lead(new))):
                return []
            blocks += ["<<<<<<< SEARCH", *self._body([old]), "=======", *self._body([new]), ">>>>>>> REPLACE"]
        return blocks if len(fences) % 2 == 0 else []

    @cached_property
    def _fenced(self) -> set[int]:
        """The lines in a fence, with its own two."""
        return self._within((fence.opening, fence.closing) for fence in self._plain_fences)

    def _lead(self, fence: Fence) -> str:
        """The last line above a fence that is not blank."""
        return next((self._lines[at] for at in range(fence.opening - 1, -1, -1) if self._lines[at].strip()), "")

    def _is_foreign(self, fence: Fence) -> bool:
        """Whether the words above the fence speak of another file."""
        is_named = fence.path is not None and not fence.is_surely_named and not is_same_file(fence.path, self._path)
        return is_named or _OTHER_FILE.search(self._lead(fence)[:MAX_PROSE]) is not None

    def _is_suggested(self, fence: Fence) -> bool:
        """Whether the fence has code for a case that may never come ("If that is too many, use:")."""
        last = _SENTENCE_END.split(self._lead(fence)[:MAX_PROSE])[-1]
        return fence.path is None and _SUGGESTION.match(last) is not None

    def _shows_usage(self, fence: Fence) -> bool:
        """Whether the fence shows how to try the code: the line above says so, and the file has none of it."""
        above = [line for line in self._lines[max(0, fence.opening - 2) : fence.opening] if line.strip()]
        is_named = fence.path is not None and fence.is_surely_named
        if is_named or not above or not leads_to_usage(above[-1]):
            return False
        return not self._shows_file(fence)

    def _body(self, fences: Sequence[Fence]) -> list[str]:
        """The text of the fences.  With several fences, their fence lines stay as the gaps between them."""
        if len(fences) == 1:
            return [self._lines[at] for at in fences[0].body]
        return [line for f in fences for line in self._lines[f.opening : f.closing + 1]]

    def _orders_above(self, fence: Fence) -> tuple[list[str], str]:
        """Of the paragraph above a fence: the sentences that tell to delete something, and the order that tells what to
        do with the code inside ("" for none)."""
        start, stop = self._paragraph_above(fence.opening)
        text = as_lead(join(self._lines, range(start, stop)))
        if not self._fenced.isdisjoint(range(start, stop)) or not reads_as_english(text):
            return [], ""
        code = [line for line in self._lines[fence.opening + 1 : fence.closing] if line.strip()]
        if _OF_IMPORTS.search(text) is not None and code and all(map(is_import, code)) and not is_order(text):
            return [], IMPORT_ORDER
        sentences = [order for one in _SENTENCE_END.split(text) for order in _as_orders(one)]
        apart = [one for one in sentences if one.endswith(".") and asks_to_delete(one) and reads_as_english(one)]
        if len(apart) == len(sentences) and not any(map(_ORDER_BEHIND.match, apart)):
            return [], text if is_order(text) else ""
        rest = [one for one in sentences if one not in apart]
        if rest and "`" in rest[-1] and is_order(rest[-1]):
            rest = rest[-1:]  # The sentences before it tell why.
        order = " ".join(rest)
        return apart, order if is_order(order) else ""

    def _fenced_pieces(self, fences: Sequence[Fence]) -> list[tuple[str, Sequence[str]]]:
        """The code of each fence with the order above it.  An order to delete is a piece of its own without code, if it
        ends with "." or stands behind the last fence; there an order may also quote the import that it adds."""
        pieces: list[tuple[str, Sequence[str]]] = []
        for fence in fences:
            apart, order = self._orders_above(fence)
            pieces += [*((one, ()) for one in apart), (order, self._body([fence]))]
        if self._is_prose_file or fences[-1].closing == len(self._lines):
            return pieces
        for order in self._orders_behind:
            added = _added_import(order)
            if _OF_THIS_CODE.match(order) and len(fences) == 1 and not pieces[0][0]:
                pieces[0] = (f"{order.rstrip('.!')}:", pieces[0][1])
            elif asks_to_delete(order) and _WISH.search(order) is None and reads_as_english(order):
                pieces.append((order, ()))
            elif added is not None:
                pieces.append((IMPORT_ORDER, [added]))
        return pieces

    def _ordered(self, pieces: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
        """The text of code parts, each in a fence below its order: a line of its own, or "" for none."""
        sign = "`" * max(3, *(len(line) - len(line.lstrip("`")) + 1 for line in self._lines))
        found: list[str] = []
        for order, code in pieces:
            found += [*([order] if order else []), sign, *code, sign]
        return found

    def _read_unfenced(self) -> FoundEdit:
        """The snippet without the prose that stands around it without fences.

        Several code parts with their orders come in fences, each below its order.

        Raises MalformedEdit: there is nothing but prose, and it does not tell to delete anything.
        """
        prose = find_prose(self._lines, self._original.split("\n"), self._language, is_text=self._is_prose_file)
        if not prose:
            return FoundEdit("lazy_snippet", self._text)
        pieces: list[tuple[str, range]] = []
        order = ""
        for stop, span in zip([*(span.start for span in prose), len(self._lines)], [None, *prose], strict=True):
            start = span.stop if span is not None else 0
            code = [at for at in range(start, stop) if self._lines[at].strip()]
            if span is not None:
                text = join(self._lines, span)
                order = text if is_order(text) else ""
            if code or asks_to_delete(order):
                pieces.append((order, range(code[0], code[-1] + 1) if code else range(0)))
        if not pieces:
            told = join(self._lines, prose[0])
            raise MalformedEdit("the reply has prose but no code", value=told, remedy="send the lines that change")
        used = [at for _, code in pieces for at in code]
        if len(pieces) > 1 or not used:
            parts = [(order, self._lines[code.start : code.stop]) for order, code in pieces]
            return self._found("lazy_snippet", "\n".join([*self._ordered(parts), ""]), used, ())
        # Blank lines behind the code are left as they are: the last line may be meant for the file.
        end = next((span.start for span in prose if span.start > used[-1]), len(self._lines))
        edit = self._found("lazy_snippet", "\n".join(self._lines[used[0] : end]), used, ())
        if (order := pieces[0][0]) and self._is_prose_file and not self._original.strip():
            edit = edit.but(
                DOUBT, f"this sentence was ignored, because a new page has nothing to change: {order[:80]!r}"
            )
        return edit

    def _read_snippet(self) -> FoundEdit:
        fences = self._own_fences()
        if not fences:
            found = self._plain_fences
            is_new_page = self._is_prose_file and not self._original.strip()
            if is_new_page and len(found) > 1 and found[0].opening == 0 and found[-1].closing >= len(self._lines) - 2:
                edit = FoundEdit("lazy_snippet", self._text)
                return edit.but(CHECK, "there may be a fence around the whole page: it was left there")
            return self._read_unfenced()
        is_open = fences[-1].closing == len(self._lines)
        used = self._within((fence.opening, fence.closing) for fence in fences)
        chosen = {fence.opening for fence in fences}
        others = [f.path for f in self._plain_fences if f.opening not in chosen and f.is_surely_named]
        if blocks := self._replaced(fences):
            return self._found("search_replace", "\n".join([*blocks, ""]), used, others)
        pieces = self._fenced_pieces(fences)
        is_ordered = len(pieces) > 1 and any(order for order, _ in pieces)
        body = self._ordered(pieces) if is_ordered else self._body(fences)
        if is_open and body and body[-1] == "":
            body = body[:-1]
        edit = self._found("lazy_snippet", "\n".join([*body, ""]), used, others)
        left = (f for f in self._plain_fences if f.opening not in chosen and self._is_foreign(f))
        if self._path is not None and (foreign := next(left, None)) is not None:
            told = f"a part of the reply seems to be of another file and was left out: {self._lead(foreign)[:80]!r}"
            edit = edit.but(DOUBT, told)
        if fences[0] not in self._plain_fences:
            edit = edit.but(CHECK, "the fence around the page was taken to end at the last line")
        wrong = [f.path for f in fences if f.path and f.is_surely_named and not is_same_file(f.path, self._path)]
        is_marked = any(is_marker(line) or is_fence(line) for line in body)
        if len(fences) == 1 and not (
            is_open or is_marked or is_ordered or pieces[0][0] or wrong or self._is_prose_file
        ):
            edit = replace(edit, may_be_file=True)
        if wrong and not (has_same_name(wrong[0], self._path) and any(map(self._shows_file, fences))):
            edit = edit.but(CHECK, f"the edit names another file: {wrong[0]}")
        return edit.but(CHECK, "the fence around the edit has no end: it may be cut short") if is_open else edit


def _is_code_shaped(line: str) -> bool:
    """Whether the line looks like code by its indentation, its first word, or a multi-line string's delimiter."""
    text = line.strip()
    if line[:4] in ("    ", "\t") or text.endswith(('"""', "'''", '"""\\', "'''\\")):
        return True
    return text.startswith(CODE_WORDS) and text.endswith((":", "{", ";", ")", "}")) and not text.endswith(".)")


def _added_import(order: str) -> str | None:
    """The import that an order quotes and tells to add."""
    match = _ADDED_CODE.match(order)
    return match["code"] if match is not None and is_import(match["code"]) else None


def _as_orders(sentence: str) -> list[str]:
    """A sentence above code as orders: one that first tells to delete something as two, and leave to delete the one
    thing that it quotes as an order to do so; any other as it is."""
    parts = [sentence]
    first, *rest = _NEXT_ORDER.split(sentence, maxsplit=1)
    if rest and sentence.endswith(":") and asks_to_delete(first):
        changed = _CHANGE_TO.match(rest[0])
        parts = [f"{first}.", rest[0] if changed is None else f"Replace {changed['what']} with:"]
    for at, part in enumerate(parts):
        named = part.split("`")[1::2]
        if len(named) == 1 and _MAY_DELETE.search(part) is not None and _CONDITION.search(part) is None:
            parts[at] = f"Remove `{named[0]}`."
    return parts


def _opens_json(line: str) -> bool:
    return line.lstrip()[:1] in ("{", "[")


def _without_thoughts(text: str, original: str) -> str:
    """The reply without the reasoning that it begins with.  Some servers take off the opening tag: then the closing one
    stands alone on its line.  The text stays where nothing follows, or where the file has such a tag itself."""
    for tag in THOUGHTS:
        thoughts, closing, rest = text.partition(f"</{tag}>")
        if not closing or not rest.strip() or closing in original:
            continue
        is_alone = thoughts[-1:] in ("", "\n") and rest[0] == "\n" and f"<{tag}>" not in text
        is_fenced = sum(map(is_fence, thoughts.split("\n"))) % 2 == 1
        if text.lstrip().startswith(f"<{tag}>") or (is_alone and not is_fenced):
            return rest.lstrip("\n")
    return text


def _unwrapped(text: str) -> str:
    """The edit in the JSON of a tool call: its only string with markers of an edit."""
    if not _opens_json(text) or not any(sign in text for sign in WRAPPED_SIGNS) or has_pair(text):
        return text
    try:
        value: object = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return text
    found: list[str] = []
    waiting = [value]
    while waiting and len(found) < 2:
        item = waiting.pop()
        if isinstance(item, str) and any(sign in item for sign in WRAPPED_SIGNS):
            found.append(item)
        waiting += list(item.values()) if isinstance(item, dict) else item if isinstance(item, list) else []
    return normalise(found[0]) if len(found) == 1 and "\n" in found[0] else text


def _unmarked(text: str, original: str) -> str:
    """The text without byte-order marks at the start of lines, which stand for that of the file: the file keeps its
    own.  A unified diff says itself what becomes of the mark."""
    is_diff = "*** Begin Patch" not in text and any(map(HUNK_HEADER.match, text.split("\n")))
    return text if MARK not in text or MARK in original or is_diff else _MARKED.sub(r"\1", text)


def _unnumbered(lines: list[str], file: FileLines) -> list[str]:
    """The lines, with the numbers taken off that stand before all code of a fence, or of the whole text, one after the
    other; only where the file has a line without its number, and none with it."""
    found = list(lines)
    for stretch in [fence.body for fence in find_fences(lines)] or [range(len(lines))]:
        at = [k for k in stretch if lines[k].strip()]
        matches = [match for k in at if len(lines[k]) <= MAX_PROSE and (match := _NUMBERED.match(lines[k])) is not None]
        numbers = [int(match["number"][:9]) for match in matches]
        if len(at) < 2 or len(matches) < len(at) or any(b != a + 1 for a, b in pairwise(numbers)):
            continue
        says = [match["code"] for match in matches if sum(map(str.isalnum, match["code"])) >= MIN_KNOWN]
        if any(file.stands([code]) for code in says) and not any(file.stands([lines[k]]) for k in at):
            for k, match in zip(at, matches, strict=True):
                found[k] = match["code"]
    return found


def _unindented(lines: Sequence[str], file: FileLines) -> list[str]:
    """The lines, with fenced text and blocks inside list items moved to the left edge.

    An indented block moves only if the file has the lines that it quotes, and a fence only if no line of the file
    stands outside of all fences.  Otherwise they may be text of the file.
    """
    found, opening, divider = list(lines), -1, -1
    stretches = [range(fence.opening, min(fence.closing + 1, len(lines))) for fence in find_fences(lines)]
    if any(lines[stretch.start][:1] in (" ", "\t") for stretch in stretches):
        fenced = {at for stretch in stretches for at in stretch}
        outside = [line for at, line in enumerate(lines) if at not in fenced]
        says = [line for line in outside if sum(map(str.isalnum, line)) >= MIN_KNOWN]
        stretches = [] if any(file.stands([line]) for line in says) else stretches
    for at, line in enumerate(lines):
        mark = read_mark(line.strip()) if line[:1] in (" ", "\t") else None
        if mark is not None and mark.kind == "open" and opening < 0:
            opening = divider = at
        elif mark is not None and mark.kind == "divide" and divider == opening:
            divider = at
        elif mark is not None and mark.kind == "close" and opening >= 0:
            n_blanks = len(lines[opening]) - len(lines[opening].lstrip())
            if divider > opening and file.stands([text[n_blanks:] for text in lines[opening + 1 : divider]]):
                stretches.append(range(opening, at + 1))
            opening = -1
    for stretch in stretches:
        line = found[stretch.start]
        blanks = line[: len(line) - len(line.lstrip())]
        texts = found[stretch.start : stretch.stop]
        if blanks and not file.stands([line]) and all(not text.strip() or text.startswith(blanks) for text in texts):
            found[stretch.start : stretch.stop] = [text.removeprefix(blanks) for text in texts]
    return found
