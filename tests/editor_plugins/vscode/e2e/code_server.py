"""VS Code for the browser, as a process on a free loopback port; what it needs is put in place by `make test-vscode`.

Everything that it writes (settings, extensions, state) goes to a scratch folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[4]
CACHE = ROOT / ".vscode-test"
ENTRY = CACHE / "node_modules" / "code-server" / "out" / "node" / "entry.js"
PLUGIN = ROOT / "editor_plugins" / "vscode"

QUIET = {
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
    "telemetry.telemetryLevel": "off",
    "extensions.ignoreRecommendations": True,
    "extensions.autoCheckUpdates": False,
    "update.mode": "none",
    "git.enabled": False,
    "workbench.accounts.experimental.showEntitlements": False,
    "chat.commandCenter.enabled": False,
    "security.workspace.trust.enabled": False,
    "editor.cursorBlinking": "solid",
    "window.commandCenter": False,
    "files.autoSave": "off",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
}
"""Settings that keep the window still: nothing opens or saves by itself, nothing looks for anything outside."""


@dataclass(frozen=True)
class CodeServer:
    """A running one."""

    url: str
    data: Path
    """Its --user-data-dir."""


def missing() -> str | None:
    """Why the tests cannot run here; None where they can."""
    if find_spec("playwright") is None:
        return "the extra `plugins` is not installed: make test-vscode"
    if not ENTRY.exists():
        return "code-server is not installed: make test-vscode"
    if shutil.which("node") is None:
        return "no node on this machine"
    if chromium() is None:
        return "no Chromium on this machine"
    return None


def chromium() -> str | None:
    """The browser's program."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@contextlib.contextmanager
def running_code_server(extension: Path, folder: Path) -> Iterator[CodeServer]:
    """Install a packaged extension and serve the editor.  `folder`: scratch, in which it keeps everything."""
    environment = _environment(folder)
    options = ["--user-data-dir", str(folder / "data"), "--extensions-dir", str(folder / "extensions")]
    command = ["node", str(ENTRY), *options]
    subprocess.run(
        [*command, "--install-extension", str(extension)], env=environment, check=True, capture_output=True, timeout=180
    )
    settings = folder / "data" / "User" / "settings.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps(QUIET), encoding="utf-8")
    port = free_port()
    with (folder / "code-server.log").open("ab") as log:
        process = _start([*command, "--bind-addr", f"127.0.0.1:{port}", *SERVE_OPTIONS], environment, log, port)
        try:
            yield CodeServer(f"http://127.0.0.1:{port}", folder / "data")
        finally:
            stop(process)


def _start(command: list[str], environment: dict[str, str], log: IO[bytes], port: int) -> subprocess.Popen[bytes]:
    """Its own two processes give each other ten seconds to start, which a busy machine may not have: tried again."""
    for attempts_left in reversed(range(ATTEMPTS)):
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_for_port(port, process)
            return process
        except RuntimeError:
            stop(process)
            if not attempts_left:
                raise
    raise AssertionError


ATTEMPTS = 6
SERVE_OPTIONS = (
    *("--auth", "none"),
    *("--disable-telemetry", "--disable-update-check", "--disable-workspace-trust"),
    *("--disable-getting-started-override", "--disable-file-downloads"),
)


def _environment(folder: Path) -> dict[str, str]:
    """A home of its own, and no marketplace that could be reached."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    nowhere = json.dumps({"serviceUrl": "http://127.0.0.1:9", "itemUrl": "http://127.0.0.1:9"})
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    return kept | {"HOME": str(home), "EXTENSIONS_GALLERY": nowhere}


def free_port() -> int:
    """A port of the loopback that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def wait_for_port(port: int, process: subprocess.Popen[bytes], *, within_s: float = 120) -> None:
    """Return once something listens; raises RuntimeError where the process ends before, or never does."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"{process.args!r} does not listen on {port}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process, by force where it does not end by itself."""
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(20)
