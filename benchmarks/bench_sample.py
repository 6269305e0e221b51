"""What one timed run of one contender is: the numbers that every figure of the benchmark is made from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Sample:
    """`batch` edits decoded together by `contender`; times in seconds, counts summed over the edits.

    `decode_s` runs from the moment when every prompt is prefilled to the last token; `n_tokens` are the tokens
    committed in it, `passes` the forwards, counted for each edit.  `first_token_s` is the median over the edits, from
    the request to its first token.
    `end_to_end_s` runs from the request to the merged text of the last edit.  Where `is_capped`, only the beginning of
    each output was decoded, and there is no end-to-end time.
    """

    target: str
    contender: str
    batch: int
    group: str
    """The ids of the edits, which pair the contenders' samples."""
    n_prompt_tokens: int
    n_tokens: int
    n_chars: int
    """Characters of the text that `n_tokens` stand for."""
    decode_s: float
    first_token_s: float
    passes: int
    drafted: int
    accepted: int
    rejections: int
    is_capped: bool
    end_to_end_s: float | None
    draft_s: float | None
    """Seconds spent on drafting, within `decode_s`; None where the peer does not tell."""
    n_exact: int
    """Edits whose text is the wanted one; of a capped output: its beginning."""

    @property
    def tok_s(self) -> float:
        """Tokens a second of decoding, over all edits of the batch."""
        return self.n_tokens / self.decode_s

    @property
    def decode_chars_s(self) -> float:
        return self.n_chars / self.decode_s

    @property
    def chars_s(self) -> float | None:
        """Characters a second end to end."""
        return None if self.end_to_end_s is None else self.n_chars / self.end_to_end_s

    def as_json(self) -> dict[str, Any]:
        return {name: round(value, 6) if isinstance(value, float) else value for name, value in asdict(self).items()}
