"""Programs are never those of the current folder."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from apply_service.isolation import find_program, leave_current_folder


def program(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PATH, and a current one with a program `tool`, which PATH names too, but not absolutely."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    for name in ("tool", "tool.exe", "sub/tool"):
        program(Path.cwd() / name)
    monkeypatch.setenv("PATH", os.pathsep.join((".", "", "sub", str(tmp_path / "bin"))))
    return tmp_path / "bin"


def test_a_program_is_one_of_the_absolute_folders(bin: Path) -> None:
    assert find_program("tool") is None
    (bin / "tool").mkdir(parents=True)
    assert find_program("tool") is None, "a folder"
    (bin / "tool").rmdir()
    found = program(bin / "tool")
    assert find_program("tool") == found


def test_a_path_stays_what_it_is(bin: Path) -> None:
    assert find_program("./tool") == "./tool"
    assert find_program(str(bin / "none")) is None


def test_windows_has_endings(bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("PATHEXT", ".COM;.exe")
    monkeypatch.setattr("shutil.which", lambda path: path if os.path.isfile(path) else None)
    assert find_program("tool") is None
    found = program(bin / "tool.exe")
    assert find_program("tool") == found
    assert find_program("tool.exe") == found


COMMAND = "import sys; from apply_service.cli import main; sys.exit(main(sys.argv[1:]))"


def run_in(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command with this current folder.  Like the console script, it has no current folder on its module path."""
    command = [sys.executable, "-P", "-c", COMMAND, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.skipif(os.name == "nt", reason="there a current folder can't be removed")
def test_a_current_folder_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    script = f"cd {tmp_path}/gone && rmdir {tmp_path}/gone && exec {sys.executable} -P -c '{COMMAND}' --version"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("module", ["os", "_json", "pydantic"])
def test_a_current_folder_that_holds_the_interpreters_modules(module: str) -> None:
    """Its library, or a site-packages without our own package (which is installed as editable): no project's."""
    file = importlib.import_module(module).__file__
    if file is None:
        pytest.skip("it is built in")
    folder = Path(file).parent
    done = run_in(folder.parent if file.endswith("__init__.py") else folder, "doctor", "--json")
    assert "Traceback" not in done.stderr
    assert done.returncode == 0


@pytest.mark.skipif(os.name == "nt", reason="there a current folder can't be removed")
@pytest.mark.parametrize("words", ["apply a.py b.txt", "undo a.py", "apply --patch p.diff", "connect cursor"])
def test_a_command_that_needs_the_current_folder_says_that_it_is_gone(tmp_path: Path, words: str) -> None:
    (tmp_path / "gone").mkdir()
    script = f"cd {tmp_path}/gone && rmdir {tmp_path}/gone && exec {sys.executable} -P -c '{COMMAND}' {words}"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "The current folder no longer exists" in done.stderr


def test_only_what_stands_before_the_library_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The current folder may be one of installed packages, and may stand there twice."""
    monkeypatch.chdir(tmp_path)
    library = os.path.realpath(os.path.dirname(os.__file__))
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), library, str(tmp_path)])
    leave_current_folder()
    assert sys.path == [library, str(tmp_path)]
