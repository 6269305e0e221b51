"""Gives our drafts to vLLM, which verifies them.  vLLM is configured with `{"method": "custom_class", "model":
"apply_service.engine.vllm.proposer.MergedEditProposer", "num_speculative_tokens": 127}`.

vLLM makes one proposer in every worker and calls `propose` after each step.  A request brings its edit in `vllm_xargs`
(see `message`).  `hook` tells the proposer which request each row belongs to.  Nothing here may raise an error while
requests run: if drafting fails, the request is decoded without drafts.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from apply_service.drafting.copy import MergedEdit
from apply_service.drafting.drafter import worthwhile_length
from apply_service.engine.vllm.message import FORMAT, decode_edit
from apply_service.errors import ApplyError, InvalidField, MissingDependency, SettingsError
from apply_service.prompts.by_model import open_prompt_formats
from apply_service.protocols import DraftContext, Drafter, PromptFormat, Verification

logger = logging.getLogger(__name__)
Tokens = npt.NDArray[np.int32]

OLDEST, NEWEST = (0, 32), (0, 33)
"""The supported versions of vLLM (major, minor).  vLLM calls its interface for proposers experimental, so a newer
version must be examined before it is supported."""
MAX_DRAFT = 128
"""vLLM's rejection sampler takes at most this many tokens of a request in a step.  With more, it fails while requests
run."""
DRAFTED_SHARE = 2
"""One in this many tokens of a step's budget may be drafted.  vLLM serves running requests in turn.  Without a bound,
the first request would leave nothing for the last, and all requests together nothing for a new prompt."""
LEAST_CHANCE = 0.05
"""A draft ends before the token that would be committed with less than this probability."""
HOOKED = "__apply_service_hook__"
"""The attribute that marks vLLM's method as hooked."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The maximum number of tokens in a draft (`n_draft`), in a request's prompt and output (`n_context`), and in one
    step over all requests (`n_step`)."""

    n_draft: int
    n_context: int
    n_step: int


class HookRow(NamedTuple):
    """The request of one row: its id, the length of its prompt, and its `vllm_xargs`."""

    id: str
    n_prompt: int
    arguments: Mapping[str, Any] | None


@dataclass(slots=True)
class Request:
    """One request and its drafter.  `drafter` is None if the request sent no usable edit."""

    drafter: Drafter | None
    n_prompt: int
    output_ids: list[int] = field(default_factory=list)


class Proposer:
    """Drafts for the requests of one worker.  `formats`: the prompt formats that requests may use, the model's own
    first."""

    def __init__(self, formats: Sequence[PromptFormat], limits: Limits) -> None:
        self._formats = {one.name: one for one in reversed(formats)}
        self._own = formats[0]
        self._limits = limits
        self.requests: dict[str, Request] = {}
        """The requests that are running, by id."""
        self._rows: Sequence[HookRow] = ()

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: there is no draft model."""

    def announce(self, rows: Sequence[HookRow], running: Collection[str]) -> None:
        """Take the rows of the next `propose` and the ids of all running requests.  The hook calls this."""
        self._rows = rows
        self.requests = {name: kept for name, kept in self.requests.items() if name in running}

    def propose(
        self,
        sampled_token_ids: Sequence[Sequence[int]],
        num_tokens_no_spec: npt.NDArray[np.int32],
        token_ids_cpu: npt.NDArray[np.int32],
        slot_mappings: Any = None,  # noqa: ARG002
    ) -> list[list[int]]:
        """Return a draft for each row; empty for rows that were not announced.

        `sampled_token_ids[i]`: the tokens that the step added to row i (empty if the row's prompt is not read yet).
        `token_ids_cpu[i, :num_tokens_no_spec[i]]`: all tokens of row i, including these.
        """
        rows, self._rows = self._rows, ()
        n_writing = sum(bool(sampled) for sampled in sampled_token_ids)
        n_share = self._limits.n_step // DRAFTED_SHARE // max(1, n_writing)
        drafts: list[list[int]] = [[] for _ in sampled_token_ids]
        for row, (known, sampled) in enumerate(zip(rows, sampled_token_ids, strict=False)):
            n_tokens = int(num_tokens_no_spec[row])
            limit = min(self._limits.n_draft, n_share, self._limits.n_context - n_tokens - 1)
            if sampled:
                tokens, new = token_ids_cpu[row, :n_tokens], [int(token) for token in sampled]
                drafts[row] = self._draft(known, tokens, new, max(0, limit))
        return drafts

    def _draft(self, row: HookRow, tokens: Tokens, sampled: list[int], limit: int) -> list[int]:
        """Return at most `limit` tokens that are expected after `tokens`.  The last of `tokens` are the `sampled`
        ones."""
        n_before = len(tokens) - len(sampled)
        request = self.requests.get(row.id)
        try:
            if request is None or request.n_prompt + len(request.output_ids) != n_before:  # new, or out of step
                request = self.requests[row.id] = Request(None, row.n_prompt, tokens[row.n_prompt : n_before].tolist())
                request.drafter = self._open_drafter(row.arguments)
            request.output_ids += sampled
            if request.drafter is None:
                return []
            request.drafter.observe(Verification(sampled, None))
            draft = request.drafter.propose(request.output_ids, limit)
            n_tokens = worthwhile_length(draft.expected_acceptance, LEAST_CHANCE, min(limit, len(draft.token_ids)))
            return [int(token) for token in draft.token_ids[:n_tokens]]
        except ApplyError as error:
            logger.warning(
                "apply_service: nothing is drafted for this request: %s (limit: %s)", error.message, error.limit
            )
        except Exception as error:  # the error's message is not logged, because it may quote the user's code
            logger.warning("apply_service: nothing more is drafted for this request: %s", type(error).__name__)
        self.requests[row.id] = Request(None, row.n_prompt, tokens[row.n_prompt :].tolist())
        return []

    def _open_drafter(self, arguments: Mapping[str, Any] | None) -> Drafter | None:
        """Return the drafter of one request; None if it sends no edit.  Raises InvalidField if the edit is malformed,
        or the request names an unknown prompt format."""
        sent = decode_edit(arguments)
        if sent is None:
            return None
        if (asked := self._own if sent.format_name is None else self._formats.get(sent.format_name)) is None:
            message = f"`vllm_xargs.{FORMAT}` names a prompt format that this model does not have"
            remedy = "use one of these, or leave it out"
            raise InvalidField(message, value=sent.format_name, limit=list(self._formats), remedy=remedy)
        return MergedEdit(DraftContext(asked.encode_sources(sent.job)))


class MergedEditProposer(Proposer):
    """The proposer that vLLM makes, from its configuration."""

    def __init__(self, vllm_config: Any) -> None:
        """Read the limits and the tokenizer's model from `vllm_config`.

        Raises:
            MissingDependency: this version of vLLM is not supported.
            SettingsError: vLLM can't verify `num_speculative_tokens` tokens.
            ModelNotLoadable: the model's tokenizer does not give back the text that it got.
        """
        import vllm

        check_version(vllm.__version__)
        n_draft = vllm_config.speculative_config.num_speculative_tokens
        check_draft_length(n_draft)
        from vllm.v1.worker.gpu_model_runner import GPUModelRunner

        if not hasattr(GPUModelRunner.propose_draft_token_ids, HOOKED):  # only the speed would show it
            logger.warning(
                "apply_service: vLLM did not load the plug-in `apply_service` of the group vllm.general_plugins, so "
                "nothing is drafted. Install the package in vLLM's environment; where VLLM_PLUGINS is set, name "
                "it there."
            )
        model, scheduler = vllm_config.model_config, vllm_config.scheduler_config
        limits = Limits(n_draft, model.max_model_len, scheduler.max_num_batched_tokens)
        super().__init__(open_prompt_formats(model.tokenizer or model.model), limits)


# -- the hook ----------------------------------------------------------------------------------------------------------
def register() -> None:
    """Hook vLLM's model runner, once.  vLLM calls this in all its processes, even in servers that do not use our
    drafts.  An unsupported vLLM is not hooked, and the proposer refuses to start there."""
    import vllm

    try:
        check_version(vllm.__version__)
    except ApplyError as error:
        logger.warning(error.message)
        return
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    hook(GPUModelRunner)


def hook(runner_type: Any) -> None:
    """Wrap `propose_draft_token_ids` of vLLM's runner class, so that it first tells our proposer which request each row
    belongs to.  Calls of other drafters pass unchanged.  A second `hook` does nothing."""
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


# -- which vLLM --------------------------------------------------------------------------------------------------------
# vLLM prints only the message of an error, so the message repeats limit and remedy.
def check_version(version: str) -> None:
    """Raise MissingDependency if the plug-in does not support this version of vLLM."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or not OLDEST <= (int(found[1]), int(found[2])) <= NEWEST:
        oldest, newest = (".".join(map(str, one)) for one in (OLDEST, NEWEST))
        limit = f"vLLM {oldest} to {newest}"
        remedy = f"install vLLM {newest}, or leave --speculative-config out"
        message = (
            f"apply_service's plug-in supports {limit}, but {version or 'an unknown version'} is installed: {remedy}"
        )
        raise MissingDependency(message, value=version, limit=limit, remedy=remedy)


def check_draft_length(n_tokens: int) -> None:
    """Raise SettingsError if vLLM can't verify `num_speculative_tokens` tokens."""
    if not 1 <= n_tokens <= MAX_DRAFT:
        limit, remedy = f"1 to {MAX_DRAFT}", "correct it in --speculative-config; 127 is a good choice"
        message = f"num_speculative_tokens is out of range ({n_tokens}, allowed: {limit}): {remedy}"
        raise SettingsError(message, value=n_tokens, limit=limit, remedy=remedy)
