"""Finds signs of a wrong merge in its result.  It knows the two texts, but not how they were merged.

An answer with an alarm is never sure.  The sets that models are fitted to hold hardly any such errors, so the fit
can't weigh these signs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from itertools import pairwise

from apply_service.text.lines import indent_of, is_attached, is_closer, is_definition, name_at, quote_lines


def find_alarms(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return in words what is odd about `new` but not about `old`.  Lines have no line ends."""
    counts = Counter(old), Counter(new)
    more, less = counts[1] - counts[0], counts[0] - counts[1]
    found = []
    if twice := next(iter(_doubled_closers(new) - _doubled_closers(old)), None):
        found.append(f"{quote_lines([twice])} closes a scope twice")
    again = {line for line in more if line in counts[0] and line.strip() and not is_attached(line)}
    if again and (twice := next(iter(_doubled_headers(new, again) - _doubled_headers(old, again)), None)):
        found.append(f"{quote_lines([twice])} stands twice in one scope")
    if lost := next(_lost_names(old, new, less), None):
        found.append(f"`{lost}` is removed and still used")
    return found


def _doubled_closers(lines: Sequence[str]) -> Counter[str]:
    """Count the closing lines that stand right below an equal line."""
    solid = (line.rstrip() for line in lines if line.strip())
    return Counter(below for above, below in pairwise(solid) if above == below and is_closer(below))


def _doubled_headers(lines: Sequence[str], again: Container[str]) -> Counter[str]:
    """Count the headers among `again` that stand a second time in the same scope."""
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
        if line in again and _defined_at(lines, k) is not None:
            found[line.strip()] += line.strip() in open_scopes[-1][1]
            open_scopes[-1][1].add(line.strip())
    return +found


def _lost_names(old: Sequence[str], new: Sequence[str], less: Container[str]) -> Iterator[str]:
    """Yield the functions that are still called but no longer defined.  `less`: the lines that the merge removed."""
    kept = set(old)
    for name in sorted({name for k, line in enumerate(old) if line in less and (name := _defined_at(old, k))}):
        call = re.compile(rf"(?<![\w.$])(?:(?:self|this)\.)?{re.escape(name)}\(")
        uses = [k for k, line in enumerate(new) if name in line]
        is_called = any(new[k] in kept and call.search(new[k]) for k in uses)
        if len(name) > 2 and is_called and all(_defined_at(new, k) != name for k in uses):
            yield name


def _defined_at(lines: Sequence[str], k: int) -> str | None:
    """Return the name of the definition whose header is line `k`; its brace may stand on the line below."""
    opens_below = k + 1 < len(lines) and lines[k + 1].strip() == "{"
    return name_at(lines, k) if opens_below or is_definition(lines[k]) else None
