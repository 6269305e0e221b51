"""How far a run is: a bar with the time left on a terminal, a line a minute in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LINE_EVERY_S = 60.0

Advance = Callable[[str], None]
"""Called with the contestant's name for each sample that is done."""


@contextmanager
def progress(total: int, done: int, *, console: Console | None = None) -> Iterator[Advance]:
    """Shows progress on standard error while the block runs."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield Lines(console, total, done)
        return
    with Progress(*_columns(), console=console, transient=True) as bar:
        task = bar.add_task("run", total=total, completed=done)
        yield lambda name: bar.update(task, advance=1, description=name)


def _columns() -> tuple[TextColumn | BarColumn | MofNCompleteColumn | TimeElapsedColumn | TimeRemainingColumn, ...]:
    left = TextColumn("left")
    return (
        TextColumn("{task.description:<18}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        left,
        TimeRemainingColumn(),
    )


@dataclass(slots=True)
class Lines:
    """The time left is reckoned from this start of the run alone."""

    console: Console
    total: int
    done: int
    clock: Callable[[], float] = time.monotonic
    _n_new: int = 0
    _started: float = field(default=0.0, init=False)
    _told: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._started = self._told = self.clock()

    def __call__(self, _name: str) -> None:
        self._n_new += 1
        now = self.clock()
        if now - self._told < LINE_EVERY_S:
            return
        self._told = now
        n_done = self.done + self._n_new
        left_s = (now - self._started) / self._n_new * (self.total - n_done)
        self.console.print(f"{n_done} of {self.total}, about {left_s / 60:.0f} minutes left", highlight=False)
