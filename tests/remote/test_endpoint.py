"""Where a remote target is and as whom it is asked: from the settings, checked before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest

from apply_service.build import build_runtime
from apply_service.errors import SettingsError
from apply_service.remote.client import Endpoint
from apply_service.remote.target import RemoteTarget
from apply_service.settings import Settings, load_settings

NO_FILE = {"XDG_CONFIG_HOME": "/nowhere", "APPDATA": "/nowhere"}


def settings(**values: Any) -> Settings:
    return Settings(model="remote:some/model", **{"remote_url": "http://127.0.0.1:9/v1/", **values})


def test_an_endpoint_is_what_the_settings_say() -> None:
    found = Endpoint.of(settings(remote_key="env:KEY", remote_takes=("prediction",)), {"KEY": "sk-1"})
    assert (found.url, found.takes) == ("http://127.0.0.1:9/v1", {"prediction"})
    assert found.headers == {"Authorization": "Bearer sk-1"}
    assert "sk-1" not in repr(found)
    assert Endpoint.of(settings()).headers == {}
    assert Endpoint.of(settings(remote_key="sk-2")).headers == {"Authorization": "Bearer sk-2"}


@pytest.mark.parametrize(
    "url",
    [None, "127.0.0.1:9", "ftp://host/v1", "http://", "http://h:x/v1", "http://h/v1?a=1", "http://me:secret@h/v1"],
)
def test_what_is_no_url_of_a_server_stops_the_start(url: str | None) -> None:
    with pytest.raises(SettingsError, match="remote_url") as caught:
        Endpoint.of(settings(remote_url=url))
    assert "secret" not in str(caught.value.as_dict())


@pytest.mark.parametrize("key", ["env:MISSING", "env:EMPTY", "env:BAD", "a b\n"])
def test_what_is_no_key_stops_the_start_unquoted(key: str) -> None:
    with pytest.raises(SettingsError, match="no usable key") as caught:
        Endpoint.of(settings(remote_key=key), {"EMPTY": "", "BAD": "geheim\n"})
    assert caught.value.value == (key.removeprefix("env:") if key.startswith("env:") else None)
    assert "geheim" not in str(caught.value.as_dict())


def test_what_a_server_takes_is_one_of_a_list() -> None:
    assert load_settings(environment=NO_FILE | {"APPLY_SERVICE_REMOTE_TAKES": "seed, logprobs"}).remote_takes == (
        "seed",
        "logprobs",
    )
    assert load_settings(environment=NO_FILE | {"APPLY_SERVICE_REMOTE_TAKES": "none"}).remote_takes == ()
    with pytest.raises(SettingsError, match=r"remote_takes.*telepathy"):
        load_settings(environment=NO_FILE | {"APPLY_SERVICE_REMOTE_TAKES": "seed,telepathy"})


def test_a_remote_model_is_one_of_those_that_requests_may_name() -> None:
    runtime = build_runtime(settings(models=("other=remote:other/model",)))
    assert runtime.models == ("remote:some/model", "other", "embedded")
    for name in runtime.models[:2]:
        assert isinstance(runtime.load(name), RemoteTarget)
        assert runtime.load(name).info.name == name


def test_a_remote_model_without_a_url_stops_the_start() -> None:
    with pytest.raises(SettingsError, match="remote_url"):
        build_runtime(settings(remote_url=None)).load("remote:some/model")
