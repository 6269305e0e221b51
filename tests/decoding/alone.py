"""One decoding by itself, for tests."""

from __future__ import annotations

from collections.abc import Generator

from apply_service.decoding.scheduler import NextPass, drive_alone
from apply_service.decoding.verify import Decoding, Step


def decode_alone(decoding: Decoding) -> Generator[Step]:
    """The steps of one decoding, alone in its passes; closes it on every way out.

    Raises:
        ApplyError: see `Decoding`.  Errors of the engine reach the caller unchanged.
    """

    def task() -> Generator[Step | NextPass, tuple[Step | None, ...] | None, None]:
        with decoding:
            while decoding.finish_reason is None:
                (step,) = (yield NextPass((decoding,))) or (None,)
                if step is not None:
                    yield step

    return drive_alone(task())
