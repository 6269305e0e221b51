"""Known answers in the library's own decoding: the peers of a replay target write what it writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from apply_service.engine.passes import raise_known
from apply_service.engine.replay import known_ids


@contextmanager
def answered(model: Any, prompt_length: int, answers: Sequence[Sequence[int]]) -> Iterator[None]:
    """While it lasts, calls of `model` by its own library choose the known answers: one for each sequence of the batch,
    after prompts of `prompt_length` tokens (padded on the left).

    Within the forward, where it costs next to nothing: a logits processor would make assisted generation loop over the
    drafted tokens in Python.
    """
    n_past = 0

    def before(_module: Any, _args: Any, inputs: dict[str, Any]) -> None:
        nonlocal n_past
        cache = inputs.get("past_key_values")
        n_past = 0 if cache is None else int(cache.get_seq_length())

    def after(_module: Any, _args: Any, inputs: dict[str, Any], output: Any) -> None:
        logits = output.logits
        n_rows = logits.shape[1]
        first = n_past + inputs["input_ids"].shape[1] - n_rows + 1 - prompt_length
        ids = [token for answer in answers for token in known_ids(answer, max(0, first), n_rows)]
        raise_known(logits.view(-1, logits.shape[-1]), torch.tensor(ids, device=logits.device))

    hooks = [
        model.register_forward_pre_hook(before, with_kwargs=True),
        model.register_forward_hook(after, with_kwargs=True),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
