"""The arguments of `edit_file`: the names that agents know from other tools, read into one call.

`path`, `code_edit`, `instruction` and `dryRun` are the names of the best-known tool of this kind; the aliases are those
of others.  The schema shows each argument once; an argument that nobody knows is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from apply_service.errors import EmptyUpdate, InvalidField, UnknownField

ALIASES: Mapping[str, tuple[str, ...]] = {
    "path": ("target_filepath", "target_file", "file_path"),
    "code_edit": (),
    "instruction": ("instructions",),
    "dryRun": ("dry_run",),
    "on_verdict": (),
    "base_sha256": (),
    "encoding": (),
}
"""Argument -> other names for it."""

INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {
            "type": "string",
            "description": "The file to edit, absolute or relative to the project. One that does not exist is created.",
        },
        "code_edit": {
            "type": "string",
            "description": "The lines that change, with a few unchanged lines around each, and a comment "
            "`... existing code ...` for every stretch left out. To delete a block, show its neighbours with nothing "
            "between them, or write a comment `removed NAME`. Search/replace blocks, diffs, patches and JSON "
            "edits are taken as well, with other files' parts among them where each names its file.",
        },
        "instruction": {
            "type": "string",
            "description": "One sentence, in the first person, that says what the edit does.",
        },
        "dryRun": {"type": "boolean", "default": False, "description": "Show the diff and write nothing."},
        "on_verdict": {
            "type": "object",
            "additionalProperties": {"enum": ["warn", "fail"]},
            "description": 'By the name of a check: "warn" writes the file in spite of its findings, "fail" refuses it '
            "for a warning. Only where a refused edit is right as it is.",
        },
        "base_sha256": {
            "type": "string",
            "pattern": "^[0-9a-fA-F]{64}$",
            "description": "Hash of the file the edit was made for; another one is refused.",
        },
        "encoding": {"type": "string", "default": "utf-8", "description": "What the file is encoded in."},
    },
    "required": ["path", "code_edit"],
}


@dataclass(frozen=True, slots=True)
class EditCall:
    """One call of the tool."""

    path: str
    code_edit: str
    instruction: str = ""
    is_dry_run: bool = False
    on_verdict: Mapping[str, Literal["warn", "fail"]] = field(default_factory=dict)
    base_sha256: str | None = None
    encoding: str = "utf-8"


def read_arguments(arguments: Mapping[str, Any]) -> EditCall:
    """The call that the arguments mean.  A null counts as not given.

    Raises:
        UnknownField, InvalidField, EmptyUpdate: names the argument.
    """
    values = _by_argument(arguments)
    if "path" not in values:
        raise InvalidField("The argument 'path' is missing.", value="path", remedy="Name the file to edit.")
    if not _text(values, "code_edit").strip():
        raise EmptyUpdate("There is no edit.", value="code_edit", remedy="Send the lines that change as code_edit.")
    return EditCall(
        path=_text(values, "path"),
        code_edit=_text(values, "code_edit"),
        instruction=_text(values, "instruction"),
        is_dry_run=_flag(values, "dryRun"),
        on_verdict=_rules(values),
        base_sha256=_text(values, "base_sha256") or None,
        encoding=_text(values, "encoding") or "utf-8",
    )


def _by_argument(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Values by the schema's own names."""
    own = {alias: name for name, aliases in ALIASES.items() for alias in (name, *aliases)}
    values: dict[str, Any] = {}
    for given, value in arguments.items():
        if given not in own:
            raise UnknownField(f"Unknown argument {given!r}.", value=given, limit=list(ALIASES), remedy="Leave it out.")
        name = own[given]
        if value is None:
            continue
        if name in values and values[name] != value:
            raise InvalidField(f"{name!r} is given twice, as different values.", value=given, remedy="Give it once.")
        values[name] = value
    return values


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name, "")
    if not isinstance(value, str):
        raise InvalidField(f"{name!r} must be a string.", value=value, limit="a string", remedy=f"Send {name} as text.")
    return value


def _flag(values: Mapping[str, Any], name: str) -> bool:
    value = values.get(name, False)
    if not isinstance(value, bool):
        raise InvalidField(f"{name!r} must be true or false.", value=value, limit="true or false", remedy="Send one.")
    return value


def _rules(values: Mapping[str, Any]) -> Mapping[str, Literal["warn", "fail"]]:
    rules = values.get("on_verdict", {})
    if not isinstance(rules, dict) or any(rule not in ("warn", "fail") for rule in rules.values()):
        raise InvalidField(
            "'on_verdict' must say warn or fail by the names of checks.",
            value=rules,
            limit={"CHECK": "warn or fail"},
            remedy="Mend it, or leave it out.",
        )
    return rules
