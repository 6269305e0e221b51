"""How good the embedded model is, and what it adds to the predicted merge: each alone, and both together.

    python -m benchmarks.embedded.model --name sketched --data real_diffs.jsonl --out runs/embedded/sketched
    python -m benchmarks.embedded.model --name model-written --data real_diffs.jsonl --updates snippets.jsonl --out ...

Every way answers every edit, in turns; a run that was stopped goes on with the same command.  What is kept of it is
`benchmarks/results/embedded-model-NAME.json`, of which `docs.generate` makes the tables.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any, Literal, NamedTuple

from apply_eval.datasets import EditRecord, chosen_records
from apply_eval.loop import Loop, schedule
from apply_eval.provenance import provenance
from apply_eval.results import ROWS, build_results
from apply_eval.rows import RowsFile, RunRow, facts_of
from apply_eval.runners import MISSING_IN_PROCESS, Answer, RequestOptions, Runner, alone, request_of
from apply_eval.summary import SummaryOptions
from apply_service.build import build_runtime
from apply_service.checks import run_checks
from apply_service.pipeline import read_edit
from apply_service.protocols import CheckInput
from apply_service.settings import Settings
from apply_service.syntax.languages import detect_language
from apply_service.target import Runtime
from apply_service.text.fidelity import restore
from apply_service.types import Certainty, Strategy

RESULTS = Path(__file__).parents[1] / "results"
FIGURES = (
    *("n_scored", "n_refused", "exact_match", "silent_errors", "tokens_per_pass", "passes_per_edit"),
    *("latency_p50_s", "latency_p95_s", "tok_s"),
)
SEED = 0
MERGE = "merge"


class Way(NamedTuple):
    """How the model is asked."""

    strategy: Strategy
    constrain: Literal["sources", "none"] | None


WAYS: Mapping[str, Way] = {
    "model-free": Way("model", "none"),
    "model-constrained": Way("model", "sources"),
    "auto": Way("auto", None),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True, help="of the set; names the file of results")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--updates", type=Path)
    parser.add_argument("--limit", type=int, help="so many edits, evenly over the set")
    parser.add_argument("--ways", default=",".join((MERGE, *WAYS)), help="some of these")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds an edit; a slower one is refused")
    parser.add_argument("--out", type=Path, required=True, help="folder; a run that was stopped there goes on")
    parser.add_argument("--keep", type=Path, default=RESULTS, help="folder of the kept results")
    parser.add_argument("--fresh", action="store_true", help="throw away what lies in --out")
    options = parser.parse_args()
    records, files = chosen_records(options.data, updates=options.updates, split=None)
    n_wanted = min(options.limit or len(records), len(records))
    records = [records[at * len(records) // n_wanted] for at in range(n_wanted)]
    settings = Settings(prefix_cache_mb=0)
    runtime = build_runtime(settings)
    runners = {name: open_way(name, runtime, options.timeout) for name in options.ways.split(",")}
    ids = [record.id for record in records]
    start = provenance(files, seed=SEED)
    plan = {
        "schema_version": 1,
        "name": options.name,
        "data": start["data"],
        "sample_ids": ids,
        "names": list(runners),
        "windows": settings.windows,
        "timeout_s": options.timeout,
    }
    if options.fresh:
        (options.out / ROWS).unlink(missing_ok=True)
    with RowsFile(options.out / ROWS, plan) as file:
        file.add_session(start)
        loop = Loop({record.id: record for record in records}, runners, file, on_row=log)
        turns = schedule(ids, list(runners), seed=SEED)
        if loop.pending(turns):
            loop.warm_up(min(records, key=lambda record: len(record.before)))
        loop.run(turns)
        results = build_results(file.record, [facts_of(r) for r in records], SummaryOptions(SEED), plain=None)
        kept = keep(results, file.record.rows)
    target = options.keep / f"embedded-model-{options.name}.json"
    target.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(kept["ways"], indent=1))
    return 0


def log(row: RunRow) -> None:
    outcome = "exact" if row.exact else row.error or "wrong"
    print(f"{row.id}  {row.name}  {outcome}  {row.latency_s or 0:.2f} s", file=sys.stderr, flush=True)


def keep(results: dict[str, Any], rows: list[RunRow]) -> dict[str, Any]:
    """What is kept of a run: figures and intervals of every way, no rows."""
    plan = results["plan"]
    return {
        "kind": "embedded_model",
        "schema_version": 1,
        "complete": results["complete"],
        "n_edits": len(plan["sample_ids"]),
        **{name: plan[name] for name in ("name", "windows", "timeout_s")},
        "provenance": results["provenance"],
        "ways": {name: _figures(found, name, rows) for name, found in results["summary"].items()},
    }


def _figures(found: dict[str, Any], name: str, rows: list[RunRow]) -> dict[str, Any]:
    seconds = [row.latency_s for row in rows if row.name == name and row.latency_s is not None]
    figures = {field: found[field] for field in FIGURES}
    figures["latency_mean_s"] = mean(seconds) if seconds else None
    figures = {key: round(value, 5) if isinstance(value, float) else value for key, value in figures.items()}
    wanted = ("exact_match", "silent_errors")
    intervals = {key: [round(end, 4) for end in found["intervals"][key]] for key in wanted if key in found["intervals"]}
    return figures | {"intervals": intervals, "strategies": found["strategies"], "errors": found["errors"]}


# -- ways to answer ----------------------------------------------------------------------------------------------------
def open_way(name: str, runtime: Runtime, timeout_s: float) -> Runner:
    """The runner of a way, on the embedded model of `runtime`."""
    if name == MERGE:
        return MergeAlone()
    options = RequestOptions(*WAYS[name], timeout_s=timeout_s)
    return alone(name, runtime, options=options, drafter=None)


class MergeAlone:
    """The merger's text, whatever its certainty: one that is not certain counts as flagged, as does one with a
    finding."""

    name = MERGE
    missing = MISSING_IN_PROCESS

    def answer(self, record: EditRecord) -> Answer:
        request = request_of(record, RequestOptions())
        started = time.perf_counter()
        language = detect_language(name=request.language, path=request.path)
        job = read_edit(request, language)
        prediction = job.prediction
        text = restore(record.before, prediction.ops)
        seconds = time.perf_counter() - started
        found = run_checks(CheckInput(job.original, prediction.text, job.update, prediction, language))
        doubts = ("doubt",) if prediction.certainty is not Certainty.CERTAIN else ()
        findings = (*doubts, *dict.fromkeys(verdict.check for verdict in found if not verdict.is_pass))
        return Answer(
            text, latency_s=seconds, n_tokens=0, findings=findings, certainty=prediction.certainty.value, strategy=MERGE
        )

    def close(self) -> None:
        """Holds nothing."""


if __name__ == "__main__":
    sys.exit(main())
