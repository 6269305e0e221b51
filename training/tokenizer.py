"""The embedded model's tokenizer: a byte-level BPE in which a newline and the indentation after it are one token.

Learnt once, written as `tokenizer.json`; `apply_service.prompts.compact` reads it.  Control tokens are added
tokens with ids after the vocabulary's, so no file text can become one.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from apply_service.prompts.compact import control_tokens
from apply_service.prompts.tokenizer import PIECES
from training.corpus import Edit, read_edits, split_by_repository

N_TEXT_TOKENS = 4096


def train_tokenizer(
    texts: Iterable[str],
    *,
    n_text_tokens: int,
    pieces: str,
    controls: Iterable[str],
    max_token_chars: int | None = None,
) -> Tokenizer:
    """A tokenizer with exactly `n_text_tokens` text tokens, the 256 bytes among them, then the control tokens.  Text is
    first cut into matches of `pieces`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pieces), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=n_text_tokens,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        max_token_length=max_token_chars,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() != n_text_tokens:
        raise SystemExit(f"the corpus gives only {tokenizer.get_vocab_size()} tokens of {n_text_tokens}: use more text")
    tokenizer.add_tokens([AddedToken(name, special=True, normalized=False) for name in controls])
    return tokenizer


def sample_texts(edits: Iterable[Edit], *, n_chars: int, seed: int = 0) -> list[str]:
    """Windows as the model sees them: every text opens with a newline."""
    shuffled = list(edits)
    random.Random(seed).shuffle(shuffled)
    texts: list[str] = []
    for edit in shuffled:
        if n_chars <= 0:
            break
        texts.append("\n" + edit.after)
        n_chars -= len(edit.after)
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="windows (.jsonl.xz) or a git repository")
    parser.add_argument("--out", type=Path, required=True, help="where to write tokenizer.json")
    parser.add_argument("--chars", type=int, default=16_000_000)
    arguments = parser.parse_args()
    train, _ = split_by_repository(read_edits(arguments.data))
    texts = sample_texts(train, n_chars=arguments.chars)
    tokenizer = train_tokenizer(texts, n_text_tokens=N_TEXT_TOKENS, pieces=PIECES, controls=control_tokens())
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(arguments.out), pretty=False)


if __name__ == "__main__":
    main()
