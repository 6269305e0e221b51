"""Other clocks for single modules.

Never for the process: the event loop of a server that another test keeps running lives by the same clock, and once it
has slept by a wrong one it may not wake again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import pytest


def set_clocks(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType, **clocks: Callable[[], float]) -> None:
    """Give these modules `clocks` by the names of `time` in the place of its own; all else of it stays."""
    for module in modules:
        monkeypatch.setattr(module, "time", SimpleNamespace(**{**vars(time), **clocks}))
