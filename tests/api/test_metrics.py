"""What Prometheus reads: every end counted once, where it belongs."""

import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from apply_service.api.metrics import Metrics
from apply_service.errors import NeedsMoreContext
from apply_service.service import Service
from apply_service.settings import Settings
from apply_service.types import DecodeStats, Verdict
from tests.api.layers import ALICE, BODY, bearer, layered, write_keys
from tests.doubles import ScriptedRun, make_result, wait_for

STATS = DecodeStats(
    prompt_tokens=100,
    cached_prompt_tokens=64,
    completion_tokens=50,
    prefill_passes=2,
    passes=7,
    drafted_tokens=40,
    accepted_tokens=30,
    rejections=4,
    accepted_by_source={"predicted": 20, "original": 10},
    prefill_s=0.25,
    decode_s=0.5,
    draft_s=0.125,
)


def samples(http: Any, **headers: str) -> Mapping[tuple[str, ...], float]:
    """`(name, label values by label, ...) -> value` of everything that is exposed."""
    text = http.get("/metrics", headers=headers).text
    families = text_string_to_metric_families(text)
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def test_an_edit_by_a_model() -> None:
    verdicts = (Verdict("no_op", "pass"), Verdict("syntax", "warning", "odd"))
    timings = {"predict_s": 0.5, "decide_s": 1.0, "total_s": 1.5}
    result = make_result(stats=STATS, verdicts=verdicts, timings_s=timings)
    with layered(ScriptedRun(result=result)) as http:
        for _ in range(2):
            http.post("/v1/apply", json=BODY)
        found = samples(http)
    expected = {
        ("apply_http_requests_total", "/v1/apply", "200"): 2,
        ("apply_edits_total", "lazy_snippet", "model"): 2,
        ("apply_tokens_total", "predicted"): 40,
        ("apply_tokens_total", "original"): 20,
        ("apply_tokens_total", "model"): 40,
        ("apply_prompt_tokens_total",): 200,
        ("apply_cached_prompt_tokens_total",): 128,
        ("apply_prefix_cache_lookups_total", "yes"): 2,
        ("apply_drafted_tokens_total",): 80,
        ("apply_accepted_tokens_total",): 60,
        ("apply_acceptance_sum",): 1.5,
        ("apply_rejections_sum",): 8,
        ("apply_rejections_count",): 2,
        ("apply_passes_total", "decode"): 14,
        ("apply_passes_total", "prefill"): 4,
        ("apply_verdicts_total", "no_op", "pass"): 2,
        ("apply_verdicts_total", "syntax", "warning"): 2,
        ("apply_stage_seconds_sum", "predict"): 1.0,
        ("apply_stage_seconds_sum", "total"): 3.0,
        ("apply_stage_seconds_sum", "prefill"): 0.5,
        ("apply_stage_seconds_sum", "decode"): 1.0,
        ("apply_stage_seconds_count", "queue"): 2,
        ("apply_queue_limit",): 64,
        ("apply_queue_length",): 0,
        ("apply_active_edits",): 0,
    }
    assert {name: found[name] for name in expected} == expected


def test_what_a_remote_target_does_not_tell_is_not_observed() -> None:
    unknown = frozenset({"passes", "prefill_passes", "rejections", "accepted_by_source", "cached_prompt_tokens"})
    stats = DecodeStats(prompt_tokens=100, completion_tokens=50, decode_s=0.5, unknown=unknown)
    with layered(ScriptedRun(result=make_result(stats=stats))) as http:
        http.post("/v1/apply", json=BODY)
        found = samples(http)
    assert found["apply_prompt_tokens_total",] == 100
    assert found["apply_rejections_count",] == 0
    assert not [name for name, *_ in found if name == "apply_prefix_cache_lookups_total"]


def test_an_edit_by_a_program_counts_no_tokens() -> None:
    with layered(ScriptedRun(result=make_result(strategy="exact", model=None, stats=DecodeStats()))) as http:
        http.post("/v1/apply", json=BODY)
        found = samples(http)
    assert found[("apply_edits_total", "lazy_snippet", "exact")] == 1
    assert found[("apply_rejections_count",)] == 0
    assert ("apply_prefix_cache_lookups_total", "no") not in found
    assert ("apply_stage_seconds_count", "prefill") not in found


def test_errors_are_counted_once_by_code() -> None:
    with layered(ScriptedRun(tokens=(), error=NeedsMoreContext("where?"))) as http:
        http.post("/v1/apply", json=BODY)
        http.post("/v1/apply", json=BODY | {"stream": True})
        http.post("/v1/apply", json={"original": "", "bla": 1})
        http.get("/nothing/special")
        found = samples(http)
    assert found[("apply_errors_total", "needs_more_context")] == 2
    assert found[("apply_errors_total", "unknown_field")] == 1
    assert found[("apply_errors_total", "not_found")] == 1
    assert found[("apply_http_requests_total", "other", "404")] == 1
    assert not any("special" in str(name) for name in found)


def test_an_error_within_a_stream_is_counted() -> None:
    with layered(ScriptedRun(tokens=("x",), error=NeedsMoreContext("where?"))) as http:
        assert http.post("/v1/apply", json=BODY | {"stream": True}).status_code == 200
        found = samples(http)
    assert found[("apply_errors_total", "needs_more_context")] == 1
    assert found[("apply_http_requests_total", "/v1/apply", "200")] == 1


def test_gauges_show_queue_and_engine() -> None:
    run = ScriptedRun(gate=threading.Event())
    with layered(run) as http:
        threads = [threading.Thread(target=http.post, args=("/v1/apply",), kwargs={"json": BODY}) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert wait_for(lambda: samples(http)[("apply_queue_length",)] == 2)
        assert samples(http)[("apply_active_edits",)] == 1
        assert run.gate is not None
        run.gate.set()
        for thread in threads:
            thread.join()
        assert samples(http)[("apply_active_edits",)] == 0


def test_refusals_of_the_layers_are_counted_and_metrics_need_a_key(tmp_path: Path) -> None:
    with layered(ScriptedRun(), keys_file=write_keys(tmp_path), rate_limit=1) as http:
        assert http.get("/metrics").status_code == 401
        for _ in range(2):
            http.post("/v1/apply", json=BODY, headers=bearer(ALICE))
        found = samples(http, **bearer(ALICE))
    assert found[("apply_errors_total", "unauthorized")] == 1
    assert found[("apply_errors_total", "rate_limited")] == 1


def test_every_metric_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    with Service(ScriptedRun()) as service:
        families = list(Metrics(service, Settings()).registry.collect())
    own = {family.name for family in families if family.name.startswith("apply_")}
    named = {name.removesuffix("_total") for name in re.findall(r"`(apply_[a-z_]+)`", page)}
    assert own == named
