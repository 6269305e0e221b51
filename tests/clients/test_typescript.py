"""The TypeScript client: its types are those of the OpenAPI page, and against real servers it gets what ours gets.

What runs it needs node and the compiler (`npm ci --prefix apply_service/clients/typescript`, or `make test-clients`).
"""

import json
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from apply_service.clients.http import HttpClient
from apply_service.errors import NeedsMoreContext
from apply_service.types import PassCount
from docs.generate_typescript import TARGET, openapi_page, render
from tests.api.test_batch import GOOD, LOST, PATCH_FILES, pipeline_run, program_run
from tests.api.test_choices import SCOPES, UNCLEAR
from tests.clients.test_http import EVENT_STREAM, raw_server
from tests.doubles import ScriptedRun, make_result
from tests.edits.test_patch import V4A
from tests.live_server import live_server

PROJECT = Path(__file__).parents[2] / "apply_service" / "clients" / "typescript"
COMPILER = PROJECT / "node_modules" / "typescript" / "bin" / "tsc"
NODE = shutil.which("node")
PASS = PassCount(n_new=2, n_drafted=3, n_accepted=1, source="merge")
REQUEST = {"original": "old\n", "update": "new\n"}


def test_the_types_are_those_of_the_openapi_page() -> None:
    assert TARGET.read_text(encoding="utf-8") == render(openapi_page()), "run: python -m docs.generate_typescript"


def test_the_generator_knows_every_kind_of_schema() -> None:
    untyped = [line.strip() for line in render(openapi_page()).split("\n") if ": unknown" in line]
    assert untyped == ["value: unknown;", "limit: unknown;"]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled driver; compiling it checks the types strictly."""
    if NODE is None:
        pytest.skip("node is not installed")
    if not COMPILER.is_file():
        pytest.skip("the TypeScript compiler is not installed: npm ci --prefix apply_service/clients/typescript")
    folder = tmp_path_factory.mktemp("typescript")
    (folder / "package.json").write_text('{"type": "module"}')
    done = subprocess.run(
        [NODE, str(COMPILER), "--project", str(PROJECT / "tsconfig.test.json"), "--outDir", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return folder / "test" / "calls.js"


def run(program: Path, url: str, *asked: dict[str, Any]) -> list[dict[str, Any]]:
    """What came of each call."""
    assert NODE is not None
    calls = [{"options": {"baseUrl": url}, **call} for call in asked]
    done = subprocess.run(
        [NODE, str(program)], input=json.dumps(calls), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.split("\n")[:-1]]


def test_apply_and_stream(program: Path) -> None:
    result = make_result("é\u2028\r\n\U0001f600\n" * 5000)
    double = ScriptedRun(tokens=("é\u2028", "\U0001f600\x85\n"), passes=(PASS,), result=result)
    with live_server(double) as (url, _):
        whole, streamed = run(
            program, url, {"call": "apply", "request": REQUEST}, {"call": "stream", "request": REQUEST}
        )
        expected = HttpClient(url).post(REQUEST)
    assert whole == {"answer": expected}
    assert streamed["answer"] == [
        {"type": "token", "text": "é\u2028", "passes": [PASS._asdict()]},
        {"type": "token", "text": "\U0001f600\x85\n", "passes": [PASS._asdict()]},
        {"type": "final", "answer": expected},
    ]
    assert (double.requests[0].original, double.requests[0].update) == ("old\n", "new\n")


def test_an_edit_that_is_not_clear_is_answered_by_a_reading(program: Path) -> None:
    edit = {"original": SCOPES, "update": UNCLEAR, "path": "a.py", "strategy": "exact", "diff": True}
    with live_server(program_run) as (url, _):
        (said,) = run(program, url, {"call": "apply", "request": edit})
        with pytest.raises(NeedsMoreContext) as caught:
            HttpClient(url).post(edit)
        assert said["error"]["readings"] == caught.value.readings
        assert "@@" in said["error"]["readings"][0]["diff"]
        taken = edit | {"reading": said["error"]["readings"][1]["id"]}
        (said,) = run(program, url, {"call": "apply", "request": taken})
        assert without_times(said["answer"]) == without_times(HttpClient(url).post(edit | {"reading": "2"}))


def test_batches_models_and_health(program: Path) -> None:
    batch = {"mode": "independent", "edits": [GOOD, LOST]}
    patch = {"patch": V4A, "files": PATCH_FILES, "diff": True}
    with live_server(pipeline_run) as (url, _):
        said = run(
            program,
            url,
            {"call": "batch", "request": batch},
            {"call": "batch", "request": patch},
            {"call": "models"},
            {"call": "health"},
            {"call": "isReady"},
        )
        client = HttpClient(url)
        assert without_times(said[0]["answer"]) == without_times(client.post(batch, path="/v1/apply/batch"))
        assert without_times(said[1]["answer"]) == without_times(client.post(patch, path="/v1/apply/batch"))
        assert [card["id"] for card in said[2]["answer"]["data"]] == [model.id for model in client.models()]
        assert said[3]["answer"]["queue_limit"] == client.health().queue_limit
        assert said[4] == {"answer": True}


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key != "timings_s"}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def test_errors_come_back_typed(program: Path) -> None:
    error = NeedsMoreContext("no anchor", value="def f", limit="one place", remedy="show more")
    calls = [{"call": call, "request": REQUEST} for call in ("apply", "stream")]
    with live_server(ScriptedRun(tokens=(), error=error)) as (url, _):
        for said in run(program, url, *calls):
            assert said == {"error": {"readings": [], **error.as_dict(), "status": 422}}
    with live_server(ScriptedRun(tokens=("x",), error=RuntimeError())) as (url, _):
        (said,) = run(program, url, {"call": "stream", "request": REQUEST})
        assert said["error"]["code"] == "engine_failure"
        assert "status" not in said["error"]  # it came after the first byte


def test_leaving_a_stream_and_aborting_a_call_stop_the_decoding(program: Path) -> None:
    for call, said in (
        ("leave", {"answer": {"type": "token", "text": "ne", "passes": []}}),
        ("abort", {"error": {"name": "AbortError"}}),
    ):
        double = ScriptedRun(gate=threading.Event())
        with live_server(double) as (url, service):
            assert run(program, url, {"call": call, "request": REQUEST}) == [said]
            assert double.closed.wait(5)
            assert service.wait_until_idle(5)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n<html/>",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull",
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nbad",
        b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere.example/\r\nContent-Length: 0\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        EVENT_STREAM + b'event: token\ndata: {"text": "x"}\n\n',
        EVENT_STREAM + b'event: token\ndata: {"text": "x", "passes": 1}\n\n',
        EVENT_STREAM + b"event: final\ndata: {}\n\n",
        EVENT_STREAM + b"event: token\ndata: {bad\n\n",
        EVENT_STREAM + b'event: token\ndata: {"text": "\xff"}\n\n',
    ],
)
def test_a_server_that_is_none_of_ours(program: Path, answer: bytes) -> None:
    with raw_server(answer) as url:
        for said in run(program, url, *({"call": call, "request": REQUEST} for call in ("apply", "stream"))):
            assert said["error"]["code"] == "unreachable", said
            assert said["error"]["value"] == url


def test_keys_are_sent(program: Path) -> None:
    received: list[bytes] = []
    with raw_server(b"", received) as url:
        options = {"baseUrl": url, "apiKey": "k-1"}
        run(program, url, {"call": "apply", "request": REQUEST, "options": options})
    assert b"authorization: bearer k-1\r\n" in received[0].lower()


@pytest.mark.slow
def test_a_silent_server_is_a_deadline(program: Path) -> None:
    """Slow: the client grants the server five seconds beyond the deadline."""
    with raw_server(None) as url:
        options = {"baseUrl": url, "timeoutMs": 50}
        (said,) = run(program, url, {"call": "apply", "request": REQUEST, "options": options})
    assert said["error"]["code"] == "deadline_exceeded"
