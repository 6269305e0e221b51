"""Several edits, each of a file of its own, answered by the service together.

All requests are submitted at once, so that they share the engine's passes; what the queue does not hold waits here for
the first ones to end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Literal

from apply_service.batch.results import BatchItem, BatchMode, BatchResult, judge, settle
from apply_service.errors import ApplyError, InvalidField, Overloaded
from apply_service.ticket import Ticket
from apply_service.types import ApplyRequest, ApplyResult, FinalEvent
from apply_service.validation import refuse_unknown_checks

Submit = Callable[[ApplyRequest], Ticket]
Answer = ApplyResult | ApplyError


async def apply_edits(submit: Submit, requests: Sequence[ApplyRequest], mode: BatchMode) -> BatchResult:
    """Apply every edit.  Cancelling it cancels them.

    Raises:
        InvalidField: there is no edit, two are of the same file, or `on_verdict` names a check that there is none of.
        Overloaded, NotReady: the service takes none of them now.
    """
    refuse_same_paths([request.path for request in requests])
    for request in requests:
        refuse_unknown_checks(request.on_verdict)
    # What fails by `on_verdict` is judged here: an error raised by the pipeline would bring no verdicts.
    asked = [replace(request, on_verdict=_without_fail(request)) for request in requests]
    answers = await _Round(submit, asked).run()
    return settle(mode, [_item(request, answer) for request, answer in zip(requests, answers, strict=True)])


def share_deadline(requests: Sequence[ApplyRequest], default_s: float, longest_s: float) -> list[ApplyRequest]:
    """Edits that name no deadline, with one that lets them wait for each other: a deadline counts from admission, and
    all are admitted at once."""
    shared_s = min(longest_s, default_s * len(requests))
    return [replace(request, timeout_s=shared_s) if request.timeout_s is None else request for request in requests]


def refuse_same_paths(paths: Sequence[str | None]) -> None:
    """Raises InvalidField unless every file is changed once."""
    if not paths:
        raise InvalidField("The batch holds no edit.", value=[], limit="1 or more", remedy="Send `edits` or a `patch`.")
    seen: set[str] = set()
    for path in paths:
        if path is not None and path in seen:
            raise InvalidField(
                "Two edits of the batch are of the same file.", value=path, remedy="Put them into one edit."
            )
        seen |= {path} if path is not None else set()


def _without_fail(request: ApplyRequest) -> dict[str, Literal["warn", "fail"]]:
    return {check: rule for check, rule in request.on_verdict.items() if rule != "fail"}


def _item(request: ApplyRequest, answer: Answer) -> BatchItem:
    is_new = request.original == ""
    item = BatchItem(request.path, "create" if is_new else "modify", "ok", source=None if is_new else request.path)
    if isinstance(answer, ApplyError):
        return replace(item, status="failed", error=answer)
    done = replace(item, verdicts=answer.verdicts, result=replace(answer, diff=None), diff=answer.diff)
    return judge(done, request.on_verdict)


class _Round:
    """All requests on their way through the service."""

    def __init__(self, submit: Submit, requests: Sequence[ApplyRequest]) -> None:
        self._submit = submit
        self._waiting = deque(enumerate(requests))
        self._running: set[asyncio.Task[None]] = set()
        self._tickets: list[Ticket] = []
        self._answers: dict[int, Answer] = {}
        self._n_requests = len(requests)

    async def run(self) -> list[Answer]:
        """The answers in the order of the requests."""
        try:
            while self._waiting or self._running:
                self._admit()
                if self._running:
                    _, self._running = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for ticket in reversed(self._tickets):  # the last ones first: none is to start when the first one ends
                ticket.cancel()
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
        return [self._answers[number] for number in range(self._n_requests)]

    def _admit(self) -> None:
        """Submit what the queue holds.  Raises where it holds nothing of this batch at all."""
        while self._waiting:
            number, request = self._waiting[0]
            try:
                ticket = self._submit(request)
            except Overloaded as error:
                if self._running:
                    return
                if not self._answers:
                    raise
                self._answers[number] = error
            except ApplyError as error:
                self._answers[number] = error
            else:
                self._tickets.append(ticket)
                self._running.add(asyncio.create_task(self._collect(number, ticket)))
            self._waiting.popleft()

    async def _collect(self, number: int, ticket: Ticket) -> None:
        try:
            async with aclosing(ticket.events_async()) as events:
                async for event in events:
                    if isinstance(event, FinalEvent):
                        self._answers[number] = event.result
        except ApplyError as error:
            self._answers[number] = error
