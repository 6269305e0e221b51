"""The replay target's tokenizer: a byte-level BPE of 32,768 text tokens learnt from real code.

    python -m training.replay_tokenizer --data train_windows.jsonl.xz

Learnt once and shipped, so that speeds measured with the replay target are in tokens of a size that published models
have; it stands for no trained model.  Writes `tokenizer.json.xz` and its card; the same data gives the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tokenizers import Tokenizer

from apply_eval.replay import CONTROL_TOKENS, FILES, TOKENIZER_FILE
from training.corpus import Edit, read_edits, split_by_repository
from training.tokenizer import sample_texts, train_tokenizer

N_TEXT_TOKENS = 32_768
N_CHARS = 64_000_000
MAX_TOKEN_CHARS = 32
PIECES = r"[^\S\n]?[\p{L}\p{M}_]+|\p{N}{1,3}|[^\S\n]?[^\s\p{L}\p{M}\p{N}_]+\n?|\n+|[^\S\n]+(?=[^\S\n]\S)|[^\S\n]+"
"""Words and runs of punctuation take one blank before them, punctuation the line's end too; indentation but for its
last column is a piece of its own.  Numbers fall into groups of at most three digits."""

learn = partial(train_tokenizer, pieces=PIECES, controls=CONTROL_TOKENS, max_token_chars=MAX_TOKEN_CHARS)
"""The tokenizer of some texts with `n_text_tokens` text tokens."""


def pack(tokenizer: Tokenizer) -> bytes:
    """`tokenizer.json` without spaces, xz-compressed."""
    spec = json.loads(tokenizer.to_str())
    text = json.dumps(spec, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)


def card(packed: bytes, data: Path, edits: Sequence[Edit], n_chars: int, held_out: float) -> str:
    """The folder's README.  `held_out` is characters a token on repositories that were not learnt from."""
    repos = sorted({edit.repo for edit in edits})
    with data.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"""# The replay target's tokenizer and shapes

`{TOKENIZER_FILE}`: a byte-level BPE of {N_TEXT_TOKENS:,} text tokens and {len(CONTROL_TOKENS)} control tokens
({", ".join(f"`{name}`" for name in CONTROL_TOKENS)}), {len(packed):,} bytes:
`tokenizer.json` of the `tokenizers` library, xz-compressed. Trained by this project from scratch; no published
vocabulary went into it.

- **Made by** `python -m training.replay_tokenizer --data {data.name}` (SHA-256 of the data `{digest[:16]}...`);
  the same data gives the same file, byte for byte.
- **From** {n_chars:,} characters of real code (windows of files after a commit) of {len(repos)} public repositories
  under MIT, BSD and Apache-2.0 licences. The repositories of the evaluation sets are excluded by name
  (`training/corpus.py`).
- **Characters a token**: {held_out:.2f} on repositories it was not trained on.
- It is used by replay targets (`replay:SHAPE`) alone: they measure speed with random weights, and tokens should be
  about as long as those of the published models whose shapes are replayed. Tokens of different vocabularies are not
  comparable; results carry characters a second beside tokens a second.

`shapes.toml`: the shapes, with the sources of their figures.

## Sources
{", ".join(repos)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="windows (.jsonl.xz) or a git repository")
    parser.add_argument("--out", type=Path, default=FILES, help="folder for the tokenizer and its card")
    parser.add_argument("--chars", type=int, default=N_CHARS)
    arguments = parser.parse_args()
    train, held_out = split_by_repository(read_edits(arguments.data))
    texts = [text.removeprefix("\n") for text in sample_texts(train, n_chars=arguments.chars)]
    tokenizer = learn(texts, n_text_tokens=N_TEXT_TOKENS)
    packed = pack(tokenizer)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / TOKENIZER_FILE).write_bytes(packed)
    n_chars = sum(len(text) for text in texts)
    page = card(packed, arguments.data, train, n_chars, chars_a_token(tokenizer, [edit.after for edit in held_out]))
    (arguments.out / "README.md").write_text(page, encoding="utf-8")


def chars_a_token(tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """Mean characters a token over `texts`."""
    n_tokens = sum(len(encoding.ids) for encoding in tokenizer.encode_batch(list(texts), add_special_tokens=False))
    return sum(map(len, texts)) / max(1, n_tokens)


if __name__ == "__main__":
    main()
