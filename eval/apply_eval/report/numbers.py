"""Figures as people read them.  None is a dash: not measured is not zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

DASH = "–"


def share(value: float | None) -> str:
    return DASH if value is None else f"{value:.1%}"


def rate(value: float | None) -> str:
    """Units a second: three significant digits below a thousand."""
    if value is None:
        return DASH
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def times(value: float | None) -> str:
    """A speed-up."""
    return DASH if value is None else f"{value:.2f}×" if value < 10 else f"{value:.1f}×"


def seconds(value: float | None) -> str:
    if value is None:
        return DASH
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:,.1f} s" if value < 100 else f"{value:,.0f} s"


def count(value: float | None) -> str:
    """A mean of counts."""
    if value is None:
        return DASH
    return f"{value:,.0f}" if value >= 100 or float(value).is_integer() else f"{value:.2f}"


def money(value: float | None) -> str:
    return DASH if value is None else f"{value:.4g}"


def with_interval(show: Callable[[float | None], str], value: float | None, interval: Sequence[float] | None) -> str:
    """`94.0% (91.1%-96.2%)`; without the brackets where there is no interval."""
    if value is None or interval is None:
        return show(value)
    return f"{show(value)} ({show(interval[0])}–{show(interval[1])})"


COLUMNS: Mapping[str, tuple[str, Callable[[float | None], str]]] = {
    "n_scored": ("scored", count),
    "n_failed": ("missing", count),
    "exact_match": ("exact", share),
    "silent_errors": ("silent errors", share),
    "tok_s": ("tok/s", rate),
    "chars_s": ("chars/s", rate),
    "latency_p50_s": ("latency p50", seconds),
    "passes_per_edit": ("passes", count),
    "rejections_per_edit": ("rejections", count),
    "acceptance_rate": ("acceptance", share),
    "speedup_vs_plain": ("speed-up", times),
}
"""The main table: field, heading, how it is written."""

ONLY_IF_ANY = frozenset({"n_failed", "n_refused", "n_crashed"})
"""Counts of what should not be: left out where all are zero."""

MORE_COLUMNS: Mapping[str, tuple[str, Callable[[float | None], str]]] = {
    "n_refused": ("refused", count),
    "n_crashed": ("crashed", count),
    "same_but_blanks": ("but for blanks", share),
    "same_tree": ("same tree", share),
    "edit_similarity": ("edit similarity", share),
    "change_similarity": ("change similarity", share),
    "syntax_kept": ("syntax kept", share),
    "touched_outside": ("touched outside", share),
    "same_but_misquotes": ("but for misquotes", share),
    "coverage_at_1pct": ("coverage at 1% wrong", share),
    "applied": ("applied", share),
    "applied_wrong": ("applied wrong", share),
    "alarm_recall": ("wrong flagged", share),
    "false_alarms": ("right flagged", share),
    "latency_p95_s": ("p95", seconds),
    "latency_p99_s": ("p99", seconds),
    "ttft_p50_s": ("first text", seconds),
    "tokens_per_pass": ("tokens a pass", count),
    "speedup_end_to_end": ("end to end", times),
    "throughput_tok_s": ("tok/s in all", rate),
    "cost_per_1m_tokens": ("cost of 1M tokens", money),
}
"""The second table."""
