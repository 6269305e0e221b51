"""The recipes for editors: every line of the page is run, and Emacs itself where there is one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from apply_service.build import build_runtime, open_service
from apply_service.cli import build_parser
from apply_service.settings import Settings
from tests.live_server import serving

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "editors.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "benchmarks" / "example"
ADDRESS = "http://127.0.0.1:8765"
ORIGINAL = (EXAMPLE / "cart.py").read_bytes()
MERGED = (EXAMPLE / "merged.py").read_bytes()
UPDATE = (EXAMPLE / "update.txt").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server with the embedded model, asked once: loading the model is no part of a recipe's deadline."""
    settings = Settings(drain_timeout_s=0, default_timeout_s=600)
    with open_service(build_runtime(settings), settings) as service, serving(service, settings) as (address, _):
        body = {"original": "a = 1\n", "update": "a = 2\n", "strategy": "model"}
        httpx2.post(f"{address}/v1/apply", json=body, timeout=600).raise_for_status()
        yield address


class Shell:
    """A folder with the shipped example, and a path that leads to this package's command, `pbpaste` and the scripts."""

    def __init__(self, folder: Path, url: str) -> None:
        if shutil.which("sh") is None:
            pytest.skip("no sh on this machine")
        self.folder = folder / "work"
        self.programs = folder / "bin"
        self.url = url
        self.folder.mkdir()
        self.programs.mkdir()
        (self.folder / "cart.py").write_bytes(ORIGINAL)
        self.copy(UPDATE)
        self.add_program("pbpaste", f'#!/bin/sh\nexec cat "{self.folder / "snippet.txt"}"\n')
        self.add_program("apply-service", f'#!/bin/sh\nexec "{sys.executable}" -m apply_service.cli "$@"\n')
        for script in (text for text in blocks("sh") if text.startswith("#!")):
            name = re.findall(r"^# ([\w-]+) ", script, re.MULTILINE)[0]
            self.add_program(name, script)

    def add_program(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def copy(self, snippet: str) -> None:
        (self.folder / "snippet.txt").write_text(snippet, encoding="utf-8")

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("APPLY_")}
        places = {"HOME": str(self.folder.parent), "XDG_STATE_HOME": str(self.folder.parent / "state")}
        return kept | places | {"PATH": f"{self.programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    def run(self, command: str, *, given: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["sh", "-c", command.replace(ADDRESS, self.url)],
            cwd=self.folder,
            env=self.environment | environment,
            input=given,
            capture_output=True,
            timeout=300,
            check=False,
        )


@pytest.fixture
def shell(tmp_path: Path, url: str) -> Shell:
    return Shell(tmp_path, url)


def test_there_are_as_many_shell_blocks_as_tests_know() -> None:
    assert len(blocks("sh")) == 4
    assert sum(text.startswith("#!") for text in blocks("sh")) == 2


def test_the_lines_of_the_filter(shell: Shell) -> None:
    exported, merged, diff = blocks("sh")[0].splitlines()
    done = shell.run(f"{exported}\n{merged}")
    assert (done.returncode, done.stdout) == (0, MERGED), done.stderr
    done = shell.run(f"{exported}\n{diff}")
    assert done.returncode == 0, done.stderr
    assert b"+        if item.quantity < 1:\n" in done.stdout
    assert (shell.folder / "cart.py").read_bytes() == ORIGINAL


def test_the_json_line(shell: Shell) -> None:
    done = shell.run(blocks("sh")[1], APPLY_SERVICE_SERVER=shell.url)
    assert json.loads(done.stdout)["merged_code"] == "a = 1\nb = 20\nc = 3\n"


def test_the_clipboard_script(shell: Shell) -> None:
    done = shell.run("apply-clipboard '-odd name.py'", given=ORIGINAL, APPLY_SERVICE_SERVER=shell.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, MERGED, b"")


def test_the_clipboard_script_gives_no_text_where_the_service_refuses(shell: Shell) -> None:
    shell.copy("")
    done = shell.run("apply-clipboard cart.py", given=ORIGINAL, APPLY_SERVICE_SERVER=shell.url)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"apply-service: " in done.stderr


def test_no_temporary_file_stays(shell: Shell, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    for server in (shell.url, "http://127.0.0.1:9"):
        shell.run("apply-clipboard cart.py", given=ORIGINAL, APPLY_SERVICE_SERVER=server, TMPDIR=str(scratch))
    assert list(scratch.iterdir()) == []


def test_the_key_of_helix_runs_the_script(shell: Shell) -> None:
    (text,) = blocks("toml")
    select, pipe, _ = tomllib.loads(text)["keys"]["normal"]["space"]["i"]
    assert select == "select_all"
    assert pipe.startswith(":pipe ")
    command = pipe.removeprefix(":pipe ").replace("%{buffer_name}", "src/my cart.py")
    assert shell.run(command, given=ORIGINAL, APPLY_SERVICE_SERVER=shell.url).stdout == MERGED


def test_the_external_tools_of_jetbrains(shell: Shell) -> None:
    rows = dict(re.findall(r"^\| (Program|Arguments) \| (.*) \|$", PAGE, re.MULTILINE))
    programs, arguments = (re.findall(r"`([^`]+)`", rows[name]) for name in ("Program", "Arguments"))
    path = shell.folder / "cart.py"
    apply, undo = (
        f"{program} {text}".replace("$FilePath$", str(path)) for program, text in zip(programs, arguments, strict=True)
    )
    assert shell.run(apply, APPLY_SERVICE_SERVER=shell.url).returncode == 0
    assert path.read_bytes() == MERGED
    assert shell.run(undo).returncode == 0
    assert path.read_bytes() == ORIGINAL


def json_block(key: str) -> Any:
    """The settings that have this key, or are a list of objects that have it."""
    return next(
        block for block in map(json.loads, blocks("json")) if key in (block[0] if isinstance(block, list) else block)
    )


def test_the_task_of_zed(shell: Shell) -> None:
    (task,) = json_block("label")
    path = shell.folder / "cart.py"
    arguments = " ".join(f'"{text}"' for text in task["args"])
    environment = {name: value.replace(ADDRESS, shell.url) for name, value in task["env"].items()}
    assert shell.run(f"{task['command']} {arguments}", ZED_FILE=str(path), **environment).returncode == 0
    assert path.read_bytes() == MERGED


def test_the_mcp_server_of_zed() -> None:
    server = json_block("context_servers")["context_servers"]["apply-service"]
    assert server["command"] == "apply-service"
    arguments = build_parser().parse_args(server["args"])
    assert (arguments.command, arguments.server) == ("mcp", ADDRESS)


def test_the_chat_of_zed(url: str) -> None:
    """Fields as Zed's OpenAI-compatible provider sends them; derived from its documentation, not recorded."""
    provider = json_block("language_models")["language_models"]["openai_compatible"]["apply-service"]
    (message,) = blocks("text")
    body = {
        "model": provider["available_models"][0]["name"],
        "messages": [{"role": "user", "content": message}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 1.0,
        "stop": [],
    }
    address = provider["api_url"].replace(ADDRESS, url)
    with httpx2.Client() as client:
        answer = client.post(f"{address}/chat/completions", json=body | {"temperature": 0.0}, timeout=60)
        other = client.post(
            f"{address}/chat/completions", json=body | {"messages": [{"role": "user", "content": "Hi"}]}
        )
    assert answer.status_code == 200, answer.text
    events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
    pieces = [choice["delta"].get("content") or "" for text in events for choice in json.loads(text)["choices"]]
    assert "".join(pieces) == "a = 1\nb = 20\nc = 3\n"
    assert other.json()["error"]["code"] == "not_an_edit"


# -- Emacs -------------------------------------------------------------------------------------------------------------
LISP = """
(load "{folder}/recipe.el" nil t)
(setcar (nthcdr 4 apply-service-command) "{url}")
(setq make-backup-files nil create-lockfiles nil)
(defun report (&rest values) (princ (concat (json-encode values) "\\n")))
(find-file "{folder}/{name}")
(kill-new (with-temp-buffer (insert-file-contents "{folder}/snippet.txt") (buffer-string)))
"""


def run_emacs(shell: Shell, script: str, *, name: str = "cart.py", url: str | None = None) -> list[Any]:
    """The values that the script reports, in Emacs, with the example opened and its snippet in the kill ring."""
    emacs = shutil.which("emacs")
    if emacs is None:
        pytest.skip("no Emacs on this machine: apt-get install emacs-nox")
    (recipe,) = blocks("elisp")
    (shell.folder / "recipe.el").write_text(";;; -*- lexical-binding: t -*-\n" + recipe, encoding="utf-8")
    start = LISP.format(folder=shell.folder, url=url or shell.url, name=name)
    (shell.folder / "script.el").write_text("(require 'json)\n" + start + script, encoding="utf-8")
    done = subprocess.run(
        [emacs, "--batch", "-Q", "-l", str(shell.folder / "script.el")],
        env=shell.environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_emacs_merges_and_undoes_in_one_step(shell: Shell) -> None:
    (shell.folder / "cart.py").write_bytes(ORIGINAL.replace(b"\n", b"\r\n"))
    script = """
(goto-char (point-max)) (search-backward "return")
(setq before (buffer-string))
(narrow-to-region (line-beginning-position) (line-end-position))
(apply-service-yank)
(report (buffer-string) (looking-at "return"))
(widen) (save-buffer)
(copy-file buffer-file-name (concat buffer-file-name ".merged"))
(undo-boundary) (setq last-command nil) (undo)
(report (equal before (buffer-string)) (length (buffer-list)))
(save-buffer)
"""
    (line, is_on_return), (is_as_before, _) = run_emacs(shell, script)
    assert (line, is_on_return, is_as_before) == ('    return "\\n".join(lines)', True, True)
    assert (shell.folder / "cart.py.merged").read_bytes() == MERGED.replace(b"\n", b"\r\n")
    assert (shell.folder / "cart.py").read_bytes() == ORIGINAL.replace(b"\n", b"\r\n")


REFUSED = """
(setq message (condition-case problem (progn (apply-service-yank) "none") (error (error-message-string problem))))
(report message (buffer-modified-p) (length (directory-files temporary-file-directory nil "^apply-")))
"""


def test_emacs_leaves_the_text_where_the_service_refuses(shell: Shell) -> None:
    shell.copy("-    return never_there\n+    return 1\n")
    ((message, is_modified, _),) = run_emacs(shell, '(kill-new "")' + REFUSED)
    assert message.startswith("apply-service: error:")
    assert is_modified is None


def test_emacs_tells_that_there_is_no_server(shell: Shell) -> None:
    ((message, is_modified, _),) = run_emacs(shell, REFUSED, url="http://127.0.0.1:9")
    assert "[unreachable]" in message or "apply-service: error:" in message
    assert is_modified is None


def test_emacs_leaves_a_read_only_buffer(shell: Shell) -> None:
    ((message, is_modified, _),) = run_emacs(
        shell,
        "(setq buffer-read-only t)"
        + REFUSED.replace("(apply-service-yank)", "(call-interactively 'apply-service-yank)"),
    )
    assert "read-only" in message
    assert is_modified is None


def test_emacs_keeps_characters_beyond_the_basic_plane(shell: Shell) -> None:
    shell.copy("s = '😀é' + one + 1\n# ... existing code ...\n")
    (shell.folder / "a.py").write_text("s = '😀é' + one\nt = '𝔘' + two\n", encoding="utf-8")
    run_emacs(shell, "(apply-service-yank) (save-buffer)", name="a.py")
    assert (shell.folder / "a.py").read_text(encoding="utf-8") == "s = '😀é' + one + 1\nt = '𝔘' + two\n"
