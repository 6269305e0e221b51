"""The one place where vLLM is changed: `GPUModelRunner.propose_draft_token_ids` first announces to our proposer
which request each row is, and what came with it in `vllm_xargs`.

vLLM calls `register` in all its processes (entry point of the group `vllm.general_plugins`), also in servers that do
not use our drafts: there it changes nothing but that one call, which goes straight through.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from apply_service.engine.vllm.proposer import HOOKED, HookRow, Proposer, check_version
from apply_service.errors import ApplyError

logger = logging.getLogger(__name__)


def register() -> None:
    """Hook vLLM's model runner, once.  An unknown vLLM is left alone: the proposer then refuses to start, and servers
    that do not use it are not disturbed."""
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
            rows, batch = [], self.input_batch
            for row, name in enumerate(batch.req_ids):
                sampling = self.requests[name].sampling_params
                arguments = None if sampling is None else sampling.extra_args
                rows.append(HookRow(name, int(batch.num_prompt_tokens[row]), arguments))
            drafter.announce(rows, self.requests.keys())
        return wrapped(self, *args, **kwargs)

    setattr(propose_draft_token_ids, HOOKED, True)
    runner_type.propose_draft_token_ids = propose_draft_token_ids
