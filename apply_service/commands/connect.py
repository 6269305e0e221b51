"""Runs `apply-service connect CLIENT`: prints the configuration that points a client to us, or adds it to the client's
file.

An entry is inserted as text, so the file keeps its comments, order and layout.  The new text is then parsed and
compared with the old configuration plus the entry.  If they differ, or the file cannot be parsed, nothing is written.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from apply_service.commands.output import OK, write_diff, write_note, write_out
from apply_service.commands.undo import open_store
from apply_service.disk.files import FileWrite, read_source
from apply_service.disk.paths import Roots
from apply_service.errors import FileNotWritable, InvalidField, UnsupportedParameter
from apply_service.settings import AUTO, Settings

NAME = "apply-service"
URL = "http://127.0.0.1:8765"
"""The address on which `apply-service serve` listens by default."""


class Client(NamedTuple):
    """One client, and the configuration it needs."""

    title: str
    note: str
    files: tuple[str, ...] = ()
    """The client's configuration files in the project.  The first file that exists is used, or else the first in the
    list.  Empty for a program."""
    keys: tuple[str, ...] = ()
    """The path of the entry inside that file.  It is empty if the file is ours alone."""
    entry: Mapping[str, Any] = {}
    text: str = ""
    """The text to print instead of an entry: a program, or a whole file."""

    @property
    def snippet(self) -> str:
        """The whole configuration, in the form of a separate file."""
        return self.text if not self.keys else FORMATS[Path(self.files[0]).suffix].insert("", self.keys, self.entry)


def run(arguments: Namespace, settings: Settings) -> int:
    """Run the command and return the exit code.  Raises ApplyError."""
    folder = Roots([arguments.root]).folders[0]
    clients = all_clients(str(folder), None if settings.server == AUTO else settings.server, program=own_program())
    if (client := clients.get(arguments.client)) is None:
        raise InvalidField(
            "This command does not know that client.",
            value=arguments.client,
            limit=list(clients),
            remedy="Name one of these.",
        )
    if not client.snippet:
        raise InvalidField(client.note, value=arguments.client, remedy="Use another client.")
    paths = [folder / name for name in client.files]
    path = next((path for path in paths if path.exists()), *paths[:1]) if paths else None
    if arguments.file is not None:
        path = Path(arguments.file).expanduser()
    if not arguments.write:
        write_note(f"{client.title}: {client.note}")
        if path is not None:
            write_note(f"Add this to {path}, or let --write add it:")
        write_out(client.snippet)
        return OK
    if not paths or path is None:
        write_out(client.snippet)
        message = "The configuration of this client is a program, which this command does not change."
        raise UnsupportedParameter(message, value=client.title, remedy="Add the lines above by hand.")
    from apply_service.text.diff import unified_diff_text

    store = open_store(arguments, settings)
    source = read_source(path, needs_folder=False)
    try:
        before = source.data.decode("utf-8")
        after = merged(before, client)
    except ValueError as error:
        write_out(client.snippet)
        message = f"The entry cannot be added: {error}."
        raise FileNotWritable(message, value=str(path), remedy="Add the lines above by hand.") from error
    if after == before:
        write_note(f"{path} already has this entry.")
        return OK
    write_diff(unified_diff_text(before, after, str(path)), settings)
    store.write_all([FileWrite(source, after.encode("utf-8"))])
    write_note(f"Written; `apply-service undo {path}` takes it back.")
    write_note(f"{client.title}: {client.note}")
    return OK


def own_program() -> list[str]:
    """Return the words that start this command from everywhere: the program's file, or the interpreter with the module.
    A client outside the environment would not find the bare name.  On Windows, the client would run a program of that
    name in the project."""
    path = Path(os.path.abspath(sys.argv[0]))
    named = [path] if path.stem == NAME and os.path.dirname(sys.argv[0]) else []
    places = [*named, Path(sys.executable).with_name(NAME)]
    files = (file for place in places for file in (place, place.with_name(place.name + ".exe")))
    found = next((str(file) for file in files if file.is_file()), None)
    return [sys.executable, "-P", "-m", "apply_service.cli"] if found is None else [found]


# -- the clients -------------------------------------------------------------------------------------------------------
def all_clients(project: str, server: str | None = None, *, program: Sequence[str] = (NAME,)) -> dict[str, Client]:
    """Return the clients, by the names that the command takes.  `server`: the running service that decides, if any.
    `program`: the words that start this command."""
    command = program[0]

    def mcp(*root: str) -> list[str]:
        return [*program[1:], "mcp", *root, *(("--server", server) if server else ())]

    base = (server or URL).rstrip("/") + "/v1"
    here = ("--root", project)
    return {
        "claude-code": Client(
            "Claude Code",
            "it asks once whether the project's servers may run",
            (".mcp.json",),
            ("mcpServers", NAME),
            {"command": command, "args": mcp()},
        ),
        "cursor": Client(
            "Cursor",
            "switch the server on in its settings",
            (".cursor/mcp.json",),
            ("mcpServers", NAME),
            {"command": command, "args": mcp("--root", "${workspaceFolder}")},
        ),
        "codex": Client(
            "Codex",
            "it reads a project's file only if it trusts the project; ~/.codex/config.toml (--file) is always read",
            (".codex/config.toml",),
            ("mcp_servers", NAME),
            {"command": command, "args": mcp(*here)},
        ),
        "opencode": Client(
            "OpenCode",
            "restart it; version 2 may want the entry under mcp.servers, without `enabled`",
            ("opencode.json", "opencode.jsonc"),
            ("mcp", NAME),
            {"type": "local", "command": [command, *mcp("--root", ".")], "enabled": True},
        ),
        "zed": Client(
            "Zed",
            "also for ~/.config/zed/settings.json (--file)",
            (".zed/settings.json",),
            ("context_servers", NAME),
            {"command": command, "args": mcp(*here)},
        ),
        "continue": Client(
            "Continue",
            f"a model for its role `apply`, by the service at {base}; put a key in place of `any` if it wants one",
            (".continue/models/apply-service.yaml",),
            text=CONTINUE.format(base=json.dumps(base + "/")),
        ),
        "avante": Client(
            "avante.nvim",
            f"for your Neovim configuration, by the service at {base}; MORPH_API_KEY must be set, to anything",
            text=AVANTE.format(base=json.dumps(base)),
        ),
        "codecompanion": Client(
            "codecompanion.nvim",
            "for your Neovim configuration, in versions that have MCP servers",
            text=CODECOMPANION.format(cmd=", ".join(json.dumps(word) for word in [command, *mcp("--root", ".")])),
        ),
        "aider": Client("aider", "aider applies its models' edits itself and asks no apply service."),
    }


CONTINUE = """\
name: apply-service
version: 1.0.0
schema: v1
models:
  - name: apply-service
    provider: morph
    model: Fast-Apply
    apiBase: {base}
    apiKey: any
    roles: [apply]
    useLegacyCompletionsEndpoint: false
    promptTemplates:
      apply: "<code>{{{{{{ original_code }}}}}}</code>\\n<update>{{{{{{ new_code }}}}}}</update>"
"""
AVANTE = """\
require("avante").setup({{
  behaviour = {{ enable_fastapply = true }},
  providers = {{
    morph = {{ endpoint = {base}, model = "morph-v3-large" }},
  }},
}})
"""
CODECOMPANION = """\
require("codecompanion").setup({{
  mcp = {{ servers = {{ ["apply-service"] = {{ cmd = {{ {cmd} }} }} }} }},
}})
"""


# -- adding an entry ---------------------------------------------------------------------------------------------------
def merged(text: str, client: Client) -> str:
    """Return the file's text with the client's entry added if it is missing.  Raises ValueError, which says why it
    can't be added."""
    if not client.keys:
        if text not in ("", client.text):
            raise ValueError("the file already exists and has other contents")
        return client.text
    form = FORMATS[Path(client.files[0]).suffix]
    wanted = place = form.load(text)
    for key in client.keys[:-1]:
        place = place.setdefault(key, {}) if isinstance(place, dict) else None
    if not isinstance(place, dict):
        raise ValueError(f"{'.'.join(client.keys[:-1])} is not a table in the file")
    if place.setdefault(client.keys[-1], dict(client.entry)) != client.entry:
        raise ValueError(f"the file already has another entry {client.keys[-1]}")
    if form.load(text) == wanted:
        return text
    new = form.insert(text, client.keys, client.entry)
    if form.load(new) != wanted:
        raise ValueError("this command does not know how to change a file written in this way")
    return new


QUOTED = r'"(?:[^"\\\n]|\\.)*"'
JSON_COMMENT = re.compile(rf"({QUOTED})|//[^\n]*|/\*.*?\*/", re.DOTALL)
JSON_TRAILING_COMMA = re.compile(rf"({QUOTED})|,(?=\s*[}}\]])")
REST_OF_LINE = re.compile(r"[ \t]*(?://[^\r\n]*|/\*(?:(?!\*/)[^\r\n])*\*/[ \t]*)?(?=[\r\n])")
"""Matches the rest of a line if it holds nothing, or one comment."""
JSON_MARK = re.compile(rf"({QUOTED})\s*:|{QUOTED}|[{{}}\[\]]")


def plain_json(text: str) -> str:
    """Return the text with comments and trailing commas, which some clients allow, replaced by spaces."""
    for pattern in (JSON_COMMENT, JSON_TRAILING_COMMA):
        text = pattern.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), text)
    return text


def load_json(text: str) -> Any:
    return json.loads(plain_json(text) or "{}")


def insert_json(text: str, keys: Sequence[str], entry: Mapping[str, Any]) -> str:
    """Return the text with the entry as the first member of the innermost object of `keys` that exists.  The missing
    objects are put around the entry."""
    text = text or "{}\n"
    eol = "\r\n" if "\r\n" in text else "\n"
    indent = found[1] if (found := re.search(r"^([ \t]+)\S", text, re.MULTILINE)) else "  "
    at, depth, path = 0, 0, list[str | None]()  # `path`: the key of each open object; None in a list
    for mark in JSON_MARK.finditer(plain_json(text)):
        if mark[0] in "{[":
            if mark[0] == "{" and path == list(keys[: len(path)]):
                at, depth = mark.end(), len(path)
            path.append(None)
        elif mark[0] in "}]":
            path.pop()
        elif mark[1]:
            path[-1] = json.loads(mark[1])
    opened = [f"{json.dumps(key)}: {{" for key in keys[depth:-1]]
    lines = [*opened, f"{json.dumps(keys[-1])}: {json.dumps(entry, ensure_ascii=False)}"]
    lines = [indent * (depth + 1 + i) + line for i, line in enumerate(lines)]
    lines += [indent * (depth + i) + "}" for i in range(len(opened), 0, -1)]
    is_empty = plain_json(text)[at:].lstrip().startswith("}")
    if same_line := REST_OF_LINE.match(text, at):
        at = same_line.end()
    rest = text[at:]
    if rest[:1] not in ("\r", "\n"):
        rest = eol + indent * (depth + (not is_empty)) + rest.lstrip(" \t")
    return text[:at] + eol + eol.join(lines) + ("" if is_empty else ",") + rest


def insert_toml(text: str, keys: Sequence[str], entry: Mapping[str, Any]) -> str:
    """Return the text with the entry as a table at the end."""
    eol = "\r\n" if "\r\n" in text else "\n"
    between = eol if text and not text.endswith("\n") else ""
    lines = [
        f"[{'.'.join(keys)}]",
        *(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()),
    ]
    return text + between + (eol if text else "") + eol.join(lines) + eol


class Format(NamedTuple):
    """How a kind of file is read, and how an entry is added to its text."""

    load: Callable[[str], Any]
    insert: Callable[[str, Sequence[str], Mapping[str, Any]], str]


FORMATS = {".json": Format(load_json, insert_json), ".toml": Format(tomllib.loads, insert_toml)}
