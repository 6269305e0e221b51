"""One edit made ready for a target.  Knows no merger and no parser, so that it runs where only the target's libraries
are installed; `bench_cases` and `bench_gpu_cases` make cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from apply_service.protocols import EditJob
from apply_service.types import ApplyRequest


@dataclass(frozen=True, slots=True)
class Case:
    """One edit as one target sees it.  `answer_ids` is what a replay target is to write; None: the target decides.
    `n_output` is the most tokens that the output may take."""

    id: str
    request: ApplyRequest
    job: EditJob
    after: str
    """The wanted text, with LF line ends."""
    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...] | None
    n_output: int
    reread: Callable[[], EditJob]
    """The edit read as for a new request: what a request pays before its prompt."""

    @property
    def n_needed(self) -> int:
        """Tokens of context that it takes."""
        return len(self.prompt_ids) + self.n_output
