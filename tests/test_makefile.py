"""The Makefile: every target is listed by `make help` and made although a file has its name."""

from __future__ import annotations

import re
from pathlib import Path

MAKEFILE = (Path(__file__).parents[1] / "Makefile").read_text(encoding="utf-8")
TARGETS = re.findall(r"^([a-z][a-z -]*):(?! *[A-Z_]+ =)(.*)", MAKEFILE, re.MULTILINE)


def test_every_target_is_phony() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)", MAKEFILE, re.MULTILINE)
    targets = {name for names, _ in TARGETS for name in names.split()}
    assert "vscode-unit" in targets
    assert targets == set(phony.split()) - {""}


def test_every_target_but_parts_of_others_has_a_line_of_help() -> None:
    without = [names for names, rest in TARGETS if "  ## " not in rest]
    assert without == ["eval-dev-sketched eval-dev-model-written eval-dev-replay"]
