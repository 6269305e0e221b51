"""What somebody new stumbled over in the first hour, each once: it works now, or is said in a sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from apply_service.cli import main
from tests.newcomer.test_mistakes import files, project

__all__ = ["project"]

EDIT = ["apply", "src/inventory.py", "snippet.py", "--in-place"]


def test_a_variable_of_another_program(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("APPLY_MIGRATIONS", "1")
    assert main(EDIT) == 0
    assert "MIGRATIONS" not in capsys.readouterr().err


def test_a_variable_of_ours_by_its_old_name(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = project.parent / "elsewhere"
    monkeypatch.setenv("APPLY_STATE_DIR", str(state))
    assert main(EDIT) == 0
    assert state.is_dir()
    assert "The environment variable APPLY_STATE_DIR is now called APPLY_SERVICE_STATE_DIR." in capsys.readouterr().err


PATCH = """\
--- a/a.py
+++ b/a.py
@@ -1,2 +1,2 @@
 x = 1
-y = 2
+y = 3
--- a/b.py
+++ b/b.py
@@ -1,2 +1,2 @@
 x = 1
-y = 9
+y = 3
"""


def test_undo_of_a_whole_patch(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "p.diff").write_text(PATCH.replace("y = 9", "y = 2"))
    for name in ("a.py", "b.py"):
        (project / name).write_text("x = 1\ny = 2\n")
    before = files(project)
    assert main(["apply", "--patch", "p.diff", "--in-place"]) == 0
    assert files(project) != before
    command = capsys.readouterr().err.splitlines()[-1].removeprefix("Undo with `apply-service ").removesuffix("`.")
    assert main(command.split()) == 0
    assert files(project) == before
    assert "b.py: as before the edit\n" in capsys.readouterr().err


def test_an_agent_outside_the_environment_finds_the_command(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    assert main(["connect", "cursor"]) == 0
    (server,) = json.loads(capsys.readouterr().out)["mcpServers"].values()
    environment = {"PATH": os.defpath, "XDG_STATE_HOME": str(project.parent)}
    command = [server["command"], *server["args"][:-2], "--help"]
    done = subprocess.run(command, capture_output=True, env=environment, cwd=project, check=True)
    assert b"edit_file" in done.stdout


@pytest.mark.parametrize("command", ["undo", "serve"])
def test_help_counts_the_other_settings(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "--help-all" in line and "also" in line]
    assert line.endswith("also name the other setting") == (command == "undo")
    assert "1 settings" not in line


@pytest.mark.parametrize(
    ("words", "shown"),
    [(EDIT, "merging"), (["apply", "-p", "p.diff", "-i"], "editing 2 files"), (["undo", "-a", "a.py"], "taking back")],
)
@pytest.mark.parametrize("is_terminal", [True, False])
def test_what_takes_long_shows_progress_on_a_terminal(
    words: list[str],
    shown: str,
    is_terminal: bool,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("a.py", "b.py"):
        (project / name).write_text("x = 1\ny = 2\n")
    (project / "p.diff").write_text(PATCH.replace("y = 9", "y = 2"))
    if words[0] == "undo":
        assert main(["apply", "-p", "p.diff", "-i"]) == 0
    monkeypatch.setattr("apply_service.commands.output.SPIN_S", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    assert main(words) == 0
    assert (f"| {shown} (0 s)" in capsys.readouterr().err) == is_terminal


def test_hunks_are_counted_by_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "p.diff").write_text(PATCH)
    for name in ("a.py", "b.py"):
        (project / name).write_text("x = 1\ny = 2\n")
    assert main(["apply", "--patch", "p.diff", "--in-place"]) == 1
    err = capsys.readouterr().err
    assert "b.py: hunk 1" in err
    assert "hunk 2" not in err
