"""JSON edits: what agents send to their own edit tools, `{"old_string": ..., "new_string": ...}` in its spellings.

One object, a list of them, or an object with a list under `edits`; with or without the call of a tool around it.  Old
text is a piece of the file, which need not be whole lines; it must stand there once unless `replace_all` is set.  Text
that does not stand there as it is, is sought by lines, as search/replace blocks are.
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
from apply_service.formats.file_change import pick_for_file
from apply_service.formats.hunks import Trust, hunk_of_replacement, merge_hunks
from apply_service.formats.recognise import Recognised, Sureness
from apply_service.protocols import EditContext
from apply_service.text.fences import find_fences
from apply_service.text.fidelity import MARK, normalise
from apply_service.types import Prediction

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
"""Names of old and new text, in the spellings of the tools; the last is also a name of other things."""
PATHS = ("path", "file_path", "filePath", "target_file", "target_filepath", "filename", "file")
LISTS = ("edits", "replacements", "changes", "operations", "files")
CALLS = ("arguments", "input", "parameters", "args", "tool_calls", "function", "tool_input")
ALL = ("replace_all", "replaceAll", "allow_multiple")
CREATED = "file_text"
"""The text of a new file, where a tool's `create` has it."""
OTHER_CALLS = ("insert_line", "insert_text", CREATED)
"""Names in calls of such tools that say something else than old and new text."""
MAX_DEPTH = 6
MAX_EDITS = 5_000
"""Of one file: an answer with more changes would hold up others while it is handed over."""
MANY = 50
"""From so many edits on, the words of the file are indexed; below, searching the file for each takes less time."""
MAX_STANDS = 16
"""Places that are tried for one edit.  If all words of its old text are more frequent, the file is searched."""
WORD = re.compile(r"\w+")


def predict(original: str, update: str, about: EditContext) -> Prediction:
    """Return the original with the replacements made, one after the other.

    The prediction's `update_lines` are the update's own and, after them, the new lines out of its strings.

    Raises MalformedEdit: there is no edit, or it contradicts itself; NeedsMoreContext: an old text has no place, or
    several; TooLarge: more than MAX_EDITS edits.
    """
    found = read_replacements(update)
    if not found:
        raise MalformedEdit(
            "the JSON has no edit, or is cut short",
            value=update[:200],
            remedy='send {"old_string": "...", "new_string": "..."} as JSON, or a list of such objects',
        )
    trust, lines = Trust(), update.split("\n")
    picked = [
        replace(one, old=one.old.removeprefix(MARK), new=one.new.removeprefix(MARK))
        if one.old.startswith(MARK) and one.old not in original  # which has lost the one at its beginning
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
        text = _replace(text, replacement, f"edit {number}", trust)
    return trust.prediction_of(original, text, lines, n_own=len(lines))


class FoundJson(Recognised):
    """The JSON edits in a reply.  A text that can only be meant as such has this format even if it is broken."""

    has_marks = True

    @cached_property
    def _replacements(self) -> Sequence[Replacement]:
        return read_replacements(self.reply.text)

    @cached_property
    def _stretches(self) -> list[tuple[int, int]]:
        fences = (fence for fence in self.reply.fences if fence.body)
        return [(f.opening, f.closing - 1) for f in fences if opens_json(self.reply.lines[f.opening + 1])]

    @property
    def confidence(self) -> Sureness:
        reply = self.reply
        if not self._replacements:
            names_pair = has_pair(reply.text, PAIRS[:-1]) or (
                '"command"' in reply.text and any(f'"{name}"' in reply.text for name in OTHER_CALLS)
            )
            is_json = names_pair and (opens_json(reply.text) or bool(self._stretches))
            return Sureness.MARKS if is_json else Sureness.NONE
        is_value = any(map(reply.is_code, self.outside()))  # in a program
        told = (one.old in reply.original if one.old.strip() else reply.is_new_file for one in self._replacements)
        return Sureness.QUOTES if not is_value and any(told) else Sureness.MARKS

    @property
    def lines(self) -> Collection[int]:
        lines = range(len(self.reply.lines))
        first = next((at for at in lines if opens_json(self.reply.lines[at])), 0)
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


def opens_json(line: str) -> bool:
    return line.lstrip()[:1] in ("{", "[")


@dataclass(frozen=True, slots=True)
class Replacement:
    """A piece of the file and what takes its place."""

    old: str
    new: str
    path: str | None = None
    replaces_all: bool = False

    def as_json(self) -> str:
        edit = {"path": self.path, "old_string": self.old, "new_string": self.new, "replace_all": self.replaces_all}
        return json.dumps(edit, ensure_ascii=False)


def read_replacements(text: str) -> tuple[Replacement, ...]:
    """Return the replacements that a text tells in JSON, bare or fenced; none where it tells none."""
    if not has_pair(text) and CREATED not in text:
        return ()
    lines = text.split("\n")
    bodies = ["\n".join(lines[fence.opening + 1 : fence.closing]) for fence in find_fences(lines)]
    bodies = [body for body in bodies if body.lstrip()[:1] in ("{", "[")]
    for at, line in enumerate(lines if not bodies else ()):
        if line.lstrip()[:2] not in ("{", "[", '{"', "[{", "{}"):
            continue
        below = next((text.lstrip() for text in lines[at + 1 : at + 5] if text.strip()), "")
        if len(line.strip()) > 1 or below[:1] in ('"', "{"):
            bodies = ["\n".join(lines[at:])]
            break
    return tuple(found for body in bodies for value in _values(body) for found in _replacements(value, None))


def has_pair(text: str, pairs: Sequence[tuple[str, str]] = PAIRS) -> bool:
    """Tell whether the text holds the names of old and new text as JSON has them."""
    signs = ('"', '\\"')  # the second where the arguments of a call are JSON in a string
    return any(f"{old}{sign}" in text and f"{new}{sign}" in text for old, new in pairs for sign in signs)


def _values(text: str) -> Iterator[object]:
    """Yield the JSON values that a text begins with, one after the other, commas between them or not."""
    decoder = json.JSONDecoder(strict=False)
    at = 0
    while True:
        while at < len(text) and text[at] in " \t\n\r,":
            at += 1
        if at == len(text) or text[at] not in "{[":
            return
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        yield value


def _replacements(value: object, path: str | None, depth: int = 0) -> Iterator[Replacement]:
    """Yield the replacements in a value; `path`: the file that what is around it names."""
    inside: list[object] = []
    if isinstance(value, list):
        inside = value
    elif isinstance(value, str) and depth and has_pair(value):
        inside = [*_values(value)]
    elif isinstance(value, dict):
        path = next((value[name] for name in PATHS if isinstance(value.get(name), str)), path)
        yield from _own_replacement(value, path)
        inside = [value[name] for name in (*LISTS, *CALLS) if name in value]
    for item in inside if depth < MAX_DEPTH else ():
        yield from _replacements(item, path, depth + 1)


def _own_replacement(value: Mapping[str, object], path: str | None) -> Iterator[Replacement]:
    """Yield the replacement that an object tells in its own fields, if it tells one."""
    pair = next(((value[old], value[new]) for old, new in PAIRS if old in value and new in value), None)
    match pair, value.get("command"), value.get(CREATED):
        case (str(old), str(new)), _, _:
            is_for_all = any(value.get(name) is True for name in ALL)
            mark = MARK if old.startswith(MARK) else ""  # perhaps not the file's own: it may stand inside
            new = (MARK if mark and new.startswith(MARK) else "") + normalise(new)
            yield Replacement(mark + normalise(old), new, path, is_for_all)
        case _, "create", str(text):
            yield Replacement("", normalise(text), path)


class Plan:
    """Replacements in a text whose old texts are found by their words, not by a search of the whole text for each.

    No two of them change the same line.  So each can be found in the text as it was, whichever comes first, and no word
    of the changed text is made of pieces of two of them.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: defaultdict[str, list[int]] = defaultdict(list)
        for word in WORD.finditer(text):
            self._starts[word[0]].append(word.start())
        self._changed: list[tuple[int, int, str]] = []
        """Start and end of each stretch of changed lines, and the text in its place; in the order of the text."""
        self._new_words: set[str] = set()

    def add(self, replacement: Replacement) -> bool:
        """Plan a replacement if its old text is known to stand once; otherwise nothing happens.  Whether it is."""
        text, old, new = self._text, replacement.old, replacement.new
        places = [] if old == new or replacement.replaces_all else self._places(old)
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
        """Return where the old text stands; empty where its words do not tell."""
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


def _replace(text: str, replacement: Replacement, label: str, trust: Trust) -> str:
    """Return the text with one replacement made.  Lines that are not found as they stand are sought as hunks are."""
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
    if first >= 0 and text.find(old, first + 1) < 0:  # also where the places overlap
        return text[:first] + new + text[first + len(old) :]
    if first >= 0:
        starts: list[int] = []
        while len(starts) < 5 and (at := text.find(old, starts[-1] + 1 if starts else 0)) >= 0:
            starts.append(at)
        rows = ", ".join(str(text.count("\n", 0, at) + 1) for at in starts)
        raise NeedsMoreContext(
            f"{label}: its old text stands at several places (lines {rows})",
            value=old[:200],
            remedy="quote more lines around it, or set replace_all",
        )
    old_lines, new_lines = (side.removesuffix("\n").split("\n") if side else [] for side in (old, new))
    numbered = list(enumerate([*old_lines, *new_lines]))
    hunk = hunk_of_replacement(label, numbered[: len(old_lines)], numbered[len(old_lines) :])
    return merge_hunks(text, "\n".join([*old_lines, *new_lines]), [hunk], is_ordered=False, trust=trust).text
