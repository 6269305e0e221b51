"""What somebody new sees: every edit and every mistake of this folder, typed and answered.

python -m tests.newcomer
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.newcomer.edits import EDITS
from tests.newcomer.test_mistakes import MISTAKES, make_project

ROOT = Path(__file__).parents[2]


def main() -> None:
    with TemporaryDirectory() as place:
        folder = Path(place) / "work"
        make_project(folder)
        environment = os.environ | {"XDG_STATE_HOME": place, "XDG_CONFIG_HOME": place, "PYTHONPATH": str(ROOT)}

        def type_in(words: list[str]) -> None:
            print(f"$ apply-service {shlex.join(words)}", flush=True)
            command = [sys.executable, "-m", "apply_service.cli", *words]
            done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, check=False)
            print(f"exit code {done.returncode}\n", flush=True)

        for edit in EDITS:
            print(f"# {edit.kind}")
            (folder / edit.file).write_bytes(edit.before.encode())
            (folder / "edit.txt").write_text(edit.snippet, encoding="utf-8")
            type_in(["apply", edit.file, "edit.txt", "--diff"])
        for mistake in MISTAKES:
            print(f"# {mistake.what}")
            type_in(shlex.split(mistake.words))


if __name__ == "__main__":
    main()
