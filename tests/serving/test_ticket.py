"""A ticket's own times, and whose it is."""

import contextvars
import time

import pytest

from apply_service.errors import EngineFailure
from apply_service.serving.ticket import MOVES, State, Ticket
from apply_service.types import ApplyRequest

WHO = contextvars.ContextVar("who", default="nobody")


def make_ticket() -> Ticket:
    return Ticket(ApplyRequest(original=""), 10.0, lambda ticket: None)


def test_the_time_in_the_queue_ends_when_the_engine_takes_it_up() -> None:
    ticket = make_ticket()
    time.sleep(0.02)
    waited = ticket.queue_s
    assert waited >= 0.02
    ticket.move(State.WAITING)
    ticket.move(State.RUNNING)
    queued = ticket.queue_s
    time.sleep(0.02)
    assert ticket.queue_s == queued >= waited


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("to", State)
def test_it_moves_only_as_the_table_allows(state: State, to: State) -> None:
    ticket = make_ticket()
    ticket.state = state
    if to in MOVES[state]:
        ticket.move(to)
        assert ticket.state is to
        return
    with pytest.raises(EngineFailure, match=f"moved from {state.name} to {to.name}"):
        ticket.move(to)
    assert ticket.state is state


def test_every_state_leads_to_the_end() -> None:
    def ends(state: State) -> bool:
        return state is State.ENDED or all(map(ends, MOVES[state]))

    assert all(MOVES[state] for state in State if state is not State.ENDED)
    assert all(map(ends, State))


def test_its_end_is_the_end_of_waiting_for_it() -> None:
    ticket = make_ticket()
    assert 9 < ticket.deadline.remaining_s <= 10
    assert not ticket.deadline.is_over()
    ticket.cancel()
    assert ticket.deadline.is_cancelled


def test_it_remembers_who_submitted_it() -> None:
    def submit() -> Ticket:
        WHO.set("alice")
        return make_ticket()

    ticket = contextvars.copy_context().run(submit)
    assert WHO.get() == "nobody"
    assert ticket.context.run(WHO.get) == "alice"
