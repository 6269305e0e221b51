"""What a batch asks for, as values alone; edits are `ApplyRequest`s."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from apply_service.batch.results import BatchMode


@dataclass(frozen=True, slots=True)
class PatchSource:
    """A file as it is before the patch."""

    path: str
    text: str
    encoding: str = "utf-8"


@dataclass(frozen=True, slots=True)
class PatchRequest:
    """One unified diff or V4A patch, and the files that it may name."""

    patch: str
    files: tuple[PatchSource, ...]
    mode: BatchMode = "all_or_nothing"
    on_verdict: Mapping[str, Literal["warn", "fail"]] = field(default_factory=dict)
    diff: bool = False
