"""The page "point your client here": its examples run, and it names every record that is checked."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.test_recorded import RECORDS

PAGE = (Path(__file__).parents[2] / "docs" / "clients.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8765"
PACKAGES = Path(__file__).parents[2] / ".venv-clients" / "node_modules"


def examples(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_every_record_is_on_the_page_and_every_name_on_it_is_a_record() -> None:
    named = {name for line in re.findall(r"Checked by: ([^.]*)\.", PAGE) for name in re.findall(r"`([^`]+)`", line)}
    assert named == set(RECORDS)


def test_the_python_example(url: str) -> None:
    (source,) = examples("python")
    command = [sys.executable, "-c", source.replace(ADDRESS, url)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    merged, _, rest = done.stdout.rpartition("return w * h\n")
    assert merged == "def area(w, h):\n    assert w >= 0\n    "
    assert rest.startswith("exact CompletionTokensDetails(")


def test_the_curl_example(url: str) -> None:
    bash, curl = shutil.which("bash"), shutil.which("curl")
    if bash is None or curl is None:
        pytest.skip("no bash or no curl on this machine")
    (command,) = (text for text in examples("bash") if text.startswith("curl"))
    done = subprocess.run([bash, "-c", command.replace(ADDRESS, url)], capture_output=True, timeout=300, check=True)
    assert json.loads(done.stdout)["mergedCode"] == "a = 1\nb = 20\nc = 3\n"


@pytest.mark.slow
def test_the_node_example(url: str, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None or not PACKAGES.is_dir():
        pytest.skip("no Node on this machine, or no SDK: make test-real-clients")
    (source,) = (text for text in examples("js") if text.startswith("import OpenAI"))
    (tmp_path / "node_modules").symlink_to(PACKAGES)
    script = tmp_path / "example.mjs"
    script.write_text(source.replace(ADDRESS, url))
    done = subprocess.run([node, str(script)], capture_output=True, timeout=300, check=True)
    assert done.stdout.decode() == "a = 1\nb = 20\nc = 3\n\n"
