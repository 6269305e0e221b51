"""The replay tokenizer can be made anew: same texts, same bytes, and it gives text back."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from apply_eval.replay import CONTROL_TOKENS, TOKENIZER_FILE, Replay
from training.corpus import Edit
from training.replay_tokenizer import card, chars_a_token, learn, pack

TEXTS = [f"def add_{i}(first, second):\n    total = first + second\n    return total * {i}\n" for i in range(40)]


def test_the_same_texts_give_the_same_file() -> None:
    assert pack(learn(TEXTS, n_text_tokens=320)) == pack(learn(TEXTS, n_text_tokens=320))


def test_it_has_the_tokens_asked_for_and_the_controls_after_them() -> None:
    replay = Replay(tokenizer_json=lzma.decompress(pack(learn(TEXTS, n_text_tokens=320))).decode())
    assert replay.n_vocab == 320 + len(CONTROL_TOKENS)
    assert replay.end_id == 320 + CONTROL_TOKENS.index("<|end|>")
    assert replay.decode_output(replay.encode_output("\tif x:\n\n  é = 1234")) == "\tif x:\n\n  é = 1234"


def test_indentation_but_for_one_column_is_a_piece_of_its_own() -> None:
    tokenizer = learn(TEXTS, n_text_tokens=320)
    assert tokenizer.encode("x;\n    return").tokens[-2:] == ["ĠĠĠ", "Ġreturn"]


def test_a_corpus_that_is_too_small_is_refused() -> None:
    with pytest.raises(SystemExit):
        learn(["a b"], n_text_tokens=1000)


def test_the_card_says_how_it_was_made(tmp_path: Path) -> None:
    data = tmp_path / "windows.jsonl"
    data.write_text("{}\n")
    edits = [Edit("owner/name", "a.py", "python", "a\n", "b\n")]
    page = card(b"x" * 1234, data, edits, 5678, chars_a_token(learn(TEXTS, n_text_tokens=320), TEXTS))
    assert TOKENIZER_FILE in page
    assert "1,234 bytes" in page
    assert "--data windows.jsonl" in page
    assert "5,678 characters" in page
    assert "owner/name" in page
