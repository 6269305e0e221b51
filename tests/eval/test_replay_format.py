"""The replay format: byte-faithful, no file text becomes a control token, and the tokenizer is what its card says."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apply_eval.replay import CONTROL_TOKENS, FILES, TOKENIZER_FILE, Answers, Replay
from apply_service.errors import Truncated
from apply_service.protocols import EditJob
from apply_service.types import Certainty, LineOp, Prediction

REPLAY = Replay()
MAX_BYTES = 2_500_000
TEXTS = st.lists(st.one_of(st.text(st.characters(codec="utf-8"), max_size=8), st.sampled_from(CONTROL_TOKENS))).map(
    "".join
)


def job(original: str = "a = 1\nb = 2\n", update: str = "a = 3\n", merged: str = "a = 3\nb = 2\n") -> EditJob:
    ops = (
        *(LineOp("drop", i, None, line) for i, line in enumerate(original.split("\n"))),
        *(LineOp("take", None, None, line) for line in merged.split("\n")),
    )
    return EditJob(original, update, "", None, None, Prediction(ops, tuple(update.split("\n")), Certainty.LIKELY))


@given(TEXTS)
def test_output_round_trips_and_no_text_becomes_a_control_token(text: str) -> None:
    ids = REPLAY.encode_output(text)
    assert REPLAY.decode_output(ids) == text
    assert max(ids[:-1], default=0) < REPLAY.n_vocab - len(CONTROL_TOKENS)


def test_streamed_text_is_the_decoded_output() -> None:
    text = "s = 'é 日本 🙂'\n\tx\n"
    stream = REPLAY.open_stream()
    pieces = [stream.push([token]) for token in REPLAY.encode_output(text)]
    assert "".join(pieces) + stream.finish() == text


def test_output_without_its_end_is_refused() -> None:
    with pytest.raises(Truncated):
        REPLAY.decode_output(REPLAY.encode_output("a\n")[:-1])


def test_prompt_holds_the_file_and_then_the_edit_whole() -> None:
    ids = REPLAY.encode_prompt(job())
    text = REPLAY._content.decode(ids)
    assert text.index("a = 1\nb = 2\n") < text.index("a = 3\n")
    controls = REPLAY.n_vocab - len(CONTROL_TOKENS)
    assert [token - controls for token in ids if token >= controls] == [0, 1, 2, 4]


def test_the_predicted_source_is_the_output_that_writes_it() -> None:
    sources = REPLAY.encode_sources(job())
    assert sources.predicted.ids.tolist() == REPLAY.encode_output("a = 3\nb = 2\n")
    assert sources.decode(sources.original.ids[:-1].tolist()) == "a = 1\nb = 2\n"


def test_a_prompt_suggests_its_predicted_merge() -> None:
    answers = Answers()
    replay = Replay(answers)
    assert answers.find(replay.encode_prompt(job())) == replay.encode_output("a = 3\nb = 2\n")


def test_the_shipped_tokenizer_is_large_enough_in_a_small_file() -> None:
    n_bytes = (FILES / TOKENIZER_FILE).stat().st_size
    card = (FILES / "README.md").read_text(encoding="utf-8")
    assert REPLAY.n_vocab - len(CONTROL_TOKENS) == 32_768
    assert n_bytes <= MAX_BYTES
    assert re.search(r"([\d,]+) bytes", card)[1].replace(",", "") == str(n_bytes)  # type: ignore[index]
