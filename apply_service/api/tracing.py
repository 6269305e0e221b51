"""OpenTelemetry traces: one span a request (made by the FastAPI instrumentation), one an edit, one each of its stages.

Off unless `trace_endpoint` is set; needs the extra `otel`.  Spans hold names and numbers, no code.  Stages are measured
by the pipeline itself; their spans are drawn when the edit has ended, from its end backwards.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI

from apply_service.api.auth import OPEN_PATHS
from apply_service.api.metrics import stage_seconds
from apply_service.errors import ApplyError, MissingDependency
from apply_service.ticket import Ticket
from apply_service.types import FinalEvent

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Tracer

NEEDED = ("opentelemetry.sdk", "opentelemetry.instrumentation.fastapi", "opentelemetry.exporter.otlp.proto.http")
SEQUENCE = ("predict", "decide", "restore", "checks")
"""Stages in their order; `prefill` and `decode` lie within `decide`."""

NS = 1_000_000_000


def open_exporter(endpoint: str) -> SpanExporter:
    """The exporter to an OTLP/HTTP collector.

    Raises:
        MissingDependency: the extra `otel` is not installed.
    """
    for name in NEEDED:
        if not _is_installed(name):
            raise MissingDependency(
                "Traces need OpenTelemetry.",
                value=name,
                remedy="pip install 'apply-service[otel]', or unset trace_endpoint.",
            )
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

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
    return lambda ticket: trace_ticket(tracer, ticket, time.time_ns())


def close_tracing(app: FastAPI) -> None:
    """Send what is left of the traces, if there are any."""
    provider: TracerProvider | None = getattr(app.state, "tracer_provider", None)
    if provider is not None:
        provider.shutdown()


def trace_ticket(tracer: Tracer, ticket: Ticket, end_ns: int) -> None:
    """Draw the spans of an edit that ended at `end_ns`, under the current span."""
    from opentelemetry.trace import StatusCode, set_span_in_context

    start_ns = end_ns - round(ticket.age_s * NS)
    span = tracer.start_span("apply", start_time=start_ns, attributes=_attributes(ticket))
    if isinstance(ticket.terminal, ApplyError):
        span.set_status(StatusCode.ERROR, ticket.terminal.code)
    parent = set_span_in_context(span)
    for name, stage_start_ns, stage_end_ns in stage_times(ticket, start_ns):
        tracer.start_span(name, context=parent, start_time=stage_start_ns).end(stage_end_ns)
    span.end(end_ns)


def stage_times(ticket: Ticket, start_ns: int) -> list[tuple[str, int, int]]:
    """Name, start and end of each stage, one after another from `start_ns`."""
    stages = {"queue": ticket.queue_s}
    if isinstance(ticket.terminal, FinalEvent):
        stages |= stage_seconds(ticket.terminal.result)
    times, now = [], start_ns
    for name in ("queue", *SEQUENCE):
        if name not in stages:
            continue
        end_ns = now + round(stages[name] * NS)
        times.append((name, now, end_ns))
        if name == "decide":
            times += _within_decide(stages, now)
        now = end_ns
    return times


def _within_decide(stages: dict[str, float], start_ns: int) -> list[tuple[str, int, int]]:
    """Prefill and decode are the engine's own sums; what lies between them is not recorded."""
    middle_ns = start_ns + round(stages.get("prefill", 0.0) * NS)
    if "prefill" not in stages:
        return []
    return [("prefill", start_ns, middle_ns), ("decode", middle_ns, middle_ns + round(stages["decode"] * NS))]


def _attributes(ticket: Ticket) -> dict[str, str | int]:
    if not isinstance(ticket.terminal, FinalEvent):
        error = ticket.terminal
        return {"apply.error": error.code} if isinstance(error, ApplyError) else {}
    result = ticket.terminal.result
    counts = {
        f"apply.{name}": getattr(result.stats, name)
        for name in ("prompt_tokens", "completion_tokens", "passes", "rejections")
        if name not in result.stats.unknown
    }
    return {
        "apply.strategy": result.strategy,
        "apply.format": result.format,
        "apply.model": result.model or "",
        **counts,
    }


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
