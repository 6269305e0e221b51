"""What the strategies ask of a target, whatever it is: weights in this process (`target`), or a server elsewhere
(`remote`).

A front end or an evaluation that needs the engine behind a target asks for the one in this process: `in_process`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from apply_service.calibration import Calibration
from apply_service.errors import UnsupportedParameter
from apply_service.protocols import EditJob
from apply_service.target import Deciding, Reading, Scoring, Target
from apply_service.types import ApplyRequest


class Decider(Protocol):
    """A target ready to decide.  What it can't tell of itself is None."""

    @property
    def name(self) -> str: ...

    @property
    def takes_instructions(self) -> bool:
        """Whether it can follow an instruction that comes without an update."""
        ...

    @property
    def context_limit(self) -> int | None:
        """Tokens of prompt and output together."""
        ...

    @property
    def determinism(self) -> Literal["bitwise", "tolerant"] | None:
        """Whether drafts can change a bit of what it writes."""
        ...

    @property
    def undrafted(self) -> str:
        """Why it takes no drafts of ours although it runs here; empty otherwise."""
        ...

    @property
    def is_replay(self) -> bool:
        """Whether it writes what is known beforehand."""
        ...

    @property
    def calibration(self) -> Calibration | None:
        """How often it is right when it is how sure; None: nobody counted."""
        ...

    @property
    def windows(self) -> str:
        """When it decides the touched regions of a file alone, where nobody says otherwise: past its `context`, or
        `always` where that saves half of a long file."""
        ...

    def drafter_name(self, wanted: str) -> str | None:
        """The drafter that runs where `wanted` was asked for; None where drafting is not ours."""
        ...

    def fits(self, job: EditJob, request: ApplyRequest) -> bool:
        """Whether the job is not known to exceed the context."""
        ...

    def decide(
        self,
        jobs: Sequence[EditJob],
        request: ApplyRequest,
        drafter: str,
        cancelled: Callable[[], bool],
        *,
        is_streamed: bool,
    ) -> Deciding:
        """Let the target write every job, together.  `is_streamed`: yield the text as it comes; of a single job only.

        Raises:
            ContextLimitExceeded: a job is too long.
            Truncated: an output did not end by itself, or lacks what its format demands.
            ApplyError: the target gave no answer.
        """
        ...

    def score(
        self, readings: Sequence[Reading], request: ApplyRequest, cancelled: Callable[[], bool]
    ) -> Scoring | None:
        """What the target thinks of texts of these jobs, without writing any; None where it can't say.

        Raises:
            ContextLimitExceeded: a job is too long.
            ApplyError: the target gave no answer.
        """
        ...


def in_process(decider: Decider) -> Target:
    """The target, where its engine runs in this process.

    Raises:
        UnsupportedParameter: it does not.
    """
    if isinstance(decider, Target):
        return decider
    raise UnsupportedParameter(
        "the model runs elsewhere; its engine can't be measured from here",
        value=decider.name,
        limit="a model that is loaded in this process",
        remedy="name a folder, a Hugging Face id, or a replay target",
    )
