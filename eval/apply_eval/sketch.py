"""The sketcher: a real change becomes a lazy edit snippet as chat models write them, with the true merge beside it.

The harness makes evaluation data with it, training its corpus.  `sketch_layout` chooses which lines are shown; this
file writes them down, with what careless writers add or lose.  Nothing here is on the path of a request.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rapidfuzz import fuzz

from apply_eval.line_diff import Hunk, diff_lines
from apply_eval.sketch_layout import Block, Layout, align, indent_of, is_definition
from apply_eval.sketch_styles import (
    FENCE_NAMES,
    KIND_MARKERS,
    CommentSyntax,
    MarkerKind,
    SketchStyle,
    comment_syntax,
    draw_style,
    is_marker_like,
    marker_text,
)
from apply_service.types import LineOp

Role = Literal["context", "new", "marker", "padding", "fence", "file_name", "hint", "deletion", "end"]


@dataclass(frozen=True, slots=True)
class SketchLine:
    """One line of a snippet.  `original_line` for context, `after_line` for context and new lines.

    Roles: context (the original's line, perhaps misquoted), new, marker, padding (a blank beside a marker, or between
    code and fence), fence, file_name, hint, deletion (a comment that says what is gone), end (the empty last line).
    A remark stands on its line: `has_remark`.
    """

    text: str
    role: Role
    original_line: int | None = None
    after_line: int | None = None
    has_remark: bool = False


def lead_of(line: str) -> str:
    """The white space at the start of a line."""
    return line[: len(line) - len(line.lstrip())]


MAX_MISQUOTES = 2
MIN_LIKENESS = 75.0
"""How alike (0-100) a misquoted line stays to its original."""
_REMARKS = ("<- changed", "<-- new", "NEW", "<- added", "CHANGED", "<- fixed", "updated", "<-- modified")
_NO_REMARK_AFTER = ("\\", "`", '"""', "'''", "{", "*/")
_IDLE_WORDS = frozenset(
    {
        *("the", "a", "an", "that", "just", "really", "also", "currently", "simply", "then"),
        *("very", "already", "own", "given"),
    }
)
_PROSE = frozenset({"markdown", "html"})


def spoil(
    lines: list[SketchLine], style: SketchStyle, syntax: CommentSyntax, language: str, rng: random.Random
) -> list[SketchLine]:
    """The lines as a careless writer gives them; roles and order stay."""
    if style.remark and not syntax.closing and language not in _PROSE:
        lines = [_with_remark(line, style.remark, syntax.opening, rng) for line in lines]
    if style.misquote and not style.whole_file:
        lines = _misquoted(lines, style.misquote, syntax.opening, rng)
    if style.strip_trailing_space and not any(x.role == "new" and x.text != x.text.rstrip() for x in lines):
        lines = [replace(x, text=x.text.rstrip()) if x.role == "context" else x for x in lines]
    if style.indentation == "same":
        return lines
    if style.indentation != "dedent":
        return _reindented(lines, style.indentation)
    leads = [lead_of(line.text) for line in lines if line.text.strip() and line.role != "marker"]
    common = os.path.commonprefix(leads)  # noqa: RUF071 (characters are meant)
    return [
        replace(x, text=x.text.removeprefix(common) if x.text.startswith(common) else x.text.lstrip()) for x in lines
    ]


def _with_remark(line: SketchLine, share: float, sign: str, rng: random.Random) -> SketchLine:
    text = line.text.rstrip()
    if line.role != "new" or not text or text.endswith(_NO_REMARK_AFTER) or rng.random() > share:
        return line
    return replace(line, text=f"{line.text}  {sign} {rng.choice(_REMARKS)}", has_remark=True)


def _misquoted(lines: Sequence[SketchLine], share: float, sign: str, rng: random.Random) -> list[SketchLine]:
    """A few context lines away from new ones and from each other, as a model remembers them."""
    spoilt = list(lines)
    n_wrong = 0
    at = 1
    while at < len(lines) - 1 and n_wrong < MAX_MISQUOTES:
        is_apart = all(x.role in {"context", "marker"} for x in lines[at - 1 : at + 2])
        if lines[at].role == "context" and is_apart and rng.random() <= share:
            wrong = _misquote(lines[at].text, sign, rng)
            if wrong.strip() and wrong != lines[at].text and fuzz.ratio(wrong, lines[at].text) >= MIN_LIKENESS:
                spoilt[at] = replace(lines[at], text=wrong)
                n_wrong += 1
                at += 1
        at += 1
    return spoilt


def _misquote(text: str, comment: str, rng: random.Random) -> str:
    """A context line as a model remembers it: a comment with an idle word less, a head without its return type or with
    a shortened argument list; others stay."""
    stripped = text.strip()
    if stripped.startswith((comment, "*", "/*")):
        words = text.split(" ")
        idle = [i for i, word in enumerate(words) if word in _IDLE_WORDS]
        if idle:
            del words[rng.choice(idle)]
        return " ".join(words)
    if is_definition(text):
        shorter = re.sub(r"\s*->\s*[^:{]+(?=[:{]\s*$)", " " if stripped.endswith("{") else "", text)
        return shorter if shorter != text else re.sub(r",\s*\w+[^,()]*\)", ", ...)", text, count=1)
    return text


def _reindented(lines: list[SketchLine], wanted: Literal["tab", "two", "four"]) -> list[SketchLine]:
    """The same depth in other units, where all indentation here is whole units of one kind and context shows it."""
    leads = [lead_of(line.text) for line in lines if line.role in {"context", "new"} and line.text.strip()]
    used = [lead for lead in leads if lead]
    unit = _unit(used)
    if (
        unit is None
        or not _is_shown_by_context(lines)
        or any(len(lead) % len(unit) or lead != unit * (len(lead) // len(unit)) for lead in used)
    ):
        return lines
    other = {"tab": "\t", "two": "  ", "four": "    "}[wanted]

    def turn(line: SketchLine) -> SketchLine:
        lead = lead_of(line.text)
        if not line.text.strip() or not lead:
            return line
        return replace(line, text=other * (len(lead) // len(unit)) + line.text.lstrip())

    return [turn(line) for line in lines]


def _is_shown_by_context(lines: Sequence[SketchLine]) -> bool:
    """Whether each stretch with indented new lines has an indented context line: it tells what the units stand for."""
    is_new = is_known = False
    for line in [*lines, SketchLine("", "marker")]:
        if line.role == "marker":
            if is_new and not is_known:
                return False
            is_new = is_known = False
        is_indented = line.text.strip() != "" and lead_of(line.text) != ""
        is_new = is_new or (line.role == "new" and is_indented)
        is_known = is_known or (line.role == "context" and is_indented)
    return True


def _unit(leads: list[str]) -> str | None:
    """A tab, two or four spaces; None for anything else."""
    if leads and all(set(lead) == {"\t"} for lead in leads):
        return "\t"
    if leads and all(set(lead) == {" "} for lead in leads):
        return min((lead for lead in leads), key=len) if min(map(len, leads)) in {2, 4} else None
    return None


_IMPORT = re.compile(r"^\s*(?:import\b|from\b|#\s*include\b|use\b|using\b|require\b|const .*require\()")
_NAME = re.compile(r"(?:def|class|func|fn|fun|function|struct|interface|enum|const|let|var|type|module)\s+(\w+)")
_ASSIGNED = re.compile(r"^\s*(?:[\w.]+\s+)?([\w.]+)\s*(?::=|=(?!=)|:\s)")
_COMMENT = re.compile(r"^\s*(?://|#|/?\*|<!--|--|\"\"\"|$)")
_WORD = re.compile(r"[A-Za-z_]\w{2,}")
_DELETIONS = ("removed {}", "removed: {}", "{} removed", "deleted {}", "(removed {})", "REMOVED: {}")
_PADDED_BLANKS = ((True, False, True, False), (False, True, False, True))
"""Is blank: the line above a deletion, its first, its last, the line below.  Here blank lines stood on both sides of
what is gone and one of them goes with it, so a note in its place may have both."""
_CLEAR_BLANKS = (
    (False, False, False, False),
    (True, False, False, False),
    (False, False, False, True),
    *_PADDED_BLANKS,
)
_HINTS = ("add this after {}", "insert after {}", "new, goes right after {}", "add below {}")


class Writer:
    """Writes one sketch."""

    def __init__(self, layout: Layout, *, language: str | None, path: str | None, rng: random.Random) -> None:
        self.layout, self.style, self.rng = layout, layout.style, rng
        self.language, self.path = language or "", path
        self.syntax = comment_syntax(self.language, 0 if self.style.is_clean else self.style.comment)
        self._lines: list[SketchLine] = []

    def write(self) -> list[SketchLine]:
        """The lines of the snippet."""
        blocks, n_items = self.layout.blocks, len(self.layout.items)
        markers = not (self.style.no_markers and len(blocks) == 1)
        gap_start = 0
        for block in blocks:
            has_leading = self.layout.clarity.needs_leading_marker or (markers and self.style.leading_marker)
            if gap_start < block.start and (gap_start or has_leading):
                self._write_gap(gap_start, block.start)
            self._write_block(block)
            gap_start = block.stop
        if gap_start < n_items and markers and self.style.trailing_marker:
            self._write_gap(gap_start, n_items)
        lines = self._lines
        if not self.style.is_clean:
            lines = spoil(lines, self.style, self.syntax, self.language, self.rng)
        lines = self._wrap(lines)
        return [*lines, SketchLine("", "end")] if self.style.final_newline else lines

    # -- blocks and markers -------------------------------------------------------------------------------------------
    def _write_block(self, block: Block) -> None:
        layout = self.layout
        for at in range(block.start, block.stop):
            item = layout.items[at]
            if item.kind == "drop":
                self._note_deletion(at)
                continue
            if item.kind == "take":
                self._note_hint(at)
                self._lines.append(SketchLine(layout.after[item.after], "new", None, item.after))
            else:
                self._lines.append(SketchLine(layout.before[item.original], "context", item.original, item.after))

    def _write_gap(self, start: int, stop: int) -> None:
        """Markers for the hidden items `start:stop`, with the blank lines around them."""
        hidden = [self.layout.before[item.original] for item in self.layout.items[start:stop]]
        if start > 0 and self._is_padded(start - 1, hidden[0]):
            self._lines.append(SketchLine("", "padding"))
        indents = self._marker_indents(start, stop, hidden)
        for at, indent in enumerate(indents):
            text = indent + self._marker(hidden, is_first=start == 0, is_last=stop == len(self.layout.items))
            if at and self.style.blank_around == "always":
                self._lines.append(SketchLine("", "padding"))
            self._lines.append(SketchLine(text, "marker"))
        if stop < len(self.layout.items) and self._is_padded(stop, hidden[-1]):
            self._lines.append(SketchLine("", "padding"))

    def _is_padded(self, shown: int, hidden: str) -> bool:
        """Whether a blank stands between a marker and the shown item next to it.  Beside new lines only a blank of the
        file, since any other would read as new."""
        if self.style.blank_around == "none":
            return False
        if self.style.blank_around == "real" or self.layout.items[shown].kind != "keep":
            return not hidden.strip()
        return True

    def _marker_indents(self, start: int, stop: int, hidden: list[str]) -> list[str]:
        first = next((lead_of(line) for line in hidden if line.strip()), "")
        after = self._lead_of(stop)
        before = self._lead_of(start - 1)
        around = [lead for lead in (before, after) if lead is not None]
        choice = {
            "first": first,
            "next": around[-1] if around else first,
            "min": min(around, key=len) if around else first,
            "none": "",
        }[self.style.marker_indent]
        if self.style.double_marker and start > 0 and stop < len(self.layout.items) and after is not None:
            shallowest = min((lead_of(line) for line in hidden if line.strip()), key=len, default=first)
            if len(shallowest) < len(first):
                return [first, shallowest]
        return [choice]

    def _lead_of(self, at: int) -> str | None:
        """The indentation of a shown item's line; None outside the file."""
        if not 0 <= at < len(self.layout.items):
            return None
        item = self.layout.items[at]
        text = self.layout.after[item.after] if item.kind != "drop" else self.layout.before[item.original]
        return lead_of(text)

    def _marker(self, hidden: list[str], *, is_first: bool, is_last: bool) -> str:
        spelling = self.style.marker
        fits = 0.85 if self.style.fitting_markers else 0.4 if self.style.mixed_markers else 0.0
        if self.rng.random() < fits:
            spelling = self.rng.choice(KIND_MARKERS[self._kind(hidden, is_first=is_first, is_last=is_last)])
        syntax = self.syntax
        if syntax.opening == "{/*" and not any(line.lstrip()[:1] == "<" for line in (hidden[0], hidden[-1])):
            syntax = CommentSyntax("//", "")
        is_bare = (
            self.style.bare_marker and spelling.startswith("...") and "..." not in map(str.strip, self.layout.after)
        )
        return marker_text(spelling, None if is_bare else syntax)

    def _kind(self, hidden: list[str], *, is_first: bool, is_last: bool) -> MarkerKind:
        lines = [line for line in hidden if line.strip()][:40]
        if lines and all(_IMPORT.match(line) for line in lines[:6]):
            return "imports"
        if is_first:
            return "start"
        definitions = [line for line in lines if is_definition(line)]
        if any("test" in line.lower() for line in definitions):
            return "tests"
        if is_last:
            return "end"
        if definitions and indent_of(definitions[0]) > 0:
            return "methods"
        return "body" if lines and indent_of(lines[0]) > 0 and not definitions else "any"

    # -- comments that models add -------------------------------------------------------------------------------------
    def _note_deletion(self, at: int) -> None:
        """A comment in the place of a stretch of deleted lines, where the blank lines around it read one way."""
        items = self.layout.items
        if not self.style.deletion_comment or at == 0 or items[at - 1].kind != "keep":
            return
        stop = next((i for i in range(at, len(items)) if items[i].kind != "drop"), len(items))
        if stop == len(items) or items[stop].kind != "keep":
            return
        above, *gone, below = (self.layout.before[item.original] for item in items[at - 1 : stop + 1])
        lead = next((lead_of(line) for line in gone if line.strip()), None)
        if lead is None or all(_COMMENT.match(line) for line in gone):
            return
        blanks = tuple(not line.strip() for line in (above, gone[0], gone[-1], below))
        if blanks in _CLEAR_BLANKS:
            text = self.rng.choice(_DELETIONS).format(_name(gone))
            is_padded = blanks in _PADDED_BLANKS and self.rng.random() < 0.5
            self._lines += [SketchLine("", "padding")] if is_padded and blanks[3] else []
            self._lines.append(SketchLine(lead + marker_text(text, self.syntax), "deletion"))
            self._lines += [SketchLine("", "padding")] if is_padded and blanks[0] else []

    def _note_hint(self, at: int) -> None:
        """A comment above a stretch of inserted lines that says what they go after."""
        items = self.layout.items
        if not self.style.hint or at == 0 or items[at - 1].kind != "keep":
            return
        line = next((x for x in (self.layout.after[item.after] for item in items[at:]) if x.strip()), "")
        name = self.layout.clarity.hints.get(at)
        if name is None:  # the name defined or assigned on the shown line above; most hints are left off
            found = _NAME.search(self.layout.before[items[at - 1].original])
            name = found.group(1) if found and self.rng.random() < 0.5 else None
        if name is not None:
            text = self.rng.choice(_HINTS).format(self.rng.choice(("{}", "{}", "`{}`", "'{}'", "{}()")).format(name))
            self._lines.append(SketchLine(lead_of(line) + marker_text(text, self.syntax), "hint"))

    # -- around the code ----------------------------------------------------------------------------------------------
    def _wrap(self, lines: list[SketchLine]) -> list[SketchLine]:
        if self.style.file_name and self.path and not self.style.is_clean:
            name = self.path if self.rng.random() < 0.7 else os.path.basename(self.path)
            head = [SketchLine(marker_text(name, self.syntax if self.syntax.opening != "{/*" else None), "file_name")]
            lines = [*head, *([SketchLine("", "padding")] if self.rng.random() < 0.3 else []), *lines]
        if self.style.fence and not any(line.text.lstrip().startswith("```") for line in lines):
            name = self.rng.choice((*FENCE_NAMES.get(self.language, (self.language,)), ""))
            lines = [SketchLine("```" + name, "fence"), *lines, SketchLine("```", "fence")]
        return lines


def _name(lines: list[str]) -> str:
    """What a person would call these lines: what they define or assign, else their longest word."""
    definitions = (_NAME.search(line) for line in lines if is_definition(line))
    assignments = (_ASSIGNED.match(line) for line in lines)
    for found in (*definitions, *assignments):
        if found:
            return found.group(1)
    words = [w for line in lines for w in _WORD.findall(line)]
    return max(words[:6], key=len) if words else "these lines"


__all__ = ["Sketch", "SketchLine", "SketchStyle", "draw_style", "sketch"]


@dataclass(frozen=True, slots=True)
class Sketch:
    """A snippet and the truth about it.

    `lines` are `update.split("\\n")` with the role of each; `ops` merge them: the texts of all but the drops, joined,
    are the text after the change.
    """

    update: str
    lines: tuple[SketchLine, ...]
    style: SketchStyle
    ops: tuple[LineOp, ...]


def sketch(
    before: str, after: str, *, language: str | None, path: str | None, style: SketchStyle, rng: random.Random
) -> Sketch | None:
    """The snippet that shows the change from `before` to `after` (LF line ends) in `style`.

    None where there is no such snippet: nothing changed, the final newline changed, the place of a change can't be made
    clear, it hangs on white space at line ends, or a shown line looks like a marker.
    Same arguments and random state, same sketch.
    """
    old, new = before.split("\n"), after.split("\n")
    if before == after or "\r\n" in before or "\r\n" in after or (old[-1] == "") != (new[-1] == ""):
        return None
    if old[-1] == "":
        old.pop()
        new.pop()
    hunks = diff_lines(old, new)
    if _hangs_on_trailing_space(old, new, hunks):
        return None
    layout = Layout(old, new, hunks, style, language)
    if not layout.plan():
        return None
    for item, is_shown in zip(layout.items, layout.shown, strict=True):
        # No shown line of the file may pass for a marker (in sloppy styles: for one of those used here).
        line = "" if item.kind == "drop" or not is_shown else layout.after[item.after]
        if is_marker_like(line) and (style.is_clean or line.strip() != "..." or language != "python"):
            return None
    lines = Writer(layout, language=language, path=path, rng=rng).write()
    ops = _true_merge(before.split("\n"), after.split("\n"), layout, lines)
    return Sketch("\n".join(line.text for line in lines), tuple(lines), style, ops)


def draw_sketch(
    before: str, after: str, *, language: str | None, path: str | None, clean: float, rng: random.Random, tries: int
) -> Sketch | None:
    """A sketch in a style that `rng` draws, with the chance `clean` a clean one; up to `tries` styles are tried."""
    for _ in range(tries):
        is_clean = rng.random() < clean if 0 < clean < 1 else clean == 1
        style = draw_style(rng, clean=is_clean)
        if (drawn := sketch(before, after, language=language, path=path, style=style, rng=rng)) is not None:
            return drawn
    return None


def _hangs_on_trailing_space(old: list[str], new: list[str], hunks: list[Hunk]) -> bool:
    """Whether the change can't be told without the white space at line ends, which snippets lose."""
    changed = [line for hunk in hunks for line in (*old[hunk.a0 : hunk.a1], *new[hunk.b0 : hunk.b1])]
    if all(line == line.rstrip() for line in changed):
        return False
    bare = diff_lines([line.rstrip() for line in old], [line.rstrip() for line in new])
    items = align(len(old), len(new), bare)
    return [old[x.original] if x.kind == "keep" else new[x.after] for x in items if x.kind != "drop"] != new


def _true_merge(old: list[str], new: list[str], layout: Layout, lines: list[SketchLine]) -> tuple[LineOp, ...]:
    """The alignment as line operations, the final newline included."""
    of_after = {line.after_line: at for at, line in enumerate(lines) if line.after_line is not None}
    ops: list[LineOp] = []
    for item in layout.items:
        if item.kind == "drop":
            ops.append(LineOp("drop", item.original, None, old[item.original]))
        elif item.kind == "take":
            ops.append(LineOp("take", None, of_after[item.after], new[item.after]))
        else:
            shown = of_after.get(item.after)
            kind: Literal["both", "keep"] = "keep" if shown is None else "both"
            ops.append(LineOp(kind, item.original, shown, old[item.original]))
    if len(layout.before) < len(old):
        ops.append(LineOp("keep", len(old) - 1, None, ""))
    return tuple(ops)
