"""The prompt format of the replay target: the original, then the update, in; the whole merged file out.

Shaped like the prompts of published apply models (rules, the file, the edit, the rewritten file), so that prompt and
output are as long as theirs.  Between the parts are control tokens, which no file text can become.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from apply_service.errors import ModelNotLoadable, Truncated
from apply_service.prompts.tokenizer import ContentTokenizer, IncrementalDecoder, lines_of_tokens, text_sources
from apply_service.protocols import Constraint, DraftSources, EditJob, StopFinder, TextStream

TOKENIZER_FILE = "tokenizer.json.xz"
CONTROL_TOKENS = ("<|rules|>", "<|original|>", "<|update|>", "<|instruction|>", "<|merged|>", "<|end|>")
RULES = """Write the file that results from the edit, whole and without remarks. Placeholder comments in the edit stand
for lines that stay as they are; copy those lines exactly. Keep order, indentation and comments."""

Suggest = Callable[[Sequence[int], Callable[[], Sequence[int]]], None]
"""Called with each prompt and a function that makes the output for its predicted merge."""


class Replay:
    """`PromptFormat` over the replay tokenizer."""

    name = "replay"
    takes_instructions = False
    constrains_by_default = False

    def __init__(self, tokenizer_json: str, *, suggest: Suggest | None = None) -> None:
        self._suggest = suggest
        self._content = ContentTokenizer(tokenizer_json)
        full = Tokenizer.from_str(tokenizer_json)
        vocabulary: dict[str, int] = full.get_vocab()
        if missing := set(CONTROL_TOKENS) - vocabulary.keys():
            raise ModelNotLoadable(
                "the tokenizer lacks control tokens of the format",
                value=sorted(missing),
                remedy="reinstall the package",
            )
        self._controls = {name: vocabulary[name] for name in CONTROL_TOKENS}
        self.end_id = self._controls["<|end|>"]
        self.stop_ids = frozenset({self.end_id})
        self.n_vocab = len(vocabulary)

    @classmethod
    def from_directory(cls, directory: Path, *, suggest: Suggest | None = None) -> Replay:
        """Raises ModelNotLoadable: the tokenizer can't be read."""
        path = directory / TOKENIZER_FILE
        try:
            text = lzma.decompress(path.read_bytes()).decode()
        except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
            raise ModelNotLoadable("the replay tokenizer can't be read", value=str(path), remedy="reinstall") from error
        return cls(text, suggest=suggest)

    def encode_prompt(self, job: EditJob) -> list[int]:
        parts = {"<|rules|>": RULES, "<|original|>": job.original, "<|update|>": job.update}
        if job.instruction:
            parts["<|instruction|>"] = job.instruction
        ids: list[int] = []
        for control, text in parts.items():
            ids += [self._controls[control], *self._content.encode(text).ids]
        ids.append(self._controls["<|merged|>"])
        if self._suggest is not None:
            self._suggest(ids, lambda: self.encode_output(job.prediction.text))
        return ids

    def encode_output(self, text: str) -> list[int]:
        """The output that writes `text` (LF line ends), end token included: the known answer of a replay."""
        return [*self._content.encode(text).ids, self.end_id]

    def encode_sources(self, job: EditJob) -> DraftSources:
        return text_sources(job, self._content, before="", after="", end_id=self.end_id)

    def decode(self, ids: Sequence[int]) -> str:
        return self._content.decode([token for token in ids if token != self.end_id])

    def decode_output(self, ids: Sequence[int]) -> str:
        if not ids or ids[-1] != self.end_id:
            raise Truncated("the output lacks its end token", remedy="allow more tokens")
        return self.decode(ids)

    def open_stream(self) -> TextStream:
        return IncrementalDecoder(self.decode)

    def lines_of(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        return lines_of_tokens(ids, self.decode)

    def stop_finder(self, job: EditJob) -> StopFinder | None:  # noqa: ARG002
        return None

    def constraint(self, job: EditJob) -> Constraint | None:  # noqa: ARG002
        return None
