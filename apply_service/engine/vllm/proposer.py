"""The class that vLLM is told to use: `{"method": "custom_class", "model":
"apply_service.engine.vllm.proposer.MergedEditProposer", "num_speculative_tokens": 127}`.

vLLM makes one in every worker and calls `propose` after each step.  Nothing here may raise while requests run: a
request that can't be drafted for is decoded without drafts.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from apply_service.engine.vllm.edits import open_drafter
from apply_service.engine.vllm.requests import ByContent, ById, HookRow, Request, Tokens
from apply_service.engine.vllm.versions import check_draft_length, check_version
from apply_service.errors import ApplyError
from apply_service.prompts.by_model import open_prompt_formats
from apply_service.protocols import Drafter, PromptFormat

logger = logging.getLogger(__name__)

DRAFTED_SHARE = 2
"""One in so many tokens of a step's budget may be a drafted one: vLLM serves running requests in turn, and without a
bound the first would leave nothing to the last, and all of them nothing to a new prompt."""
HOOKED = "__apply_service_hook__"
"""Set on vLLM's method once the hook is on."""
KEPT_PER_SEQUENCE = 2
"""Without the hook nobody says when a request ends: so many are kept for each that may run."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Tokens: drafted for one request, in a request's prompt and output together, in a step of all requests; and how
    many requests may run at a time."""

    n_draft: int
    n_context: int
    n_step: int
    n_requests: int


class Proposer:
    """Drafts for the requests of one worker."""

    def __init__(self, formats: Sequence[PromptFormat], limits: Limits) -> None:
        """`formats` in which the model may be asked, its own first."""
        self._formats = formats
        self._limits = limits
        self._by_id = ById(self._open)
        self._by_content = ByContent(self._open, KEPT_PER_SEQUENCE * limits.n_requests)
        self._rows: Sequence[HookRow] | None = None

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: there is no draft model."""

    def tell(self, rows: Sequence[HookRow], running: Collection[str]) -> None:
        """What the next `propose` is about, row by row, and the ids of all requests that are not over (the hook's
        part)."""
        self._rows = rows
        self._by_id.keep(running)

    def propose(
        self,
        sampled_token_ids: Sequence[Sequence[int]],
        num_tokens_no_spec: npt.NDArray[np.int32],
        token_ids_cpu: npt.NDArray[np.int32],
        slot_mappings: Any = None,  # noqa: ARG002
    ) -> list[list[int]]:
        """A draft for each row.

        `sampled_token_ids[i]`: what the step added to row i (empty: its prompt is not read yet).  `token_ids_cpu[i,
        :num_tokens_no_spec[i]]`: all tokens of row i, these included.
        """
        rows, self._rows = self._rows, None
        n_writing = sum(bool(sampled) for sampled in sampled_token_ids)
        n_share = self._limits.n_step // DRAFTED_SHARE // max(1, n_writing)
        drafts: list[list[int]] = []
        for row, sampled in enumerate(sampled_token_ids):
            n_tokens = int(num_tokens_no_spec[row])
            limit = min(self._limits.n_draft, n_share, self._limits.n_context - n_tokens - 1)
            tokens, new = token_ids_cpu[row, :n_tokens], [int(token) for token in sampled]
            drafts.append(self._draft(None if rows is None else rows[row], tokens, new, limit) if new else [])
        return drafts

    def _draft(self, known: HookRow | None, tokens: Tokens, sampled: list[int], limit: int) -> list[int]:
        before = tokens[: len(tokens) - len(sampled)]
        request = self._by_content.take(before) if known is None else self._by_id.find(known, before)
        try:
            return request.draft(sampled, max(0, limit))
        except Exception:
            # Without its message: it may quote the user's code.
            logger.exception("apply_service: drafting failed; this request goes on without drafts", exc_info=False)
            request.drafter = None
            return []
        finally:
            if known is None:
                self._by_content.put(request, tokens)

    def _open(self, arguments: Mapping[str, Any] | None, prompt: Tokens) -> Request:
        return Request(prompt, self._open_drafter(arguments, prompt))

    def _open_drafter(self, arguments: Mapping[str, Any] | None, prompt: Tokens) -> Drafter | None:
        try:
            return open_drafter(self._formats, arguments, prompt.tolist())
        except ApplyError as error:
            logger.warning("apply_service: a request goes without drafts: %s (limit: %s)", error.message, error.limit)
        except Exception as error:
            logger.warning("apply_service: a request goes without drafts: %s", type(error).__name__)
        return None


class MergedEditProposer(Proposer):
    """The one that vLLM makes."""

    def __init__(self, vllm_config: Any) -> None:
        """
        Raises:
            MissingDependency: this vLLM is not known.
            SettingsError: `num_speculative_tokens` is past what it verifies.
            ModelNotLoadable: the model's tokenizer gives text back otherwise than it got it.
        """
        import vllm

        check_version(vllm.__version__)
        n_draft = vllm_config.speculative_config.num_speculative_tokens
        check_draft_length(n_draft)
        model, scheduler = vllm_config.model_config, vllm_config.scheduler_config
        warn_without_hook()
        limits = Limits(n_draft, model.max_model_len, scheduler.max_num_batched_tokens, scheduler.max_num_seqs)
        super().__init__(open_prompt_formats(model.tokenizer or model.model), limits)


def warn_without_hook() -> None:
    """Say so where vLLM did not load the entry point: what requests tell goes unread then, and only the speed would
    show it."""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    if not hasattr(GPUModelRunner.propose_draft_token_ids, HOOKED):
        logger.warning(
            "apply_service: vLLM did not load the plug-in `apply_service` of the group vllm.general_plugins, so that "
            "vllm_xargs are not read. Install the package in vLLM's environment; where VLLM_PLUGINS is set, it must be "
            "named there."
        )
