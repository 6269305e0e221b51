"""Known texts that are scored: nothing is chosen, and the target says what it thinks where it had a choice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from apply_service.decoding.known import KnownText, Scored
from apply_service.drafting.drafter import NoDraft
from apply_service.protocols import TokenSet
from apply_service.types import FinishReason
from tests.decoding.alone import decode_alone
from tests.fake_engine import FakeEngine, hashed, scripted

END = 7
N_VOCAB = 8
STOPS = frozenset({END})
TEXT = [1, 2, 3, 4, 5, 6, 1, 2, END]
PROMPT = list(range(6)) * 5


class Rules:
    """Allows even ids alone at even places, all elsewhere."""

    def masks(self, output_ids: Sequence[int], draft_ids: Sequence[int]) -> list[TokenSet | None]:
        places = range(len(output_ids), len(output_ids) + len(draft_ids) + 1)
        return [None if at % 2 else np.array([TEXT[at]] if at % 4 else [TEXT[at], END]) for at in places]

    def completed(self, output_ids: Sequence[int], draft_ids: Sequence[int], limit: int) -> Sequence[int]:
        raise AssertionError("nothing is drafted")


def known(ids: Sequence[int], rules: Rules | None = None) -> KnownText:
    text = KnownText.of(ids, rules, STOPS, None)
    assert text is not None
    return text


def score(engine: FakeEngine, texts: Sequence[KnownText], prompt: Sequence[int] = PROMPT) -> Scored:
    longest = max(len(text.ids) for text in texts)
    scored = Scored(engine, prompt, NoDraft(), longest, STOPS, texts=texts)
    for _ in decode_alone(scored):
        pass
    assert scored.finish_reason is FinishReason.STOP
    assert engine.n_open == 0
    return scored


@pytest.mark.parametrize("max_draft", [1, 3, 63])
@pytest.mark.parametrize("seed", range(5))
def test_the_texts_are_read_against_the_targets_will_with_its_own_log_probabilities(max_draft: int, seed: int) -> None:
    logits = hashed(N_VOCAB, seed=seed)
    readings = [TEXT, [1, 2, 3, 5, END], [1, 2, 3, 5, 5, 5, END], [1, 2, 3, 5, 5, 5, END], [END]]
    texts = [known(ids) for ids in readings]
    score(FakeEngine(logits, max_draft=max_draft), texts)
    for text in texts:
        assert text.logprobs is not None
        for at, (token, told) in enumerate(zip(text.ids, text.logprobs, strict=True)):
            row = logits([*PROMPT, *text.ids[:at]]).astype(np.float64)
            assert told == pytest.approx(row[token] - np.log(np.exp(row).sum()), abs=1e-4)


def test_prompt_and_text_take_one_pass() -> None:
    engine = FakeEngine(scripted(2, [3], N_VOCAB))
    scored = score(engine, [known(TEXT)])
    (stats,) = scored.counted
    assert (engine.n_steps, stats.passes, stats.prefill_passes) == (1, 1, 0)
    assert (stats.accepted_tokens, stats.completion_tokens) == (len(TEXT) - 1, len(TEXT))
    assert stats.prompt_tokens == len(PROMPT)


def test_a_reading_begins_where_it_differs_from_the_one_before() -> None:
    rows: list[int] = []

    class Counting(FakeEngine):
        def step(self, parts):  # type: ignore[no-untyped-def]
            rows.append(sum(part.n_rows for part in parts))
            return super().step(parts)

    scored = score(Counting(hashed(N_VOCAB)), [known(TEXT), known([*TEXT[:5], 3, 3, END])])
    assert rows == [len(PROMPT) + len(TEXT) - 1, 3]
    assert [stats.prompt_tokens for stats in scored.counted] == [len(PROMPT)] * 2
    assert [stats.cached_prompt_tokens for stats in scored.counted] == [0, len(PROMPT) - 1]


def test_the_rules_say_where_there_was_a_choice() -> None:
    text = known(TEXT, Rules())
    assert list(text.decisions) == [bool(at % 2 or at % 4 == 0) for at in range(len(TEXT))]
    assert text.is_allowed
    windows = []

    class Watching(FakeEngine):
        def step(self, parts):  # type: ignore[no-untyped-def]
            windows.extend(parts)
            return super().step(parts)

    score(Watching(hashed(N_VOCAB)), [text])
    assert [list(window.asked) for window in windows] == [list(text.decisions)]


def test_a_text_against_the_rules_is_noticed() -> None:
    class Forbidding(Rules):
        def masks(self, output_ids: Sequence[int], draft_ids: Sequence[int]) -> list[TokenSet | None]:
            return [None if len(output_ids) + i != 4 else np.array([0, 1]) for i in range(len(draft_ids) + 1)]

    assert not known(TEXT, Forbidding()).is_allowed


def test_a_text_ends_at_the_first_stop_or_where_the_format_finds_its_end() -> None:
    assert known([1, END, 2, END]).ids == [1, END]
    assert KnownText.of([1, 2], None, STOPS, None) is None
    text = KnownText.of([1, 2, 3, END], None, STOPS, lambda ids: list(ids).index(2))
    assert text is not None
    assert text.ids == [1, 2]


def test_an_engine_without_log_probabilities() -> None:
    class Silent(FakeEngine):
        def step(self, parts):  # type: ignore[no-untyped-def]
            from dataclasses import replace

            return [None if one is None else replace(one, logprobs=None) for one in super().step(parts)]

    texts = [known(TEXT), known([1, 2, END])]
    score(Silent(hashed(N_VOCAB)), texts)
    assert [text.logprobs for text in texts] == [None, None]
