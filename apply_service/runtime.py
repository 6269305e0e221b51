"""What a request needs besides itself: the targets by name, and the settings that say how they decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from apply_service.calibration import DEFAULT_THRESHOLDS, Thresholds
from apply_service.decider import Decider


@dataclass(frozen=True, slots=True)
class Runtime:
    """What requests need besides themselves; for one thread at a time, as its targets are.  `load` gives a target by
    name, loading it on first use."""

    load: Callable[[str], Decider]
    models: tuple[str, ...] = ("embedded",)
    """What a request may name; the first is the default."""
    default_drafter: str = "merged_edit"
    has_draft_model: bool = False
    """Whether its targets can draft with a smaller model."""
    windows: str = "auto"
    """When a file is decided in windows: `never`, past the `context`, `always` where that saves half of it, or as the
    target has it (`auto`)."""
    confirm_threshold: float | None = None
    choose_threshold: float | None = None
    """What a merge must reach to be taken as scored (`Thresholds`); None: what the target's calibration says."""

    def windows_of(self, target: Decider) -> str:
        """When this target decides in windows; never `auto`."""
        return target.windows if self.windows == "auto" else self.windows

    def thresholds_of(self, target: Decider) -> Thresholds:
        """What this target must think of a merge: as set, else as calibrated, else the default."""
        found = DEFAULT_THRESHOLDS if target.calibration is None else target.calibration.thresholds
        confirm = found.confirm if self.confirm_threshold is None else self.confirm_threshold
        choose = found.choose if self.choose_threshold is None else self.choose_threshold
        return found._replace(confirm=confirm, choose=choose)
