"""Real files to edit: those of the standard library and of the installed packages."""

from __future__ import annotations

import sysconfig
from functools import lru_cache
from pathlib import Path

SUFFIXES = frozenset(
    ".py .pyi .md .rst .txt .json .toml .cfg .ini .c .h .cpp .hpp .cu .pyx .js .ts .html .css .yaml .yml .sh .tex".split()
)
MIN_BYTES, MAX_BYTES = 200, 40_000
MAX_FILES = 6000


@lru_cache(maxsize=1)
def real_files() -> tuple[Path, ...]:
    """At most MAX_FILES of them, evenly from all folders, in an order that is the same on every run."""
    roots = {sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")}
    found = {
        path
        for root in roots
        for path in Path(root).rglob("*")
        if path.suffix in SUFFIXES and path.is_file() and MIN_BYTES <= path.stat().st_size <= MAX_BYTES
    }
    ordered = sorted(found)
    return tuple(ordered[:: max(1, len(ordered) // MAX_FILES)])


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
