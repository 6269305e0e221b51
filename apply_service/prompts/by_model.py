"""The prompt format of a model, from its folder or id alone: no weights are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from apply_service.errors import ModelNotLoadable
from apply_service.model_folder import RECORD_FILE
from apply_service.prompts.chat_tokenizer import ChatTokenizer
from apply_service.prompts.compact import Compact
from apply_service.protocols import PromptFormat
from apply_service.registry import PROMPT_FORMATS, resolve

COMPACT = "compact"
TAGGED = ("chat", "fastapply", "osmosis")


def open_prompt_format(source: str) -> PromptFormat:
    """The format that the model's folder names in its record, or that goes with its published name.

    Raises:
        ModelNotLoadable: there is no tokenizer, none that gives text back unchanged, or no such format.
    """
    return open_prompt_formats(source)[0]


def open_prompt_formats(source: str) -> tuple[PromptFormat, ...]:
    """The same, and then every other format in which a model with this tokenizer can be asked.  Raises alike."""
    own = _recorded(Path(source)) or infer_prompt_format(source)
    if own == COMPACT:
        return (Compact.from_directory(Path(source)),)
    if own not in TAGGED:
        limit = [COMPACT, *TAGGED]
        remedy = f"name one of these as prompt_format in the folder's {RECORD_FILE}"
        raise ModelNotLoadable(
            "no prompt format that reads a model's own tokenizer", value=own, limit=limit, remedy=remedy
        )
    from transformers import AutoTokenizer

    try:
        chat = ChatTokenizer(AutoTokenizer.from_pretrained(source))
    except (OSError, ValueError) as error:
        raise ModelNotLoadable(
            f"no tokenizer can be read: {error}", value=source, remedy="put the model's tokenizer into its folder"
        ) from error
    factories: dict[str, Callable[[Any], PromptFormat]] = {name: resolve(PROMPT_FORMATS, name) for name in TAGGED}
    return (factories.pop(own)(chat), *(factory(chat) for factory in factories.values()))


def infer_prompt_format(source: str) -> str:
    """By the published names of the models that have a format of their own; any other model is asked as a chat
    model."""
    name = Path(source).name.lower().replace("_", "-")
    if "fastapply" in name or "fast-apply" in name:
        return "fastapply"
    return "osmosis" if "osmosis-apply" in name else "chat"


def _recorded(directory: Path) -> str | None:
    try:
        record = json.loads((directory / RECORD_FILE).read_text(encoding="utf-8"))
    except OSError:
        return None
    except ValueError as error:
        raise ModelNotLoadable(
            f"{RECORD_FILE} can't be read: {error}", value=str(directory), remedy="mend or remove it"
        ) from error
    return str(record["prompt_format"]) if isinstance(record, dict) and "prompt_format" in record else None
