"""The sketcher: a real change becomes a lazy edit snippet as chat models write them, with the true merge beside it.

It is the only one: the harness makes evaluation data with it and training makes its corpus with it.  `sketch_layout`
chooses which lines are shown, this file writes them down.  Nothing here is on the path of a request.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from apply_eval.alignment import align
from apply_eval.line_diff import Hunk, diff_lines
from apply_eval.sketch_layout import Layout
from apply_eval.sketch_lines import SketchLine
from apply_eval.sketch_styles import SketchStyle, draw_style, is_marker_like
from apply_eval.sketch_writer import Writer
from apply_service.types import LineOp

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
    texts = _body_lines(before, after)
    if texts is None:
        return None
    old, new = texts
    hunks = diff_lines(old, new)
    if _hangs_on_trailing_space(old, new, hunks):
        return None
    layout = Layout(old, new, hunks, style, language)
    if not layout.plan():
        return None
    writer = Writer(layout, language=language, path=path, rng=rng)
    if not _is_free_of_markers(layout, style, writer):
        return None
    lines = writer.write()
    ops = _true_merge(before.split("\n"), after.split("\n"), layout, lines)
    return Sketch("\n".join(line.text for line in lines), tuple(lines), style, ops)


def _body_lines(before: str, after: str) -> tuple[list[str], list[str]] | None:
    """The lines without the empty last one; None for a change that no snippet can show."""
    old, new = before.split("\n"), after.split("\n")
    if before == after or "\r\n" in before or "\r\n" in after:
        return None
    if (old[-1] == "") != (new[-1] == ""):
        return None
    if old[-1] == "":
        old.pop()
        new.pop()
    return old, new


def _hangs_on_trailing_space(old: list[str], new: list[str], hunks: list[Hunk]) -> bool:
    """Whether the change can't be told without the white space at line ends, which snippets lose."""
    changed = [line for hunk in hunks for line in (*old[hunk.a0 : hunk.a1], *new[hunk.b0 : hunk.b1])]
    if all(line == line.rstrip() for line in changed):
        return False
    bare = diff_lines([line.rstrip() for line in old], [line.rstrip() for line in new])
    items = align(len(old), len(new), bare)
    return [old[x.original] if x.kind == "keep" else new[x.after] for x in items if x.kind != "drop"] != new


def _is_free_of_markers(layout: Layout, style: SketchStyle, writer: Writer) -> bool:
    """No shown line of the file may pass for a marker (in sloppy styles: for one of those used here)."""
    for at, item in enumerate(layout.items):
        if not layout.shown[at] or item.kind == "drop":
            continue
        line = layout.after[item.after]
        if is_marker_like(line) and (style.is_clean or line.strip() != "..." or not writer.is_python):
            return False
    return True


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
