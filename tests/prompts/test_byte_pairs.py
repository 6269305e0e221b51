"""The embedded model's own tokenizer gives the ids that `tokenizers` gives for the same file."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from apply_service.models import embedded_directory
from apply_service.prompts.tokenizer import BytePairs

SPEC = json.loads((embedded_directory() / "tokenizer.json").read_text(encoding="utf-8"))
OWN = BytePairs(SPEC["model"])
THEIRS = Tokenizer.from_str(json.dumps({**SPEC, "added_tokens": []}))


def theirs(text: str) -> list[int]:
    return list(THEIRS.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize(
    "path", [*Path(__file__).parent.glob("*.py"), Path(__file__).parents[2] / "README.md"], ids=lambda path: path.name
)
def test_files(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert OWN.encode(text) == theirs(text)
    for line in text.split("\n"):
        assert OWN.encode("\n" + line) == theirs("\n" + line)


@pytest.mark.parametrize("seed", range(20))
def test_random_texts(seed: int) -> None:
    """Letters, digits, marks, blanks and signs of many scripts, as far as this Python knows the characters."""
    rng = random.Random(seed)
    code = "abcXYZ_ef ret  \t\n\r\n(){}=.,0123456789+-\"'#\x0b\x0c\x1c\x85\xa0\u2003\u3000éß漢字ىمЖ٣²Ⅷ\u0301🙂\u200b"
    text = "".join(rng.choice(code) for _ in range(rng.choice([1, 5, 50, 3000])))
    text += "".join(chr(rng.choice([*range(1, 0x2FF), *range(0x370, 0xD7FF, 37)])) for _ in range(200))
    assert OWN.encode(text) == theirs(text), f"seed {seed}"


def test_control_tokens_are_plain_text() -> None:
    text = "<|end|> <|merge|>"
    assert max(OWN.encode(text)) < len(SPEC["model"]["vocab"])
    assert OWN.encode(text) == theirs(text)


def test_a_long_piece_takes_no_quadratic_time() -> None:
    """One piece of 100,000 characters, of equal and of random letters: seconds at most, and the same ids."""
    rng = random.Random(1)
    for text in ("a" * 100_000, "".join(rng.choice("abcdefgh") for _ in range(30_000))):
        assert OWN.encode(text) == theirs(text)


def test_every_character_of_the_basic_plane() -> None:
    """Between a letter and a digit, where its class decides how the text is cut.  A character that is new in one of the
    two libraries' versions of Unicode may differ."""
    differing = [code for code in range(1, 0xD800) if OWN.encode(f"a {chr(code)}1") != theirs(f"a {chr(code)}1")]
    assert len(differing) < 50, [hex(code) for code in differing]
