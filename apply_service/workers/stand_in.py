"""The target as a worker sees it: what it says of itself is known here, everything else is asked of the real one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, cast

from apply_service.decider import Decider
from apply_service.types import ApplyRequest
from apply_service.workers.messages import Ask, Known, Question

FACTS = tuple(name for name, member in vars(Decider).items() if isinstance(member, property))
"""What every target says of itself."""


def facts_of(target: Decider) -> dict[str, Any]:
    """What the stand-in has to know."""
    return {name: getattr(target, name) for name in FACTS}


def never_cancelled() -> bool:
    """What a worker asks: one whose request is cancelled is killed."""
    return False


class StandIn:
    """A `Decider` whose methods run where the model is.  Their generators yield nothing here: what they need, and the
    text they write, goes from there to whoever drives the request."""

    def __init__(self, model: str, request: ApplyRequest, ask: Ask) -> None:
        """Raises whatever loading the model raises."""
        self._model = model
        self._request = request
        self._ask = ask
        self._facts: Mapping[str, Any] = self._answer(None, (), {})

    def __getattr__(self, name: str) -> Any:
        if name in self._facts:
            return self._facts[name]
        if not hasattr(Decider, name):
            raise AttributeError(name)
        return self._caller(name)

    def _caller(self, method: str) -> Callable[..., Any]:
        return lambda *arguments, **options: self._answer(method, arguments, options)

    def _answer(self, method: str | None, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        named = {key: self._named(value) for key, value in options.items()}
        reply = self._ask(Question(self._model, method, tuple(map(self._named, arguments)), named))
        if reply.error is not None:
            raise reply.error
        return _returned(reply.value) if reply.is_generator else reply.value

    def _named(self, argument: Any) -> Any:
        if argument is self._request:
            return Known.REQUEST
        return Known.CANCELLED if argument is never_cancelled else argument


def _returned(value: Any) -> Generator[Any, Any, Any]:
    """A generator that has nothing to yield.  Returns `value`."""
    yield from ()
    return value


def open_stand_in(model: str, request: ApplyRequest, ask: Ask) -> Decider:
    """A stand-in for this model.  Raises whatever loading the model raises."""
    return cast(Decider, StandIn(model, request, ask))
