"""Traces: a span a request, one an edit, one a stage; off by default; no code in them."""

import json
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from apply_service.api import app as app_module
from apply_service.api.tracing import close_tracing, open_exporter
from apply_service.errors import MissingDependency, NeedsMoreContext
from tests.api.layers import BODY, layered
from tests.doubles import ScriptedRun, make_result

sdk = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")

SECRET = "def secret_of_the_caller"
TIMINGS = {"predict_s": 0.25, "decide_s": 1.0, "restore_s": 0.125, "checks_s": 0.5, "total_s": 1.875}


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Spans go here instead of to a collector."""
    exporter = sdk.InMemorySpanExporter()
    monkeypatch.setattr(app_module, "open_exporter", lambda endpoint: exporter)
    return exporter


def ask(body: dict[str, Any], run: ScriptedRun, **headers: str) -> None:
    with layered(run, trace_endpoint="http://collector:4318/v1/traces") as http:
        http.post("/v1/apply", json=body, headers=headers)
        http.get("/healthz")
        close_tracing(http.app)  # type: ignore[arg-type]


def by_name(spans: Sequence[Any]) -> dict[str, Any]:
    return {span.name: span for span in spans}


def test_spans_of_an_edit(exported: Any) -> None:
    ask(BODY, ScriptedRun(result=make_result(timings_s=TIMINGS)))
    spans = by_name(exported.get_finished_spans())
    stages = {"queue", "predict", "decide", "prefill", "decode", "restore", "checks"}
    assert set(spans) == {"POST /v1/apply", "apply", *stages}
    assert spans["apply"].parent.span_id == spans["POST /v1/apply"].context.span_id
    assert {spans[name].parent.span_id for name in stages} == {spans["apply"].context.span_id}
    assert spans["decide"].end_time - spans["decide"].start_time == 10**9
    assert spans["predict"].end_time == spans["decide"].start_time == spans["prefill"].start_time
    assert spans["apply"].attributes["apply.strategy"] == "model"
    assert spans["apply"].attributes["apply.rejections"] == 1


def test_an_error_marks_its_span(exported: Any) -> None:
    ask(BODY, ScriptedRun(tokens=(), error=NeedsMoreContext(SECRET)))
    span = by_name(exported.get_finished_spans())["apply"]
    assert not span.status.is_ok
    assert span.attributes["apply.error"] == "needs_more_context"


def test_no_code_in_any_span(exported: Any) -> None:
    ask({"original": SECRET, "update": SECRET, "path": SECRET}, ScriptedRun(result=make_result(SECRET)))
    text = json.dumps([json.loads(span.to_json()) for span in exported.get_finished_spans()])
    assert "POST /v1/apply" in text
    assert SECRET not in text


def test_a_trace_that_the_caller_began_goes_on(exported: Any) -> None:
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    ask(BODY, ScriptedRun(), traceparent=f"00-{trace_id}-b7ad6b7169203331-01")
    assert {f"{span.context.trace_id:032x}" for span in exported.get_finished_spans()} == {trace_id}


def test_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "open_exporter", lambda endpoint: pytest.fail("traces are off"))
    with layered(ScriptedRun()) as http:
        assert http.post("/v1/apply", json=BODY).status_code == 200
        close_tracing(http.app)  # type: ignore[arg-type]


def test_without_the_extra_it_is_said_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(MissingDependency) as caught:
        open_exporter("http://collector:4318")
    assert "otel" in caught.value.remedy
