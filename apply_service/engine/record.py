"""What a model's own folder says of how to run it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from apply_service.engine.calibration import Calibration
from apply_service.errors import ModelNotLoadable
from apply_service.models import RECORD_FILE

DEFAULT_BUCKETS = (4, 8, 16, 32, 64, 128, 256)
WINDOWS = ("context", "always")


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """`apply_service.json` and `calibration.json`; a missing file means the defaults.  `prompts.by_model` reads
    `prompt_format` from the first."""

    buckets: tuple[int, ...] = DEFAULT_BUCKETS
    calibration: Calibration | None = None
    windows: str = "context"
    """When it decides only the touched regions of a file, unless the settings say: see `TargetInfo.windows`."""

    @classmethod
    def read(cls, directory: Path) -> ModelRecord:
        """Raises ModelNotLoadable: a file is there and can't be used."""
        path, calibration = directory / RECORD_FILE, Calibration.read(directory)
        if not path.is_file():
            return cls(calibration=calibration)
        mend = "correct or remove it"
        try:
            values = dict(json.loads(path.read_text(encoding="utf-8")))
            buckets = tuple(sorted(map(int, values.get("buckets", DEFAULT_BUCKETS))))
        except (ValueError, TypeError) as error:
            raise ModelNotLoadable(f"{RECORD_FILE} can't be read: {error}", value=str(path), remedy=mend) from error
        if unknown := values.keys() - {"prompt_format", "buckets", "windows"}:
            raise ModelNotLoadable(f"unknown key in {RECORD_FILE}", value=sorted(unknown), remedy="remove it")
        if not buckets or buckets[0] < 1:
            message, limit = f"bad buckets in {RECORD_FILE}", "positive numbers"
            raise ModelNotLoadable(message, value=buckets, limit=limit, remedy=mend)
        if (windows := values.get("windows", "context")) not in WINDOWS:
            raise ModelNotLoadable(f"bad windows in {RECORD_FILE}", value=windows, limit=list(WINDOWS), remedy=mend)
        return cls(buckets, calibration, windows)
