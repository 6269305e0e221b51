"""What a configuration file may say about a fleet."""

import pytest

from apply_service.deploy.fleet_settings import FleetSettings, read_fleet_settings
from apply_service.errors import SettingsError
from apply_service.settings import Settings


def test_settings_by_name_as_yaml_gives_them() -> None:
    fleet = read_fleet_settings({"allow_open": True, "window": 128, "cors_origins": ["https://a"], "ingresses": 1})
    assert fleet == FleetSettings(Settings(allow_open=True, window=128, cors_origins=("https://a",)), 1)


def test_the_environment_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPLY_WINDOW", "64")
    assert read_fleet_settings({"allow_open": True}).settings.window is None


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ({"allow_open": True, "modle": "x"}, "modle"),
        ({"allow_open": True, "window": 0}, "window"),
        ({"allow_open": True, "port": 80}, "port"),
        ({"allow_open": True, "server": "http://x"}, "server"),
        ({"allow_open": True, "ingresses": 0}, "ingresses"),
        ({}, "keys"),
        ({"allow_open": True, "ingresses": 2}, "idempotency_ttl_s"),
        ({"allow_open": True, "ingresses": 2, "idempotency_ttl_s": 0, "rate_limit": 5}, "rate_limit"),
    ],
)
def test_what_would_be_ignored_or_unsafe_is_refused(args: dict[str, object], named: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_fleet_settings(args)
    assert named in caught.value.message
    assert caught.value.remedy or caught.value.limit


def test_several_ingresses_that_keep_nothing_are_fine() -> None:
    fleet = read_fleet_settings({"keys_file": "keys.toml", "ingresses": 4, "idempotency_ttl_s": 0})
    assert fleet.n_ingresses == 4
