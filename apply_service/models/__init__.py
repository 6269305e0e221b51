"""Names the embedded model and the record file of a model.  Importing it reads no file and needs no torch."""

from __future__ import annotations

from pathlib import Path

EMBEDDED = "embedded"
"""The name of the embedded model."""

RECORD_FILE = "apply_service.json"
"""The file in a model's folder that tells how to run the model (`engine.record.ModelRecord`)."""


def embedded_directory() -> Path:
    """Return the folder of the embedded model."""
    return Path(__file__).parent / EMBEDDED
