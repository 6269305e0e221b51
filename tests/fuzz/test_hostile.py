"""How the run of hostile edits reads what it is answered, and what it calls a fault."""

import json

import pytest

from apply_service.build import open_service
from apply_service.settings import Settings
from apply_service.target import Runtime, Target
from tests.fuzz.hostile import DEADLINE_S, EDITS, GOOD, MCP, WAYS, Ended, Hostile, diff, fault, read_end, send
from tests.live_server import serving

PLAIN = Hostile(GOOD["original"], GOOD["update"], "a = 2\n")


def no_target(name: str) -> Target:
    raise AssertionError(f"{name} was loaded for nothing")


@pytest.mark.parametrize("way", [way for way in WAYS if way != MCP])
def test_each_way_in_is_asked_as_it_expects_and_read_as_it_answers(way: str) -> None:
    settings = Settings()
    with open_service(Runtime(load=no_target), settings) as service, serving(service, settings) as (url, _):
        send(url, "/v1/apply", GOOD)  # the first one waits for the processes that read
        path, body = WAYS[way](PLAIN)
        _, status, answer = send(url, path, body)
        assert read_end(way, status, answer) == Ended(200, "", PLAIN.wanted)
        path, body = WAYS[way](PLAIN._replace(update=diff("@@ -1 +1 @@\n-zz\n+y\n")))
        _, status, answer = send(url, path, body)
        assert read_end(way, status, answer).code == "needs_more_context"


@pytest.mark.parametrize("is_error", [False, True])
def test_answers_of_mcp(is_error: bool) -> None:
    told = "error [too_large]: much" if is_error else "f.py: dry run"
    answer = json.dumps({"result": {"isError": is_error, "content": [{"type": "text", "text": told}]}})
    expected = Ended(200, "too_large" if is_error else "", None)
    assert read_end(MCP, 200, answer.encode()) == read_end(MCP, 200, f"event: message\ndata: {answer}\n\n".encode())
    assert read_end(MCP, 200, answer.encode()) == expected


def test_faults() -> None:
    late = DEADLINE_S + 5
    assert fault(Ended(504, "deadline_exceeded", None), DEADLINE_S, 0.01, "x") == ""
    assert fault(Ended(200, "", "x"), 0.1, 0.01, "x") == ""
    assert fault(Ended(200, "", "y"), 0.1, 0.01, None) == ""
    assert fault(Ended(200, "", "y"), 0.1, 0.01, "x") == "a wrong answer"
    assert fault(Ended(500, "engine_failure", None), 0.1, 0.01, None) == "failed: 500 engine_failure"
    assert fault(Ended(0, "", None), 0.1, 0.01, None) == "failed: 0 "
    assert fault(Ended(200, "", "x"), late, 0.01, "x") == "late: 6.00 s"
    assert fault(Ended(200, "", "x"), 0.1, 0.2, "x") == "/healthz waited 200 ms"


def test_edits_are_of_every_size() -> None:
    sizes = [len(edit.original) + len(edit.update) for edit in (make() for make in EDITS.values())]
    assert len(sizes) > 30
    assert min(sizes) < 10_000
    assert max(sizes) > 9_000_000
