"""`apply-service start`, `stop` and `status`: one server for each user, in the background, which `apply` asks.

A folder below the state folder, which only the user can read, tells where it is: `server.json` has pid, URL and key.
The server holds `lock` as long as it lives.  So nobody sends a signal to the pid that a dead one left behind, which may
be another process by now, nor a file to its port, which may be another user's.  It listens on loopback alone, and wants
the key, because all users of a machine share its loopback.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from apply_service.commands.output import OK, UNAVAILABLE, spinning, write_json, write_line, write_note
from apply_service.commands.request import OF_THE_ENGINE
from apply_service.errors import NotReady
from apply_service.models import EMBEDDED
from apply_service.settings import AUTO, Settings

PROBE_S = 0.04
"""How long a server may take to say that it is ready before the edit is applied without it."""
PATIENCE_S = 5.0
"""The same where somebody asks whether it is."""
POLL_S = 0.02
KEY_NAME = "start"
N_LOG_LINES = 10


class UserServer(NamedTuple):
    """The user's server, which runs.  `models`: the names that requests may give, its own first."""

    pid: int
    url: str
    key: str
    models: list[str]
    started: float
    """Seconds since the epoch."""


# -- who runs ----------------------------------------------------------------------------------------------------------
def folder_of(settings: Settings) -> Path:
    """Not in the runtime folder of the session: that is deleted when the user logs out, and the server lives on."""
    return settings.state_path / "server"


def find_server(settings: Settings) -> UserServer | None:
    """The user's server if it listens; None if there is none, or if it is still loading."""
    folder = folder_of(settings)
    try:
        server = UserServer(**json.loads((folder / "server.json").read_text(encoding="ascii")))
        return server if is_locked(folder) else None
    except (OSError, ValueError, TypeError):
        return None


def is_locked(folder: Path) -> bool:
    """Whether a server lives.  Raises OSError."""
    descriptor = os.open(folder / "lock", os.O_RDWR)
    try:
        return not _lock(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock the file until it is closed; False if somebody else has."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def held(settings: Settings) -> Iterator[tuple[Settings, Callable[[str], None]]]:
    """Be the user's server while it is open: its settings, and what to call with the URL once it listens.  Raises
    NotReady: there is another one."""
    from apply_service.api.keys import format_entry, make_key

    folder = folder_of(settings)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chmod(folder, 0o700)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        until = time.monotonic() + 1  # whoever looks whether a server lives has the lock for a moment
        while not _lock(descriptor):
            if time.monotonic() > until:
                raise NotReady("Your server runs already.", remedy="See apply-service status.")
            time.sleep(POLL_S)
        file, key = folder / "server.json", make_key()
        file.unlink(missing_ok=True)
        _write_private(folder / "keys.toml", format_entry(KEY_NAME, key))

        def publish(url: str) -> None:
            server = UserServer(os.getpid(), url, key, [settings.model, *settings.more_models], time.time())
            _write_private(file, json.dumps(server._asdict()))

        try:
            yield replace(settings, host="127.0.0.1", keys_file=str(folder / "keys.toml")), publish
        finally:
            file.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _write_private(path: Path, text: str) -> None:
    """A file that only the user can read, and that appears whole."""
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with open(draft, "x", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)
    os.replace(draft, path)


# -- who is asked ------------------------------------------------------------------------------------------------------
def choose_server(arguments: Namespace, settings: Settings) -> Settings:
    """The settings with `auto` decided: the user's server if it would decide as this process does and answers at once;
    else none."""
    if settings.server != AUTO:
        return settings
    server = None
    if all(getattr(arguments, name) is None for name in OF_THE_ENGINE):
        server = find_server(settings)
    # A JSON request names its model itself, and is sent as it is.
    is_json = arguments.request is not None or arguments.batch is not None
    models = [] if server is None else server.models[: 1 if is_json or arguments.model is None else None]
    if server is None or settings.model not in models or not _is_ready(server, PROBE_S):
        return replace(settings, server=None)
    if is_json:
        arguments.model = None
    return replace(settings, server=server.url, api_key=server.key)


def _is_ready(server: UserServer, timeout_s: float) -> bool:
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection(server.url.removeprefix("http://"), timeout=timeout_s)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


# -- the commands ------------------------------------------------------------------------------------------------------
def start(arguments: Namespace, settings: Settings) -> int:
    """Run `start`: returns when the server answers; the exit code.  Raises NotReady: it did not start."""
    import subprocess

    folder = folder_of(settings)
    if (server := find_server(settings)) is not None:
        write_note(f"your server runs already: {server.url}; stop it with `apply-service stop`")
        return OK
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    command = [sys.executable, "-m", "apply_service.cli", "serve", *arguments.words, "--background"]
    if arguments.port is None:  # one in the configuration is meant for `serve`
        command += ["--port", "0"]
    detached: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        detached = {"creationflags": subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP}
    log = folder / "log"
    with open(log, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, **detached)
    try:
        with spinning(f"starting a server with {settings.model}"):
            while (server := find_server(settings)) is None and process.poll() is None:
                time.sleep(POLL_S)
            if server is not None:
                _is_ready(server, PATIENCE_S)
    except KeyboardInterrupt:
        process.terminate()
        raise
    if server is None:
        said = "\n  ".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-N_LOG_LINES:])
        raise NotReady(f"The server did not start:\n  {said}", remedy=f"All that it said: {log}")
    model = "" if settings.model == EMBEDDED else f" -m {settings.model}"
    write_note(f"your server runs: {server.url} (model {settings.model}, pid {server.pid})")
    write_note(f"  apply-service apply FILE SNIPPET{model}    asks it from now on")
    write_note("  apply-service status    where its key is, for other clients and the page in the browser")
    write_note("  apply-service stop")
    return OK


def stop(_: Namespace, settings: Settings) -> int:
    """Run `stop`: returns when the server has ended; the exit code.  Raises NotReady: it does not end."""
    server = find_server(settings)
    if server is None:
        write_note("no server of yours runs; start one with `apply-service start`")
        return OK
    with contextlib.suppress(OSError):  # it has just ended, which Windows calls a wrong parameter
        os.kill(server.pid, signal.SIGTERM)
    until = time.monotonic() + settings.drain_timeout_s + 10
    with spinning("waiting for edits that it has accepted"):
        while is_locked(folder_of(settings)):
            if time.monotonic() > until:
                message = f"The server (pid {server.pid}) still works on edits."
                raise NotReady(message, remedy=f"Wait, or end it: kill -9 {server.pid}")
            time.sleep(POLL_S)
    write_note("your server has stopped")
    return OK


def status(arguments: Namespace, settings: Settings) -> int:
    """Run `status`; the exit code says whether the server answers."""
    server = find_server(settings)
    is_ready = server is not None and _is_ready(server, PATIENCE_S)
    file = folder_of(settings) / "server.json"
    if arguments.json:
        found = {} if server is None else {name: value for name, value in server._asdict().items() if name != "key"}
        write_json({"is_running": server is not None, "is_ready": is_ready, **found, "key_file": str(file)})
    elif server is None:
        write_line("no server of yours runs; start one with `apply-service start`")
    else:
        hours, minutes = divmod(int(time.time() - server.started) // 60, 60)
        state = "ready" if is_ready else "busy or stopping"
        write_line(f"{server.url}: {state}; pid {server.pid}, model {server.models[0]}, since {hours} h {minutes} min")
        write_line(f"  page {server.url}/, API {server.url}/docs; the key for both is in {file}")
    return OK if is_ready else UNAVAILABLE
