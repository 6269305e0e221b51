"""Finds the entries that a part of a JSON file leaves out, in each object that the part shows.

It reads files with one entry a line, by keys and brackets alone, so that comments do no harm.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from apply_service.text.lines import balance
from apply_service.text.markers import strip_comment

MIN_GAPS = 2
"""A part must leave entries out at no fewer than this many places: a single place may be a deletion instead."""
MAX_DEPTH = 20
"""Objects are read down to this depth of nesting."""
_ENTRY = re.compile(r'"(?P<key>(?:[^"\\]|\\.){1,200})"\s*:\s*(?P<value>.*)')

Path = tuple[str, ...]


class JsonEntry(NamedTuple):
    """A key of an object, and its lines `first` to `last`."""

    key: str
    first: int
    last: int


class LeftOut(NamedTuple):
    """A line of the part after which entries of the file are left out.  `ends_entry`: this line ends an entry."""

    line: int
    ends_entry: bool


def read_objects(lines: Sequence[str]) -> dict[Path, tuple[int, list[JsonEntry]]] | None:
    """Return the opening line and the entries of each nested object, by the path of its keys.  The result is None if
    the text is not JSON with one entry a line."""
    solid = [i for i, line in enumerate(lines) if line.strip() and not strip_comment(line).is_comment]
    if len(solid) < 2 or lines[solid[0]].strip() != "{" or lines[solid[-1]].strip() != "}":
        return None
    objects: dict[Path, tuple[int, list[JsonEntry]]] = {(): (solid[0], [])}
    path: Path = ()
    depth = 0  # open brackets inside a value that is not an object
    for i in solid[1:-1]:
        text = lines[i].strip()
        entries = objects[path][1]
        if depth:
            depth += balance([text])
            entries[-1] = entries[-1]._replace(last=i)
            continue
        match = _ENTRY.match(text)
        if match is None:
            if text.rstrip(",") != "}" or not path:
                return None
            path = path[:-1]
            entries = objects[path][1]
            entries[-1] = entries[-1]._replace(last=i)
            continue
        entries.append(JsonEntry(match["key"], i, i))
        if match["value"] == "{":
            if len(path) == MAX_DEPTH:
                return None
            path = (*path, match["key"])
            objects[path] = (i, [])
        else:
            depth = balance([match["value"]])
    return objects if not path and not depth else None


def find_left_out(original: Sequence[str], part: Sequence[str]) -> list[LeftOut]:
    """Return the places where the part leaves out entries, if it keeps the file's order and has several such places."""
    shown = read_objects(part)
    whole = read_objects(original) if shown is not None else None
    if shown is None or whole is None:
        return []
    found: list[LeftOut] = []
    for path, (opening, entries) in shown.items():
        if path not in whole:
            continue
        order = {entry.key: n for n, entry in enumerate(whole[path][1])}
        known = [order[entry.key] for entry in entries if entry.key in order]
        if any(a >= b for a, b in pairwise(known)):
            return []
        at = -1
        """The number of the last entry of the file shown so far."""
        above = LeftOut(opening, ends_entry=False)
        for entry in entries:
            n = order.get(entry.key, at)
            found += [above] if n > at + 1 else []
            at, above = n, LeftOut(entry.last, ends_entry=True)
        found += [above] if at < len(order) - 1 else []
    return found if len(found) >= MIN_GAPS else []
