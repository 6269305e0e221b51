"""Runs in the processes beside the service: the template, which forks workers, and the workers.

The template has imported our modules and has one thread.  A fork of the service itself would copy the engine's locks in
whatever state they are at that moment.  When the service ends, for any reason, the template kills the workers and ends
too.  The service talks to the template through `template`, and to a worker through `workers`.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import selectors
import signal
import socket
import sys
import traceback
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

from apply_service.errors import ApplyError
from apply_service.registry import CHECKS, EDIT_FORMATS

PRELOADED = ("apply_service.pipeline", "apply_service.api.app")
"""Modules to import besides formats and checks.  The last one parses bodies; importing it takes 0.3 s."""
READY = 0
"""Sent by the template instead of a pid, once it has imported everything."""
NICENESS = 5
"""Added to the nice value of workers (`os.nice`), so that the engine and the event loop come first."""


# -- a worker ----------------------------------------------------------------------------------------------------------
class End(NamedTuple):
    """How a call ended: with a value, an ApplyError, or a crash.  A crash has the exception's class and trace, but not
    its message, which may quote code."""

    value: Any = None
    error: ApplyError | None = None
    crash: str = ""
    trace: str = ""

    @classmethod
    def of(cls, error: BaseException) -> End:
        if isinstance(error, ApplyError):
            return cls(error=error)
        return cls(crash=type(error).__name__, trace="".join(traceback.format_tb(error.__traceback__)))


def serve(line: Connection[Any, Any]) -> None:
    """Make the calls that come over the line and send back the `End` of each, until the line is closed.  A None instead
    of a call asks whether the process is alive."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service ends its workers itself
    if sys.platform != "win32":
        os.nice(NICENESS)
    while True:
        try:
            payload = line.recv_bytes()
            try:
                call, processor_s = ForkingPickler.loads(payload)
                limit_processor(processor_s)
                end = End(None if call is None else call())
                limit_processor(None)
            except BaseException as error:  # also a panic in native code
                end = End.of(error)
            try:
                answer = ForkingPickler.dumps(end)
            except Exception as error:  # the value can't be pickled
                answer = ForkingPickler.dumps(End.of(error))
            line.send_bytes(answer)
        except (EOFError, OSError):
            return


def limit_processor(seconds: float | None) -> None:
    """Let the system end this process after `seconds` more of processor time; None sets no limit.  Windows can't do
    this."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds or 0.0)


def main() -> None:
    """Run a worker that was not forked.  Its argument is the number of its socket; on Windows the socket comes through
    standard input."""
    if sys.platform == "win32":
        line = socket.fromshare(sys.stdin.buffer.read())
    else:
        line = socket.socket(fileno=int(sys.argv[1]))
    serve(Connection(line.detach()))


# -- the template ------------------------------------------------------------------------------------------------------
def run_template() -> None:
    """Run the template.  Its argument is the number of its socket."""
    line = socket.socket(fileno=int(sys.argv[1]))
    named = (name.partition(":")[0] for name in (*EDIT_FORMATS.values(), *CHECKS.values()))
    for name in (*PRELOADED, *named):
        import_module(name)
    gc.freeze()  # a collection in a worker would copy the memory that all share
    _Forks(line).serve()
    os._exit(0)


class _Forks:
    """The workers that the template has forked."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._held: dict[socket.socket, int] = {}
        """The pids of the workers that the service uses, by their sockets."""
        self._let_go: dict[int, socket.socket] = {}
        """Killed workers that have not been reaped yet, with the sockets to which their exit codes are sent."""
        self._selector = selectors.DefaultSelector()
        self._selector.register(line, selectors.EVENT_READ)
        signals, self._tell = socket.socketpair()
        for end in (signals, self._tell):
            end.setblocking(False)
        self._selector.register(signals, selectors.EVENT_READ)
        self._signals = signals
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._tell.fileno(), warn_on_full_buffer=False)

    def serve(self) -> None:
        """Fork and reap until the service is gone."""
        with contextlib.suppress(OSError):  # if the service is gone, reading the line below shows it
            self._line.sendall(READY.to_bytes(8, "big", signed=True))
        while True:
            for key, _ in self._selector.select():
                source: Any = key.fileobj
                if source is self._line:
                    if not self._fork():
                        for pid in self._held.values():
                            os.kill(pid, signal.SIGKILL)
                        return
                elif source is self._signals:
                    with contextlib.suppress(BlockingIOError):
                        source.recv(4096)
                else:
                    self._selector.unregister(source)
                    ended = self._held.pop(source)
                    os.kill(ended, signal.SIGKILL)
                    self._let_go[ended] = source
            for child in [*self._let_go]:
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    with self._let_go.pop(child) as hold, contextlib.suppress(OSError):
                        hold.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))

    def _fork(self) -> bool:
        """Fork a worker if the service asks for one.  Return False if the service is gone."""
        try:
            asked, numbers, _, _ = socket.recv_fds(self._line, 1, 2)
        except OSError:
            return False
        if not asked:
            return False
        if len(numbers) < 2:  # this process has no room for more descriptors
            for number in numbers:
                os.close(number)
            with contextlib.suppress(OSError):
                self._line.sendall((-errno.EMFILE).to_bytes(8, "big", signed=True))
            return True
        line, hold = (socket.socket(fileno=number) for number in numbers)
        try:
            pid = os.fork()
        except OSError as error:
            pid = -(error.errno or errno.EAGAIN)
        if pid == 0:
            self._become_worker(line, hold)
        line.close()
        if pid > 0:
            self._held[hold] = pid
            self._selector.register(hold, selectors.EVENT_READ)
        else:
            hold.close()
        with contextlib.suppress(OSError):  # if the service is gone, the next read of the line shows it
            self._line.sendall(pid.to_bytes(8, "big", signed=True))
        return True

    def _become_worker(self, line: socket.socket, hold: socket.socket) -> None:
        """Serve calls in the forked process.  Never returns."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            for end in (hold, self._line, self._signals, self._tell, *self._held, *self._let_go.values()):
                end.close()  # else the other workers would not notice when the template or the service is gone
            serve(Connection(line.detach()))
            code = 0
        finally:
            os._exit(code)
