"""The examples of the pages on HTTP, the command line and the Python clients run as they stand, against the embedded
model, and the edit in each is made as its reader expects."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
ADDRESS = "http://127.0.0.1:8765"
MERGED = "a = 10\nb = 2\nc = 3\n"


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run_shell(command: str, folder: Path, url: str) -> str:
    """What a line of the page prints, by this package's command and the running server."""
    if shutil.which("sh") is None:
        pytest.skip("no sh on this machine")
    folders = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = os.environ | {"PATH": folders, "APPLY_SERVICE_SERVER": url, "XDG_CONFIG_HOME": str(folder)}
    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=300, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_the_first_request_of_the_http_page(url: str, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("no curl on this machine")
    (command,) = (text for text in blocks("http-api.md", "") if text.startswith("curl"))
    answer = json.loads(run_shell(command.replace(ADDRESS, url), tmp_path, url))
    assert answer["merged_code"] == MERGED


def test_the_filters_of_the_command_line(url: str, tmp_path: Path) -> None:
    (tmp_path / "edit.txt").write_text("a = 10\nb = 2\n# ... existing code ...\n")
    buffer, request = (text for text in blocks("cli.md", "") if text.startswith("printf"))
    assert run_shell(buffer, tmp_path, url) == MERGED
    assert "| jq -r .merged_code" in request, "which need not be installed"
    answer = run_shell(request.replace("| jq -r .merged_code", ""), tmp_path, url)
    assert json.loads(answer)["merged_code"] == MERGED


def test_the_python_client(url: str) -> None:
    (text,) = (text.replace(ADDRESS, url) for text in blocks("client-libraries.md", "python"))
    printing = text + "print([result.merged_code, batch.items[0].result.merged_code])\n"
    assert run_python(printing) == repr([MERGED, MERGED])


def run_python(source: str) -> str:
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n")
