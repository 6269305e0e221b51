"""Options are typed, the help page names each of them and every command, and a local server starts on demand."""

import re
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.editor_plugins.nvim.editor import PLUGIN, Editor
from tests.editor_plugins.nvim.test_apply import ask

HELP = (PLUGIN / "doc" / "apply-service.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"urll": "x"}, "option `urll` does not exist"),
        ({"keymaps": {"next": "]h"}}, "option `keymaps.next` does not exist"),
        ({"keymaps": "]h"}, "option `keymaps` must be a table"),
        ({"url": "localhost:8765"}, "must be an http or https URL"),
        ({"timeout_s": 0}, "must be a number above 0"),
        ({"timeout_s": "10"}, "must be a number, not"),
        ({"strategy": "best"}, "must be one of auto, model, exact"),
        ({"stream": 1}, "must be a boolean"),
        ({"api_key": "secret"}, "must be a function"),
        ({"on_verdict": {"syntax": "ignore"}}, 'must give "warn" or "fail"'),
        ({"start_server": {"command": ["serve", 1]}}, "must be a list of strings"),
        ({"keymaps": {"accept": True}}, "must be a string"),
    ],
)
def test_bad_options_are_errors(editor: Editor, options: dict[str, Any], words: str) -> None:
    with pytest.raises(pytest.importorskip("pynvim").NvimError, match=re.escape(words)):
        editor.setup(**options)


def test_what_is_left_out_keeps_its_default(editor: Editor) -> None:
    editor.setup(keymaps={"accept": False}, timeout_s=3)
    options = editor.lua("return require('apply_service').options()")
    assert (options["timeout_s"], options["url"]) == (3, "http://127.0.0.1:8765")
    assert options["keymaps"] == {
        "accept": False,
        "reject": "g3",
        "next_hunk": "]h",
        "previous_hunk": "[h",
        "next_reading": "]r",
        "previous_reading": "[r",
        "accept_all": False,
        "reject_all": False,
    }


def test_the_help_page_has_every_option_with_its_default(editor: Editor) -> None:
    specs = editor.lua("return require('apply_service.options').SPECS")
    tags = set(re.findall(r"\*apply-service-option-([^*]+)\*", HELP))
    assert tags == set(specs)
    for name, spec in specs.items():
        text = re.search(rf"^{re.escape(name)} .*?(?=\n\n)", HELP, re.DOTALL | re.MULTILINE)
        assert text is not None, name
        said, default = " ".join(text[0].split()), spec.get("default")
        for choice in spec.get("choices") or ():
            assert f'"{choice}"' in said, name
        assert f"default {spelled(default)}" in said, name


def spelled(value: object) -> str:
    """As Lua has it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list) and value:
        return "{ " + ", ".join(f'"{item}"' for item in value) + " }"
    return "{}" if value in ([], {}) else f'"{value}"' if isinstance(value, str) else str(value)


def test_the_readme_has_every_option(editor: Editor) -> None:
    readme = (PLUGIN / "README.md").read_text(encoding="utf-8")
    for name in editor.lua("return require('apply_service.options').SPECS"):
        assert f"`{name}`" in readme, name


def test_the_help_page_has_every_command_and_its_tags_work(editor: Editor, tmp_path: Path) -> None:
    commands = {name for name in editor.nvim.api.get_commands({}) if name.startswith("Apply")}
    assert set(re.findall(r"\*:(\w+)\*", HELP)) == commands
    assert len(commands) == 9
    shutil.copytree(PLUGIN / "doc", tmp_path / "doc")
    editor.command(f"helptags {tmp_path / 'doc'}")
    editor.command(f"set runtimepath^={tmp_path}")
    editor.command("help apply-service")
    assert editor.nvim.funcs.expand("%:t") == "apply-service.txt"
    for tag in re.findall(r"\|(apply-service[\w-]+|:Apply\w+)\|", HELP):
        editor.command(f"help {tag}")


def test_health_without_a_server_and_with_bad_options(editor: Editor) -> None:
    editor.setup(url="http://127.0.0.1:1", curl="no-such-curl")
    editor.command("checkhealth apply-service")
    page = "\n".join(editor.nvim.current.buffer[:])
    assert "`no-such-curl` is not executable" in page
    editor.setup(url="http://127.0.0.1:1")
    editor.command("checkhealth apply-service")
    assert "no service answers at http://127.0.0.1:1" in "\n".join(editor.nvim.current.buffer[:])


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


STARTED = """
import sys, json
from http.server import BaseHTTPRequestHandler, HTTPServer
answer = json.load(open(sys.argv[2]))["reply"]["body"].encode()
class Handler(BaseHTTPRequestHandler):
    def do_GET(self): self.say(b"{}")
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.say(answer)
    def say(self, body):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)
HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_a_local_server_starts_on_demand(editor: Editor, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(STARTED)
    fixture = str(PLUGIN.parent / "contract" / "fixtures" / "three_hunks.json")
    command = [sys.executable, str(tmp_path / "server.py"), "{port}", fixture]
    url = f"http://127.0.0.1:{free_port()}"
    ask(editor, url, tmp_path, start_server={"enabled": True, "command": command})
    assert "3 of 3" in editor.wait_for_status("hunks")


@pytest.mark.parametrize(
    ("url", "command", "words"),
    [
        ("http://127.0.0.1:{port}", ["no-such-program"], "`no-such-program` cannot be started"),
        ("http://127.0.0.1:{port}", ["false"], "ended with code 1 before it was ready"),
        ("http://127.0.0.1:{port}", ["sleep", "30"], "was not ready in 0.2 s"),
    ],
)
def test_a_local_server_that_does_not_start(
    editor: Editor, tmp_path: Path, url: str, command: list[str], words: str
) -> None:
    start = {"enabled": True, "command": command, "wait_s": 0.2}
    ask(editor, url.replace("{port}", str(free_port())), tmp_path, start_server=start)
    editor.wait_for_note(words)
    assert "failed (not_ready)" in editor.status()


def test_no_program_of_the_current_folder_runs(editor: Editor, tmp_path: Path) -> None:
    """Where Windows looks first; here PATH names it."""
    work, marks = tmp_path / "work", tmp_path / "marks"
    work.mkdir()
    marks.mkdir()
    for name in ("curl", "own-server"):
        (work / name).write_text(f"#!/bin/sh\ntouch {marks}/{name}\n")
        (work / name).chmod(0o755)
    editor.command(f"cd {work}")
    editor.lua("vim.env.PATH = '.::' .. vim.env.PATH")
    assert editor.lua("return require('apply_service.programs').find('own-server')") is None
    start = {"enabled": True, "command": ["own-server"], "wait_s": 0.2}
    ask(editor, f"http://127.0.0.1:{free_port()}", tmp_path, start_server=start)
    editor.wait_for_note("`own-server` cannot be started")
    assert list(marks.iterdir()) == []


def test_a_server_runs_in_the_home_folder(editor: Editor, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text("import os, sys; open(sys.argv[1], 'w').write(os.getcwd())\n")
    (tmp_path / "project").mkdir()
    editor.command(f"cd {tmp_path / 'project'}")
    command = [sys.executable, str(tmp_path / "server.py"), str(tmp_path / "told")]
    start = {"enabled": True, "command": command, "wait_s": 30}
    ask(editor, f"http://127.0.0.1:{free_port()}", tmp_path, start_server=start)
    editor.wait_for_note("ended with code 0 before it was ready")
    assert (tmp_path / "told").read_text() == str(Path.home().resolve())
