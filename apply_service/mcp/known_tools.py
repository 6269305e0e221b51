"""Offers, besides `edit_file` and on request, edit tools under the names that agents know from their vendors.

Each call becomes a call of `edit_file`: the readers of formats take the vendor's arguments as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from apply_service.errors import EmptyUpdate, InvalidField, UnknownField
from apply_service.reply.reader import named_files

STRING, NUMBER = {"type": "string"}, {"type": "integer"}


class KnownTool(NamedTuple):
    """A vendor's tool: its description, its arguments, and the call that replaces it."""

    description: str
    properties: Mapping[str, Mapping[str, Any]]
    required: Sequence[str]
    turn: Callable[[Mapping[str, Any]], dict[str, Any]]
    """Returns the arguments of `edit_file`."""


def _of_patch(arguments: Mapping[str, Any]) -> dict[str, Any]:
    files = named_files(arguments["input"])
    if not files:
        remedy = "send *** Begin Patch, *** Update File: path, the hunks, *** End Patch"
        raise EmptyUpdate("the patch names no file", value=arguments["input"][:200], remedy=remedy)
    return {"path": files[0], "code_edit": arguments["input"]}


KNOWN_TOOLS: Mapping[str, KnownTool] = {
    "str_replace_based_edit_tool": KnownTool(
        "Edit a file: `str_replace` puts new_str in the place of old_str, `insert` puts insert_text below line "
        "insert_line, `create` writes file_text as a new file. Text that does not stand in the file exactly is not "
        "replaced: the answer names the line that differs and the call that fits.",
        {
            "command": {"enum": ["str_replace", "insert", "create", "view"]},
            **dict.fromkeys(("path", "old_str", "new_str", "insert_text", "file_text"), STRING),
            "insert_line": NUMBER,
        },
        ("command", "path"),
        lambda arguments: {"path": arguments["path"], "code_edit": json.dumps(dict(arguments))},
    ),
    "apply_patch": KnownTool(
        "Apply a patch over files that exist or are new: *** Begin Patch, *** Update File: path or *** Add File: path, "
        "hunks with @@, context and -/+ lines, *** End Patch. A hunk whose lines are not in the file is not applied: "
        "the answer names the line that differs and the call that fits.",
        {"input": STRING},
        ("input",),
        _of_patch,
    ),
}
"""The tools by their names."""


def turned(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `edit_file` for a call of a known tool.  Raises UnknownField, InvalidField or
    EmptyUpdate, which name the argument."""
    tool = KNOWN_TOOLS[name]
    kinds = {"string": (str, "a string"), "integer": (int, "a number")}
    for given, value in arguments.items():
        if given not in tool.properties:
            message, known = f"unknown argument {given!r}", list(tool.properties)
            raise UnknownField(message, value=given, limit=known, remedy="leave it out")
        kind, allowed = kinds[str(tool.properties[given].get("type", "string"))]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InvalidField(f"{given!r} must be {allowed}", value=value, limit=allowed, remedy=f"send {allowed}")
    if missing := next((one for one in tool.required if not arguments.get(one)), None):
        raise InvalidField(f"the argument {missing!r} is missing", value=missing, remedy=f"send {missing}")
    return tool.turn(arguments)
