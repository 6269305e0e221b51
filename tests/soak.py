"""Many random requests through the service, with everything going wrong that can: used by `test_soak.py`.

The pipeline's place is taken by a run over the real decoding that knows no text: a request names an ask of
`decoding.mixes` and a fault, its answer is the ids that it gives alone and undrafted.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import ExitStack, aclosing, closing
from dataclasses import dataclass, replace

from apply_service.deadline import Deadline
from apply_service.decoding.scheduler import NextPass
from apply_service.decoding.verify import Step
from apply_service.drafting.drafter import NoDraft
from apply_service.errors import ApplyError, NeedsMoreContext, Overloaded
from apply_service.protocols import Constraint, Draft, Drafter, Engine, TokenSet, Verification
from apply_service.service import Service
from apply_service.serving.ticket import Ticket
from apply_service.types import ApplyEvent, ApplyRequest, FinalEvent, TokenEvent
from tests.decoding.mixes import Ask, make_drafter, open_ask
from tests.doubles import make_result
from tests.fake_engine import FakeEngine

FAULTS = ("forward", "propose", "observe", "close", "panic", "masks", "crash", "refuse", "never fits")
LONG_S, MAX_S = 300.0, 600.0
CLIENT_TIMEOUT_S = 500.0
N_AT_ONCE = 6
"""Requests that a client sends at once, at most."""
BACK_OFF_S = 0.02
"""How long a client waits after it was refused."""


class Injected(Exception):
    """What a fault raises."""


class Panic(BaseException):
    """As native code raises it: no `Exception`."""


class Breaking(NoDraft):
    """Fails at one of its calls, the `n_good`th of them."""

    def __init__(self, place: str, n_good: int) -> None:
        self._place, self._n_left = place, n_good

    def propose(self, output_ids: Sequence[int], limit: int) -> Draft:
        self._count("propose", Injected())
        self._count("panic", Panic())
        return Draft([0] * min(limit, 2), 0.5)

    def observe(self, verification: Verification) -> None:
        self._count("observe", Injected())

    def close(self) -> None:
        self._count("close", Injected())

    def _count(self, place: str, error: BaseException) -> None:
        if place == self._place:
            self._n_left -= 1
            if self._n_left < 0:
                raise error


class BreakingMasks:
    """A constraint that fails after a few windows."""

    def __init__(self, n_good: int) -> None:
        self._n_left = n_good

    def masks(self, output_ids: Sequence[int], draft_ids: Sequence[int]) -> Sequence[TokenSet | None]:
        self._n_left -= 1
        if self._n_left < 0:
            raise Injected
        return [None] * (len(draft_ids) + 1)


@dataclass(frozen=True)
class Soak:
    """What the requests are about.  A prompt that begins with `faulty_id` makes the engine's forward fail."""

    engine: Engine
    asks: Sequence[Ask]
    answers: Sequence[Sequence[int]]
    stop_ids: frozenset[int]
    n_vocab: int
    faulty_id: int
    draft_engine: FakeEngine
    rng: random.Random
    """Of the engine thread."""

    def run(
        self, request: ApplyRequest, deadline: Deadline
    ) -> Generator[ApplyEvent | NextPass, tuple[Step | None, ...] | None, None]:
        """In the pipeline's place: one or more asks in shared passes; tokens of the first are streamed."""
        places = [int(place) for place in request.update.split()]
        if request.instruction == "refuse":
            raise NeedsMoreContext("no anchor")
        with ExitStack() as stack:
            decodings = [stack.enter_context(self._open(place, request.instruction, deadline)) for place in places]
            while active := tuple(one for one in decodings if one.finish_reason is None):
                steps = yield NextPass(active)
                assert steps is not None
                if steps[0] is not None and active[0] is decodings[0]:
                    yield TokenEvent(text_of(steps[0].ids))
            if request.instruction == "crash":
                raise Injected
        yield FinalEvent(make_result("|".join(text_of(one.output_ids) for one in decodings)))

    def _open(self, place: int, fault: str, deadline: Deadline):  # type: ignore[no-untyped-def]
        ask, n_good = self.asks[place], self.rng.randrange(4)
        if fault == "forward":
            padding = [0] * (3 - len(ask.prompt_ids))  # a shorter prompt could be answered before the fault
            ask = replace(ask, prompt_ids=(self.faulty_id, *padding, *ask.prompt_ids))
        if fault == "never fits":
            ask = replace(ask, limit=self.engine.context_limit)
        drafter: Drafter = make_drafter(ask, self.answers[place], self.rng, self.n_vocab, self.draft_engine)
        if fault in ("propose", "observe", "close", "panic"):
            drafter = Breaking(fault, 0 if fault == "close" else n_good)
        constraint: Constraint | None = BreakingMasks(n_good) if fault == "masks" else None
        decoding = open_ask(self.engine, ask, drafter, self.stop_ids)
        decoding.deadline = deadline
        decoding.constraint = constraint or decoding.constraint
        return decoding

    def request(self, rng: random.Random) -> ApplyRequest:
        """A random one: a third with a fault, a few whose deadline is soon."""
        places = rng.choices(range(len(self.asks)), k=rng.choice([1, 1, 1, 1, 2, 4]))
        return ApplyRequest(
            original="",
            update=" ".join(map(str, places)),
            instruction=rng.choice(FAULTS) if rng.random() < 0.3 else "",
            timeout_s=rng.choice([0.0001, 0.0001, 0.02]) if rng.random() < 0.15 else LONG_S,
        )

    def answer(self, request: ApplyRequest) -> str:
        """What the request gives where nothing goes wrong with it."""
        return "|".join(text_of(self.answers[int(place)]) for place in request.update.split())


def text_of(ids: Sequence[int]) -> str:
    return " ".join(map(str, ids))


class Clients:
    """Threads of clients, and what they saw."""

    def __init__(self, soak: Soak, service: Service, *, seed: int) -> None:
        self._soak = soak
        self._service = service
        self._seed = seed
        self._lock = threading.Lock()
        self.n_submitted = 0
        self.seen: Counter[str] = Counter()
        """How requests ended, in their clients' eyes."""
        self.wrong: list[str] = []
        """What must not be."""
        self.ended: Counter[int] = Counter()
        """Ends that the service tells of, by ticket."""
        self._tickets: list[Ticket] = []
        self._timers: list[threading.Timer] = []
        service.observe(self._note_end)

    def run(self, n_requests: int, *, n_threads: int) -> None:
        """Have at least that many requests accepted, and wait for the ends of all."""
        each = -(-n_requests // n_threads)
        threads = [threading.Thread(target=self._client, args=(i, each)) for i in range(n_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(CLIENT_TIMEOUT_S)
            assert not thread.is_alive(), "a client waits for an end that does not come"
        for timer in self._timers:
            timer.join()

    def check(self) -> None:
        """One end for each, whether its client waited for it or not."""
        assert not self.wrong, self.wrong[:5]
        with self._lock:
            assert len(self._tickets) == self.n_submitted
            n_ends = Counter(self.ended[id(ticket)] for ticket in self._tickets)
            assert n_ends == {1: self.n_submitted}, n_ends
            assert all(ticket.terminal is not None for ticket in self._tickets)

    def _note_end(self, ticket: Ticket) -> None:
        with self._lock:
            self.ended[id(ticket)] += 1

    def _client(self, number: int, n_requests: int) -> None:
        rng = random.Random(f"{self._seed} {number}")
        n_left = n_requests
        while n_left > 0:
            attempts = [self._submit(rng) for _ in range(rng.randint(1, N_AT_ONCE))]
            tickets = [ticket for ticket in attempts if ticket is not None]
            n_left -= len(tickets)
            for ticket in rng.sample(tickets, len(tickets)):
                self._see(ticket, rng)

    def _submit(self, rng: random.Random) -> Ticket | None:
        try:
            ticket = self._service.submit(self._soak.request(rng))
        except Overloaded:
            self._note("Overloaded")
            time.sleep(BACK_OFF_S)
            return None
        with self._lock:
            self.n_submitted += 1
            self._tickets.append(ticket)
        return ticket

    def _see(self, ticket: Ticket, rng: random.Random) -> None:
        """One client's way with one request: most wait, some leave early, some cancel, some never look."""
        temper = rng.choices(["stay", "async", "leave", "cancel", "cancel late", "forget"], [60, 10, 10, 10, 5, 5])[0]
        if temper == "forget":
            return self._note("forgotten")
        if temper == "cancel":
            ticket.cancel()
        if temper == "cancel late":
            timer = threading.Timer(rng.uniform(0, 0.05), ticket.cancel)
            timer.start()
            self._timers.append(timer)
        if temper == "leave":
            with closing(ticket.events()) as events:
                for _ in range(rng.randint(0, 3)):
                    try:
                        next(events, None)
                    except ApplyError:
                        break
            return self._note("left")
        read = _read_async if temper == "async" else _read
        end = read(ticket)
        self._note(type(end).__name__)
        return self._judge(ticket, end, temper in ("stay", "async"))

    def _judge(self, ticket: Ticket, end: FinalEvent | ApplyError, is_patient: bool) -> None:
        request = ticket.request
        if ticket.terminal is not end:
            self._complain(f"{request}: saw {end!r}, ended with {ticket.terminal!r}")
        if isinstance(end, FinalEvent):
            if end.result.merged_code != self._soak.answer(request) and request.instruction != "masks":
                self._complain(f"{request}: another answer: {end.result.merged_code!r}")
        elif is_patient and not request.instruction and request.timeout_s == LONG_S:
            self._complain(f"{request}: a neighbour's trouble: {end!r}")

    def _note(self, what: str) -> None:
        with self._lock:
            self.seen[what] += 1

    def _complain(self, what: str) -> None:
        with self._lock:
            self.wrong.append(what)


def _read(ticket: Ticket) -> FinalEvent | ApplyError:
    """All events, one terminal among them and last."""
    try:
        events = list(ticket.events())
    except ApplyError as error:
        return error
    assert sum(isinstance(event, FinalEvent) for event in events) == 1
    assert isinstance(events[-1], FinalEvent)
    return events[-1]


def _read_async(ticket: Ticket) -> FinalEvent | ApplyError:
    async def read() -> FinalEvent | ApplyError:
        last: ApplyEvent | None = None
        try:
            async with aclosing(ticket.events_async()) as events:
                async for event in events:
                    last = event
        except ApplyError as error:
            return error
        assert isinstance(last, FinalEvent)
        return last

    return asyncio.run(read())
