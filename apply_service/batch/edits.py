"""Several edits, each of a file of its own, answered by the service together.

All requests are submitted at once, so that they share the engine's passes; what the queue does not hold waits here for
the first ones to end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from apply_service.batch import BatchItem, BatchMode, BatchResult
from apply_service.errors import ApplyError, InvalidField, Overloaded
from apply_service.pipeline import refuse_unknown_checks
from apply_service.serving.ticket import Ticket
from apply_service.types import ApplyRequest, ApplyResult

Submit = Callable[[ApplyRequest], Ticket]


async def apply_edits(submit: Submit, requests: Sequence[ApplyRequest], mode: BatchMode) -> BatchResult:
    """Apply every edit.  Cancelling it cancels them.  Raises InvalidField: there is no edit, two are of the same file,
    or `on_verdict` names an unknown check; Overloaded, NotReady: the service takes none of them now."""
    refuse_same_paths([request.path for request in requests])
    for request in requests:
        refuse_unknown_checks(request.on_verdict)
    # What fails by `on_verdict` is judged here: an error raised by the pipeline would bring no verdicts.
    accepted = [{check: rule for check, rule in one.on_verdict.items() if rule != "fail"} for one in requests]
    asked = [replace(one, on_verdict=rules) for one, rules in zip(requests, accepted, strict=True)]
    items = [
        BatchItem.of(request.path, answer, request.on_verdict, is_new=request.original == "")
        for request, answer in zip(requests, await _answers(submit, asked), strict=True)
    ]
    return BatchResult.of(mode, items)


async def _answers(submit: Submit, requests: Sequence[ApplyRequest]) -> list[ApplyResult | ApplyError]:
    """The answers in the order of the requests.  Raises where the queue takes none of them at all."""
    answers: dict[int, ApplyResult | ApplyError] = {}
    waiting = deque(enumerate(requests))
    tickets: list[Ticket] = []
    running: set[asyncio.Task[None]] = set()

    async def collect(number: int, ticket: Ticket) -> None:
        try:
            answers[number] = await ticket.result_async()
        except ApplyError as error:
            answers[number] = error

    try:
        while waiting or running:
            while waiting:
                number, request = waiting[0]
                try:
                    tickets.append(submit(request))
                    running.add(asyncio.create_task(collect(number, tickets[-1])))
                except ApplyError as error:
                    if isinstance(error, Overloaded) and running:
                        break
                    if isinstance(error, Overloaded) and not answers:
                        raise
                    answers[number] = error
                waiting.popleft()
            if running:
                _, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for ticket in reversed(tickets):  # the last ones first: none is to start when the first one ends
            ticket.cancel()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return [answers[number] for number in range(len(requests))]


def share_deadline(requests: Sequence[ApplyRequest], default_s: float, longest_s: float) -> list[ApplyRequest]:
    """Edits that name no deadline, with one that lets them wait for each other: a deadline counts from admission, and
    all are admitted at once."""
    shared_s = min(longest_s, default_s * len(requests))
    return [replace(request, timeout_s=shared_s) if request.timeout_s is None else request for request in requests]


def refuse_same_paths(paths: Sequence[str | None]) -> None:
    """Raises InvalidField where there is no file, or one is named twice."""
    if not paths:
        raise InvalidField("The batch holds no edit.", value=[], limit="1 or more", remedy="Send `edits` or a `patch`.")
    named = [path for path in paths if path is not None]
    if len(set(named)) < len(named):
        path = next(path for i, path in enumerate(named) if path in named[:i])
        raise InvalidField("Two edits of the batch change the same file.", value=path, remedy="Combine them into one.")
