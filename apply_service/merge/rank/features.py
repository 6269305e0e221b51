"""Computes the features of a reading: the numbers from which the chooser scores it.

There are three kinds: how the snippet is written (the same for all readings of an edit), how the reading was made, and
what it does to the file.  Every reading has the same feature names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice, pairwise
from math import log2
from operator import and_

import numpy as np
import numpy.typing as npt
from rapidfuzz import fuzz

from apply_service.merge.candidates import NO_SCOPE, substance
from apply_service.merge.proposal import Proposal
from apply_service.merge.reading import ReadSnippet, holds_definitions
from apply_service.merge.statements import imported
from apply_service.merge.variants import renewed_at_changes
from apply_service.merge.wording import Pair, find_pairs
from apply_service.text.lines import (
    are_other_entries,
    header_name,
    indent_of,
    is_attached,
    is_branch,
    is_closer,
    is_import,
    names_entry,
    new_definitions,
    surplus,
)
from apply_service.text.markers import Role, deletion_target, strip_comment
from apply_service.types import LineOp, Merge

MAKERS = ("line", "group", "fresh", "signed", "placed", "other")
POLICIES = ("careful", "literal", "stubs", "headers", "lone", "format", "most")
EXTRAS = ("blanks", "leads", "renewed", "renamed", "wrapped", "cut")
OTHERS = ("signed_context_exact", "signed_margin", "placed_agreement", "placed_margin")
"""Features that `signed` and `place` give to their readings."""
BESIDE = 8
"""A new line is compared with this many hidden lines on each side of its change."""
SHOWN = 0.8
"""A second copy of a line counts only if the line has at least this `substance` (how much a line says)."""
SCOPE = 60
"""The key of a new line is looked for in this many lines on each side of the line."""
_KEY = re.compile(r"^[-\"']?\s*[\"']?([\w.@$-]{2,})[\"']?\??\s*[:=](?!=)")
WAYS = {
    "double": re.compile('"'),
    "single": re.compile("'"),
    "semicolon": re.compile(r";[ \t]*$", re.M),
    "no semicolon": re.compile(r"[^;{},(\s][ \t]*$", re.M),
    "wide": re.compile(r"\w = |[({] |,\s"),
    "tight": re.compile(r"\w=\w|[({]\w|,\S"),
    "period": re.compile(r"\w\.$", re.M),
    "no period": re.compile(r"\w$", re.M),
}
"""Patterns of the writing styles that a file usually follows throughout."""
OPPOSITES = [("double", "single"), ("single", "double"), ("semicolon", "no semicolon"), ("no semicolon", "semicolon"),
             ("wide", "tight"), ("tight", "wide"), ("period", "no period"), ("no period", "period")]  # fmt: skip
_JUMP = re.compile(r"\s*(?:return|throw|raise|break|continue)\b(?:.*[^,({\[\\&|+=.?:])?$")
_LABEL = re.compile(r"\s*(?:(?:case|default|else|elif|elsif|when|rescue|ensure|end|fi|done|esac)\b|\w+:|[-.?:&|+*/#])")
_SPACING = re.compile(r"[\s\"'`,;]+")
_WORD = re.compile(r"[^\W\d]\w{2,}")
_DECLARED = re.compile(
    r"\s*(?:export\s+)?(?:(?:const|let|var|val|static|final|local|type|class|struct|enum|interface|trait|def|fn|func|function)\s+"
    r"(?:mut\s+)?(\w+)|([\w.$@-]{3,})\s*(?::[^=()]+)?:?=(?!=))"
)
MAX_COMMON = 12
"""A word that occurs in more lines of the file than this says nothing about a place."""
NEAR = 15
"""The names of new lines are looked for in this many operations on each side of their change."""
MAX_COPIED = 20
"""At most this many shown lines below a new line are looked at, because they may be a part of it."""
UNANCHORED = 6.0
"""The `weakest_anchor` of new lines in a block without any line of the file."""
Features = dict[str, float]


@dataclass(frozen=True)
class SnippetFacts:
    """Facts about how a snippet is written.  They are the same for all of its merges."""

    reading: ReadSnippet

    @cached_property
    def ways(self) -> Counter[str]:
        """How often the file shows each writing style of WAYS."""
        return _ways("\n".join(self.reading.original))

    @cached_property
    def lines_with(self) -> dict[str, set[int]]:
        """The lines of the file that contain each word."""
        found: dict[str, set[int]] = {}
        for j, line in enumerate(self.reading.original):
            for word in words(line):
                found.setdefault(word, set()).add(j)
        return found

    @cached_property
    def imports(self) -> dict[int, frozenset[str]]:
        """The names that each line of the file imports."""
        return {j: names for j, line in enumerate(self.reading.original) if (names := imported(line))}

    @cached_property
    def levels(self) -> npt.NDArray[np.int64]:
        """The indentation of each line of the file; NO_SCOPE for blank lines and closing brackets."""
        lines = self.reading.original
        return np.array([NO_SCOPE if not line.strip() or is_closer(line) else indent_of(line) for line in lines])

    @cached_property
    def said_kept(self) -> set[str]:
        """The words of the markers, which name what stays."""
        texts, roles = self.reading.snippet.texts, self.reading.snippet.roles
        return {word for i, role in enumerate(roles) if role is Role.MARKER for word in words(texts[i])}

    @cached_property
    def said_gone(self) -> set[str]:
        """The lines that deletion notes quote."""
        texts, roles = self.reading.snippet.texts, self.reading.snippet.roles
        told = {deletion_target(texts[i]).strip() for i, role in enumerate(roles) if role is Role.DELETION}
        return {text for text in told if self.reading.index.count(text)}

    @cached_property
    def features(self) -> Features:
        reading, index = self.reading, self.reading.index
        blocks = reading.snippet.blocks
        shown = [reading.texts[i] for _, i in reading.visible]
        known = [index.has(text.rstrip()) for text in shown]
        says = [substance(text.strip()) for text in shown]
        held = [index.has(reading.texts[block.lines[0]].rstrip()) for block in blocks]
        loose = [not any(index.has(reading.texts[i].rstrip()) for i in block.lines) for block in blocks]
        told = [block for block in blocks if not all(index.has(reading.texts[i].rstrip()) for i in block.lines)]
        n = max(1, len(shown))
        return {
            "file_lines": log2(1 + len(reading.original)),
            "markers": float(reading.snippet.roles.count(Role.MARKER)),
            "known_share": sum(known) / n,
            "known_saying": sum(x for x, k in zip(says, known, strict=True) if k) / max(0.1, sum(says)),
            "unique_share": sum(index.count(text) == 1 for text in shown) / n,
            "held_starts": sum(held) / max(1, len(held)),
            "loose_share": sum(loose) / max(1, len(loose)),
            "whole_share": sum(holds_definitions(reading, block) for block in told) / max(1, len(told)),
        }


def features_of(facts: SnippetFacts, one: Proposal, n_readings: int) -> Features:
    """Return all features of a reading.  `n_readings`: the number of readings of the edit."""
    ways, others, ops = one.ways, one.features, one.ops
    makers = {way.maker for way in ways}
    policies, extras = {way.policy for way in ways}, {extra for way in ways for extra in way.extras}
    # A signed snippet shows its lines without their signs.
    shown = one.texts if one.way.maker == "signed" else facts.reading.texts
    return {
        **facts.features,
        "readings": log2(n_readings),
        "ways": float(len(ways)),
        "ways_share": len(ways) / max(1, n_readings),
        **{f"by_{maker}": float(maker in makers) for maker in MAKERS},
        **{f"policy_{policy}": float(policy in policies) for policy in POLICIES},
        **{f"policy_{part}": float(part in extras) for part in EXTRAS},
        "doubts": float(len(one.reasons)),
        "twins": log2(1 + others.get("twins", 0.0)),
        **{name: float(others.get(name, 0.0)) for name in OTHERS},
        **_effects(facts, ops),
        **_of_shown_lines(facts.reading, ops, shown),
        "open_renewed": log2(1 + len(set().union(*renewed_at_changes(ops)))),
    }


def _odd_steps(ops: Merge) -> int:
    """Return the number of lines that the reading puts below a line that does not fit their indentation.

    The lines counted are deeper than a line above that opens nothing, or not deeper than a line above that opens a
    scope.
    """
    n, above, is_new, at = 0, "", False, 0
    beside: list[int] = []
    """The operations of all changes, each with the nearest lines above and below it that are not blank."""
    for start, stop in ops.changed:
        low = next((k for k in range(start - 1, at - 1, -1) if ops[k].text.strip()), at)
        high = next((k for k in range(stop, len(ops)) if ops[k].text.strip()), len(ops) - 1)
        beside += range(low, high + 1)
        at = high + 1
    for op in (ops[k] for k in beside):
        if op.kind == "drop":
            is_new = True
        elif op.text.strip():
            is_new = is_new or op.kind == "take"
            if is_new and above:
                step, last = indent_of(op.text) - indent_of(above), above.rstrip()
                opens = last.endswith(("{", "(", "[", ":", ">", "=", ",", "\\", "|", "&", "+", "do", "then", "else"))
                is_empty = last.endswith(("{", "(", "[", ":")) and step <= 0
                n += (step > 0 and not opens) or (is_empty and (not is_closer(op.text) or is_branch(op.text)))
            above, is_new = op.text, op.kind == "take"
    return n


def _likest(text: str, ops: Sequence[LineOp]) -> float:
    """Return the similarity (0 to 1) of a new line to the most similar hidden line beside it, which it may replace."""
    hidden = [op.text.strip() for op in ops if op.text.strip() and not is_closer(op.text)]
    return max((fuzz.ratio(text.strip(), other) for other in hidden), default=0.0) / 100


def _effects(facts: SnippetFacts, ops: Merge) -> Features:
    """Return the features of the changes that the reading makes to the file."""
    shown = [ops[k] for k in ops.shown if ops[k].text.strip()]
    drops, takes = ([op for op in shown if op.kind == kind] for kind in ("drop", "take"))
    pairs = find_pairs(ops)
    loose = [pair for pair in pairs if pair.kind not in ("edit", "comment", "elided", "indent")]
    sides = [surplus([op.text for op in side]) for side in (takes, drops)]
    return {
        "dropped": log2(1 + len(drops)),
        "taken": log2(1 + len(takes)),
        "net": float(len(takes) - len(drops)) / (1 + len(takes) + len(drops)),
        "gone_share": len(drops) / max(1, len(facts.reading.original)),
        "gone_comments": float(sum(strip_comment(op.text).is_comment for op in drops)),
        "gone_decorators": float(sum(op.text.lstrip().startswith(("@", "#[")) for op in drops)),
        "unbalanced": float(sum(abs(a - b) for a, b in zip(*sides, strict=True))),
        "odd_steps": float(_odd_steps(ops)),
        "reindented": log2(1 + sum(pair.kind == "indent" for pair in pairs)),
        "changes_nothing": float(not drops and not takes),
        "against_file": float(sum(_is_against(facts, ops, pair) for pair in loose)),
        "reworded_share": sum(pair.kind == "edit" for pair in pairs) / max(1, len(pairs)),
        "other_entries": float(replaced_neighbour(ops) is not None),
        **_of_runs(facts, ops),
        **_of_names(facts, ops, drops, takes),
        **_of_words(facts, ops, drops, takes),
        **_of_new_lines(facts, ops, drops, takes),
        **_of_blocks(facts.reading, ops),
        **_of_gaps(facts, ops),
        **_of_notes(facts, ops, drops, takes),
        **_of_losses(facts, ops, pairs, takes),
    }


def _of_losses(facts: SnippetFacts, ops: Merge, pairs: Sequence[Pair], takes: Sequence[LineOp]) -> Features:
    """Return features of removed and replaced lines.

    Two features count removed lines without a new form: one counts those between two shown lines of one block, and the
    other counts the rest.  A third counts definitions that their own replacement calls, and a fourth counts headers
    that stand twice.
    """
    block_of = {i: b for b, i in facts.reading.visible}
    renewed = {k for pair in pairs for k in pair.old}
    inside, free = 0, 0
    called = 0
    for start, stop in ops.changed:
        lost = [k for k in range(start, stop) if ops[k].kind == "drop" and k not in renewed and ops[k].text.strip()]
        beside = [ops[k].update_line if 0 <= k < len(ops) else None for k in (start - 1, stop)]
        blocks = {block_of.get(-1 if i is None else i, -1) for i in beside}
        if len(blocks) == 1 and -1 not in blocks:
            inside = max(inside, len(lost))
        else:
            free += len(lost)
        old, new = ([op.text for op in ops[start:stop] if op.kind == kind] for kind in ("drop", "take"))
        for name in {header_name(text) for text in old} & {header_name(text) for text in new} - {None}:
            called += any(f"{name}(" in text and header_name(text) != name for text in new)
    gone = {op.original_line for start, stop in ops.changed for op in ops[start:stop] if op.kind == "drop"}
    headers = [op.text for op in takes if header_name(op.text)]
    return {
        "lost_inside": log2(1 + inside),
        "lost_free": log2(1 + free),
        "calls_replaced": float(called),
        "headers_twice": float(sum(not gone.issuperset(facts.reading.index.places(text)) for text in headers)),
    }


def _of_notes(facts: SnippetFacts, ops: Merge, drops: Sequence[LineOp], takes: Sequence[LineOp]) -> Features:
    """Return features that count what the reading does contrary to the snippet's notes, and hidden lines without a
    marker."""
    new_names = {header_name(op.text) for op in takes}
    gone_names = {header_name(op.text) for op in drops} - new_names
    blocks = facts.reading.snippet.blocks
    used = [k for k in ops.shown if ops[k].update_line is not None] or [0, len(ops)]
    left = ops if facts.said_gone else ()
    block_of = {i: b for b, i in facts.reading.visible}
    inner = [(ops[a - 1].update_line, ops[b].update_line) for a, b in ops.hidden if a > 0 and b < len(ops)]
    between = [block_of[i] == block_of[j] for i, j in inner if i in block_of and j in block_of]
    head = [op.text for op in ops[: used[0]] if op.text.strip()] if blocks and not blocks[0].marked_before else []
    return {
        "gone_but_named": float(len(gone_names & facts.said_kept)),
        "kept_though_noted": float(sum(op.kind != "drop" and op.text.strip() in facts.said_gone for op in left)),
        "unmarked_gaps": float(sum(between)),
        "unmarked_head": _log_hidden(ops[: used[0]]) if blocks and not blocks[0].marked_before else -1.0,
        "unmarked_imports": float(
            bool(head) and all(is_import(text) or strip_comment(text).is_comment for text in head)
        ),
        "unmarked_tail": _log_hidden(ops[used[-1] + 1 :]) if blocks and not blocks[-1].marked_after else -1.0,
    }


def _log_hidden(ops: Sequence[LineOp]) -> float:
    return log2(1 + sum(op.kind == "keep" and op.text.strip() != "" for op in ops))


def _is_against(facts: SnippetFacts, ops: Sequence[LineOp], pair: Pair) -> bool:
    """Tell whether the new lines of a pair depart from the writing style of the file.

    Style means quotes, semicolons, final periods, and blanks around `=` and after commas and brackets.
    """
    old, new = (_ways("\n".join(ops[k].text for k in side)) for side in (pair.old, pair.new))
    gained = {way for way in new if new[way] > old[way]}
    lost = {way for way in old if old[way] > new[way]}
    return any(facts.ways[a] > 2 * facts.ways[b] for a, b in OPPOSITES if a in lost and b in gained)


def _ways(text: str) -> Counter[str]:
    """Return how often the text shows each writing style of WAYS."""
    return Counter({name: len(pattern.findall(text)) for name, pattern in WAYS.items()})


def _of_runs(facts: SnippetFacts, ops: Merge) -> Features:
    """Return the features of the runs of changes, and of the hidden lines beside the runs' open ends."""
    names = ("runs", "inserting_runs", "gone_leads", "open_tops", "open_bottoms", "reflowed_runs", "edge_runs",
             "gone_leads_only", "open_definitions", "dead_code")  # fmt: skip
    found = dict.fromkeys(names, 0.0)
    longest_gone, beside = 0, 0.0
    for start, stop in ops.changed:
        old_code, new_code = (
            _SPACING.sub("", "".join(op.text for op in ops[start:stop] if op.kind == kind)) for kind in ("drop", "take")
        )
        found["reflowed_runs"] += bool(old_code) and old_code == new_code
        found["edge_runs"] += start == 0 or stop == len(ops)
        old = [op.text for op in ops[start:stop] if op.kind == "drop" and op.text.strip()]
        new = [op.text for op in ops[start:stop] if op.kind == "take" and op.text.strip()]
        found["runs"] += 1
        found["inserting_runs"] += bool(new) and not old
        if old and not new:
            longest_gone = max(longest_gone, len(old))
            found["gone_leads"] += all(map(is_attached, old))
            found["gone_leads_only"] += all(map(is_attached, old)) and not any(
                op.kind in ("drop", "take") and op.text.strip() for op in ops[stop : stop + NEAR]
            )
        heads = [text for text in new if not is_closer(text)]
        opened = [header_name(side[0]) if side else None for side in (old, new)]
        is_renewed = opened[0] is not None and opened[0] == opened[1]
        is_open = (
            not is_renewed and (start == 0 or ops[start - 1].kind == "keep"),
            stop == len(ops) or ops[stop].kind == "keep",
        )
        own = new_definitions(new, facts.reading.names)
        is_own = any(span.start == 0 for span in own), any(span.stop == len(new) for span in own)
        found["open_definitions"] += sum(map(and_, is_open, is_own))
        found["open_tops"] += bool(heads) and is_open[0]
        found["open_bottoms"] += bool(heads) and is_open[1]
        if heads and is_open[0] and not is_own[0]:
            beside = max(beside, _likest(heads[0], ops[max(0, start - BESIDE) : start]))
        if heads and is_open[1] and not is_own[1]:
            last = next(text for text in reversed(heads) if indent_of(text) == min(map(indent_of, heads)))
            beside = max(beside, _likest(last, ops[stop : stop + BESIDE]), _likest(heads[0], ops[stop : stop + 1]))
        found["dead_code"] += _is_dead(ops, start, stop)
    return {**found, "longest_gone": log2(1 + longest_gone), "beside_likeness": beside}


def _is_dead(ops: Merge, start: int, stop: int) -> bool:
    """Tell whether a change makes a line unreachable, because a jump stands right above it at the same level."""
    low = next((k for k in range(start - 1, -1, -1) if ops[k].kind != "drop" and ops[k].text.strip()), start)
    high = next((k for k in range(stop, len(ops)) if ops[k].kind != "drop" and ops[k].text.strip()), stop - 1)
    left = [op.text for op in ops[low : high + 1] if op.kind != "drop" and op.text.strip()]
    left = [text for text in left if not strip_comment(text).is_comment]
    return any(
        _JUMP.match(above) and indent_of(above) == indent_of(below) and not is_closer(below) and not _LABEL.match(below)
        for above, below in pairwise(left)
    )


def replaced_neighbour(ops: Merge) -> tuple[str, str] | None:
    """Return a removed line and the new line in its place, if the two may be different entries; otherwise None.

    The two lines have the same form, and a hidden line stands beside the change.
    """
    counts: Counter[str] = Counter()
    for start, stop in ops.changed:
        drops = [op.text for op in ops[start:stop] if op.kind == "drop" and op.text.strip()]
        takes = [op.text for op in ops[start:stop] if op.kind == "take" and op.text.strip()]
        if drops and takes and are_other_entries(drops[0], takes[0]):
            # On each side, look at the next line that is hidden, or that is shown and more than a bracket.
            counts = counts or Counter(op.text.strip() for op in ops if op.kind != "take")
            above = (ops[k].kind for k in range(start - 1, -1, -1) if says_something(ops[k]))
            says = (ops[k] for k in range(stop, len(ops)) if says_something(ops[k]))
            below = (op.kind for n, op in enumerate(says) if n == MAX_COPIED or not _is_copied(op, takes[0], counts))
            if "keep" in (next(above, ""), next(below, "")):
                return drops[0].strip(), takes[0].strip()
    return None


def _is_copied(op: LineOp, header: str, counts: Mapping[str, int]) -> bool:
    """Tell whether a shown line may be a part of the new entry, and not of the old one that it replaces.

    Such a line stands inside the scope that the new line opens, or in the entry that the new line names, and the file
    has it twice.
    """
    level = indent_of(header) - names_entry(header)
    return op.kind == "both" and indent_of(op.text) > level and counts[op.text.strip()] > 1


def says_something(op: LineOp) -> bool:
    """Tell whether the line is hidden, or is shown and more than a closing bracket."""
    return op.kind == "keep" or (op.kind == "both" and bool(op.text.strip()) and not is_closer(op.text))


@lru_cache(maxsize=65536)
def words(line: str) -> frozenset[str]:
    return frozenset(_WORD.findall(line))


@lru_cache(maxsize=16384)
def declared(line: str) -> frozenset[str]:
    """Return the names that a line declares, found by a pattern and not by a parser."""
    found = _DECLARED.match(line)
    return imported(line) | ({name for name in found.groups() if name} if found else set())


def _of_words(facts: SnippetFacts, ops: Merge, drops: Sequence[LineOp], takes: Sequence[LineOp]) -> Features:
    """Return features of names.  They count removed names that are still in use, names that nothing uses any more,
    names declared twice, and names of a change's new lines that are also in use near the change."""
    gone = {op.original_line for op in drops}
    new = [words(op.text) for op in takes]
    defined = {name for op in takes for name in declared(op.text)}
    lost = {name for op in drops for name in declared(op.text)} - defined
    original = facts.reading.original
    dangling = 0
    for name in lost:
        left = facts.lines_with.get(name, set()) - gone
        if any(name in line for line in new):
            left = left | {-1}
        dangling += bool(left) and not any(name in declared(original[j]) for j in left if j >= 0)
    shown = {name for line in new for name in line}
    orphans = 0
    for name in {name for op in drops for name in words(op.text)} - shown - lost:
        kept = [original[j] for j in facts.lines_with.get(name, ()) if j not in gone]
        orphans += bool(kept) and all(name in declared(line) or line.strip(" \t,;") == name for line in kept)
    twice = sum(
        any(j not in gone and name in declared(original[j]) for j in facts.lines_with.get(name, ())) for name in defined
    )
    shares = []
    for start, stop in ops.changed:
        names = {word for op in ops[start:stop] if op.kind == "take" for word in words(op.text)}
        names = {word for word in names if 0 < len(facts.lines_with.get(word, ())) <= MAX_COMMON}
        if not names:
            continue
        beside = [op for op in ops[max(0, start - NEAR) : stop + NEAR] if op.kind != "take"]
        at_home = {word for op in beside for word in words(op.text)}
        shares.append(len(names & at_home) / len(names))
    return {
        "dangling": float(dangling),
        "orphans": float(orphans),
        "declared_twice": float(twice),
        "at_home": min(shares, default=1.0),
    }


def _of_new_lines(facts: SnippetFacts, ops: Merge, drops: Sequence[LineOp], takes: Sequence[LineOp]) -> Features:
    """Return features of the new lines: lines that they repeat, and names that they define again."""
    gone = {op.text.strip() for op in drops}
    shown_lines = {ops[k].original_line for k in ops.shown}
    gone_names = Counter(header_name(op.text) for op in drops)
    new_headers = [name for op in takes if (name := header_name(op.text)) is not None]
    own = {op.update_line for op in _in_new_definitions(facts, ops)}
    plain = (op.text.strip() for op in takes if op.update_line not in own)
    says = [text for text in plain if text not in gone and substance(text) >= SHOWN]
    gone_headers = [name for op in drops if (name := header_name(op.text)) is not None]
    return {
        "gone_definitions": log2(1 + sum((Counter(gone_headers) - Counter(new_headers)).values())),
        "kept_twice": log2(
            1 + sum(len(at := facts.reading.index.places(text)) == 1 and at[0] not in shown_lines for text in says)
        ),
        "duplicates": float(sum(facts.reading.index.count(text) > 0 for text in says)),
        "same_names": float(sum(facts.reading.names[name] > gone_names[name] for name in new_headers)),
    }


def _in_new_definitions(facts: SnippetFacts, ops: Merge) -> Iterator[LineOp]:
    """Yield the new lines inside new definitions.  If these lines repeat lines of the file, that means nothing."""
    for start, stop in ops.changed:
        new = [op for op in ops[start:stop] if op.kind == "take"]
        for span in new_definitions([op.text for op in new], facts.reading.names):
            yield from new[span.start : span.stop]


def _of_names(facts: SnippetFacts, ops: Merge, drops: Sequence[LineOp], takes: Sequence[LineOp]) -> Features:
    """Return how many keys of one mapping, and how many imported names, occur twice after the merge."""
    same_keys = 0
    for k in ops.shown:
        key = _KEY.match(ops[k].text.lstrip()) if ops[k].kind == "take" else None
        if key is not None:  # The other key must have the same level in the same scope.
            for beside in (range(k + 1, len(ops)), range(k - 1, -1, -1)):
                left = (ops[j] for j in beside if ops[j].kind != "drop" and ops[j].text.strip())
                same_keys += _has_key(islice(left, SCOPE), key[1], indent_of(ops[k].text))
    new = {name for op in takes for name in imported(op.text)}
    gone = {op.original_line for op in drops}
    kept = {name for j, names in facts.imports.items() if j not in gone for name in names} if new else set()
    return {"same_keys": float(same_keys), "imported_twice": float(len(kept & new))}


def _has_key(beside: Iterable[LineOp], key: str, indent: int) -> bool:
    for op in beside:
        level = indent_of(op.text)
        if level < indent:
            return False
        found = _KEY.match(op.text.lstrip()) if level == indent and op.kind != "take" else None
        if found is not None and found[1] == key:
            return True
    return False


def _of_gaps(facts: SnippetFacts, ops: Merge) -> Features:
    """Return features of the markers.

    They count markers beside removed lines, and markers that stand for nothing, for lines outside their scope, or only
    for deeper lines.
    """
    snippet = facts.reading.snippet
    found = dict.fromkeys(("empty_gaps", "leaving_gaps", "deeper_gaps", "cut_gaps"), 0.0)
    block_of = {i: b for b, i in facts.reading.visible}
    at, is_cut, hidden = -1, False, NO_SCOPE
    """The block; whether lines right above were removed; the least level of hidden lines since the last shown one."""
    for above, k in pairwise([-1, *ops.shown] if snippet.has_markers else ()):
        if (first := ops[above + 1].original_line) is not None and k > above + 1:
            hidden = min(hidden, int(facts.levels[first : first + k - above - 1].min()))
            is_cut = False
        if (i := ops[k].update_line) is not None and i not in block_of:
            continue  # This is a blank line beside a marker.
        b = at if i is None else block_of[i]
        level = facts.reading.marker_indent(snippet.blocks[b].gap_before) if b != at else None
        if level is not None:
            found["empty_gaps"] += hidden == NO_SCOPE
            found["leaving_gaps"] += hidden < level
            found["deeper_gaps"] += level < hidden < NO_SCOPE
            found["cut_gaps"] += is_cut
        at = b
        if ops[k].kind == "drop":
            name = header_name(ops[k].text)
            is_renewed = name is not None and any(
                op.kind == "take" and header_name(op.text) == name for op in ops[k + 1 : k + 1 + NEAR]
            )
            is_cut = is_cut or (ops[k].text.strip() != "" and not is_renewed)
        else:
            is_cut, hidden = False, NO_SCOPE
    return found


def _of_blocks(reading: ReadSnippet, ops: Merge) -> Features:
    """Return features of the snippet's blocks.  One is how rare the file's lines are that the changing blocks show.
    Another is how many shown lines the reading overrides although their block and the next one change nothing."""
    block_of = {i: b for b, i in reading.visible}
    n_blocks = len(reading.snippet.blocks)
    changed, overridden = [False] * (n_blocks + 1), [0] * (n_blocks + 1)
    rarest: list[int | None] = [None] * n_blocks
    at = 0
    for op in (ops[k] for k in ops.shown):
        at = at if op.update_line is None else block_of.get(op.update_line, at)
        if op.kind in ("take", "drop") and op.text.strip():
            changed[at] = True
        elif op.kind == "both" and op.update_line is not None:
            overridden[at] += op.text != reading.texts[op.update_line]
            if op.text.strip():
                count = reading.index.count(op.text)
                rarest[at] = min(count, rarest[at] or count)
    anchors = [UNANCHORED if n is None else log2(max(1, n)) for b, n in enumerate(rarest) if changed[b]]
    idle = [n for b, n in enumerate(overridden[:n_blocks]) if not changed[b] and not changed[b + 1]]
    return {"weakest_anchor": max(anchors, default=0.0), "idle_overridden": float(sum(idle))}


def _of_shown_lines(reading: ReadSnippet, ops: Merge, shown: Sequence[str]) -> Features:
    """Return how many shown lines the reading leaves unused, and how many lines it keeps although they are shown
    differently."""
    used = {ops[k].update_line for k in ops.shown}
    unused = [i for _, i in reading.visible if i not in used and not is_closer(reading.texts[i])]
    both = (ops[k] for k in ops.shown if ops[k].kind == "both")
    quotes = ((op.text, shown[op.update_line]) for op in both if op.update_line is not None)
    overridden = [(kept, text) for kept, text in quotes if kept != text]
    return {
        "unused": float(len(unused)),
        "overridden": float(len(overridden)),
        "invisible": float(sum(kept.split() == text.split() for kept, text in overridden)),
    }
