"""What the result of a merge looks like where something went wrong.  Knows the two texts, and no merger.

An answer with an alarm is never sure: the fits hold next to no such errors, so they can't weigh these signs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from apply_service.edits.code_lines import indent_of, is_attached, is_closer, is_definition, name_at, quote_lines


def find_alarms(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """What is odd about `new` and was not about `old`, in words: lines without line ends."""
    known = set(old)
    found = []
    if twice := next(_new_of(_doubled_closers(old), _doubled_closers(new)), None):
        found.append(f"{quote_lines([twice])} closes a scope twice")
    if twice := next(_new_of(_doubled_headers(old, known), _doubled_headers(new, known)), None):
        found.append(f"{quote_lines([twice])} stands twice in one scope")
    if lost := next(_lost_names(old, new), None):
        found.append(f"`{lost}` is removed and still used")
    return found


def _new_of(old: Counter[str], new: Counter[str]) -> Iterator[str]:
    return iter((new - old).keys())


def _doubled_closers(lines: Sequence[str]) -> Counter[str]:
    """The closing lines that stand right below an equal one."""
    solid = (line.rstrip() for line in lines if line.strip())
    return Counter(below for above, below in pairwise(solid) if above == below and is_closer(below))


def _doubled_headers(lines: Sequence[str], known: set[str]) -> Counter[str]:
    """The headers of definitions that stand twice in one scope, and at least once in `known`."""
    found = Counter[str]()
    open_scopes: list[tuple[int, set[str]]] = [(-1, set())]
    for k, line in enumerate(lines):
        if not line.strip() or is_closer(line):
            continue
        level = indent_of(line)
        while open_scopes[-1][0] > level:
            open_scopes.pop()
        if open_scopes[-1][0] < level:
            open_scopes.append((level, set()))
        if line in known and not is_attached(line) and _defined_at(lines, k) is not None:
            found[line.strip()] += line.strip() in open_scopes[-1][1]
            open_scopes[-1][1].add(line.strip())
    return +found


def _lost_names(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """The functions that are no longer defined and still called."""
    defined = [{_defined_at(lines, k) for k in range(len(lines))} - {None} for lines in (old, new)]
    kept = set(old)
    for name in sorted(filter(None, defined[0] - defined[1])):
        call = re.compile(rf"(?<![\w.$])(?:(?:self|this)\.)?{re.escape(name)}\(")
        if len(name) > 2 and any(line in kept and call.search(line) for line in new):
            yield name


def _defined_at(lines: Sequence[str], k: int) -> str | None:
    """The name of the definition whose header is line `k`; its brace may stand on the line below."""
    opens_below = k + 1 < len(lines) and lines[k + 1].strip() == "{"
    return name_at(lines, k) if is_definition(lines[k]) or opens_below else None
