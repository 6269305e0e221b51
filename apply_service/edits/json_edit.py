"""JSON edits: what agents send to their own edit tools, `{"old_string": ..., "new_string": ...}` in its spellings.

One object, a list of them, or an object with a list under `edits`; with or without the call of a tool around it.  Old
text is a piece of the file, which need not be whole lines; it must stand there once unless `replace_all` is set.  Text
that does not stand there as it is, is sought by lines, as search/replace blocks are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apply_service.edits.envelope import find_fences, is_same_file
from apply_service.edits.fidelity import normalise, ops_from_texts
from apply_service.edits.hunk_merge import merge_hunks
from apply_service.edits.hunks import hunk_of_replacement
from apply_service.edits.trust import Trust
from apply_service.errors import MalformedEdit, NeedsMoreContext
from apply_service.types import Certainty, Prediction

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
MAX_TRIES = 50
REMEDY = 'send {"old_string": "...", "new_string": "..."} as JSON, or a list of such objects'


@dataclass(frozen=True, slots=True)
class Replacement:
    """A piece of the file and what takes its place."""

    old: str
    new: str
    path: str | None = None
    replaces_all: bool = False


class JsonEdit:
    """The `EditFormat` of JSON edits."""

    name = "json_edit"

    def predict(
        self,
        original: str,
        update: str,
        *,
        language: str | None,  # noqa: ARG002
        path: str | None,
        instruction: str = "",  # noqa: ARG002
    ) -> Prediction:
        """The original with the replacements made, one after the other.

        The prediction's `update_lines` are the update's own and, after them, the new lines out of its strings.

        Raises:
            MalformedEdit: no such JSON, or not for this file.
            NeedsMoreContext: an old text has no place in the file, or several.
        """
        found = read_replacements(update)
        if not found:
            raise MalformedEdit("there is no edit in the JSON, or it is not whole", value=update[:200], remedy=REMEDY)
        trust = Trust()
        text = original
        for number, replacement in enumerate(_for_file(found, path, trust), 1):
            text = _replaced(text, replacement, f"edit {number}", trust)
        lines = update.split("\n")
        ops = []
        for op in ops_from_texts(original, text):
            if op.kind == "take":
                op = op._replace(update_line=len(lines))
                lines.append(op.text)
            ops.append(op)
        is_certain = trust.certainty is Certainty.CERTAIN
        return Prediction(tuple(ops), tuple(lines), trust.certainty, tuple(trust.reasons), determined=is_certain)


def read_replacements(text: str) -> tuple[Replacement, ...]:
    """The replacements that a text tells in JSON, bare or fenced; none where it tells none."""
    if not has_pair(text) and CREATED not in text:
        return ()
    lines = text.split("\n")
    bodies = ["\n".join(lines[fence.opening + 1 : fence.closing]) for fence in find_fences(lines)]
    bodies = [body for body in bodies if body.lstrip()[:1] in ("{", "[")]
    if (bare := _bare(lines)) is not None and not bodies:
        bodies = [bare]
    return tuple(found for body in bodies for value in _values(body) for found in _replacements(value, None))


def has_pair(text: str, pairs: Sequence[tuple[str, str]] = PAIRS) -> bool:
    """Whether the text holds the names of old and new text as JSON has them."""
    signs = ('"', '\\"')  # the second where the arguments of a call are JSON in a string
    return any(f"{old}{sign}" in text and f"{new}{sign}" in text for old, new in pairs for sign in signs)


def _bare(lines: Sequence[str]) -> str | None:
    """The text from the first line on that opens an object or a list."""
    for at, line in enumerate(lines):
        start = line.lstrip()[:2]
        below = next((text.lstrip() for text in lines[at + 1 : at + 5] if text.strip()), "")
        if start in ("{", "[", '{"', "[{", "{}") and (len(line.strip()) > 1 or below[:1] in ('"', "{")):
            return "\n".join(lines[at:])
    return None


def _values(text: str) -> Iterator[Any]:
    """The JSON values that a text begins with, one after the other, commas between them or not."""
    decoder = json.JSONDecoder(strict=False)
    at = 0
    for _ in range(MAX_TRIES):
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
    """The replacements in a value; `path`: the file that what is around it names."""
    if depth > 6:
        return
    if isinstance(value, list):
        for item in value:
            yield from _replacements(item, path, depth + 1)
        return
    if isinstance(value, str) and depth and has_pair(value):
        for inner in _values(value):
            yield from _replacements(inner, path, depth + 1)
        return
    if not isinstance(value, dict):
        return
    path = next((value[name] for name in PATHS if isinstance(value.get(name), str)), path)
    pair = next(((old, new) for old, new in PAIRS if old in value and new in value), None)
    if pair is not None and all(isinstance(value[name], str) for name in pair):
        old, new = (normalise(value[name]) for name in pair)
        yield Replacement(old, new, path, any(value.get(name) is True for name in ALL))
    elif value.get("command") == "create" and isinstance(value.get(CREATED), str):
        yield Replacement("", normalise(value[CREATED]), path)
    for name in (*LISTS, *CALLS):
        if name in value:
            yield from _replacements(value[name], path, depth + 1)


def _for_file(found: Sequence[Replacement], path: str | None, trust: Trust) -> list[Replacement]:
    """The replacements that are for the file at `path`; those that name no file are for any."""
    named = sorted({item.path for item in found if item.path is not None})
    mine = [item for item in found if item.path is None or (path is not None and is_same_file(item.path, path))]
    if len(named) <= 1 and (path is None or len(mine) < len(found)):
        if named and path is not None:
            trust.lower(Certainty.LIKELY, f"the edit names another file: {named[0]}")
        return list(found)
    if not mine:
        raise MalformedEdit(
            "the edit is for several files, and none of them is known to be this one",
            value=path,
            limit=named,
            remedy="send `path`, as the edit names it",
        )
    if others := [name for name in named if path is None or not is_same_file(name, path)]:
        trust.note("the edit also changes " + ", ".join(others))
    return mine


def _replaced(text: str, replacement: Replacement, label: str, trust: Trust) -> str:
    """The text with one replacement made.  Lines that are not found as they stand are sought by `hunk_places`."""
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
    n_places = text.count(old)
    if n_places == 1 or (n_places and replacement.replaces_all):
        return text.replace(old, new)
    if n_places:
        rows = ", ".join(str(row) for row in _rows(text, old))
        raise NeedsMoreContext(
            f"{label}: its old text stands at several places (lines {rows})",
            value=old[:200],
            remedy="quote more lines around it, or set replace_all",
        )
    sides = [side.removesuffix("\n").split("\n") if side else [] for side in (old, new)]
    first = len(sides[0])
    hunk = hunk_of_replacement(label, list(enumerate(sides[0])), list(enumerate(sides[1], first)))
    return merge_hunks(text, "\n".join([*sides[0], *sides[1]]), [hunk], is_ordered=False, trust=trust).text


def _rows(text: str, piece: str) -> Iterator[int]:
    """1-based lines of the first places of a piece."""
    at = -1
    for _ in range(5):
        at = text.find(piece, at + 1)
        if at < 0:
            return
        yield text.count("\n", 0, at) + 1


def named_files(text: str) -> Mapping[str, None]:
    """The files that the replacements name, in order."""
    return dict.fromkeys(item.path for item in read_replacements(text) if item.path is not None)
