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
