"""The script that installs VS Code for the tests says what the machine lacks, before it fetches anything."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "e2e" / "install_code_server.sh"
NEEDED = ("node", "npm", "make", "g++", "rg", "chromium")


@pytest.mark.skipif(os.name == "nt", reason="a shell script")
@pytest.mark.parametrize("missing", [("rg",), ("g++", "chromium"), NEEDED])
def test_missing_programs_are_named(tmp_path: Path, missing: tuple[str, ...]) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in {*NEEDED} - {*missing}:
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    shell = shutil.which("sh")
    assert shell is not None
    folder = tmp_path / "editor"
    done = subprocess.run(
        [shell, SCRIPT, folder], env={"PATH": str(programs)}, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert f"these programs are missing: {' '.join(missing)}\n" in done.stderr
    assert "apt-get install" in done.stderr
    assert not folder.exists()
