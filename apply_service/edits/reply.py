"""What a model's reply holds: which format its edit is in, the text that the format reads, and what is only said.

First step of a request.  Complete markers decide the format, whatever prose, fences, headings or wrappers stand around
them: search/replace blocks, V4A patches, unified diffs, JSON edits.  What has none is a lazy snippet, out of its fence
where prose stands around it.  Content is never control: where the text around the markers is code, and what they quote
does not stand in the file, they are text of that code (a test that holds a diff, a page about one).  Nothing that is
left out goes unsaid: it is in `prose` and `findings`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from apply_service.edits.diff_headers import HUNK_HEADER, is_preamble
from apply_service.edits.diff_parser import DiffText, parse_diff
from apply_service.edits.envelope import (
    PROSE_SUFFIXES,
    SHELLS,
    Fence,
    fence_tag,
    find_fences,
    is_fence,
    is_same_file,
    named_path,
)
from apply_service.edits.fidelity import normalise
from apply_service.edits.file_change import FileChange
from apply_service.edits.json_edit import OTHER_CALLS, PAIRS, has_pair, read_replacements
from apply_service.edits.lazy.signed import is_signed
from apply_service.edits.line_search import FileLines, Likeness
from apply_service.edits.markers import is_marker, strip_comment
from apply_service.edits.search_replace import read_file_blocks
from apply_service.edits.search_replace_blocks import Block, BlockText, Mark, read_mark
from apply_service.edits.unified_diff import starts_diff
from apply_service.edits.v4a_parser import PatchText, is_call, parse_v4a, patch_spans
from apply_service.edits.whole_file import file_fence
from apply_service.errors import MalformedEdit, UnknownEditFormat
from apply_service.registry import EDIT_FORMATS, names
from apply_service.types import Prediction, Severity, Verdict

CHECK = "reply"
OTHER_FILES = "other_files"
"""Checks of findings: what is left out, and that other files are spoken of."""
DIFF_TITLES = ("diff", "patch", "udiff")
MARKDOWN_TITLES = ("md", "mdx", "markdown")
CODE_WORDS = (
    "def ",
    "class ",
    "import ",
    "from ",
    "#include",
    "const ",
    "let ",
    "var ",
    "function ",
    "export ",
    "return ",
)
WRAPPED_SIGNS = ("*** Begin Patch", "<<<<<<< SEARCH", "------- SEARCH", "+++ ")
CODE_ENDS = (";", "{", "}")
MIN_WORDS = 4
MIN_KNOWN = 6
"""Letters and digits that a line needs to be known for one of the file."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply as read for one file."""

    format: str
    update: str
    """What the format reads; LF line ends."""
    prose: str = ""
    """What stands around the edit, which may say where it belongs."""
    findings: tuple[Verdict, ...] = ()
    """What was left out."""
    is_patch: bool = False
    """`update` is a patch over any number of files."""


def read_reply(
    text: str, *, original: str, path: str | None = None, language: str | None = None, named: str | None = None
) -> Reply:
    """The edit of the file at `path` that a reply tells.  `named`: the format that the caller says it has.

    Raises:
        UnknownEditFormat: `named` is none that the service knows.
        MalformedEdit: the reply is for several files or in several texts, and it is not clear which is this one's.
    """
    reader = _Reader(_unwrapped(text), original, path, language)
    return reader.read(reader.format if named is None else known_format(named))


def read_format(text: str, *, original: str, path: str | None = None) -> str:
    """The name of the format that a reply's edit is in."""
    return _Reader(_unwrapped(text), original, path, None).format


def known_format(named: str) -> str:
    """The name.  Raises UnknownEditFormat for one that the service does not know."""
    if named not in EDIT_FORMATS:
        raise UnknownEditFormat(
            "no such edit format", value=named, limit=list(names(EDIT_FORMATS)), remedy="name one of these, or none"
        )
    return named


def named_files(text: str, known: Collection[str] = ()) -> tuple[str, ...]:
    """The files that a reply names as those it edits, in its order; a fence's name that only the sentence above it
    mentions counts where it is one of the `known` files'."""
    return _Reader(_unwrapped(text), "", None, None).named_files(known)


def read_patch_reply(text: str, originals: Iterable[str] = ()) -> Reply:
    """A reply over several files, as far as its format is one for several: a unified diff or a V4A patch without
    anything around it.  Of any other format `update` is the reply as it is, to be read for each file."""
    reader = _Reader(_unwrapped(text), "\n".join(originals), None, None)
    if reader.format == "unified_diff" and reader.has_diff_headers:
        return replace(reader.read("unified_diff"), is_patch=True)
    if reader.format == "v4a_patch":
        return replace(reader.read_patch(), is_patch=True)
    return Reply(reader.format, text)


def _unwrapped(text: str) -> str:
    """The edit out of the JSON of a tool's call: its one string with markers of an edit."""
    if text.lstrip()[:1] not in ("{", "[") or not any(sign in text for sign in WRAPPED_SIGNS) or has_pair(text):
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


def name_finding(reply: Reply, prediction: Prediction) -> Verdict | None:
    """A warning where the first line of a snippet was left out because it reads as the file's name."""
    if reply.format != "lazy_snippet":
        return None
    lines = reply.update.split("\n")
    first = next((at for at, line in enumerate(lines) if line.strip()), None)
    if first is None or named_path(lines[first]) is None or first not in prediction.unplaced:
        return None
    return Verdict(
        CHECK, "warning", f"the first line was taken for the file's name and left out: {lines[first][:80]!r}"
    )


class _Reader:
    def __init__(self, text: str, original: str, path: str | None, language: str | None) -> None:
        self._file = FileLines(original)
        self._lines = _unindented(text.split("\n"), self._file)
        self._text = "\n".join(self._lines)
        self._original = original
        self._path = path
        self._is_prose_file = language == "markdown" or (path or "").lower().endswith(PROSE_SUFFIXES)

    @property
    def has_diff_headers(self) -> bool:
        return self._diff_start is not None

    def read_patch(self) -> Reply:
        """The patches with all else blanked; as they are where they can't be read, which says why."""
        if self._patch is None:
            return Reply("v4a_patch", self._text)
        kept = [False] * len(self._lines)
        for at in self._patch_lines():
            kept[at] = True
        return self._reply("v4a_patch", "\n".join(self._blanked(kept)), self._patch_lines(), ())

    def read(self, name: str) -> Reply:
        """The reply as the format of that name."""
        if name == "lazy_snippet":
            return self._read_snippet()
        if name == "unified_diff":
            return self._read_diff()
        used = {
            "search_replace": self._block_lines,
            "v4a_patch": self._patch_lines,
            "json_edit": self._json_lines,
            "whole_file": self._file_lines,
        }.get(name)
        if used is None:
            return Reply(name, self._text)
        return self._reply(name, self._text, used(), self._other_files(name))

    @cached_property
    def _known(self) -> set[str]:
        return {line.strip() for line in self._file.lines if _says_something(line)}

    # -- which format ----------------------------------------------------------------------------------------------
    @cached_property
    def format(self) -> str:
        """The format whose markers the reply has; of several the one that quotes the file."""
        found = [
            name
            for name, is_there in (
                ("search_replace", self._blocks is not None or self._has_marks),
                ("v4a_patch", bool(self._patch_spans)),
                ("unified_diff", self._diff_start is not None),
                ("json_edit", self._is_json),
            )
            if is_there
        ]
        for name in found:
            if self._stands(name):
                return name
        if len(found) == 1 and not any(self._is_code(at) for at in self._outside(found[0])):
            return found[0]
        return "unified_diff" if found == ["unified_diff"] and self._opens_with_names else "lazy_snippet"

    @property
    def _opens_with_names(self) -> bool:
        """Whether the reply begins with a diff's names of files: what follows has to be a diff, or is refused."""
        at = next(at for at, line in enumerate(self._lines) if line.strip())
        is_named = self._lines[at].startswith(("diff --git ", "--- "))
        return is_named and at == self._diff_start and not self._is_of_file(at)

    @cached_property
    def _has_marks(self) -> bool:
        """Whether there is an opening or closing marker, or one that is nearly right."""
        marks = (read_mark(line) for line in self._lines)
        return any(mark is not None and mark.kind != "divide" for mark in marks)

    @cached_property
    def _blocks(self) -> BlockText | None:
        try:
            return read_file_blocks(self._lines, self._file) if self._has_marks else None
        except MalformedEdit:
            return None

    @cached_property
    def _in_blocks(self) -> list[bool]:
        inside = [False] * len(self._lines)
        for block in self._blocks.blocks if self._blocks is not None else ():
            inside[block.opening : block.closing + 1] = [True] * (block.closing + 1 - block.opening)
        return inside

    @cached_property
    def _patch_spans(self) -> list[tuple[int, int]]:
        if "*** " not in self._text:
            return []
        return [span for span in patch_spans(self._lines) if not self._in_blocks[span[0]]]

    @cached_property
    def _patch(self) -> PatchText | None:
        try:
            return parse_v4a(self._text) if self._patch_spans else None
        except MalformedEdit:
            return None

    @cached_property
    def _in_marked(self) -> list[bool]:
        """Lines of blocks and patches, in which nothing else begins."""
        inside = list(self._in_blocks)
        for begin, end in self._patch_spans:
            inside[begin : end + 1] = [True] * (end + 1 - begin)
        return inside

    @cached_property
    def _diff_start(self) -> int | None:
        starts = (at for at in range(len(self._lines)) if not self._in_marked[at] and starts_diff(self._lines, at))
        return next(starts, None)

    @cached_property
    def _is_json(self) -> bool:
        """Whether there is a JSON edit, or a text that can only be meant as one."""
        if read_replacements(self._text):
            return True
        is_call = '"command"' in self._text and any(f'"{name}"' in self._text for name in OTHER_CALLS)
        if not is_call and not has_pair(self._text, PAIRS[:-1]):
            return False
        opens = [self._text.lstrip()[:1]]
        opens += [self._lines[f.opening + 1].lstrip()[:1] for f in self._fences if f.opening + 1 < f.closing]
        return any(char in ("{", "[") for char in opens)

    @cached_property
    def _fences(self) -> list[Fence]:
        return find_fences(self._lines, self._in_marked)

    @cached_property
    def _plain_fences(self) -> list[Fence]:
        """The fences where no marker is taken for one."""
        return find_fences(self._lines)

    def _stands(self, name: str) -> bool:
        """Whether the format's quotes stand in the file, other than inside such markers of the file's own."""
        if name == "search_replace":
            return self._blocks is not None and any(self._block_stands(block) for block in self._blocks.blocks)
        if name == "v4a_patch":
            return self._patch is not None and self._changes_stand(self._patch.changes)
        if name == "unified_diff":
            text = self._diff(self._diff_kept())
            return text is not None and self._changes_stand(text.changes)
        if any(self._is_code(at) for at in self._outside(name)):
            return False  # a value in a program
        found = read_replacements(self._text)
        return any(item.old in self._original if item.old.strip() else not self._original.strip() for item in found)

    def _block_stands(self, block: Block) -> bool:
        old = self._lines[block.start : block.dividers[0]]
        if not any(line.strip() for line in old):
            return not self._original.strip()
        head = self._lines[block.opening : block.dividers[0] + 1]
        return self._file.stands(old) and not self._file.stands(head, Likeness.TRAILING)

    def _changes_stand(self, changes: Iterable[FileChange]) -> bool:
        for change in changes:
            # A hunk that changes nothing is none: code may hold a line like a hunk's header.
            quotes = [h.old for h in change.hunks if h.old != h.new and any(line.strip() for line in h.old)]
            if any(self._file.stands(quote) for quote in quotes):
                return True
            if not quotes and change.path and not self._original.strip():
                return True
        return False

    def _outside(self, name: str) -> Sequence[int]:
        """The lines that are no part of the format's edit; of fenced text only what stands beside a part of it."""
        if name == "search_replace" and self._blocks is None:
            marks = [(at, mark.kind) for at, line in enumerate(self._lines) if (mark := read_mark(line)) is not None]
            used: Iterable[int] = range(marks[0][0], marks[-1][0] + 1 if marks[-1][1] == "close" else len(self._lines))
        elif name == "unified_diff":
            kept = self._diff_kept()
            text = self._diff(kept)
            strays = set(text.strays) if text is not None else set()
            used = [at for at, keeps in enumerate(kept) if keeps and at not in strays]
        else:
            used = {
                "search_replace": self._block_lines,
                "v4a_patch": self._patch_lines,
                "json_edit": self._json_lines,
            }[name]()
        inside = [*self._in_marked]
        for at in used:
            inside[at] = True
        first = inside.index(True) if True in inside else 0
        is_own = self._file.stands(self._lines[first : first + 3], Likeness.TRAILING)
        for fence in self._fences if not is_own else ():
            span = slice(fence.opening, fence.closing + 1)
            if any(inside[span]):
                inside[fence.opening] = True
                inside[fence.closing : fence.closing + 1] = [True] * len(inside[fence.closing : fence.closing + 1])
            else:
                inside[span] = [True] * len(inside[span])
        left = [at for at, is_inside in enumerate(inside) if not is_inside and self._lines[at].strip()]
        return [at for at in left if name != "unified_diff" or not is_preamble(self._lines[at])]

    def _is_code(self, at: int) -> bool:
        """Whether a line is code rather than something said: the file's own, a marker for code, or shaped so."""
        return self._is_of_file(at) or _is_code_shaped(self._lines[at])

    def _is_of_file(self, at: int) -> bool:
        line = self._lines[at]
        return line.strip() in self._known or (strip_comment(line).is_comment and is_marker(line))

    # -- what each format uses -------------------------------------------------------------------------------------
    def _block_lines(self) -> Iterable[int]:
        return (at for at, is_inside in enumerate(self._in_blocks) if is_inside)

    def _patch_lines(self) -> Iterable[int]:
        for begin, end in self._patch_spans:
            yield from range(begin, end + 1)

    def _json_lines(self) -> Iterable[int]:
        fenced = [f for f in self._fences if f.opening + 1 < f.closing and _opens_json(self._lines[f.opening + 1])]
        for fence in fenced:
            yield from range(fence.opening, fence.closing)
        if not fenced:
            first = next((at for at, line in enumerate(self._lines) if _opens_json(line)), 0)
            yield from range(first, len(self._lines))

    def _file_lines(self) -> Iterable[int]:
        fence = file_fence(self._lines, self._path, self._original)
        return range(len(self._lines)) if fence is None else range(fence.opening, fence.closing + 1)

    # -- diffs -----------------------------------------------------------------------------------------------------
    def _diff_kept(self) -> list[bool]:
        """Which lines a diff may stand in: the fences that hold one, else all from its first header on."""
        kept = [False] * len(self._lines)
        holding = self._diff_fences
        mine = [f for f in holding if f.path is None or not f.is_surely_named or is_same_file(f.path, self._path)]
        for fence in mine or holding:
            self._keep(fence, kept)
        if self._diff_start is not None and not any(kept[self._diff_start :]):
            kept[self._diff_start :] = [True] * (len(kept) - self._diff_start)
        if not any(kept):
            own = self._fences_of_any()
            kept = [not own] * len(kept)
            for fence in own:
                self._keep(fence, kept)
        return kept

    def _keep(self, fence: Fence, kept: list[bool]) -> None:
        """Keep a fence's text and its end, which says that the diff is whole."""
        end = min(fence.closing + 1, len(self._lines))
        kept[fence.opening + 1 : end] = [True] * (end - fence.opening - 1)

    @cached_property
    def _diff_fences(self) -> list[Fence]:
        """The fences that hold a diff; a line with a sign is a hunk's and no fence."""
        signed = [
            is_in or line[:1] in (" ", "+", "-") for is_in, line in zip(self._in_marked, self._lines, strict=True)
        ]
        return [fence for fence in find_fences(self._lines, signed) if self._holds_diff(fence)]

    def _holds_diff(self, fence: Fence) -> bool:
        body = self._lines[fence.opening + 1 : fence.closing]
        return any(starts_diff(body, at) for at in range(len(body)))

    def _diff(self, kept: Sequence[bool]) -> DiffText | None:
        try:
            return parse_diff("\n".join(self._blanked(kept)))
        except MalformedEdit:
            return None

    def _blanked(self, kept: Sequence[bool]) -> list[str]:
        lines, kept = ["```" if fence_tag(line) else line for line in self._lines], list(kept)
        for fence in self._diff_fences:
            body = self._lines[fence.opening + 1 : fence.closing]
            starts = [at for at in range(len(body)) if starts_diff(body, at)]
            if fence.path and fence.is_surely_named and starts and HUNK_HEADER.match(body[starts[0]]):
                lines[fence.opening] = f"diff --git a/{fence.path} b/{fence.path}"
                kept[fence.opening] = True
        return [line if keeps else "" for line, keeps in zip(lines, kept, strict=True)]

    def _read_diff(self) -> Reply:
        """The diff with all else blanked, so that its lines keep their numbers; without headers what a snippet is."""
        if not self.has_diff_headers:
            return replace(self._read_snippet(), format="unified_diff")
        kept = self._diff_kept()
        text = self._diff(kept)
        if text is not None:
            last = max((line.update_line for c in text.changes for h in c.hunks for line in h.lines), default=-1)
            for at in text.strays:
                kept[at] = kept[at] and at < last
        others = [change.path for change in text.changes if not change.is_for(self._path)] if text is not None else []
        used = [at for at, keeps in enumerate(kept) if keeps]
        return self._reply("unified_diff", "\n".join(self._blanked(kept)), used, others)

    # -- snippets --------------------------------------------------------------------------------------------------
    def _own_fences(self) -> list[Fence]:
        """The fences that a snippet of this file stands in, out of the prose around them; none where the fences are
        text of the file, or there are none.

        Raises:
            MalformedEdit: the fences are of several files, and none is known to be this one.
        """
        fences = self._plain_fences
        inside = [False] * len(self._lines)
        for fence in fences:
            inside[fence.opening : fence.closing + 1] = [True] * len(inside[fence.opening : fence.closing + 1])
        outside = [at for at, is_inside in enumerate(inside) if not is_inside and self._lines[at].strip()]
        if not fences or any(self._is_of_file(at) for at in outside):
            return []
        is_known = any(self._is_of_file(at) for f in fences for at in range(f.opening + 1, f.closing))
        if self._is_prose_file:
            is_titled = fences[0].language in (*MARKDOWN_TITLES, *DIFF_TITLES) or any(f.is_surely_named for f in fences)
            if not is_titled or (fences[0].language in DIFF_TITLES and not self._is_prefixed_body(fences)):
                return []
        elif not is_known and any(_is_code_shaped(self._lines[at]) for at in outside):
            return []
        return self._chosen(fences)

    def _fences_of_any(self) -> list[Fence]:
        """The fences of this file, or of all files where it is not clear which are."""
        try:
            return self._own_fences()
        except MalformedEdit:
            return self._plain_fences

    def _is_prefixed_body(self, fences: Sequence[Fence]) -> bool:
        return is_signed(self._original.split("\n"), self._body(fences))

    def _chosen(self, fences: list[Fence]) -> list[Fence]:
        """The fences of this file: those that name it, those that name none, or all where one other name stands."""
        if len(fences) > 1 and not (self._path or "").endswith((".sh", ".bash", ".zsh", ".ps1")):
            fences = [fence for fence in fences if fence.language not in SHELLS] or fences
        named = {fence.path for fence in fences if fence.path is not None}
        mine = [fence for fence in fences if fence.path is not None and is_same_file(fence.path, self._path)]
        if self._path is not None and mine:
            return [*mine, *(fence for fence in fences if fence.path is None)]
        if len(named) > 1 and any(fence.is_surely_named for fence in fences):
            raise MalformedEdit(
                "the reply is for several files, and none of them is known to be this one",
                value=self._path,
                limit=sorted(named),
                remedy="send `path`, as the reply names it",
            )
        return fences

    def _body(self, fences: Sequence[Fence]) -> list[str]:
        """The text of one fence; of several, with their fences as the gaps between them."""
        if len(fences) == 1:
            return self._lines[fences[0].opening + 1 : fences[0].closing]
        return [line for f in fences for line in self._lines[f.opening : f.closing + 1]]

    def _read_snippet(self) -> Reply:
        fences = self._own_fences()
        if not fences:
            return Reply("lazy_snippet", self._text)
        body = self._body(fences)
        if fences[-1].closing == len(self._lines) and body and body[-1] == "":
            body = body[:-1]
        used = [at for fence in fences for at in range(fence.opening, fence.closing + 1)]
        chosen = {fence.opening for fence in fences}
        others = [f.path for f in self._plain_fences if f.opening not in chosen and f.is_surely_named]
        reply = self._reply("lazy_snippet", "\n".join([*body, ""]), used, others)
        found = list(reply.findings)
        wrong = [f.path for f in fences if f.path and f.is_surely_named and not is_same_file(f.path, self._path)]
        if wrong:
            found.append(Verdict(CHECK, "warning", f"the edit names another file: {wrong[0]}"))
        if fences[-1].closing == len(self._lines):
            found.append(Verdict(CHECK, "warning", "the fence around the edit has no end: it may be cut short"))
        return replace(reply, findings=tuple(found))

    # -- what is left ----------------------------------------------------------------------------------------------
    def _reply(self, name: str, update: str, used: Iterable[int], others: Iterable[str | None]) -> Reply:
        """The reply with what is left out: prose by the way, code and other files as warnings."""
        kept = set(used)
        left = [at for at, line in enumerate(self._lines) if at not in kept and not _is_wrapping(line)]
        findings: list[Verdict] = []
        if left:
            in_code = [f for f in self._fences if f.language not in SHELLS and f.opening not in kept]
            is_fenced = any(f.opening < at < f.closing for f in in_code for at in left[:200])
            is_code = is_fenced or any(self._is_code(at) or _ends_as_code(self._lines[at]) for at in left)
            severity: Severity = "warning" if is_code and name != "whole_file" else "pass"
            told = self._lines[left[0]].strip()[:80]
            findings.append(
                Verdict(CHECK, severity, f"{len(left)} lines of the reply are no part of the edit: {told!r}")
            )
        if names_left := sorted({path for path in others if path}):
            findings.append(Verdict(OTHER_FILES, "warning", "the reply also changes " + ", ".join(names_left)))
        return Reply(name, update, "\n".join(self._lines[at] for at in left), tuple(findings))

    def _other_files(self, name: str) -> list[str]:
        if self._path is None:
            return []
        return [path for path in self._paths_of(name) if not is_same_file(path, self._path)]

    def _paths_of(self, name: str) -> list[str]:
        if name == "search_replace":
            blocks = self._blocks.blocks if self._blocks is not None else ()
            named = [block.path for block in blocks if block.path]
            spoken = [block.mention for block in blocks if block.mention]
            is_routed = not named and any(is_same_file(mention, self._path) for mention in spoken) and self._path
            return spoken if is_routed else named
        if name == "v4a_patch":
            return [change.path for change in self._patch.changes] if self._patch is not None else []
        if name == "unified_diff":
            text = self._diff(self._diff_kept())
            return [change.path for change in text.changes if change.path] if text is not None else []
        if name == "json_edit":
            return [item.path for item in read_replacements(self._text) if item.path]
        return [fence.path for fence in self._fences if fence.path]

    def named_files(self, known: Collection[str]) -> tuple[str, ...]:
        """The files of the reply's format."""
        if self.format in ("lazy_snippet", "unified_diff") and self._diff_start is None:
            found = [
                fence.path
                for fence in self._fences
                if fence.path and (fence.is_surely_named or any(is_same_file(fence.path, path) for path in known))
            ]
        else:
            found = self._paths_of(self.format)
        if not found and self.format == "search_replace" and self._blocks is not None:
            spoken = [block.mention for block in self._blocks.blocks if block.mention]
            found = [name for name in spoken if any(is_same_file(name, path) for path in known)]
        return tuple(dict.fromkeys(found))


def _is_wrapping(line: str) -> bool:
    """Whether a line outside an edit says nothing that a reader would miss."""
    bare = line.strip()
    return (
        bare in ("", "...", "…")
        or is_fence(line)
        or fence_tag(line) is not None
        or is_call(line)
        or (named_path(line) is not None)
    )


def _says_something(line: str) -> bool:
    return sum(char.isalnum() for char in line[:80]) >= MIN_KNOWN


def _is_code_shaped(line: str) -> bool:
    """Whether the line reads as code by its shape alone: deeply indented, a statement's first word, a string's edge."""
    text = line.strip()
    if line[:4] in ("    ", "\t") or text.endswith(('"""', "'''", '"""\\', "'''\\")):
        return True
    return text.startswith(CODE_WORDS) and text.endswith((":", "{", ";", ")", "}")) and not text.endswith(".)")


def _ends_as_code(line: str) -> bool:
    """Whether the line ends as a statement does and has too few words for a sentence."""
    return line.rstrip().endswith(CODE_ENDS) and sum(word.isalpha() for word in line.split()) < MIN_WORDS


def _unindented(lines: Sequence[str], file: FileLines) -> list[str]:
    """The lines with fenced text and blocks at the left edge where they stand in an item of a list.

    An indented block stays where it is unless what it quotes stands in the file: it may be text of the file."""
    found = list(lines)
    for fence in find_fences(lines):
        blanks = lines[fence.opening][: len(lines[fence.opening]) - len(lines[fence.opening].lstrip())]
        body = range(fence.opening + 1, fence.closing)
        if blanks and not file.stands([lines[fence.opening]]) and _can_shift(lines, body, blanks):
            _shift(found, range(fence.opening, min(fence.closing + 1, len(lines))), blanks)
    at = 0
    while at < len(found):
        mark = read_mark(found[at].lstrip()) if found[at][:1] in (" ", "\t") else None
        if mark is None or mark.kind != "open":
            at += 1
            continue
        blanks = found[at][: len(found[at]) - len(found[at].lstrip())]
        divider, end = None, None
        for k in range(at + 1, len(found)):
            inner = _shifted_mark(found[k], blanks)
            if inner is None:
                continue
            if inner.kind != "divide":
                end = k
                break
            divider = k if divider is None else divider
        if end is None:
            break
        mark = _shifted_mark(found[end], blanks)
        is_whole = divider is not None and mark is not None and mark.kind == "close"
        if not is_whole or not _can_shift(found, range(at, end + 1), blanks):
            at = end
            continue
        old = [line.removeprefix(blanks) for line in found[at + 1 : divider]]
        if file.stands(old) or not any(line.strip() for line in old):
            _shift(found, range(at, end + 1), blanks)
        at = end + 1
    return found


def _shifted_mark(line: str, blanks: str) -> Mark | None:
    return read_mark(line[len(blanks) :]) if line.startswith(blanks) else None


def _can_shift(lines: Sequence[str], rows: range, blanks: str) -> bool:
    return all(lines[at].startswith(blanks) for at in rows if lines[at].strip())


def _shift(lines: list[str], rows: range, blanks: str) -> None:
    for at in rows:
        lines[at] = lines[at].removeprefix(blanks)


def _opens_json(line: str) -> bool:
    return line.lstrip()[:1] in ("{", "[")
