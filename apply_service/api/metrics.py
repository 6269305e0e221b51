"""Counts the metrics of `/metrics`, for Prometheus.

They are counted when a ticket (an edit in the queue) ends (`observe_ticket`), and when the answer to an HTTP request
has been sent (`observe_call`).  Labels come from fixed sets, never from the text of a request.
"""

from __future__ import annotations

from functools import partial

import prometheus_client as prometheus
from starlette.types import Scope

from apply_service.api.calls import HttpCall
from apply_service.service import Service
from apply_service.serving.ticket import Ticket
from apply_service.settings import Settings
from apply_service.types import FinalEvent

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
SHARES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 1.0)
REJECTIONS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55)


class Metrics:
    """The metrics of one application, with their own registry."""

    def __init__(self, service: Service, settings: Settings) -> None:
        self.registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=self.registry)
        prometheus.PlatformCollector(registry=self.registry)
        prometheus.GCCollector(registry=self.registry)
        gauge = partial(prometheus.Gauge, registry=self.registry)
        gauge("apply_queue_length", "Edits that wait for the engine.").set_function(lambda: service.queue_length)
        gauge("apply_active_edits", "Edits that the engine works on.").set_function(lambda: service.n_active)
        gauge("apply_queue_limit", "Edits that may wait.").set(settings.queue_limit)

        counter = partial(prometheus.Counter, registry=self.registry)
        histogram = partial(prometheus.Histogram, registry=self.registry)
        self._requests = counter("apply_http_requests", "HTTP requests by route and status.", ["path", "status"])
        self._http_s = histogram(
            "apply_http_seconds", "Seconds from the request to the end of its answer.", ["path"], buckets=SECONDS
        )
        self._errors = counter("apply_errors", "Errors by code.", ["code"])
        about = "Edits that ended in an answer, by strategy and edit format."
        self._edits = counter("apply_edits", about, ["strategy", "format"])
        self._stages = histogram("apply_stage_seconds", "Seconds of an edit by stage.", ["stage"], buckets=SECONDS)
        self._verdicts = counter("apply_verdicts", "Verdicts by check and severity.", ["check", "severity"])

        about = "Generated tokens by the source of their draft; `model` for tokens without an accepted draft."
        self._tokens = counter("apply_tokens", about, ["origin"])
        self._prompt = counter("apply_prompt_tokens", "Prompt tokens.")
        self._cached = counter("apply_cached_prompt_tokens", "Prompt tokens that the prefix cache already held.")
        about = "Prompts, by whether the prefix cache held a part of them."
        self._prefixes = counter("apply_prefix_cache_lookups", about, ["found"])
        self._drafted = counter("apply_drafted_tokens", "Tokens that were drafted.")
        self._accepted = counter("apply_accepted_tokens", "Drafted tokens that were accepted.")
        about = "Share of an edit's drafted tokens that was accepted."
        self._acceptance = histogram("apply_acceptance", about, buckets=SHARES)
        self._rejections = histogram("apply_rejections", "Rejected drafts per edit.", buckets=REJECTIONS)
        self._passes = counter("apply_passes", "Forward passes by kind.", ["kind"])

    def observe_call(self, call: HttpCall, scope: Scope, status: int, seconds: float) -> None:
        """Count an HTTP request and its errors."""
        path = getattr(scope.get("route"), "path", "other")
        self._requests.labels(path, str(status)).inc()
        self._http_s.labels(path).observe(seconds)
        for error in call.errors:
            self._errors.labels(error.code).inc()

    def observe_ticket(self, ticket: Ticket) -> None:
        """Count an edit that has ended."""
        self._stages.labels("queue").observe(ticket.queue_s)
        if not isinstance(ticket.terminal, FinalEvent):
            return
        result = ticket.terminal.result
        self._edits.labels(result.strategy, result.format).inc()
        stages = {name.removesuffix("_s"): seconds for name, seconds in result.timings_s.items()}
        if result.model is not None:  # parts of `decide`
            of = result.stats
            stages |= {"prefill": of.prefill_s, "decode": of.decode_s, "draft": of.draft_s}
        for stage, seconds in stages.items():
            self._stages.labels(stage).observe(seconds)
        for verdict in result.verdicts:
            self._verdicts.labels(verdict.check, verdict.severity).inc()
        if result.model is None:
            return
        stats = result.stats
        self._prompt.inc(stats.prompt_tokens)
        self._cached.inc(stats.cached_prompt_tokens)
        if "cached_prompt_tokens" not in stats.unknown:
            self._prefixes.labels("yes" if stats.cached_prompt_tokens else "no").inc()
        self._drafted.inc(stats.drafted_tokens)
        self._accepted.inc(stats.accepted_tokens)
        for source, n_tokens in stats.accepted_by_source.items():
            self._tokens.labels(source).inc(n_tokens)
        self._tokens.labels("model").inc(max(0, stats.completion_tokens - stats.accepted_tokens))
        if stats.drafted_tokens:
            self._acceptance.observe(stats.acceptance_rate)
        if "rejections" not in stats.unknown:
            self._rejections.observe(stats.rejections)
        self._passes.labels("prefill").inc(stats.prefill_passes)
        self._passes.labels("decode").inc(stats.passes)
