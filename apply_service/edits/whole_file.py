"""The whole new file as an edit format.

Only taken for one where the request names the format: a snippet without markers looks the same, and overwriting a file
with one is what users of such tools complain of most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from apply_service.edits.envelope import (
    PROSE_SUFFIXES,
    PROSE_TITLES,
    SHELLS,
    Fence,
    find_fences,
    is_same_file,
    is_sentence,
)
from apply_service.edits.hunk_merge import write_file
from apply_service.edits.line_diff import Hunk, diff_lines
from apply_service.edits.markers import is_marker
from apply_service.edits.trust import Trust
from apply_service.errors import MalformedEdit
from apply_service.types import Certainty, LineOp, Prediction

MIN_SHARE = 0.4
"""A result with a smaller share of the original's characters and lines may be cut short."""
MIN_LINES = 10
"""Shorter originals are not guarded."""


class WholeFile:
    """The `EditFormat` of whole files."""

    name = "whole_file"

    def predict(
        self,
        original: str,
        update: str,
        *,
        language: str | None,  # noqa: ARG002
        path: str | None,
        instruction: str = "",  # noqa: ARG002
    ) -> Prediction:
        """The update as the file, out of its fence; the final newline stays as in the original.

        Raises:
            MalformedEdit: several fenced texts, and none is known to be this file.
        """
        lines = update.split("\n")
        trust = Trust()
        fence = file_fence(lines, path, original)
        if fence is None:
            start, end = 0, len(lines) - (lines[-1] == "")
            first = next((line for line in lines if line.strip()), "")
            if is_sentence(first) and first not in original and find_fences(lines):
                trust.lower(Certainty.LIKELY, "its first line may be said about the file")
        else:
            start, end = fence.opening + 1, fence.closing
            _judge_fence(fence, lines, path, trust)
            end -= end == len(lines) and lines[-1] == ""
        new = [(at, lines[at]) for at in range(start, end)]
        ends_open = fence is None and bool(lines[-1])
        has_newline = original.endswith("\n") if original.strip() else not ends_open
        _judge(original, [text for _, text in new], trust)
        written = write_file(original, update, new, trust, has_final_newline=has_newline)
        return _aligned(original, written)


def file_fence(lines: Sequence[str], path: str | None, original: str) -> Fence | None:
    """The fence whose inside is the file; None where the text itself is.

    Raises:
        MalformedEdit: several, and none is known to be this file.
    """
    shown = [at for at, line in enumerate(lines) if line.strip()]
    fences = find_fences(lines)
    if not fences:
        return None
    is_prose = (path or "").lower().endswith(PROSE_SUFFIXES)
    opens, wraps = fences[0].opening == shown[0], fences[-1].closing >= shown[-1]
    is_one = not any(fence.path for fence in fences) and not any(fence.title for fence in fences[1:])
    if not is_prose and opens and wraps and len(fences) > 1 and is_one:
        # fences inside the file have cut the outer one short
        ends_alone = fences[-1].opening == shown[-1]
        return Fence(fences[0].opening, shown[-1] if ends_alone else fences[-1].closing, fences[0].title)
    mine = [fence for fence in fences if fence.path is not None and is_same_file(fence.path, path)]
    inside = {at for fence in fences for at in range(fence.opening, fence.closing + 1)}
    outside = [line for at, line in enumerate(lines) if at not in inside]
    if is_prose and not mine:
        is_whole = len(fences) == 1 and opens and wraps
        titled = [fence for fence in fences if fence.language in ("md", "mdx", "markdown")]
        if opens and wraps and titled[:1] == fences[:1]:
            return Fence(fences[0].opening, fences[-1].closing, fences[0].title)
        body = lines[fences[0].opening + 1 : fences[0].closing]
        starts = next((line for line in body if line.strip()), "")
        is_alone = (starts.startswith("# ") or _is_most(body, original)) and not _is_known(outside, original)
        is_page = len(fences) == 1 and (bool(titled) or is_alone)
        return fences[0] if is_whole or is_page else None
    if not mine and (_is_known(outside, original) or any(line[:1] in " \t" for line in outside if line.strip())):
        return None
    if not mine and len(fences) > 1:
        mine = [fence for fence in fences if fence.language not in SHELLS]
    candidates = mine or fences
    if len(candidates) > 1:
        raise MalformedEdit(
            "there are several fenced texts, and it is not clear which of them is this file",
            value=path,
            limit=[fence.path for fence in fences],
            remedy="send the `path` of the file, as the reply names it, or the file's text alone",
        )
    return candidates[0]


def _is_known(lines: Sequence[str], original: str) -> bool:
    known = {line.strip() for line in original.split("\n")}
    return any(line.strip() in known for line in lines if line.strip())


def _is_most(lines: Sequence[str], original: str) -> bool:
    """Whether most lines of the original are among the lines."""
    known = {line.strip() for line in original.split("\n") if line.strip()}
    return 2 * len(known.intersection(line.strip() for line in lines)) > len(known)


def _judge_fence(fence: Fence, lines: Sequence[str], path: str | None, trust: Trust) -> None:
    if fence.closing == len(lines):
        trust.lower(Certainty.LIKELY, "the fence around the file has no end: it may be cut short")
    is_prose = (path or "").lower().endswith(PROSE_SUFFIXES)
    if is_prose and fence.path is None and fence.language not in PROSE_TITLES:
        trust.lower(Certainty.LIKELY, "a fence around the whole file was taken off")
    if fence.path is not None and fence.is_surely_named and not is_same_file(fence.path, path):
        trust.lower(Certainty.LIKELY, f"the edit names another file: {fence.path}")


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
