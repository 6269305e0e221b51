"""The real thing: two servers on Ray Serve, in a network namespace of its own (`make test-ray`).

Ray listens on all interfaces, so these tests run only where loopback is the only one.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

pytest.importorskip("ray", reason="needs the extra ray")

if [name for _, name in socket.if_nameindex()] != ["lo"]:
    pytest.skip("Ray listens on all interfaces: run under `unshare -n`, see make test-ray", allow_module_level=True)

from tests.deploy.ray_fleet import local_fleet, server_pids, states
from tests.deploy.test_configs import NAMES, read

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # Ray's own
]
LINES = "".join(f"line_{number} = {number}\n" for number in range(16))
REPAIR_TIMEOUT_S = 600.0


def edit(url: str, session: str, number: int) -> dict[str, Any]:
    """The answer to an edit that a model decides, in a file of this session."""
    update = f"line_{number} = 'changed'\n# ... existing code ...\n"
    body: dict[str, Any] = {
        "original": f"# {session}\n{LINES}",
        "update": update,
        "path": f"{session}.py",
        "strategy": "model",
        "timeout_s": 300,
    }
    response = httpx2.post(f"{url}/v1/apply", json=body, headers={"x-session-id": session}, timeout=300)
    print(response.status_code, response.text[:300])
    assert response.status_code == 200 or response.status_code >= 500, response.text
    response.raise_for_status()
    answer: dict[str, Any] = response.json()
    return answer


@pytest.mark.parametrize("name", NAMES)
def test_ray_takes_the_shipped_configurations(name: str) -> None:
    from ray.serve.schema import ServeDeploySchema

    config = ServeDeploySchema.model_validate(read(name))
    assert [one.name for one in config.applications[0].deployments] == ["Server"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with local_fleet() as url:
        yield url


def test_a_session_stays_on_its_server(url: str) -> None:
    for session in ("a", "b", "c", "d"):
        cached = [edit(url, session, number)["usage"]["cached_prompt_tokens"] for number in (3, 3, 3)]
        assert all(cached[1:]), cached


def test_a_server_that_dies_is_replaced_and_the_other_answers(url: str) -> None:
    before = server_pids()
    assert len(before) == 2
    os.kill(before[0], signal.SIGKILL)
    ended = time.monotonic() + REPAIR_TIMEOUT_S
    n_answered = 0
    while states() != {"RUNNING": 2} or set(server_pids()) == set(before) or n_answered < 4:
        assert time.monotonic() < ended
        try:
            assert "changed" in edit(url, f"s{n_answered}", 5)["merged_code"]
            n_answered += 1
        except (httpx2.HTTPStatusError, httpx2.TransportError) as error:
            # Ray may send a request to the dead one until it knows; its client asks again.
            if isinstance(error, httpx2.HTTPStatusError) and error.response.status_code < 500:
                raise
    assert before[0] not in server_pids()
