"""Reads a snippet against its original: cuts it into blocks, takes remarks off, and indents it like the file.

A block is a run of lines that belong together in the file, in this order.  Markers, fences and hints separate blocks,
and blank lines next to them belong to no block.  A line with a marker inside it (`port: // ... existing ...`, `def
load(xs): ...`, `func f() { /* ... */ }`) stands for a line of the file, or for the definition that it begins.  A remark
behind a line ("// <- changed", "# new") is not a part of the file.

This module places nothing: `rows` looks for the lines' places, and `write` writes the operations.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from itertools import accumulate, groupby, pairwise, takewhile
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from apply_service.merge.candidates import NO_SCOPE, LineIndex, has_labels, key_of, substance
from apply_service.merge.entries import LeftOut, find_left_out
from apply_service.merge.fitting import Shift, fit_blocks, is_flat, known_lines, move, refit
from apply_service.merge.notes import doubt_roles, find_notes
from apply_service.merge.statements import imported
from apply_service.syntax.scopes import Scope, find_scopes, is_fallback
from apply_service.text.lines import (
    Unit,
    are_other_entries,
    attached_start,
    definition_end,
    find_unit,
    gaps_between,
    header_name,
    indent_of,
    is_attached,
    is_branch,
    is_closer,
    is_definition,
    is_import,
    leading,
    name_at,
)
from apply_service.text.markers import (
    MAX_NOTE_LENGTH,
    Hint,
    Role,
    classify,
    is_body_of_dots,
    is_marker,
    parse_hint,
    strip_comment,
)
from apply_service.types import LineOp

WIDE_GAP = "   "
"""If the white space before a remark is this wide, part of it may be the line's own trailing white space."""
LEFT_OUT = "the snippet leaves out some lines without a marker; they are kept"
DEFINITIONS_STAY = "the snippet leaves out definitions without a marker; they are kept"
STAYS = frozenset({LEFT_OUT, DEFINITIONS_STAY})
MIN_SAYING = 0.3
"""A line can show that the snippet lost its indentation only if its `substance` (how much it says) is at least this."""
MAX_SERIES = 50
"""For one line or element of the snippet, at most this many of the file are looked at."""
_CONTROL = re.compile(r"\s*(?:if|for|while|switch|try|with|match|do|unless|until|loop|return|select)\b")
_OPENERS = ("{", "(", "[", ":", ">")
_ARROW = re.compile(r"\W*(?:<[-=]|←|⬅|⟵|\^\^)")


# -- blocks -------------------------------------------------------------------------------------------------------


MIN_BODY = 12
"""Two definitions hardly share a body by chance if it has at least this many characters."""
MAX_SAID = 20
"""A line can tell definitions apart only if it has at most this many places."""


class Definition(NamedTuple):
    """A definition of the file."""

    header: int
    lines: range
    """Its lines, with the comments and decorators attached to its header."""


def said_lines(lines: Iterable[str]) -> Counter[str]:
    """Return how often each line occurs, without indentation.  Blank lines and closing brackets are left out."""
    return Counter(line.strip() for line in lines if line.strip() and not is_closer(line))


class Block(NamedTuple):
    """One run of lines.  `lines`: update line numbers.  The first and the last of these lines are not blank; lines
    between may be blank."""

    lines: tuple[int, ...]
    marked_before: bool
    """Whether a marker stands before the block.  The snippet's own start does not count as a marker."""
    marked_after: bool
    gap_before: tuple[int, ...]
    """Update lines between the previous block and this one: markers, notes, blanks."""
    gap_after: tuple[int, ...]
    hint: Hint | None
    deletions: tuple[int, ...]
    """Deletion notes inside the block."""


class Snippet(NamedTuple):
    """The update as it was written, in blocks."""

    texts: tuple[str, ...]
    roles: tuple[Role, ...]
    blocks: tuple[Block, ...]
    stray_deletions: tuple[int, ...]
    """Deletion notes that stand alone between markers."""
    has_markers: bool


def cut_blocks(texts: Sequence[str], roles: Sequence[Role], stubs: Collection[int] = ()) -> Snippet:
    """Return the snippet's blocks, in order.  `stubs`: lines after which the file goes on, like after a marker."""
    runs: list[list[int]] = []
    gaps: list[list[int]] = [[]]
    """The lines before each run, and the lines after the last run."""
    behind_stub = [False]
    """Whether a stub borders on each gap."""
    run: list[int] = []

    def cut(*, at_stub: bool) -> None:
        """End the run; the lines after its last line of content open the next gap."""
        last = max(k for k, i in enumerate(run) if roles[i] is Role.CONTENT) + 1
        runs.append(run[:last])
        gaps.append(run[last:])
        behind_stub.append(at_stub)
        run.clear()

    for i, role in enumerate(roles):
        is_inside = role is Role.CONTENT or (bool(run) and role in (Role.BLANK, Role.DELETION, Role.ASIDE))
        if run and not is_inside:
            cut(at_stub=False)
        elif run and i in stubs:
            # A stub is a block of its own if the line above is blank, opens a scope or is a stub itself.
            above = texts[i - 1].rstrip()
            if roles[i - 1] is Role.BLANK or i - 1 in stubs or above.endswith(("{", ":")):
                cut(at_stub=True)
        (run if is_inside else gaps[-1]).append(i)
        if i in stubs and is_inside:
            cut(at_stub=True)
    if run:
        cut(at_stub=False)
    marked = [
        stub or any(roles[i] in (Role.MARKER, Role.HINT) for i in gap)
        for gap, stub in zip(gaps, behind_stub, strict=True)
    ]
    blocks = []
    for b, lines in enumerate(runs):
        hints = [parse_hint(texts[i]) for i in gaps[b] if roles[i] is Role.HINT]
        blocks.append(
            Block(
                _without_notes(lines, roles),
                marked[b],
                marked[b + 1],
                tuple(gaps[b]),
                tuple(gaps[b + 1]),
                next((hint for hint in reversed(hints) if hint is not None), None),
                tuple(i for i in lines if roles[i] is Role.DELETION),
            )
        )
    strays = tuple(i for gap in gaps for i in gap if roles[i] is Role.DELETION)
    return Snippet(tuple(texts), tuple(roles), tuple(blocks), strays, Role.MARKER in roles)


def _without_notes(run: Sequence[int], roles: Sequence[Role]) -> tuple[int, ...]:
    """Return the lines of a run without notes.  If a deletion note stands between two blank lines, one of these is left
    out as well."""
    kept: list[int] = []
    is_padded = False
    for i in run:
        if roles[i] is Role.DELETION:
            is_padded = bool(kept) and roles[kept[-1]] is Role.BLANK
        elif roles[i] is Role.BLANK and is_padded:
            is_padded = False
        elif roles[i] is not Role.ASIDE:
            is_padded = False
            kept.append(i)
    return tuple(kept)


# -- markers inside a line -----------------------------------------------------------------------------------------

_DECLARED = re.compile(r"\s*(?:[^\s(]+ [^(]*\(.*\)|[^(]*\(.*\)\s*:.*);$")
"""A method's header with its type, but without a body."""
_DECLARING = re.compile(r"\s*(?:export |public )*(?:interface|abstract|declare)\b")
_WITHOUT_PROTOTYPES = ("javascript", "typescript", "tsx", "java", "csharp")
_COMMENT = re.compile(r"(?:#|//|/\*|<!--|--)")
_LIFETIME = re.compile(r"(?<=[<&])'[a-z_]\w*\b(?!')")
_STANDS_FOR = re.compile(r"/\*[^*]{1,80}\*/")
_DOTS = re.compile(r"(?:\.{3}|…)$|/\*\s*(?:\.{3}|…)[^*]{0,80}\*/$")


def read_inline_marker(line: str, known: Collection[str], language: str | None = None) -> str | None:
    """Return the line without the marker inside it; None if it has no marker, or if the file has the whole line.

    In languages without prototypes, the ";" after a header counts as such a marker too.
    """
    if len(line) > 4 * MAX_NOTE_LENGTH or line.strip() in known:
        return None
    if language in _WITHOUT_PROTOTYPES and _DECLARED.match(line) and f"{line.strip()[:-1]} {{" in known:
        return line.rstrip()[:-1] + " {"
    if not any(sign in line for sign in ("...", "…", "/*")):
        return None
    if strip_comment(line).is_comment:
        return None
    return _inside(line) or _behind(line, known)


def _inside(line: str) -> str | None:
    """Return the line without a marker in brackets or in place of a value.

    For example `header { ... }`, `header(/* ... */) {`, `def header(): ...`, `name = /* unchanged */;`.
    """
    text = line.rstrip()
    if text.endswith((": ...", ": …")) and text.lstrip().startswith(("def ", "class ", "async def ")):
        return text[: text.rindex(":") + 1]
    if text.endswith(("; ...; end", "; …; end")):
        return text[: text.rindex(";", 0, -5)]
    for opener, closer in ("{}", "()", "[]"):
        end = text.rfind(closer)
        start = text.rfind(opener, 0, end) if end > 0 else -1
        inner = text[start + 1 : end].strip() if start >= 0 else ""
        if not _DOTS.match(inner) and not (inner.startswith("/*") and is_marker(inner)):
            continue
        if opener == "{" and not text[end + 1 :].strip(" ;,)"):
            return text[: start + 1]
        return text[: start + 1] + "..." + text[end:]
    note = _STANDS_FOR.search(text)
    if note is not None and text[: note.start()].strip() and is_marker(note.group()):
        return text[: note.start()] + "..." + text[note.end() :]
    return None


def _behind(line: str, known: Collection[str]) -> str | None:
    """Return the line without a marker at its end, as in `code  # ... unchanged` and `code { // ...`."""
    for sign in _COMMENT.finditer(line):
        head, note = line[: sign.start()].rstrip(), line[sign.start() :]
        is_text = any(_LIFETIME.sub("", head).count(quote) % 2 for quote in "\"'`")
        has_dots = note[len(sign.group()) :].lstrip().startswith(("...", "…"))
        if not head.strip() or is_text or not is_marker(note):
            continue
        if not has_dots and "..." not in head and head.strip() not in known:
            continue
        if not has_dots:
            return head
        if head.strip() in ("...", "…"):
            return head
        has_value = head.strip() not in known and any(line.startswith(head.strip()) for line in known)
        is_opener = head.endswith(("{", ":", "(", "[", "=>")) and not has_value
        return head if is_opener or head.strip() in known else head + " ..."
    return None


# -- remarks behind a line -----------------------------------------------------------------------------------------

_C_SIGNS = r"//|/\*|\{/\*"
_ANY_SIGNS = rf"{_C_SIGNS}|#|--|<!--"
_C_LIKE = "javascript typescript tsx go rust java c cpp csharp kotlin swift scala dart vue svelte json"
_SIGNS = {
    **dict.fromkeys(_C_LIKE.split(), _C_SIGNS),
    **dict.fromkeys(("python", "ruby", "yaml", "toml", "bash", "shell"), "#"),
    **dict.fromkeys(("sql", "lua", "haskell"), "--"),
    **dict.fromkeys(("html", "markdown"), "<!--"),
    "php": "//|#",
    "css": r"/\*|//",
}
_PLAIN = (
    r"(?:new|changed|updated|modified|added|fixed|edited|replaced|renamed|moved)"
    r"(?:\s(?:line|here|this|this line|code|import|field|param|parameter|arg|argument))?\s*[!.:]?"
)
_TOLD = (
    r"(?:was|previously|formerly|used to be|changed from|updated from|renamed from|moved from|changed to|now uses|"
    r"updated to|modified to|replaces|instead of|new:|added:|changed:|updated:|fixed:|modified:)\s?.{1,80}"
)
_PATTERNS = {
    signs: re.compile(
        rf"^(?P<code>.*?\S)\s+(?:{signs})\s*(?:(?P<arrow>(?:<[-=]+|←|⬅|⟵|\^{{2,}})\s?.{{0,80}})|(?:{_PLAIN}|{_TOLD}))"
        r"\s*(?:\*/\s*\}?|-->)?\s*$",
        re.IGNORECASE,
    )
    for signs in {*_SIGNS.values(), _ANY_SIGNS}
}
_BARE_ARROW = re.compile(rf"^\W*(?:{_PLAIN})?\W*$", re.IGNORECASE)


class Remark(NamedTuple):
    """A line without its remark.  `is_sure`: a lone arrow marks the remark, or the file has the line without it."""

    code: str
    is_sure: bool
    is_told: bool
    """Whether the remark has an arrow that says more than that the line is new."""


def split_remark(line: str, language: str | None, known: Collection[str]) -> Remark | None:
    """Return the line's code without the remark behind it.  The result is None if the line has no remark, or if the
    file has the whole line."""
    if len(line) > 4 * MAX_NOTE_LENGTH or line.strip() in known:
        return None
    match = _PATTERNS[_SIGNS.get(language or "", _ANY_SIGNS)].match(line)
    if match is None or not any(map(str.isprintable, match["code"])):
        return None
    code, arrow = match["code"].rstrip(), match["arrow"]
    is_sure = code.strip() in known or (arrow is not None and _BARE_ARROW.match(arrow) is not None)
    return Remark(code, is_sure, is_told=arrow is not None and not is_sure)


# -- new imports ---------------------------------------------------------------------------------------------------


def _ends_of_new_imports(
    lines: Sequence[str], roles: Sequence[Role], original: Sequence[str], known: Collection[str]
) -> list[int]:
    """Return the blank lines between imports of new names and other code below.

    The imports go to the file's imports, wherever the code goes.
    """
    found: list[int] = []
    imports = list(filter(is_import, original)) if any(map(is_import, lines)) else []
    bound = frozenset[str]().union(*map(imported, imports))
    if not imports:
        return found
    start = 0
    while start < len(lines):
        end = start
        while end < len(lines) and roles[end] is Role.CONTENT and is_import(lines[end]) and not indent_of(lines[end]):
            end = definition_end(lines, end, len(lines))
        below = next((i for i in range(end, len(lines)) if roles[i] is not Role.BLANK), len(lines))
        is_apart = end < below < len(lines) and roles[below] is Role.CONTENT and not is_import(lines[below])
        new = lines[start:end]
        if (
            is_apart
            and new
            and bound.isdisjoint(frozenset().union(*map(imported, new)))
            and not any(line.strip() in known for line in new)
        ):
            found += range(end, below)
        start = max(end, start + 1)
        while start < len(lines) and lines[start - 1].strip() and roles[start - 1] is Role.CONTENT:
            start += 1
    return found


# -- sections ----------------------------------------------------------------------------------------------------
SECTIONED = ("markdown", "toml", "ini")
"""Languages with sections.  A section ends at the next heading, not at an indentation."""
_SECTION = re.compile(r"\[\[?[^\[\]]+\]\]?\s*(?:[#;].*)?$")


def is_section(line: str) -> bool:
    """Tell whether the line is the heading of a section in TOML or INI."""
    return len(line) <= MAX_NOTE_LENGTH and _SECTION.match(line) is not None


def _above_sections(lines: Sequence[str], roles: Sequence[Role], known: Collection[str]) -> list[int]:
    """Return the blank lines above headings of sections that the file has, in each part between markers that shows
    anything new.

    The file may have other sections at these blank lines.
    """
    found: list[int] = []
    for is_inside, run in groupby(range(len(lines)), key=lambda i: roles[i] in (Role.CONTENT, Role.BLANK)):
        at = list(run) if is_inside else []
        if any(lines[i].strip() not in known for i in at if roles[i] is Role.CONTENT):
            headings = [i for i in at if is_section(lines[i]) and lines[i].strip() in known]
            found += [i - 1 for i in headings if i > at[0] and roles[i - 1] is Role.BLANK]
    return found


# -- the snippet ------------------------------------------------------------------------------------------------


def _is_bare_closer(line: str) -> bool:
    return is_closer(line) and not any(map(str.isalnum, line))


class ReadSnippet:
    """The lines of the original (without the empty one after its final newline) and of the snippet, made comparable."""

    def __init__(
        self,
        original: Sequence[str],
        update: Sequence[str],
        language: str | None,
        path: str | None,
        passed_over: Collection[int] = (),
        notes: Collection[int] = (),
        shifts: bool = True,
        index: LineIndex | None = None,
        has_addresses: bool = True,
        comments: Collection[int] = (),
    ) -> None:
        """Read the snippet.  `passed_over`: update lines that are read elsewhere; they separate blocks.  `notes`: lines
        that count as markers.  `shifts`: whether blocks are re-indented like the file.  `index`: the index of the
        original.  `has_addresses`: whether nested headers may leave lines out without a marker.  `comments`: lines that
        mention a removal but are part of the code."""
        self.comments = comments
        self.has_addresses = has_addresses
        self.original = original
        self.language = language
        self.path = path
        self.doubts: list[str] = []
        self._likeness: dict[tuple[str, ...], list[tuple[float, Definition]]] = {}
        self.index = index if index is not None else LineIndex(original, has_labels=has_labels(original, language))
        known = set(self.index.stripped)
        roles = classify(update, original, language=language, path=path)
        for i in passed_over:
            roles[i] = Role.ELSEWHERE
        for i in comments:
            roles[i] = Role.CONTENT
        self.found_notes = find_notes(update, roles, known)
        """The kind of each line that may be a marker in other words."""
        self.notes = notes
        for i in notes:
            roles[i] = Role.MARKER
        self.texts = list(update)
        self.elided: set[int] = set()
        """Lines with a marker inside.  Each stands for a line of the file and is never written as it is."""
        is_declaring = any(map(_DECLARING.match, update))
        for i, line in enumerate(update):
            is_code = roles[i] is not Role.CONTENT or is_body_of_dots(update, i, original)
            text = None if is_code else read_inline_marker(line, known, None if is_declaring else language)
            if text is not None and is_marker(text):
                roles[i] = Role.MARKER
            elif text is not None:
                self.elided.add(i)
                self.texts[i] = text
        for i in self._frame(roles):
            roles[i] = Role.MARKER
        below = _ends_of_new_imports(update, roles, original, known)
        self.new_imports = {i - 1 for i in below}
        """The last line of each block of new imports that stands above other code."""
        for i in below:
            roles[i] = Role.ELSEWHERE
        sections = _above_sections(update, roles, known) if has_addresses and language in ("toml", "ini") else []
        for i in sections:
            roles[i] = Role.ELSEWHERE
        left_out = self._left_out(roles) if has_addresses and language in ("json", "jsonc") else []
        for gap in left_out:
            if gap.ends_entry and not self.texts[gap.line].rstrip().endswith(","):
                self.texts[gap.line] = self.texts[gap.line].rstrip() + ","
        self.has_excerpts = bool(sections or left_out)
        """Whether the file may have more sections or entries between two that the snippet shows."""
        stubs = {*self.elided, *self._grown_sections(roles), *(gap.line for gap in left_out)}
        self.snippet = cut_blocks(update, roles, stubs)
        for reason in doubt_roles(roles, update, self.index.stripped):
            self.doubts.append(reason)
        self._strip_remarks(known)
        self.is_shifted = False
        self.rewriting = Shift()
        """How every block is rewritten in the file's unit of indentation.  After that, each block is moved."""
        blocks = self.snippet.blocks if shifts else ()
        fitted = fit_blocks([self.block_texts(b) for b in range(len(blocks))], self.index) if blocks else []
        for block, shift in zip(blocks, fitted, strict=True):
            for i in (*block.gap_before, *(block.gap_after if block is blocks[-1] else ())):
                self.texts[i] = shift.apply(self.texts[i])
            self.rewriting = shift.moved(0)
            if not shift.is_identity:
                self.doubts.append("the snippet was indented as the file is")
                self.is_shifted = True
                for i in block.lines:
                    self.texts[i] = shift.apply(self.texts[i])
        self._quote_last_closers()
        self.visible = [
            (b, i) for b, block in enumerate(self.snippet.blocks) for i in block.lines if self.texts[i].strip()
        ]
        """The (block, update line) of every line that can be aligned, in order."""

    def _left_out(self, roles: Sequence[Role]) -> list[LeftOut]:
        """Return the places where the snippet leaves out entries.  The list is empty if the snippet has markers or
        nothing new."""
        is_code = [role in (Role.CONTENT, Role.BLANK) for role in roles]
        if Role.MARKER in roles or all(self.index.count(text) for text in self.texts):
            return []
        found = find_left_out(
            self.original, [text if is_in else "" for text, is_in in zip(self.texts, is_code, strict=True)]
        )
        if found:
            self.doubts.append(LEFT_OUT)
        return found

    def _grown_sections(self, roles: Sequence[Role]) -> list[int]:
        """Return the headings below which all shown entries are new, so that these entries go to the section's end.

        A heading does not count if the next shown heading also comes next in the file, because the section is then
        shown whole.
        """
        found: list[int] = []
        if self.language not in ("toml", "ini"):
            return found
        headings = [line.strip() for line in self.original if is_section(line)]
        follows = set(pairwise(headings))
        is_line = [role is Role.CONTENT for role in roles]
        for i, text in enumerate(self.texts):
            if not is_line[i] or not is_section(text) or not self.index.places(text):
                continue
            below = [*takewhile(lambda k: is_line[k] and not is_section(self.texts[k]), range(i + 1, len(roles)))]
            entries = [self.texts[k] for k in below]
            is_known = (
                (key_of(line), indent_of(line)) in self.index.keys or self.index.count(line) for line in entries
            )
            rest = (self.texts[k].strip() for k in range(i + 1 + len(below), len(roles)) if is_line[k])
            if entries and not any(is_known) and (text.strip(), next(rest, "")) not in follows:
                found.append(i)
        return found

    def _frame(self, roles: Sequence[Role]) -> list[int]:
        """Return lines at the snippet's edges that open or close scopes around the text of the file.

        The file has only the text inside these scopes.  The lines must not be the whole snippet, and closing lines must
        follow a marker.
        """
        lines = self.original
        shown = [i for i, role in enumerate(roles) if role in (Role.CONTENT, Role.MARKER)]
        first = next((indent_of(line) for line in lines if line.strip()), 0)
        heads = [*takewhile(lambda i: roles[i] is Role.CONTENT, shown)]
        is_outside = all(indent_of(self.texts[i]) < first and self._opens_scope(i) for i in heads)
        found = heads if is_outside and len(heads) < len(shown) else []
        ends = [*takewhile(lambda i: roles[i] is Role.CONTENT and _is_bare_closer(self.texts[i]), shown[::-1])]
        if ends and len(ends) < len(shown) and roles[shown[-1 - len(ends)]] is Role.MARKER:
            unclosed = (line for line, end in zip(lines, self.closers.tolist(), strict=True) if end == len(lines))
            still_open = {indent_of(line) for line in unclosed if line.rstrip().endswith(_OPENERS)}
            found += [i for i in ends if indent_of(self.texts[i]) in still_open]
        return found

    def _opens_scope(self, i: int) -> bool:
        name = header_name(self.texts[i]) if self.texts[i].rstrip().endswith(_OPENERS) else None
        return name is not None and all(header_name(line) != name for line in self.original)

    def _strip_remarks(self, known: set[str]) -> None:
        shown = [i for block in self.snippet.blocks for i in block.lines]
        found = {i: remark for i in shown if (remark := split_remark(self.texts[i], self.language, known)) is not None}
        points = any(_ARROW.match(self.texts[i][len(remark.code) :]) for i, remark in found.items())
        has_arrows = bool(found) and any("<-" in line or "←" in line for line in self.original)
        for i, remark in found.items():
            is_wide = self.texts[i][len(remark.code) :].startswith(WIDE_GAP)
            self.texts[i] = remark.code
            is_new = remark.code.strip() not in known
            if is_wide or (has_arrows and is_new) or remark.is_told or not (remark.is_sure or points):
                self.doubts.append("a comment at the end of a line was taken for a remark about the edit and left out")

    def _quote_last_closers(self) -> None:
        """Give the closing line of a block the comma that the file has there, or take off a comma that the file lacks.

        The block must show the line that opens the scope, and the file must have that line once.
        """
        for block in self.snippet.blocks:
            last = block.lines[-1]
            text = self.texts[last]
            if not _is_bare_closer(text) or text.strip()[0] not in "}])":
                continue
            level = indent_of(text)
            inside = (i for i in block.lines[-2::-1] if self.texts[i].strip())
            header = next((i for i in inside if indent_of(self.texts[i]) <= level), last)
            places = self.index.places(self.texts[header])
            if len(places) != 1 or self.original[places[0]].rstrip() != self.texts[header].rstrip():
                continue
            end = self.close_of(places[0])
            line = self.original[end] if end < len(self.original) else ""
            if line.rstrip().rstrip(",") == text.rstrip().rstrip(","):
                self.texts[last] = line

    def again(
        self,
        passed_over: Collection[int] = (),
        notes: Collection[int] = (),
        *,
        shifts: bool = True,
        has_addresses: bool = True,
        comments: Collection[int] | None = None,
        texts: Sequence[str] | None = None,
    ) -> ReadSnippet:
        """Return the same snippet read in another way."""
        original, path = self.original, self.path
        texts = self.snippet.texts if texts is None else texts
        comments = self.comments if comments is None else comments
        return ReadSnippet(
            original, texts, self.language, path, passed_over, notes, shifts, self.index, has_addresses, comments
        )

    def refitted(self) -> list[list[str]]:
        """Return the update's lines with the file's indentation, if the update has lost its own.

        There are up to two results: in one, every line is indented by itself; in the other, every block is moved by its
        outermost line.
        """
        index, snippet = self.index, self.snippet
        raw = [self.rewriting.apply(text) for text in snippet.texts]
        if not any(
            substance(raw[i].strip()) >= MIN_SAYING
            and (found := index.places(raw[i]))
            and all(indent_of(self.original[j]) > indent_of(raw[i]) for j in found[:MAX_SERIES])
            for _, i in self.visible
        ):
            return []
        blocks = [[i for i in block.lines if raw[i].strip()] for block in snippet.blocks]
        places = known_lines(raw, blocks, index)
        runs = sorted([*blocks, *([i] for i, role in enumerate(snippet.roles) if role is Role.MARKER)])
        ways = (refit,) if is_flat(raw, blocks) else (move, refit)
        made = [way(raw, runs, places, self.original) for way in ways]
        return [texts for texts in made if any(texts[i] != self.texts[i] for _, i in self.visible)]

    def block_texts(self, b: int) -> list[str]:
        return [self.texts[i] for i in self.snippet.blocks[b].lines]

    def marker_indents(self, gap: Sequence[int]) -> list[int]:
        """Return the columns of indentation of the markers in a gap."""
        return [indent_of(self.texts[i]) for i in gap if self.snippet.roles[i] is Role.MARKER]

    def marker_indent(self, gap: Sequence[int]) -> int | None:
        """Return the columns of indentation of the first marker in a gap; None if it has no marker."""
        return next(iter(self.marker_indents(gap)), None)

    def end_of_new_elements(self, b: int) -> int:
        """Return how many of the first lines of block b are new elements after a marker for similar elements.

        The file must have a series of such elements.  No line inside a new element may occur exactly once in the file.
        """
        texts, count, end = self.block_texts(b), self.index.count, 0
        opens = range(len(texts) - 1 if self.snippet.blocks[b].marked_before else 0)
        while end in opens and self._is_in_series(texts[end]):
            level = indent_of(texts[end])
            below = range(end + 1, len(texts))
            closer = next((k for k in below if texts[k].strip() and indent_of(texts[k]) <= level), end)
            inside = [count(text) for text in texts[end + 1 : closer] if text.strip()]
            is_closed = is_closer(texts[closer]) and indent_of(texts[closer]) == level
            if not is_closed or 1 in inside or 0 not in inside:
                break
            end = closer + 1
        return end

    def _is_in_series(self, opener: str) -> bool:
        """Tell whether the file has two elements with this opening line in a row.  If the line is a call, the file must
        call the same function twice in a row, with arguments that differ from those in `opener`.
        """
        if is_closer(opener) or is_branch(opener) or _CONTROL.match(opener):
            return False
        lines, places = self.original, self.index.places(opener)
        callee, sign, _ = opener.strip().partition("(")
        is_call = bool(not places and sign and callee)
        if is_call:
            places = [j for j, text in enumerate(self.index.stripped) if text.startswith(callee + sign)]
            if not all(are_other_entries(opener, lines[j]) for j in places):
                return False
        for j in places[:MAX_SERIES]:
            end = definition_end(lines, j, len(lines))
            below = next((line for line in lines[end : end + 3] if line.strip()), "")
            is_one_more = below.strip().startswith(callee + sign) if is_call else below.rstrip() == lines[j].rstrip()
            if end > j + 1 and is_one_more and indent_of(below) == indent_of(lines[j]):
                return True
        return False

    @cached_property
    def addresses(self) -> set[int]:
        """The update lines that only say where the lines below belong, and say nothing about the lines above.

        A block may begin with nested headers; all but the first are such lines.  A header is not one if a marker in the
        snippet has its level.
        """
        snippet, found = self.snippet, set[int]()
        marked = {indent_of(text) for text, role in zip(self.texts, snippet.roles, strict=True) if role is Role.MARKER}
        for block in snippet.blocks if self.has_addresses else ():
            solid = [i for i in block.lines if self.texts[i].strip()]
            for above, i in pairwise(solid):
                levels = indent_of(self.texts[above]), indent_of(self.texts[i])
                if not all(header_name(self.texts[k]) for k in (above, i)) or levels[0] >= levels[1]:
                    break
                if levels[1] not in marked:
                    found.add(i)
        return found

    @cached_property
    def keeps(self) -> list[LineOp]:
        """The operations that keep the whole original.  Merges share them."""
        return [LineOp._make(("keep", j, None, line)) for j, line in enumerate(self.original)]

    # -- questions about the original ------------------------------------------------------------------------------
    def close_of(self, j: int) -> int:
        """Return the first original line below j that is not indented deeper than j: it ends the scope that j opens.
        The result is one past the end if there is no such line."""
        return int(self.closers[j])

    def definitions_like(self, new: tuple[str, ...], share: float) -> list[Definition]:
        """Return the file's definitions that have at least `share` of their lines in common with the new one, the most
        similar first.

        Headers do not count.  The list is empty if the new body is too short to tell, or if all its lines are frequent
        in the file.
        """
        if new not in self._likeness:
            head = next((k for k, line in enumerate(new) if not is_attached(line)), 0)
            body, level = said_lines(new[head + 1 :]), indent_of(new[head])
            places = [places for text in body if len(places := self.index.places(text)) <= MAX_SAID]
            shares = list[tuple[float, Definition]]()
            says_enough = sum(len(text) * n for text, n in body.items()) >= MIN_BODY
            for header in {self._header_above(j, level) for own in places for j in own} if says_enough else ():
                if is_definition(self.original[header]) and not is_attached(self.original[header]):
                    end = definition_end(self.original, header, len(self.original))
                    other = said_lines(self.original[header + 1 : end])
                    lines = range(attached_start(self.original, header, 0), end)
                    alike = 2 * (body & other).total() / (body.total() + other.total())
                    shares.append((alike, Definition(header, lines)))
            self._likeness[new] = sorted(shares, key=lambda pair: (-pair[0], pair[1].header))
        return [other for likeness, other in self._likeness[new] if likeness >= share]

    def _header_above(self, j: int, level: int) -> int:
        """Return the nearest line from line j upwards that is indented by at most `level`."""
        lines = self.original
        return next((k for k in range(j, -1, -1) if lines[k].strip() and indent_of(lines[k]) <= level), 0)

    @cached_property
    def names(self) -> Counter[str | None]:
        """How often the file defines each name."""
        return Counter(map(header_name, self.original))

    @cached_property
    def closers(self) -> npt.NDArray[np.int64]:
        """The value of `close_of` for every line."""
        found = [len(self.original)] * len(self.original)
        levels = [*self.index.scope_indents.tolist(), -1]
        places = [len(self.original)]
        """Lines below that may end a scope, the nearest last.  Each is indented less than the lines above it."""
        for j in range(len(self.original) - 1, -1, -1):
            if levels[j] == NO_SCOPE:
                level = indent_of(self.original[j])
                found[j] = next(k for k in reversed(places) if levels[k] <= level)
                continue
            while levels[places[-1]] > levels[j]:
                places.pop()
            found[j] = places[-1]
            places[-1 if levels[places[-1]] == levels[j] else len(places) :] = [j]
        return np.array(found, np.int64)

    @cached_property
    def scope_ends(self) -> npt.NDArray[np.int64]:
        """The end of the scope that each line opens, after its further branches and its header's closing brackets."""
        found = self.closers.tolist()
        lines = [*self.original, ""]
        for j in range(len(self.original) - 1, -1, -1):
            line = lines[found[j]]
            goes_on = line.rstrip().endswith(_OPENERS) and (is_closer(line) or is_branch(line))
            if goes_on and indent_of(line) == indent_of(lines[j]):
                found[j] = found[found[j]]
        return np.array(found, np.int64)

    def knows_margin(self, text: str) -> bool:
        """Tell whether the text is indented like a line of the original, or by whole levels of the file."""
        margin = leading(text)
        unit, margins = self._margins
        return margin in margins or (unit is not None and not margin.replace(unit.text, ""))

    @cached_property
    def _margins(self) -> tuple[Unit | None, set[str]]:
        return find_unit(self.original), {leading(line) for line in self.original if line.strip()}

    @cached_property
    def keeps_trailing_blanks(self) -> bool:
        """Whether the snippet shows trailing white space of the file, so that a lack of it elsewhere is meant."""
        trailing = {line for line in self.original if line != line.rstrip()}
        return any(self.texts[i] in trailing for block in self.snippet.blocks for i in block.lines)

    @cached_property
    def gaps_above(self) -> dict[int, int]:
        """See `gaps_between`."""
        return gaps_between(self.original, self.scopes)

    def blanks_before(self, at: int) -> int:
        """Return the number of blank lines right above a line; 0 if only blank lines stand above."""
        start = at
        while start > 0 and not self.original[start - 1].strip():
            start -= 1
        return at - start if start else 0

    @cached_property
    def scopes_named(self) -> dict[str, list[Scope]]:
        """The original's scopes by name."""
        found: defaultdict[str, list[Scope]] = defaultdict(list)
        for scope in self.scopes:
            found[scope.name.strip("'\"`")].append(scope)
        return found

    @cached_property
    def scope_headers(self) -> tuple[str, list[int]]:
        """The headers of the scopes in lower case, joined by line ends, and the offset of each in that text."""
        headers = [self.original[scope.header_line].lower() for scope in self.scopes]
        return "\n".join(headers), list(accumulate((len(text) + 1 for text in headers), initial=0))

    @cached_property
    def scopes(self) -> tuple[Scope, ...]:
        """The original's scopes; parsed only if a block is placed by them."""
        text = "\n".join(self.original)
        if is_fallback(text, self.language):
            self.doubts.append(
                "this program does not know the file's language: it finds the ends of blocks by indentation alone"
            )
        return find_scopes(text, self.language)


def holds_definitions(reading: ReadSnippet, block: Block) -> bool:
    """Tell whether a block consists of whole definitions and closing lines, and whether the file has each definition's
    name at most once."""
    texts = [reading.texts[i] for i in block.lines]
    margin = reading.marker_indent(block.gap_after)
    at, found = 0, False
    while at < len(texts):
        if not texts[at].strip() or is_closer(texts[at]) or (is_attached(texts[at]) and at + 1 < len(texts)):
            at += 1
            continue
        name, end = name_at(texts, at), definition_end(texts, at, len(texts))
        if name is None or not is_definition(texts[at]) or reading.names[name] > 1 or end == at + 1:
            return False
        is_closed = is_closer(texts[end - 1]) and indent_of(texts[end - 1]) == indent_of(texts[at])
        if end == len(texts) and not is_closed and margin is not None and margin > indent_of(texts[at]):
            return False
        at, found = end, True
    return found
