"""The kinds of edits that rules may be fitted on.  Each function makes one plan of a file, or None where it finds
nothing in it; its name is the kind's."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from training.kinds.plans import Op, Plan
from training.kinds.shape import (
    BRACES,
    CODE,
    balanced,
    blocks,
    brackets_around,
    call_parts,
    definitions,
    first_filled,
    functions,
    gap_below,
    indent,
    is_blank,
    is_call,
    is_closer,
    is_comment,
    is_near,
    is_statement,
    last_filled,
    margin,
    owners,
    row_key,
    row_runs,
    statements,
    statements_of,
    step,
)
from training.kinds.sources import Source
from training.kinds.wording import condition, identifiers, new_argument, new_name, renamed, shuffled, twin_of, varied


def before_bare_closer(source: Source, rng: random.Random) -> Plan | None:
    """A statement at the end of a function whose closing line is all that is shown below it."""
    lines = source.lines
    calls = [i for i in statements_of(source) if is_call(lines[i])]
    for one in shuffled(functions(source), rng):
        inside = statements(source, one)
        if not one.is_closed or len(inside) < 4 or one.close - 1 != inside[-1]:
            continue
        pad = margin(lines[one.close - 1])
        others = [i for i in calls if not one.start <= i < one.end]
        if not others or len(pad) <= len(margin(lines[one.start])):
            continue
        new = varied(source, pad + lines[rng.choice(others)].lstrip(), rng)
        if new is not None and not any(is_near(new, lines[i]) for i in range(one.start, one.close)):
            shown = frozenset({*range(one.start, one.body), one.close})
            return Plan((Op(one.close, one.close, (new,)),), shown, above=0, below=0, header="never")
    return None


def method_twin_added(source: Source, rng: random.Random) -> Plan | None:
    """A function of nearly the same body after an existing one, of which only the end is shown."""
    for one in shuffled(functions(source), rng):
        copied = twin_of(source, one, rng)
        if copied is None or one.end >= len(source.lines):
            continue
        gap = gap_below(source, one)
        if gap is not None:
            return Plan((Op(one.end, one.end, (*("",) * gap, *copied)),))
    return None


def namesake_added_above(source: Source, rng: random.Random) -> Plan | None:
    """A function above one of nearly the same name and body, which stays: its header is shown below."""
    for one in shuffled(functions(source), rng):
        copied = twin_of(source, one, rng)
        gap = gap_below(source, one)
        if copied is not None and gap is not None and one.top > 0:
            shown = frozenset({*range(one.top, one.body), one.body})
            return Plan((Op(one.top, one.top, (*copied, *("",) * gap)),), shown)
    return None


def line_standing_later(source: Source, rng: random.Random) -> Plan | None:
    """A statement put in that stands some lines further down as well."""
    lines = source.lines
    for one in shuffled(functions(source), rng):
        inside = statements(source, one)
        for later in shuffled(inside, rng):
            if not is_call(lines[later]):
                continue
            places = [i for i in inside if i <= later - 4 and indent(lines[i]) == indent(lines[later])]
            places = [
                i for i in places if i + 1 < one.close and not is_blank(lines[i + 1]) and not is_closer(lines[i + 1])
            ]
            if places and indent(lines[places[-1] + 1]) == indent(lines[later]):
                at = places[-1] + 1
                if lines[later] not in (lines[at - 1], lines[at]):
                    return Plan((Op(at, at, (lines[later],)),), header=rng.choice(("may", "must")))
    return None


def guard_copied_above(source: Source, rng: random.Random) -> Plan | None:
    """A block of a later place with one name changed, put in further up in the same function."""
    lines = source.lines
    for one in shuffled(functions(source), rng):
        inside = statements(source, one)
        for block in shuffled(blocks(source, one.body, one.close), rng):
            text = lines[block.start : block.end]
            if not 2 <= len(text) <= 5 or any(is_blank(line) for line in text):
                continue
            names = [name for name in identifiers(lines[block.start]) if name not in {"this", "self"}]
            places = [i for i in inside if i < block.start - 3 and indent(lines[i]) == indent(lines[block.start])]
            places = [i for i in places if i + 1 in inside and indent(lines[i + 1]) == indent(lines[block.start])]
            if not names or not places:
                continue
            fresh = new_name(names[0], rng, source.text)
            if fresh is not None:
                at = rng.choice(places) + 1
                copied = tuple(renamed(line, names[0], fresh) for line in text)
                return Plan((Op(at, at, copied),), header=rng.choice(("may", "must")))
    return None


def parameter_line_added(source: Source, rng: random.Random) -> Plan | None:
    """One more parameter in a list of a line each, among lines that other functions have as well."""
    lines = source.lines
    for one in shuffled(functions(source), rng):
        rows = [i for i in range(one.start + 1, one.body - 1) if lines[i].rstrip().endswith(",")]
        if len(rows) < 2 or any(indent(lines[i]) != indent(lines[rows[0]]) for i in rows):
            continue
        at = rng.choice(rows[:-1])
        match = re.match(r"\s*(?:[\w<>]+ )?(\w{3,})", lines[at])
        if (
            match is None
            or at + 1 not in rows
            or lines[at].count(",") > 1
            or match.group(1) in {"self", "cls", "const"}
        ):
            continue
        name = new_name(match.group(1), rng, source.text)
        if name is None:
            continue
        new = renamed(lines[at], match.group(1), name)
        if new != lines[at]:
            shown = frozenset({one.start})
            return Plan((Op(at + 1, at + 1, (new,)),), shown, header="never")
    return None


def middle_line_left_out(source: Source, rng: random.Random) -> Plan | None:
    """A statement or row gone from the middle of lines that are shown."""
    lines = source.lines
    for at in shuffled([*statements_of(source), *(i for run in row_runs(source, at_least=5) for i in run[1:-1])], rng):
        window = range(at - 2, at + 3)
        if window[0] < 0 or window[-1] >= len(lines) or any(is_blank(lines[i]) for i in window):
            continue
        if lines[at] in (lines[at - 1], lines[at + 1]) or any(len(lines[i].strip()) < 5 for i in (at - 1, at + 1)):
            continue
        if all(is_statement(source, i) for i in (at - 1, at, at + 1)) or all(
            indent(lines[i]) == indent(lines[at]) for i in window
        ):
            return Plan((Op(at, at + 1),), above=2, below=2)
    return None


def decorator_dropped(source: Source, rng: random.Random) -> Plan | None:
    """A decorator, annotation or attribute gone from above a definition."""
    lines = source.lines
    for one in shuffled(list(definitions(source)), rng):
        at = one.start - 1
        marked = re.match(r"\s*(?:@\w|#\[|\[\w)", lines[at]) if at > 0 else None
        if (
            source.language in CODE
            and one.top < one.start
            and marked
            and brackets_around(source)[at] in {"", "{"}
            and balanced(lines[at])
        ):
            return Plan((Op(at, at + 1),), frozenset({*range(one.start, one.body), one.body}), above=1)
    return None


def definition_left_out(source: Source, rng: random.Random) -> Plan | None:
    """A whole function gone: what stands above it and below it is shown together."""
    lines = source.lines
    for one in shuffled(functions(source), rng):
        if one.top == 0 or one.end >= len(lines) or one.end - one.top > 40:
            continue
        below = first_filled(source, one.end)
        above = last_filled(source, one.top)
        if below is None or above is None or below == one.end or above == one.top - 1:
            continue
        if lines[above].rstrip().endswith((":", "{")):
            continue
        is_last = is_closer(lines[below])
        op = Op(above + 1, below) if is_last else Op(one.top, below)
        return Plan((op,), above=2, below=1 + rng.randrange(2))
    return None


def header_changed(source: Source, rng: random.Random) -> Plan | None:
    """A header of one line with one more parameter; a marker stands for the body."""
    lines = source.lines
    for one in shuffled(functions(source), rng):
        line = lines[one.start]
        match = re.search(rf"\b{re.escape(one.name)}\(((?:[^()]|\(\))*)\)", line)
        if one.body != one.start + 1 or one.close - one.body < 3 or match is None or source.language == "shell":
            continue
        inside = match.group(1)
        if re.search(r"[*&]\w+$|\.\.\.|\bself\b$|=>|void", inside) and source.language != "python":
            continue
        if source.language == "python" and ("*" in inside or "/" in inside):
            continue
        argument = new_argument(source.language)
        new = line[: match.start(1)] + (f"{inside}, {argument}" if inside.strip() else argument) + line[match.end(1) :]
        key = line[: match.start(1)].lstrip()
        if source.text.count(f"{one.name}(") < 4:
            shown = frozenset({one.body}) if rng.random() < 0.4 and not is_blank(lines[one.body]) else frozenset()
            op = Op(one.start, one.start + 1, (new,), key=key)
            return Plan((op,), shown, above=0, below=0, header="may" if indent(line) else "never")
    return None


def far_changes(source: Source, rng: random.Random) -> Plan | None:
    """Two statements changed far apart, with one marker between them."""
    lines = source.lines
    found = shuffled(statements_of(source), rng)
    for first in found[:12]:
        for second in found[:12]:
            if second < first + 15 or (first + 1 >= len(lines)):
                continue
            one, two = varied(source, lines[first], rng), varied(source, lines[second], rng)
            if one is not None and two is not None:
                return Plan((Op(first, first + 1, (one,)), Op(second, second + 1, (two,))))
    return None


def call_split(source: Source, rng: random.Random) -> Plan | None:
    """A call in one line written in several."""
    lines = source.lines
    for at in shuffled(statements_of(source), rng):
        parts = call_parts(lines[at])
        if parts is None or source.language not in CODE - {"shell", "ruby", "lua"}:
            continue
        head, arguments, tail = parts
        pad = margin(lines[at])
        last = "," if source.language in {"python", "rust", "go", "typescript"} else ""
        rows = [f"{pad}{step(source)}{one}," for one in arguments]
        rows[-1] = rows[-1].removesuffix(",") + last
        return Plan((Op(at, at + 1, (head, *rows, pad + tail)),))
    return None


def call_joined(source: Source, rng: random.Random) -> Plan | None:
    """A call of several lines written in one."""
    lines = source.lines
    for at in shuffled(list(range(1, len(lines) - 3)), rng):
        if not re.search(r"\w\($", lines[at]) or is_comment(source, lines[at]) or source.language not in CODE:
            continue
        if re.match(
            r"\s*(?:def|class|func|function|fn|if|for|while|async|pub|export|public|private|static|@|from)\b", lines[at]
        ):
            continue
        end = next((i for i in range(at + 1, min(at + 7, len(lines))) if indent(lines[i]) <= indent(lines[at])), None)
        if end is None or not re.match(r"\s*\)", lines[end]) or end - at < 3 or not balanced(*lines[at : end + 1]):
            continue
        rows = [lines[i].strip() for i in range(at + 1, end)]
        if any(not balanced(row) or is_comment(source, row) or not row or not row.endswith(",") for row in rows[:-1]):
            continue
        if re.search(r"\s(?:#|//)", " ".join(rows)) or not balanced(rows[-1]) or not rows[-1]:
            continue
        if lines[end].rstrip().endswith(("{", ":", "(", "=>")) or re.match(
            r"\s*\.", lines[end + 1] if end + 1 < len(lines) else ""
        ):
            continue
        joined = lines[at] + " ".join(rows).removesuffix(",") + lines[end].strip()
        if len(joined) < 110:
            return Plan((Op(at, end + 1, (joined,)),))
    return None


def repeated_statement(source: Source, rng: random.Random) -> Plan | None:
    """A statement that several functions have, changed in one of them, whose header is shown."""
    lines = source.lines
    inside = {one: statements(source, one) for one in functions(source)}
    count = Counter(text for found in inside.values() for text in {lines[i].strip() for i in found})
    for one, found in shuffled(list(inside.items()), rng):
        for at in shuffled(found, rng):
            if count[lines[at].strip()] < 2 or at == one.body or [lines[i] for i in found].count(lines[at]) > 1:
                continue
            if any(inner.start > one.start and inner.body <= at < inner.close for inner in inside):
                continue
            new = varied(source, lines[at], rng)
            if new is None:
                continue
            shown = frozenset(range(one.start, one.body))
            assigned = re.match(r"\s*((?:let |const |var |final |val )?[\w.$]+(?:: \w+)? :?= )", lines[at])
            is_named = assigned is not None and new.startswith(assigned.group()) and rng.random() < 0.5
            inside_too = [
                i for i in range(one.body, one.close) if assigned and lines[i].lstrip().startswith(assigned.group(1))
            ]
            if is_named and assigned is not None and len(inside_too) == 1:
                op = Op(at, at + 1, (new,), key=assigned.group(1))
                return Plan((op,), shown, above=0, below=0, header="never")
            return Plan((Op(at, at + 1, (new,)),), shown, header="never")
    return None


def row_changed_by_key(source: Source, rng: random.Random) -> Plan | None:
    """One of many rows changed, shown without its neighbours: its key says which."""
    lines = source.lines
    for run in shuffled(row_runs(source, at_least=5), rng):
        for at in shuffled(list(run), rng):
            key = row_key(lines[at])
            new = varied(source, lines[at], rng) if key else None
            if key is None or new is None or not new.lstrip().startswith(key) or new in lines:
                continue
            op = Op(at, at + 1, (new,), key=key)
            return Plan((op,), above=0, below=0, header=rng.choice(("may", "never")))
    return None


def wrapped(source: Source, rng: random.Random) -> Plan | None:
    """Statements put under a condition, with more indentation."""
    lines = source.lines
    for one in shuffled(functions(source), rng):
        inside = set(statements(source, one))
        for at in shuffled(sorted(inside), rng):
            n_lines = rng.choice((1, 2, 2, 3))
            span = range(at, at + n_lines)
            if not inside.issuperset(span) or any(indent(lines[i]) != indent(lines[at]) for i in span):
                continue
            text = lines[at : at + n_lines]
            if any(
                re.search(r"\b(?:let|const|var|val|auto|local|my)\b|:=|^\s*\w[\w<>*]* \w+ ?[=;]", line) for line in text
            ):
                continue
            names = [
                name
                for line in text
                for name in identifiers(line)
                if not re.search(rf"\b{name}\s*[(:=<]|\.{name}", line)
            ]
            opened = condition(source.language, names[0]) if names else None
            if opened is None:
                continue
            pad = margin(lines[at])
            body = [pad + step(source) + line.removeprefix(pad) for line in text]
            closing = [pad + opened[1]] if opened[1] else []
            return Plan((Op(at, at + n_lines, (pad + opened[0], *body, *closing)),))
    return None


def unwrapped(source: Source, rng: random.Random) -> Plan | None:
    """A condition taken away from statements that stay, with less indentation."""
    lines = source.lines
    for block in shuffled(blocks(source, 1, len(lines) - 1), rng):
        body = lines[block.start + 1 : block.close]
        if not 1 <= len(body) <= 6 or any(is_blank(line) or not line.startswith(margin(body[0])) for line in body):
            continue
        if re.search(
            r"\b(?:let|const|var|val|auto|return|raise|throw|break|continue|else)\b|:=|`|\"\"\"", "\n".join(body)
        ):
            continue
        if not all(balanced(line) for line in body):
            continue
        pad = margin(lines[block.start])
        flat = tuple(pad + line.removeprefix(margin(body[0])) for line in body)
        return Plan((Op(block.start, block.end, flat),))
    return None


def item_moved(source: Source, rng: random.Random) -> Plan | None:
    """A row of a list moved to another place in it; all rows between are shown."""
    lines = source.lines
    for run in shuffled(row_runs(source, at_least=4), rng):
        rows = [i for i in run if source.language in {"yaml", "markdown", "toml"} or lines[i].rstrip().endswith(",")]
        if len(rows) < 4 or len({lines[i] for i in rows}) < len(rows):
            continue
        if source.language == "markdown" and "|" in lines[rows[0]]:
            continue
        taken, place = rng.sample(rows, 2)
        if abs(taken - place) < 2 or abs(taken - place) > 12:
            continue
        ops = sorted((Op(taken, taken + 1), Op(place, place, (lines[taken],))), key=lambda op: op.start)
        shown = frozenset(range(min(taken, place), max(taken, place))) - {taken}
        return Plan(tuple(ops), shown)
    return None


def line_hoisted(source: Source, rng: random.Random) -> Plan | None:
    """The first statement of a loop or condition moved above its header."""
    lines = source.lines
    for block in shuffled(blocks(source, 1, len(lines) - 1, words="if|for|while"), rng):
        first = block.start + 1
        if block.close - first < 2 or not is_statement(source, first) or is_blank(lines[first + 1]):
            continue
        if source.language in BRACES and not is_statement(source, block.start - 1):
            continue
        if indent(lines[block.start - 1]) != indent(lines[block.start]) or re.search(
            r"\b(?:break|continue)\b", lines[first]
        ):
            continue
        moved = margin(lines[block.start]) + lines[first].lstrip()
        ops = (Op(block.start, block.start, (moved,)), Op(first, first + 1))
        return Plan(ops, frozenset({block.start}))
    return None


def shared_key_ambiguous(source: Source, rng: random.Random) -> Plan | None:
    """A row changed whose key stands in several places, shown without a header or a neighbour."""
    lines = source.lines
    keys: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        key = row_key(line) if not is_comment(source, line) else None
        if (
            key
            and re.search(r"\w{2}", key)
            and line.rstrip()[-1:] not in "{[(:|>"
            and brackets_around(source)[at] != "text"
        ):
            keys.setdefault(margin(line) + key, []).append(at)
    for found in shuffled([found for found in keys.values() if 2 <= len(found) <= 8], rng):
        at = rng.choice(found)
        if len({lines[i] for i in found}) > 1 or any(
            owners(source, i)[-1:] == owners(source, at)[-1:] for i in found if i != at
        ):
            continue
        new = varied(source, lines[at], rng)
        key = row_key(lines[at])
        if new is not None and key and new.lstrip().startswith(key):
            op = Op(at, at + 1, (new,), key=key)
            return Plan((op,), above=0, below=0, header="never", places=tuple(found))
    return None


def twin_deletion_ambiguous(source: Source, rng: random.Random) -> Plan | None:
    """A line gone from between two lines, where the file has all three of them more than once."""
    lines = source.lines
    where: dict[tuple[str, ...], list[int]] = {}
    for at in range(1, len(lines) - 1):
        three = lines[at - 1 : at + 2]
        if all(re.search(r"\w{3}", line) and not is_comment(source, line) for line in three) and balanced(lines[at]):
            where.setdefault(tuple(three), []).append(at)
    for found in shuffled([found for found in where.values() if 2 <= len(found) <= 6], rng):
        at = rng.choice(found)
        is_row = all(indent(line) == indent(lines[at]) for line in lines[at - 1 : at + 2])
        if len(set(lines[at - 1 : at + 2])) == 3 and is_row and min(b - a for a, b in pairwise(found)) > 3:
            shown = frozenset({at - 1, at + 1})
            return Plan((Op(at, at + 1, is_exact=True),), shown, above=0, below=0, header="never", places=tuple(found))
    return None


KINDS: tuple[Callable[[Source, random.Random], Plan | None], ...] = (
    before_bare_closer,
    method_twin_added,
    namesake_added_above,
    line_standing_later,
    guard_copied_above,
    parameter_line_added,
    middle_line_left_out,
    decorator_dropped,
    definition_left_out,
    header_changed,
    far_changes,
    call_split,
    call_joined,
    repeated_statement,
    row_changed_by_key,
    wrapped,
    unwrapped,
    item_moved,
    line_hoisted,
    shared_key_ambiguous,
    twin_deletion_ambiguous,
)
