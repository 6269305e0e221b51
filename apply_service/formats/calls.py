"""Reads the tool calls in a reply: JSON, broken JSON, or tags.

    {"name": "edit", "arguments": {...}}           bare, fenced, in a list, with arguments as a JSON text of their own
    <invoke name="edit"><parameter name="path">a.py</parameter>...</invoke>
    <function=edit><parameter=path>a.py</parameter>...</function>

Broken JSON is mended.  JSON that is cut short is not mended, because its missing end is unknown.  Nothing here knows
what an edit is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from apply_service.errors import MalformedEdit
from apply_service.text.fences import find_fences

INSIDE = ("arguments", "input", "parameters", "args", "tool_calls", "function", "functionCall", "tool_input", "output")
"""Fields of a call that hold its arguments, or further calls."""
LISTS = ("edits", "replacements", "changes", "operations", "operation", "files", "command")
"""Fields of arguments that hold a list of edits, or one edit as an object."""
PATHS = ("path", "file_path", "filePath", "target_file", "target_filepath", "filename", "file")
"""Fields that name the file of all other fields in their object."""
MAX_DEPTH = 6
MAX_MENDED = 1_000_000
"""Broken JSON is mended only if it has at most this many characters."""
_CALL = re.compile(r'<invoke name="(?P<name>[^"\n]*)">|<function=(?P<plain>[^>\n]*)>')
_OPENING = re.compile(r"\s*(?:<(?:tool_call|function_calls)>\s*)?(?:<invoke name=|<function=|[{\[])")
_END = re.compile(r"</invoke>|</function>")
_VALUE = re.compile(
    r'<parameter(?: name="(?P<name>[^"\n]*)"|=(?P<plain>[^>\n]*))>(?P<value>.*?)</parameter>'
    r"(?=\s*(?:<parameter[ =]|</invoke>|</function>))",
    re.DOTALL,
)
_CUT = ("missed the closing", "missing the closing")
"""The words in the log of `json_repair` that mean that the text ends too early."""


class Calls(NamedTuple):
    """The values of the calls in a reply."""

    values: tuple[object, ...] = ()
    is_mended: bool = False
    """Whether some of the calls were broken JSON."""


class Arguments(NamedTuple):
    """An object somewhere in a call."""

    tool: str
    """The name of the tool; "" if the call has none."""
    path: str | None
    """The file that the object names, or else the file that an object around it names."""
    fields: Mapping[str, object]


def opens_json(line: str) -> bool:
    return line.lstrip()[:1] in ("{", "[")


def opens_call(line: str) -> bool:
    """Tell whether a call may begin with the line."""
    return opens_json(line) or _OPENING.match(line) is not None


def read_calls(text: str) -> Calls:
    """Return the values of the calls in a text; empty if it has none.

    Raises MalformedEdit if the text begins with a call, and a call in tags has no end or holds such a tag in a value.
    """
    if _CALL.search(text):
        try:
            return Calls(tuple(_read_tags(text)))
        except MalformedEdit:
            if opens_call(text):
                raise
            return Calls()  # the tags belong to the text of a file
    values: list[object] = []
    is_mended = False
    for body in _bodies(text):
        found, rest = _read_json(body)
        values += found
        if rest and (mended := _mend(rest)) is not None:
            values.append(mended)
            is_mended = True
    return Calls(tuple(values), is_mended)


def _bodies(text: str) -> list[str]:
    """Return the texts that may be JSON: the texts in fences, or else everything from the first line that opens a
    value."""
    lines = text.split("\n")
    bodies = ["\n".join(lines[fence.opening + 1 : fence.closing]) for fence in find_fences(lines)]
    bodies = [body for body in bodies if opens_json(body)]
    for at, line in enumerate(lines if not bodies else ()):
        if line.lstrip()[:2] not in ("{", "[", '{"', "[{", "{}", "{'"):
            continue
        below = next((text.lstrip() for text in lines[at + 1 : at + 5] if text.strip()), "")
        if len(line.strip()) > 1 or below[:1] in ('"', "'", "{"):
            return ["\n".join(lines[at:])]
    return bodies


def _read_json(text: str) -> tuple[list[object], str]:
    """Return the JSON values at the start of a text, and the rest from the first value that can't be read.

    Commas may stand between the values.  The rest is empty if no further value begins there.
    """
    decoder = json.JSONDecoder(strict=False)
    found: list[object] = []
    at = 0
    while True:
        while at < len(text) and text[at] in " \t\n\r,":
            at += 1
        if at == len(text) or text[at] not in "{[":
            return found, ""
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return found, text[at:]
        found.append(value)


def _mend(text: str) -> object:
    """Return the value that a broken JSON text means; None if the text is cut short or can't be mended."""
    end = max(text.rfind("}"), text.rfind("]")) + 1
    if not 0 < end <= MAX_MENDED or '"' in text[end:]:
        return None
    from json_repair import repair_json  # imported here, because few replies are broken

    try:
        value, log = repair_json(text[:end], return_objects=True, logging=True)
    except (ValueError, RecursionError):
        return None
    is_cut = any(words in step["text"] for step in log for words in _CUT)
    return value if isinstance(value, dict | list) and value and not is_cut else None


def _read_tags(text: str) -> Iterator[object]:
    """Yield the calls that are written in tags.  Raises MalformedEdit if a call has no end, or if a value holds such a
    tag."""
    starts = list(_CALL.finditer(text))
    for call, after in zip(starts, [*starts[1:], None], strict=True):
        body = text[call.end() : len(text) if after is None else after.start()]
        ends = list(_END.finditer(body))
        if not ends:
            raise MalformedEdit(
                "a tool call in tags has no end: it may be cut short", value=body[-200:], remedy="send the whole call"
            )
        body = body[: ends[-1].end()]
        n_values, n_ends = len(re.findall("<parameter[ =]", body)), body.count("</parameter>")
        found = list(_VALUE.finditer(body)) if n_values == n_ends else []
        if len(found) != n_values:
            message = "a value of the tool call holds tags like those around it, so it can be read in two ways"
            raise MalformedEdit(message, value=body[:200], remedy="send the call as JSON")
        fields = {one["name"] or one["plain"]: _value(one["value"]) for one in found}
        yield {"name": call["name"] or call["plain"], "arguments": fields}


def _value(text: str) -> object:
    """Return a value in tags: a list if it is a JSON list, else the text.  A line end around the value is left out."""
    if text.startswith("\n") and text.endswith("\n"):
        text = text[1:-1]
    if opens_json(text):
        found, rest = _read_json(text)
        if len(found) == 1 and not rest and text.rstrip()[-1:] in ("]", "}"):
            return found[0] if isinstance(found[0], list) else text
    return text


def _named(value: Mapping[str, object], around: Arguments) -> Arguments:
    """Return an object of a call with its tool and file.  If the object names no tool or file, the object around it
    does."""
    tool, path = value.get("name"), next((text for name in PATHS if isinstance(text := value.get(name), str)), None)
    return Arguments(tool if isinstance(tool, str) else around.tool, path or around.path, value)


def walk(values: Sequence[object], *, everywhere: bool = False) -> Iterator[Arguments]:
    """Yield the objects in the calls, an outer object before the objects inside it.

    Only the fields in `LISTS` and `INSIDE` are searched, or all fields with `everywhere`.  A list with texts is yielded
    as an object with the positions of the texts as field names.
    """
    waiting: list[tuple[object, Arguments, int]] = [(value, Arguments("", None, {}), 0) for value in reversed(values)]
    while waiting:
        value, around, depth = waiting.pop()
        inside: list[object] = []
        if isinstance(value, str) and depth and opens_json(value):
            inside = _read_json(value)[0]
        elif isinstance(value, list):
            inside = value
            if texts := {str(n): item for n, item in enumerate(value) if isinstance(item, str)}:
                yield around._replace(fields=texts)
        elif isinstance(value, dict):
            around = _named(value, around)
            yield around
            names = value if everywhere else [name for name in (*LISTS, *INSIDE) if name in value]
            inside = [value[name] for name in names]
        waiting += [(item, around, depth + 1) for item in reversed(inside) if depth < MAX_DEPTH]
