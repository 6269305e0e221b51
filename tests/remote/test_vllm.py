"""`--engine vllm`: a remote target by another name, that sends the edit along for our plug-in."""

from __future__ import annotations

from typing import Any

import pytest

from apply_service.build import build_runtime
from apply_service.engine.vllm.message import decode_edit
from apply_service.errors import SettingsError
from apply_service.pipeline import apply
from apply_service.remote.client import Endpoint
from apply_service.remote.target import RemoteTarget
from apply_service.settings import Settings
from tests.remote.scripted_server import scripted_server, stream
from tests.remote.test_target import MERGED, ORIGINAL, OUTPUT, REQUEST, serving

URL = "http://127.0.0.1:9"


def settings(**values: Any) -> Settings:
    return Settings(**{"engine": "vllm", "vllm_url": URL, "model": "Qwen/Some-Coder"} | values)


def test_the_models_are_the_servers_by_its_own_names() -> None:
    runtime = build_runtime(settings(models=("fast=Other/Coder",)))
    assert runtime.models == ("Qwen/Some-Coder", "fast"), "the embedded one is not among them: it runs nowhere"
    assert isinstance(runtime.load("Qwen/Some-Coder"), RemoteTarget)


@pytest.mark.parametrize("url", [URL, URL + "/", URL + "/v1", URL + "/v1/"])
def test_the_url_may_leave_the_version_out(url: str) -> None:
    assert Endpoint.of(settings(vllm_url=url)).url == URL + "/v1"


def test_vllm_takes_what_it_is_known_to_take() -> None:
    assert Endpoint.of(settings()).takes == {"usage", "logprobs", "seed", "vllm_xargs"}


@pytest.mark.parametrize(
    "values",
    [
        {"vllm_url": None},
        {"engine": "local"},
        {"model": "embedded"},
        {"model": "remote:m"},
        {"models": ("remote:m",)},
        {"models": ("fast=remote:m",)},
        {"engine": "triton"},
    ],
    ids=str,
)
def test_what_does_not_go_together_stops_the_start(values: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        settings(**values)


def test_the_edit_goes_along() -> None:
    with serving(stream(OUTPUT), takes=Endpoint.of(settings()).takes) as (script, runtime):
        assert apply(REQUEST, runtime).merged_code == MERGED
    told = decode_edit(script.bodies[0]["vllm_xargs"])
    assert told is not None
    assert (told.job.original, told.job.prediction.text, told.format_name) == (ORIGINAL, MERGED, "chat")


def test_other_servers_are_told_nothing() -> None:
    with serving(stream(OUTPUT)) as (script, runtime):
        apply(REQUEST, runtime)
    assert "vllm_xargs" not in script.bodies[0]


def test_from_the_settings_to_the_answer() -> None:
    with scripted_server(stream(OUTPUT)) as script:
        result = apply(REQUEST, build_runtime(settings(vllm_url=script.url)))
    assert (result.merged_code, result.model) == (MERGED, "Qwen/Some-Coder")
    assert script.bodies[0]["model"] == "Qwen/Some-Coder"
