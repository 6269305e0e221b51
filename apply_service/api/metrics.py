"""`/metrics`: what the service does, for Prometheus.

Counts are taken at two places: once a ticket, when it has ended (`observe_ticket`), and once an HTTP request, when its
answer is out (`observe_call`).  Labels are names from fixed sets; no text of a request becomes one.
"""

from __future__ import annotations

from fastapi import APIRouter, Response
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    exposition,
)
from starlette.types import Scope

from apply_service.api.calls import Call
from apply_service.service import Service
from apply_service.settings import Settings
from apply_service.ticket import Ticket
from apply_service.types import ApplyResult, DecodeStats, FinalEvent

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
SHARES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 1.0)
REJECTIONS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55)
GAUGES = {
    "apply_queue_length": "Edits that wait for the engine.",
    "apply_active_edits": "Edits that the engine works on.",
    "apply_queue_limit": "Edits that may wait.",
}
MODEL_ORIGIN = "model"
UNKNOWN_PATH = "other"


class Metrics:
    """All of one application's metrics, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._gauges = {name: Gauge(name, text, registry=self.registry) for name, text in GAUGES.items()}
        self._http = _HttpMetrics(self.registry)
        self._edits = _EditMetrics(self.registry)
        self._decoding = _DecodingMetrics(self.registry)

    def watch(self, service: Service, settings: Settings) -> None:
        """Let the gauges show the service."""
        self._gauges["apply_queue_length"].set_function(lambda: service.queue_length)
        self._gauges["apply_active_edits"].set_function(lambda: service.n_active)
        self._gauges["apply_queue_limit"].set(settings.queue_limit)

    def observe_call(self, call: Call, scope: Scope, status: int, seconds: float) -> None:
        """Count an HTTP request, and the errors that it met."""
        self._http.observe(call, scope, status, seconds)

    def observe_ticket(self, ticket: Ticket) -> None:
        """Count an edit that has ended."""
        self._edits.observe(ticket)
        if isinstance(ticket.terminal, FinalEvent) and ticket.terminal.result.model is not None:
            self._decoding.observe(ticket.terminal.result.stats)

    def render(self) -> bytes:
        return exposition.generate_latest(self.registry)


class _HttpMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "apply_http_requests", "HTTP requests by route and status.", ["path", "status"], registry=registry
        )
        self._seconds = Histogram(
            "apply_http_seconds", "From request to whole answer.", ["path"], registry=registry, buckets=SECONDS
        )
        self._errors = Counter("apply_errors", "Errors by code.", ["code"], registry=registry)

    def observe(self, call: Call, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", UNKNOWN_PATH)
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        for error in call.errors:
            self._errors.labels(error.code).inc()


class _EditMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._edits = Counter(
            "apply_edits",
            "Edits that ended in an answer, by who decided and the edit's format.",
            ["strategy", "format"],
            registry=registry,
        )
        self._stages = Histogram(
            "apply_stage_seconds", "Seconds of an edit by stage.", ["stage"], registry=registry, buckets=SECONDS
        )
        self._verdicts = Counter(
            "apply_verdicts", "Verdicts by check and severity.", ["check", "severity"], registry=registry
        )

    def observe(self, ticket: Ticket) -> None:
        self._stages.labels("queue").observe(ticket.queue_s)
        if not isinstance(ticket.terminal, FinalEvent):
            return
        result = ticket.terminal.result
        self._edits.labels(result.strategy, result.format).inc()
        for stage, seconds in stage_seconds(result).items():
            self._stages.labels(stage).observe(seconds)
        for verdict in result.verdicts:
            self._verdicts.labels(verdict.check, verdict.severity).inc()


class _DecodingMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._tokens = Counter(
            "apply_tokens",
            "Generated tokens by the source of their draft; `model`: not drafted.",
            ["origin"],
            registry=registry,
        )
        self._prompt = Counter("apply_prompt_tokens", "Prompt tokens.", registry=registry)
        self._cached = Counter(
            "apply_cached_prompt_tokens", "Prompt tokens that the prefix cache already held.", registry=registry
        )
        self._prefixes = Counter(
            "apply_prefix_cache_lookups", "Prompts by whether the prefix cache held any.", ["found"], registry=registry
        )
        self._drafted = Counter("apply_drafted_tokens", "Tokens that were drafted.", registry=registry)
        self._accepted = Counter("apply_accepted_tokens", "Drafted tokens that stood.", registry=registry)
        self._acceptance = Histogram(
            "apply_acceptance", "Accepted share of an edit's drafted tokens.", registry=registry, buckets=SHARES
        )
        self._rejections = Histogram("apply_rejections", "Rejections an edit.", registry=registry, buckets=REJECTIONS)
        self._passes = Counter("apply_passes", "Forward passes by kind.", ["kind"], registry=registry)

    def observe(self, stats: DecodeStats) -> None:
        self._prompt.inc(stats.prompt_tokens)
        self._cached.inc(stats.cached_prompt_tokens)
        if "cached_prompt_tokens" not in stats.unknown:
            self._prefixes.labels("yes" if stats.cached_prompt_tokens else "no").inc()
        self._drafted.inc(stats.drafted_tokens)
        self._accepted.inc(stats.accepted_tokens)
        for source, n_tokens in stats.accepted_by_source.items():
            self._tokens.labels(source).inc(n_tokens)
        self._tokens.labels(MODEL_ORIGIN).inc(max(0, stats.completion_tokens - stats.accepted_tokens))
        if stats.drafted_tokens:
            self._acceptance.observe(stats.acceptance_rate)
        if "rejections" not in stats.unknown:
            self._rejections.observe(stats.rejections)
        self._passes.labels("prefill").inc(stats.prefill_passes)
        self._passes.labels("decode").inc(stats.passes)


def metrics_router(metrics: Metrics) -> APIRouter:
    router = APIRouter()

    @router.get("/metrics", include_in_schema=False)
    async def read_metrics() -> Response:
        return Response(metrics.render(), media_type=exposition.CONTENT_TYPE_LATEST)

    return router


def stage_seconds(result: ApplyResult) -> dict[str, float]:
    """Seconds of an edit by stage; prefill, decode and draft lie within `decide`."""
    stages = {name.removesuffix("_s"): seconds for name, seconds in result.timings_s.items()}
    if result.model is not None:
        stats = result.stats
        stages |= {"prefill": stats.prefill_s, "decode": stats.decode_s, "draft": stats.draft_s}
    return stages
