"""The one place where vLLM is changed: `GPUModelRunner.propose_draft_token_ids` first tells our proposer which request
each row is, and what came with it in `vllm_xargs`.

vLLM calls `register` in all its processes (entry point of the group `vllm.general_plugins`), also in servers that do
not use our drafts: there it changes nothing but that one call, which goes straight through.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any

from apply_service.engine.vllm.proposer import HOOKED, Proposer
from apply_service.engine.vllm.requests import HookRow
from apply_service.engine.vllm.versions import check_version
from apply_service.errors import ApplyError

logger = logging.getLogger(__name__)


def register() -> None:
    """Hook vLLM's model runner, once.  A vLLM that is not known is left alone: the proposer then refuses to start, and
    whoever does not use it is not troubled."""
    import vllm

    try:
        check_version(vllm.__version__)
    except ApplyError as error:
        logger.warning(error.message)
        return
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    hook(GPUModelRunner)


def hook(runner_type: Any) -> None:
    """Wrap `propose_draft_token_ids` of vLLM's runner class; a second call does nothing."""
    wrapped: Callable[..., Any] = runner_type.propose_draft_token_ids
    if hasattr(wrapped, HOOKED):
        return

    @functools.wraps(wrapped)
    def propose_draft_token_ids(self: Any, *args: Any, **kwargs: Any) -> Any:
        drafter = getattr(self, "drafter", None)
        if isinstance(drafter, Proposer):
            drafter.tell(list(_rows(self)), self.requests.keys())
        return wrapped(self, *args, **kwargs)

    setattr(propose_draft_token_ids, HOOKED, True)
    runner_type.propose_draft_token_ids = propose_draft_token_ids


def _rows(runner: Any) -> Iterator[HookRow]:
    batch = runner.input_batch
    for row, name in enumerate(batch.req_ids):
        sampling = runner.requests[name].sampling_params
        yield HookRow(name, int(batch.num_prompt_tokens[row]), None if sampling is None else sampling.extra_args)
