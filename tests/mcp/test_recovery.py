"""Calls that fail are mended with one more call: misquoted, stale, applied already; and tools that agents know."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.types import CallToolResult

from apply_service.disk.backups import BackupStore
from apply_service.disk.paths import Roots
from apply_service.mcp.known_tools import KNOWN_TOOLS
from apply_service.mcp.tool import FileEditor, create_server
from apply_service.service import Service
from tests.edits.call_forms import FILE, NEW, OLD, PATCH, STRIPPED
from tests.mcp.test_editing import local, pipeline_run, text


@asynccontextmanager
async def connected(root: Path, tools: Sequence[str] = ()) -> AsyncIterator[Client]:
    with Service(pipeline_run) as service:
        editor = FileEditor(Roots([root]), local(service), BackupStore(root.parent / "state", 5), strategy="exact")
        async with Client(create_server(editor, tools)) as client:
            yield client


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    path = tmp_path / "root" / "a.py"
    path.write_text(FILE)
    return path


def replace(old: str, new: str) -> str:
    return json.dumps({"old_string": old, "new_string": new})


def calls(file: Path, *steps: Any, tools: Sequence[str] = ()) -> list[CallToolResult]:
    """The answers to calls; a step that is a function changes the file, or makes a call of the last answer."""

    async def main() -> list[CallToolResult]:
        answers: list[CallToolResult] = []
        async with connected(file.parent, tools) as client:
            for step in steps:
                made = step(answers[-1] if answers else None) if callable(step) else step
                if made is not None:
                    name, arguments = (
                        made if isinstance(made, tuple) else ("edit_file", {"path": "a.py", "code_edit": made})
                    )
                    answers.append(await client.call_tool(name, arguments))
        return answers

    return anyio.run(main)


def following(answer: CallToolResult) -> str:
    """The next call that an answer tells."""
    found = re.search(r"^next: code_edit = (.*)$", text(answer), re.M)
    assert found is not None, text(answer)
    return found[1]


def test_a_misquoted_edit_is_mended_by_the_call_that_the_answer_tells(file: Path) -> None:
    misquoted = replace(f"    with open(file_path) as file:\n{OLD}", f"    with open(file_path) as file:\n{NEW}")
    first, second = calls(file, misquoted, following)
    assert first.is_error
    assert "with open(path) as file:" in text(first)
    assert not second.is_error
    assert file.read_text() == STRIPPED


def test_the_same_edit_again_changes_nothing_and_says_so(file: Path) -> None:
    edit = replace(OLD, NEW)
    first, second = calls(file, edit, edit)
    assert not first.is_error
    assert file.read_text() == STRIPPED
    assert "already" in text(second)


def test_a_file_that_moved_on_is_merged_with_what_the_agent_saw(file: Path) -> None:
    """Between two calls somebody changes a line that the second call quotes."""

    def change(_: object) -> None:
        file.write_text(file.read_text().replace("def load(path):", "def load(path, /):"))

    quote = "def load(path):\n    with open(path) as file:\n"
    edit = replace(f"{quote}{NEW}", f"{quote}        # all\n{NEW}")
    first, second = calls(file, replace(OLD, NEW), change, edit)
    assert not first.is_error
    assert not second.is_error, text(second)
    assert "changed since" in text(second)
    assert file.read_text() == STRIPPED.replace("load(path)", "load(path, /)").replace(NEW, f"        # all\n{NEW}")


def test_what_both_changed_is_refused(file: Path) -> None:
    def rewrite(_: object) -> None:
        file.write_text(STRIPPED.replace(NEW, "        return None"))

    edit = replace(NEW, "        return file.readlines()")
    _, second = calls(file, replace(OLD, NEW), rewrite, edit)
    assert second.is_error
    assert "return None" in file.read_text()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("str_replace_based_edit_tool", {"command": "str_replace", "path": "a.py", "old_str": OLD, "new_str": NEW}),
        ("apply_patch", {"input": PATCH}),
    ],
)
def test_known_tools_edit_under_their_names(file: Path, name: str, arguments: dict[str, str]) -> None:
    (answer,) = calls(file, (name, arguments), tools=[name])
    assert not answer.is_error, text(answer)
    assert file.read_text() == STRIPPED


def test_insert_and_create(file: Path) -> None:
    name = "str_replace_based_edit_tool"
    insert = {"command": "insert", "path": "a.py", "insert_line": 1, "insert_text": "import sys\n"}
    create = {"command": "create", "path": "b.py", "file_text": "x = 1\n"}
    assert not any(one.is_error for one in calls(file, (name, insert), (name, create), tools=[name]))
    assert file.read_text() == FILE.replace("import os\n", "import os\nimport sys\n")
    assert (file.parent / "b.py").read_text() == "x = 1\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"command": "view", "path": "a.py"}, "view"),
        ({"command": "str_replace", "path": "a.py", "old": "x"}, "'old'"),
        ({"command": "insert", "path": "a.py", "insert_line": "1", "insert_text": "x"}, "insert_line"),
        ({"command": "str_replace"}, "path"),
    ],
)
def test_wrong_arguments_are_named(file: Path, arguments: dict[str, Any], said: str) -> None:
    name = "str_replace_based_edit_tool"
    (answer,) = calls(file, (name, arguments), tools=[name])
    assert answer.is_error
    assert said in text(answer)
    assert file.read_text() == FILE


def test_known_tools_are_off_by_default(file: Path) -> None:
    async def main() -> list[str]:
        async with connected(file.parent) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    assert anyio.run(main) == ["edit_file"]
    (answer,) = calls(file, ("apply_patch", {"input": PATCH}))
    assert answer.is_error
    assert file.read_text() == FILE
    assert set(KNOWN_TOOLS) == {"str_replace_based_edit_tool", "apply_patch"}
