"""`start`, `stop`, `status`, and `--server auto`: a server of the user's own, which a dead one's files never fake."""

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
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
from apply_service.errors import FileNotWritable, NotReady, Unauthorized
from apply_service.settings import Settings, load_settings
from apply_service.types import ApplyRequest
from tests.doubles import ScriptedRun, wait_for
from tests.live_server import stoppable_server
from tests.other_user import needs_root

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


@pytest.fixture
def stranger() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that no signal may reach."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        assert process.poll() is None, "a stranger was killed"
        process.kill()


START = (sys.executable, "-m", "apply_service.cli", "start")


def start(*options: str) -> str:
    """What the command says.  A process of its own: the one that starts a server is its parent as long as it lives."""
    return subprocess.run([*START, *options], stderr=subprocess.PIPE, text=True, check=True).stderr


def record(pid: int, url: str = "http://127.0.0.1:9", models: object = ("embedded",)) -> str:
    """What a server of this pid and URL writes."""
    return json.dumps({"pid": pid, "url": url, "key": "key", "models": models, "started": 0.5})


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
        assert f"is already running: {server.url}" in start()
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
    assert (folder_of(settings) / "server.json").read_bytes() == b""
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


@pytest.mark.skipif(os.name == "nt", reason="flock")
@pytest.mark.parametrize("mode", ["shared", "exclusive"])
def test_a_stale_file_while_others_look(
    settings: Settings, stranger: "subprocess.Popen[bytes]", mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who looks may hold a lock for a moment: that makes no dead server alive."""
    import fcntl

    folder = folder_of(settings)
    with held(settings):
        pass
    (folder / "server.json").write_text(record(stranger.pid))
    with open(folder / "lock", "r+b") as lock, open(folder / "server.json", "rb") as file:
        fcntl.flock(lock, fcntl.LOCK_EX if mode == "exclusive" else fcntl.LOCK_SH)
        fcntl.flock(file, fcntl.LOCK_SH)
        assert main(["stop"]) == 0
        assert main(["status", "--json"]) == 4
        assert choose_server(of_apply(), settings).server is None
    assert json.loads(capsys.readouterr().out)["is_running"] is False


def test_many_who_look_disturb_nobody(settings: Settings) -> None:
    """A stale file lies there, which all of them read while servers come and go."""
    with held(settings) as (_, publish):
        publish("http://127.0.0.1:9")
        left = (folder_of(settings) / "server.json").read_bytes()
    (folder_of(settings) / "server.json").write_bytes(left)
    has_ended, taken = threading.Event(), list[str]()

    def look() -> None:
        while not has_ended.is_set():
            if (server := find_server(settings)) is not None:
                taken.append(server.url)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            with held(settings) as (_, publish):
                time.sleep(0.001)
                publish("http://127.0.0.1:8")
                assert find_server(settings) is not None
    finally:
        has_ended.set()
        for thread in threads:
            thread.join()
    assert set(taken) <= {"http://127.0.0.1:8"}


def test_a_file_put_in_the_place_of_a_live_one(settings: Settings, stranger: "subprocess.Popen[bytes]") -> None:
    """It is not the one that the server has locked."""
    with held(settings) as (_, publish):
        publish("http://127.0.0.1:9")
        planted = folder_of(settings) / "planted"
        planted.write_text(record(stranger.pid))
        os.replace(planted, folder_of(settings) / "server.json")
        assert find_server(settings) is None
        assert main(["stop"]) == 0


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system tells who has a file open")
def test_a_pid_that_is_not_the_servers(
    settings: Settings, stranger: "subprocess.Popen[bytes]", capsys: pytest.CaptureFixture[str]
) -> None:
    """Written into the live file, or counted in another container."""
    with held(settings) as (_, publish):
        publish("http://127.0.0.1:9")
        (folder_of(settings) / "server.json").write_text(record(stranger.pid))
        assert main(["stop", "--drain-timeout-s", "0"]) == 4
    assert f"process {stranger.pid} here is not that server" in capsys.readouterr().err


def test_a_pid_that_is_taken_again_between_the_looks(
    settings: Settings, stranger: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends after it was found, and the stranger gets its pid."""
    look, looks = background.is_locked, iter([True])
    monkeypatch.setattr(background, "is_locked", lambda record: next(looks, False) or look(record))
    with held(settings):
        pass
    (folder_of(settings) / "server.json").write_text(record(stranger.pid))
    assert main(["stop"]) == 0


@pytest.mark.parametrize(
    "left",
    [
        *("", "{", "[]", '{"pid": 1}', "\xff", "[" * 100_000),
        *(record(pid) for pid in (-1, 0, 1, 2**31, 2**63)),
        record(4, "http://example.org:80"),
        record(4, models=[]),
        record(4, models=[1]),
        record(4).replace("4", '"4"'),
        record(4).replace("}", ', "more": 1}'),
    ],
    ids=lambda left: left[:30],
)
def test_files_that_make_no_sense(settings: Settings, left: str) -> None:
    with held(settings):
        (folder_of(settings) / "server.json").write_text(left, encoding="latin-1")
        assert find_server(settings) is None
        (folder_of(settings) / "server.json").write_text(record(4))
        assert find_server(settings) is not None


def test_the_lock_of_windows(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no shared one: a server locks all the bytes, and whoever looks tries one of them, which is its own."""
    locks: list[tuple[int, int, int]] = []

    def locking(descriptor: int, mode: int, n_bytes: int) -> None:
        file, first = os.fstat(descriptor).st_ino, os.lseek(descriptor, 0, os.SEEK_CUR)
        assert first > os.fstat(descriptor).st_size
        assert n_bytes < 2**31
        if mode == msvcrt.LK_UNLCK:
            locks.remove((file, first, first + n_bytes))
            return
        if any(other == file and start < first + n_bytes and first < end for other, start, end in locks):
            raise OSError(36, "deadlock avoided")
        locks.append((file, first, first + n_bytes))

    msvcrt = ModuleType("msvcrt")
    vars(msvcrt).update(LK_UNLCK=0, LK_NBLCK=2, locking=locking)
    monkeypatch.setitem(sys.modules, "msvcrt", msvcrt)
    monkeypatch.setattr(background.sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(settings.state_path.parent))
    with held(settings) as (_, publish):
        publish("http://127.0.0.1:9")
        assert find_server(settings) is not None
        left = (folder_of(settings) / "server.json").read_bytes()
    locks.clear()
    (folder_of(settings) / "server.json").write_bytes(left)
    file = (folder_of(settings) / "server.json").stat().st_ino
    for pid in (4, 2**32 - 4):  # others look
        if pid != os.getpid():
            first = background.LOCK_FROM + pid // 4 % background.LOCK_BYTES
            locks.append((file, first, first + 1))
    assert find_server(settings) is None
    assert len(locks) == 2


def test_windows_starts_and_stops_one(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no session to start; and a process that has just ended is a wrong parameter, not one that is missing."""
    server = background.UserServer(4, "http://127.0.0.1:9", "key", ["embedded"], 0.0)
    found = iter([None, server])
    started: dict[str, object] = {}

    def popen(command: list[str], **options: object) -> SimpleNamespace:
        started.update(options)
        return SimpleNamespace(pid=5)  # of the launcher of a virtual environment

    def kill(*_: object) -> None:
        raise OSError(22, "The parameter is incorrect")

    monkeypatch.setenv("LOCALAPPDATA", str(settings.state_path.parent))
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(subprocess, "DETACHED_PROCESS", 8, raising=False)
    monkeypatch.setattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 512, raising=False)
    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr(background, "find_server", lambda _: next(found))
    monkeypatch.setattr(background, "_read", lambda _: server)
    monkeypatch.setattr(background, "_is_ready", lambda *_: True)
    looks = iter([True, False])
    monkeypatch.setattr(background, "is_locked", lambda _: next(looks))
    monkeypatch.setattr(background, "_has_open", lambda *_: True)
    assert main(["start"]) == 0
    (folder_of(settings) / "server.json").touch()
    assert started["creationflags"] == 8 | 512
    assert "start_new_session" not in started
    assert main(["stop"]) == 0
    assert "Your server has stopped." in capsys.readouterr().err


def test_there_is_one(settings: Settings) -> None:
    with held(settings) as (_, publish):
        publish("http://127.0.0.1:9")
        with pytest.raises(NotReady, match="already running"), held(settings):
            pass


def test_of_two_at_once_the_second_waits(settings: Settings) -> None:
    both = [subprocess.Popen(START, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        told = sorted((process.communicate()[1] for process in both), key=len)
        server = find_server(settings)
        assert server is not None
        assert [process.returncode for process in both] == [0, 0], told
        assert told[0] == f"Your server is already running: {server.url}; stop it with `apply-service stop`.\n"
        assert f"Your server is running: {server.url}" in told[1]
        assert "runs already" not in (folder_of(settings) / "log").read_text()
    finally:
        assert main(["stop"]) == 0


def test_one_that_does_not_come_up_makes_room(settings: Settings) -> None:
    """The first loads, or stops, for as long as it likes; once it has gone, the second takes its place."""
    with held(settings) as (_, publish):
        publish("http://127.0.0.1:9")
        publish("")
        process = subprocess.Popen(START, stderr=subprocess.PIPE, text=True)
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                process.communicate(timeout=2)
        except BaseException:
            process.kill()
            raise
    try:
        assert "Your server is running: " in process.communicate()[1]
        assert process.returncode == 0
    finally:
        assert main(["stop"]) == 0


def test_a_server_that_stops_is_asked_no_more(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    """It closes its port before it ends, and the port may be another user's then."""
    with held(settings) as (_, publish):
        publish("http://127.0.0.1:9")
        publish("")
        assert find_server(settings) is None
        assert choose_server(of_apply(), settings).server is None
        assert find_server(settings, even_stopping=True) is not None
        assert main(["status"]) == 4
        assert f"is stopping; pid {os.getpid()}" in capsys.readouterr().out


def test_it_is_withdrawn_while_the_port_is_still_its_own(run: ScriptedRun) -> None:
    answered: list[bool] = []
    with stoppable_server(run, Settings(drain_timeout_s=0)) as (url, _, server):

        def withdraw() -> None:
            with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=5):
                answered.append(True)
            raise FileNotWritable("the disk is full")

        server._withdraw = withdraw
    assert answered == [True]


# -- a state folder that cannot be used, or that somebody has prepared -------------------------------------------------
def test_no_folder_can_be_made(settings: Settings, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = ("--state-dir", str(folder / "a.py" / "state"))
    assert main(["start", *state]) == 3
    err = capsys.readouterr().err
    assert "Not a directory" in err
    assert "--state-dir" in err
    assert main(["status", *state]) == 4
    assert main(["stop", *state]) == 0
    assert main(["apply", "b.py", "update.py", *state]) == 0


@pytest.mark.parametrize("name", ["log", "lock", "keys.toml", "server.json"])
def test_a_file_that_cannot_be_opened(settings: Settings, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder_of(settings) / name).mkdir(parents=True)
    assert main(["start"]) == 4
    err = capsys.readouterr().err
    assert "Is a directory" in err
    assert "--state-dir" in err
    assert "Traceback" not in err
    assert main(["stop"]) == 0
    assert main(["apply", "b.py", "update.py"]) == 0


@pytest.mark.skipif(os.name == "nt", reason="POSIX limits")
def test_a_full_disk(settings: Settings) -> None:
    import resource

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    done = subprocess.run(START, stderr=subprocess.PIPE, text=True, preexec_fn=fill)
    assert done.returncode == 4
    assert "Cannot write the server's files" in done.stderr
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr


def test_one_that_ends_without_a_word(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its log may be on a disk that is full."""
    monkeypatch.setattr(background, "python_command", lambda _: [sys.executable, "-c", "import os; os._exit(7)"])
    assert main(["start"]) == 4
    assert "code 7" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="links")
@pytest.mark.parametrize("name", ["log", "lock", "server.json", "keys.toml", "server.draft", "keys.draft"])
def test_no_link_is_followed(settings: Settings, folder: Path, name: str) -> None:
    target = folder / "precious"
    target.write_text("precious")
    target.chmod(0o644)
    folder_of(settings).mkdir(parents=True)
    (folder_of(settings) / name).symlink_to(target)
    started = subprocess.run(START, stderr=subprocess.PIPE, text=True)
    try:
        assert (started.returncode == 0) == (name not in ("log", "lock")), started.stderr
        assert started.returncode == 0 or "it is a link" in started.stderr
    finally:
        assert main(["stop"]) == 0
    assert target.read_text() == "precious"
    assert stat.S_IMODE(target.stat().st_mode) == 0o644


@pytest.mark.skipif(os.name == "nt", reason="links")
def test_a_folder_that_is_a_link(settings: Settings, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "elsewhere").mkdir()
    settings.state_path.mkdir(parents=True)
    folder_of(settings).symlink_to(folder / "elsewhere")
    for command, code in (("start", 3), ("status", 3), ("stop", 3)):
        assert main([command]) == code
        assert "it is a link" in capsys.readouterr().err
    assert main(["apply", "b.py", "update.py"]) == 0
    assert list((folder / "elsewhere").iterdir()) == []


@needs_root
def test_a_folder_of_another_user(
    settings: Settings, stranger: "subprocess.Popen[bytes]", capsys: pytest.CaptureFixture[str]
) -> None:
    """He may have put a file there, and hold its lock."""
    with held(settings) as (_, publish):
        publish("http://127.0.0.1:9")
        (folder_of(settings) / "server.json").write_text(record(stranger.pid))
        os.chown(folder_of(settings), 1001, 1001)
        for command in ("start", "status", "stop"):
            assert main([command]) == 3
            assert "it belongs to another user" in capsys.readouterr().err
        assert choose_server(of_apply(), settings).server is None
        assert folder_of(settings).stat().st_uid == 1001


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
    monkeypatch.setenv("APPLY_SERVICE_MODEL", "another")
    assert chosen() is None
    monkeypatch.setattr(background, "_is_ready", lambda *_: False)
    monkeypatch.delenv("APPLY_SERVICE_MODEL")
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
    first, *more = capsys.readouterr().err.splitlines()
    assert first.startswith("apply-service: The server did not start: ")
    assert first.endswith("No such drafter: nonsense")
    assert any("merged_edit" in line for line in more)


def test_a_server_that_dies_without_an_error_of_ours(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crash = "import sys; sys.stderr.write('Traceback of the start\\nValueError: 7\\n'); sys.exit(1)"
    monkeypatch.setattr(background, "python_command", lambda _: [sys.executable, "-c", crash])
    assert main(["start"]) == 4
    assert capsys.readouterr().err.splitlines() == [
        "apply-service: The server did not start:",
        "Traceback of the start",
        "ValueError: 7",
        f"  Its whole log: {folder.parent / 'state' / 'apply-service' / 'server' / 'log'}",
    ]


def test_a_port_that_is_taken(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        assert main(["start", "--port", port]) == 4
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(f"apply-service: The server did not start: Cannot listen on 127.0.0.1:{port}: ")
    assert lines[1:] == ["  Choose another --host or --port; port 0 takes a free one."]


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


def test_its_own_state_folder(settings: Settings, folder: Path) -> None:
    """As the help of `stop` and the remedies of `start` say."""
    state = ("--state-dir", str(folder / "elsewhere"))
    try:
        assert "Your server is running" in start(*state)
        assert main(["status", *state]) == 0
    finally:
        assert main(["stop", *state]) == 0


@pytest.mark.parametrize("state", ["~nobody-at-all/x", "x" * 300])
@pytest.mark.parametrize("command", ["start", "status", "stop", "recover", "undo a.py", "apply b.py update.py -i"])
def test_a_state_folder_that_is_no_name(settings: Settings, command: str, state: str) -> None:
    environment = {**os.environ, "APPLY_SERVICE_STATE_DIR": state}
    words = [sys.executable, "-m", "apply_service.cli", *command.split()]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
