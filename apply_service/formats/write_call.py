"""Writes a repaired edit: the same change in the same format, but each passage that it quotes from the file occurs
there exactly once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from apply_service.formats.calls import opens_json, read_calls, walk
from apply_service.formats.hashline import usual_anchor
from apply_service.formats.json_edit import PAIRS
from apply_service.formats.quotes import Quote, quote_changes
from apply_service.formats.v4a import OPERATIONS
from apply_service.text.diff import diff_lines, unified_diff_text

N_AROUND = 3
"""The number of unchanged lines on each side of a change, in formats that show such lines."""


def write_call(name: str, sample: str, original: str, merged: str, path: str) -> str | None:
    """Return the change from `original` to `merged` as an edit in the format `name`, with the tags and field names of
    `sample`.

    The result is None or empty if the texts are equal.  It is None if the file repeats itself too much to be quoted, or
    if the format quotes nothing.  All texts have LF line ends.
    """
    if name == "unified_diff":
        return unified_diff_text(original, merged, path)
    around = 1 if name in ("json_edit", "hashline") else N_AROUND
    quotes = quote_changes(original.split("\n"), merged.split("\n"), around)
    if not quotes:
        return None
    if name == "json_edit":
        return _json(sample, quotes, path)
    if name == "hashline":
        lines, edits = original.split("\n"), []
        for one in quotes:
            first, last = (usual_anchor(row + 1, lines[row]) for row in (one.start, one.stop - 1))
            edits.append({"replace_lines": {"start_anchor": first, "end_anchor": last, "new_text": "\n".join(one.new)}})
        return json.dumps({"path": path, "edits": edits}, ensure_ascii=False)
    if name == "v4a_patch":
        return _patch(sample, quotes, path)
    marks = {
        "search_replace": ("<<<<<<< SEARCH", ">>>>>>> REPLACE"),
        "conflict_markers": ("<<<<<<< ours", ">>>>>>> theirs"),
    }
    if name not in marks:
        return None
    begin, end = marks[name]
    return "\n".join([path, *(line for one in quotes for line in (begin, *one.old, "=======", *one.new, end)), ""])


def _json(sample: str, quotes: Sequence[Quote], path: str) -> str:
    """Return the sample with the change in place of its old and new text, if the sample is one call with one edit.

    A call in tags is repeated for each quote.  A JSON call is kept only if there is one quote.  Otherwise the result is
    a JSON list of edits.
    """
    values = read_calls(sample).values
    found = [
        pair for call in walk(values) for pair in PAIRS if all(isinstance(call.fields.get(one), str) for one in pair)
    ]
    old, new = found[0] if found else PAIRS[0]
    if len(values) == len(found) == 1 and not opens_json(sample):
        return "\n".join(_in_tags(sample, _with_texts(values[0], (old, new), one)) for one in quotes)
    if len(values) == len(found) == len(quotes) == 1:
        return json.dumps(_with_texts(values[0], (old, new), quotes[0]), ensure_ascii=False)
    edits = [{old: "\n".join(one.old), new: "\n".join(one.new)} for one in quotes]
    return json.dumps({"path": path, "edits": edits}, ensure_ascii=False)


def _in_tags(sample: str, call: Any) -> str:
    """Return a call in the kind of tags that the sample has."""
    is_plain = "<function=" in sample
    lines = []
    for name, value in call["arguments"].items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"<parameter={name}>\n{text}\n</parameter>" if is_plain else
                     f'<parameter name="{name}">\n{text}\n</parameter>')  # fmt: skip
    begin, end = (
        (f"<function={call['name']}>", "</function>") if is_plain else (f'<invoke name="{call["name"]}">', "</invoke>")
    )
    return "\n".join([begin, *lines, end])


def _with_texts(value: Any, pair: tuple[str, str], quote: Quote) -> Any:
    """Return a call's value with the quote in place of the call's old and new text.  JSON inside a text is changed
    too."""
    if isinstance(value, list):
        return [_with_texts(item, pair, quote) for item in value]
    if isinstance(value, str) and opens_json(value):
        inner = read_calls(value).values
        return json.dumps(_with_texts(inner[0], pair, quote), ensure_ascii=False) if len(inner) == 1 else value
    if not isinstance(value, dict):
        return value
    if all(isinstance(value.get(name), str) for name in pair):
        return value | {pair[0]: "\n".join(quote.old), pair[1]: "\n".join(quote.new)}
    return {name: _with_texts(item, pair, quote) for name, item in value.items()}


def _hunk(quote: Quote) -> list[str]:
    """Return the lines of a hunk, each with its sign."""
    rows: list[str] = []
    done = 0
    for a0, a1, b0, b1 in diff_lines(quote.old, quote.new):
        rows += [*(f" {line}" for line in quote.old[done:a0]), *(f"-{line}" for line in quote.old[a0:a1])]
        rows += (f"+{line}" for line in quote.new[b0:b1])
        done = a1
    return [*rows, *(f" {line}" for line in quote.old[done:])]


def _patch(sample: str, quotes: Sequence[Quote], path: str) -> str:
    """Return a patch; if the sample has an operation of an `apply_patch_call`, return such a call with the new diff."""
    rows = [row for one in quotes for row in ("@@", *_hunk(one))]
    values = read_calls(sample).values if opens_json(sample) else ()
    kinds = {f"{kind}_file" for kind in OPERATIONS}
    operation = next((call.fields for call in walk(values) if call.fields.get("type") in kinds), None)
    if operation is not None:
        mended = {"type": "update_file", "path": path, "diff": "\n".join([*rows, ""])}
        return json.dumps({"type": "apply_patch_call", "operation": mended}, ensure_ascii=False)
    return "\n".join(["*** Begin Patch", f"*** Update File: {path}", *rows, "*** End Patch", ""])
