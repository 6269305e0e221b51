"""The HTML report of a run: one file, no script, no font, no picture from elsewhere; light and dark, phone and desk.

Tables say it all but where along an output the drafts were accepted, which heat strips show.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from apply_eval.numbers import COLUMNS, DASH, MORE_COLUMNS, count, notes, rate, seconds, share, used_columns
from apply_eval.provenance import shown_command
from apply_eval.results import RunResults, write_whole
from apply_eval.rows import RunRow, SampleFacts
from apply_eval.summary import PLAIN, is_silent
from apply_service.types import PassCount

REPORT = "report.html"
GROUPS = (
    ("by_language", "language"),
    ("by_size", "lines before the edit"),
    ("by_kind", "kind of edit"),
    ("by_tag", "tag"),
    ("by_style", "style of the snippet"),
)
MAX_OVERVIEWS = 6


class Cell(NamedTuple):
    """A figure and its interval, as text."""

    text: str
    interval: str = ""


class Row(NamedTuple):
    """A line of a table."""

    name: str
    cells: list[Cell]


class Table(NamedTuple):
    """A table with its title and how to read it."""

    title: str
    note: str
    headings: list[str]
    rows: list[Row]


class Key(NamedTuple):
    """An entry of a legend: a colour class and what it stands for."""

    class_: str
    label: str


class Figure(NamedTuple):
    """A plot with its title, how to read it, and its legend."""

    title: str
    note: str
    svg: Markup
    legend: tuple[Key, ...]


def write_report(results: RunResults, folder: Path, *, others: Sequence[RunResults] = ()) -> Path:
    """Write `report.html` into `folder`; its path."""
    return write_whole(folder / REPORT, render_report(results, others=others))


def render_report(results: RunResults, *, others: Sequence[RunResults] = ()) -> str:
    """The page's text.  `others`: runs of the same at other concurrencies."""
    loader = PackageLoader("apply_eval", "templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    values = results.values
    model, server = values["plan"]["model"], values["plan"]["server"]
    page = environment.get_template("page.html.jinja").render(
        style=Markup((Path(__file__).parent / "templates" / "style.css").read_text(encoding="utf-8")),
        title=f"apply-eval: {model['name'] if model else server['url'] if server else 'no model'}",
        notes=notes(values),
        facts=_facts(values),
        main=_columns(results, COLUMNS),
        more=_columns(results, MORE_COLUMNS),
        tables=list(tables(results, others)),
        figures=list(figures(results)),
        samples=samples(results),
        headings=HEADINGS,
        provenance=_provenance(values),
    )
    return page + "\n"


def _facts(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The line under the title."""
    plan, start = values["plan"], values["provenance"] or {}
    hardware = start.get("hardware", {})
    return [
        ("data", ", ".join(item["name"] for item in plan["data"])),
        ("samples", str(len(values["samples"]))),
        ("strategy", plan["request"]["strategy"]),
        ("constraint", plan["request"]["constrain"] or "the target's own choice"),
        ("at a time", str(plan["concurrency"])),
        ("machine", f"{hardware.get('cpu', '?')}, {hardware.get('n_cpus', '?')} CPUs"),
        ("begun", str(values["sessions"][0]["created"]) if values["sessions"] else "?"),
    ]


def _provenance(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is needed to repeat the run."""
    start, model = values["provenance"] or {}, values["plan"]["model"] or {}
    dirty = " with uncommitted changes" if start.get("dirty") else ""
    return [
        ("command", shown_command(start["command"]) if "command" in start else ""),
        ("commit", f"{start.get('commit')}{dirty}"),
        *[(f"data: {item['name']}", f"sha256 {item['sha256']}") for item in start.get("data", [])],
        ("model", f"{model.get('name', 'none')}, sha256 {model.get('sha256')}, {model.get('determinism', '')}"),
        ("device", str(model.get("device", ""))),
        ("seed", str(start.get("seed"))),
        ("versions", ", ".join(f"{name} {number}" for name, number in start.get("versions", {}).items())),
        ("hardware", ", ".join(f"{key}: {value}" for key, value in start.get("hardware", {}).items())),
        ("starts", str(len(values["sessions"]))),
    ]


# -- tables ------------------------------------------------------------------------------------------------------------
def _columns(results: RunResults, columns: Mapping[str, Any]) -> Table:
    """A row a contestant; columns that nobody fills are left out."""
    used = used_columns(columns, results.summary)
    rows = [
        Row(name, [_cell(found, field, show) for field, (_, show) in used.items()])
        for name, found in results.summary.items()
    ]
    return Table("", "", [heading for heading, _ in used.values()], rows)


def _cell(found: Mapping[str, Any], field: str, show: Callable[[Any], str]) -> Cell:
    value, interval = found.get(field), found["intervals"].get(field)
    if value is None or interval is None:
        return Cell(show(value))
    return Cell(show(value), f"{show(interval[0])}–{show(interval[1])}")


def tables(results: RunResults, others: Sequence[RunResults] = ()) -> Iterator[Table]:
    """Exact match by group, confidence beside truth, and throughput where there are several concurrencies."""
    names, summary = _distinct(results), results.summary
    heads = list(names.values())
    for way, what in GROUPS:
        groups = list(dict.fromkeys(group for name in names for group in summary[name].get(way, {})))
        if len(groups) > 1:
            found = {g: [summary[name][way].get(g, {"n_scored": 0, "intervals": {}}) for name in names] for g in groups}
            rows = [
                Row(f"{g} ({max(f['n_scored'] for f in found[g])})", [_cell(f, "exact_match", share) for f in found[g]])
                for g in groups
            ]
            yield Table(f"Exact match by {what}", "share right to the last byte (samples)", heads, rows)
    if sizes := list(dict.fromkeys(size for found in summary.values() for size in found["by_size"])):
        by_size = [figures["by_size"] for figures in summary.values()]
        rows = [Row(s, [Cell(seconds(found.get(s, {}).get("latency_p50_s"))) for found in by_size]) for s in sizes]
        yield Table("Latency by lines before the edit", "median, request to last byte", results.names, rows)
    bins = {name: {found[0]: found for found in summary[name]["calibration"]["bins"]} for name in names}
    if lows := sorted({low for found in bins.values() for low in found}):
        rows = [Row(f"{low:.1f}–{low + 0.1:.1f}", [_bin(bins[name].get(low)) for name in names]) for low in lows]
        yield Table("Confidence and truth", "mean confidence: share right (answers), by confidence", heads, rows)
    runs = {run.values["plan"]["concurrency"]: run.summary for run in (results, *others)}
    if len(runs) > 1:
        heads = list(dict.fromkeys(name for found in runs.values() for name in found))
        cells = {n: [Cell(rate(runs[n].get(name, {}).get("throughput_tok_s"))) for name in heads] for n in sorted(runs)}
        note = "generated tokens over seconds on the wall, by requests at a time"
        yield Table("Throughput against concurrency", note, heads, [Row(str(n), cells[n]) for n in cells])


def _bin(found: Sequence[float] | None) -> Cell:
    return Cell(DASH) if found is None else Cell(f"{found[3]:.2f}: {found[4]:.2f} ({found[2]:.0f})")


def _distinct(results: RunResults) -> dict[str, str]:
    """The first of every set of contestants whose answers are right on the same samples, and a name for the set:
    drafters never change an answer."""
    found: dict[tuple[tuple[str, bool], ...], list[str]] = defaultdict(list)
    for name in results.names:
        found[tuple(sorted((r.id, r.exact) for r in results.rows if r.name == name and r.is_scored))].append(name)
    is_one = len(found) == 1 < len(results.names)
    return {same[0]: "all contestants" if is_one else ", ".join(same) for same in found.values()}


# -- heat strips: an output from its first token to its last, coloured by where each pass's tokens came from -----------
ORIGINS = ("predicted", "original", "update", "output", "prompt", "other")
TARGET = "target"
STRIP_WIDTH, STRIP_HEIGHT = 600, 420
MAX_CELLS = 150
"""An output of more stretches is drawn in so many equal cells, each in the colour that prevails in it."""
MIN_ROW, MAX_ROW, MAX_ROWS = 6, 16, 80


def figures(results: RunResults) -> Iterator[Figure]:
    """A heat strip for each of the last contestants that drafted."""
    rows_of: dict[str, list[RunRow]] = defaultdict(list)
    for row in sorted(results.rows, key=lambda row: results.facts[row.id].n_lines):
        if row.repeat == 0 and row.name != PLAIN and any(count.n_drafted for count in row.pass_counts):
            rows_of[row.name].append(row)
    for name in [name for name in results.names if name in rows_of][-MAX_OVERVIEWS:]:
        found, rows = results.summary[name], rows_of[name]
        note = (
            "one row an edit, from the first token to the last, short files on top; "
            f"{share(found['acceptance_rate'])} of drafted tokens accepted, "
            f"{found['rejections_per_edit'] or 0:.2f} rejections an edit"
        )
        svg = overview([row.pass_counts for row in rows], label=f"acceptance of {name}")
        yield Figure(f"Acceptance along the file: {name}", note, svg, _origin_legend(rows))


def _origin_legend(rows: Sequence[RunRow]) -> tuple[Key, ...]:
    """The origins that occur, the target's own tokens, and what a tick is."""
    used = {source if source in ORIGINS else "other" for row in rows for source in row.accepted_by_source}
    labels = {"predicted": "predicted merge", "update": "update snippet", "output": "output so far"}
    keys = [Key(f"o-{origin}", labels.get(origin, origin)) for origin in ORIGINS if origin in used]
    return (*keys, Key(f"o-{TARGET}", "written by the target"), Key("reject", "a rejection"))


class Stretch(NamedTuple):
    """Tokens from one origin with one level of acceptance (1 to 4: all that was drafted), and whether they end in a
    rejection."""

    n_tokens: float
    origin: str
    level: int
    is_rejected: bool


def stretches(counts: Sequence[PassCount]) -> list[Stretch]:
    """The output in order; what a pass accepted, then the token that the target added."""
    found: list[Stretch] = []
    for one in counts:
        is_rejected = one.n_accepted < one.n_drafted
        if one.n_accepted:
            origin = one.source if one.source in ORIGINS else "other"
            level = max(1, round(4 * one.n_accepted / one.n_drafted))
            _join(found, Stretch(one.n_accepted, origin, level, is_rejected))
        if one.n_new > one.n_accepted:
            _join(found, Stretch(one.n_new - one.n_accepted, TARGET, 4, is_rejected and not one.n_accepted))
    return found


def _join(found: list[Stretch], more: Stretch) -> None:
    """Neighbours that look alike are drawn as one."""
    if found and found[-1][1:] == more[1:] and not more.is_rejected:
        found[-1] = found[-1]._replace(n_tokens=found[-1].n_tokens + more.n_tokens)
    else:
        found.append(more)


def cells(found: Sequence[Stretch], n_cells: int) -> list[Stretch]:
    """The same output in at most `n_cells` stretches: where there are more, equal cells of what prevails in each; a
    rejection within a cell stays one."""
    if len(found) <= n_cells:
        return list(found)
    size = sum(part.n_tokens for part in found) / n_cells
    joined: list[Stretch] = []
    at, queue = 0.0, list(reversed(found))
    for number in range(1, n_cells + 1):
        inside: list[Stretch] = []
        while queue and at < size * number - 1e-9:
            part = queue.pop()
            n_taken = min(part.n_tokens, size * number - at)
            inside.append(part._replace(n_tokens=n_taken))
            at += n_taken
            if part.n_tokens - n_taken > 1e-9:
                queue.append(part._replace(n_tokens=part.n_tokens - n_taken))
        if inside:
            main = max(inside, key=lambda part: part.n_tokens)
            is_rejected = any(part.is_rejected for part in inside)
            _join(joined, main._replace(n_tokens=sum(part.n_tokens for part in inside), is_rejected=is_rejected))
    return joined


def overview(outputs: Sequence[Sequence[PassCount]], *, label: str) -> Markup:
    """Many outputs, one thin row each, all stretched to the same width; evenly thinned out where they are many."""
    step = max(1.0, len(outputs) / MAX_ROWS)
    chosen = [outputs[int(i * step)] for i in range(min(len(outputs), MAX_ROWS))]
    height = min(MAX_ROW, max(MIN_ROW, STRIP_HEIGHT // max(1, len(chosen))))
    paths: dict[str, list[str]] = defaultdict(list)  # one a colour: thousands of rectangles would make the page slow
    for number, counts in enumerate(chosen):
        found = cells(stretches(counts), MAX_CELLS)
        scale, at = STRIP_WIDTH / (sum(part.n_tokens for part in found) or 1), 0.0
        for part in found:
            box = _box(at * scale, number * height, part.n_tokens * scale, height - 1)
            paths[f"o-{part.origin} l{part.level}"].append(box)
            at += part.n_tokens
            if part.is_rejected:
                paths["reject"].append(_box(at * scale - 1, number * height, 1.5, height - 1))
    ordered = sorted(paths, key=lambda name: name == "reject")  # on top
    drawn = Markup("").join(Markup('<path class="{}" d="{}"/>').format(name, "".join(paths[name])) for name in ordered)
    size = (STRIP_WIDTH, max(1, len(chosen)) * height)
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(*size, label, drawn)


def _box(x: float, y: float, width: float, height: float) -> str:
    return f"M{x:.1f} {y:g}h{width:.1f}v{height:g}h-{width:.1f}z"


# -- samples -----------------------------------------------------------------------------------------------------------
class WrongAnswer(NamedTuple):
    """One wrong answer: all who gave it, and its diff as (kind, text): minus, plus, at, or same."""

    names: str
    lines: list[tuple[str, str]]


class Line(NamedTuple):
    """A contestant's line in a sample's table; `verdict` is also its class."""

    name: str
    verdict: str
    detail: str
    cells: tuple[str, ...]


class Sample(NamedTuple):
    """A section.  `verdict`: the worst of its answers."""

    anchor: str
    facts: SampleFacts
    verdict: str
    lines: list[Line]
    wrong: list[WrongAnswer]


ORDER = ("silent", "wrong", "crashed", "refused", "missing", "exact")
HEADINGS = ("latency", "tok/s", "passes", "rejections", "confidence")


def samples(results: RunResults) -> list[Sample]:
    """Every sample, the worst first, then in order of the data."""
    threshold = results.values["summary_options"]["confidence_threshold"]
    by_id: dict[str, list[RunRow]] = defaultdict(list)
    for row in results.rows:
        if row.repeat == 0:
            by_id[row.id].append(row)
    found: list[Sample] = []
    for number, (at, facts) in enumerate(results.facts.items()):
        if at not in by_id:
            continue
        lines = [_line(row, threshold) for row in by_id[at]]
        verdict = min((line.verdict for line in lines), key=ORDER.index)
        found.append(Sample(f"sample-{number}", facts, verdict, lines, _wrong(results, by_id[at])))
    return sorted(found, key=lambda sample: ORDER.index(sample.verdict))


def _line(row: RunRow, threshold: float) -> Line:
    verdict: str = row.outcome
    if row.outcome == "answered":
        verdict = "exact" if row.exact else "silent" if is_silent(row, threshold) else "wrong"
    detail = ", ".join((row.strategy or "", *row.findings)).strip(", ")
    if row.error is not None:
        detail = f"{row.error}: {row.message}"
    shown = (seconds(row.latency_s), rate(row.tok_s), count(row.passes), count(row.rejections), share(row.confidence))
    return Line(row.name, verdict, detail, shown)


def _wrong(results: RunResults, rows: Sequence[RunRow]) -> list[WrongAnswer]:
    names: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if (diff := results.diffs.get((row.id, row.name))) is not None:
            names[diff].append(row.name)
    kinds = {"-": "minus", "+": "plus", "@": "at"}
    return [
        WrongAnswer(", ".join(who), [(kinds.get(x[:1], "same"), x.replace("\r", "␍")) for x in diff.split("\n")])
        for diff, who in names.items()
    ]
