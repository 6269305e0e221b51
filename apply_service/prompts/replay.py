"""The prompt format of the replay target: the original, then the update, in; the whole merged file out.

Shaped like the prompts of published apply models (rules, the file, the edit, the rewritten file), so that prompt and
output are as long as theirs.  Between the parts are control tokens, which no file text can become.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from apply_service.errors import ModelNotLoadable
from apply_service.prompts.tagged import UntaggedOutput, text_sources
from apply_service.prompts.tokenizer import ContentTokenizer
from apply_service.protocols import CompletingConstraint, DraftSources, EditJob

TOKENIZER_FILE = "tokenizer.json.xz"
CONTROL_TOKENS = ("<|rules|>", "<|original|>", "<|update|>", "<|instruction|>", "<|merged|>", "<|end|>")
RULES = """Write the file that results from the edit, whole and without remarks. Placeholder comments in the edit stand
for lines that stay as they are; copy those lines exactly. Keep order, indentation and comments."""

Suggest = Callable[[Sequence[int], Callable[[], Sequence[int]]], None]
"""Told of every prompt, and given the output that writes its predicted merge, made only where it is asked for."""


class Replay(UntaggedOutput):
    """`PromptFormat` over the replay tokenizer."""

    name = "replay"

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
        super().__init__(self._controls["<|end|>"])
        self.n_vocab = len(vocabulary)

    @classmethod
    def from_directory(cls, directory: Path, *, suggest: Suggest | None = None) -> Replay:
        """Raises ModelNotLoadable where the tokenizer can't be read."""
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

    def constraint(self, job: EditJob) -> CompletingConstraint | None:  # noqa: ARG002
        return None
