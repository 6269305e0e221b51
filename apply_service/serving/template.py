"""Starts the process that workers are forked from (the template), and asks it for workers.

    service   asks over a socket (`fork`), and passes on the worker's ends of two more sockets
    template  forks, answers with the pid, and reaps the worker once its `Fork` lets go of it
    worker    serves calls (`child.serve`)

The template lives as long as the socket, which has no name in the file system that others could remove.  A template
that does not answer is started anew.  The standard library's fork server has a socket with a name, and is not started
anew if it hangs.  It also leaves its children behind when the service is killed, and imports its own modules from the
current folder.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from apply_service.isolation import clean_environment, python_command

START_LIMIT_S = 60.0
"""How long the template may take to import everything.  On an idle machine it takes a second."""
FORK_LIMIT_S = 5.0
"""How long the template may take to fork after that.  A fork usually takes a few milliseconds."""
END_LIMIT_S = 1.0
"""How long to wait for a killed process to end.  A process that hangs in the kernel takes longer."""
POLL_S = 0.05


class Fork:
    """A forked worker.  Its real parent is the template.  No other process gets its pid before `end` is called."""

    def __init__(self, pid: int, hold: socket.socket) -> None:
        self.pid = pid
        self._hold = hold

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def end(self, limit_s: float) -> int | None:
        """Let the template kill and reap the worker.  Return the exit code, or None if it can't be learnt in time."""
        with self._hold as hold, contextlib.suppress(OSError):
            hold.shutdown(socket.SHUT_WR)
            hold.settimeout(limit_s)
            if status := hold.recv(4):
                return int.from_bytes(status, "big", signed=True)
        return None


class TemplateGone(Exception):
    """The template has ended, or does not answer in time."""


class WorkerTemplate:
    """The service's side of the template process.  Not thread-safe."""

    def __init__(self) -> None:
        """Start the process.  Raises OSError."""
        line, theirs = socket.socketpair()
        with theirs, contextlib.ExitStack() as stack:
            stack.enter_context(line)
            self._process = subprocess.Popen(
                [*python_command("apply_service.serving.child", "run_template"), str(theirs.fileno())],
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # an MCP server's standard output belongs to its protocol
                pass_fds=[theirs.fileno()],
                process_group=0,  # else Ctrl-C would reach it; the service ends its workers itself
            )
            stack.pop_all()
        self._line = line
        self._is_ready = False

    def fork(self, line: socket.socket, is_wanted: Callable[[], bool]) -> Fork:
        """Return a new worker that serves this socket.  Raises OSError if the system has no room for a process, and
        TemplateGone if the template does not answer or `is_wanted` returns False."""
        if not self._is_ready:
            self._answer(START_LIMIT_S, is_wanted)
            self._is_ready = True
        hold, theirs = socket.socketpair()
        try:
            try:
                with theirs:
                    socket.send_fds(self._line, [b"f"], [line.fileno(), theirs.fileno()])
            except OSError as error:
                raise TemplateGone from error
            pid = self._answer(FORK_LIMIT_S, is_wanted)
            if pid < 0:
                raise OSError(-pid, os.strerror(-pid))
            return Fork(pid, hold)
        except BaseException:
            hold.close()
            raise

    def close(self) -> None:
        """End the template and all workers that it has forked, whatever state it is in."""
        self._line.close()
        if not self._is_ready:
            self._process.kill()
        try:
            self._process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_LIMIT_S)

    def _answer(self, limit_s: float, is_wanted: Callable[[], bool]) -> int:
        until = time.monotonic() + limit_s
        self._line.settimeout(POLL_S)
        answer = None
        while answer is None:
            try:
                answer = self._line.recv(8)
            except TimeoutError:
                if not is_wanted() or time.monotonic() > until:
                    raise TemplateGone from None
            except OSError as error:
                raise TemplateGone from error
        if not answer:
            raise TemplateGone
        return int.from_bytes(answer, "big", signed=True)


_lock = threading.Lock()
_template: WorkerTemplate | None = None


def fork(line: socket.socket, is_wanted: Callable[[], bool]) -> Fork:
    """Return a new worker that serves this socket, forked from this process's template.  The template is started when
    it is first needed, and again if it can't be reached.  Raises OSError if there is no room for a process, and
    TemplateGone if the new template can't be reached either or `is_wanted` returns False."""
    global _template
    while not _lock.acquire(timeout=POLL_S):
        if not is_wanted():
            raise TemplateGone
    try:
        for is_last in (False, True):
            _template = _template or WorkerTemplate()
            try:
                return _template.fork(line, is_wanted)
            except TemplateGone:
                close()
                if is_last or not is_wanted():
                    raise
        raise AssertionError("the last try returns or raises")
    finally:
        _lock.release()


def close() -> None:
    """End this process's template."""
    global _template
    if _template is not None:
        _template.close()
    _template = None


def _forget() -> None:
    """Give up the template in a fork of this process, because the two processes can't share it."""
    global _lock, _template
    _lock, _template = threading.Lock(), None


atexit.register(close)
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget)
