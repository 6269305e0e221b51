"""What the run with the real clients counts; the run itself needs their packages (`make test-real-clients`)."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from docs.service_parts import clients_text
from tests.real_clients.edits import diffed, replaced, snippet, with_ends
from tests.real_clients.run import FOLDER, judge, package


def test_every_answer_is_counted_once() -> None:
    answers: list[dict[str, Any]] = [
        {"edit": "a", "text": "right"},
        {"edit": "b", "text": "right\n"},
        {"edit": "c", "error": "BadRequestError", "status": 400, "message": "doubt | 29%"},
        {"edit": "wrong key", "error": "AuthenticationError", "status": 401, "message": ""},
        {"edit": "unknown model", "error": "BadRequestError", "status": 400, "message": ""},
        {"edit": "no edit", "text": "hi"},
        {"edit": "cancelled", "error": "Aborted", "status": 499, "is_freed": True, "message": ""},
    ]
    found = judge(
        [{"client": "openai (npm) chat", **a} for a in answers], dict.fromkeys("abc", "right"), {"openai (npm)": "6"}
    )
    assert (found["version"], found["right"], found["wrong"]) == ("6", 1, ["b"])
    assert found["refused"] == {"c": "BadRequestError 400: doubt | 29%"}
    assert found["errors"] == {
        "wrong key": "AuthenticationError 401",
        "unknown model": "WRONG: BadRequestError 400",
        "no edit": "WRONG: answered",
        "cancelled": "Aborted 499",
    }
    hardware = {"cpu": "x", "n_cpus": 2}
    origin = {"created": "2026-01-01T", "commit": None, "dirty": None, "hardware": hardware}
    page = clients_text({"edits": {"a": 5}, "is_isolated": True, "provenance": origin, "clients": {"openai": found}})
    assert "**wrong**: b; c: BadRequestError 400: doubt \\| 29%" in page


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"error": "Timeout", "status": None, "is_freed": False}, "WRONG: Timeout, the edit goes on"),
        ({"text": "right", "is_freed": True}, "WRONG: answered"),
    ],
)
def test_a_call_that_is_given_up_must_end_on_the_server(said: dict[str, Any], told: str) -> None:
    answer = {"client": "litellm", "edit": "cancelled", "message": "", **said}
    assert judge([answer], {}, {"litellm": "1"})["errors"] == {"cancelled": told}


@pytest.mark.parametrize(
    ("client", "name"),
    [("openai (npm) chat", "openai (npm)"), ("litellm stream", "litellm"), ("relace-mcp", "relace-mcp")],
)
def test_a_client_is_a_way_to_use_a_package(client: str, name: str) -> None:
    assert package(client) == name


def test_versions_are_pinned() -> None:
    pinned = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))["dependencies"]
    assert all(version[0].isdigit() for version in pinned.values())
    assert all("==" in line for line in Path(FOLDER / "requirements.txt").read_text(encoding="utf-8").split())


def test_edits_are_of_files_that_stay_python() -> None:
    for edit in (
        snippet("textwrap.py", "x"),
        replaced("ast.py", "x", 3, deletes=True),
        diffed("inspect.py", "x", 3, deletes=2),
    ):
        assert ast.dump(ast.parse(edit.merged)) != "" != edit.update
        assert edit.merged != edit.original
        ended = with_ends(edit, mark="\ufeff")
        assert ended.original.startswith("\ufeff")
        assert "\n" not in ended.merged.replace("\r\n", "")
        assert ended.update == edit.update
