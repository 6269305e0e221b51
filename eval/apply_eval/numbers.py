"""Figures as people read them, and tables on the terminal.  None is a dash: not measured is not zero."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tqdm import tqdm

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
    """In the unit of the price that was given."""
    return DASH if value is None else f"{value:,.2f}"


def with_interval(show: Callable[[float | None], str], value: float | None, interval: Sequence[float] | None) -> str:
    """`94.0% (91.1%-96.2%)`; without the brackets where there is no interval."""
    if value is None or interval is None:
        return show(value)
    return f"{show(value)} ({show(interval[0])}–{show(interval[1])})"


class Column(NamedTuple):
    """A field of a summary in tables: its heading, how it is written, what it means."""

    heading: str
    show: Callable[[float | None], str]
    meaning: str


COLUMNS: Mapping[str, Column] = {
    "n_scored": Column("scored", count, "samples with an answer or a refusal: the ones that count"),
    "n_failed": Column("missing", count, "samples that the transport lost, or that the run did not reach; not scored"),
    "exact_match": Column("exact", share, "share of scored samples whose answer is right to the last byte"),
    "silent_errors": Column(
        "silent errors",
        share,
        "share of scored samples with a wrong answer, no finding, and no confidence below the threshold",
    ),
    "tok_s": Column(
        "tok/s", rate, "median of generated tokens a second of decoding; of a service, of the whole latency"
    ),
    "chars_s": Column("chars/s", rate, "median of characters of the file a second, from the request to the last byte"),
    "latency_p50_s": Column("latency p50", seconds, "median time from the request to the last byte"),
    "passes_per_edit": Column("passes", count, "mean forward passes of the model over generated tokens"),
    "rejections_per_edit": Column("rejections", count, "mean passes that accepted fewer tokens than they drafted"),
    "acceptance_rate": Column("acceptance", share, "accepted over drafted tokens, all samples together"),
    "speedup_vs_plain": Column("speed-up", times, "median of tok/s over that of `plain` on the same sample"),
}
"""The main table, by field."""

ONLY_IF_ANY = frozenset({"n_failed", "n_refused", "n_late", "n_crashed"})
"""Counts of what should not be: left out where all are zero."""

MORE_COLUMNS: Mapping[str, Column] = {
    "n_refused": Column("refused", count, "samples with a typed error in place of an answer: not exact, never silent"),
    "n_late": Column("late", count, "of these, their deadline passed: the sentence says not finished"),
    "n_crashed": Column("crashed", count, "samples on which the contestant crashed: not exact, never silent"),
    "right_unseen": Column(
        "right unseen",
        share,
        "share of scored samples that are right, with no finding and no confidence below the threshold",
    ),
    "same_but_blanks": Column(
        "but for blanks", share, "answers right apart from blank lines and white space at line ends"
    ),
    "same_tree": Column("same tree", share, "answers with the wanted syntax tree, of those that a grammar can tell"),
    "equivalent": Column(
        "equivalent",
        share,
        "answers right by aiXapply's measure: JSON and YAML as parsed, else the tokens of Pygments but for white space",
    ),
    "edit_similarity": Column(
        "edit similarity", share, "1 less the Levenshtein distance to the wanted text, as a share; mean"
    ),
    "syntax_kept": Column(
        "syntax kept", share, "answers that parse, of those whose file parsed before and should after"
    ),
    "touched_outside": Column("touched outside", share, "answers with a wrong line away from the edit"),
    "same_but_misquotes": Column(
        "but for misquotes", share, "answers right apart from blank lines and misquoted context"
    ),
    "coverage_at_1pct": Column(
        "coverage at 1% wrong",
        share,
        "share of samples that can be applied by confidence with at most 1% of them wrong",
    ),
    "applied": Column("applied", share, "share of scored samples at or above the confidence threshold"),
    "applied_wrong": Column("applied wrong", share, "share of the applied samples whose answer is wrong"),
    "alarm_recall": Column(
        "wrong flagged", share, "share of wrong answers with a finding or a confidence below the threshold"
    ),
    "false_alarms": Column("right flagged", share, "share of right answers that have a finding"),
    "latency_p95_s": Column("p95", seconds, "95th percentile of the latency"),
    "latency_p99_s": Column("p99", seconds, "99th percentile of the latency"),
    "ttft_p50_s": Column("first text", seconds, "median time to the first text"),
    "tokens_per_pass": Column("tokens a pass", count, "generated tokens over passes, all samples together"),
    "tokens_per_pass_expected": Column(
        "expected",
        count,
        "tokens a pass by (1 - a^(k+1)) / (1 - a): a is accepted tokens over accepted and rejections, k drafted tokens "
        "a pass; drafts of uneven quality differ from it",
    ),
    "speedup_end_to_end": Column("end to end", times, "median of the latency of `plain` over this one's"),
    "throughput_tok_s": Column("tok/s in all", rate, "generated tokens over the latencies of all answers"),
    "cost_per_million_tokens": Column(
        "cost of a million tokens", money, "`--price-per-hour` over tok/s in all: one request at a time"
    ),
}
"""The second table."""


GROUPS: Mapping[str, str] = {
    "by_language": "language",
    "by_size": "lines",
    "by_kind": "kind",
    "by_tag": "tag",
    "by_style": "style",
}
"""Ways of grouping the samples: field of the summary, heading."""


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> None:
    """Print a table: names on the left, figures on the right.  A heading may have two lines."""
    above, below = zip(*(heading.rpartition("\n")[::2] for heading in columns), strict=True)
    lines = [above, below, *rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    lines.insert(2, ["-" * width for width in widths])
    print(f"\n{title}".rstrip())
    for name, *figures in lines[0 if any(above) else 1 :]:
        cells = (figure.rjust(width) for figure, width in zip(figures, widths[1:], strict=True))
        print("  ".join((name.ljust(widths[0]), *cells)).rstrip())


def print_results(results: Mapping[str, Any]) -> None:
    """Print the main table, and what a reader must know beside it."""
    columns = used_columns(COLUMNS, results["summary"])
    rows = [
        (name, *(column.show(figures.get(field)) for field, column in columns.items()))
        for name, figures in results["summary"].items()
    ]
    print_table(("", *(column.heading.replace(" ", "\n") for column in columns.values())), rows)
    for note in notes(results):
        print(note)


def used_columns(columns: Mapping[str, Column], summary: Mapping[str, Mapping[str, Any]]) -> dict[str, Column]:
    """The columns that say something of this run; results of older runs lack some fields."""
    values = {field: [found.get(field) for found in summary.values()] for field in columns}
    return {
        field: column
        for field, column in columns.items()
        if any(value is not None and (value or field not in ONLY_IF_ANY) for value in values[field])
    }


def verdict_sentence(figures: Mapping[str, Any]) -> str:
    """A contestant's figures in one sentence.  Unseen: no finding, and no confidence below the threshold."""
    n_scored, n_late = figures["n_scored"], figures.get("n_late", 0)  # results of older runs lack it
    n_right = round((figures["exact_match"] or 0.0) * n_scored)
    n_unseen = n_right - round((figures["false_alarms"] or 0.0) * n_right)
    n_silent = round((figures["silent_errors"] or 0.0) * n_scored)
    wrong = "no wrong one would have been" if not n_silent else f"{n_silent} wrong would have been too"
    n_left = figures["n_failed"] + n_late
    left = f" ({n_left} more not finished)" if n_left else ""
    return f"{n_right} of {n_scored - n_late} right, {n_unseen} of them could have been applied unseen; {wrong}{left}"


def notes(results: Mapping[str, Any]) -> list[str]:
    """What the figures do not say: what `plain` is, whether the target is a replay, whether the run is whole."""
    found: list[str] = []
    if plain := results["plain"]:
        speeds = ", ".join(f"{name} {tok_s:,.0f} tok/s" for name, tok_s in plain["tok_s"].items() if tok_s)
        found.append(f"plain is {plain['is']}: {plain['note']}" + (f" ({speeds})" if speeds else ""))
    model = results["plan"]["model"]
    if model is not None and model.get("kind") == "replay":
        found.append(
            "replay target: random weights of a real shape whose choices are the known right answer; speeds are real, "
            "exact match says nothing"
        )
    if not results["complete"]:
        found.append("stopped before its end: samples not reached count as missing")
    if len({session["commit"] for session in results["sessions"]}) > 1:
        found.append("measured with more than one commit: see sessions")
    if any(session["dirty"] for session in results["sessions"]):
        found.append("measured with uncommitted changes in the working tree")
    return found


@contextmanager
def progress(what: str, total: int | None, done: int = 0) -> Iterator[Callable[[], object]]:
    """A bar on standard error while the block runs; call what it gives for each thing that is done."""
    with tqdm(desc=what, total=total, initial=done, leave=False, disable=None) as bar:
        yield bar.update
