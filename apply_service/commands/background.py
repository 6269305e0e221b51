"""`apply-service start`, `stop` and `status`: one server for each user, in the background, which `apply` asks.

A folder below the state folder, which only the user can use, tells where it is: `server.json` has pid, URL and key.
The server makes that file anew, locks it, and only then writes into it.  So what stands in a locked one was written by
a process that still lives; what a dead server left gets no signal, no key and no file, whoever has its pid and its port
by now.  To look takes a shared lock, and nobody else ever locks the same file: those who look disturb nobody.  `lock`
is for the servers alone: each holds it as long as it lives, so there is one.  It listens on loopback alone, and wants
the key, because all users of a machine share its loopback.
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
"""How long a server may take to say that it is ready before the edit is applied without it."""
PATIENCE_S = 5.0
"""The same where somebody asks whether it is."""
POLL_S = 0.02
KEY_NAME = "start"
N_LOG_LINES = 10
LOOPBACK = "http://127.0.0.1:"
FOLDER = "server"
LOCK_FROM, LOCK_BYTES = 2**30, 2**30 - 1
"""What is locked of a file on Windows: bytes beyond its end, as nobody else could read one that is locked."""


class UserServer(NamedTuple):
    """The user's server, which lives.  `models`: the names that requests may give, its own first."""

    pid: int
    url: str
    """Empty once it takes no more requests: its port may be another's."""
    key: str
    models: list[str]
    started: float
    """Seconds since the epoch."""


# -- who runs ----------------------------------------------------------------------------------------------------------
def folder_of(settings: Settings) -> Path:
    """Not in the runtime folder of the session: that is deleted when the user logs out, and the server lives on."""
    return settings.state_path / FOLDER


def find_server(settings: Settings, *, even_stopping: bool = False) -> UserServer | None:
    """Return the user's server if it takes requests; None if there is none, or if it is still loading.  Raises
    FileNotWritable: its folder is another user's."""
    with _opened(settings) as record:
        server = None if record is None else _read(record)
    return server if server is not None and (server.url or even_stopping) else None


@contextlib.contextmanager
def _opened(settings: Settings) -> Iterator[int | None]:
    """`server.json`; None if there is none."""
    record = None
    if os.path.lexists(folder_of(settings)):  # who only looks creates nothing
        with contextlib.suppress(OSError):
            record = open_private(private_folder(settings.state_path, FOLDER) / "server.json", os.O_RDONLY)
    try:
        yield record
    finally:
        if record is not None:
            os.close(record)


def _read(record: int) -> UserServer | None:
    """Return the server that wrote the file, if it lives."""
    try:
        said = json.loads(os.read(record, 2**20))
        kinds = {"pid": int, "url": str, "key": str, "models": list, "started": float}
        if not isinstance(said, dict) or {name: type(value) for name, value in said.items()} != kinds:
            return None
        server = UserServer(**said)
        # Read before the look at the lock: a server locks the file before it writes.
        is_sound = 1 < server.pid < 2**31 and server.models and all(isinstance(name, str) for name in server.models)
        is_sound = is_sound and (server.url == "" or server.url.startswith(LOOPBACK))
        return server if is_sound and is_locked(record) else None
    except (OSError, ValueError, RecursionError):
        return None


def is_locked(record: int) -> bool:
    """Tell whether the server that made the file lives.  Raises OSError."""
    if sys.platform == "win32":
        import msvcrt

        # There is no shared lock here: each process tries a byte of its own, by its pid, which is a multiple of 4.
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
    """Lock the file until it is closed; False if somebody else has.  Raises OSError: files can't be locked there."""
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
    """Be the user's server while it is open: its settings, and what to call with the URL once it listens, and with an
    empty one before it closes its port.

    Another one that is loading or stopping is waited for.  Raises NotReady: another one takes requests;
    FileNotWritable.
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
            os.ftruncate(record, 0)  # not removed: by its name it may be a later server's


def write_log(settings: Settings) -> None:
    """Send what this process says from now on to the log, which begins anew.  Raises FileNotWritable."""
    folder = private_folder(settings.state_path, FOLDER)
    with _writing(folder):
        log = open_private(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.close(log)


def _create(path: Path) -> int:
    """Return a new file in the place of an old one.  Raises OSError."""
    until = time.monotonic() + (1 if sys.platform == "win32" else 0)
    while True:
        try:
            path.unlink(missing_ok=True)
            return open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except PermissionError:  # on Windows, while somebody reads the old one
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
    """Turn the system's errors into ours."""
    try:
        yield
    except OSError as error:
        message = f"Cannot write the server's files in {folder}: {error.strerror or error}."
        remedy = "Make room, or set state_dir (--state-dir) to a folder that can be written."
        raise FileNotWritable(message, value=str(error.filename or folder), remedy=remedy) from error


# -- who is asked ------------------------------------------------------------------------------------------------------
def choose_server(arguments: Namespace, settings: Settings) -> Settings:
    """Return the settings with `auto` decided: the user's server if it would decide as this process does and answers at
    once; else none."""
    if settings.server != AUTO:
        return settings
    server = None
    if all(getattr(arguments, name) is None for name in OF_THE_ENGINE):
        with contextlib.suppress(FileNotWritable):  # the edit needs neither a server nor a place for one
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
    """Run `start`: returns when a server answers, this one or another that was sooner; the exit code.  Raises NotReady:
    it did not start; FileNotWritable."""
    import subprocess

    folder = private_folder(settings.state_path, FOLDER)
    if (server := find_server(settings)) is not None:
        return _tell_of(server)
    command = [*python_command("apply_service.cli"), "serve", *arguments.words, "--background"]
    if arguments.port is None:  # one in the configuration is meant for `serve`
        command += ["--port", "0"]
    options: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        options = {"creationflags": subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP}
    options |= {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, env=clean_environment(), encoding="utf-8", errors="replace", **options)
    said = None  # before it could open its log
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
    # The interpreter of a virtual environment on Windows starts another one, with a pid of its own.
    if sys.platform != "win32" and server.pid != process.pid:
        process.terminate()  # it waits for its turn
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
    """Run `stop`: returns when the server has ended; the exit code.  Raises NotReady: it does not end, or it is out of
    reach."""
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
    """Send SIGTERM to the server, and to no other process that has its pid by now.  Raises NotReady: the pid is not
    that of the server here."""
    pidfd = None
    with contextlib.suppress(OSError):  # Linux before 5.3 has none
        pidfd = os.pidfd_open(server.pid) if sys.platform == "linux" else None
    try:
        if not is_locked(record):
            return
        # It lived after `pidfd_open`, so the descriptor is that of the server, if the pid is.
        if not _has_open(server.pid, record):
            message = f"Your server runs in another container: process {server.pid} here is not that server."
            raise NotReady(message, remedy="Stop it from its own container.")
        with contextlib.suppress(OSError):  # it has just ended, which Windows calls a wrong parameter
            if sys.platform == "linux" and pidfd is not None:
                signal.pidfd_send_signal(pidfd, signal.SIGTERM)
            else:
                os.kill(server.pid, signal.SIGTERM)
    finally:
        if pidfd is not None:
            os.close(pidfd)


def _has_open(pid: int, descriptor: int) -> bool:
    """Tell whether the process has the file open; taken for granted where the system does not tell."""
    if not os.path.isdir("/proc/self/fd"):
        return True
    wanted = os.fstat(descriptor)
    with contextlib.suppress(OSError):  # no such process, or another user's
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(f"/proc/{pid}/fd/{name}"), wanted):
                    return True
    return False


def status(arguments: Namespace, settings: Settings) -> int:
    """Run `status`; the exit code says whether the server answers."""
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
