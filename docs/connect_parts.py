"""The generated parts of `mcp.md` and `clients.md`: what `apply-service connect` prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from apply_service.commands.connect import Client, all_clients

CLIENTS = all_clients("/home/me/src/project")
AGENTS = ("claude-code", "cursor", "codex", "opencode", "zed", "codecompanion")
LANGUAGES = {".json": "json", ".toml": "toml", ".yaml": "yaml"}


def agents() -> str:
    """The clients that start `apply-service mcp`."""
    return "\n".join(_headline(name, CLIENTS[name]) + "\n\n" + _block(CLIENTS[name]) for name in AGENTS)


def _headline(name: str, client: Client) -> str:
    place = f", in `{client.files[0]}`" if client.files else ""
    return f"**{client.title}**{place} (`connect {name}`): {client.note}."


def _block(client: Client) -> str:
    language = LANGUAGES[Path(client.files[0]).suffix] if client.files else "lua"
    return f"```{language}\n{client.snippet}```\n"


CONNECT_PARTS: Mapping[str, Callable[[], str]] = {
    "connect-agents": agents,
    "connect-continue": partial(_block, CLIENTS["continue"]),
    "connect-avante": partial(_block, CLIENTS["avante"]),
}
