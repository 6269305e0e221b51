"""Shared by all tests: no network for model hubs, and where extra data may lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

EXTRA_DATA = Path(os.environ.get("APPLY_SHARED_DATA") or Path(__file__).parent.parent.parent / "shared" / "data")


@pytest.fixture(scope="session")
def extra_data() -> Path:
    """The folder of real-diff sets; the test is skipped where there is none."""
    if not (EXTRA_DATA / "real_diffs_dev.jsonl").is_file():
        pytest.skip("no extra data (APPLY_SHARED_DATA)")
    return EXTRA_DATA
