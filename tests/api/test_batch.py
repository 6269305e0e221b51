"""`POST /v1/apply/batch` without a socket: both forms, what is refused, and what is withheld."""

import base64
import json
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.testclient import TestClient

from apply_service.api.app import create_app
from apply_service.build import open_service
from apply_service.deadline import Deadline
from apply_service.pipeline import run as run_pipeline
from apply_service.service import Run, Service
from apply_service.settings import Settings
from apply_service.target import Runtime
from apply_service.types import ApplyEvent, ApplyRequest
from tests.batch.test_edits import block, no_model
from tests.doubles import wait_for
from tests.edits.test_patch import FILES, V4A

PATH = "/v1/apply/batch"
GOOD = {"path": "a.py", "original": "x = 1\n", "update": block("x = 1", "x = 2")}
LOST = {"path": "b.py", "original": "y = 1\n", "update": block("nowhere at all", "y = 2"), "strategy": "exact"}
PATCH_FILES = [{"path": path, "original": text} for path, text in FILES.items()]


def pipeline_run(request: ApplyRequest, deadline: Deadline) -> Generator[ApplyEvent]:
    return run_pipeline(request, Runtime(load=no_model), deadline)


def program_run(request: ApplyRequest, deadline: Deadline) -> Generator[ApplyEvent]:
    """The pipeline with a model that is known to decide nothing better than the merger."""
    return run_pipeline(request, Runtime(load=no_model, decides={"embedded": frozenset()}), deadline)


@contextmanager
def client(run: Run = pipeline_run, **settings: Any) -> Iterator[TestClient]:
    chosen = Settings(**settings)
    with Service(run, queue_limit=chosen.queue_limit, max_timeout_s=chosen.max_timeout_s) as service:
        yield TestClient(create_app(service, chosen), raise_server_exceptions=False)
        assert service.wait_until_idle(5)
        service.check_integrity()


def post(body: object, **settings: Any) -> tuple[int, Any]:
    with client(**settings) as http:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        response = http.post(PATH, content=content, headers={"Content-Type": "application/json"})
    return response.status_code, response.json()


def test_edits() -> None:
    status, answer = post({"edits": [GOOD | {"diff": True}, GOOD | {"path": "c.py"}]})
    assert (status, answer["status"], answer["mode"]) == (200, "applied", "all_or_nothing")
    first, second = answer["items"]
    assert (first["path"], first["action"], first["status"]) == ("a.py", "modify", "ok")
    assert first["answer"]["merged_code"] == "x = 2\n"
    assert "+x = 2" in first["diff"]
    assert second["diff"] is None
    assert first["verdicts"] == first["answer"]["verdicts"]


def test_all_or_nothing_withholds_and_independent_does_not() -> None:
    status, refused = post({"edits": [GOOD, LOST]})
    assert (status, refused["status"]) == (200, "refused")
    assert [(item["status"], item["answer"]) for item in refused["items"]] == [("withheld", None), ("failed", None)]
    assert refused["items"][1]["error"]["code"] == "needs_more_context"
    _, partial = post({"mode": "independent", "edits": [GOOD, LOST]})
    assert partial["status"] == "partial"
    assert partial["items"][0]["answer"]["merged_code"] == "x = 2\n"


def test_a_patch() -> None:
    status, answer = post({"patch": V4A, "files": PATCH_FILES, "diff": True})
    assert (status, answer["status"]) == (200, "applied")
    items = {item["path"]: item for item in answer["items"]}
    assert {path: (item["action"], item["source"]) for path, item in items.items()} == {
        "a.py": ("modify", "a.py"),
        "dir/new.py": ("create", None),
        "old.py": ("delete", "old.py"),
        "dir/c.py": ("rename", "dir/b.py"),
    }
    assert items["dir/c.py"]["answer"]["merged_code"] == "one\n2\nthree\n"
    assert items["old.py"]["answer"] is None
    assert items["dir/c.py"]["diff"].startswith("diff --git a/dir/b.py b/dir/c.py\nrename from")


def test_bytes_in_bytes_out() -> None:
    original = base64.b64encode("é\r\nx\r\n".encode("utf-16")).decode()
    edit = {"path": "a.txt", "original_b64": original, "encoding": "utf-16", "update": block("x", "y")}
    _, answer = post({"edits": [edit, GOOD]})
    assert base64.b64decode(answer["items"][0]["answer"]["merged_b64"]).decode("utf-16") == "é\r\ny\r\n"
    assert answer["items"][1]["answer"]["merged_b64"] is None
    files = [{"path": "a.txt", "original_b64": original, "encoding": "utf-16"}]
    patch = "diff --git a/a.txt b/b.txt\n--- a/a.txt\n+++ b/b.txt\n@@ -1,2 +1,2 @@\n é\n-x\n+y\n"
    _, answer = post({"patch": patch, "files": files})
    assert base64.b64decode(answer["items"][0]["answer"]["merged_b64"]).decode("utf-16") == "é\r\ny\r\n"


@pytest.mark.parametrize(
    ("body", "status", "code", "value"),
    [
        ({}, 422, "invalid_field", "edits"),
        ({"edits": [GOOD], "patch": V4A}, 422, "invalid_field", "edits"),
        ({"edits": []}, 422, "invalid_field", []),
        ({"edits": [GOOD, GOOD]}, 422, "invalid_field", "a.py"),
        ({"edits": {}}, 422, "invalid_field", {}),
        ({"edits": [GOOD], "diff": True}, 422, "unsupported_parameter", ["diff"]),
        ({"edits": [GOOD], "files": [], "on_verdict": {}}, 422, "unsupported_parameter", ["files", "on_verdict"]),
        ({"edits": [GOOD | {"stream": False}]}, 422, "unsupported_parameter", "stream"),
        ({"edits": [GOOD], "stream": True}, 422, "unknown_field", "stream"),
        ({"edits": [GOOD, GOOD | {"sed": 1}]}, 422, "unknown_field", "edits.1.sed"),
        ({"edits": [GOOD | {"temperature": 9}]}, 422, "invalid_field", 9),
        ({"edits": [GOOD | {"original": None}]}, 422, "invalid_field", "original"),
        ({"edits": [GOOD], "mode": "some"}, 422, "invalid_field", "some"),
        ({"patch": "hello", "files": []}, 422, "malformed_edit", "hello"),
        ({"patch": V4A, "files": [{"path": "a.py"}]}, 422, "invalid_field", "original"),
        ({"patch": V4A, "files": [{"path": "a.py", "original": "", "x": 1}]}, 422, "unknown_field", "files.0.x"),
        ({"patch": V4A, "files": [PATCH_FILES[0]] * 2}, 422, "invalid_field", "a.py"),
        ({"patch": V4A, "files": [PATCH_FILES[0] | {"base_sha256": "0" * 64}]}, 409, "stale_base", "0" * 64),
        ({"patch": V4A, "files": [{"path": "a.py", "original_b64": "?"}]}, 422, "invalid_field", "original_b64"),
        (b'{"edits": ["\\ud800"]}', 422, "bad_encoding", None),
        (b"[]", 422, "invalid_field", []),
        (b"{", 422, "invalid_field", "body"),
    ],
)
def test_malformed_requests(body: object, status: int, code: str, value: object) -> None:
    answered, answer = post(body)
    assert (answered, answer["error"]["code"]) == (status, code)
    assert answer["error"]["remedy"]
    if value is not None:
        assert answer["error"]["value"] == value


def test_the_edit_at_fault_is_named() -> None:
    bad = GOOD | {"path": "z.py", "original_b64": "!", "original": None}
    _, answer = post({"edits": [GOOD, bad]})
    assert answer["error"]["message"].startswith("edits.1: ")


@pytest.mark.parametrize("body", [{"edits": [GOOD, LOST]}, {"patch": V4A, "files": PATCH_FILES}])
def test_limits(body: object) -> None:
    status, answer = post(body, max_lines=1)
    assert (status, answer["error"]["code"]) == (413, "too_large")


def test_thousands_of_small_files() -> None:
    edits = [GOOD | {"path": f"{i}.py"} for i in range(1500)]
    _, answer = post({"edits": edits}, queue_limit=16)
    assert answer["status"] == "applied"
    assert [item["path"] for item in answer["items"]] == [edit["path"] for edit in edits]


def test_a_full_queue_refuses_the_batch() -> None:
    gate, started = threading.Event(), threading.Event()

    def run(request: ApplyRequest, deadline: Deadline) -> Generator[ApplyEvent]:
        started.set()
        gate.wait(5)
        yield from pipeline_run(request, deadline)

    wanted = ApplyRequest("x = 1\n", block("x = 1", "x = 2"))
    with Service(run, queue_limit=1) as service:
        tickets = [service.submit(wanted)]
        assert started.wait(5)
        tickets.append(service.submit(wanted))
        http = TestClient(create_app(service, Settings(queue_limit=1)), raise_server_exceptions=False)
        response = http.post(PATH, json={"edits": [GOOD]})
        assert response.status_code == 429
        assert response.headers["retry-after"]
        gate.set()
        for ticket in tickets:
            list(ticket.events())


def test_a_large_patch_is_applied_in_a_process_of_its_own_and_keeps_its_deadline() -> None:
    body = {"patch": V4A, "files": PATCH_FILES, "diff": True}
    _, here = post(body, large_edit_workers=0)
    for timeout_s, status in ((60.0, 200), (0.001, 504)):
        chosen = Settings(large_edit_chars=1, large_edit_workers=1, default_timeout_s=timeout_s)
        with open_service(Runtime(load=no_model), chosen) as service:
            http = TestClient(create_app(service, chosen), raise_server_exceptions=False)
            response = http.post(PATH, json=body)
            assert response.status_code == status
            assert service._large is not None
            if status == 200:
                assert untimed(response.json()) == untimed(here)
                pool = service._large.pool
                assert wait_for(lambda pool=pool: len(pool.pids) == 1)  # type: ignore[misc]
            else:
                assert response.json()["error"]["code"] == "deadline_exceeded"


def untimed(answer: Any) -> Any:
    for item in answer["items"]:
        if item["answer"] is not None:
            item["answer"]["timings_s"] = None
    return answer


def test_the_page_documents_the_request_in_one_piece() -> None:
    with client() as http:
        page = http.get("/openapi.json").json()
    operation = page["paths"][PATH]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    assert "$defs" not in json.dumps(schema)
    assert set(schema["properties"]) == {"mode", "edits", "patch", "files", "on_verdict", "diff"}
    assert "original_b64" in schema["properties"]["files"]["items"]["properties"]
    assert {"200", "409", "413", "422", "429"} <= set(operation["responses"])
