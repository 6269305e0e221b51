"""Limits of a caller and of all callers."""

import asyncio
import contextlib
import socket
import threading
import time
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from starlette.types import Message

from apply_service.api import limits
from apply_service.api.limits import BodyBudget
from apply_service.errors import Overloaded
from apply_service.settings import Settings
from tests.api.layers import ALICE, BOB, BODY, bearer, layered, write_keys
from tests.clocks import set_clocks
from tests.doubles import ScriptedRun, wait_for
from tests.live_server import live_server


def test_a_rate_is_of_one_key(tmp_path: Path) -> None:
    with layered(ScriptedRun(), keys_file=write_keys(tmp_path), rate_limit=3) as http:
        answers = [http.post("/v1/apply", json=BODY, headers=bearer(ALICE)) for _ in range(5)]
        other = http.post("/v1/apply", json=BODY, headers=bearer(BOB))
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["2", "1", "0", "0", "0"]
    assert {answer.headers["x-ratelimit-limit"] for answer in answers} == {"3"}
    assert time.time() < int(answers[0].headers["x-ratelimit-reset"]) <= time.time() + 61
    assert answers[-1].json()["error"]["code"] == "rate_limited"
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
    assert "retry-after" not in answers[0].headers
    assert other.status_code == 200


def test_a_key_may_have_a_rate_of_its_own(tmp_path: Path) -> None:
    path = write_keys(tmp_path, more="rate_limit = 1\n")
    with layered(ScriptedRun(), keys_file=path, rate_limit=3) as http:
        statuses = [http.post("/v1/apply", json=BODY, headers=bearer(ALICE)).status_code for _ in range(2)]
        other = http.post("/v1/apply", json=BODY, headers=bearer(BOB))
    assert statuses == [200, 429]
    assert other.headers["x-ratelimit-limit"] == "3"


def test_a_wall_clock_that_is_set_locks_nobody_out_and_lets_nobody_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set back, it kept a key out for as long; set forward, it forgot the minute's requests."""
    wall, steady = [1e9], [50.0]
    set_clocks(monkeypatch, limits, time=lambda: wall[0], monotonic=lambda: steady[0])
    with layered(ScriptedRun(), keys_file=write_keys(tmp_path), rate_limit=2) as http:

        def ask() -> httpx2.Response:
            return http.post("/v1/apply", json=BODY, headers=bearer(ALICE))

        assert [ask().status_code for _ in range(2)] == [200, 200]
        wall[0] += 7200
        refused = ask()
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
        wall[0] -= 86_400
        steady[0] += 30
        refused = ask()
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "30")
        assert refused.headers["x-ratelimit-reset"] == str(int(wall[0]) + 30)
        steady[0] += 31
        assert ask().status_code == 200


def edits(n_edits: int) -> dict[str, object]:
    return {"edits": [BODY | {"path": f"{number}.py"} for number in range(n_edits)]}


def test_each_edit_of_a_batch_counts(tmp_path: Path) -> None:
    with layered(ScriptedRun(), keys_file=write_keys(tmp_path), rate_limit=6) as http:
        answers = [http.post("/v1/apply/batch", json=edits(n), headers=bearer(ALICE)) for n in (3, 4, 2, 7)]
        other = http.post("/v1/apply/batch", json=edits(6), headers=bearer(BOB))
    assert [answer.status_code for answer in answers] == [200, 429, 200, 429]
    assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["3", "2", "0", "0"]
    assert answers[1].json()["error"]["code"] == "rate_limited"
    assert other.status_code == 200


def test_a_batch_that_can_never_pass_is_told_so(tmp_path: Path) -> None:
    with layered(ScriptedRun(), keys_file=write_keys(tmp_path), rate_limit=2) as http:
        error = http.post("/v1/apply/batch", json=edits(9), headers=bearer(ALICE)).json()["error"]
    assert (error["code"], error["limit"], error["remedy"]) == (
        "rate_limited",
        "2 a minute",
        "send fewer edits in one batch",
    )


def test_a_batch_has_a_most(tmp_path: Path) -> None:
    patch = {"patch": "--- a/a\n+++ b/a\n", "files": [{"path": name, "original": ""} for name in "abc"]}
    with layered(ScriptedRun(), max_batch_edits=2) as http:
        answers = [http.post("/v1/apply/batch", json=body) for body in (edits(2), edits(3), patch)]
    assert [answer.status_code for answer in answers] == [200, 413, 413]
    error = answers[1].json()["error"]
    assert (error["code"], error["value"], error["limit"]) == ("too_large", 3, 2)


def test_no_rate_no_headers() -> None:
    with layered(ScriptedRun()) as http:
        assert not [name for name in http.post("/v1/apply", json=BODY).headers if "ratelimit" in name.lower()]


def test_health_is_never_limited(tmp_path: Path) -> None:
    with layered(ScriptedRun(), rate_limit=1) as http:
        assert [http.get("/healthz").status_code for _ in range(4)] == [200] * 4


def _blocked(run: ScriptedRun, http: object, headers: dict[str, str]) -> threading.Thread:
    """A request that stays in progress until the run's gate opens."""
    thread = threading.Thread(
        target=lambda: http.post("/v1/apply", json=BODY, headers=headers)  # type: ignore[attr-defined]
    )
    thread.start()
    assert run.started.wait(5)
    return thread


def test_requests_at_once_of_a_key(tmp_path: Path) -> None:
    run = ScriptedRun(gate=threading.Event())
    path = write_keys(tmp_path, more="concurrency_limit = 1\n")
    with layered(run, keys_file=path, rate_limit=9) as http:
        thread = _blocked(run, http, bearer(ALICE))
        refused = http.post("/v1/apply", json=BODY, headers=bearer(ALICE))
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "overloaded")
        assert refused.json()["error"]["limit"] == 1
        assert refused.headers["retry-after"] == "1"
        rate = [refused.headers[f"x-ratelimit-{name}"] for name in ("limit", "remaining")]
        assert rate == ["9", "8"], "the rate is told, and a refused request does not count"
        second = threading.Thread(target=lambda: http.post("/v1/apply", json=BODY, headers=bearer(BOB)))
        second.start()
        assert wait_for(lambda: http.get("/readyz").json()["queue_length"] == 1)
        assert run.gate is not None
        run.gate.set()
        thread.join()
        second.join()
        assert http.post("/v1/apply", json=BODY, headers=bearer(ALICE)).status_code == 200


def test_requests_at_once_of_all() -> None:
    run = ScriptedRun(gate=threading.Event())
    with layered(run, in_flight_limit=1) as http:
        thread = _blocked(run, http, {})
        refused = http.post("/v1/apply", json=BODY)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "overloaded")
        assert run.gate is not None
        run.gate.set()
        thread.join()
        assert http.post("/v1/apply", json=BODY).status_code == 200


def test_a_refused_request_leaves_its_place() -> None:
    with layered(ScriptedRun(), in_flight_limit=1, rate_limit=2) as http:
        statuses = [
            http.post("/v1/apply", content=b"{", headers={"content-type": "text/plain"}).status_code for _ in "12"
        ]
        assert statuses == [415, 415]
        assert http.post("/v1/apply", json=BODY).json()["error"]["code"] == "rate_limited"


# -- bytes of bodies ---------------------------------------------------------------------------------------------------
def test_stalled_bodies_hold_no_more_than_their_budget() -> None:
    settings = Settings(max_body_bytes=65_536, body_budget_bytes=100_000, drain_timeout_s=0)
    head = (
        b"POST /v1/apply HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n"
    )
    with live_server(ScriptedRun(), settings) as (url, _), contextlib.ExitStack() as stack:
        address = urlsplit(url)
        assert httpx2.get(f"{url}/readyz", trust_env=False).status_code == 200
        sockets = []
        for _ in range(2):
            sockets.append(stack.enter_context(socket.create_connection((address.hostname, address.port), timeout=10)))
            sockets[-1].sendall(head + b" " * 45_000)
        assert wait_for(lambda: httpx2.get(f"{url}/readyz", trust_env=False).status_code == 503)
        late = stack.enter_context(socket.create_connection((address.hostname, address.port), timeout=10))
        late.sendall(head + b" " * 45_000)
        assert late.recv(100).startswith(b"HTTP/1.1 429")
        for stalled in sockets:
            stalled.close()
        assert wait_for(lambda: httpx2.get(f"{url}/readyz", trust_env=False).status_code == 200)


def test_bodies_of_one_key_leave_another_its_share() -> None:
    budget = BodyBudget(Settings(max_body_bytes=2000, body_budget_bytes=4000))

    async def receive(n: int) -> Message:
        return {"type": "http.request", "body": b"x" * n, "more_body": True}

    async def fill() -> None:
        with contextlib.ExitStack() as stack:
            first, second, third, other = (
                stack.enter_context(budget.counted(key, partial(receive, 1500))) for key in ("a", "a", "a", "b")
            )
            await first()
            await second()
            assert (budget.n_held, budget.is_full) == (3000, True)
            with pytest.raises(Overloaded):
                await third()
            await other()
        assert budget.n_held == 0
        with budget.counted("a", partial(receive, 3000)) as large:
            await large()
            await large()
            assert budget.n_held == 2000  # what is beyond the largest body is thrown away
        assert budget.n_held == 0

    asyncio.run(fill())
