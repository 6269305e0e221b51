"""`apply --request`: one JSON request in, one JSON answer out, as over HTTP."""

import json
import sys
from pathlib import Path

import pytest

from apply_service.cli import main
from apply_service.clients.http import decode_answer
from apply_service.types import ApplyRequest
from tests.commands.conftest import Stdin, last_code
from tests.doubles import ScriptedRun


def test_a_json_request_is_answered_as_over_http(
    folder: Path,
    url: str,
    run: ScriptedRun,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(b'{"original": "a", "update": "b", "seed": 4}'))
    assert main(["apply", "--request", "-", "--server", url]) == 0
    assert decode_answer(json.loads(capsysbinary.readouterr().out)) == run.result
    assert run.requests == [ApplyRequest(original="a", update="b", seed=4, owner="anonymous")]


@pytest.mark.parametrize(
    ("body", "code", "value"),
    [
        (b'{"original": "", "bla": 1}', "unknown_field", "bla"),
        (b'{"original": "", "stream": true}', "unsupported_parameter", "stream"),
        (b"{", "invalid_field", "body"),
        (b"[]", "invalid_field", []),
        (b"\xff", "invalid_field", "body"),
    ],
)
def test_a_bad_json_request_is_refused_as_over_http(
    folder: Path,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
    body: bytes,
    code: str,
    value: object,
) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(body))
    assert main(["apply", "--request", "-", "--server", url]) == 2
    out, err = capsysbinary.readouterr()
    assert (json.loads(out)["error"]["code"], json.loads(out)["error"]["value"]) == (code, value)
    assert last_code() == code
    assert b"\n  " in err
