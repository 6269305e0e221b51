"""Runs `apply-service start`, `stop` and `status`: each user can have one server in the background, which `apply` asks.

A folder in the state folder, which only the user can use, tells where the server is: `server.json` has its pid, URL and
key.  Each server creates that file anew, locks it, and only then writes into it.  So a locked file was written by a
process that still lives.  A file without a lock is a dead server's: it is ignored, because its pid and port may by now
be those of another process.  Only the server takes an exclusive lock; processes that look take a shared one, so they
disturb nobody.

A second file, `lock`, is locked by the server as long as it lives, so there is only one server.  The server listens on
loopback alone.  It asks for the key, because all users of a machine share its loopback.
"""

from __future__ import annotations

import contextlib
import errno
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
from apply_service.disk.state import open_private, private_folder
from apply_service.errors import FileNotWritable, NotReady
from apply_service.isolation import clean_environment, python_command
from apply_service.models import EMBEDDED
from apply_service.settings import AUTO, Settings

PROBE_S = 0.04
"""How long a server may take to say that it is ready.  After that, the edit is applied without it."""
PATIENCE_S = 5.0
"""The same limit for `start` and `status`, which wait for the answer."""
POLL_S = 0.02
KEY_NAME = "start"
N_LOG_LINES = 10
LOOPBACK = "http://127.0.0.1:"
FOLDER = "server"
LOCK_FROM, LOCK_BYTES = 2**30, 2**30 - 1
"""The bytes of a file that are locked on Windows.  They lie beyond the end of the file, because nobody could read
locked bytes."""


class UserServer(NamedTuple):
    """The user's running server.  `models`: the names that requests may give; the first is its own model."""

    pid: int
    url: str
    """The server's URL; empty once it takes no more requests, because its port may then belong to another process."""
    key: str
    models: list[str]
    started: float
    """When the server started, in seconds since the epoch."""


# -- who runs ----------------------------------------------------------------------------------------------------------
def folder_of(settings: Settings) -> Path:
    """Return the server's folder.  It is not in the session's runtime folder: that is deleted when the user logs out,
    but the server lives on."""
    return settings.state_path / FOLDER


def find_server(settings: Settings, *, even_stopping: bool = False) -> UserServer | None:
    """Return the user's server if it takes requests; None if there is no server or it is still loading.  Raises
    FileNotWritable if the server's folder belongs to another user."""
    with _opened(settings) as record:
        server = None if record is None else _read(record)
    return server if server is not None and (server.url or even_stopping) else None


@contextlib.contextmanager
def _opened(settings: Settings) -> Iterator[int | None]:
    """Open `server.json` for reading, and yield its descriptor; None if there is no such file."""
    record = None
    if os.path.lexists(folder_of(settings)):  # else opening would create the folder
        with contextlib.suppress(OSError):
            record = open_private(private_folder(settings.state_path, FOLDER) / "server.json", os.O_RDONLY)
    try:
        yield record
    finally:
        if record is not None:
            os.close(record)


def _read(record: int) -> UserServer | None:
    """Return the server that wrote the file; None if it no longer lives."""
    try:
        said = json.loads(os.read(record, 2**20))
        kinds = {"pid": int, "url": str, "key": str, "models": list, "started": float}
        if not isinstance(said, dict) or {name: type(value) for name, value in said.items()} != kinds:
            return None
        server = UserServer(**said)
        # The file is read before its lock is looked at, because a server locks the file before it writes.
        is_sound = 1 < server.pid < 2**31 and server.models and all(isinstance(name, str) for name in server.models)
        is_sound = is_sound and (server.url == "" or server.url.startswith(LOOPBACK))
        return server if is_sound and is_locked(record) else None
    except (OSError, ValueError, RecursionError):
        return None


def is_locked(record: int) -> bool:
    """Tell whether the server that created the file lives.  Raises OSError."""
    if sys.platform == "win32":
        import msvcrt

        # Windows has no shared lock here, so each process tries a byte of its own, by its pid (a multiple of 4).
        os.lseek(record, LOCK_FROM + os.getpid() // 4 % LOCK_BYTES, os.SEEK_SET)
        try:
            msvcrt.locking(record, msvcrt.LK_NBLCK, 1)
        except OSError:
            return True
        msvcrt.locking(record, msvcrt.LK_UNLCK, 1)
        return False
    import fcntl

    try:
        fcntl.flock(record, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(record, fcntl.LOCK_UN)
    return False


def _lock(descriptor: int) -> bool:
    """Lock the file until it is closed.  Return False if another process has locked it.  Raises OSError if the file
    can't be locked."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, LOCK_FROM, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, LOCK_BYTES)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# -- the server's own side ---------------------------------------------------------------------------------------------
@contextlib.contextmanager
def held(settings: Settings) -> Iterator[tuple[Settings, Callable[[str], None]]]:
    """Be the user's server while the block runs.  Yield its settings and a function `publish`.  The caller calls
    `publish` with the URL once the server listens, and with an empty string before the server closes its port.

    If another server is loading or stopping, wait for it.  Raises FileNotWritable, or NotReady if another server takes
    requests.
    """
    from apply_service.api.keys import format_entry, make_key

    folder, key, started = private_folder(settings.state_path, FOLDER), make_key(), time.time()
    with contextlib.ExitStack() as descriptors:
        with _writing(folder):
            lock = open_private(folder / "lock", os.O_RDWR | os.O_CREAT)
            descriptors.callback(os.close, lock)
            while not _lock(lock):
                if (other := find_server(settings)) is not None:
                    raise NotReady(
                        f"Your server is already running: {other.url}.", remedy="See `apply-service status`."
                    )
                time.sleep(POLL_S)
            keys = _create(folder / "keys.toml")
            descriptors.callback(os.close, keys)
            _fill(keys, format_entry(KEY_NAME, key))
            record = _create(folder / "server.json")
            descriptors.callback(os.close, record)
            if not _lock(record):
                raise OSError(errno.EBUSY, "another process has locked server.json")

        def publish(url: str) -> None:
            models = [settings.model, *settings.more_models]
            with _writing(folder):
                _fill(record, json.dumps(UserServer(os.getpid(), url, key, models, started)._asdict()))

        try:
            yield replace(settings, host="127.0.0.1", keys_file=str(folder / "keys.toml")), publish
        finally:
            os.ftruncate(record, 0)  # not removed: the file of that name may be a later server's


def write_log(settings: Settings) -> None:
    """Send all later output of this process to a new, empty log.  Raises FileNotWritable."""
    folder = private_folder(settings.state_path, FOLDER)
    with _writing(folder):
        log = open_private(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.close(log)


def _create(path: Path) -> int:
    """Create a new file in the place of an old one, and return its descriptor.  Raises OSError."""
    until = time.monotonic() + (1 if sys.platform == "win32" else 0)
    while True:
        try:
            path.unlink(missing_ok=True)
            return open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except PermissionError:  # on Windows, while another process reads the old file
            if time.monotonic() >= until:
                raise
            time.sleep(POLL_S)


def _fill(descriptor: int, text: str) -> None:
    """Make the file hold the text.  Raises OSError."""
    data = text.encode("ascii")
    os.lseek(descriptor, 0, os.SEEK_SET)
    if os.write(descriptor, data) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.ftruncate(descriptor, len(data))


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn the system's errors into FileNotWritable."""
    try:
        yield
    except OSError as error:
        message = f"Cannot write the server's files in {folder}: {error.strerror or error}."
        remedy = "Make room, or set state_dir (--state-dir) to a folder that can be written."
        raise FileNotWritable(message, value=str(error.filename or folder), remedy=remedy) from error


# -- who is asked ------------------------------------------------------------------------------------------------------
def choose_server(arguments: Namespace, settings: Settings) -> Settings:
    """Return the settings with `auto` decided.  The user's server is chosen if it answers at once and would decide as
    this process does; otherwise no server is."""
    if settings.server != AUTO:
        return settings
    server = None
    if all(getattr(arguments, name) is None for name in OF_THE_ENGINE):
        with contextlib.suppress(FileNotWritable):  # the edit needs no server
            server = find_server(settings)
    # A JSON request names its own model and is sent unchanged.
    is_json = arguments.request is not None or arguments.batch is not None
    models = [] if server is None else server.models[: 1 if is_json or arguments.model is None else None]
    if server is None or settings.model not in models or not _is_ready(server, PROBE_S):
        return replace(settings, server=None)
    if is_json:
        arguments.model = None
    return replace(settings, server=server.url, api_key=server.key)


def _is_ready(server: UserServer, timeout_s: float) -> bool:
    from http.client import HTTPConnection, HTTPException

    if not server.url:
        return False
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
    """Run `start`: return the exit code once this server answers, or another server that was faster.  Raises
    FileNotWritable, or NotReady if the server did not start."""
    import subprocess

    folder = private_folder(settings.state_path, FOLDER)
    if (server := find_server(settings)) is not None:
        return _tell_of(server)
    command = [*python_command("apply_service.cli"), "serve", *arguments.words, "--background"]
    if arguments.port is None:  # a port in the configuration is meant for `serve`
        command += ["--port", "0"]
    options: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        options = {"creationflags": subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP}
    options |= {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, env=clean_environment(), encoding="utf-8", errors="replace", **options)
    said = None  # what the server wrote to standard error before it opened its log
    try:
        with spinning(f"starting a server with {settings.model}"):
            while (server := find_server(settings)) is None and said is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    said = process.communicate(timeout=POLL_S)[1]
            if server is not None:
                _is_ready(server, PATIENCE_S)
    except BaseException:
        process.terminate()
        raise
    if server is None:
        said = said or _end_of(folder / "log")
        _, begin, error = f"\n{said}".rpartition("\napply-service: ")
        if begin:
            write_note(f"apply-service: The server did not start: {error.strip()}")
            return UNAVAILABLE
        said = said.strip() or f"It ended with code {process.returncode}; is the disk full?"
        remedy = f"Its whole log: {folder / 'log'}"
        raise NotReady(f"The server did not start:\n{said}", remedy=remedy)
    # On Windows, the interpreter of a virtual environment starts another process, with a pid of its own.
    if sys.platform != "win32" and server.pid != process.pid:
        process.terminate()  # it waits until the other server ends
        process.wait()
        return _tell_of(server)
    model = "" if settings.model == EMBEDDED else f" -m {settings.model}"
    write_note(f"Your server is running: {server.url} (model {server.models[0]}, pid {server.pid})")
    write_note(f"  apply-service apply FILE SNIPPET{model}    uses it from now on")
    write_note("  apply-service status    shows where its key is, for other clients and the page in the browser")
    write_note("  apply-service stop")
    return OK


def _tell_of(server: UserServer) -> int:
    write_note(f"Your server is already running: {server.url}; stop it with `apply-service stop`.")
    return OK


def _end_of(log: Path) -> str:
    try:
        with open(open_private(log, os.O_RDONLY), encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-N_LOG_LINES:])
    except OSError:
        return ""


def stop(_: Namespace, settings: Settings) -> int:
    """Run `stop`: return the exit code once the server has ended.  Raises NotReady if the server does not end or is out
    of reach."""
    with _opened(settings) as record:
        server = None if record is None else _read(record)
        if record is None or server is None:
            write_note("No server of yours is running; start one with `apply-service start`.")
            return OK
        _terminate(server, record)
        until = time.monotonic() + settings.drain_timeout_s + 10
        with spinning("waiting for edits that it has accepted"):
            while is_locked(record):
                if time.monotonic() > until:
                    message = f"The server (pid {server.pid}) is still working on edits."
                    raise NotReady(message, remedy=f"Wait, or end the server: kill -9 {server.pid}")
                time.sleep(POLL_S)
    write_note("Your server has stopped.")
    return OK


def _terminate(server: UserServer, record: int) -> None:
    """Send SIGTERM to the server, but never to another process that by now has the server's pid.  Raises NotReady if
    the server runs in another container."""
    pidfd = None
    with contextlib.suppress(OSError):  # Linux before 5.3 has no pidfd
        pidfd = os.pidfd_open(server.pid) if sys.platform == "linux" else None
    try:
        if not is_locked(record):
            return
        # The server still lived after `pidfd_open`.  So if the pid is the server's, the descriptor belongs to the
        # server too.
        if not _has_open(server.pid, record):
            message = f"Your server runs in another container: process {server.pid} here is not that server."
            raise NotReady(message, remedy="Stop it from its own container.")
        with contextlib.suppress(OSError):  # it has just ended; Windows then complains of a wrong parameter
            if sys.platform == "linux" and pidfd is not None:
                signal.pidfd_send_signal(pidfd, signal.SIGTERM)
            else:
                os.kill(server.pid, signal.SIGTERM)
    finally:
        if pidfd is not None:
            os.close(pidfd)


def _has_open(pid: int, descriptor: int) -> bool:
    """Tell whether the process has the file open; True if the system does not say."""
    if not os.path.isdir("/proc/self/fd"):
        return True
    wanted = os.fstat(descriptor)
    with contextlib.suppress(OSError):  # there is no such process, or it is another user's
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(f"/proc/{pid}/fd/{name}"), wanted):
                    return True
    return False


def status(arguments: Namespace, settings: Settings) -> int:
    """Run `status` and return the exit code, which says whether the server answers."""
    server = find_server(settings, even_stopping=True)
    is_ready = server is not None and _is_ready(server, PATIENCE_S)
    file = folder_of(settings) / "server.json"
    if arguments.json:
        found = {} if server is None else {name: value for name, value in server._asdict().items() if name != "key"}
        write_json({"is_running": server is not None, "is_ready": is_ready, **found, "key_file": str(file)})
    elif server is None:
        write_line("No server of yours is running; start one with `apply-service start`.")
    elif not server.url:
        write_line(f"Your server is stopping; pid {server.pid}, model {server.models[0]}")
    else:
        hours, minutes = divmod(int(time.time() - server.started) // 60, 60)
        state = "ready" if is_ready else "busy"
        write_line(f"{server.url}: {state}; pid {server.pid}, model {server.models[0]}, since {hours} h {minutes} min")
        write_line(f"  page {server.url}/, API {server.url}/docs; the key for both is in {file}")
    return OK if is_ready else UNAVAILABLE
