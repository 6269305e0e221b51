"""Tokenizes text and chats for a GGUF file, through llama.cpp and without a tokenizer library.

File text never becomes a control token, because llama.cpp is not asked to look for them in it.  But llama.cpp still
makes one token of a spelling that the vocabulary marks as user-defined, such as `<tool_call>`.  So texts are cut inside
such spellings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from apply_service.errors import ModelNotLoadable
from apply_service.prompts.tokenizer import PROBE, Encoded, PromptMessage, place_messages


class Vocabulary(Protocol):
    """The parts of a model in llama.cpp that are needed here: see `engine.llama_cpp.model.LlamaModel`."""

    @property
    def end_id(self) -> int | None: ...
    @property
    def stop_ids(self) -> frozenset[int]: ...
    @property
    def chat_template(self) -> str | None: ...
    @property
    def names(self) -> dict[str, str]: ...
    @property
    def defined_by_user(self) -> list[bytes]: ...
    def encode(self, text: bytes, *, is_control: bool = False) -> list[int]: ...
    def piece(self, token: int) -> bytes: ...
    def pieces(self) -> Mapping[int, bytes]: ...


class LlamaContent:
    """Tokenizes text without control tokens.

    Raises ModelNotLoadable if the vocabulary does not give a text back unchanged and so would damage files.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        ids = self.encode(PROBE).ids
        if b"".join(map(vocabulary.piece, ids)) != PROBE.encode():
            raise ModelNotLoadable(
                "the model's tokenizer changes text that it encodes and decodes",
                remedy="use a model with a byte-level tokenizer",
            )

    @cached_property
    def _defined(self) -> re.Pattern[str] | None:
        """A pattern that matches each spelling that must be cut; None if there is no such spelling.  Spellings of
        blanks are left uncut."""
        texts = {piece.decode(errors="ignore") for piece in self._vocabulary.defined_by_user}
        spellings = sorted((text for text in texts if len(text) > 1 and text.strip()), key=len, reverse=True)
        return re.compile(f"(?={'|'.join(map(re.escape, spellings))})") if spellings else None

    def encode(self, text: str) -> Encoded:
        cuts = [] if self._defined is None else [found.start() + 1 for found in self._defined.finditer(text)]
        ids = list[int]()
        for start, stop in pairwise([0, *cuts, len(text)]):
            ids += self._vocabulary.encode(text[start:stop].encode())
        lengths = np.fromiter((len(self._vocabulary.piece(token)) for token in ids), np.int64, len(ids))
        ends = np.concatenate([[0], np.cumsum(lengths)])
        if not text.isascii():
            # An offset inside a character becomes the offset of that character.
            data = text.encode()
            begins = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
            n_begun = np.concatenate([[0], np.cumsum(begins)])
            places = np.minimum(ends, len(data))
            ends = n_begun[places] - np.concatenate([~begins, [False]])[places]
        return Encoded(ids, np.minimum(ends, len(text)))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids; control tokens have no text."""
        return b"".join(map(self._vocabulary.piece, ids)).decode(errors="replace")

    def pieces(self) -> Mapping[int, bytes]:
        """Return the bytes of every token that text can become."""
        added = set(self._vocabulary.defined_by_user)
        return {
            token: piece
            for token, piece in self._vocabulary.pieces().items()
            if piece not in added or not piece.strip() or len(piece) == 1
        }


class LlamaChat:
    """Works like `prompts.tokenizer.ChatTokenizer`, with the GGUF file's template, which runs in Jinja's sandbox."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.content = LlamaContent(vocabulary)
        self._vocabulary = vocabulary
        if vocabulary.end_id is None:
            raise ModelNotLoadable(
                "the model's tokenizer has no token for the end of an answer", remedy="use an instruct model"
            )
        self.end_id: int = vocabulary.end_id
        self.stop_ids = vocabulary.stop_ids | {self.end_id}

    def encode_chat(self, messages: Sequence[PromptMessage], *, prefill: str = "") -> list[int]:
        """Return ids of the chat up to the end of `prefill`, the beginning of the assistant's answer.

        Raises ModelNotLoadable if the chat template is missing, is unusable, or does not show each message exactly
        once.
        """
        return place_messages(
            messages,
            self._render,
            encode_control=lambda text: self._vocabulary.encode(text.encode(), is_control=True),
            encode=lambda text: self.content.encode(text).ids,
            prefill=prefill,
        )

    def _render(self, messages: Sequence[PromptMessage]) -> str:
        import jinja2

        try:
            return str(self._template.render(messages=messages, add_generation_prompt=True, **self._vocabulary.names))
        except jinja2.TemplateError as error:
            message, remedy = f"the model's chat template does not take this chat: {error}", "use another model"
            raise ModelNotLoadable(message, value=type(error).__name__, remedy=remedy) from error

    @cached_property
    def _template(self) -> Any:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        source = self._vocabulary.chat_template
        if not source:
            raise ModelNotLoadable("the model has no chat template", remedy="use an instruct model")

        def refuse(message: str) -> str:
            raise TemplateError(message)

        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
        environment.globals["raise_exception"] = refuse
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        try:
            return environment.from_string(source)
        except TemplateError as error:
            message, remedy = f"the model's chat template can't be read: {error}", "use another model"
            raise ModelNotLoadable(message, value=type(error).__name__, remedy=remedy) from error
