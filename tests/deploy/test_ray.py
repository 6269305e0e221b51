"""The real thing: two engines on Ray Serve, in a network namespace of its own (`make test-ray`).

Ray listens on all interfaces, so these tests run only where loopback is the only one.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="needs the extra ray")

if [name for _, name in socket.if_nameindex()] != ["lo"]:
    pytest.skip("Ray listens on all interfaces: run under `unshare -n`, see make test-ray", allow_module_level=True)

from apply_eval.datasets import read_records
from apply_eval.mine import OWN_EDITS
from tests.deploy.ray_check import record_of, run_phases
from tests.deploy.ray_fleet import local_fleet
from tests.deploy.ray_sessions import edit_sessions
from tests.deploy.test_configs import NAMES, read

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # Ray's own
]

Phases = dict[str, dict[str, Any]]


@pytest.mark.parametrize("name", NAMES)
def test_ray_takes_the_shipped_configurations(name: str) -> None:
    from ray.serve.schema import ServeDeploySchema

    config = ServeDeploySchema.model_validate(read(name))
    assert [one.name for one in config.applications[0].deployments] == ["Ingress", "Engine"]


@pytest.fixture(scope="module")
def phases() -> Phases:
    """With RAY_CHECK_OUT they are kept in the file that it names."""
    load_before, sizes = os.getloadavg()[0], {"files": 4, "edits": 4, "seed": 1}
    sessions = edit_sessions(read_records(OWN_EDITS), n_files=4, n_edits=4, seed=1)
    with local_fleet() as fleet:
        found = dict(run_phases(fleet, sessions, n_clients=3))
    if "RAY_CHECK_OUT" in os.environ:
        record = record_of(found, clients=3, **sizes, load_before=load_before)
        Path(os.environ["RAY_CHECK_OUT"]).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return found


@pytest.mark.parametrize("name", ["by least load", "by file", "an engine is killed", "an update"])
def test_every_edit_is_answered_whole_and_as_ever(phases: Phases, name: str) -> None:
    assert phases[name]["requests"] > 0
    assert phases[name]["ended"] == {"answered": phases[name]["requests"]}
    assert phases[name]["broken"] == []


def test_files_find_their_engine(phases: Phases) -> None:
    """Without routing one in two finds its file by chance, until both engines know it: all twelve later edits of four
    files do so once in 4,096 runs."""
    by_file, by_load = phases["by file"], phases["by least load"]
    assert by_file["later_edits"] == by_load["later_edits"] == 12
    assert by_file["hit_rate"] == 1.0
    assert by_load["hit_rate"] < 1.0
    assert by_file["cached_share"] > by_load["cached_share"]


def test_an_update_drains(phases: Phases) -> None:
    """No engine was lost to an edit: those that went had answered what they had."""
    assert phases["an update"]["asked_again"] == 0
