"""The whole new file as an edit format.

Only taken for one where the request names the format: a snippet without markers looks the same, and overwriting a file
with one is what users of such tools complain of most.
"""

from __future__ import annotations

from collections.abc import Sequence

from apply_service.edits.envelope import (
    PAGE_TITLES,
    PROSE_TITLES,
    SHELLS,
    Fence,
    find_fences,
    is_prose,
    is_same_file,
    is_sentence,
)
from apply_service.edits.hunks import Trust
from apply_service.edits.markers import is_marker
from apply_service.errors import MalformedEdit
from apply_service.protocols import EditContext
from apply_service.types import Prediction

MIN_SHARE = 0.4
"""A result with a smaller share of the original's characters and lines may be cut short."""
MIN_LINES = 10
"""Shorter originals are not guarded."""


def predict(original: str, update: str, about: EditContext) -> Prediction:
    """The update as the file, out of its fence; the final newline stays as in the original."""
    lines = update.split("\n")
    trust = Trust()
    fence = file_fence(lines, about.path, original)
    start, end = (0, len(lines)) if fence is None else (fence.opening + 1, fence.closing)
    end -= end == len(lines) and lines[-1] == ""
    if fence is None:
        first = next((line for line in lines if line.strip()), "")
        if is_sentence(first) and first not in original and find_fences(lines):
            trust.doubt("its first line may be said about the file")
    else:
        if fence.closing == len(lines):
            trust.doubt("the fence around the file has no end: it may be cut short")
        if is_prose(about.path) and fence.path is None and fence.language not in PROSE_TITLES:
            trust.doubt("a fence around the whole file was taken off")
        if fence.path is not None and fence.is_surely_named and not is_same_file(fence.path, about.path):
            trust.doubt(f"the edit names another file: {fence.path}")
    old, new = original.split("\n"), lines[start:end]
    marker = next((text for text in new if is_marker(text) and text not in old), None)
    if marker is not None and original.strip():
        trust.guess(f"a line stands for code left out, so this is not the whole file: {marker.strip()[:80]!r}")
    n_new = sum(len(text) + 1 for text in new)
    if len(old) > MIN_LINES and n_new < MIN_SHARE * len(original) and len(new) < MIN_SHARE * len(old):
        trust.doubt(f"the result has {len(new)} lines, the original {len(old)}: it may be cut short")
    ends_open = fence is None and lines[-1] != ""
    has_newline = original.endswith("\n") if original.strip() else not ends_open
    return trust.prediction_of(original, "\n".join([*new, ""] if has_newline else new), lines)


def file_fence(lines: Sequence[str], path: str | None, original: str) -> Fence | None:
    """The fence whose inside is the file; None where the text itself is.  Raises MalformedEdit: several, and none is
    known to be this file."""
    fences = find_fences(lines)
    if not fences:
        return None
    shown = [at for at, line in enumerate(lines) if line.strip()]
    first, last = fences[0], fences[-1]
    wraps_all = first.opening == shown[0] and last.closing >= shown[-1]
    mine = [fence for fence in fences if fence.path is not None and is_same_file(fence.path, path)]
    inside = {at for fence in fences for at in range(fence.opening, fence.closing + 1)}
    outside = [line for at, line in enumerate(lines) if at not in inside]
    known = {line.strip() for line in original.split("\n")} - {""}
    is_beside_code = any(line.strip() in known for line in outside)
    if is_prose(path):
        if not mine:
            is_titled = first.language in PAGE_TITLES
            if wraps_all and is_titled:
                return Fence(first.opening, last.closing, first.title)
            body = [lines[at] for at in first.body if lines[at].strip()]
            is_most = 2 * len(known.intersection(line.strip() for line in body)) > len(known)
            is_page = is_most or (body != [] and body[0].startswith("# "))
            is_alone = len(fences) == 1 and (wraps_all or is_titled or (is_page and not is_beside_code))
            return first if is_alone else None
    elif wraps_all and len(fences) > 1 and not (first.path or any(fence.path or fence.title for fence in fences[1:])):
        # fences inside the file have cut the outer one short
        return Fence(first.opening, shown[-1] if last.opening == shown[-1] else last.closing, first.title)
    elif not mine:
        if is_beside_code or any(line[:1] in " \t" for line in outside if line.strip()):
            return None
        if len(fences) > 1:
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
