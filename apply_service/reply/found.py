"""Represents a reply and what every format finds in it: the edit's format, the files that it names, and the lines left
out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from apply_service.formats.recognise import FilePart, ReadPart, Recognised, ReplyLines, Sureness
from apply_service.registry import EDIT_FORMATS, beside
from apply_service.reply.clean import clean, open_call, without_thoughts
from apply_service.reply.orders import orders_behind
from apply_service.text.fences import SHELLS, Fence, fence_tag, is_call, is_fence
from apply_service.text.line_search import FileLines
from apply_service.text.paths import has_same_name, is_same_file, match_files, named_path
from apply_service.types import DOUBT, Severity, Verdict

*_, SNIPPET = EDIT_FORMATS
CHECK = "reply"
OTHER_FILES = "other_files"
"""The names of two checks: lines of the reply were left out; the reply also changes other files.  The second is not a
warning if the reply has a part for the requested file."""
MIN_WORDS = 4


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
    """Whether the edit is the reply's only fence for the file, without markers or orders, and so may be the whole
    file."""
    is_patch: bool = False
    """Whether the edit is a patch, read for all of its files."""

    def but(self, check: str, warning: str) -> FoundEdit:
        """Return the same edit with one more warning, for `check`."""
        return replace(self, findings=(*self.findings, Verdict(check, "warning", warning)))


class OpenReply:
    """A reply in lines, and what every format finds in it."""

    def __init__(
        self,
        text: str,
        original: str,
        path: str | None = None,
        language: str | None = None,
        named: str | None = None,
    ) -> None:
        """`named`: the format of the reply according to the caller."""
        kinds = {name: beside(EDIT_FORMATS, name, "recognise", Recognised) for name in EDIT_FORMATS}
        file = FileLines(original)
        text = without_thoughts(text, original)
        self.called = open_call(text, {name: one for name, one in kinds.items() if named in (None, name)})
        """The tool call, if the reply is one and the format of the edit in it does not read calls."""
        if self.called is None:
            lines = clean(text, original, file, kinds.values())
        elif kinds[self.called.format].is_whole:
            lines = self.called.text.split("\n")
        else:
            lines = clean(self.called.text, original, file, kinds.values())
        self.reply = ReplyLines(lines, file, original, path, language)
        self.formats: dict[str, Recognised] = {name: recognise(self.reply) for name, recognise in kinds.items()}
        self.blocks: Sequence[FilePart] = [block for found in self.formats.values() for block in found.blocks]

    @cached_property
    def format(self) -> str:
        """The format whose marks the reply has; among several, the format that quotes the file."""
        if self.called is not None:
            return self.called.format
        sure = {name: found.confidence for name, found in self.formats.items()}
        names = [name for name in sure if sure[name]]
        alone = self.formats[names[0]] if len(names) == 1 else None
        if alone is not None and alone.is_foreign and self.reply.has_own_fence:
            return SNIPPET
        if quoting := [name for name in names if sure[name] is Sureness.QUOTES]:
            return quoting[0]
        if alone is None:
            return SNIPPET
        is_beside_code = any(map(self.reply.is_code, alone.outside()))
        return SNIPPET if is_beside_code and sure[names[0]] is not Sureness.OPENS else names[0]

    @property
    def speaker(self) -> Recognised:
        return self.formats[self.format]

    @cached_property
    def orders(self) -> list[str]:
        """The orders (sentences that ask for a change) after the edit."""
        return orders_behind(self.reply)

    def named_files(self, known: Collection[str]) -> tuple[str, ...]:
        """Return the files that the edit in the reply's format names."""
        found = self.speaker.paths
        # Unless the reply has a diff's header too, a snippet's fence counts only if its name is sure or known.
        if self.speaker.is_snippet and any(one.is_snippet for one in self.formats.values() if one.has_marks):
            fences = [fence for fence in self.reply.fences if fence.path]
            is_known = match_files((fence.path or "" for fence in fences), known)
            found = [f.path for f in fences if f.path and (f.is_surely_named or is_known[f.path])]
        if not found:
            is_known = match_files(self.speaker.mentions, known)
            found = [mention for mention in self.speaker.mentions if is_known[mention]]
        return tuple(dict.fromkeys(found))

    def parts(self) -> Mapping[str, str]:
        """Return the part for each file.  The result is empty if a file has a fence of its own; the whole reply must
        then be read for each file."""
        return {} if any(found.whole_files for found in self.formats.values()) else self.speaker.parts()

    def edit(self, name: str, part: ReadPart) -> FoundEdit:
        """Return the edit that the format read, with reports of the lines left out.  Prose is reported as a remark;
        code and other files are reported as warnings.
        """
        reply, found = self.reply, self.formats[name]
        foreign = self._parts_of_others(name)
        kept = {*part.lines, *reply.within(one[:2] for one in foreign)}
        others = {*part.others, *(one.path for one in foreign)}
        left = [at for at, line in enumerate(reply.lines) if at not in kept and not _is_usual(line)]
        findings = *_tell_lines(reply, found, left, kept), *_tell_files(found, others)
        return FoundEdit(name, part.update, "\n".join(reply.lines[at] for at in left), findings)

    def _parts_of_others(self, name: str) -> list[FilePart]:
        """Return the parts for other files, if the reply has a part for this file.  These parts do not count as left
        out."""
        path, named = self.reply.path, [fence for fence in self.reply.plain_fences if fence.path]
        own = {*self.formats[name].paths, *(fence.path or "" for fence in named)}
        if not any(is_same_file(one, path) for one in own):
            return []
        foreign = (fence for fence in named if not is_same_file(fence.path or "", path))
        parts = [FilePart(fence.opening, fence.closing, fence.path) for fence in foreign]
        return [*parts, *self.blocks] if name == SNIPPET else parts


def _is_usual(line: str) -> bool:
    """Tell whether a line needs no remark when it is left out."""
    if line.strip() in ("", "...", "…") or is_call(line):
        return True
    return is_fence(line) or fence_tag(line) is not None or named_path(line) is not None


def _tell_lines(reply: ReplyLines, found: Recognised, left: Sequence[int], kept: Collection[int]) -> Iterator[Verdict]:
    """Yield reports of the lines left out: their number, and the first such line in a fence that may be for this
    file."""
    if not left:
        return
    in_code = [f for f in reply.fences if f.language not in SHELLS and f.opening not in kept]
    fenced = {at for fence in in_code for at in fence.body}
    is_code = not fenced.isdisjoint(left[:200]) or any(reply.is_code(at) or _ends_statement(reply, at) for at in left)
    severity: Severity = "warning" if is_code and not found.is_whole else "pass"
    n = "1 line" if len(left) == 1 else f"{len(left)} lines"
    yield Verdict(CHECK, severity, f"{n} around the edit ignored: {reply.lines[left[0]].strip()[:80]!r}")
    unused = reply.within((f.opening + 1, f.closing - 1) for f in in_code if _may_be_own(f, reply.path))
    if (first := next((at for at in left if at in unused), None)) is not None and not found.is_whole:
        yield Verdict(DOUBT, "warning", f"code in the reply was ignored: {reply.lines[first].strip()[:80]!r}")


def _may_be_own(fence: Fence, path: str | None) -> bool:
    return not fence.path or is_same_file(fence.path, path)


def _ends_statement(reply: ReplyLines, at: int) -> bool:
    line = reply.lines[at]
    has_few_words = sum(word.isalpha() for word in line.split()) < MIN_WORDS
    return has_few_words and line.rstrip().endswith((";", "{", "}"))


def _tell_files(found: Recognised, others: Iterable[str | None]) -> Iterator[Verdict]:
    """Yield a report of the other files, unless the only file named is this file in another folder."""
    path, named = found.reply.path, found.paths
    is_own = path is not None and any(is_same_file(one, path) for one in named)
    is_moved = not is_own and len({*named}) == 1 and has_same_name(named[0], path)
    if (left := sorted({one for one in others if one})) and not is_moved:
        yield Verdict(OTHER_FILES, "pass" if is_own else "warning", "the reply also changes " + ", ".join(left))
