"""The limit of a file's size, `max_file_bytes`: told before anything is read.  Files beyond a server's own limits."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from apply_service.cli import main
from apply_service.commands import background
from apply_service.commands.background import held
from apply_service.errors import (
    ApplyError,
    DeadlineExceeded,
    InvalidField,
    NotReady,
    Overloaded,
    RateLimited,
    Unauthorized,
    Unreachable,
)
from apply_service.settings import Settings, load_settings
from tests.api.test_batch import pipeline_run
from tests.batch.test_edits import block
from tests.commands.conftest import Stdin, last_code
from tests.live_server import live_server

SMALL = ["--max-file-bytes", "1000"]
LARGE = b"x = 1\n" * 1000
PATCH = "--- a/large.py\n+++ b/large.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"


def write_files(folder: Path) -> None:
    (folder / "large.py").write_bytes(LARGE)
    (folder / "b.py").write_bytes(b"x = 1\n")
    (folder / "edit.txt").write_text(block("x = 1", "x = 2"))
    (folder / "p.diff").write_text(PATCH)
    (folder / "batch.json").write_text(json.dumps({"edits": [{"path": "large.py", "update": "x"}]}))


@pytest.mark.parametrize(
    "words",
    [
        *(["large.py", "edit.txt"], ["b.py", "large.py"], ["--patch", "large.py"], ["--batch", "large.py"]),
        *(["--request", "large.py"], ["--patch", "p.diff"], ["--batch", "batch.json"]),
        *(["-", "edit.txt"], ["b.py", "-"], ["--patch", "-"], ["--batch", "-"], ["--request", "-"]),
    ],
)
def test_what_is_too_large_is_not_read(
    folder: Path, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(folder)
    stdin = Stdin(LARGE)
    monkeypatch.setattr(sys, "stdin", stdin)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main(["apply", *words, *SMALL, *([] if "-" in words[:1] or "--request" in words else ["-i"])]) == 2
    assert last_code() == "too_large"
    assert "--max-file-bytes" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_undo_keeps_the_limit(folder: Path) -> None:
    (folder / "a.py").write_bytes(LARGE)
    assert main(["undo", "a.py", *SMALL]) == 2
    assert last_code() == "too_large"


@pytest.mark.skipif(os.name == "nt", reason="it has no such limit on memory")
@pytest.mark.parametrize("words", [["sparse", "edit.txt"], ["b.py", "sparse"], ["--patch", "sparse"]])
def test_a_sparse_file_of_3_gb_takes_no_memory(folder: Path, words: list[str]) -> None:
    write_files(folder)
    with (folder / "sparse").open("wb") as file:
        file.truncate(3 * 2**30)
    script = "import resource, sys\nresource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))\n"
    script += "from apply_service.cli import main\nsys.exit(main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", script, "apply", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, "too large" in done.stderr) == (2, True), done.stderr


@pytest.mark.skipif(os.name == "nt", reason="POSIX pipes")
def test_a_pipe_is_read_up_to_the_limit(folder: Path) -> None:
    write_files(folder)
    os.mkfifo(folder / "pipe")
    with subprocess.Popen(
        [sys.executable, "-c", "open('pipe', 'wb').write(b'y' * 10_000_000)"], stderr=subprocess.PIPE
    ):
        assert main(["apply", "b.py", "pipe", *SMALL]) == 2
    assert last_code() == "too_large"


@pytest.mark.parametrize("limits", [{"max_lines": 100}, {"max_body_bytes": 2000}])
@pytest.mark.parametrize("words", [["large.py", "edit.txt"], ["--patch", "p.diff"], ["--batch", "batch.json"]])
def test_what_the_users_own_server_does_not_take_is_answered_here(
    folder: Path,
    words: list[str],
    limits: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A server that was not asked for makes no edit impossible; one that was named says what it does not take."""
    write_files(folder)
    (folder / "large.py").write_bytes(b"".join(b"x%d = 1\n" % i for i in range(1000)))
    (folder / "edit.txt").write_text(block("x7 = 1", "x7 = 2"))
    (folder / "p.diff").write_text(PATCH.replace("@@ -1 +1 @@\n-x =", "@@ -8 +8 @@\n-x7 =").replace("+x =", "+x7 ="))
    batch = {"edits": [{"path": "large.py", "update": block("x7 = 1", "x7 = 2")}]}
    (folder / "batch.json").write_text(json.dumps(batch))
    monkeypatch.setattr(background, "PROBE_S", 5.0)
    server = Settings(drain_timeout_s=0, **limits)  # type: ignore[arg-type]
    with live_server(pipeline_run, server) as (url, _), held(load_settings()) as (_, publish):
        publish(url)
        assert main(["apply", *words, "--server", url, "--quiet"]) == 2
        assert last_code() == "too_large"
        capsys.readouterr()
        assert main(["apply", *words, "-i"]) == 0
    assert b"x7 = 2\n" in (folder / "large.py").read_bytes()
    assert "answered by your server" not in capsys.readouterr().err


def tiny_edit(folder: Path) -> None:
    (folder / "a.py").write_bytes(b"x = 1\n")
    (folder / "edit.txt").write_text(block("x = 1", "x = 2"))


@pytest.mark.parametrize(
    ("words", "error"),
    [
        *(((), one) for one in (Overloaded, RateLimited, NotReady, Unreachable, Unauthorized, DeadlineExceeded)),
        (("--timeout", "30"), InvalidField),
    ],
)
def test_what_keeps_the_users_own_server_keeps_nobody(
    folder: Path, words: tuple[str, ...], error: type[ApplyError], monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_edit(folder)
    monkeypatch.setattr(background, "_is_ready", lambda *_: True)
    monkeypatch.setattr("apply_service.commands.request._ask_server", refusing(error))
    with held(load_settings()) as (_, publish):
        publish("http://127.0.0.1:9")
        assert main(["apply", "a.py", "edit.txt", *words, "--server", "http://127.0.0.1:9"]) != 0
        assert main(["apply", "a.py", "edit.txt", "-i", *words]) == 0
    assert (folder / "a.py").read_bytes() == b"x = 2\n"


def test_a_deadline_that_was_asked_for_holds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_edit(folder)
    monkeypatch.setattr(background, "_is_ready", lambda *_: True)
    monkeypatch.setattr("apply_service.commands.request._ask_server", refusing(DeadlineExceeded))
    with held(load_settings()) as (_, publish):
        publish("http://127.0.0.1:9")
        assert main(["apply", "a.py", "edit.txt", "-i", "--timeout", "3"]) == 4
    assert (folder / "a.py").read_bytes() == b"x = 1\n"


def refusing(error: type[ApplyError]) -> Callable[..., None]:
    def ask(*_: object) -> None:
        raise error("No.")

    return ask


def test_a_body_that_no_server_takes_is_not_sent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(folder)
    monkeypatch.setenv("APPLY_SERVICE_MAX_BODY_BYTES", "2000")
    monkeypatch.setattr("apply_service.commands.request._ask_server", lambda *_: pytest.fail("it was sent"))
    monkeypatch.setattr(background, "_is_ready", lambda *_: True)
    with held(load_settings()) as (_, publish):
        publish("http://127.0.0.1:9")
        (folder / "large.py").write_bytes(b"".join(b"x%d = 1\n" % i for i in range(1000)))
        (folder / "edit.txt").write_text(block("x7 = 1", "x7 = 2"))
        assert main(["apply", "large.py", "edit.txt", "-i"]) == 0


@pytest.mark.parametrize("kind", ["--patch", "--batch"])
def test_many_files_are_too_large_together(folder: Path, kind: str) -> None:
    """Twenty sparse files of 60 MB took 5.8 GB."""
    names = [f"m{i}.py" for i in range(20)]
    for name in names:
        (folder / name).write_bytes(b"x = 1\n" * 100)
    patch = "".join(f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-x = 1\n+x = 2\n" for name in names)
    edits = [{"path": name, "update": block("x = 1", "x = 2")} for name in names]
    (folder / "edit").write_text(patch if kind == "--patch" else json.dumps({"edits": edits}))
    limit = str((folder / "edit").stat().st_size + 1000)
    assert main(["apply", kind, "edit", "-i", "--max-file-bytes", limit]) == 2
    assert last_code() == "too_large"
