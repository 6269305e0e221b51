"""All the ways to read a lazy snippet, each as a finished merge with what is known of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from apply_service.edits.headers import header_name
from apply_service.edits.indentation import indent_of
from apply_service.edits.lazy import merge as merging
from apply_service.edits.lazy.align import align
from apply_service.edits.lazy.quotes import Pair, find_pairs, keep_wording, kind
from apply_service.edits.lazy.rows import Rows
from apply_service.edits.lazy.signed import is_signed, read_signed
from apply_service.edits.lazy.write import Writer
from apply_service.edits.lazy.statements import statements
from apply_service.edits.reading import Reading
from apply_service.edits.snippet import marker_indent
from apply_service.types import LineOp

FORMAT = frozenset({"format", "layout", "stub"})
LOOSE = FORMAT | {"remark", "reordered", "omission"}
POLICIES: tuple[tuple[str, frozenset[str], bool, str], ...] = (
    ("literal", frozenset(), False, ""),
    ("stubs", frozenset({"stub"}), False, ""),
    ("stubs+leads", frozenset({"stub"}), False, "leads"),
    ("stubs+gaps", frozenset({"stub"}), False, "all"),
    ("format", FORMAT, False, ""),
    ("format+blanks", FORMAT, True, ""),
    ("format+leads", FORMAT, False, "leads"),
    ("remarks", FORMAT | {"remark", "reordered"}, False, ""),
    ("omissions", frozenset({"omission", "remark", "stub"}), False, "leads"),
    ("comments", frozenset({"comment", "stub"}), False, ""),
    ("loose", LOOSE, False, "leads"),
    ("loose+blanks", LOOSE, True, "leads"),
    ("most+blanks", FORMAT | {"remark", "reordered", "comment"}, True, ""),
    ("all", LOOSE | {"comment"}, False, "leads"),
    ("all+blanks", LOOSE | {"comment"}, True, "leads"),
    ("all+gaps", LOOSE | {"comment"}, True, "all"),
)


@dataclass(slots=True)
class Draft:
    ops: list[LineOp]
    names: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(op.text for op in self.ops if op.kind != "drop")


def drafts(reading: Reading) -> list[Draft]:
    found: dict[str, Draft] = {}

    def add(name: str, ops: list[LineOp]) -> None:
        draft = Draft(ops)
        found.setdefault(draft.text, draft).names.append(name)

    raw = reading.snippet.texts
    if is_signed(reading.original, raw):
        for n, signed in enumerate(read_signed(reading.original, raw, language=reading.language, path=reading.path)):
            add(f"signed{n}", list(signed.ops))
        return list(found.values())
    rows = Rows(reading)
    chosen = merging._aligned(reading, rows, groups=False)
    add("base", Writer(reading, rows.candidates, chosen).write())
    bases = {"line": Writer(reading, rows.candidates, chosen, trusts_all=True).write()}
    if rows.groups():
        grouped = merging._aligned(reading, rows, groups=True)
        bases["group"] = Writer(reading, rows.candidates, grouped, trusts_all=True).write()
        add("gbase", Writer(reading, rows.candidates, grouped).write())
    nested = Rows(reading, is_nested=True)
    if nested.is_narrowed:
        matches = merging._aligned(reading, nested)
        bases["nested"] = Writer(reading, nested.candidates, matches, trusts_all=True).write()
        add("nbase", Writer(reading, nested.candidates, matches).write())
    stubs = stub_headers(reading)
    for base, ops in bases.items():
        pairs = find_pairs(ops)
        kinds = [_kind(ops, pair, stubs) for pair in pairs]
        for name, kept, blanks, gaps in POLICIES:
            chosen = [p for p, k in zip(pairs, kinds, strict=True) if k in kept or k == "elided"]
            add(f"{base}:{name}", keep_wording(ops, chosen, blanks=blanks, gaps=gaps))
    return list(found.values())


def _kind(ops: Sequence[LineOp], pair: Pair, stubs: set[int]) -> str:
    what = kind(pair.features)
    is_stub = all(ops[k].update_line in stubs for k in pair.new)
    return "stub" if is_stub and what in LOOSE else what


def stub_headers(reading: Reading) -> set[int]:
    """The update lines of headers whose body is nothing but a marker: they tell that the definition stays."""
    found: set[int] = set()
    snippet = reading.snippet
    for b, block in enumerate(snippet.blocks):
        texts = reading.block_texts(b)
        part = statements(texts)[-1]
        indent = indent_of(texts[part.start])
        if not block.marked_after or header_name(texts[part.start]) is None:
            continue
        after = marker_indent(snippet, block.gap_after)
        below = indent_of(reading.texts[snippet.blocks[b + 1].lines[0]]) if b + 1 < len(snippet.blocks) else -1
        if below <= indent and (after is None or after > indent):
            found.update(block.lines[part.start : part.stop])
    return found
