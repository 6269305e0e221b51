"""OpenTelemetry traces: one span a request (made by the FastAPI instrumentation), one an edit, one each of its stages.

Off unless `trace_endpoint` is set; needs the extra `otel`.  Spans hold names and numbers, no code.  Stages are measured
by the pipeline itself; their spans are drawn when the edit has ended, from its end backwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI

from apply_service.api.auth import OPEN_PATHS
from apply_service.api.calls import known_counts
from apply_service.api.metrics import stage_seconds
from apply_service.errors import ApplyError, MissingDependency
from apply_service.serving.ticket import Ticket
from apply_service.types import FinalEvent

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Tracer

STAGES = ("queue", "predict", "decide", "restore", "checks")
"""One after another; `prefill` and `decode` lie within `decide`."""
NS = 1_000_000_000


def open_exporter(endpoint: str) -> SpanExporter:
    """The exporter to an OTLP/HTTP collector.  Raises MissingDependency: the extra `otel` is not installed."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor  # noqa: F401 - needed next
    except ModuleNotFoundError as error:
        remedy = "pip install 'apply-service[otel]', or unset trace_endpoint"
        raise MissingDependency("traces need OpenTelemetry", value=error.name, remedy=remedy) from error
    return OTLPSpanExporter(endpoint=endpoint)


def install_tracing(app: FastAPI, exporter: SpanExporter) -> Callable[[Ticket], None]:
    """Trace the application's requests; the observer that traces its edits."""
    from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.name": "apply-service", "service.version": version("apply-service")})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    excluded = ",".join([f"{path}$" for path in (*sorted(OPEN_PATHS), "/metrics")])
    FastAPIInstrumentor.instrument_app(
        app, tracer_provider=provider, excluded_urls=excluded, exclude_spans=["receive", "send"]
    )
    app.state.tracer_provider = provider
    tracer = provider.get_tracer("apply_service")
    return lambda ticket: _trace_ticket(tracer, ticket, time.time_ns())


def close_tracing(app: FastAPI) -> None:
    """Send what is left of the traces, if there are any."""
    provider: TracerProvider | None = getattr(app.state, "tracer_provider", None)
    if provider is not None:
        provider.shutdown()


def _trace_ticket(tracer: Tracer, ticket: Ticket, end_ns: int) -> None:
    """Draw the spans of an edit that ended at `end_ns`, under the current span."""
    from opentelemetry.trace import StatusCode, set_span_in_context

    now_ns = end_ns - round(ticket.age_s * NS)
    span = tracer.start_span("apply", start_time=now_ns)
    parent = set_span_in_context(span)

    def draw(name: str, start_ns: int, seconds: float) -> int:
        stage_end_ns = start_ns + round(seconds * NS)
        tracer.start_span(name, context=parent, start_time=start_ns).end(stage_end_ns)
        return stage_end_ns

    seconds = {"queue": ticket.queue_s}
    if isinstance(ticket.terminal, FinalEvent):
        result = ticket.terminal.result
        seconds |= stage_seconds(result)
        names = {"strategy": result.strategy, "format": result.format, "model": result.model or ""}
        span.set_attributes({f"apply.{name}": value for name, value in (names | known_counts(result)).items()})
    elif isinstance(ticket.terminal, ApplyError):
        span.set_status(StatusCode.ERROR, ticket.terminal.code)
        span.set_attribute("apply.error", ticket.terminal.code)
    for name in STAGES:
        if name not in seconds:
            continue
        if name == "decide" and "prefill" in seconds:  # the engine's own sums; what lies between them is not recorded
            draw("decode", draw("prefill", now_ns, seconds["prefill"]), seconds["decode"])
        now_ns = draw(name, now_ns, seconds[name])
    span.end(end_ns)
