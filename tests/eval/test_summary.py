"""The summary of rows made by hand, every figure worked out on paper."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apply_eval.rows import RunRow
from apply_eval.summary import SummaryOptions, summarise
from tests.eval.rows import facts, missing, refused, right, wrong

REQUIRED = {
    "n_total", "n_scored", "n_failed", "exact_match", "silent_errors", "tok_s", "chars_s", "latency_p50_s",
    "passes_per_edit", "rejections_per_edit", "acceptance_rate", "speedup_vs_plain",
}  # fmt: skip
SAMPLES = ["s1", "s2", "s3", "s4", "s5", "s6"]


def summary_of(rows: list[RunRow], names: list[str], options: SummaryOptions | None = None, **facts_by: Any) -> Any:
    samples = [facts(name, **facts_by.get(name, {})) for name in SAMPLES]
    return summarise(rows, samples, names, options or SummaryOptions(confidence_threshold=0.9))


ROWS = [
    right("s1", "drafter"),
    right("s2", "drafter", tok_s=3000.0, latency_s=0.25, findings=("syntax",)),
    wrong("s3", "drafter", tok_s=2000.0),
    wrong("s4", "drafter", confidence=0.3),
    refused("s5", "drafter"),
    missing("s6", "drafter"),
]


def test_counts_and_shares() -> None:
    found = summary_of(ROWS, ["drafter"])["drafter"]
    assert (found["n_total"], found["n_scored"], found["n_failed"]) == (6, 5, 1)
    assert (found["n_answered"], found["n_refused"], found["n_crashed"]) == (4, 1, 0)
    assert found["exact_match"] == pytest.approx(2 / 5)
    assert found["silent_errors"] == pytest.approx(1 / 5)
    assert found["errors"] == {"needs_more_context": 1, "unreachable": 1}
    assert found["same_but_blanks"] == found["same_tree"] == 0.5
    assert found["edit_similarity"] == pytest.approx(0.95)
    assert found["syntax_kept"] == 1.0
    assert found["touched_outside"] == 0.5


def test_trust() -> None:
    found = summary_of(ROWS, ["drafter"])["drafter"]
    assert found["alarm_recall"] == 0.5  # s4 by its confidence, s3 not at all
    assert found["false_alarms"] == 0.5  # s2 was right and flagged
    assert found["calibration"]["n"] == 4
    assert found["calibration"]["bins"][-1][2] == 3


def test_what_could_be_applied_unseen() -> None:
    found = summary_of([*ROWS, wrong("s6", "drafter", confidence=None)], ["drafter"])["drafter"]
    assert (found["applied"], found["applied_wrong"]) == (4 / 6, 2 / 4)
    assert found["coverage_at_1pct"] == 0.0
    assert found["risk"]["curve"] == [[1.0, 1, 1, 1 / 6, 1.0], [0.9, 4, 2, 4 / 6, 0.5], [0.3, 5, 3, 5 / 6, 0.6]]
    assert found["risk"]["at_threshold"]["n_right_below"] == 0
    doubted = summary_of([right("s1", "d", confidence=None, findings=("syntax",))], ["d"])["d"]
    assert (doubted["applied"], doubted["risk"]["at_threshold"]["n_right_below"]) == (0.0, 1)


def test_the_threshold_decides_what_is_silent() -> None:
    strict = summary_of(ROWS, ["drafter"], SummaryOptions(confidence_threshold=0.95))["drafter"]
    assert strict["silent_errors"] == 0.0
    trusting = summary_of(ROWS, ["drafter"], SummaryOptions(confidence_threshold=0.0))["drafter"]
    assert trusting["silent_errors"] == pytest.approx(2 / 5)


def test_speed_and_passes() -> None:
    found = summary_of(ROWS, ["drafter"])["drafter"]
    assert found["tok_s"] == 1500.0
    assert found["latency_p50_s"] == 0.5
    assert found["chars_s"] == 600.0
    assert found["ttft_p50_s"] == 0.2
    assert found["passes_per_edit"] == 4
    assert found["rejections_per_edit"] == 1
    assert found["tokens_per_pass"] == 25
    chance, size = 96 / 97, 30  # of 120 drafted in 4 passes 96 were accepted, and once one was not
    assert found["tokens_per_pass_expected"] == pytest.approx((1 - chance ** (size + 1)) / (1 - chance))
    assert found["acceptance_rate"] == pytest.approx(0.8)
    assert found["origin_shares"] == {"predicted": 0.96, "target": pytest.approx(0.04)}
    assert found["strategies"] == {"model": 4}


def test_speed_ups_are_paired_with_plain_sample_by_sample() -> None:
    plain = [right("s1", "plain", tok_s=100.0, latency_s=5.0), right("s2", "plain", tok_s=1000.0, latency_s=1.0)]
    found = summary_of([*ROWS, *plain], ["plain", "drafter"])
    assert found["drafter"]["speedup_vs_plain"] == pytest.approx((10 + 3) / 2)
    assert found["drafter"]["speedup_end_to_end"] == pytest.approx((10 + 4) / 2)
    assert found["plain"]["speedup_vs_plain"] == 1.0
    assert list(found) == ["plain", "drafter"]


def test_plain_is_the_faster_undrafted_run_of_each_sample() -> None:
    rows = [
        right("s1", "plain", tok_s=100.0), right("s1", "hf-plain", tok_s=50.0), right("s1", "d", tok_s=1000.0),
        right("s2", "plain", tok_s=100.0), right("s2", "hf-plain", tok_s=200.0), right("s2", "d", tok_s=1000.0),
        right("s3", "plain", tok_s=100.0), refused("s3", "hf-plain"), right("s3", "d", tok_s=1000.0),
    ]  # fmt: skip
    found = summary_of(rows, ["plain", "hf-plain", "d"])
    assert found["d"]["speedup_vs_plain"] == 10.0
    assert found["plain"]["speedup_vs_plain"] == 1.0
    assert found["plain"]["tok_s"] == 100.0
    assert found["hf-plain"]["speedup_vs_plain"] == pytest.approx((0.5 + 1.0) / 2)
    assert summary_of(rows[3:6], ["plain", "hf-plain", "d"])["d"]["speedup_vs_plain"] == 5.0


def test_without_plain_there_is_no_speed_up() -> None:
    assert summary_of(ROWS, ["drafter"])["drafter"]["speedup_vs_plain"] is None


def test_answers_by_a_program_have_no_speed_of_decoding() -> None:
    rows = [right("s1", "d"), right("s2", "d", n_tokens=0, tok_s=None, passes=0, strategy="fallback", n_drafted=0)]
    found = summary_of(rows, ["d"])["d"]
    assert (found["tok_s"], found["passes_per_edit"]) == (1000.0, 4)
    assert found["exact_match"] == 1.0


def test_throughput() -> None:
    assert summary_of(ROWS[:2], ["drafter"])["drafter"]["throughput_tok_s"] == pytest.approx(200 / 0.75)


def test_what_a_million_tokens_cost() -> None:
    cost = summary_of(ROWS[:2], ["drafter"], SummaryOptions(price_per_hour=3.6))["drafter"]["cost_per_million_tokens"]
    assert cost == pytest.approx(3.6 / 3600 * 1e6 / (200 / 0.75))
    assert summary_of(ROWS[:2], ["drafter"])["drafter"]["cost_per_million_tokens"] is None


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"n_drafted": 0, "n_accepted": 0, "rejections": 0, "passes": 100}, 1.0),
        ({"n_drafted": 400, "n_accepted": 400, "rejections": 0, "passes": 100}, 5.0),
        ({"n_drafted": 400, "n_accepted": 100, "rejections": 100, "passes": 100}, 1 + 0.5 + 0.25 + 0.125 + 0.0625),
        ({"n_drafted": None}, None),
    ],
)
def test_tokens_a_pass_by_the_formula(counts: dict[str, Any], expected: float | None) -> None:
    found = summary_of([right("s1", "d", **counts)], ["d"])["d"]
    assert found["tokens_per_pass_expected"] == (expected if expected is None else pytest.approx(expected))


def test_missing_answers_do_not_count_as_throughput() -> None:
    found = summary_of([right("s1", "d"), missing("s2", "d")], ["d"])["d"]
    assert found["throughput_tok_s"] == pytest.approx(100 / 0.5)


def test_a_crash_is_scored_and_loud() -> None:
    crash = replace(refused("s1", "d", "exception:KeyError"), outcome="crashed")
    found = summary_of([crash, right("s2", "d")], ["d"])["d"]
    assert (found["n_scored"], found["n_crashed"], found["exact_match"], found["silent_errors"]) == (2, 1, 0.5, 0.0)


def test_groups() -> None:
    rows = [right("s1", "d"), wrong("s2", "d"), right("s3", "d"), right("s4", "d")]
    found = summary_of(
        rows, ["d"], s1={"language": "go"}, s2={"language": "go", "tags": ("sloppy", "fenced")}, s5={"language": None}
    )["d"]
    assert found["by_language"]["go"]["exact_match"] == 0.5
    assert found["by_language"]["python"]["exact_match"] == 1.0
    assert found["by_language"]["unknown"]["n_scored"] == 0
    assert found["by_language"]["unknown"]["exact_match"] is None
    assert found["by_tag"]["fenced"]["silent_errors"] == 1.0
    assert found["by_tag"]["clean"]["n_scored"] == 3
    assert list(found["by_style"]) == []
    assert list(found["by_size"]) == ["1-100"]
    assert list(found["by_kind"]) == ["replace"]
    assert set(found["by_language"]["go"]) == {
        "n_scored",
        "exact_match",
        "right_unseen",
        "silent_errors",
        "tok_s",
        "chars_s",
        "latency_p50_s",
        "speedup_vs_plain",
        "intervals",
    }


def test_every_field_is_explained_and_every_required_one_is_there() -> None:
    found = summary_of(ROWS, ["drafter"])["drafter"]
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    table = page.partition("Fields of `summary[NAME]`:")[2].partition("\n## ")[0]
    assert set(found) == set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    assert set(found) >= REQUIRED


def test_a_contestant_without_a_scored_sample_has_figures_of_nothing() -> None:
    found = summary_of([missing("s1", "d")], ["d"])["d"]
    assert (found["n_scored"], found["exact_match"], found["tok_s"], found["silent_errors"]) == (0, None, None, None)


def test_intervals_hold_their_figure() -> None:
    found = summary_of(ROWS, ["drafter"])["drafter"]
    for field, (low, high) in found["intervals"].items():
        assert low <= found[field] <= high, field


def test_the_order_of_measuring_does_not_matter() -> None:
    assert summary_of(ROWS, ["drafter"]) == summary_of(ROWS[::-1], ["drafter"])
