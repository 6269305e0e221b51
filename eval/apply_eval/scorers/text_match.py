"""How an answer's text compares with the wanted one, without knowing any language."""

from __future__ import annotations

from rapidfuzz.distance import Indel, Levenshtein

from apply_eval.line_diff import diff_lines


def is_exact(wanted: str, answer: str) -> bool:
    """Whether the answer is right: equal to the last byte, line ends and final newline included."""
    return answer == wanted


def is_same_but_blanks(wanted: str, answer: str) -> bool:
    """Whether the texts are equal apart from white space at line ends (carriage returns included) and blank lines."""
    return _dense(wanted) == _dense(answer)


def _dense(text: str) -> list[str]:
    return [stripped for line in text.split("\n") if (stripped := line.rstrip())]


def edit_similarity(wanted: str, answer: str) -> float:
    """1 less the Levenshtein distance in characters, as a share of the longer text (1: equal, two empty texts too).

    Over whole files a lost edit still scores high; `change_similarity` looks at the edit alone.
    """
    return Levenshtein.normalized_similarity(wanted, answer)


def change_similarity(before: str, wanted: str, answer: str) -> float:
    """How much the answer's change is the wanted change: 1 where both remove and add the same lines, 0 where they share
    none.  Measured on the sequences of removed and added lines (longest common subsequence, as a share of both)."""
    return Indel.normalized_similarity(_change(before, wanted), _change(before, answer))


def _change(before: str, after: str) -> list[str]:
    old, new = before.split("\n"), after.split("\n")
    return [
        line
        for hunk in diff_lines(old, new)
        for line in (*(f"-{x}" for x in old[hunk.a0 : hunk.a1]), *(f"+{x}" for x in new[hunk.b0 : hunk.b1]))
    ]
