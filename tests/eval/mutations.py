"""Random edits of real texts, for where real changes are too few or too tame; what comes out need not compile."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

Lines = list[str]
Mutation = Callable[[Lines, random.Random], Lines]

_WORD = re.compile(r"[A-Za-z_]\w{2,}")
_NUMBER = re.compile(r"\b\d+\b")
_FILLERS = ("value", "count", "result", "item", "config", "handler", "buffer", "state", "offset", "label")


def mutate(text: str, rng: random.Random) -> str:
    """The text after one to four random edits; its final newline, or lack of one, stays."""
    ends = text.endswith("\n")
    lines = text.split("\n")[:-1] if ends else text.split("\n")
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        mutation = rng.choices(MUTATIONS, WEIGHTS)[0]
        lines = mutation(lines, rng)
    return "\n".join([*lines, ""]) if ends and lines else "\n".join(lines)


def _stretch(lines: Sequence[str], rng: random.Random, longest: int) -> tuple[int, int]:
    """A random half-open range of lines, short ones more often."""
    n_lines = min(rng.choice((1, 1, 2, 3, 5, longest)), max(len(lines), 1))
    start = rng.randrange(max(len(lines) - n_lines, 0) + 1)
    return start, min(start + n_lines, len(lines))


def _renamed(line: str, rng: random.Random) -> str:
    """The line with one identifier (or a number) changed."""
    words = [w for w in set(_WORD.findall(line)) if not w.isupper()]
    if words:
        word = rng.choice(sorted(words))
        other = rng.choice((f"{word}_{rng.choice(_FILLERS)}", f"new_{word}", rng.choice(_FILLERS)))
        return re.sub(rf"\b{re.escape(word)}\b", other, line, count=1)
    if _NUMBER.search(line):
        return _NUMBER.sub(str(rng.randrange(1000)), line, count=1)
    return line


def insert_lines(lines: Lines, rng: random.Random) -> Lines:
    """New lines in the likeness of a stretch of the file."""
    start, stop = _stretch(lines, rng, 12)
    new = [_renamed(line, rng) for line in lines[start:stop]]
    at = rng.randrange(len(lines) + 1)
    return [*lines[:at], *new, *lines[at:]]


def delete_lines(lines: Lines, rng: random.Random) -> Lines:
    start, stop = _stretch(lines, rng, 12)
    return [*lines[:start], *lines[stop:]] if stop - start < len(lines) else lines


def change_lines(lines: Lines, rng: random.Random) -> Lines:
    """A stretch with words changed on each line."""
    start, stop = _stretch(lines, rng, 6)
    return [*lines[:start], *(_renamed(line, rng) for line in lines[start:stop]), *lines[stop:]]


def move_lines(lines: Lines, rng: random.Random) -> Lines:
    start, stop = _stretch(lines, rng, 10)
    moved, rest = lines[start:stop], [*lines[:start], *lines[stop:]]
    at = rng.randrange(len(rest) + 1)
    return [*rest[:at], *moved, *rest[at:]]


def rename_word(lines: Lines, rng: random.Random) -> Lines:
    """One identifier renamed everywhere within a region."""
    start = rng.randrange(max(len(lines), 1))
    region = lines[start : start + 40]
    words = sorted({word for line in region for word in _WORD.findall(line)})
    if not words:
        return lines
    word = rng.choice(words)
    pattern, other = re.compile(rf"\b{re.escape(word)}\b"), f"{word}_{rng.choice(_FILLERS)}"
    return [*lines[:start], *(pattern.sub(other, line) for line in region), *lines[start + 40 :]]


def wrap_block(lines: Lines, rng: random.Random) -> Lines:
    """A stretch indented one step deeper under a new line."""
    start, stop = _stretch(lines, rng, 8)
    lead = lines[start][: len(lines[start]) - len(lines[start].lstrip())] if start < len(lines) else ""
    step = "\t" if "\t" in lead else "    "
    body = [step + line if line.strip() else line for line in lines[start:stop]]
    return [*lines[:start], f"{lead}if {rng.choice(_FILLERS)}:", *body, *lines[stop:]]


MUTATIONS: tuple[Mutation, ...] = (insert_lines, delete_lines, change_lines, move_lines, rename_word, wrap_block)
WEIGHTS = (5, 3, 5, 1, 2, 1)
