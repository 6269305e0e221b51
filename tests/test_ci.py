"""Continuous integration names what there is; no system but this one is run here."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")


def test_what_it_runs_is_there() -> None:
    named = set(re.findall(r"(?:\.ci|tests)/[\w./]+", WORKFLOW))
    assert {".ci/run", ".ci/try_wheel.py", "tests/disk"} <= named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_a_plain_install_is_tried_on_every_system() -> None:
    assert "os: [ubuntu-latest, macos-latest, windows-latest]" in WORKFLOW
    assert "$(PYTHON) .ci/try_wheel.py" in (ROOT / "Makefile").read_text(encoding="utf-8")
