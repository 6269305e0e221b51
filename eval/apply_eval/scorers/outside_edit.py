"""What an answer got wrong away from the edit: lines that nobody asked it to touch."""

from __future__ import annotations

from apply_eval.line_diff import Hunk, diff_lines


def count_lines_outside(before: str, wanted: str, answer: str) -> int:
    """Lines in which the answer differs from the wanted text outside the wanted edit: lines lost or altered there, and
    lines added where the edit does not touch.  0 for a right answer, and for one that is wrong inside the edit alone.

    A text is its `split("\\n")`, so a lost final newline counts as one line.
    """
    wanted_lines = wanted.split("\n")
    edited = diff_lines(before.split("\n"), wanted_lines)
    return sum(_count_outside(hunk, edited) for hunk in diff_lines(wanted_lines, answer.split("\n")))


def _count_outside(difference: Hunk, edited: list[Hunk]) -> int:
    """`difference` counts lines of wanted in a0:a1; `edited` has them in b0:b1."""
    n_lost = sum(not any(e.b0 <= line < e.b1 for e in edited) for line in range(difference.a0, difference.a1))
    is_beside_edit = any(difference.a0 <= e.b1 and difference.a1 >= e.b0 for e in edited)
    n_added = difference.b1 - difference.b0
    return n_lost if is_beside_edit else max(n_lost, n_added)
