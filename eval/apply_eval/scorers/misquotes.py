"""Whether an answer is wrong only in the wording of context that the edit quotes wrongly."""

from __future__ import annotations

from rapidfuzz.distance import Indel

from apply_eval.line_diff import Hunk, diff_lines

MIN_SIMILARITY = 0.5
"""Of a line and its misquotation, white space at both ends aside."""


def is_same_but_misquotes(before: str, wanted: str, answer: str, update: str) -> bool:
    """Whether each line in which the answer differs from the wanted text is a misquotation.

    That is: the wanted text has a line of the original there that the edit does not touch, and the answer has in its
    place a line of the update that resembles it (MIN_SIMILARITY) and that the wanted text has nowhere.  Indentation is
    no part of the comparison with the update, as snippets may be moved; blank lines count as lines.
    """
    before_lines, wanted_lines, answer_lines = before.split("\n"), wanted.split("\n"), answer.split("\n")
    edited = diff_lines(before_lines, wanted_lines)
    quoted = {line.strip() for line in update.split("\n")} - {line.strip() for line in wanted_lines}
    return all(
        _is_misquoted(hunk, edited, wanted_lines, answer_lines, quoted)
        for hunk in diff_lines(wanted_lines, answer_lines)
    )


def _is_misquoted(hunk: Hunk, edited: list[Hunk], wanted: list[str], answer: list[str], quoted: set[str]) -> bool:
    """`hunk` counts lines of wanted in a0:a1; `edited` has them in b0:b1."""
    if hunk.a1 - hunk.a0 != hunk.b1 - hunk.b0:
        return False
    if any(edit.b0 < hunk.a1 and hunk.a0 < edit.b1 for edit in edited):
        return False
    pairs = [
        (old.strip(), new.strip())
        for old, new in zip(wanted[hunk.a0 : hunk.a1], answer[hunk.b0 : hunk.b1], strict=True)
    ]
    return all(new in quoted and Indel.normalized_similarity(old, new) >= MIN_SIMILARITY for old, new in pairs)
