"""How the embedded model does on small real edits: exact match, passes, and speed over `plain` in the same run.

    python -m benchmarks.small_edits --data real_diffs.jsonl [--updates F] [--max-lines 100] [--constrain none] --out
    FILE.json

Exact match is byte for byte against the true file.  A refusal (context limit, truncation...) counts as not exact and
is named.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any, cast

from apply_eval.datasets import EditRecord, join_updates, read_records
from apply_eval.provenance import provenance
from apply_service.build import build_runtime
from apply_service.decider import in_process
from apply_service.engine.torch_local import TorchEngine
from apply_service.errors import ApplyError
from apply_service.pipeline import apply, read_edit
from apply_service.runtime import Runtime
from apply_service.settings import Settings
from apply_service.syntax.languages import detect_language
from apply_service.target import open_decoding
from apply_service.types import ApplyRequest
from benchmarks.plain import measure_plain

PLAIN_TOKENS = 200
SIZES = (40, 100)


def main() -> int:
    options = parse()
    records = read_records(options.data)
    if options.updates is not None:
        records = join_updates(records, options.updates)
    records = [record for record in records if n_lines(record) <= options.max_lines]
    if not records:
        sys.exit(f"no record of at most {options.max_lines} lines")
    runtime = build_runtime(Settings(windows="context"))  # as `plain`, which writes the whole file
    apply(request_of(records[0], options.constrain), runtime)  # warm-up
    rows = [measure(record, runtime, options.constrain, is_timed=i % 5 == 0) for i, record in enumerate(records)]
    result = {"kind": "small_edits", "schema_version": 1, "provenance": provenance([options.data])}
    result |= {"constrain": options.constrain, "summary": summarise(rows), "rows": rows}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result["summary"], indent=1))
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--updates", type=Path)
    parser.add_argument("--max-lines", type=int, default=100)
    parser.add_argument("--constrain", choices=("sources", "none"), default="sources")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def n_lines(record: EditRecord) -> int:
    return len(record.before.splitlines())


def request_of(record: EditRecord, constrain: str) -> ApplyRequest:
    return ApplyRequest(
        original=record.before,
        update=record.update,
        path=record.path,
        strategy="model",
        constrain=cast(Any, constrain),
    )


def measure(record: EditRecord, runtime: Runtime, constrain: str, *, is_timed: bool) -> dict[str, Any]:
    """One edit by the target alone; every fifth one also times plain decoding on the same prompt."""
    request = request_of(record, constrain)
    row: dict[str, Any] = {"id": record.id, "language": record.language, "n_lines": n_lines(record)}
    try:
        result = apply(request, runtime)
        plain = plain_tok_s(request, runtime) if is_timed else None
    except ApplyError as error:
        return {**row, "exact": False, "error": error.code}
    stats = result.stats
    row |= {
        "exact": result.merged_code == record.after,
        "agreement": result.agreement,
        "certainty": result.certainty,
        "confidence": result.confidence,
        "warned": any(not verdict.is_pass for verdict in result.verdicts),
        "tokens": stats.completion_tokens,
        "passes": stats.passes,
        "rejections": stats.rejections,
        "acceptance": stats.acceptance_rate,
        "tok_s": stats.tokens_per_s,
        "total_s": result.timings_s["total_s"],
    }
    if plain is not None:
        row |= {"plain_tok_s": plain, "speedup": stats.tokens_per_s / plain}
    return row


def plain_tok_s(request: ApplyRequest, runtime: Runtime) -> float:
    target = in_process(runtime.load(runtime.models[0]))
    job = read_edit(request, detect_language(path=request.path))[1]
    decoding = open_decoding(job, request, target, request.drafter or runtime.default_drafter)
    return measure_plain(cast(TorchEngine, target.engine), list(decoding.prompt_ids), PLAIN_TOKENS).tok_s


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    done = [row for row in rows if "error" not in row]
    if not any("speedup" in row for row in done):
        sys.exit("no timed edit succeeded: nothing to summarise")
    speedups = [row["speedup"] for row in done if "speedup" in row]
    by_size = {f"<= {size} lines": share([r for r in rows if r["n_lines"] <= size]) for size in SIZES}
    return {
        "n_total": len(rows),
        "errors": dict(Counter(row["error"] for row in rows if "error" in row)),
        "exact": by_size,
        "tokens_a_pass": sum(r["tokens"] for r in done) / sum(r["passes"] for r in done),
        "passes_per_edit": statistics.mean(r["passes"] for r in done),
        "rejections_per_edit": statistics.mean(r["rejections"] for r in done),
        "tok_s_median": statistics.median(r["tok_s"] for r in done),
        "plain_tok_s_median": statistics.median(r["plain_tok_s"] for r in done if "plain_tok_s" in r),
        "speedup_vs_plain_median": statistics.median(speedups),
        "n_speedup": len(speedups),
        "total_s_median": statistics.median(r["total_s"] for r in done),
    }


def share(rows: list[dict[str, Any]]) -> dict[str, Any]:
    n_exact = sum(row["exact"] for row in rows)
    return {"n": len(rows), "n_exact": n_exact, "share": n_exact / len(rows) if rows else None}


if __name__ == "__main__":
    sys.exit(main())
