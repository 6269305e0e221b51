"""`apply-service connect`: an entry is added to a client's file without touching anything else, or not at all."""

import json
import os
import random
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from apply_service.cli import CONNECT_CLIENTS, build_parser, main
from apply_service.commands.connect import all_clients, load_json, merged, own_program

pytestmark = pytest.mark.usefixtures("folder")
CLIENTS = all_clients("/project")
WITH_FILE = [name for name, client in CLIENTS.items() if client.files]
FILES = {name: CLIENTS[name].files[0] for name in WITH_FILE}
SETTINGS = """\
// Zed's own words
{
\t"theme": "One // Dark", /* kept */
\t"context_servers": { // others
\t\t"mine": {"command": "a", "args": ["}", "{"],},
\t},
\t"size": 1.50
}
"""
CODEX = """\
model = "o5"  # the one

[mcp_servers.other]
command = "b"
"""


def commands_in(value: Any) -> list[list[str]]:
    """The command lines of the MCP servers in a configuration."""
    if not isinstance(value, dict):
        return []
    command = value.get("command")
    found = [[command, *value["args"]]] if isinstance(command, str) else [command] if command else []
    return found + [line for item in value.values() for line in commands_in(item)]


def test_the_help_names_every_client() -> None:
    assert re.split(r", | or ", CONNECT_CLIENTS) == list(CLIENTS)


@pytest.mark.parametrize("name", CLIENTS)
def test_what_is_printed_can_be_read_and_starts_our_server(
    name: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    code = main(["connect", name, "--server", "http://127.0.0.1:9/"])
    out = capsysbinary.readouterr().out.decode()
    if name == "aider":
        assert (code, out) == (2, "")
        return
    assert code == 0
    assert "http://127.0.0.1:9/" in out
    if name in ("continue", "avante"):
        assert "http://127.0.0.1:9/v1" in out
        return
    loaders = {"codex": tomllib.loads, "codecompanion": lambda text: {"command": re.findall(r'"([^"]+)"', text)[2:]}}
    (command,) = commands_in(loaders.get(name, json.loads)(out))
    assert command[0] == str(Path(sys.executable).with_name("apply-service"))
    arguments = build_parser().parse_args(command[1:])
    assert (arguments.command, arguments.server) == ("mcp", "http://127.0.0.1:9/")


@pytest.mark.parametrize(("ran", "lies"), [("apply-service",) * 2, ("apply-service", "apply-service.exe")])
@pytest.mark.parametrize("name", ["cursor", "opencode", "codex", "codecompanion"])
def test_the_command_is_the_file_that_runs(
    name: str,
    ran: str,
    lies: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    """A client outside the environment, and a project with a program of that name in it."""
    (folder / "bin").mkdir()
    (folder / "bin" / lies).touch()
    monkeypatch.setattr("sys.argv", [f"bin/{ran}"])
    assert main(["connect", name]) == 0
    assert json.dumps(str(folder / "bin" / lies)) in capsysbinary.readouterr().out.decode()
    monkeypatch.setattr("sys.argv", [str(folder / "elsewhere" / "cli.py")])
    monkeypatch.setattr("sys.executable", str(folder / "bin" / "python"))
    assert main(["connect", name]) == 0
    assert json.dumps(str(folder / "bin" / lies)) in capsysbinary.readouterr().out.decode()
    (folder / "bin" / lies).unlink()
    assert main(["connect", name]) == 0
    words = re.findall(r'"([^"]+)"', capsysbinary.readouterr().out.decode())
    at = words.index(str(folder / "bin" / "python"))
    assert [word for word in words[at + 1 :] if word != "args"][:4] == ["-P", "-m", "apply_service.cli", "mcp"]


def test_the_file_of_continue_is_yaml() -> None:
    (model,) = yaml.safe_load(CLIENTS["continue"].text)["models"]
    assert model["roles"] == ["apply"]
    assert model["promptTemplates"]["apply"].startswith("<code>{{{ original_code }}}</code>\n<update>")


@pytest.mark.parametrize("name", WITH_FILE)
def test_a_new_file_is_what_is_printed_and_undo_removes_it(
    name: str, folder: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["connect", name]) == 0
    printed, note = capsysbinary.readouterr()
    path = folder / FILES[name]
    assert not path.exists()
    assert str(path).encode() in note
    for wanted in (b"diff --git ", b""):  # the second time there is nothing to do
        assert main(["connect", name, "--write"]) == 0
        assert capsysbinary.readouterr().out.startswith(wanted)
        assert path.read_bytes() == printed
    assert main(["undo", str(path)]) == 0
    assert not path.exists()


@pytest.mark.parametrize(
    ("name", "text"), [("zed", SETTINGS), ("codex", CODEX), ("zed", SETTINGS.replace("\n", "\r\n"))]
)
def test_all_else_in_a_file_stays(
    name: str, text: str, folder: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = folder / FILES[name]
    path.parent.mkdir()
    path.write_bytes(text.encode())
    assert main(["connect", name, "--write"]) == 0
    diff = capsysbinary.readouterr().out.decode()
    new = path.read_bytes().decode()
    assert not re.search(r"^-(?!--)", diff, re.MULTILINE), "no line goes"
    at = (
        next(i for i in range(len(text)) if text[i:] and not new.startswith(text[: i + 1]))
        if name == "zed"
        else len(text)
    )
    added = new[at : at + len(new) - len(text)]
    assert text[:at] + added + text[at:] == new
    assert "apply-service" in added
    assert new.count("\r") == (new.count("\n") if "\r" in text else 0)
    config = (tomllib.loads if name == "codex" else load_json)(new)
    assert list(config[CLIENTS[name].keys[0]]) in (["apply-service", "mine"], ["other", "apply-service"])
    assert main(["undo", str(path)]) == 0
    assert path.read_bytes().decode() == text


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("zed", "{", "Expecting"),
        ("zed", "[]", "not a table"),
        ("zed", '{"context_servers": []}', "not a table"),
        ("zed", '{"context_servers": {"apply-service": {"command": "other"}}}', "another entry"),
        ("zed", "\ufeff{}", "BOM"),
        ("zed", '{"\\u0063ontext_servers": {}, "context_servers": 1}', "not a table"),
        ("zed", "{'a': 1}", "Expecting"),
        ("codex", "mcp_servers = {}\n", "twice"),
        ("codex", "mcp_servers = 1\n", "not a table"),
        ("codex", "a = \n", "Invalid"),
        ("continue", "name: mine\n", "other contents"),
    ],
)
def test_a_file_that_does_not_fit_is_left_alone_and_the_entry_printed(
    name: str, text: str, why: str, folder: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = folder / FILES[name]
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode())
    assert main(["connect", name, "--write"]) == 3
    out, err = capsysbinary.readouterr()
    assert out.decode() == all_clients(str(folder), program=own_program())[name].snippet
    assert why in err.decode()
    assert b"The entry cannot be added" in err
    assert path.read_bytes() == text.encode()
    assert not list(Path(os.environ["XDG_STATE_HOME"]).rglob("*.json"))


def test_bytes_that_are_no_utf8(folder: Path) -> None:
    (folder / "opencode.jsonc").write_bytes(b'{"a": "\xff"}')
    assert main(["connect", "opencode", "--write"]) == 3
    assert not (folder / "opencode.json").exists(), "the file that exists is the client's"


def test_another_file_and_another_project(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "home" / "config.toml"
    assert main(["connect", "codex", "--write", "--file", str(path), "--root", str(folder)]) == 0
    assert tomllib.loads(path.read_text())["mcp_servers"]["apply-service"]["args"] == ["mcp", "--root", str(folder)]
    assert main(["connect", "codex", "--root", str(tmp_path / "none")]) == 3


def test_a_program_is_not_written(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    for name in ("avante", "codecompanion"):
        assert main(["connect", name, "--write"]) == 2
        out, err = capsysbinary.readouterr()
        assert out.startswith(b"require(")
        assert b"is a program, which this command does not change" in err
    assert main(["connect", "emacs"]) == 2


def random_json(dice: random.Random, depth: int = 0) -> str:
    """A JSON text with comments, trailing commas and any layout."""

    def space() -> str:
        return dice.choice(["", " ", "\n", "\n  ", " // {\n", "/* } */", '/* " */'])

    kind = dice.choice(["{", "{", "[", "x"]) if 0 < depth < 4 else "{" if depth == 0 else "x"
    if kind == "x":
        return dice.choice(["1", "-0.50", "true", "null", '"a // b"', '"\\"{"', '"é\\\\"', '"/* x */"'])
    names = ["context_servers", "mine", 'a\\"b', "{", "apply-service"]
    items = [random_json(dice, depth + 1) for _ in range(dice.randint(0, 3))]
    if kind == "{":
        items = [f'"{dice.choice(names)}"{space()}:{space()}{item}' for item in items]
    trailing = "," if items and dice.random() < 0.2 else ""
    body = ",".join(f"{space()}{item}{space()}" for item in items) + trailing + space()
    return space() + kind + body + {"{": "}", "[": "]"}[kind] + space()


def test_any_json_gets_the_entry_or_is_refused() -> None:
    seed = 7
    dice, client, n_merged = random.Random(seed), CLIENTS["zed"], 0
    for number in range(2000):
        text = random_json(dice)
        before = load_json(text)
        try:
            new = merged(text, client)
        except ValueError:
            there = before.get("context_servers", {})
            assert not isinstance(there, dict) or "apply-service" in there, f"seed {seed}, {number}: {text!r}"
            continue
        n_merged += 1
        before.setdefault("context_servers", {})["apply-service"] = dict(client.entry)
        assert load_json(new) == before, f"seed {seed}, {number}: {text!r}"
        # What was there is there still, in its order, but for blanks beside a brace.
        rest = iter(re.sub(r"\s", "", new))
        assert all(char in rest for char in re.sub(r"\s", "", text)), f"seed {seed}, {number}: {text!r}"
    assert n_merged > 1000
