"""The automaton against a plain search for the longest suffix that occurred before."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from apply_service.drafting.lookup import SuffixAutomaton


def longest_repeat(text: list[int]) -> int:
    """The length of the longest suffix that also ends earlier, found by trying them all."""
    n = len(text)
    for length in range(n - 1, 0, -1):
        if any(text[i : i + length] == text[n - length :] for i in range(n - length)):
            return length
    return 0


@settings(max_examples=150, deadline=None, print_blob=True)
@given(st.lists(st.integers(0, 3), max_size=50), st.integers(1, 5))
def test_the_longest_repeat_is_found_after_every_token(text: list[int], step: int) -> None:
    automaton = SuffixAutomaton()
    for start in range(0, len(text), step):
        automaton.extend(text[start : start + step])
        seen = text[: start + step]
        length, end, n_next = automaton.longest_repeat()
        assert length == longest_repeat(seen)
        if length:
            ends = [i for i in range(length, len(seen)) if seen[i - length : i] == seen[-length:]]
            assert end in ends
            assert n_next == len({seen[end] for end in ends})


def test_the_copied_place_is_where_the_repeat_was_last_seen() -> None:
    automaton = SuffixAutomaton()
    automaton.extend([1, 2, 9, 1, 2, 8, 1, 2])
    assert automaton.longest_repeat()[:2] == (2, 5)


def test_states_grow_with_the_text_alone() -> None:
    """At most two states a token, whatever the text: a run, a period, and the text that makes the most of them."""
    for text in ([5] * 2000, [1, 2, 3] * 700, [1] + [2] * 1999):
        automaton = SuffixAutomaton()
        automaton.extend(text)
        assert automaton.n_tokens == len(text)
        assert len(automaton._next) <= 2 * len(text)
