"""The features of a reading: the numbers that the chooser weighs.

They are of three kinds: how the snippet is written (the same for all readings of an edit), how the reading was made,
and what it does to the file.  Every reading has the same feature names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import log2
from operator import is_not

from rapidfuzz import fuzz

from apply_service.edits.code_lines import header_name, indent_of, is_attached, is_closer, surplus
from apply_service.edits.lazy.candidates import substance
from apply_service.edits.lazy.notes import KINDS as NOTE_KINDS
from apply_service.edits.lazy.questions import ALL_DOUBTS
from apply_service.edits.lazy.quotes import KINDS as QUOTE_KINDS
from apply_service.edits.lazy.quotes import Merge, Pair, changes, find_pairs, lone_pairs
from apply_service.edits.lazy.reading import Reading
from apply_service.edits.lazy.retouch import RETOUCHES
from apply_service.edits.lazy.statements import imported
from apply_service.edits.markers import Role, strip_comment
from apply_service.types import LineOp

KINDS = (*QUOTE_KINDS, "stub", "renewed")
MAKERS = ("line", "group", "nested", "signed", "placed", "mixed", "noted", "parted", "unshifted",
          "other")  # fmt: skip
POLICIES = ("careful", "literal", "stubs", "headers", "careless", "lone", "format", "remarks", "omissions", "comments",
            "loose", "most", "all", "flow")  # fmt: skip
SIGNED = (
    "context_exact", "context_loose", "context_missing", "removed_missing", "removed_loose", "ambiguous", "moved",
    "unknown", "repeated", "between", "unquoted", "reindented", "margin",
)  # fmt: skip
PLACED = ("found", "missing", "agreement", "unknown", "likeness", "margin")
REASONS = (
    "trailing white space differs", "blank lines at a deletion note", "scope unknown", "no anchor above new lines",
    "no anchor below new lines", "context misquoted", "context shortened", "comment reworded", "comment left out",
    "fragment re-indented", "definitions left out", "remark or comment", "brackets read in pairs", "deletion note",
    "a deletion is noted", "no anchor; placed", "placed by its hint", "indented otherwise",
)  # fmt: skip
BESIDE = 8
"""A new line is compared with this many hidden lines on each side of its change."""
SHOWN = 0.8
"""The `substance` that a line needs before a second copy of it counts."""
SCOPE = 60
"""The key of a new line is searched in this many lines on each side of it."""
_KEY = re.compile(r"^\s*[-\"']?\s*[\"']?([\w.@$-]{2,})[\"']?\??\s*[:=](?!=)")
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
_WORD = re.compile(r"[^\W\d]\w{2,}")
_DECLARED = re.compile(
    r"\s*(?:export\s+)?(?:(?:const|let|var|val|static|final|local|type|class|struct|enum|interface|trait|def|fn|func|function)\s+"
    r"(?:mut\s+)?(\w+)|(\w{3,})\s*(?::[^=()]+)?:?=(?!=))"
)
_ORDER = re.compile(
    r"\s*(?:#|//|--|/\*+|<!--|;)[\s\d.)]*(?:(?:then|and|also|finally|next|now|right|(?:in|at) [^:]*:)[,:]?\s+)*"
    r"(?:add|append|change|delete|drop|insert|keep|move|place|put|remove|rename|replace|update)\b",
    re.IGNORECASE,
)
"""A comment that tells the reader to make an edit."""
MAX_COMMON = 12
"""A word that occurs in more lines of the file than this says nothing about a place."""
NEAR = 15
"""The names of new lines are searched in this many operations on each side of their change."""
Features = dict[str, float]


@dataclass(frozen=True)
class SnippetFacts:
    """How a snippet is written.  This is the same for all of its merges."""

    reading: Reading

    @cached_property
    def headers(self) -> Counter[str | None]:
        """The names that the file defines."""
        return Counter(map(header_name, self.reading.original))

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
    def levels(self) -> set[int]:
        """The file's indentations."""
        return {indent_of(line) for line in self.reading.original if line.strip()}

    @cached_property
    def features(self) -> Features:
        reading, snippet = self.reading, self.reading.snippet
        shown = [reading.texts[i] for _, i in reading.visible]
        index = reading.index
        known = [index.has(text.rstrip()) for text in shown]
        says = [substance(text.strip()) for text in shown]
        alone = [index.count(text) == 1 for text in shown]
        roles = Counter(snippet.roles)
        edges = [(b.lines[0], b.lines[-1]) for b in snippet.blocks]
        held = [[index.has(reading.texts[i].rstrip()) for i in pair] for pair in edges]
        sure = [
            any(index.count(reading.texts[i]) == 1 and substance(reading.texts[i].strip()) > 0.5 for i in block.lines)
            for block in snippet.blocks
        ]
        n = max(1, len(shown))
        return {
            "shown_lines": log2(1 + len(shown)),
            "file_lines": log2(1 + len(reading.original)),
            "shown_share": len(shown) / max(1, len(reading.original)),
            "known_share": sum(known) / n,
            "known_saying": sum(x for x, k in zip(says, known, strict=True) if k) / max(0.1, sum(says)),
            "unique_share": sum(alone) / n,
            "new_lines": float(len(shown) - sum(known)),
            "blocks": float(len(snippet.blocks)),
            "markers": float(roles[Role.MARKER]),
            "notes": float(roles[Role.DELETION] + roles[Role.HINT] + roles[Role.ASIDE]),
            "fences": float(roles[Role.FENCE] > 0),
            "prose": float(roles[Role.CHAT]),
            "inline_markers": float(len(reading.elided)),
            "unmarked_start": float(bool(snippet.blocks) and not snippet.blocks[0].marked_before),
            "unmarked_end": float(bool(snippet.blocks) and not snippet.blocks[-1].marked_after),
            "held_starts": sum(pair[0] for pair in held) / max(1, len(held)),
            "held_ends": sum(pair[1] for pair in held) / max(1, len(held)),
            "loose_blocks": float(
                sum(not any(index.has(reading.texts[i].rstrip()) for i in b.lines) for b in snippet.blocks)
            ),
            "unsure_blocks": float(len(sure) - sum(sure)),
            "is_yaml": float(reading.language in ("yaml", "toml", "json", "markdown")),
            "is_python": float(reading.language == "python"),
        }


def features_of(
    facts: SnippetFacts,
    ops: Merge,
    names: Sequence[str],
    counts: Mapping[str, int],
    reasons: Sequence[str],
    extra: Mapping[str, float],
    n_readings: int,
) -> Features:
    """All features of one reading.

    `names`: the ways that lead to it.  `counts`: how many pairs of each kind keep the file's wording.
    `extra`: features that come from `signed` or `place`.
    """
    found = dict(facts.features)
    found["ways"] = float(len(names))
    found["ways_share"] = len(names) / max(1, n_readings)
    makers = {name.split(":")[-2] if ":" in name else name.rstrip("0123456789") for name in names}
    makers |= {name.split(":")[0] for name in names if name.count(":") > 1}
    for maker in MAKERS:
        found[f"by_{maker}"] = float(maker in makers)
    policies = {name.split(":")[-1].split("+")[0] for name in names if ":" in name}
    extras = {part for name in names if ":" in name for part in name.split("+")[1:]}
    for policy in POLICIES:
        found[f"policy_{policy}"] = float(policy in policies)
    for part in ("blanks", "leads", "gaps", *(name for name, _ in RETOUCHES)):
        found[f"policy_{part}"] = float(part in extras)
    for what in KINDS:
        found[f"kept_{what}"] = float(counts.get(what, 0))
    for reason in (*REASONS, *ALL_DOUBTS):
        found[f"doubt_{reason}"] = float(any(reason in text for text in reasons))
    found["doubts"] = float(len(reasons))
    for name in SIGNED:
        found[f"signed_{name}"] = float(extra.get(f"signed_{name}", 0.0))
    for name in PLACED:
        found[f"placed_{name}"] = float(extra.get(f"placed_{name}", 0.0))
    found |= _effects(facts, ops) | _of_notes(facts.reading, ops)
    for name, retouch in RETOUCHES:  # The number of lines that each retouch would change.
        found[f"open_{name}"] = log2(1 + sum(map(is_not, ops, retouch(facts.reading, ops))))
    return found


def _of_notes(reading: Reading, ops: Sequence[LineOp]) -> Features:
    """How many comments that may be notes the merge writes, and how many the reading takes for markers."""
    written = {op.update_line for op in ops if op.kind == "take"}
    found = Counter(kind for i, kind in reading.found_notes.items() if i in written)
    taken = Counter(kind for i, kind in reading.found_notes.items() if i in reading.notes)
    return {
        **{f"written_{kind}": float(found[kind]) for kind in NOTE_KINDS},
        **{f"noted_{kind}": float(taken[kind]) for kind in NOTE_KINDS},
    }


def _odd_steps(ops: Sequence[LineOp]) -> int:
    """The number of lines whose indentation does not fit the line above, if the reading brought the two together.

    Such a line is deeper than a line that opens nothing, or not deeper than a line that opens a scope.
    """
    n, above, is_new, at = 0, "", False, 0
    beside: list[int] = []
    """The operations of all changes, each with the nearest lines above and below it that are not blank."""
    for start, stop in changes(ops):
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
                n += (step > 0 and not opens) or (
                    step <= 0 and last.endswith(("{", "(", "[", ":")) and not is_closer(op.text)
                )
            above, is_new = op.text, op.kind == "take"
    return n


def _likest(text: str, ops: Sequence[LineOp]) -> float:
    """The similarity (0 to 1) of a new line to the closest hidden line beside it, for which it may stand."""
    return max((fuzz.ratio(text.strip(), op.text.strip()) for op in ops if op.text.strip()), default=0.0) / 100


def _effects(facts: SnippetFacts, ops: Sequence[LineOp]) -> Features:
    """The features of the changes that the reading makes to the file."""
    drops = [op for op in ops if op.kind == "drop" and op.text.strip()]
    takes = [op for op in ops if op.kind == "take" and op.text.strip()]
    pairs = find_pairs(ops)
    kinds = Counter(pair.kind for pair in pairs)
    lone = lone_pairs(ops, pairs)
    loose = [pair for pair in pairs if pair.kind not in ("edit", "comment", "elided", "indent")]
    sides = [surplus([op.text for op in side]) for side in (takes, drops)]
    return {
        "dropped": log2(1 + len(drops)),
        "taken": log2(1 + len(takes)),
        "net": float(len(takes) - len(drops)) / (1 + len(takes) + len(drops)),
        "gone_share": len(drops) / max(1, len(facts.reading.original)),
        "gone_comments": float(sum(strip_comment(op.text).is_comment for op in drops)),
        "told": float(sum(_ORDER.match(op.text) is not None for op in takes)),
        "unbalanced": float(sum(abs(a - b) for a, b in zip(*sides, strict=True))),
        "odd_steps": float(_odd_steps(ops)),
        "changes_nothing": float(not drops and not takes),
        "loose_pairs": float(len(loose)),
        "lone_loose": float(sum(pair.old[0] in lone for pair in loose)),
        "against_file": float(sum(_is_against(facts, ops, pair) for pair in loose)),
        **{f"left_{what}": float(kinds[what]) for what in QUOTE_KINDS if what != "elided"},
        "reworded_share": kinds["edit"] / max(1, len(pairs)),
        **_of_runs(ops),
        **_of_names(ops),
        **_of_words(facts, ops, drops, takes),
        **_of_new_lines(facts, drops, takes),
        **_of_shown_lines(facts.reading, ops),
    }


def _is_against(facts: SnippetFacts, ops: Sequence[LineOp], pair: Pair) -> bool:
    """Whether the new lines of a pair depart from the writing style of the file.

    Style means quotes, semicolons, final periods, and blanks around `=` and after commas and brackets.
    """
    old, new = (_ways("\n".join(ops[k].text for k in side)) for side in (pair.old, pair.new))
    gained = {way for way in new if new[way] > old[way]}
    lost = {way for way in old if old[way] > new[way]}
    return any(facts.ways[a] > 2 * facts.ways[b] for a, b in OPPOSITES if a in lost and b in gained)


def _ways(text: str) -> Counter[str]:
    """How often the text shows each writing style of WAYS."""
    return Counter({name: len(pattern.findall(text)) for name, pattern in WAYS.items()})


def _of_runs(ops: Sequence[LineOp]) -> Features:
    """The features of the runs of changes and of the hidden lines beside their open ends."""
    found: Counter[str] = Counter()
    longest_gone, beside = 0, 0.0
    for start, stop in changes(ops):
        old = [op.text for op in ops[start:stop] if op.kind == "drop" and op.text.strip()]
        new = [op.text for op in ops[start:stop] if op.kind == "take" and op.text.strip()]
        found["runs"] += 1
        found["blank_runs"] += not old and not new
        found["inserting_runs"] += bool(new) and not old
        if old and not new:
            found["deleting_runs"] += 1
            longest_gone = max(longest_gone, len(old))
            found["gone_headers"] += sum(header_name(text) is not None for text in old)
            found["gone_leads"] += all(map(is_attached, old))
        if new and (start == 0 or ops[start - 1].kind == "keep"):
            found["open_tops"] += 1
            beside = max(beside, _likest(new[0], ops[max(0, start - BESIDE) : start]))
        if new and (stop == len(ops) or ops[stop].kind == "keep"):
            found["open_bottoms"] += 1
            beside = max(beside, _likest(new[-1], ops[stop : stop + BESIDE]), _likest(new[0], ops[stop : stop + 1]))
    counted = ("runs", "blank_runs", "inserting_runs", "deleting_runs", "gone_headers", "gone_leads", "open_tops")
    return {
        **{name: float(found[name]) for name in (*counted, "open_bottoms")},
        "longest_gone": log2(1 + longest_gone),
        "beside_likeness": beside,
    }


@lru_cache(maxsize=65536)
def words(line: str) -> frozenset[str]:
    return frozenset(_WORD.findall(line))


@lru_cache(maxsize=16384)
def declared(line: str) -> frozenset[str]:
    """The names that a line declares, found by a pattern and not by a parser."""
    found = _DECLARED.match(line)
    return imported(line) | ({name for name in found.groups() if name} if found else set())


def _of_words(facts: SnippetFacts, ops: Sequence[LineOp], drops: Sequence[LineOp], takes: Sequence[LineOp]) -> Features:
    """Whether lines near each change use the names of its new lines, and whether a removed name is still in use."""
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
    twice = sum(
        any(j not in gone and name in declared(original[j]) for j in facts.lines_with.get(name, ())) for name in defined
    )
    shares, strangers = [], 0
    for start, stop in changes(ops):
        names = {word for op in ops[start:stop] if op.kind == "take" for word in words(op.text)}
        names = {word for word in names if 0 < len(facts.lines_with.get(word, ())) <= MAX_COMMON}
        if not names:
            continue
        beside = [op for op in ops[max(0, start - NEAR) : stop + NEAR] if op.kind != "take"]
        at_home = {word for op in beside for word in words(op.text)}
        shares.append(len(names & at_home) / len(names))
        strangers += len(names - at_home)
    return {
        "dangling": float(dangling),
        "declared_twice": float(twice),
        "at_home": min(shares, default=1.0),
        "at_home_mean": sum(shares) / len(shares) if shares else 1.0,
        "strangers": log2(1 + strangers),
    }


def _of_new_lines(facts: SnippetFacts, drops: Sequence[LineOp], takes: Sequence[LineOp]) -> Features:
    """The lines that the new lines repeat, the names that they define again, and their indentation."""
    gone = {op.text.strip() for op in drops}
    gone_names = Counter(header_name(op.text) for op in drops)
    new_headers = [name for op in takes if (name := header_name(op.text)) is not None]
    levels = [indent_of(op.text) for op in takes]
    says = [text for op in takes if (text := op.text.strip()) not in gone and substance(text) >= SHOWN]
    return {
        "duplicates": float(sum(facts.reading.index.count(text) > 0 for text in says)),
        "same_names": float(sum(facts.headers[name] > gone_names[name] for name in new_headers)),
        "new_headers": float(len(new_headers)),
        "odd_levels": float(sum(level not in facts.levels for level in levels)),
        "new_levels": float(len(set(levels) - facts.levels)),
    }


def _of_names(ops: Sequence[LineOp]) -> Features:
    """The keys of one mapping and the imported names that occur twice after the merge."""
    left = [op for op in ops if op.kind != "drop" and op.text.strip()]
    same_keys = 0
    new: set[str] = set()
    for k, op in enumerate(left):
        if op.kind != "take":
            continue
        new |= imported(op.text)
        key = _KEY.match(op.text)
        if key is not None:  # The other key must be at the same level of the same scope.
            same_keys += _has_key(left[k + 1 : k + 1 + SCOPE], key[1], indent_of(op.text))
            same_keys += _has_key(left[max(0, k - SCOPE) : k][::-1], key[1], indent_of(op.text))
    kept = {name for op in left if op.kind != "take" for name in imported(op.text)} if new else set()
    return {"same_keys": float(same_keys), "imported_twice": float(len(kept & new))}


def _has_key(beside: Sequence[LineOp], key: str, indent: int) -> bool:
    for op in beside:
        level = indent_of(op.text)
        if level < indent:
            return False
        found = _KEY.match(op.text) if level == indent and op.kind != "take" else None
        if found is not None and found[1] == key:
            return True
    return False


def _of_shown_lines(reading: Reading, ops: Sequence[LineOp]) -> Features:
    """How many shown lines the reading leaves unused, and how many file lines it keeps in other words than shown."""
    used = {op.update_line for op in ops if op.update_line is not None}
    unused = [i for _, i in reading.visible if i not in used and not is_closer(reading.texts[i])]
    quotes = [
        (op.text, reading.texts[op.update_line]) for op in ops if op.kind == "both" and op.update_line is not None
    ]
    overridden = [(kept, shown) for kept, shown in quotes if kept != shown]
    return {
        "unused": float(len(unused)),
        "overridden": float(len(overridden)),
        "invisible": float(sum(kept.split() == shown.split() for kept, shown in overridden)),
    }
