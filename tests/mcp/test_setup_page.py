"""The setup lines on the page are ones that work: they parse, and our own parser takes their commands."""

import json
import re
import shlex
import tomllib
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apply_service.cli import build_parser
from apply_service.mcp.tool import ALIASES

PAGE = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LOADERS = {"json": json.loads, "toml": tomllib.loads}


def configured() -> Iterator[list[str]]:
    """Every command line on the page, whoever starts it."""
    for kind, text in BLOCK.findall(PAGE):
        if kind in LOADERS:
            yield from commands_in(LOADERS[kind](text))
        for line in text.splitlines() if kind in ("", "sh") else ():
            words = shlex.split(line, comments=True)
            if "mcp" in words and "apply-service" in words and "http" not in words:
                yield words[words.index("--") + 1 :] if "--" in words else words


def commands_in(value: Any) -> Iterator[list[str]]:
    if isinstance(value, dict):
        if isinstance(command := value.get("command"), str):
            yield [command, *value["args"]]
        elif isinstance(command, list):
            yield command
        for item in value.values():
            yield from commands_in(item)


def parse(command: list[str]) -> Namespace:
    assert command[0] == "apply-service"
    return build_parser().parse_args(command[1:])


@pytest.mark.parametrize("command", list(configured()), ids=" ".join)
def test_every_command_on_the_page_is_one_of_ours(command: list[str]) -> None:
    assert parse(command).command == "mcp"


def test_every_client_is_on_the_page() -> None:
    assert len(list(configured())) == 9
    for client in ("Claude Code", "Cursor", "Codex", "OpenCode", "Zed", "codecompanion.nvim"):
        assert f"**{client}**" in PAGE


def test_arguments_and_fields_are_those_of_the_tool() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE, re.MULTILINE)
    assert {name: tuple(re.findall(r"`(\w+)`", others)) for name, others in rows} == ALIASES
