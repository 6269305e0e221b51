"""Shared by all tests: no network for model hubs, a state folder of their own, and where extra data may lie."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
if not IS_WORKER:
    # One folder for all workers of a run and for the processes that tests start: they inherit the variable.
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="apply-service-tests-")

EXTRA_DATA = Path(os.environ.get("EVAL_DATA") or Path(__file__).parent.parent.parent / "shared" / "data")


def pytest_sessionfinish() -> None:
    """The folder goes with the process that made it."""
    if not IS_WORKER:
        shutil.rmtree(os.environ["XDG_STATE_HOME"], ignore_errors=True)


@pytest.fixture(autouse=True)
def root_log_handlers() -> Iterator[None]:
    """A command that a test runs in process sets up logging to that test's standard error: undone after the test."""
    root = logging.getLogger()
    before, level = [*root.handlers], root.level
    yield
    root.handlers[:] = [handler for handler in root.handlers if handler in before]
    root.setLevel(level)


@pytest.fixture(scope="session")
def extra_data() -> Path:
    """The folder of real-diff sets; the test is skipped where there is none."""
    if not (EXTRA_DATA / "real_diffs_dev.jsonl").is_file():
        pytest.skip("no extra data (EVAL_DATA)")
    return EXTRA_DATA
