"""Reads JSON edits, as agents send them to edit tools: `{"old_string": ..., "new_string": ...}` under many names.

The JSON is one object, a list of objects, or an object with a list under `edits`.  A tool call may stand around it.

The old text is a piece of the file, not necessarily whole lines.  It must occur once, unless `replace_all` is set.  If
it does not occur exactly, its lines are looked for, as with search/replace blocks.  `insert` puts lines below a line
that it names by number, and `create` makes a new file.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from apply_service.errors import MalformedEdit, NeedsMoreContext, TooLarge
from apply_service.formats.calls import Arguments, opens_call, opens_json, read_calls, walk
from apply_service.formats.file_change import pick_for_file
from apply_service.formats.hunks import Trust, hunk_of_replacement, merge_hunks, tells_something
from apply_service.formats.misquotes import MAX_CANDIDATES
from apply_service.formats.recognise import Recognised, Sureness
from apply_service.protocols import EditContext
from apply_service.text.fidelity import MARK, normalise
from apply_service.types import Failure, LikePlace, Prediction

PAIRS = (
    ("old_string", "new_string"),
    ("oldString", "newString"),
    ("oldText", "newText"),
    ("old_text", "new_text"),
    ("old_str", "new_str"),
    ("oldStr", "newStr"),
    ("old_content", "new_content"),
    ("search", "replace"),
)
"""The names that tools give to old and new text.  The names of the last pair also stand for other things."""
ALL = ("replace_all", "replaceAll", "allow_multiple")
CREATED, LINE = "file_text", "insert_line"
"""Fields of a tool's commands: `create` holds the text of a new file, and `insert` holds the line below which text
goes."""
INSERTED = ("insert_text", "new_str", "text")
"""The names of the text of an `insert`."""
NO_EDITS = ("view", "undo_edit")
"""Commands of such a tool that are not edits."""
MAX_EDITS = 5_000
"""A file may have at most this many edits.  An answer with more changes would hold up others while it is handed
over."""
MANY = 50
"""From this many edits on, the words of the file are indexed.  For fewer edits, searching the file each time is
faster."""
MAX_STANDS = 16
"""At most this many places are tried for one edit.  If every word of its old text has more places, the file is
searched."""
WORD = re.compile(r"\w+")


def predict(original: str, update: str, about: EditContext) -> Prediction:
    """Return the original with the replacements made, one after the other.

    The prediction's `update_lines` are the update's own lines, followed by the new lines in its strings.

    Raises MalformedEdit if there is no edit, or if an edit contradicts itself.  Raises NeedsMoreContext if an old text
    has no place, or several.  Raises TooLarge if there are more than MAX_EDITS edits.
    """
    found, is_mended = read_replacements(update)
    if not found:
        raise _no_edit(update)
    trust, lines = Trust(), update.split("\n")
    if is_mended:
        trust.doubt("the JSON of the call was broken and was mended")
    picked = [
        replace(one, old=one.old.removeprefix(MARK), new=one.new.removeprefix(MARK))
        if one.old.startswith(MARK) and one.old not in original  # the file has lost its byte-order mark
        else one
        for one in pick_for_file(found, about.path, trust)
    ]
    if len(picked) > MAX_EDITS:
        message, remedy = "the JSON has too many edits of one file", "send the whole file, or fewer edits at a time"
        raise TooLarge(message, value=len(picked), limit=MAX_EDITS, remedy=remedy)
    plan = Plan(original if len(picked) >= MANY else "")
    n_planned = next((n for n, one in enumerate(picked) if not plan.add(one)), len(picked))
    text = plan.text() if n_planned else original
    for number, replacement in enumerate(picked[n_planned:], n_planned + 1):
        if replacement.below is None:
            text = replace_text(text, replacement, f"edit {number}", trust)
        else:
            if text.count("\n") != original.count("\n"):
                trust.doubt(f"edit {number} counts the lines of the file, and edits before it change their number")
            below, rows = replacement.below, text.split("\n")
            n_lines = len(rows) - (rows[-1] == "")
            if below > n_lines:
                raise NeedsMoreContext(
                    f"edit {number} goes below line {below}, and the file has {n_lines}",
                    value=below,
                    limit=n_lines,
                    remedy="read the file again, and name a line that it has",
                )
            text = "\n".join([*rows[:below], *replacement.new.removesuffix("\n").split("\n"), *rows[below:]])
    return trust.prediction_of(original, text, lines, n_own=len(lines))


def _no_edit(update: str) -> MalformedEdit:
    """Return the error for a call without an edit."""
    commands = [call.fields.get("command") for call in walk(read_calls(update).values)]
    if asked := next((command for command in commands if command in NO_EDITS), None):
        remedy = "send an edit: str_replace, insert or create"
        return MalformedEdit(f"the call asks for `{asked}`, which changes no file", value=asked, remedy=remedy)
    return MalformedEdit(
        "the JSON has no edit, or is cut short",
        value=update[:200],
        remedy='send {"old_string": "...", "new_string": "..."} as JSON, or a list of such objects',
    )


class FoundJson(Recognised):
    """The JSON edits in a reply.  A text that can only be meant as a JSON edit has this format even if it can't be
    read."""

    has_marks = True

    @cached_property
    def _replacements(self) -> Sequence[Replacement]:
        return read_replacements(self.reply.text)[0]

    @cached_property
    def _stretches(self) -> list[tuple[int, int]]:
        fences = (fence for fence in self.reply.fences if fence.body)
        return [(f.opening, f.closing - 1) for f in fences if opens_json(self.reply.lines[f.opening + 1])]

    @property
    def confidence(self) -> Sureness:
        reply = self.reply
        if not self._replacements:
            words = (f'"{name}"' for name in (LINE, INSERTED[0], CREATED, *NO_EDITS))
            names_command = '"command"' in reply.text and any(word in reply.text for word in words)
            names_edit = names_command or has_pair(reply.text, PAIRS[:-1])
            is_json = names_edit and (opens_call(reply.text) or bool(self._stretches))
            return Sureness.MARKS if is_json else Sureness.NONE
        is_value = any(map(reply.is_code, self.outside()))  # the JSON stands in a program
        is_told = any(self._is_told(one) for one in self._replacements)
        return Sureness.QUOTES if not is_value and is_told else Sureness.MARKS

    def _is_told(self, one: Replacement) -> bool:
        """Tell whether the file has the old text or the line that the edit names; if the edit names none, whether the
        file is new."""
        if one.below is not None:
            return one.below <= len(self.reply.file)
        return one.old in self.reply.original if one.old.strip() else self.reply.is_new_file

    @property
    def lines(self) -> Collection[int]:
        lines = range(len(self.reply.lines))
        first = next((at for at in lines if opens_call(self.reply.lines[at])), 0)
        return self.reply.within(self._stretches) or lines[first:]

    @property
    def paths(self) -> Sequence[str]:
        return [one.path for one in self._replacements if one.path]

    def parts(self) -> Mapping[str, str]:
        told: defaultdict[str, list[str]] = defaultdict(list)
        for one in self._replacements:
            told[one.path or ""].append(one.as_json())
        return {} if "" in told else {path: f"[{', '.join(edits)}]" for path, edits in told.items()}


recognise = FoundJson


@dataclass(frozen=True, slots=True)
class Replacement:
    """A piece of the file and the text that replaces it."""

    old: str
    new: str
    path: str | None = None
    replaces_all: bool = False
    below: int | None = None
    """The 1-based line of the file below which `new` goes; 0 means above all lines.  If it is set, there is no old
    text."""

    def as_json(self) -> str:
        edit: dict[str, object] = {"path": self.path}
        if self.below is not None:
            edit |= {"command": "insert", LINE: self.below, INSERTED[0]: self.new}
        else:
            edit |= {"old_string": self.old, "new_string": self.new, "replace_all": self.replaces_all}
        return json.dumps(edit, ensure_ascii=False)


def read_replacements(text: str) -> tuple[tuple[Replacement, ...], bool]:
    """Return the replacements in a text's calls, and whether their JSON was broken.

    Raises MalformedEdit if `read_calls` does.
    """
    if not (has_pair(text) or CREATED in text or LINE in text):
        return (), False
    calls = read_calls(text)
    return tuple(one for call in walk(calls.values) for one in own_replacement(call)), calls.is_mended


def has_pair(text: str, pairs: Sequence[tuple[str, str]] = PAIRS) -> bool:
    """Tell whether the text holds the names of old and new text, written as in calls."""
    signs = ('"', '\\"', "'", ">")  # JSON, JSON in a string, broken JSON, tags
    return any(f"{old}{sign}" in text and f"{new}{sign}" in text for old, new in pairs for sign in signs)


def own_replacement(call: Arguments) -> Iterator[Replacement]:
    """Yield the replacement in the own fields of a call's object, if they hold one."""
    value, path = call.fields, call.path
    pair = next(((value[old], value[new]) for old, new in PAIRS if old in value and new in value), None)
    match pair, value.get("command"), value.get(CREATED):
        case (str(old), str(new)), _, _:
            is_for_all = any(value.get(name) in (True, "true") for name in ALL)
            mark = MARK if old.startswith(MARK) else ""  # the mark may be a character inside the file
            new = (MARK if mark and new.startswith(MARK) else "") + normalise(new)
            yield Replacement(mark + normalise(old), new, path, is_for_all)
        case _, "create", str(text):
            yield Replacement("", normalise(text), path)
        case None, "insert" | None, _:
            below = str(value.get(LINE, ""))
            told = next((value[name] for name in INSERTED if isinstance(value.get(name), str)), None)
            if below.isdecimal() and isinstance(told, str):
                yield Replacement("", normalise(told), path, below=int(below[:9]))


class Plan:
    """Collects replacements in a text.  An index of words finds each old text without searching the whole text.

    No two replacements change the same line.  So each can be found in the unchanged text, whatever their order, and no
    new word arises from pieces of two replacements.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: defaultdict[str, list[int]] = defaultdict(list)
        for word in WORD.finditer(text):
            self._starts[word[0]].append(word.start())
        self._changed: list[tuple[int, int, str]] = []
        """The start and end of each stretch of changed lines, and its new text, in the order of the text."""
        self._new_words: set[str] = set()

    def add(self, replacement: Replacement) -> bool:
        """Plan a replacement if its old text is known to occur once, and tell whether it was planned."""
        text, old, new = self._text, replacement.old, replacement.new
        is_searched = old != new and not replacement.replaces_all and replacement.below is None
        places = self._places(old) if is_searched else []
        if len(places) != 1:
            return False
        start, end = text.rfind("\n", 0, places[0]) + 1, places[0] + len(old)
        if not (old.endswith("\n") and new.endswith("\n")):
            end = text.find("\n", end) + 1 or len(text)
        if self._is_changed(start, end):
            return False
        lines = text[start : places[0]] + new + text[places[0] + len(old) : end]
        insort(self._changed, (start, end, lines))
        self._new_words.update(WORD.findall(lines))
        return True

    def _places(self, old: str) -> list[int]:
        """Return the places of the old text; empty if the index can't tell."""
        whole = [word for word in WORD.finditer(old) if word.start() > 0 and word.end() < len(old)]
        rarest = min(whole, key=lambda word: len(self._starts.get(word[0], ())), default=None)
        if rarest is None or rarest[0] in self._new_words:
            return []
        places = [start - rarest.start() for start in self._starts.get(rarest[0], ())]
        if len(places) > MAX_STANDS or any(self._is_changed(at, at + len(old)) for at in places):
            return []
        return [at for at in places if at >= 0 and self._text.startswith(old, at)]

    def text(self) -> str:
        """Return the text with all replacements made."""
        pieces, done = [], 0
        for start, end, lines in self._changed:
            pieces += [self._text[done:start], lines]
            done = end
        return "".join([*pieces, self._text[done:]])

    def _is_changed(self, start: int, end: int) -> bool:
        """Tell whether any of these characters is in a changed line."""
        at = bisect_right(self._changed, start, key=lambda changed: changed[1])
        return at < len(self._changed) and self._changed[at][0] < end


def replace_text(text: str, replacement: Replacement, label: str, trust: Trust) -> str:
    """Return the text with one replacement made.  Old text that does not occur exactly is looked for like a hunk.

    Raises NeedsMoreContext if the old text has no place, or several.
    """
    old, new = replacement.old, replacement.new
    if not old.strip():
        if text.strip():
            raise NeedsMoreContext(
                f"{label} has no old text, but the file is not empty",
                value="",
                remedy="quote the text to replace, or text next to which the new one goes",
            )
        return new
    if old == new:
        trust.note(f"{label} changes nothing")
        return text
    first = text.find(old)
    if first >= 0 and replacement.replaces_all:
        return text.replace(old, new)
    if first >= 0 and text.find(old, first + 1) < 0:  # this also finds a place that overlaps the first
        # The replacement is made already if the new text stands here too, with the old text as a part of it.
        inside = new.find(old)
        is_there = 0 <= inside <= first and text.startswith(new, first - inside)
        trust.made.append(is_made := is_there and tells_something([new.replace(old, "")]))
        if is_made:
            trust.doubt(f"{label}: the text that it adds stands beside its old text already")
            return text
        return text[:first] + new + text[first + len(old) :]
    if first >= 0:
        raise _several_places(text, old, label)
    old_lines, new_lines = (side.removesuffix("\n").split("\n") if side else [] for side in (old, new))
    numbered = list(enumerate([*old_lines, *new_lines]))
    hunk = hunk_of_replacement(label, numbered[: len(old_lines)], numbered[len(old_lines) :])
    return merge_hunks(text, "\n".join([*old_lines, *new_lines]), [hunk], is_ordered=False, trust=trust).text


def _several_places(text: str, old: str, label: str) -> NeedsMoreContext:
    """Return the error for an old text that stands at several places."""
    starts: list[int] = []
    while len(starts) < 5 and (at := text.find(old, starts[-1] + 1 if starts else 0)) >= 0:
        starts.append(at)
    rows = [text.count("\n", 0, at) + 1 for at in starts]
    error = NeedsMoreContext(
        f"{label}: its old text stands at several places (lines {', '.join(map(str, rows))})",
        value=old[:200],
        remedy="quote more lines around it, or set replace_all",
    )
    n_more = old.removesuffix("\n").count("\n")
    candidates = tuple(LikePlace(row, row + n_more, 1.0) for row in rows[:MAX_CANDIDATES])
    error.failures = [Failure(label, candidates).as_dict()]
    return error
