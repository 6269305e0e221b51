"""All the ways to read a lazy snippet, each as a finished merge with what is known of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from apply_service.edits.alternatives import find_alternatives
from apply_service.edits.headers import header_name
from apply_service.edits.indentation import indent_of
from apply_service.edits.lazy import merge as merging
from apply_service.edits.lazy.directives import Directive, find_directives
from apply_service.edits.lazy.place import Placed, merge_placed, place
from apply_service.edits.lazy.quotes import Pair, find_pairs, keep_wording, kind
from apply_service.edits.lazy.rows import Rows
from apply_service.edits.lazy.signed import is_signed, read_signed
from apply_service.edits.lazy.write import Writer
from apply_service.edits.lazy.statements import statements
from apply_service.edits.reading import Reading
from apply_service.edits.snippet import marker_indent
from apply_service.types import Certainty, LineOp, Prediction

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
    texts: list[str]
    names: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(op.text for op in self.ops if op.kind != "drop")


def drafts(
    original: Sequence[str], update: Sequence[str], language: str | None, path: str | None, instruction: str = ""
) -> list[Draft]:
    """All readings with different texts, the default one first."""
    found: dict[str, Draft] = {}

    def add(name: str, ops: Sequence[LineOp], texts: Sequence[str]) -> None:
        draft = Draft(list(ops), list(texts))
        found.setdefault(draft.text, draft).names.append(name)

    if is_signed(original, update):
        for n, signed in enumerate(read_signed(original, update, language=language, path=path)):
            add(f"signed{n}", signed.ops, signed.update_lines)
        return list(found.values())
    directives = find_directives(original, update, language=language, path=path)
    if directives or instruction.strip():
        placed = merge_placed(original, update, language=language, path=path, instruction=instruction)
        for n, (_, ops) in enumerate(placed):
            add(f"placed{n}", ops, _texts_of(ops, update))
        if directives and not placed:
            for name, ops, texts in _mixed(original, update, language, path, directives):
                add(name, ops, texts)
    for name, ops, texts in _laid(Reading(original, update, language, path)):
        add(name, ops, texts)
    for draft in list(found.values())[:2]:
        prediction = Prediction(tuple(draft.ops), tuple(draft.texts), Certainty.LIKELY)
        for n, other in enumerate(find_alternatives(prediction)):
            add(f"other{n}", other.of(draft.ops), draft.texts)
    return list(found.values())


def _texts_of(ops: Sequence[LineOp], update: Sequence[str]) -> list[str]:
    texts = list(update)
    for op in ops:
        if op.kind == "take" and op.update_line is not None:
            texts[op.update_line] = op.text
    return texts


def _mixed(
    original: Sequence[str], update: Sequence[str], language: str | None, path: str | None, directives: Sequence[Directive]
) -> Iterator[tuple[str, list[LineOp], list[str]]]:
    """Directives carried out on the merge of what stands beside them."""
    covered = {i for directive in directives for i in (*directive.lines, *directive.block)}
    rest = Reading(original, update, language, path, covered)
    choices = [place(original, update, directive, language=language)[:1] for directive in directives]
    if not all(choices):
        return
    laid = _laid(rest) if rest.visible else [("none", keep_all(original), rest.texts)]
    for name, ops, texts in laid:
        merged: list[LineOp] | None = list(ops)
        for placed in choices:
            merged = _spliced(merged, placed[0], original) if merged is not None else None
        if merged is not None:
            yield f"mixed:{name}", merged, _texts_of(merged, texts)


def keep_all(original: Sequence[str]) -> list[LineOp]:
    """The file as it is."""
    return [LineOp("keep", j, None, line) for j, line in enumerate(original)]


def _spliced(ops: Sequence[LineOp], placed: Placed, original: Sequence[str]) -> list[LineOp] | None:
    """A merge with one more place changed; None where it already changes lines there."""
    at = next((k for k, op in enumerate(ops) if op.original_line is not None and op.original_line >= placed.start), len(ops))
    stop = at + placed.end - placed.start
    if any(op.kind not in ("keep", "both") for op in ops[at:stop]):
        return None
    drops = [LineOp("drop", j, None, original[j]) for j in range(placed.start, placed.end)]
    return [*ops[:at], *drops, *(LineOp("take", None, i, text) for i, text in placed.lines), *ops[stop:]]


def _laid(reading: Reading) -> Iterator[tuple[str, list[LineOp], list[str]]]:
    """The snippet aligned with the file, in several ways."""
    rows = Rows(reading)
    chosen = merging._aligned(reading, rows, groups=False)
    aligned = {"line": (rows, chosen)}
    if rows.groups():
        aligned["group"] = (rows, merging._aligned(reading, rows, groups=True))
    nested = Rows(reading, is_nested=True)
    if nested.is_narrowed:
        aligned["nested"] = (nested, merging._aligned(reading, nested))
    for base, (of, matches) in aligned.items():
        writer = Writer(reading, of.candidates, matches)
        yield f"{base}:careful", writer.write(), writer.texts
    stubs = stub_headers(reading)
    for base, (of, matches) in aligned.items():
        writer = Writer(reading, of.candidates, matches, trusts_all=True)
        ops = writer.write()
        pairs = find_pairs(ops)
        kinds = [_kind(ops, pair, stubs) for pair in pairs]
        for name, kept, blanks, gaps in POLICIES:
            kept_pairs = [p for p, k in zip(pairs, kinds, strict=True) if k in kept or k == "elided"]
            yield f"{base}:{name}", keep_wording(ops, kept_pairs, blanks=blanks, gaps=gaps), writer.texts


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
