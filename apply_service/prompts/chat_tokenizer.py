"""A model's chat template over its tokenizer, with messages that can't escape their place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from apply_service.errors import ModelNotLoadable
from apply_service.prompts.tokenizer import ContentTokenizer


class Message(NamedTuple):
    role: str
    text: str


class ChatTokenizer:
    """Wraps a `transformers` fast tokenizer.  The template is rendered around placeholders and tokenised with control
    tokens on; the messages are tokenised with none and put in their places, so a template never sees (trims,
    interprets) them."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.content = ContentTokenizer(tokenizer.backend_tokenizer.to_str())
        if tokenizer.eos_token_id is None:
            raise ModelNotLoadable("the tokenizer has no end token", remedy="use an instruct model")
        self.end_id: int = tokenizer.eos_token_id

    def encode_chat(self, messages: Sequence[Message], *, prefill: str = "") -> list[int]:
        """Ids up to the place where the assistant's answer goes on after `prefill`.

        Raises:
            ModelNotLoadable: no chat template, or one that doesn't show every message exactly once.
        """
        ids: list[int] = []
        for piece in re.split(r"(\ue000\d+\ue001)", self._rendered(messages)):
            if piece.startswith("\ue000"):
                ids += self.content.encode(messages[int(piece[1:-1])].text).ids
            elif piece:
                ids += self._tokenizer.encode(piece, add_special_tokens=False)
        return ids + (self.content.encode(prefill).ids if prefill else [])

    def _rendered(self, messages: Sequence[Message]) -> str:
        if not self._tokenizer.chat_template:
            raise ModelNotLoadable("the model has no chat template", remedy="use an instruct model")
        places = [{"role": m.role, "content": f"\ue000{i}\ue001"} for i, m in enumerate(messages)]
        rendered = str(self._tokenizer.apply_chat_template(places, tokenize=False, add_generation_prompt=True))
        if any(rendered.count(place["content"]) != 1 for place in places):
            raise ModelNotLoadable(
                "the model's chat template does not show every message once", remedy="use another model"
            )
        return rendered
