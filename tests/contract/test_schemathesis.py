"""schemathesis over the OpenAPI page: whatever the page allows, and what it forbids, is answered as the page says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from apply_service.api.app import create_app
from apply_service.build import open_service
from apply_service.settings import Settings
from apply_service.target import Runtime, Target
from tests.fake_engine import FakeEngine, hashed
from tests.plain_bytes import N_VOCAB, PlainBytes


def no_failure(_: object, response: schemathesis.Response, __: schemathesis.Case) -> None:
    """No 5xx, but for a deadline that the request itself made too short."""
    assert response.status_code < 500 or response.status_code == 504, response.text


CHECKS = [
    no_failure,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    unsupported_method,
]
QUIET = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def load(name: str) -> Target:
    return Target(name, FakeEngine(hashed(N_VOCAB), context_limit=4000), PlainBytes())


@pytest.fixture(scope="module")
def operations() -> Iterator[dict[str, APIOperation[Any, Any, Any, Any]]]:
    """Every operation of the whole application, over the real pipeline and an engine that writes nonsense."""
    chosen = Settings(default_timeout_s=5, max_timeout_s=5)
    with open_service(Runtime(load=load), chosen) as service:
        schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(service, chosen))
        yield {found.ok().label: found.ok() for found in schema.get_all_operations()}
        assert service.wait_until_idle(10)
        service.check_integrity()


def check(operation: APIOperation[Any, Any, Any, Any], n_each: int) -> None:
    """So many requests that the page allows, and as many that it forbids where it forbids any."""
    for mode in GenerationMode if operation.body else (GenerationMode.POSITIVE,):

        @settings(QUIET, max_examples=n_each)
        @given(case=operation.as_strategy(generation_mode=mode))
        def run(case: schemathesis.Case) -> None:
            case.call_and_validate(checks=CHECKS)

        run()


PATHS = (
    "GET /healthz",
    "GET /readyz",
    "GET /v1/apply/models",
    "GET /v1/apply/models/{name}",
    "GET /v1/models",
    "GET /v1/models/{name}",
    "POST /v1/apply",
    "POST /v1/apply/batch",
    "POST /v1/apply/chat/completions",
    "POST /v1/apply/completions",
    "POST /v1/chat/completions",
    "POST /v1/code/apply",
    "POST /v1/completions",
    "POST /v1/repair",
    "POST /v1/responses",
)


def test_every_operation_is_tried(operations: dict[str, Any]) -> None:
    assert sorted(operations) == list(PATHS)


@pytest.mark.parametrize("path", PATHS)
def test_a_few_requests(path: str, operations: dict[str, Any]) -> None:
    check(operations[path], 5)


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_many_requests(path: str, operations: dict[str, Any]) -> None:
    check(operations[path], 150)
