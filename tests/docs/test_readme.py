"""The first screen of the README: its script is run, its picture is what the service answers."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from apply_eval.cli import build_parser as build_eval_parser
from apply_service.cli import build_parser
from docs.generate import FOLDER
from docs.readme_parts import FILE, PICTURES, SNIPPET, answer

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_first_script_prints_what_is_shown(tmp_path: Path) -> None:
    if shutil.which("sh") is None:
        pytest.skip("no sh on this machine")
    script = re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[0]
    shown = re.findall(r"^```diff\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[0]
    script = script.replace("apply-service", f"'{sys.executable}' -m apply_service.cli")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("APPLY_")}
    environment |= {"PYTHONPATH": str(ROOT), "APPLY_SERVICE_STATE_DIR": str(tmp_path / "state")}
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == shown
    assert (tmp_path / "shop.py").read_text(encoding="utf-8") == FILE, "--diff writes nothing"


def test_the_example_is_in_no_doubt_and_changes_both_functions() -> None:
    assert all(verdict.is_pass for verdict in answer().verdicts)
    merged = answer().merged_code
    assert merged == FILE.replace('(items):\n    "', '(items, discount=0):\n    "').replace(
        "round(cost, 2)", "round(cost * (1 - discount), 2)"
    ).replace("receipt(items):\n", 'receipt(items):\n    if not items:\n        return "Nothing to pay."\n')
    assert "..." in SNIPPET
    assert "..." not in merged


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_current_small_and_load_nothing(name: str) -> None:
    text = (FOLDER / "images" / name).read_text(encoding="utf-8")
    assert text == PICTURES[name](), "run: python -m docs.generate"
    assert len(text) < 60_000
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]


def test_every_command_of_the_first_pages_is_one() -> None:
    """They are parsed, not run: most need a file, a key or a card."""
    pages = [ROOT / "README.md", *(FOLDER / name for name in ("quickstart.md", "faq.md", "evaluation.md"))]
    blocks = [
        block
        for page in pages
        for block in re.findall(r"^```(?:sh)?\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    ]
    n_parsed = 0
    for line in (line for block in blocks for line in block.split("\n")):
        words = shlex.split(line.rpartition("| ")[2], comments=True) if "apply-" in line and "<<" not in line else []
        parser = {"apply-service": build_parser, "apply-eval": build_eval_parser}.get(words[0] if words else "")
        if parser is not None:
            parser().parse_args(words[1:])
            n_parsed += 1
    assert n_parsed > 20
