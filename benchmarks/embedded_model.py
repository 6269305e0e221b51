"""How good the embedded model is, and what it adds to the predicted merge: each alone, and both together.

    python -m benchmarks.embedded_model --name sketched --data real_diffs.jsonl --out runs/embedded/sketched
    python -m benchmarks.embedded_model --name model-written --data real_diffs.jsonl --updates snippets.jsonl --out ...

Every way of `embedded_ways` answers every edit, in turns; a run that was stopped goes on with the same command.  What
is kept of it is `benchmarks/results/embedded-model-NAME.json`, of which `docs.generate` makes the tables.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import mean
from typing import Any

from apply_eval.datasets import EditRecord, join_updates, read_records
from apply_eval.metrics.summary import SummaryOptions
from apply_eval.provenance import provenance
from apply_eval.running.loop import Loop
from apply_eval.running.results import ROWS, build_results
from apply_eval.running.rows import RunRow, facts_of
from apply_eval.running.rows_file import RowsFile
from apply_eval.running.schedule import schedule
from apply_service.build import build_runtime
from apply_service.settings import Settings
from benchmarks.embedded_ways import WAYS, open_ways

RESULTS = Path(__file__).parent / "results"
FIGURES = ("n_scored", "n_refused", "exact_match", "silent_errors", "tokens_per_pass", "passes_per_edit")
TIMES = ("latency_p50_s", "latency_p95_s", "tok_s")
SEED = 0


def main() -> int:
    options = _parse()
    records = _records(options)
    runtime = build_runtime(Settings(torch_threads=options.torch_threads, windows=options.windows, prefix_cache_mb=0))
    runners = open_ways(options.ways, runtime, timeout_s=options.timeout)
    ids = [record.id for record in records]
    files = [path for path in (options.data, options.updates) if path is not None]
    start = provenance(files, seed=SEED)
    plan = {
        "schema_version": 1,
        "name": options.name,
        "data": start["data"],
        "sample_ids": ids,
        "names": list(options.ways),
        "windows": options.windows,
        "torch_threads": options.torch_threads,
        "timeout_s": options.timeout,
        "repeats": 1,
    }
    if options.fresh:
        (options.out / ROWS).unlink(missing_ok=True)
    with RowsFile(options.out / ROWS, plan) as file:
        file.add_session(start)
        loop = Loop({record.id: record for record in records}, runners, file, on_row=_tell)
        turns = list(schedule(ids, list(runners), repeats=1, concurrency=1, seed=SEED))
        if loop.pending(turns):
            loop.warm_up(min(records, key=lambda record: len(record.before)))
        loop.run(turns)
        results = build_results(file.record, [facts_of(r) for r in records], SummaryOptions(SEED), plain=None)
        kept = keep(results, file.record.rows)
    target = options.keep / f"embedded-model-{options.name}.json"
    target.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(kept["ways"], indent=1))
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True, help="of the set; names the file of results")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--updates", type=Path)
    parser.add_argument("--limit", type=int, help="so many edits, evenly over the set")
    parser.add_argument("--max-lines", type=int, help="only files of at most so many lines")
    parser.add_argument("--ways", type=_ways, default=tuple(WAYS), help=f"of {','.join(WAYS)}")
    parser.add_argument("--windows", default=Settings().windows, help="as the service's setting")
    parser.add_argument("--torch-threads", type=int)
    parser.add_argument(
        "--timeout", type=float, default=120.0, help="seconds an edit; one that takes longer is refused"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder; a run that was stopped there goes on")
    parser.add_argument("--keep", type=Path, default=RESULTS, help="folder of the kept results")
    parser.add_argument("--fresh", action="store_true", help="throw away what lies in --out")
    return parser.parse_args()


def _ways(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in WAYS]:
        raise argparse.ArgumentTypeError(f"no such way: {unknown[0]}")
    return names


def _records(options: argparse.Namespace) -> list[EditRecord]:
    records = read_records(options.data)
    if options.updates is not None:
        records = join_updates(records, options.updates)
    if options.max_lines is not None:
        records = [record for record in records if record.measures.n_lines_before <= options.max_lines]
    if options.limit is None or options.limit >= len(records):
        return records
    return [records[at * len(records) // options.limit] for at in range(options.limit)]


def _tell(row: RunRow) -> None:
    told = "exact" if row.exact else row.error or "wrong"
    print(f"{row.id}  {row.name}  {told}  {row.latency_s or 0:.2f} s", file=sys.stderr, flush=True)


def keep(results: dict[str, Any], rows: list[RunRow]) -> dict[str, Any]:
    """What is kept of a run: figures and intervals of every way, no rows."""
    plan = results["plan"]
    return {
        "kind": "embedded_model",
        "schema_version": 1,
        "complete": results["complete"],
        "name": plan["name"],
        "n_edits": len(plan["sample_ids"]),
        "windows": plan["windows"],
        "torch_threads": plan["torch_threads"],
        "timeout_s": plan["timeout_s"],
        "provenance": results["provenance"],
        "ways": {name: _figures(found, name, rows) for name, found in results["summary"].items()},
    }


def _figures(found: dict[str, Any], name: str, rows: list[RunRow]) -> dict[str, Any]:
    seconds = [row.latency_s for row in rows if row.name == name and row.latency_s is not None]
    figures = {field: found[field] for field in (*FIGURES, *TIMES)}
    figures["latency_mean_s"] = mean(seconds) if seconds else None
    figures = {key: round(value, 5) if isinstance(value, float) else value for key, value in figures.items()}
    wanted = ("exact_match", "silent_errors")
    intervals = {key: [round(end, 4) for end in found["intervals"][key]] for key in wanted if key in found["intervals"]}
    return figures | {"intervals": intervals, "strategies": found["strategies"], "errors": found["errors"]}


if __name__ == "__main__":
    sys.exit(main())
