"""Three to five lines that a file has more than once, shown with the middle one changed and no word on which is meant.

Each record has all places, and the file as it would be for each: the right answer is any of them with a doubt.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from itertools import pairwise

from training.kinds.plans import MARKERS
from training.kinds.shape import comment_line, indent, is_comment, margin
from training.kinds.sources import Source
from training.kinds.wording import shuffled, varied


@dataclass(frozen=True, slots=True)
class Twin:
    """A snippet that can be read at `places`, first lines counted from 0, and `wanted`, the file after each reading."""

    update: str
    after: str
    places: tuple[int, ...]
    wanted: tuple[str, ...]


def find_twin(source: Source, rng: random.Random) -> Twin | None:
    """Lines of this file that stand in it twice or more, changed in one place drawn at random; None if it has none."""
    for n_lines in rng.choice(((3, 4, 5), (3, 5, 4), (4, 3, 5), (5, 4, 3))):
        twin = _twin_of(source, n_lines, rng)
        if twin is not None:
            return twin
    return None


def _twin_of(source: Source, n_lines: int, rng: random.Random) -> Twin | None:
    found: dict[tuple[str, ...], list[int]] = {}
    flat = [line.strip() for line in source.lines]
    for at in range(len(flat) - n_lines + 1):
        stretch = tuple(flat[at : at + n_lines])
        if all(stretch) and sum(re.search(r"[A-Za-z]{4}", text) is not None for text in stretch) >= 2:
            found.setdefault(stretch, []).append(at)
    for stretch, places in shuffled([(one, at) for one, at in found.items() if len(at) > 1], rng)[:20]:
        meant = rng.choice(places)
        middle = meant + n_lines // 2
        shown = list(source.lines[meant : meant + n_lines])
        changed = None if is_comment(source, source.lines[middle]) else varied(source, source.lines[middle], rng)
        overlap = any(b - a < n_lines for a, b in pairwise(places))
        if changed is None or changed.strip() == stretch[n_lines // 2] or overlap:
            continue
        shown[n_lines // 2] = changed
        pad = margin(min(shown, key=indent)) if rng.random() < 0.8 or source.language in {"python", "yaml"} else ""
        markers = [pad + comment_line(source.language, rng.choice(MARKERS)) for _ in range(2)]
        wanted = tuple(_changed_at(source, at + n_lines // 2, changed) for at in places)
        if len(set(wanted)) < len(places):
            continue
        update = "\n".join((markers[0], *shown, markers[1])) + "\n"
        return Twin(update, wanted[places.index(meant)], tuple(places), wanted)
    return None


def _changed_at(source: Source, at: int, changed: str) -> str:
    lines = list(source.lines)
    lines[at] = margin(lines[at]) + changed.lstrip()
    return source.with_lines(lines)
