"""`apply-service serve` as a process: a real model of random weights, real sockets, real signals."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from apply_service.api.keys import format_entry
from apply_service.clients.http import HttpClient
from apply_service.commands.serve import greet, open_listener
from apply_service.errors import ApplyError, Truncated, Unauthorized
from apply_service.settings import Settings
from apply_service.types import ApplyRequest
from tests.doubles import wait_for
from tests.engine.tiny_models import save_tiny

COMMAND = (sys.executable, "-m", "apply_service.cli")
ORIGINAL = b"import os\r\n\r\n\r\ndef one():\r\n    return 1\r\n"
DIFF = b"--- a/n.py\n+++ b/n.py\n@@ -4,2 +4,2 @@\n def one():\n-    return 1\n+    return 11\n"
MERGED = ORIGINAL.replace(b"return 1\r", b"return 11\r")
LONG = ApplyRequest(original="x = 1\n" * 60, update="y = 2\n# ... existing code ...\n", strategy="model")
"""A model of random weights writes nonsense until its limit."""

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("model") / "tiny")


@contextmanager
def serving(model: Path, *options: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A server process, once it listens; killed at the end if it still runs."""
    command = [*COMMAND, "serve", "--port", "0", "--model", str(model), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield _url(process), process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def url(model: Path) -> Iterator[str]:
    with serving(model) as (url, _):
        yield url


def test_health_and_documentation(url: str, model: Path) -> None:
    for path, key, value in (("healthz", "status", "ok"), ("readyz", "model", str(model))):
        with urlopen(f"{url}/{path}", timeout=10) as answer:
            assert json.load(answer)[key] == value
    with urlopen(f"{url}/docs", timeout=10) as page:
        assert b"/v1/apply" in page.read()


def test_server_and_command_line_give_the_same_bytes(url: str, tmp_path: Path) -> None:
    (tmp_path / "n.py").write_bytes(ORIGINAL)
    (tmp_path / "edit").write_bytes(DIFF)
    answers = [_run(tmp_path, "n.py", "--update", "edit", *options) for options in ((), ("--server", url))]
    assert [answer.returncode for answer in answers] == [0, 0], answers
    assert [answer.stdout for answer in answers] == [MERGED, MERGED]


def test_a_format_that_determines_the_result_imports_no_torch(tmp_path: Path) -> None:
    (tmp_path / "n.py").write_bytes(ORIGINAL)
    (tmp_path / "edit").write_bytes(DIFF)
    script = (
        "import sys; from apply_service.cli import main; code = main(sys.argv[1:]);"
        "print(code, sorted({'torch', 'transformers'} & set(sys.modules)), file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, "apply", "n.py", "--update", "edit", "-q", "--in-place"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, env=_environment(tmp_path), check=True)
    assert done.stderr.decode().splitlines()[-1] == "0 []"
    assert (tmp_path / "n.py").read_bytes() == MERGED


def test_a_target_that_never_ends_is_a_typed_error(url: str) -> None:
    with pytest.raises(Truncated):
        HttpClient(url).apply(LONG)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_stopped_server_answers_what_it_accepted(model: Path, number: signal.Signals) -> None:
    with serving(model) as (url, process):
        answers: list[str] = []
        thread = threading.Thread(target=_collect, args=(url, answers))
        thread.start()
        assert wait_for(lambda: bool(answers), 30)
        process.send_signal(number)
        thread.join(30)
        assert process.wait(30) == 0
    assert answers[-1] == Truncated.code


def test_a_hangup_reads_the_keys_again(model: Path, tmp_path: Path) -> None:
    """A stream whose key has gone ends; a file that can't be used is told, and changes nothing; without keys, a hangup
    is the end, as ever."""
    keys, (one, other) = tmp_path / "keys.toml", ("one-key-0123456789-0123456789", "other-key-0123456789-0123456789")
    keys.write_text(format_entry("one", one) + format_entry("other", other))
    with serving(model, "--keys-file", str(keys)) as (url, process):
        assert process.stderr is not None
        answers: list[str] = []
        thread = threading.Thread(target=_collect, args=(url, answers, one))
        thread.start()
        assert wait_for(lambda: bool(answers), 30)
        keys.write_text(format_entry("other", other))
        process.send_signal(signal.SIGHUP)
        thread.join(30)
        assert answers[-1] == Unauthorized.code
        _read_until(process, "API keys loaded: 1; requests in progress whose key has gone: 1")
        for key, status in ((one, Unauthorized.code), (other, "")):
            assert _refusal(url, key) == status
        keys.write_text("")
        process.send_signal(signal.SIGHUP)
        _read_until(process, "the API keys stay as they were: ")
        assert _refusal(url, other) == ""
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    with serving(model) as (_, process):
        process.send_signal(signal.SIGHUP)
        assert process.wait(30) == -signal.SIGHUP


def test_a_hangup_before_it_listens_ends_nothing(model: Path, tmp_path: Path) -> None:
    keys, key = tmp_path / "keys.toml", "one-key-0123456789-0123456789"
    keys.write_text(format_entry("one", key))
    command = [*COMMAND, "serve", "--port", "0", "--model", str(model), "--keys-file", str(keys)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            # A handler for it is there: bit 0 of the caught signals.
            status = Path(f"/proc/{process.pid}/status")
            if not status.exists():
                pytest.skip("needs /proc")
            assert wait_for(lambda: bool(int(status.read_text().split("SigCgt:")[1].split()[0], 16) & 1), 30)
            process.send_signal(signal.SIGHUP)
            assert _refusal(_url(process), key) == ""
        finally:
            process.kill()


@pytest.mark.parametrize("wait_s", [0.1, 0.6])
def test_ctrl_c_while_workers_still_start(wait_s: float, model: Path) -> None:
    command = [*COMMAND, "serve", "--port", "0", "--model", str(model)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        time.sleep(wait_s)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
        told += process.stderr.read()
    assert process.returncode == 0
    assert "Ctrl-C stops it" in told
    assert "Traceback" not in told


def test_a_server_says_where_it_is_and_what_to_do_next(capsys: pytest.CaptureFixture[str]) -> None:
    greet("http://127.0.0.1:80", Settings())
    first, *more = capsys.readouterr().err.splitlines()
    assert first == "Serving embedded on http://127.0.0.1:80"
    assert [line for line in more if "http://127.0.0.1:80/ is a page" in line]
    assert [line for line in more if "apply-service apply FILE SNIPPET --server http://127.0.0.1:80" in line]
    greet("http://127.0.0.1:80", Settings(playground="off"))
    assert "is a page" not in capsys.readouterr().err


def test_a_port_that_is_taken(model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        done = _serve_and_fail("--port", port, "--model", str(model))
    assert done.returncode == 4
    assert "Cannot listen on" in done.stderr
    assert port in done.stderr


def test_servers_never_share_a_port_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """There SO_REUSEADDR would let them."""
    reused = {}
    for platform in ("linux", "win32"):
        monkeypatch.setattr(sys, "platform", platform)
        with open_listener("127.0.0.1", 0) as listener:
            reused[platform] = listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR) != 0
    assert reused == {"linux": True, "win32": False}


@pytest.mark.slow
def test_a_model_that_is_none(tmp_path: Path) -> None:
    done = _serve_and_fail("--port", "0", "--model", str(tmp_path / "none"))
    assert done.returncode == 4
    assert "none" in done.stderr


def _refusal(url: str, key: str) -> str:
    """The code of the error that an edit with this key gets; empty if there is none."""
    try:
        HttpClient(url, api_key=key).apply(ApplyRequest(ORIGINAL.decode(), DIFF.decode()))
    except ApplyError as error:
        return error.code
    return ""


def _collect(url: str, answers: list[str], key: str | None = None) -> None:
    try:
        for event in HttpClient(url, api_key=key).stream(LONG):
            answers.append(type(event).__name__)
    except ApplyError as error:
        answers.append(error.code)


def _serve_and_fail(*options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*COMMAND, "serve", *options], capture_output=True, text=True, timeout=60, check=False)


def _run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    command = [*COMMAND, "apply", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, env=_environment(folder), check=False)


def _environment(folder: Path) -> dict[str, str]:
    return os.environ | {"XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config")}


def _read_until(process: "subprocess.Popen[str]", words: str) -> None:
    assert process.stderr is not None
    while words not in (line := process.stderr.readline()):
        assert line


def _url(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith("Serving "):
            return line.split(" on ")[1].strip()
    raise AssertionError("the server ended: " + "".join(lines))


def _ask(client: HttpClient, request: ApplyRequest) -> None:
    with suppress(ApplyError):
        client.apply(request)


# -- processes that are stopped or lost --------------------------------------------------------------------------------
def descendants(pid: int) -> set[int]:
    """The processes below this one."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found: set[int] = set()
    while more := {child for child, parent in parents.items() if parent in found | {pid}} - found:
        found |= more
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_stopped_processes_and_a_cleaned_temporary_folder_end_no_edit_and_no_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    request = ApplyRequest(ORIGINAL.decode(), DIFF.decode(), path="n.py")
    with serving(Path("embedded"), "--drain-timeout-s", "2") as (url, process):
        client = HttpClient(url, timeout_s=60)
        wanted = client.apply(request).merged_code
        for signals, folder in ((signal.SIGSTOP, False), (signal.SIGKILL, True)):
            for pid in descendants(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signals)
            if folder:
                shutil.rmtree(temporary)
            assert client.apply(request).merged_code == wanted
            assert client.health()
        for pid in descendants(process.pid):
            os.kill(pid, signal.SIGSTOP)
        asked = threading.Thread(target=_ask, args=(client, request))
        asked.start()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        asked.join(30)
        assert not descendants(process.pid)
