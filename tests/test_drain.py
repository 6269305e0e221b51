"""A server that is stopped: what it accepted is answered, one way or the other."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from apply_service.clients.http import HttpClient
from apply_service.errors import ApplyError, NotReady, Unreachable
from apply_service.settings import Settings
from apply_service.types import ApplyRequest, TokenEvent
from tests.doubles import ScriptedRun, wait_for
from tests.live_server import stoppable_server

REQUEST = ApplyRequest(original="old\n", update="new\n")


class Caller(threading.Thread):
    """Asks in the background, and keeps what came of it."""

    def __init__(self, client: HttpClient) -> None:
        super().__init__()
        self.client = client
        self.answer: object = None
        self.start()

    def run(self) -> None:
        try:
            self.answer = self.client.apply(REQUEST)
        except ApplyError as error:
            self.answer = error


def test_running_and_queued_requests_finish_within_the_drain() -> None:
    gate = threading.Event()
    run = ScriptedRun(gate=gate)
    with stoppable_server(run, Settings(drain_timeout_s=20)) as (url, service, server):
        callers = [Caller(HttpClient(url)) for _ in range(3)]
        assert wait_for(lambda: service.queue_length == 2)
        server.should_exit = True
        assert wait_for(lambda: not service.is_ready)
        assert wait_for(lambda: is_refused(url)), "a late client is told at once, by its own system"
        gate.set()
        for caller in callers:
            caller.join(10)
    assert [caller.answer for caller in callers] == [run.result] * 3


def is_refused(url: str) -> bool:
    try:
        HttpClient(url).health()
    except Unreachable:
        return True
    return False


def test_what_does_not_finish_in_time_is_told_so() -> None:
    run = ScriptedRun(gate=threading.Event())
    with stoppable_server(run, Settings(drain_timeout_s=0.05)) as (url, service, server):
        callers = [Caller(HttpClient(url)) for _ in range(3)]
        assert wait_for(lambda: service.queue_length == 2)
        server.should_exit = True
        for caller in callers:
            caller.join(10)
    assert [type(caller.answer) for caller in callers] == [NotReady] * 3
    assert run.n_closed == run.n_started == 1


def test_a_stream_that_is_cut_by_the_drain_ends_in_an_error_event() -> None:
    run = ScriptedRun(gate=threading.Event())
    with stoppable_server(run, Settings(drain_timeout_s=0.05)) as (url, _, server):
        events = HttpClient(url).stream(REQUEST)
        assert next(events) == TokenEvent("ne")
        server.should_exit = True
        with pytest.raises(NotReady):
            list(events)


HANGING_SERVER = """
import time
from argparse import Namespace
from apply_service import build, service
from apply_service.commands import serve
from apply_service.settings import Settings
from apply_service.types import TokenEvent

def hang(request, deadline):
    yield TokenEvent("x")
    time.sleep(60)

class Runtime:
    def load(self, name):
        pass

build.open_service = lambda runtime, settings: service.Service(hang)
build.build_runtime = lambda settings: Runtime()
service.JOIN_TIMEOUT_S = 0.1
serve.run(Namespace(background=False), Settings(port=0, drain_timeout_s=0))
"""


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_server_whose_engine_hangs_still_stops() -> None:
    with subprocess.Popen([sys.executable, "-c", HANGING_SERVER], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if line.startswith("Serving"))
        events = HttpClient(line.split(" on ")[1].strip()).stream(REQUEST)
        assert next(events) == TokenEvent("x")
        process.send_signal(signal.SIGTERM)
        with pytest.raises(NotReady):
            next(events)
        assert process.wait(20) == 0
