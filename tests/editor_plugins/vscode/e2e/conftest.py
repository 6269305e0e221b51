"""One editor and one service for all tests: a window takes half a minute to open where cores are few."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editor_plugins.vscode.e2e.code_server import PLUGIN, ROOT, CodeServer, missing, running_code_server
from tests.editor_plugins.vscode.e2e.editor import Editor, open_editor, running_browser
from tests.editor_plugins.vscode.e2e.service import running_service


@pytest.fixture(scope="session")
def extension() -> Path:
    """The extension as users install it, packaged from the sources as they are now."""
    if why := missing():
        pytest.skip(why)
    npm = shutil.which("npm")
    if npm is None or not (PLUGIN / "node_modules").is_dir():
        pytest.skip("the extension's tools are not installed: make test-vscode")
    done = subprocess.run([npm, "run", "package"], cwd=PLUGIN, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return PLUGIN / "apply-service.vsix"


@pytest.fixture(scope="session")
def code_server(extension: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeServer]:
    with running_code_server(extension, tmp_path_factory.mktemp("code-server")) as found:
        yield found


@pytest.fixture(scope="session")
def window(code_server: CodeServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    with (
        running_browser() as browser,
        open_editor(browser, code_server, tmp_path_factory.mktemp("workspace")) as editor,
    ):
        yield editor


@pytest.fixture(scope="session")
def service(code_server: CodeServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a service without keys, with the embedded model."""
    with running_service(tmp_path_factory.mktemp("service")) as found:
        yield found.url


@pytest.fixture
def editor(window: Editor, service: str, request: pytest.FixtureRequest) -> Iterator[Editor]:
    """The window, with nothing open over its files.  Where a test fails, what the window shows and what the plugin has
    logged go to runs/vscode-e2e."""
    window.tidy()
    window.configure(url=service)
    failed_before = request.session.testsfailed
    yield window
    if request.session.testsfailed > failed_before:
        out = ROOT / "runs" / "vscode-e2e"
        window.screenshot(out / f"{request.node.name}.png")
        for log in window.server.data.rglob("Apply Service.log"):
            shutil.copy(log, out / f"{request.node.name}.log")
