"""Builds the wheel and tries it in an empty environment, on any system; standard library only.

    python .ci/try_wheel.py [FOLDER]    # the wheel is left in FOLDER (dist)

The main job must give the shipped answer, byte for byte; `doctor` must be content; torch must not be there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "benchmarks" / "example"


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "dist").resolve()
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(ROOT / "build", ignore_errors=True)  # setuptools would pack what an earlier build left there
    build = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", out, ROOT)
    subprocess.run(build, check=True)
    (wheel,) = out.glob("*.whl")
    try_package(wheel)


def try_package(package: Path) -> None:
    """Install a wheel or an sdist into an empty environment and use it.  Raises CalledProcessError, SystemExit."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with tempfile.TemporaryDirectory() as folder:
        environment["APPLY_SERVICE_STATE_DIR"] = folder
        scripts = Path(folder, "env", "Scripts" if os.name == "nt" else "bin")

        def run(program: str, *arguments: object) -> bytes:
            command = [scripts / program, *map(str, arguments)]
            return subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=folder, env=environment).stdout

        subprocess.run([sys.executable, "-m", "venv", scripts.parent], check=True)
        run("python", "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", package)
        merged = run("apply-service", "apply", EXAMPLE / "cart.py", "--update", EXAMPLE / "update.txt")
        if merged != (EXAMPLE / "merged.py").read_bytes():
            sys.exit(f"{package.name}, installed, does not give the shipped answer")
        print(run("apply-service", "doctor").decode())
        if b"torch" in run("python", "-m", "pip", "list"):
            sys.exit("a plain install brings torch")
        run("apply-eval", "merge", "--limit", "3")
        print(f"{package}: {package.stat().st_size / 1e6:.1f} MB, tried in an empty environment")


if __name__ == "__main__":
    main()
