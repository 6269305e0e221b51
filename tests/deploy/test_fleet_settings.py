"""What a configuration file may say about a fleet."""

import pytest

from apply_service.errors import SettingsError
from apply_service.settings import Settings, fleet_settings


def test_settings_by_name_as_yaml_gives_them() -> None:
    found = fleet_settings({"allow_open": True, "window": 128, "cors_origins": ["https://a"]})
    assert found == Settings(allow_open=True, window=128, cors_origins=("https://a",))


def test_the_environment_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPLY_SERVICE_WINDOW", "64")
    assert fleet_settings({"allow_open": True}).window is None


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ({"allow_open": True, "modle": "x"}, "modle"),
        ({"allow_open": True, "window": 0}, "window"),
        ({"allow_open": True, "port": 80}, "port"),
        ({"allow_open": True, "server": "http://x"}, "server"),
        ({}, "keys"),
    ],
)
def test_what_would_be_ignored_or_unsafe_is_refused(args: dict[str, object], named: str) -> None:
    with pytest.raises(SettingsError) as caught:
        fleet_settings(args)
    assert named in caught.value.message
    assert caught.value.remedy or caught.value.limit
