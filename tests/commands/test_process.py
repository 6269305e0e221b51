"""The command as a process of its own: what it imports, its output, and a reader that goes away."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles import ScriptedRun


def test_with_a_server_nothing_heavy_is_imported(folder: Path, url: str) -> None:
    script = (
        "import sys; from apply_service.cli import main; code = main(sys.argv[1:]);"
        "print(sorted({'torch', 'numpy', 'pydantic', 'httpx', 'fastapi', 'tree_sitter'} & set(sys.modules)), code)"
    )
    command = [sys.executable, "-c", script, "apply", "a.py", "--update", "edit.txt", "--server", url, "--in-place"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[] 0\n"
    assert (folder / "a.py").read_bytes() == b"new\r\nname = 1\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_large_output_arrives_whole(folder: Path, url: str, run: ScriptedRun, unbuffered: str) -> None:
    run.result = replace(run.result, merged_code="x\n" * 1_000_000)
    command = [sys.executable, "-m", "apply_service.cli", "apply", "a.py", "--update", "edit.txt", "--server", url]
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert len(done.stdout) == 2_000_000


@pytest.mark.skipif(os.name == "nt", reason="pipes of a POSIX shell")
def test_a_reader_that_goes_away_is_no_traceback(folder: Path, url: str, run: ScriptedRun) -> None:
    run.result = replace(run.result, merged_code="x\n" * 4_000_000)
    command = [
        sys.executable,
        "-m",
        "apply_service.cli",
        "apply",
        "a.py",
        "--update",
        "edit.txt",
        "--server",
        url,
        "-q",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["models"], ["apply", "a.py", "--update", "edit.txt", "--strategy", "exact"]],
)
def test_a_full_output_is_an_error_and_no_traceback(folder: Path, arguments: list[str], unbuffered: str) -> None:
    command = [sys.executable, "-m", "apply_service.cli", *arguments]
    (folder / "edit.txt").write_bytes(b"<<<<<<< SEARCH\nname = 1\n=======\nname = 2\n>>>>>>> REPLACE\n")
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    assert done.returncode == 3
    assert "Standard output cannot be written: No space left on device." in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell")
def test_a_closed_output_is_an_error_and_no_traceback(folder: Path) -> None:
    command = f"{sys.executable} -m apply_service.cli models >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "Standard output cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell")
@pytest.mark.parametrize("arguments", ["--help", "apply --help", "models"])
def test_the_first_line_alone_may_be_read(folder: Path, arguments: str) -> None:
    command = f"{sys.executable} -m apply_service.cli {arguments} | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell")
def test_the_hint_to_undo_is_a_command_of_the_shell(folder: Path) -> None:
    name = "a file; it's $HOME.py"
    (folder / name).write_bytes(b"name = 1\n")
    (folder / "edit.txt").write_bytes(b"<<<<<<< SEARCH\nname = 1\n=======\nname = 2\n>>>>>>> REPLACE\n")
    command = [sys.executable, "-m", "apply_service.cli", "apply", name, "--update", "edit.txt", "--in-place"]
    done = subprocess.run([*command, "--strategy", "exact"], capture_output=True, text=True, check=True)
    assert (folder / name).read_bytes() == b"name = 2\n"
    (line,) = done.stderr.splitlines()
    hint = line.partition("undo with `apply-service ")[2].removesuffix("`")
    subprocess.run(["sh", "-c", f"{sys.executable} -m apply_service.cli {hint}"], check=True)
    assert (folder / name).read_bytes() == b"name = 1\n"
