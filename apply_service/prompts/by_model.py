"""Finds the prompt format of a model by its folder or id alone, without reading weights."""

from __future__ import annotations

import json
from pathlib import Path

from apply_service.errors import ModelNotLoadable
from apply_service.models import RECORD_FILE
from apply_service.prompts.chat import AiXapply, BegunChat, Chat, FastApply, Osmosis
from apply_service.prompts.compact import Compact
from apply_service.prompts.llama_cpp import LlamaChat, Vocabulary
from apply_service.prompts.tokenizer import ChatTokenizer
from apply_service.protocols import PromptFormat

TAGGED = {made.name: made for made in (Chat, BegunChat, FastApply, Osmosis, AiXapply)}
"""To add a published model's format, write its class, add the class here, and add its name to `PUBLISHED`."""


def open_prompt_format(source: str) -> PromptFormat:
    """Return the format for a model in this process: the format that its folder's record names, or that belongs to its
    published name.

    Raises ModelNotLoadable if there is no such format, there is no tokenizer, or the tokenizer does not give text back
    unchanged.
    """
    return open_prompt_formats(source, begins=True)[0]


def open_prompt_formats(source: str, *, begins: bool = False) -> tuple[PromptFormat, ...]:
    """Return the model's own format first, then the other formats that work with its tokenizer.

    `begins`: the prompt may end with the beginning of the answer; a chat server's prompt can't.  Raises the errors of
    `open_prompt_format`.
    """
    own = name_prompt_format(source)
    if own == Compact.name:
        return (Compact.from_directory(Path(source)),)
    if own not in TAGGED:
        raise ModelNotLoadable(
            f"{own} is not a prompt format for this model",
            value=own,
            limit=[Compact.name, *TAGGED],
            remedy=f"name one of these as prompt_format in the folder's {RECORD_FILE}",
        )
    from transformers import AutoTokenizer

    try:
        chat = ChatTokenizer(AutoTokenizer.from_pretrained(source))
    except (OSError, ValueError) as error:
        message, remedy = f"the model's tokenizer can't be read: {error}", "put the model's tokenizer into its folder"
        raise ModelNotLoadable(message, value=source, remedy=remedy) from error
    if begins and own == Chat.name:
        own = BegunChat.name
    return (TAGGED[own](chat), *(made(chat) for name, made in TAGGED.items() if name != own))


def open_gguf_format(source: str, vocabulary: Vocabulary) -> PromptFormat:
    """Return the format for the name of a GGUF file, with the vocabulary that llama.cpp read from it.

    Raises ModelNotLoadable if the vocabulary does not give text back unchanged, or has no token that ends an answer.
    """
    own = infer_prompt_format(source)
    return TAGGED[BegunChat.name if own == Chat.name else own](LlamaChat(vocabulary))


def name_prompt_format(source: str) -> str:
    """Return the name of the format that the folder's record names, or that belongs to the published name.

    Raises ModelNotLoadable if the record can't be read.
    """
    try:
        record = json.loads((Path(source) / RECORD_FILE).read_text(encoding="utf-8"))
    except OSError:
        record = {}
    except ValueError as error:
        message = f"{RECORD_FILE} can't be read: {error}"
        raise ModelNotLoadable(message, value=str(Path(source)), remedy="correct the file, or remove it") from error
    is_named = isinstance(record, dict) and "prompt_format" in record
    return str(record["prompt_format"]) if is_named else infer_prompt_format(source)


def was_trained_to_merge(name: str) -> bool:
    """Tell whether models of this prompt format were trained to merge edits, and so follow no instruction."""
    return name == Compact.name or (name in TAGGED and not TAGGED[name].takes_instructions)


PUBLISHED = {"fastapply": "fastapply", "fast-apply": "fastapply", "osmosis-apply": "osmosis", "aixapply": "aixapply"}
"""The format that a model was trained on, by a part of its published name."""


def infer_prompt_format(source: str) -> str:
    """Return the format that belongs to a model's published name; `chat` for any other model."""
    path = Path(source)
    # The hub's cache names a model's folder after a commit; it names the folder two levels above after the model.
    name = (path.parent.parent if path.parent.name == "snapshots" else path).name.lower().replace("_", "-")
    return next((made for part, made in PUBLISHED.items() if part in name), "chat")
