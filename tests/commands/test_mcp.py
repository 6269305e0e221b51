"""How `apply-service mcp` ends: connections closed, and never an abort under a model that is being loaded."""

from __future__ import annotations

import os
import threading
from argparse import Namespace
from collections.abc import Iterator

import anyio
import pytest

from apply_service import build
from apply_service.commands import mcp
from apply_service.errors import ApplyError, FileNotReadable, UnknownModel
from apply_service.settings import Settings
from apply_service.target import Runtime, Target
from apply_service.types import ApplyRequest
from tests.doubles import ScriptedRun
from tests.live_server import live_server


class Exited(Exception):
    pass


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A model whose loading takes until the test is over; `os._exit` tells its code."""
    gate = threading.Event()

    def load(name: str) -> Target:
        gate.wait(60)
        raise UnknownModel("none", value=name)

    def leave(code: int) -> None:
        raise Exited(code)

    monkeypatch.setattr(build, "build_runtime", lambda settings: Runtime(load=load))
    monkeypatch.setattr(os, "_exit", leave)
    yield
    gate.set()


def end_with(error: BaseException | None) -> None:
    with mcp.model_service(Settings()):
        if error is not None:
            raise error


def test_where_no_model_is_asked_none_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    def load(name: str) -> Target:
        loaded.append(name)
        raise UnknownModel("none", value=name)

    monkeypatch.setattr(build, "build_runtime", lambda settings: Runtime(load=load))
    with mcp.model_service(Settings(), asks_model=False) as service:
        edit = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"
        assert service.apply(ApplyRequest("a\n", edit, strategy="exact")).merged_code == "b\n"
    assert loaded == []


@pytest.mark.parametrize(
    ("error", "code"),
    [(None, 0), (FileNotReadable("lost", remedy="find it"), 3), (KeyboardInterrupt(), 130), (ValueError("odd"), 1)],
)
def test_under_a_loading_model_the_process_ends_with_its_own_code(
    loading: None, error: BaseException | None, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Exited) as caught:
        end_with(error)
    assert caught.value.args == (code,)
    said = capsys.readouterr().err
    if isinstance(error, ApplyError):
        assert "apply-service: lost\n  Find it.\n" in said
    assert ("Traceback" in said) == isinstance(error, ValueError)


def test_a_cancelled_edit_is_cancelled_on_the_server() -> None:
    run = ScriptedRun(gate=threading.Event())

    async def main(url: str) -> None:
        apply = mcp.remote_apply(Namespace(model=None, drafter=None), Settings(server=url))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(apply, ApplyRequest("old\n", "new\n"))
            await anyio.to_thread.run_sync(run.started.wait, 10)
            tasks.cancel_scope.cancel()

    with live_server(run) as (url, service):
        anyio.run(main, url)
        assert run.closed.wait(10)
        assert service.wait_until_idle(10)
