"""The editors' fixtures are current, and they are what the service's own app answers, byte for byte."""

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from apply_service.api.app import create_app
from apply_service.service import Service
from apply_service.settings import Settings
from editor_plugins.contract.cases import EDITS, ERRORS, EditCase, ErrorCase, result_of
from editor_plugins.contract.generate import FOLDER, fixtures, tokens_of
from tests.doubles import ScriptedRun


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def test_the_fixtures_are_current() -> None:
    kept = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    assert kept == dict(fixtures()), "run: python -m editor_plugins.contract.generate"


def ask(run: ScriptedRun, fixture: dict[str, Any], *, stream: bool) -> dict[str, Any]:
    with Service(run) as service, TestClient(create_app(service, Settings())) as client:
        said = client.post("/v1/apply", json={**fixture["request"], "stream": stream})
    headers = {
        name: said.headers[name] for name in ("content-type", "retry-after", "www-authenticate") if name in said.headers
    }
    headers["content-type"] = headers["content-type"].split(";")[0]
    return {"status": said.status_code, "headers": headers, "body": said.content.decode()}


def small(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "headers": {name.lower(): value for name, value in answer["headers"].items()}}


@pytest.mark.parametrize("case", EDITS, ids=lambda case: case.name)
def test_the_service_answers_so(case: EditCase) -> None:
    fixture = read(case.name)
    for kind in ("reply", "stream"):
        run = ScriptedRun(tokens=tokens_of(case), result=result_of(case))
        assert ask(run, fixture, stream=kind == "stream") == small(fixture[kind])
        assert run.requests[0].original == case.original


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: case.name)
def test_the_service_fails_so(case: ErrorCase) -> None:
    fixture = read(case.name)
    for kind in ("reply", "stream"):
        tokens = case.tokens if kind == "stream" else ()
        assert ask(ScriptedRun(tokens=tokens, error=case.error), fixture, stream=kind == "stream") == small(
            fixture[kind]
        )
