"""All the ways to read a lazy snippet, each as a finished merge with what is known of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from apply_service.edits.lazy import merge as merging
from apply_service.edits.lazy.align import align
from apply_service.edits.lazy.quotes import find_pairs, keep_wording, kind
from apply_service.edits.lazy.rows import Rows
from apply_service.edits.lazy.signed import is_signed, read_signed
from apply_service.edits.lazy.write import Writer
from apply_service.edits.reading import Reading
from apply_service.types import LineOp

FORMAT = frozenset({"format", "layout"})
POLICIES: tuple[tuple[str, frozenset[str], bool], ...] = (
    ("literal", frozenset(), False),
    ("format", FORMAT, False),
    ("format+blanks", FORMAT, True),
    ("remarks", FORMAT | {"remark", "reordered"}, False),
    ("omissions", frozenset({"omission", "remark"}), False),
    ("comments", frozenset({"comment"}), False),
    ("all", FORMAT | {"remark", "reordered", "comment", "omission"}, False),
    ("all+blanks", FORMAT | {"remark", "reordered", "comment", "omission"}, True),
    ("most+blanks", FORMAT | {"remark", "reordered", "comment"}, True),
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
    for base, ops in bases.items():
        pairs = find_pairs(ops)
        kinds = [kind(pair.features) for pair in pairs]
        for name, kept, blanks in POLICIES:
            add(f"{base}:{name}", keep_wording(ops, [p for p, k in zip(pairs, kinds, strict=True) if k in kept or k == "elided"], blanks=blanks))
    return list(found.values())
