"""Edits of which the wanted bytes are known, without any code of the service.

A file's lines are cut into pieces that stay and pieces that give way to others.  The wanted text follows from that, and
so does the edit in every format.  An edit that two readers may understand differently is not drawn: `README.md` lists
what that is.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

CONTROL = (
    "@@ -1 +1 @@",
    "--- a/x",
    "+++ b/x",
    "-- x",
    "++ x",
    "diff --git a/x b/x",
    "*** End Patch",
    "*** Update File: y",
    "\\ No newline at end of file",
    "trailing  ",
    "\treturn",
    "    ",
    "}",
    "é ü 𝛼",
    "form\x0cfeed",
    "a\u2028b",
    '{"old_string": 1}',
    "print('''```''')",
    "# noqa",
)
"""New lines that look like control in some format, or are odd otherwise."""
FENCE_SIGN = "```"
REMARK = "  # changed"
BLOCK_MARKS = {
    "aider": ("<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"),
    "cline": ("------- SEARCH", "=======", "+++++++ REPLACE"),
    "void": ("<<<<<<< ORIGINAL", "=======", ">>>>>>> UPDATED"),
}
JSON_NAMES = (("old_string", "new_string"), ("oldText", "newText"), ("old_str", "new_str"))
PROSE_BEFORE = (
    "Here is the change:",
    "I'll update the file as you asked. The rest stays as it is.",
    "Sure! The following edit does it.\n\nIt touches one function only.",
)
PROSE_AFTER = ("Let me know if anything else is needed.", "This keeps the behaviour of everything else.")


@dataclass(frozen=True, slots=True)
class Change:
    """Lines `start:stop` of the file give way to `new`; `start == stop` for an insertion."""

    start: int
    stop: int
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit and what comes of it, in bytes."""

    format: str
    original: bytes
    update: str
    wanted: bytes
    path: str
    named: str | None = None
    """The format, where a request must name it."""
    traits: tuple[str, ...] = ()


class Ambiguous(Exception):
    """What was drawn has two readings: draw again."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A file's lines and changes, before a format writes them."""

    lines: Sequence[str]
    changes: Sequence[Change]
    has_newline: bool
    path: str

    @property
    def result(self) -> list[str]:
        found: list[str] = []
        at = 0
        for change in self.changes:
            found += [*self.lines[at : change.start], *change.new]
            at = change.stop
        return [*found, *self.lines[at:]]


# -- drawing -----------------------------------------------------------------------------------------------------------
def draw_edit(rng: random.Random, format_name: str, lines: Sequence[str], others: Sequence[str], path: str) -> Edit:
    """An edit of a file in one format.  `others`: lines of other files, for new ones.

    Raises:
        Ambiguous: what was drawn has two readings.
    """
    has_newline = rng.random() < 0.85
    draft = Draft(lines, draw_changes(rng, lines, others, has_newline=has_newline), has_newline, path)
    if draft.result == list(lines):
        raise Ambiguous("changes nothing")
    text, traits = WRITERS[format_name](rng, draft)
    has_crlf, has_mark = rng.random() < 0.2, rng.random() < 0.08
    end = "\r\n" if has_crlf else "\n"
    mark = "\ufeff" if has_mark else ""

    def in_bytes(rows: Sequence[str]) -> bytes:
        return (mark + end.join(rows) + (end if has_newline and rows else "")).encode()

    if has_crlf and rng.random() < 0.5:
        text = text.replace("\n", "\r\n")
        traits = (*traits, "CRLF edit")
    names = (("CRLF", has_crlf), ("mark", has_mark), ("no final newline", not has_newline))
    told = (*traits, *(name for name, is_so in names if is_so))
    named = "whole_file" if format_name == "whole_file" else None
    return Edit(format_name, in_bytes(lines), text, in_bytes(draft.result), path, named, told)


def draw_changes(
    rng: random.Random, lines: Sequence[str], others: Sequence[str], *, has_newline: bool
) -> tuple[Change, ...]:
    """One to four changes with a line between any two.  A last line without a newline stays, as does a file's last
    visible line."""
    changes: list[Change] = []
    floor = 0
    most = len(lines) - (not has_newline)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        if floor >= most:
            break
        start = rng.randrange(floor, most)
        stop = min(most, start + rng.choice((0, 1, 1, 1, 2, 3, 8)))
        new = tuple(draw_new(rng, lines[start:stop], lines, others))
        if start == stop and not new:
            continue
        if not any(line.strip() for line in [*lines[:start], *lines[stop:]]):
            raise Ambiguous("nothing stays")
        changes.append(Change(start, stop, new))
        floor = stop + 1 + rng.randrange(12)
    if not changes:
        raise Ambiguous("no change")
    return tuple(changes)


def draw_new(rng: random.Random, old: Sequence[str], lines: Sequence[str], others: Sequence[str]) -> list[str]:
    """New lines: the old ones altered, lines of this file or another one, odd ones, or none."""
    kind = rng.random()
    if kind < 0.12:
        return []
    if kind < 0.5 and old:
        return [_altered(rng, line) for line in old]
    if kind < 0.65:
        at = rng.randrange(len(lines))
        return list(lines[at : at + rng.randrange(1, 4)])
    if kind < 0.75:
        return [*old, *rng.sample(CONTROL, rng.randrange(1, 3))]
    at = rng.randrange(len(others))
    return list(others[at : at + rng.randrange(1, 5)])


def _altered(rng: random.Random, line: str) -> str:
    return rng.choice(
        (
            line + REMARK,
            line.replace("e", "E", 1),
            "    " + line,
            line.strip(),
            line + " ",
            line[: len(line) // 2],
            line.replace("=", "==", 1),
        )
    )


# -- what has two readings ---------------------------------------------------------------------------------------------
def count_runs(lines: Sequence[str], run: Sequence[str]) -> int:
    """How often a run of lines stands in a text, as a careless reader counts: white space at the ends of lines, and a
    margin that all lines share, make no difference."""
    bare = [line.strip() for line in run]
    n = len(run)
    return sum(1 for at in range(len(lines) - n + 1) if lines[at].strip() == bare[0] and _is_run(lines, at, bare))


def _is_run(lines: Sequence[str], at: int, bare: Sequence[str]) -> bool:
    return all(lines[at + k].strip() == text for k, text in enumerate(bare))


def refuse_fences(rows: Sequence[str]) -> None:
    """A fence inside what a fence may hold: only the writer knows which of them ends it."""
    if any(row.lstrip(" \t+-").startswith((FENCE_SIGN, "~~~")) for row in rows):
        raise Ambiguous("holds a fence")


# -- around the edit ---------------------------------------------------------------------------------------------------
def wrapped(rng: random.Random, text: str, draft: Draft, *, tag: str) -> tuple[str, tuple[str, ...]]:
    """The edit bare, in a fence, with prose, with the file's name above it, or in an item of a list."""
    kind = rng.random()
    if kind < 0.35:
        return text, ()
    refuse_fences([*draft.lines, *(line for change in draft.changes for line in change.new)])
    fenced = f"{FENCE_SIGN}{tag}\n{text}{FENCE_SIGN}\n"
    if kind < 0.55:
        return fenced, ("fence",)
    before, after = rng.choice(PROSE_BEFORE), rng.choice(PROSE_AFTER)
    if kind < 0.75:
        return f"{before}\n\n{fenced}\n{after}\n", ("prose", "fence")
    if kind < 0.85:
        return f"{before}\n\n{fenced}", ("prose", "fence")
    if kind < 0.93:
        return f"{draft.path}\n{fenced}", ("name", "fence")
    rows = [f"   {row}" if row else row for row in fenced.split("\n")]
    return "1. Change this:\n\n" + "\n".join(rows), ("list", "fence")


# -- formats -----------------------------------------------------------------------------------------------------------
def write_blocks(rng: random.Random, draft: Draft) -> tuple[str, tuple[str, ...]]:
    style = rng.choice(tuple(BLOCK_MARKS))
    opening, divider, closing = BLOCK_MARKS[style]
    context = rng.randrange(4)
    blocks = []
    for change in draft.changes:
        old, new = _quoted(draft, change, context)
        if not "".join(old).strip():
            raise Ambiguous("quotes nothing that is visible")
        _refuse_marks([*old, *new])
        blocks.append((old, new))
    _refuse_repeats(draft.lines, blocks)
    if rng.random() < 0.2:
        rng.shuffle(blocks)
    text = "\n".join("\n".join([opening, *old, divider, *new, closing, ""]) for old, new in blocks)
    text, traits = wrapped(rng, text, draft, tag=rng.choice(("", "python", "diff")))
    return text, (style, f"context {context}", *traits)


def _quoted(draft: Draft, change: Change, context: int) -> tuple[list[str], list[str]]:
    """The old and new text of a change with lines around it: none that another change touches."""
    above = max([0, *(other.stop for other in draft.changes if other.stop <= change.start and other is not change)])
    below = min(
        [
            len(draft.lines),
            *(other.start for other in draft.changes if other.start >= change.stop and other is not change),
        ]
    )
    start, stop = max(above, change.start - context), min(below, change.stop + context)
    head, tail = list(draft.lines[start : change.start]), list(draft.lines[change.stop : stop])
    return [*head, *draft.lines[change.start : change.stop], *tail], [*head, *change.new, *tail]


def _refuse_marks(rows: Sequence[str]) -> None:
    """Lines that are markers of blocks can't be told from the block's own."""
    signs = (
        "<<<<<",
        ">>>>>",
        "=====",
        "-------",
        "+++++++",
        "<old_text",
        "</old_text",
        "</new_text",
        ":start_line",
        ":end_line",
        "\\",
    )
    if any(row.lstrip(" \t").startswith(signs) for row in rows):
        raise Ambiguous("holds a marker")


def _refuse_repeats(lines: Sequence[str], blocks: Sequence[tuple[list[str], list[str]]]) -> None:
    """Each quote must stand once in the file, and in what the other blocks put there."""
    everywhere = [*lines, "", *(row for _, new in blocks for row in [*new, ""])]
    for old, new in blocks:
        if count_runs(everywhere, old) != 1 + (count_runs(new, old) > 0 if len(new) >= len(old) else 0):
            raise Ambiguous("quotes what stands twice")


def write_diff(rng: random.Random, draft: Draft) -> tuple[str, tuple[str, ...]]:
    """What `diff -u` writes; sometimes without the numbers of lines, then with quotes that stand once."""
    context = rng.choice((0, 1, 3, 3, 3, 5))
    numbers = rng.choice(("right", "right", "right", "none", "wrong"))
    hunks = _hunks(draft, context)
    out: list[str] = []
    if rng.random() < 0.3:
        out += [f"diff --git a/{draft.path} b/{draft.path}", "index 83db48f..bf269f4 100644"]
    out += [f"--- a/{draft.path}", f"+++ b/{draft.path}"]
    old_rows = []
    for start, new_start, rows in hunks:
        old = [row[1:] for row in rows if row[0] in " -"]
        new = [row[1:] for row in rows if row[0] in " +"]
        old_rows.append((old, new))
        a, b = start + bool(old), new_start + bool(new)
        if numbers == "wrong":
            a, b = a + rng.randrange(-3, 40), b + rng.randrange(40)
            a = max(1, a)
        out.append("@@ ... @@" if numbers == "none" else f"@@ -{a},{len(old)} +{b},{len(new)} @@")
        out += _with_end_marks(draft, start, new_start, rows)
    if numbers != "right":
        if any(not "".join(old).strip() for old, _ in old_rows):
            raise Ambiguous("quotes nothing that is visible")
        _refuse_repeats(draft.lines, old_rows)
    text = "\n".join([*out, ""])
    text, traits = wrapped(rng, text, draft, tag="diff")
    return text, (f"numbers {numbers}", f"context {context}", *traits)


def _hunks(draft: Draft, context: int) -> list[tuple[int, int, list[str]]]:
    """(0-based old start, 0-based new start, signed lines) of each hunk; changes that near each other share one."""
    found: list[tuple[int, int, list[str]]] = []
    shift, end = 0, -1
    for change in draft.changes:
        start = max(0, change.start - context)
        if found and start <= end:
            found[-1][2].extend(" " + line for line in draft.lines[end : change.start])
        else:
            found.append((start, start + shift, [" " + line for line in draft.lines[start : change.start]]))
        rows = found[-1][2]
        rows += ["-" + line for line in draft.lines[change.start : change.stop]]
        rows += ["+" + line for line in change.new]
        following = min(
            [
                len(draft.lines),
                *(other.start for other in draft.changes if other.start >= change.stop and other is not change),
            ]
        )
        end = min(following, change.stop + context)
        rows += [" " + line for line in draft.lines[change.stop : end]]
        shift += len(change.new) - (change.stop - change.start)
    return found


def _with_end_marks(draft: Draft, start: int, new_start: int, rows: Sequence[str]) -> list[str]:
    """The lines with `\\ No newline` below the last one of a file that has none."""
    if draft.has_newline:
        return list(rows)
    out, old, new = [], start, new_start
    for row in rows:
        out.append(row)
        old += row[0] in " -"
        new += row[0] in " +"
        if (row[0] in " -" and old == len(draft.lines)) or (row[0] == "+" and new == len(draft.result)):
            out.append("\\ No newline at end of file")
    return out


def write_v4a(rng: random.Random, draft: Draft) -> tuple[str, tuple[str, ...]]:
    context = rng.choice((1, 2, 3, 3))
    hunks = _hunks(draft, context)
    sides = [
        ([row[1:] for row in rows if row[0] in " -"], [row[1:] for row in rows if row[0] in " +"]) for *_, rows in hunks
    ]
    if any(not "".join(old).strip() for old, _ in sides):
        raise Ambiguous("quotes nothing that is visible")
    _refuse_repeats(draft.lines, sides)
    out = ["*** Begin Patch", f"*** Update File: {draft.path}"]
    for *_, rows in hunks:
        if not rows[-1].strip():
            raise Ambiguous("ends with a blank line of context")
        out += ["@@", *rows]
    text = "\n".join([*out, "*** End Patch", ""])
    text, traits = wrapped(rng, text, draft, tag=rng.choice(("", "diff")))
    return text, (f"context {context}", *traits)


def write_json(rng: random.Random, draft: Draft) -> tuple[str, tuple[str, ...]]:
    """Whole lines, or of a line that is replaced by one line what differs and some of what is around it."""
    old_name, new_name = rng.choice(JSON_NAMES)
    pairs = []
    file = "\n".join(draft.lines) + ("\n" if draft.has_newline else "")
    for change in draft.changes:
        old_lines, new_lines = _quoted(draft, change, rng.randrange(3))
        old, new = "\n".join(old_lines), "\n".join(new_lines)
        if not new_lines:
            old, new = old + "\n", ""
        if change.stop - change.start == len(change.new) == 1 and rng.random() < 0.4:
            old, new = _within(rng, draft.lines[change.start], change.new[0])
        if not old.strip() or old == new:
            raise Ambiguous("quotes nothing that is visible")
        pairs.append((old, new))
    for old, _ in pairs:
        others = "\0".join(new for other, new in pairs if other != old)
        if file.count(old) != 1 or old in others or sum(other == old for other, _ in pairs) > 1:
            raise Ambiguous("quotes what stands twice")
        if "\n".join(draft.lines).count(old) != 1:
            raise Ambiguous("quotes the end of the file")
    _refuse_overlap(file, [old for old, _ in pairs])
    objects = [{old_name: old, new_name: new} for old, new in pairs]
    form = rng.random()
    if form < 0.3 and len(objects) == 1:
        value: object = {"file_path": draft.path, **objects[0]}
    elif form < 0.6:
        value = {"edits": objects}
    else:
        value = objects
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 2))) + "\n"
    text, traits = wrapped(rng, text, draft, tag="json")
    return text, (old_name, *traits)


def _refuse_overlap(file: str, pieces: Sequence[str]) -> None:
    spans = sorted((file.index(piece), file.index(piece) + len(piece)) for piece in pieces)
    if any(a[1] > b[0] for a, b in pairwise(spans)):
        raise Ambiguous("quotes overlap")


def _within(rng: random.Random, old: str, new: str) -> tuple[str, str]:
    """What differs between two lines, with some signs around."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    head, tail = max(0, head - rng.randrange(1, 12)), max(0, tail - rng.randrange(1, 12))
    return old[head : len(old) - tail], new[head : len(new) - tail]


def write_whole_file(rng: random.Random, draft: Draft) -> tuple[str, tuple[str, ...]]:
    result = draft.result
    if len(result) < 0.5 * len(draft.lines) or not "".join(result).strip():
        raise Ambiguous("may be cut short")
    if not result[-1].strip() or not draft.lines[-1].strip() or not result[0].strip():
        raise Ambiguous("blank lines at an edge of the file")
    if rng.random() < 0.4:
        if result[0].startswith((FENCE_SIGN, "~~~")):
            raise Ambiguous("begins with a fence")
        return "\n".join(result) + ("\n" if rng.random() < 0.8 else ""), ()
    refuse_fences(result)
    fenced = f"{FENCE_SIGN}\n" + "\n".join(result) + f"\n{FENCE_SIGN}\n"
    if rng.random() < 0.5:
        return fenced, ("fence",)
    return f"{rng.choice(PROSE_BEFORE)}\n\n{fenced}\n{rng.choice(PROSE_AFTER)}\n", ("prose", "fence")


def write_lazy(rng: random.Random, draft: Draft) -> tuple[str, tuple[str, ...]]:
    """Each change between lines that stand once, markers between and around."""
    sign = {
        "py": "#",
        "toml": "#",
        "yaml": "#",
        "yml": "#",
        "sh": "#",
        "c": "//",
        "h": "//",
        "js": "//",
        "ts": "//",
    }.get(draft.path.rsplit(".", 1)[-1])
    if sign is None:
        raise Ambiguous("no comments")
    marker = f"{sign} ... existing code ..."
    context = rng.choice((2, 3))
    rows: list[str] = []
    for start, _, hunk in _hunks(draft, context):
        shown = [row[1:] for row in hunk if row[0] in " +"]
        ends = [[row[1:] for row in takewhile(lambda row: row[0] == " ", side)] for side in (hunk, hunk[::-1])]
        if any(len(end) < context or not end[0].strip() for end in ends):
            raise Ambiguous("a change at an edge of the file")
        if any(count_runs(draft.lines, end) != 1 for end in (ends[0], ends[1][::-1])):
            raise Ambiguous("an end that stands twice")
        stop = start + sum(row[0] in " -" for row in hunk)
        beside = {line.strip() for line in (*draft.lines[max(0, start - 1) : start], *draft.lines[stop : stop + 1])}
        if not (beside - {""}).isdisjoint(row[1:].strip() for row in hunk if row[0] == "+"):
            raise Ambiguous("copies the line next to what it shows")  # the shown one may be that line itself
        if any(row.endswith(REMARK) for row in shown):
            raise Ambiguous("a remark about the change")
        if any("..." in row or "…" in row for row in shown):
            raise Ambiguous("holds a marker")
        rows += [marker] if start or rows else []
        rows += shown
    rows.append(marker)
    text, traits = wrapped(rng, "\n".join([*rows, ""]), draft, tag=draft.path.rsplit(".", 1)[-1])
    return text, (f"context {context}", *traits)


WRITERS: dict[str, Callable[[random.Random, Draft], tuple[str, tuple[str, ...]]]] = {
    "search_replace": write_blocks,
    "unified_diff": write_diff,
    "v4a_patch": write_v4a,
    "json_edit": write_json,
    "whole_file": write_whole_file,
    "lazy_snippet": write_lazy,
}
EXACT = tuple(name for name in WRITERS if name != "lazy_snippet")
