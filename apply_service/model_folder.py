"""Names about models that many must agree on, and where the embedded one lies; reads nothing and needs no torch."""

from __future__ import annotations

from pathlib import Path

EMBEDDED = "embedded"
"""What the model that ships with the package is called."""

RECORD_FILE = "apply_service.json"
"""In a model's folder: how to run it (`engine.loading.ModelRecord`)."""


def embedded_directory() -> Path:
    """Where the model that ships with the package lies."""
    return Path(__file__).parent / "models" / EMBEDDED
