"""Lets a model on another server be the target: the server answers calls, and no passes run here.

`RemoteTarget` is the second kind of `Decider`; `apply_service.target` has the first.  Its generators block while the
server writes, so a service runs each of them in a separate thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from apply_service.deadline import Deadline
from apply_service.errors import UnsupportedParameter
from apply_service.prompts.chat import TAGS, TagStream
from apply_service.prompts.tokenizer import lines_of_tokens
from apply_service.protocols import EditJob
from apply_service.remote.client import RemoteClient
from apply_service.remote.messages import Reply, Token, encode_call
from apply_service.target import Candidate, Decided, Deciding, Scoring, TargetInfo, least_by_line
from apply_service.types import ApplyRequest, DecodeStats, TokenEvent

SPARE_CHARS = 1024
NEVER_REPORTED = frozenset({"passes", "prefill_passes", "rejections", "accepted_by_source"})
"""The counts that only an engine in this process has."""
REPORTED = {"prompt_tokens", "completion_tokens", "cached_prompt_tokens", "accepted_tokens", "drafted_tokens"}
"""The counts that a server may report."""


class RemoteTarget:
    """One model of one server."""

    def __init__(self, name: str, model: str, client: RemoteClient) -> None:
        """`name` is the target's name in requests; `model` is the model's name on the server."""
        self.info = TargetInfo(name)
        self.client = client
        self._model = model

    def decide(
        self, jobs: Sequence[EditJob], request: ApplyRequest, drafter: str, deadline: Deadline, *, is_streamed: bool
    ) -> Deciding:
        """Decide the jobs, as in `Decider`.  Also raises UnsupportedParameter if a remote model can't obey a field of
        the request."""
        del drafter  # the service's default, which does not concern a remote target
        endpoint = self.client.endpoint
        refuse_unsupported(request, endpoint.takes)
        decided = []
        with ExitStack() as stack:
            calls = []
            timeout_s = endpoint.total_timeout_s if deadline.timeout_s is None else deadline.remaining_s
            for job in jobs:
                limit_chars = None
                if job.update.strip() and not job.instruction.strip():  # an instruction may ask for anything
                    longest = max(len(job.original) + len(job.update), len(job.prediction.text))
                    limit_chars = len(TAGS.wrap("")) + longest + SPARE_CHARS
                body = encode_call(self._model, job, request, endpoint.takes)
                calls.append(self.client.call(body, limit_chars=limit_chars, timeout_s=timeout_s))
                stack.callback(calls[-1].reply.cancel)
                deadline.on_cancel(calls[-1].reply.cancel)
            for call in calls:
                stream = TagStream(TAGS)
                for text in call.texts:
                    merged = stream.push(text)
                    if merged and is_streamed:
                        yield TokenEvent(merged)
                merged = stream.finish()
                if merged and is_streamed:
                    yield TokenEvent(merged)
            deadline.check()
            for call in calls:
                reply = call.reply.result()
                merged = TAGS.unwrap(reply.text)
                decided.append(Decided(merged, line_logprobs(reply.text, reply.tokens), count(reply)))
        return decided

    def score(
        self,
        candidates: Sequence[Candidate],  # noqa: ARG002
        request: ApplyRequest,  # noqa: ARG002
        deadline: Deadline,  # noqa: ARG002
    ) -> Scoring:
        """Return None, because completion servers can't score a given text."""
        yield from ()
        return None


def refuse_unsupported(request: ApplyRequest, takes: frozenset[str]) -> None:
    """Raise UnsupportedParameter if a remote model, or this server, can't obey a field of the request."""
    if request.drafter is not None:
        message = "`drafter` can't be used with a remote model: its own server decides whether it drafts"
        raise UnsupportedParameter(message, value=request.drafter, remedy="leave `drafter` out")
    if request.constrain == "sources":
        message = "`constrain` can't be used with a remote model: what it writes can't be limited from here"
        remedy = "leave `constrain` out, or use a model that is loaded here"
        raise UnsupportedParameter(message, value="sources", limit="none", remedy=remedy)
    if request.seed and "seed" not in takes:
        message = "`seed` can't be used: remote_takes does not say that the remote server takes one"
        remedy = "leave `seed` out, or add `seed` to remote_takes"
        raise UnsupportedParameter(message, value=request.seed, remedy=remedy)


def line_logprobs(output: str, tokens: Sequence[Token]) -> dict[int, float]:
    """Return the lowest log probability of a token in each line of the merged text in `output`.  The result is empty if
    the reported tokens do not spell the output."""
    if b"".join(token.data for token in tokens) != output.encode("utf-8", "surrogatepass"):
        return {}
    head = output[: len(output) - len(output.lstrip())] + TAGS.opening
    head += TAGS.padding if output.startswith(TAGS.padding, len(head)) else ""
    places = lines_of_tokens(range(len(tokens)), lambda ids: tokens[ids[0]].data.decode("utf-8", "replace"), head=head)
    return least_by_line([token.logprob for token in tokens], places)


def count(reply: Reply) -> DecodeStats:
    """Return the counts that the server reported, and the names of the missing counts.  The whole time of the call
    counts as decoding, because the time spent on the network and the prompt can't be seen from here."""
    counts = {} if reply.usage is None else reply.usage.model_dump(exclude_none=True)
    rejected, accepted = counts.pop("rejected_tokens", None), counts.pop("accepted_tokens", None)
    if accepted is not None and rejected is not None:
        counts |= {"accepted_tokens": accepted, "drafted_tokens": accepted + rejected}
    return DecodeStats(decode_s=reply.seconds, unknown=NEVER_REPORTED | (REPORTED - counts.keys()), **counts)
