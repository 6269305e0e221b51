"""The models that ship with the package, and the names that many must agree on; reads nothing and needs no torch."""

from __future__ import annotations

from pathlib import Path

EMBEDDED = "embedded"
"""What the embedded model is called."""

RECORD_FILE = "apply_service.json"
"""In a model's folder: how to run it (`engine.record.ModelRecord`)."""


def embedded_directory() -> Path:
    """Return where the embedded model lies."""
    return Path(__file__).parent / EMBEDDED
