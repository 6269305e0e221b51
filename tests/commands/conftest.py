"""A folder to edit in, and a server to ask, for the tests of commands."""

import io
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from apply_service.commands import output
from apply_service.errors import ApplyError
from tests.doubles import ScriptedRun, make_result
from tests.live_server import live_server

OLD = b"old\r\nname = 1\n"


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """A command that configures the process's logs sends them to the standard error of its test, which ends with it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def run() -> ScriptedRun:
    return ScriptedRun(result=make_result("new\r\nname = 1\n", diff="--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n"))


@pytest.fixture
def url(run: ScriptedRun) -> Iterator[str]:
    with live_server(run) as (url, _):
        yield url


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a file to edit and an edit, and a state folder of its own."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.py").write_bytes(OLD)
    (work / "edit.txt").write_bytes(b"new\n")
    monkeypatch.chdir(work)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in [name for name in os.environ if name.startswith("APPLY_")]:
        monkeypatch.delenv(name)
    return work


_TOLD: list[ApplyError] = []


@pytest.fixture(autouse=True)
def errors_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Note the errors that a command tells, whose codes people do not see."""
    _TOLD.clear()
    tell = output.print_error

    def note(error: ApplyError, **options: str) -> None:
        _TOLD.append(error)
        tell(error, **options)

    monkeypatch.setattr(output, "print_error", note)


def last_code() -> str:
    """The code of the last error that was told in this test."""
    return _TOLD[-1].code


class Stdin:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)

    def isatty(self) -> bool:
        return False
