"""A key that goes while its requests are in progress: new ones are refused, those in progress end."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from apply_service.api.keys import KeyHolder, format_entry
from apply_service.settings import Settings
from tests.api.layers import ALICE, BOB, BODY, bearer
from tests.doubles import ScriptedRun, wait_for
from tests.live_server import stoppable_server

Reload = Callable[[str], None]
ONLY_BOB = format_entry("bob", BOB)
BOTH = format_entry("alice", ALICE) + ONLY_BOB
JSON = {"Content-Type": "application/json"}


@contextlib.contextmanager
def keyed(run: ScriptedRun, folder: Path, **settings: Any) -> Iterator[tuple[str, Reload]]:
    """A server with the keys of Alice and Bob; gives its URL, and what has it read another text as its keys."""
    path = folder / "keys.toml"
    path.write_text(BOTH)
    loops: list[asyncio.AbstractEventLoop] = []
    find = KeyHolder.find

    def find_and_tell(keys: KeyHolder, text: str) -> object:
        loops.append(asyncio.get_running_loop())
        return find(keys, text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeyHolder, "find", find_and_tell)
        chosen = Settings(keys_file=str(path), drain_timeout_s=0, **settings)
        with stoppable_server(run, chosen) as (url, _, server):

            def reload(text: str) -> None:
                path.write_text(text)
                done = threading.Event()
                keys = server.config.app.state.keys  # type: ignore[union-attr]
                loops[0].call_soon_threadsafe(lambda: (keys.reload(), done.set()))
                assert done.wait(10)

            yield url, reload
            if run.gate is not None:
                run.gate.set()


def post(url: str, path: str, body: object, key: str = ALICE) -> Callable[[], httpx2.Response]:
    """A request on its way; what it gives waits for the answer."""
    answers: list[httpx2.Response] = []

    def ask() -> None:
        answers.append(httpx2.post(f"{url}{path}", json=body, headers=bearer(key), trust_env=False, timeout=30))

    thread = threading.Thread(target=ask)
    thread.start()

    def answer() -> httpx2.Response:
        thread.join(30)
        return answers[0]

    return answer


def n_waiting(url: str) -> int:
    return int(httpx2.get(f"{url}/readyz", trust_env=False).json()["queue_length"])


def test_new_requests_are_refused_at_once(tmp_path: Path) -> None:
    run = ScriptedRun()
    with keyed(run, tmp_path) as (url, reload):
        assert post(url, "/v1/apply", BODY)().status_code == 200
        reload(ONLY_BOB)
        refused = post(url, "/v1/apply", BODY)()
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert post(url, "/v1/apply", BODY, BOB)().status_code == 200
        reload("[[key")
        assert [post(url, "/v1/apply", BODY, key)().status_code for key in (ALICE, BOB)] == [401, 200]
        reload(BOTH)
        assert post(url, "/v1/apply", BODY)().status_code == 200


CHAT = "<code>old\n</code>\n<update>new\n</update>"
STREAMS = [
    ("/v1/apply", BODY | {"stream": True}, b"event: error\n", "unauthorized"),
    (
        "/v1/chat/completions",
        {
            "model": "auto",
            "messages": [{"role": "user", "content": CHAT}],
            "stream": True,
            "apply_service": {"stream_at_once": True},
        },
        b"",
        "invalid_api_key",
    ),
]


@pytest.mark.parametrize(("path", "body", "name", "code"), STREAMS)
def test_a_stream_is_cut_by_a_typed_error(path: str, body: object, name: bytes, code: str, tmp_path: Path) -> None:
    run = ScriptedRun(gate=threading.Event())
    with keyed(run, tmp_path) as (url, reload):
        client = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
        client.request("POST", path, json.dumps(body), JSON | bearer(ALICE))
        stream = client.getresponse()
        assert stream.status == 200
        assert stream.readline()
        reload(ONLY_BOB)
        rest = stream.read()
        client.close()
        before, _, last = rest.rstrip().rpartition(b"data: ")
        error = json.loads(last)["error"]
        assert error["code"] == code
        assert "has been removed" in error["message"]
        assert before.endswith(name)
        assert b"event: final" not in rest
        assert run.closed.wait(10), "and its decoding stops"


def test_events_that_were_ready_before_are_not_sent(tmp_path: Path) -> None:
    """The next event is the error, also where a slow reader left others behind."""
    run = ScriptedRun(tokens=("x" * 200_000,) * 400, gate=threading.Event())
    with keyed(run, tmp_path) as (url, reload):
        client = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
        client.request("POST", "/v1/apply", json.dumps(BODY | {"stream": True}), JSON | bearer(ALICE))
        stream = client.getresponse()
        assert stream.readline()
        assert wait_for(lambda: run.n_polls > 0, 20)
        reload(ONLY_BOB)
        rest = stream.read()
        client.close()
    assert b'"code": "unauthorized"' in rest[-1000:]
    assert len(rest) < 200_000 * 200, "what lies in the buffers of the sockets is out"


def test_waiting_edits_and_batches_end(tmp_path: Path) -> None:
    run = ScriptedRun(gate=threading.Event())
    with keyed(run, tmp_path) as (url, reload):
        first = post(url, "/v1/apply", BODY, BOB)
        assert run.started.wait(10)
        edit = post(url, "/v1/apply", BODY)
        stream = post(url, "/v1/apply", BODY | {"stream": True})
        batch = post(url, "/v1/apply/batch", {"edits": [BODY | {"path": "a"}, BODY | {"path": "b"}]})
        chat = post(url, STREAMS[1][0], STREAMS[1][1])
        assert wait_for(lambda: n_waiting(url) == 5, 20)
        reload(ONLY_BOB)
        for one, code in ((edit, "unauthorized"), (stream, "unauthorized"), (batch, "unauthorized")):
            answer = one()
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, code)
        assert (chat().status_code, chat().json()["error"]["code"]) == (401, "invalid_api_key")
        assert wait_for(lambda: n_waiting(url) == 0)
        assert run.gate is not None
        run.gate.set()
        assert first().status_code == 200
    assert run.n_started == 1


def test_a_request_whose_body_still_comes_is_refused(tmp_path: Path) -> None:
    run = ScriptedRun()
    with keyed(run, tmp_path) as (url, reload):
        client = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
        client.putrequest("POST", "/v1/apply")
        for name, value in (JSON | bearer(ALICE) | {"Content-Length": "100"}).items():
            client.putheader(name, value)
        client.endheaders(b" " * 50)
        assert post(url, "/v1/models", None, BOB)().status_code == 405  # the server has taken the other up by now
        reload(ONLY_BOB)
        answer = client.getresponse()
        assert (answer.status, json.loads(answer.read())["error"]["code"]) == (401, "unauthorized")
        client.close()
    assert run.n_started == 0


def test_changed_limits_hold_at_once(tmp_path: Path) -> None:
    with keyed(ScriptedRun(), tmp_path, rate_limit=50) as (url, reload):
        assert post(url, "/v1/apply", BODY)().headers["x-ratelimit-limit"] == "50"
        reload(format_entry("alice", ALICE) + "rate_limit = 2\n")
        answers = [post(url, "/v1/apply", BODY)() for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 429]
        assert {answer.headers["x-ratelimit-limit"] for answer in answers} == {"2"}
        reload(BOTH)
        assert post(url, "/v1/apply", BODY)().status_code == 200


def test_nothing_is_kept_of_requests_that_have_ended(tmp_path: Path) -> None:
    run = ScriptedRun()
    with keyed(run, tmp_path) as (url, reload):
        for path, body in (("/v1/apply", BODY), ("/v1/apply", {}), ("/v1/nothing", {}), STREAMS[0][:2]):
            post(url, path, body)()
        with pytest.MonkeyPatch.context() as patch:
            told: list[int] = []
            patch.setattr("apply_service.api.keys.log.log", lambda *args: told.append(args[-1]))
            assert wait_for(lambda: (reload(ONLY_BOB), told[-1] == 0)[1])
