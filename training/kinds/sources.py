"""Real files to make edits of: windows of a data set, windows joined to larger files, and a repository's own files."""

from __future__ import annotations

import json
import lzma
import re
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

LANGUAGES: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    (Path(__file__).parent / "languages.toml").read_text(encoding="utf-8")
)
"""What is known of each language."""
BY_SUFFIX = {suffix: name for name, facts in LANGUAGES.items() for suffix in facts.get("suffixes", ())}
BY_NAME = {facts["file_name"]: name for name, facts in LANGUAGES.items() if "file_name" in facts}
MIN_LINES, MAX_LINES, MAX_WIDTH = 12, 2_000, 300
LOOKS_LEFT_OUT = re.compile(
    r"^\s*(#|//|--|/\*|<!--)\s*(\.\.\.|…)|(#|//|--)\s*(rest of|existing)\b.*\b(code|file)\b",
    re.IGNORECASE | re.MULTILINE,
)
"""A file with such a line would make snippets unclear that are meant to be clear."""


@dataclass(frozen=True)
class Source:
    """One file, or a stretch of one, with LF line ends.  `lines` has no line ends; the last one is never empty."""

    repo: str
    path: str
    language: str
    subject: str
    text: str

    @cached_property
    def lines(self) -> tuple[str, ...]:
        return tuple(self.text.removesuffix("\n").split("\n"))

    def with_lines(self, lines: Iterable[str]) -> str:
        """These lines as a text that ends as this file does."""
        return "\n".join(lines) + ("\n" if self.text.endswith("\n") else "")


def read_data(path: Path) -> Iterator[Source]:
    """The files of a JSON-lines set, xz or plain: each `before`, and windows of the same file joined."""
    raw = path.read_bytes()
    text = (lzma.decompress(raw) if path.suffix == ".xz" else raw).decode()
    rows = [json.loads(line) for line in text.split("\n") if line]
    by_file: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row.get("path") and row.get("language"):
            by_file[row.get("repo", ""), row["path"]].append(row)
    for (repo, name), of_file in by_file.items():
        sources = [Source(repo, name, row["language"], row.get("subject", ""), row["before"]) for row in of_file]
        yield from filter(is_usable, sources)
        yield from filter(is_usable, _joined(of_file, sources))


def read_repository(folder: Path) -> Iterator[Source]:
    """The text files that git tracks in a folder."""
    listed = subprocess.run(["git", "-C", str(folder), "ls-files", "-z"], check=True, capture_output=True)
    for name in sorted(filter(None, listed.stdout.decode().split("\0"))):
        path = folder / name
        language = BY_NAME.get(path.name) or BY_SUFFIX.get(path.suffix.removeprefix("."))
        if language is None or not path.is_file() or path.is_symlink():
            continue
        try:
            source = Source(folder.resolve().name, name, language, "", path.read_bytes().decode())
        except UnicodeDecodeError:
            continue
        if is_usable(source):
            yield source


def is_usable(source: Source) -> bool:
    """Whether edits of this file can be told clearly."""
    text = source.text
    return (
        "\r" not in text
        and "\f" not in text
        and not text.startswith("\ufeff")
        and not text.endswith("\n\n")
        and MIN_LINES <= len(source.lines) <= MAX_LINES
        and max(map(len, source.lines)) <= MAX_WIDTH
        and LOOKS_LEFT_OUT.search(text) is None
    )


def _joined(rows: list[dict[str, Any]], sources: list[Source]) -> Iterator[Source]:
    """Windows of one file at different places as one larger file, where they have hardly a stretch in common."""
    if len(rows) < 2 or any("offset" not in row for row in rows):
        return
    chosen: list[Source] = []
    seen: set[tuple[str, ...]] = set()
    last_line = 0
    for row, source in sorted(zip(rows, sources, strict=True), key=lambda pair: pair[0]["offset"]):
        stretches = set(zip(*(source.lines[shift:] for shift in range(4)), strict=False))
        if row["offset"] <= last_line or len(stretches & seen) > 0.02 * len(stretches):
            continue
        seen |= stretches
        last_line = row["offset"] + len(source.lines)
        chosen.append(source)
    if len(chosen) > 1:
        text = "".join(source.text if source.text.endswith("\n") else source.text + "\n" for source in chosen)
        yield Source(chosen[0].repo, chosen[0].path, chosen[0].language, chosen[0].subject, text)
