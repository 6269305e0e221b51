"""Commands that tell of a remote model, and real servers as one: this service's own is refused, and refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apply_service.build import build_runtime
from apply_service.cli import main
from apply_service.commands.doctor import examine
from apply_service.errors import RemoteFailure
from apply_service.pipeline import apply
from apply_service.remote.client import Endpoint, served_models
from apply_service.settings import Settings
from tests.doubles import ScriptedRun
from tests.live_server import live_server
from tests.remote.scripted_server import scripted_server, stream
from tests.remote.test_target import MERGED, ORIGINAL, OUTPUT, REQUEST, UPDATE, USAGE


def test_doctor_asks_the_server_which_models_it_has() -> None:
    with live_server(ScriptedRun()) as (url, _):
        assert "embedded" in served_models(Endpoint(url=url + "/v1"))
        for model, is_ok in (("embedded", True), ("missing", False)):
            found = list(examine(Settings(model=f"remote:{model}", remote_url=url + "/v1")))[-1]
            assert (found.topic, found.is_ok) == ("model", is_ok)
            assert "embedded" in found.text
    found = list(examine(Settings(model="remote:embedded", remote_url=url + "/v1")))[-1]
    assert not found.is_ok
    assert "remote_failure" in found.text


def test_models_lists_a_remote_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--model", "remote:m", "--remote-url", "http://127.0.0.1:9/v1"]) == 0
    assert capsys.readouterr().out.startswith("* remote:m: asked at http://127.0.0.1:9/v1\n")


def test_an_apply_service_is_no_chat_server_and_says_so() -> None:
    """It applies edits and holds no conversation: a chain of two would be asked in the wrong words."""
    with live_server(ScriptedRun()) as (url, _):
        runtime = build_runtime(Settings(model="remote:embedded", remote_url=url + "/v1"))
        with pytest.raises(RemoteFailure) as caught:
            apply(REQUEST, runtime)
        assert caught.value.value == "not_an_edit"
        runtime.load("remote:embedded").client.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("usage", [USAGE, None])
def test_the_command_line_with_a_remote_model(
    tmp_path: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, usage: Any
) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-3")
    file, update = tmp_path / "numbers.py", tmp_path / "update.py"
    file.write_text(ORIGINAL)
    update.write_text(UPDATE)
    with scripted_server(stream(OUTPUT, usage=usage)) as script:
        words = ["--model", "remote:m", "--remote-url", script.url, "--remote-key", "env:SOME_KEY", "--strategy=model"]
        assert main(["apply", str(file), "--update", str(update), *words]) == 0
        shown = capsys.readouterr()
        assert shown.out == MERGED
        assert main(["apply", str(file), "--update", str(update), "--json", *words]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert script.headers[0]["Authorization"] == "Bearer sk-3"
    assert (answer["model"], answer["drafter"], answer["determinism"]) == ("remote:m", None, None)
    assert (answer["usage"]["passes"], answer["usage"]["accepted_by_source"]) == (None, None)
    assert answer["usage"]["accepted_prediction_tokens"] == (None if usage is None else 30)
    assert answer["usage"]["completion_tokens"] == (0 if usage is None else 40)
