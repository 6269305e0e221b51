"""`make bench-models`: what a pretrained target takes to start, and how often it is right.

    python -m benchmarks.models --name smollm2-135m --part starts
    python -m benchmarks.models --name smollm2-135m --part answers --data FILE [--updates FILE] [--limit N]
    python -m benchmarks.models ... --part speed --ways plain,model-free,prompt_lookup,hf-prompt-lookup-128 --data FILE

The model lies in `runs/models/NAME` (`make real-models`).  `starts`: it is started with no record of a self-test, then
with the one that this left; after each start an edit of six lines is answered twice.  `answers` and `speed`: every
way answers every edit; a run that was stopped goes on with the same command.  `--only-answered-by WAY`: that way is
asked alone first, and an edit that it does not answer is left out.  Each part has its own file of results in
`runs/bench-models`; `--keep` writes it to the committed results as well.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from apply_eval.datasets import chosen_records
from apply_eval.decoders import PROMPT_LOOKUPS, HfGenerate
from apply_eval.loop import Loop, schedule
from apply_eval.provenance import provenance
from apply_eval.results import ROWS, build_results
from apply_eval.rows import RowsFile, facts_of
from apply_eval.runners import RequestOptions, Runner, alone
from apply_eval.summary import PLAIN, SummaryOptions
from apply_service.build import build_runtime
from apply_service.pipeline import apply
from apply_service.settings import Settings
from apply_service.target import Runtime, Target, in_process
from apply_service.types import ApplyRequest
from benchmarks.embedded.model import MERGE, RESULTS, SEED, WAYS, keep, log, open_way
from tests.engine.real_models import FOLDER, MODELS

SPEEDS = ("tok_s", "speedup_vs_plain", "acceptance_rate", "rejections_per_edit", "tokens_per_edit")
SIX_LINES = ApplyRequest(
    original="def a():\n    return 1\n\n\ndef b():\n    return 2\n",
    update="def b():\n    return 3\n",
    path="a.py",
    strategy="model",
)


def main() -> int:
    options = _parse()
    folder = FOLDER / options.name
    settings = {"model": str(folder), "dtype": options.dtype}
    if options.start:
        print(json.dumps(one_start(Settings(**settings, state_dir=options.start))))
        return 0
    start = provenance([path for path in (options.data, options.updates) if path is not None], seed=SEED)
    asked = "" if options.asked == "snippet" else f"-{options.asked}"
    result = FOLDER.parent / "bench-models" / f"models-{options.name}-{options.part}{asked}.json"
    result.parent.mkdir(parents=True, exist_ok=True)
    about = {"kind": f"model_{options.part}", "model": MODELS[options.name].title, "dtype": options.dtype}
    if options.part == "starts":
        kept = {**about, "provenance": start, "starts": measure_starts()}
        write_result(result, kept, keeps=options.keep)
        return 0
    records, _ = chosen_records(options.data, updates=options.updates, split=None)
    if options.asked == "whole":
        records = [replace(record, update=record.after) for record in records]
    short = [record for record in records if len(record.before) <= options.max_chars]
    records = [short[at * len(short) // options.limit] for at in range(min(options.limit, len(short)))]
    runtime = build_runtime(Settings(**settings, prefix_cache_mb=0))
    engine: Any = in_process(runtime.load(runtime.models[0])).engine
    about["dtype"] = str(engine.pool.shape.dtype).removeprefix("torch.")
    runners = {name: open_runner(name, runtime, options) for name in options.ways.split(",")}
    plan = {
        "schema_version": 1,
        "name": options.name,
        "data": start["data"],
        "windows": "auto",
        "timeout_s": options.timeout,
    }
    out = FOLDER.parent / "bench-models" / result.stem
    if way := options.only_answered_by:
        tried = [record.id for record in records]
        about |= {"only_answered_by": way, "n_asked": len(tried)}
        with RowsFile(out / f"asked-{ROWS}", {**plan, "sample_ids": tried, "names": [way]}) as file:
            file.add_session(start)
            loop = Loop({record.id: record for record in records}, runners, file, on_row=log)
            loop.run(list(schedule(tried, [way], seed=SEED)))
            answered = {row.id for row in file.record.rows if row.outcome == "answered"}
        records = [record for record in records if record.id in answered]
    ids = [record.id for record in records]
    with RowsFile(out / ROWS, {**plan, "sample_ids": ids, "names": list(runners)}) as file:
        file.add_session(start)
        loop = Loop({record.id: record for record in records}, runners, file, on_row=log)
        loop.run(list(schedule(ids, list(runners), seed=SEED)))
        results = build_results(file.record, [facts_of(r) for r in records], SummaryOptions(SEED), plain=None)
        kept = keep(results, file.record.rows)
    for name, way in kept["ways"].items():
        way |= {speed: results["summary"][name][speed] for speed in SPEEDS}
    kept |= {**about, "max_chars": options.max_chars, "asked": options.asked}
    write_result(result, kept, keeps=options.keep)
    return 0


def write_result(path: Path, value: dict[str, Any], *, keeps: bool) -> None:
    """Write a result, and where it is to be kept also to the committed ones."""
    for file in (path, RESULTS / path.name)[: 1 + keeps]:
        file.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def open_runner(name: str, runtime: Runtime, chosen: argparse.Namespace) -> Runner:
    """One of the ways of the embedded model's benchmark, `plain`, the library's prompt lookup, or a drafter of ours;
    what is not a way writes freely."""
    if name in (MERGE, *WAYS):
        return open_way(name, runtime, chosen.timeout)
    is_told = chosen.asked == "instruction"
    options = RequestOptions("model", "none", timeout_s=chosen.timeout, by_subject=is_told)
    if name in PROMPT_LOOKUPS:
        return HfGenerate(name, runtime, options=options, n_lookup=PROMPT_LOOKUPS[name])
    if name != PLAIN:
        return alone(name, runtime, options=options, drafter=name)
    target = in_process(runtime.load(runtime.models[0]))
    undrafted: Any = target.engine
    plain = Target(target.name, undrafted.plain(), target.prompt_format)
    return alone(name, replace(runtime, load=lambda _: plain), options=options, drafter="none")


def measure_starts() -> list[dict[str, Any]]:
    """A start without a kept self-test and one with it, each in a process of its own that is told all our arguments."""
    with tempfile.TemporaryDirectory() as state:
        command = [sys.executable, "-m", "benchmarks.models", *sys.argv[1:], "--start", state]
        # As in `build`, which comes too late here: the evaluation has imported torch by then.
        environment = {"GOMP_SPINCOUNT": "1000", **os.environ}
        return [json.loads(subprocess.check_output(command, env=environment)) for _ in range(2)]


def one_start(settings: Settings) -> dict[str, Any]:
    """Seconds of a start in this process and of two edits after it that the model writes, by the clock and of this
    process's processor time; how busy the machine was; and the most memory that the process took, pages of the mapped
    file included, which the system can take back; and what it has without them, beside the bytes of the weights."""
    found: dict[str, Any] = {"load_average": os.getloadavg()[0]}
    runtime = build_runtime(settings)

    def clocked(name: str, run: Any) -> Any:
        clock, processor = time.perf_counter(), time.process_time()
        result = run()
        found[name] = {"clock_s": time.perf_counter() - clock, "processor_s": time.process_time() - processor}
        return result

    engine = clocked("ready", lambda: runtime.load(settings.model)).engine
    for name in ("first_edit", "second_edit"):
        clocked(name, lambda: apply(SIX_LINES, runtime))
    n_bytes = sum(weight.nbytes for weight in engine.model.parameters())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    found |= {"peak_bytes": peak, "private_bytes": private_bytes(), "weight_bytes": n_bytes}
    found |= {"pass_times": engine.pass_times}
    found |= {"buckets": sorted(engine.pass_times), "determinism": engine.determinism}
    return found


def private_bytes() -> int | None:
    """Memory of this process that no file holds too; None where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))
    except (OSError, StopIteration):
        return None


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True, choices=list(MODELS))
    parser.add_argument("--part", required=True, choices=("starts", "answers", "speed"), help="what is measured")
    parser.add_argument("--data", type=Path, help="edits for answers and speed")
    parser.add_argument("--updates", type=Path)
    asked_help = (
        "what is asked with: the snippet, the whole new file, or the commit's subject (for drafters, not for ways)"
    )
    parser.add_argument("--asked", default="snippet", choices=("snippet", "whole", "instruction"), help=asked_help)
    parser.add_argument("--limit", type=int, default=20, help="so many edits, evenly over those that are short enough")
    parser.add_argument("--max-chars", type=int, default=1500, help="longest original")
    parser.add_argument(
        "--ways", default=",".join((MERGE, *WAYS)), help="also plain, a drafter, or hf-prompt-lookup[-128]"
    )
    parser.add_argument("--only-answered-by", metavar="WAY", help="leave out what this one of the ways does not answer")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--keep", action="store_true", help="write to the committed results as well")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds an edit; a slower one is refused")
    parser.add_argument("--start", help=argparse.SUPPRESS)  # the folder of state of one start, in a process of its own
    options = parser.parse_args()
    if options.data is None and options.part != "starts":
        parser.error(f"--part {options.part} needs --data")
    return options


if __name__ == "__main__":
    sys.exit(main())
