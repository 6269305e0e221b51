"""Contenders take turns on each group of edits, in an order that rotates: a machine that slows down slows all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from benchmarks.bench_case import Case
from benchmarks.bench_summary import PLAIN_CANDIDATES

WARM_UP_TOKENS = 24
T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Contender(Protocol[T_co]):
    """One way to decode edits."""

    @property
    def name(self) -> str: ...
    @property
    def max_batch(self) -> int | None:
        """The most edits that it takes together; None: any number."""
        ...

    def run(self, cases: Sequence[Case], group: str, *, cap: int | None) -> T_co: ...


def take(cases: Sequence[Case], size: int, *, start: int) -> list[Case]:
    """`size` cases from `start` on, in a circle: in a large batch some come twice."""
    return [cases[(start + i) % len(cases)] for i in range(size)]


def plain_cap(n_undrafted: int) -> Callable[[str], int | None]:
    """Undrafted contenders stop after so many tokens (0: never); others write whole outputs."""
    return lambda name: n_undrafted if name in PLAIN_CANDIDATES and n_undrafted else None


def take_turns(
    contenders: Sequence[Contender[T]],
    groups: Mapping[str, Sequence[Case]],
    *,
    cap: Callable[[str], int | None],
    is_done: Callable[[str, str], bool] = lambda _contender, _group: False,
) -> Iterator[T]:
    """Every contender on every group, in an order that rotates; each once unmeasured before, on the first group.  What
    `is_done(contender, group)` is left out; `cap(contender)` is where it stops each output (None: at its end)."""
    todo = {name: [c for c in contenders if not is_done(c.name, name)] for name in groups}
    for contender in contenders:
        if any(contender in left for left in todo.values()):
            contender.run(next(iter(groups.values())), "warm-up", cap=WARM_UP_TOKENS)
    for i, (name, cases) in enumerate(groups.items()):
        first = i % len(contenders)
        for contender in (*contenders[first:], *contenders[:first]):
            if contender in todo[name]:
                yield contender.run(cases, name, cap=cap(contender.name))
