"""`start`, `stop`, `status`, and `--server auto`: a server of the user's own, which a dead one's files never fake."""

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from apply_service.api.keys import format_entry
from apply_service.cli import build_parser, main, parse
from apply_service.clients.http import HttpClient
from apply_service.commands import background
from apply_service.commands.background import choose_server, find_server, folder_of, held
from apply_service.errors import NotReady, Unauthorized
from apply_service.settings import Settings, load_settings
from apply_service.types import ApplyRequest
from tests.doubles import wait_for

UPDATE = "# ... existing code ...\ndef g():\n    return 3\n"
BEFORE = "def f():\n    return 1\n\n\ndef g():\n    return 2\n"


@pytest.fixture
def settings(folder: Path) -> Settings:
    (folder / "b.py").write_text(BEFORE)
    (folder / "update.py").write_text(UPDATE)
    return load_settings()


@pytest.fixture
def silent(settings: Settings) -> Iterator[socket.socket]:
    """What the user's server leaves on disk, and a port that takes connections and says nothing."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        held(settings) as (_, publish),
    ):
        publish(f"http://127.0.0.1:{listener.getsockname()[1]}")
        yield listener


def start(*options: str) -> str:
    """What the command says.  A process of its own: the one that starts a server is its parent as long as it lives."""
    command = [sys.executable, "-m", "apply_service.cli", "start", *options]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True).stderr


def of_apply(*words: str) -> Namespace:
    return parse(build_parser(), ["apply", "b.py", "update.py", *words])


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals and modes")
def test_a_life(settings: Settings, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 4
    assert "apply-service stop" in start("--log-level", "info")
    try:
        server = find_server(settings)
        assert server is not None
        for name in ("server.json", "keys.toml", "log", "lock"):
            assert stat.S_IMODE((folder_of(settings) / name).stat().st_mode) == 0o600
        assert stat.S_IMODE(folder_of(settings).stat().st_mode) == 0o700
        with pytest.raises(Unauthorized):
            HttpClient(server.url).apply(ApplyRequest(BEFORE, UPDATE))
        assert f"runs already: {server.url}" in start()
        assert find_server(settings) == server
        capsys.readouterr()
        assert main(["status", "--json"]) == 0
        told = capsys.readouterr().out
        assert json.loads(told)["pid"] == server.pid
        assert server.key not in told

        log = folder_of(settings) / "log"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(background, "PROBE_S", 5.0)  # this machine may be busy
            assert main(["apply", "b.py", "update.py", "-i"]) == 0
        assert (folder / "b.py").read_text() == BEFORE.replace("return 2", "return 3")
        assert wait_for(lambda: '"/v1/apply"' in log.read_text(), 10)

        (folder_of(settings) / "keys.toml").write_text(format_entry("other", "other-key-0123456789-0123456789"))
        os.kill(server.pid, signal.SIGHUP)
        assert wait_for(lambda: "API keys loaded: 1" in log.read_text().partition("has gone: 0")[2], 10)
        with pytest.raises(Unauthorized):
            HttpClient(server.url, api_key=server.key).apply(ApplyRequest(BEFORE, UPDATE))

        os.kill(server.pid, signal.SIGKILL)
        assert wait_for(lambda: find_server(settings) is None, 10)
        assert main(["status"]) == 4
        assert main(["apply", "b.py", "update.py", "-i"]) == 0  # without it
        start()
        again = find_server(settings)
        assert again is not None
        assert again.key != server.key
    finally:
        assert main(["stop"]) == 0
    assert find_server(settings) is None
    assert not (folder_of(settings) / "server.json").exists()
    assert main(["stop"]) == 0


def test_what_a_dead_server_left_is_no_server(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pid is another process's by now, its port another user's."""
    with held(settings) as (_, publish):
        publish("http://127.0.0.1:9")
        left = (folder_of(settings) / "server.json").read_bytes()
        assert find_server(settings) is not None
    (folder_of(settings) / "server.json").write_bytes(left)
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("a signal was sent"))
    assert find_server(settings) is None
    assert main(["stop"]) == 0
    assert main(["status"]) == 4
    assert choose_server(of_apply(), settings).server is None


@pytest.mark.parametrize("left", [b"", b"{", b"[]", b'{"pid": 1}', b"\xff"])
def test_files_that_make_no_sense(settings: Settings, left: bytes) -> None:
    with held(settings):
        (folder_of(settings) / "server.json").write_bytes(left)
        assert find_server(settings) is None


def test_the_lock_of_windows(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no `flock`; the file's first byte is locked, by whoever opened it first."""
    owners: list[int] = []

    def locking(descriptor: int, mode: int, n_bytes: int) -> None:
        if any(owner != descriptor for owner in owners):
            raise OSError(36, "deadlock avoided")
        owners.append(descriptor)

    msvcrt = ModuleType("msvcrt")
    vars(msvcrt).update(LK_NBLCK=2, locking=locking)
    monkeypatch.setitem(sys.modules, "msvcrt", msvcrt)
    monkeypatch.setattr(background.sys, "platform", "win32")
    with held(settings) as (_, publish):
        publish("http://127.0.0.1:9")
        assert find_server(settings) is not None
    owners.clear()
    assert find_server(settings) is None


def test_windows_starts_and_stops_one(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no session to start; and a process that has just ended is a wrong parameter, not one that is missing."""
    server = background.UserServer(4, "http://127.0.0.1:9", "key", ["embedded"], 0.0)
    found = iter([None, server, server])
    started: dict[str, object] = {}

    def popen(command: list[str], **options: object) -> SimpleNamespace:
        started.update(options)
        return SimpleNamespace(poll=lambda: None)

    def kill(*_: object) -> None:
        raise OSError(22, "The parameter is incorrect")

    monkeypatch.setenv("LOCALAPPDATA", str(settings.state_path.parent))
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(subprocess, "DETACHED_PROCESS", 8, raising=False)
    monkeypatch.setattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 512, raising=False)
    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr(background, "find_server", lambda _: next(found))
    monkeypatch.setattr(background, "_is_ready", lambda *_: True)
    monkeypatch.setattr(background, "is_locked", lambda _: False)
    assert main(["start"]) == 0
    assert started["creationflags"] == 8 | 512
    assert "start_new_session" not in started
    assert main(["stop"]) == 0
    assert "your server has stopped" in capsys.readouterr().err


def test_there_is_one(settings: Settings) -> None:
    with held(settings), pytest.raises(NotReady), held(settings):
        pass


def test_a_server_that_says_nothing_costs_a_moment(settings: Settings, silent: socket.socket) -> None:
    started = time.thread_time(), time.perf_counter()
    assert choose_server(of_apply(), settings).server is None
    waited = time.perf_counter() - started[1] - (time.thread_time() - started[0])
    assert background.PROBE_S <= 0.05
    assert waited < 10 * background.PROBE_S  # generous: other processes may run meanwhile


def test_who_is_asked(settings: Settings, silent: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_is_ready", lambda *_: True)
    server = find_server(settings)
    assert server is not None

    def chosen(*words: str) -> str | None:
        arguments = of_apply(*words)
        given = {name: getattr(arguments, name, None) for name in ("model", "server", "device")}
        return choose_server(arguments, load_settings(given)).server

    assert chosen() == server.url
    assert chosen("--model", "embedded") == server.url
    assert chosen("--device", "cpu") is None
    assert chosen("--model", "another") is None
    assert chosen("--server", "none") is None
    assert chosen("--server", "http://127.0.0.1:9") == "http://127.0.0.1:9"
    monkeypatch.setenv("APPLY_MODEL", "another")
    assert chosen() is None
    monkeypatch.setattr(background, "_is_ready", lambda *_: False)
    monkeypatch.delenv("APPLY_MODEL")
    assert chosen() is None


def test_that_it_answered_is_told(
    folder: Path, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("apply_service.commands.apply.choose_server", lambda _, settings: replace(settings, server=url))
    told = f"answered by your server, {url}"
    for options, is_told in (((), True), (("--quiet",), False), (("--server", url), False)):
        assert main(["apply", "a.py", "edit.txt", *options]) == 0
        assert (told in capsys.readouterr().err) == is_told, options


def test_a_server_that_does_not_start(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["start", "--drafter", "nonsense"]) == 4
    err = capsys.readouterr().err
    assert "The server did not start" in err
    assert "no such drafter: nonsense" in err
    assert str(folder.parent / "state" / "apply-service" / "server" / "log") in err


def test_a_terminal_is_told_what_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from apply_service.commands import output

    monkeypatch.setattr(output, "SPIN_S", 0.001)
    with output.spinning("loading m"):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with contextlib.suppress(ValueError), output.spinning("loading m"):
        time.sleep(0.05)
        raise ValueError
    err = capsys.readouterr().err
    assert "loading m (0 s)" in err
    assert err.endswith("\033[K")
