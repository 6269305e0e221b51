"""The whole new file as an edit format.

Only taken for one where the request names the format: a snippet without markers looks the same, and overwriting a file
with one is what users of such tools complain of most.
"""

from __future__ import annotations

from dataclasses import replace

from apply_service.edits.envelope import is_fence, is_sentence, named_path
from apply_service.edits.hunk_merge import write_file
from apply_service.edits.line_diff import Hunk, diff_lines
from apply_service.edits.markers import is_marker
from apply_service.edits.trust import Trust
from apply_service.types import Certainty, LineOp, Prediction

MIN_SHARE = 0.4
"""A result with a smaller share of the original's characters and lines may be cut short."""
PROSE = (".md", ".mdx", ".markdown", ".rst", ".txt", ".adoc")
PROSE_TITLES = ("md", "mdx", "markdown", "rst", "text", "txt", "adoc")
MIN_LINES = 10
"""Shorter originals are not guarded."""


class WholeFile:
    """The `EditFormat` of whole files."""

    name = "whole_file"

    def detect(self, update: str) -> bool:  # noqa: ARG002
        """Never sure: it must be named."""
        return False

    def predict(self, original: str, update: str, *, language: str | None, path: str | None) -> Prediction:  # noqa: ARG002
        """The update as the file, out of its fence; the final newline stays as in the original."""
        lines = update.split("\n")
        trust = Trust()
        start, end, is_fenced = _body(lines, path, trust)
        new = [(at, lines[at]) for at in range(start, end)]
        ends_open = not is_fenced and bool(lines[-1])
        has_newline = original.endswith("\n") if original.strip() else not ends_open
        _judge(original, [text for _, text in new], trust)
        written = write_file(original, update, new, trust, has_final_newline=has_newline)
        return _aligned(original, written)


def _body(lines: list[str], path: str | None, trust: Trust) -> tuple[int, int, bool]:
    """First line and end of the file's text, and whether it came in a fence.  A file of prose with fences of its own
    counts as fenced only where the fence says that it holds prose."""
    shown = [at for at, line in enumerate(lines) if line.strip()]
    fences = [at for at in shown if is_fence(lines[at])]
    if len(fences) >= 2 and all(_is_talk(lines[at]) for at in shown if at < fences[0] or at > fences[-1]):
        is_prose = (path or "").lower().endswith(PROSE)
        if not is_prose or (fences[0] == shown[0] and lines[fences[0]].strip("`~ ").lower() in PROSE_TITLES):
            return fences[0] + 1, fences[-1], True
    if len(fences) == 1 and fences[0] == shown[0]:
        trust.lower(Certainty.LIKELY, "the fence around the file has no end: it may be cut short")
        return fences[0] + 1, len(lines) - (lines[-1] == ""), True
    return 0, len(lines) - (lines[-1] == ""), False


def _is_talk(line: str) -> bool:
    return is_sentence(line) or named_path(line) is not None


def _judge(original: str, new: list[str], trust: Trust) -> None:
    old = original.split("\n")
    marker = next((line for line in new if is_marker(line) and line not in old), None)
    if marker is not None and original.strip():
        trust.lower(
            Certainty.GUESS, f"a line stands for code left out, so this is not the whole file: {marker.strip()[:80]!r}"
        )
    n_new = sum(len(line) + 1 for line in new)
    if len(old) > MIN_LINES and n_new < MIN_SHARE * len(original) and len(new) < MIN_SHARE * len(old):
        trust.lower(Certainty.LIKELY, f"the result has {len(new)} lines, the original {len(old)}: it may be cut short")


def _aligned(original: str, written: Prediction) -> Prediction:
    """The same text, with the lines that stay told as such."""
    end = [op for op in written.ops[-1:] if op.kind == "keep"]
    lines = original.split("\n")
    old = lines[: len(lines) - len(end)]
    new = [op for op in written.ops if op.kind == "take"]
    ops: list[LineOp] = []
    a = b = 0
    for hunk in [*diff_lines(old, [op.text for op in new]), Hunk(len(old), len(old), len(new), len(new))]:
        ops += (
            LineOp("both", row, op.update_line, op.text) for row, op in zip(range(a, hunk.a0), new[b:], strict=False)
        )
        ops += (LineOp("drop", row, None, old[row]) for row in range(hunk.a0, hunk.a1))
        ops += new[hunk.b0 : hunk.b1]
        a, b = hunk.a1, hunk.b1
    return replace(written, ops=(*ops, *end))
