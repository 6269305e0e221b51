"""What kinds of samples a run is made of, and what their parts weigh in the loss.  `training.samples` makes them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SampleMix:
    """Shares of the kinds of samples, and the weights of the loss."""

    no_hints: float = 0.03
    spoilt_hints: float = 0.15
    clean_style: float = 0.5
    position_gaps: float = 0.3
    permuted: float = 0.08
    text_weight: float = 0.1
    plain_weight: float = 0.3
    """For a `keep` after a `keep` that the hint tells as well."""
    contested_weight: float = 1.5
    """For a decision that the hint has wrong."""
    unhinted_weight: float = 0.4
