"""What somebody new stumbled over in the first hour, each once: it works now, or is said in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from apply_service.cli import main
from tests.newcomer.test_mistakes import project

__all__ = ["project"]

EDIT = ["apply", "src/inventory.py", "snippet.py", "--in-place"]


def test_a_variable_of_another_program(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("APPLY_MIGRATIONS", "1")
    assert main(EDIT) == 0
    assert "MIGRATIONS" not in capsys.readouterr().err


def test_a_variable_of_ours_by_its_old_name(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = project.parent / "elsewhere"
    monkeypatch.setenv("APPLY_STATE_DIR", str(state))
    assert main(EDIT) == 0
    assert state.is_dir()
    assert "The variable APPLY_STATE_DIR is now called APPLY_SERVICE_STATE_DIR." in capsys.readouterr().err
