"""The first five minutes: what a plain install weighs, and how long a command takes, cold and with a server behind it.

    python -m benchmarks.start              # cold commands with this interpreter, the disk's cache warm
    python -m benchmarks.start --install    # the same in a new environment, which pip fills from this checkout

Writes `benchmarks/results/start.json`.  A time is the least of several runs; the processor time shows how much of it is
other work on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from apply_eval.datasets import read_records
from apply_eval.mine import OWN_EDITS
from benchmarks.report import RESULTS, write_result

ROOT = Path(__file__).parents[1]
N_LINES = 100
OF_PIP = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence.pth")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true", help="measure in a new environment")
    parser.add_argument("--runs", type=int, default=7, help="runs of each command (default: 7)")
    options = parser.parse_args()
    found: dict[str, Any] = {"load_average": os.getloadavg()[0], "n_cores": os.cpu_count()}
    with TemporaryDirectory() as folder:
        command = [sys.executable]
        if options.install:
            python, found["install"] = install(Path(folder))
            command = [python, "-I"]  # nothing of this checkout
        program = [*command, "-m", "apply_service.cli"]
        found |= measure_commands(program, Path(folder), options.runs)
    write_result(RESULTS / "start.json", found)
    print(json.dumps(found, indent=1))
    return 0


def install(folder: Path) -> tuple[str, dict[str, float]]:
    """Install this checkout, pinned, into an environment in `folder`.  Returns its interpreter, and what it weighs."""
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    python = str(folder / "env" / ("Scripts" if os.name == "nt" else "bin") / "python")
    started = time.perf_counter()
    pinned = ["--constraint", str(ROOT / "constraints.txt"), str(ROOT)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    subprocess.run([python, "-m", "pip", "install", "--quiet", *pinned], check=True, env=clean)
    seconds = time.perf_counter() - started
    show = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(subprocess.check_output([python, "-c", show], text=True).strip())
    n_bytes = {"files": 0, "byte_code": 0, "numpy_tests": 0, "grammars": 0}
    for path in packages.rglob("*"):
        top, *below = path.relative_to(packages).parts
        if path.is_file() and not top.startswith(OF_PIP):
            kind = "byte_code" if path.suffix == ".pyc" else "files"
            if top == "numpy" and "tests" in below:  # which its wheel brings along
                kind = "numpy_tests"
            n_bytes["grammars" if top.startswith("tree_sitter_") else kind] += path.stat().st_size
    names = [path.name for path in packages.glob("*.dist-info") if not path.name.startswith((*OF_PIP, "tree_sitter_"))]
    weights = {f"{name}_mb": round(size / 1e6, 1) for name, size in n_bytes.items()}
    return python, {"seconds": round(seconds, 1), "n_packages": len(names), **weights}


def measure_commands(program: list[str], folder: Path, n_runs: int) -> dict[str, dict[str, dict[str, float]]]:
    """Seconds of each command, by the clock and of its own processor time: by itself ("cold"), and of `apply` where it
    asks the server that `start` keeps ("warm")."""
    record = min(read_records(OWN_EDITS), key=lambda one: abs(one.before.count("\n") - N_LINES))
    file, update = folder / f"file{Path(record.path or '').suffix}", folder / "update"
    file.write_text(record.before, encoding="utf-8")
    update.write_text(record.update, encoding="utf-8")
    edit = ["apply", str(file), "--update", str(update), "--quiet", "--allow-doubt"]
    commands = {"--help": ["--help"], "apply --strategy exact": [*edit, "--strategy", "exact"], "apply": edit}
    environment = {**os.environ, "XDG_STATE_HOME": str(folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(arguments: list[str]) -> None:
        subprocess.run([*program, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment)

    def measure(arguments: list[str]) -> dict[str, float]:
        clock, processor = [], []
        for _ in range(n_runs + 1):  # the first one compiles and fills the disk's cache
            before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            run(arguments)
            clock.append(time.perf_counter() - started)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            processor.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return {"clock_s": round(min(clock[1:]), 3), "processor_s": round(min(processor[1:]), 3)}

    cold = {name: measure(arguments) for name, arguments in commands.items()}
    run(["start"])
    try:
        return {"cold": cold, "warm": {"apply": measure(edit)}}
    finally:
        run(["stop"])


if __name__ == "__main__":
    sys.exit(main())
