"""Whether an answer is wrong only in the wording of context that the edit quotes wrongly."""

from __future__ import annotations

from collections.abc import Iterable

from rapidfuzz.distance import Indel

from apply_eval.line_diff import diff_lines

MIN_SIMILARITY = 0.5
"""Of some lines and their misquotation, as texts without white space at the ends of lines."""


def is_same_but_misquotes(before: str, wanted: str, answer: str, update: str) -> bool:
    """Whether, blank lines aside, each stretch in which the answer differs from the wanted text is misquoted context:
    the wanted text has lines of the original there that the edit does not touch, and the answer has in their place
    lines of the update that resemble them (MIN_SIMILARITY) and that the wanted text has nowhere.

    Indentation does not count, as snippets may be moved.
    """
    wanted_lines, answer_lines = wanted.split("\n"), answer.split("\n")
    edited = diff_lines(before.split("\n"), wanted_lines)
    quoted = set(_dense(update.split("\n"))) - set(_dense(wanted_lines))
    for stretch in diff_lines(wanted_lines, answer_lines):
        is_edited = any(edit.b0 < stretch.a1 and stretch.a0 < edit.b1 for edit in edited)
        old, new = _dense(wanted_lines[stretch.a0 : stretch.a1]), _dense(answer_lines[stretch.b0 : stretch.b1])
        is_alike = Indel.normalized_similarity("\n".join(old), "\n".join(new)) >= MIN_SIMILARITY
        if is_edited or not is_alike or not quoted.issuperset(new):
            return False
    return True


def _dense(lines: Iterable[str]) -> list[str]:
    return [stripped for line in lines if (stripped := line.strip())]
