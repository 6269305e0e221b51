"""What a replay target is to write: known answers by prompt, and how they become the choice of a forward.

A forward over random weights is really computed; only the logit of the known next token is raised above all others
before the choice.  Token ids alone; who knows the answer (a benchmark, or the predicted merge) is the caller's matter.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import numpy as np
import torch

BOOST = 1e4
"""Added to the logit of the known next token: more than random weights can outweigh."""
MAX_SUGGESTIONS = 1024


class Answers:
    """Answers by prompt.  `expect`ed ones are kept until they are forgotten; of `suggest`ed ones, which only stand in
    where nobody knows better, the latest."""

    def __init__(self) -> None:
        self._expected: dict[bytes, Sequence[int]] = {}
        self._suggested: OrderedDict[bytes, Callable[[], Sequence[int]]] = OrderedDict()

    def expect(self, prompt_ids: Sequence[int], answer_ids: Sequence[int]) -> None:
        """The right output after a prompt, stop token included."""
        self._expected[_digest(prompt_ids)] = list(answer_ids)

    def forget(self, prompt_ids: Sequence[int]) -> None:
        """Expect nothing after a prompt any more."""
        self._expected.pop(_digest(prompt_ids), None)

    def suggest(self, prompt_ids: Sequence[int], make: Callable[[], Sequence[int]]) -> None:
        """An output to write after a prompt whose answer nobody knows; made where it is needed."""
        self._suggested[_digest(prompt_ids)] = make
        if len(self._suggested) > MAX_SUGGESTIONS:
            self._suggested.popitem(last=False)

    def find(self, prompt_ids: Sequence[int]) -> Sequence[int] | None:
        """The expected answer, else the suggested one, else None."""
        digest = _digest(prompt_ids)
        if digest in self._expected:
            return self._expected[digest]
        make = self._suggested.get(digest)
        return None if make is None else list(make())


def _digest(ids: Sequence[int]) -> bytes:
    return blake2b(np.asarray(ids, dtype=np.int64).tobytes(), digest_size=16).digest()


def known_ids(answer_ids: Sequence[int], first: int, n_rows: int) -> list[int]:
    """The known tokens `first..first + n_rows` of an answer; beyond its end its last one again."""
    known = list(answer_ids[first : first + n_rows])
    return known + [answer_ids[-1]] * (n_rows - len(known))


def raise_known(logits: torch.Tensor, rows: Sequence[int], ids: Sequence[int]) -> None:
    """Make token `ids[i]` the choice of row `rows[i]` of `logits` [n_rows, vocab], in place."""
    index = torch.tensor([list(rows), list(ids)], device=logits.device)
    logits[index[0], index[1]] += BOOST


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
        raise_known(logits.view(-1, logits.shape[-1]), range(len(ids)), ids)

    hooks = [
        model.register_forward_pre_hook(before, with_kwargs=True),
        model.register_forward_hook(after, with_kwargs=True),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
