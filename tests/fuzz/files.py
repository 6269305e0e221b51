"""Real files to edit: those of the standard library and of the installed packages."""

from __future__ import annotations

import random
import sysconfig
from functools import lru_cache
from pathlib import Path

KINDS = "py pyi md rst txt json toml cfg ini c h cpp hpp cu pyx js ts html css yaml yml sh tex"
SUFFIXES = frozenset(f".{kind}" for kind in KINDS.split())
MIN_BYTES, MAX_BYTES = 200, 40_000
MAX_FILES = 6000


@lru_cache(maxsize=1)
def real_files() -> dict[str, tuple[Path, ...]]:
    """By suffix, at most MAX_FILES of each, evenly from all folders, in an order that is the same on every run."""
    roots = {sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")}
    found = {
        path
        for root in roots
        for path in Path(root).rglob("*")
        if path.suffix in SUFFIXES and path.is_file() and MIN_BYTES <= path.stat().st_size <= MAX_BYTES
    }
    by_suffix = {suffix: sorted(path for path in found if path.suffix == suffix) for suffix in sorted(SUFFIXES)}
    return {suffix: tuple(paths[:: len(paths) // MAX_FILES + 1]) for suffix, paths in by_suffix.items() if paths}


def draw_file(rng: random.Random) -> Path:
    """One of them: Python every second time, else any suffix."""
    files = real_files()
    suffix = ".py" if rng.random() < 0.5 else rng.choice(tuple(files))
    return rng.choice(files[suffix])


def read_lines(path: Path) -> list[str] | None:
    """Its lines without their ends; None for what is no UTF-8, or has line ends within lines (`\\r`, NUL)."""
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError:
        return None
    text = text.replace("\r\n", "\n")
    if "\r" in text or "\0" in text or "\ufeff" in text or not text.strip():
        return None
    return text.removesuffix("\n").split("\n")
