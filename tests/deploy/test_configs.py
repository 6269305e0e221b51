"""The shipped configurations describe what there is.  What Ray makes of them: `test_ray.py`."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import apply_service
from apply_service.settings import fleet_settings

FOLDER = Path(apply_service.__file__).parent / "deploy"
NAMES = ("laptop", "node", "cluster")


def read(name: str) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return config


def server_options(config: dict[str, Any]) -> dict[str, Any]:
    [app] = config["applications"]
    options: dict[str, Any] = {one["name"]: one for one in app["deployments"]}["Server"]
    return options


def test_every_configuration_is_tested() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_settings_are_taken(name: str) -> None:
    config = read(name)
    [app] = config["applications"]
    settings = fleet_settings(app["args"])
    if config["http_options"]["host"] != "127.0.0.1":
        assert settings.keys_file is not None
        assert not settings.allow_open


@pytest.mark.parametrize(("name", "gpus"), [("laptop", 0), ("node", 1), ("cluster", 1)])
def test_servers_have_their_devices_and_scale(name: str, gpus: int) -> None:
    options = server_options(read(name))
    assert options["ray_actor_options"].get("num_gpus", 0) == gpus
    scaling = options["autoscaling_config"]
    assert 0 < scaling["min_replicas"] < scaling["max_replicas"]
    if name == "node":
        assert scaling["max_replicas"] == 8
