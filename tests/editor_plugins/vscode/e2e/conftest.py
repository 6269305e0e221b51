"""One editor and one service for all tests: a window takes half a minute to open where cores are few."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.editor_plugins.vscode.e2e.code_server import PLUGIN, CodeServer, missing, running_code_server
from tests.editor_plugins.vscode.e2e.editor import Editor, open_editor, running_browser
from tests.editor_plugins.vscode.e2e.service import running_service

if TYPE_CHECKING:
    from playwright.sync_api import Browser

OpenWindow = Callable[..., Editor]


@pytest.fixture(scope="session")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
def browser(code_server: CodeServer) -> Iterator[Browser]:
    with running_browser() as found:
        yield found


@pytest.fixture(scope="session")
def service(code_server: CodeServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a service without keys, with the embedded model."""
    with running_service(tmp_path_factory.mktemp("service")) as url:
        yield url


@pytest.fixture(scope="module")
def open_window(
    browser: Browser, code_server: CodeServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenWindow]:
    """Opens a window with settings of the plugin, closed with the module.  One at a time: the settings are one file."""
    with ExitStack() as windows:

        def open_one(**settings: object) -> Editor:
            windows.close()
            folder = tmp_path_factory.mktemp("workspace")
            return windows.enter_context(open_editor(browser, code_server, folder, **settings))  # type: ignore[arg-type]

        yield open_one


@pytest.fixture(autouse=True)
def picture_of_a_failure(request: pytest.FixtureRequest) -> Iterator[None]:
    """What the window showed when a test failed goes to runs/vscode-e2e."""
    failed_before = request.session.testsfailed
    yield
    editor = request.node.funcargs.get("editor")
    if editor is not None and request.session.testsfailed > failed_before:
        editor.screenshot(PLUGIN.parents[1] / "runs" / "vscode-e2e" / f"{request.node.name}.png")
