"""Where a result comes from: commit, versions, hardware, command and data, so that anyone can repeat it."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType
from typing import Any

from apply_service.isolation import find_program

ROOT = Path(__file__).resolve().parents[2]
SECRET_OPTIONS = ("--api-key", "--remote-key")
PACKAGES = ("apply-service", "rapidfuzz", "tree-sitter", "torch", "triton", "transformers", "numpy")


def provenance(data: list[Path], *, seed: int | None = None) -> dict[str, Any]:
    """Everything that a reader needs to repeat a run on `data`.  `commit` and `dirty` are None where the code is
    no git checkout."""
    commit = _git("rev-parse", "HEAD")
    status = _git("status", "--porcelain", "--untracked-files=no") if commit else None
    installed = {name: found.version for name in PACKAGES for found in distributions(name=name)}
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [*program(sys.modules["__main__"], sys.argv[0]), *safe_options(sys.argv[1:])],
        "seed": seed,
        "data": [{"name": path.name, "sha256": hash_file(path)} for path in data],
        "commit": commit,
        "dirty": None if status is None else bool(status),
        "versions": {"python": platform.python_version(), **installed},
        "hardware": hardware(),
    }


def hash_file(path: Path) -> str:
    """SHA-256 of a file as it lies on disk."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def program(main: ModuleType, path: str) -> list[str]:
    """What one types to run `main`, the program at `path`."""
    if main.__spec__ is None:  # a script
        return [Path(path).name]
    name = main.__spec__.name.removesuffix(".__main__")
    return ["apply-eval"] if name == "apply_eval.cli" else ["python", "-m", name]


def shown_command(command: Sequence[str]) -> str:
    """The command of a result as one types it.  Older results know the file's name alone."""
    name, suffix, _ = command[0].partition(".py")
    if not suffix:
        return shlex.join(command)
    typed = ["apply-eval"] if name == "cli" else ["python", "-m", f"benchmarks.{name}"]
    return shlex.join([*typed, *command[1:]])


def safe_options(arguments: Sequence[str]) -> list[str]:
    """Options without secrets, and without the folders of one machine: absolute paths by their last names."""
    safe: list[str] = []
    for before, argument in zip(("", *arguments), arguments, strict=False):
        option, sign, value = argument.partition("=")
        if sign and _is_secret(option):
            safe.append(f"{option}=...")
        elif _is_secret(before):
            safe.append("...")
        else:
            safe.append(option + sign + safe_path(value) if sign else safe_path(argument))
    return safe


def _is_secret(option: str) -> bool:
    # argparse takes the beginning of an option's name for the option.
    return len(option) > len("--") and any(secret.startswith(option) for secret in SECRET_OPTIONS)


def safe_path(path: str) -> str:
    """An absolute path's last name; anything else as it is."""
    return Path(path).name if Path(path).is_absolute() else path


def _git(*arguments: str) -> str | None:
    git = find_program("git")
    if git is None or not (ROOT / ".git").exists():  # installed, it may lie in another project's repository
        return None
    try:
        found = subprocess.run([git, "-C", str(ROOT), *arguments], capture_output=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.decode("utf-8", "replace").strip() if found.returncode == 0 else None


def hardware() -> dict[str, Any]:
    """The machine in words; no library is loaded for it."""
    cpu = platform.processor() or platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n")
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
    return {
        "cpu": cpu,
        "n_cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
    }
