"""The class that vLLM is configured with: `{"method": "custom_class", "model":
"apply_service.engine.vllm.proposer.MergedEditProposer", "num_speculative_tokens": 127}`.

vLLM makes one in every worker and calls `propose` after each step.  Nothing here may raise while requests run: a
request that can't be drafted for is decoded without drafts.

A request's edit is the one that it sends (see `message`), or the one that its prompt shows: a prompt of one of our
formats holds the original and the update, but never the predicted merge.  With the hook a request is known by its id,
without it by all its tokens so far.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from apply_service.drafting.acceptance import worthwhile_length
from apply_service.drafting.copy import MergedEdit, OriginalSnippet
from apply_service.engine.vllm.message import FORMAT, decode_edit
from apply_service.errors import ApplyError, InvalidField, MissingDependency, SettingsError
from apply_service.prompts.by_model import open_prompt_formats
from apply_service.prompts.compact import Compact
from apply_service.prompts.tagged import TaggedOutput
from apply_service.protocols import DraftContext, Drafter, EditJob, PromptFormat
from apply_service.types import Certainty, LineOp, Prediction

logger = logging.getLogger(__name__)
Tokens = npt.NDArray[np.int32]

OLDEST, NEWEST = (0, 32), (0, 33)
"""Minor versions of vLLM.  It calls its interface for proposers experimental: a newer one has to be looked at first."""
MAX_DRAFT = 128
"""Tokens a request that vLLM's rejection sampler takes in a step; it asserts that in mid-flight, so we look before."""
DRAFTED_SHARE = 2
"""One in so many tokens of a step's budget may be a drafted one: vLLM serves running requests in turn, and without a
bound the first would leave nothing to the last, and all of them nothing to a new prompt."""
LEAST_CHANCE = 0.05
"""A draft ends where its next token is reached and accepted with less than this probability."""
KEPT_PER_SEQUENCE = 2
"""Without the hook the end of a request is not known: so many are kept for each that may run."""
TAIL = 64
"""Tokens by which a request without an id is looked up; all of them are then compared."""
HOOKED = "__apply_service_hook__"
"""Set on vLLM's method once the hook is on."""
MARKS = {
    "chat": ("<original>\n", "\n</original>\n<update>\n", "\n</update>"),
    "fastapply": ("\n\n<code>", "</code>\n\n<update>", "</update>\n\nProvide"),
    "osmosis": ("<code>\n", "\n</code>\n\n\n<edit>\n", "\n</edit>"),
}
"""By prompt format, the text of a prompt before the original, between it and the update, and after the
update; tests hold them to the prompts that the formats make."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Tokens: drafted for one request, in a request's prompt and output together, in a step of all requests; and how
    many requests may run at a time."""

    n_draft: int
    n_context: int
    n_step: int
    n_requests: int


class HookRow(NamedTuple):
    """What the hook knows of one row: its request, and the edit in it."""

    id: str
    n_prompt: int
    arguments: Mapping[str, Any] | None


@dataclass(slots=True)
class Request:
    """One request and its draft.  `drafter` None: it is no edit of ours, and nothing is drafted."""

    prompt: Tokens
    drafter: Drafter | None
    output_ids: list[int] = field(default_factory=list)

    def draft(self, sampled: list[int], limit: int) -> list[int]:
        """Take what the step wrote, and draft what comes next: at most `limit` tokens."""
        self.output_ids += sampled
        if self.drafter is None:
            return []
        self.drafter.observe(len(sampled) - 1, sampled[-1])
        draft = self.drafter.propose(self.output_ids, limit)
        n_tokens = worthwhile_length(draft.expected_acceptance, LEAST_CHANCE, min(limit, len(draft.token_ids)))
        return [int(token) for token in draft.token_ids[:n_tokens]]


class Proposer:
    """Drafts for the requests of one worker, which may be asked in `formats`, the model's own first."""

    def __init__(self, formats: Sequence[PromptFormat], limits: Limits) -> None:
        self._formats = formats
        self._limits = limits
        self._by_id: dict[str, Request] = {}
        self._by_content: OrderedDict[tuple[int, bytes], list[Request]] = OrderedDict()
        self._rows: Sequence[HookRow] | None = None

    @property
    def n_kept(self) -> int:
        """Requests that are remembered."""
        return len(self._by_id) + sum(map(len, self._by_content.values()))

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: there is no draft model."""

    def announce(self, rows: Sequence[HookRow], running: Collection[str]) -> None:
        """Hear from the hook what the next `propose` is about, row by row, and the ids of all requests that are not
        over."""
        self._rows = rows
        for gone in self._by_id.keys() - set(running):
            del self._by_id[gone]

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
        request = self._take(before) if known is None else self._find(known, before)
        try:
            return request.draft(sampled, max(0, limit))
        except Exception:
            # Without its message: it may quote the user's code.
            logger.exception("apply_service: drafting failed; this request goes on without drafts", exc_info=False)
            request.drafter = None
            return []
        finally:
            if known is None:
                self._put(request, tokens)

    def _find(self, row: HookRow, tokens: Tokens) -> Request:
        """The request of a row that had `tokens` before this step; a new one, or one that lost step, is begun anew from
        those tokens."""
        request = self._by_id.get(row.id)
        if request is None or len(request.prompt) + len(request.output_ids) != len(tokens):
            request = self._by_id[row.id] = self._open(row.arguments, tokens[: row.n_prompt].copy())
            request.output_ids += tokens[row.n_prompt :].tolist()
        return request

    def _take(self, tokens: Tokens) -> Request:
        """Take out the request without an id that had `tokens` before this step, or open one on them."""
        key = len(tokens), tokens[-TAIL:].tobytes()
        same = self._by_content.get(key, [])
        for at, request in enumerate(same):
            n_prompt = len(request.prompt)
            if np.array_equal(tokens[:n_prompt], request.prompt) and tokens[n_prompt:].tolist() == request.output_ids:
                del same[at]
                if not same:
                    del self._by_content[key]
                return request
        return self._open(None, tokens.copy())

    def _put(self, request: Request, tokens: Tokens) -> None:
        """Keep a request without an id that now has `tokens`; those used last are kept."""
        key = len(tokens), tokens[-TAIL:].tobytes()
        self._by_content.setdefault(key, []).append(request)
        self._by_content.move_to_end(key)
        while len(self._by_content) > KEPT_PER_SEQUENCE * self._limits.n_requests:
            self._by_content.popitem(last=False)

    def _open(self, arguments: Mapping[str, Any] | None, prompt: Tokens) -> Request:
        drafter = None
        try:
            drafter = open_drafter(self._formats, arguments, prompt.tolist())
        except ApplyError as error:
            logger.warning("apply_service: a request goes without drafts: %s (limit: %s)", error.message, error.limit)
        except Exception as error:
            logger.warning("apply_service: a request goes without drafts: %s", type(error).__name__)
        return Request(prompt, drafter)


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
        from vllm.v1.worker.gpu_model_runner import GPUModelRunner

        if not hasattr(GPUModelRunner.propose_draft_token_ids, HOOKED):  # only the speed would show it
            logger.warning(
                "apply_service: vLLM did not load the plug-in `apply_service` of the group vllm.general_plugins, so "
                "that vllm_xargs are not read. Install the package in vLLM's environment; where VLLM_PLUGINS is set, "
                "it must be named there."
            )
        model, scheduler = vllm_config.model_config, vllm_config.scheduler_config
        limits = Limits(n_draft, model.max_model_len, scheduler.max_num_batched_tokens, scheduler.max_num_seqs)
        super().__init__(open_prompt_formats(model.tokenizer or model.model), limits)


# -- what is drafted from ----------------------------------------------------------------------------------------------
def open_drafter(
    formats: Sequence[PromptFormat], arguments: Mapping[str, Any] | None, prompt_ids: list[int]
) -> Drafter | None:
    """The drafter of one request, which is asked in the first of `formats` unless it names or shows another; None where
    it is no edit, or not ours.

    Raises:
        InvalidField: it sends an edit that is no merge, or names another format than these.
    """
    sent = decode_edit(arguments)
    if sent is not None:
        known = {prompt_format.name: prompt_format for prompt_format in formats}
        if sent.format_name is not None and sent.format_name not in known:
            message = f"`vllm_xargs.{FORMAT}` names no format of this model"
            remedy = "name one of these, or leave it out"
            raise InvalidField(message, value=sent.format_name, limit=list(known), remedy=remedy)
        asked = formats[0] if sent.format_name is None else known[sent.format_name]
        return MergedEdit(DraftContext(asked.encode_sources(sent.job), prompt_ids))
    for prompt_format in formats:
        shown = read_prompt(prompt_format, prompt_ids)
        if shown is not None:
            return OriginalSnippet(DraftContext(prompt_format.encode_sources(shown), prompt_ids))
    return None


def read_prompt(prompt_format: PromptFormat, prompt_ids: list[int]) -> EditJob | None:
    """The edit in a prompt that one of our formats made, without a merge; None where there is none to be found.

    Text is cut at the format's own marks wherever they are first found: a file that holds such marks makes other
    drafts, nothing else.
    """
    if isinstance(prompt_format, Compact):
        vocabulary = prompt_format.vocabulary
        marks = (vocabulary.original, vocabulary.update, vocabulary.merge)  # no text spells one
        places = [prompt_ids.index(mark) for mark in marks if mark in prompt_ids]
        if len(places) < len(marks) or places != sorted(places):
            return None
        original, update = (
            vocabulary.decode_bytes(prompt_ids[a + 1 : b]).decode(errors="replace").removeprefix("\n")
            for a, b in pairwise(places)
        )
    elif isinstance(prompt_format, TaggedOutput) and prompt_format.name in MARKS:
        before, between, after = MARKS[prompt_format.name]
        _, found, rest = prompt_format.decode(prompt_ids).partition(before)
        original, divided, rest = rest.partition(between)
        update, ended, _ = rest.rpartition(after)
        if not (found and divided and ended):
            return None
    else:
        return None
    ops = tuple(LineOp("keep", i, None, line) for i, line in enumerate(original.split("\n")))
    return EditJob(original, update, "", None, None, Prediction(ops, tuple(update.split("\n")), Certainty.GUESS))


# -- which vLLM --------------------------------------------------------------------------------------------------------
# vLLM prints an error's message alone, so it holds limit and remedy as well.
def check_version(version: str) -> None:
    """
    Raises:
        MissingDependency: the plug-in does not know this vLLM.
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or not OLDEST <= (int(found[1]), int(found[2])) <= NEWEST:
        oldest, newest = (".".join(map(str, one)) for one in (OLDEST, NEWEST))
        limit = f"vLLM {oldest} to {newest}"
        remedy = f"install vLLM {newest}, or leave --speculative-config out"
        message = f"apply_service's plug-in knows {limit}, and this is {version or 'unknown'}: {remedy}"
        raise MissingDependency(message, value=version, limit=limit, remedy=remedy)


def check_draft_length(n_tokens: int) -> None:
    """
    Raises:
        SettingsError: `num_speculative_tokens` is past what vLLM verifies.
    """
    if not 1 <= n_tokens <= MAX_DRAFT:
        limit, remedy = f"1 to {MAX_DRAFT}", "correct it in --speculative-config; 127 is a good choice"
        message = f"num_speculative_tokens is out of range ({n_tokens}, allowed: {limit}): {remedy}"
        raise SettingsError(message, value=n_tokens, limit=limit, remedy=remedy)
