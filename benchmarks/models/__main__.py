"""The embedded model, and pretrained ones: how often each way of answering is right and how fast, and what a start
takes (`make eval-embedded`, `make bench-models`).

    python -m benchmarks.models --name embedded --part answers --set sketched --data FILE [--updates FILE] --keep
    python -m benchmarks.models --name smollm2-135m --part starts
    python -m benchmarks.models --name smollm2-135m --part answers --data FILE [--updates FILE] [--limit N]
    python -m benchmarks.models ... --part speed --ways plain,model-free,prompt_lookup,hf-prompt-lookup-128 --data FILE

A pretrained model lies in `runs/models/NAME` (`make real-models`).  `starts`: it is started with no record of a
self-test, then with the one that this left; after each start an edit of six lines is answered twice.  `answers` and
`speed`: every way answers every edit, in turns; a run that was stopped goes on with the same command.
`--only-answered-by WAY`: that way is asked alone first, and an edit that it does not answer is left out.  Each part has
its own file of results in `runs/bench-models`; `--keep` writes it to the committed results as well, of which
`docs.generate` makes the tables.
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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any, Literal, NamedTuple

from apply_eval.datasets import EditRecord, chosen_records, evenly
from apply_eval.decoders import PROMPT_LOOKUPS, HfGenerate
from apply_eval.loop import Loop, schedule
from apply_eval.provenance import provenance
from apply_eval.results import ROWS, build_results
from apply_eval.rows import RowsFile, RunRow, facts_of
from apply_eval.runners import MISSING_IN_PROCESS, Answer, RequestOptions, Runner, alone, request_of
from apply_eval.summary import PLAIN, SummaryOptions
from apply_service.build import build_runtime
from apply_service.checks import run_checks
from apply_service.models import EMBEDDED
from apply_service.pipeline import apply, read_edit
from apply_service.protocols import CheckInput
from apply_service.settings import Settings
from apply_service.syntax.languages import detect_language
from apply_service.target import Runtime, Target, in_process
from apply_service.text.fidelity import restore
from apply_service.types import ApplyRequest, Certainty, Strategy
from benchmarks.report import RESULTS, write_result
from tests.engine.real_models import FOLDER, MODELS

FIGURES = (
    *("n_scored", "n_refused", "exact_match", "silent_errors", "tokens_per_pass", "passes_per_edit"),
    *("latency_p50_s", "latency_p95_s", "tok_s"),
)
SPEEDS = ("tok_s", "speedup_vs_plain", "acceptance_rate", "rejections_per_edit", "tokens_per_edit")
SEED = 0
MERGE = "merge"
SIX_LINES = ApplyRequest(
    original="def a():\n    return 1\n\n\ndef b():\n    return 2\n",
    update="def b():\n    return 3\n",
    path="a.py",
    strategy="model",
)


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
    options = parse()
    is_embedded = options.name == EMBEDDED
    model = EMBEDDED if is_embedded else str(FOLDER / options.name)
    if options.start:
        print(json.dumps(one_start(Settings(model=model, dtype=options.dtype, state_dir=options.start))))
        return 0
    settings = Settings(model=model, dtype=options.dtype, prefix_cache_mb=0)
    asked = "" if options.asked == "snippet" else f"-{options.asked}"
    name = f"embedded-model-{options.set}" if is_embedded else f"models-{options.name}-{options.part}{asked}"
    folder = FOLDER.parent / "bench-models"
    if options.part == "starts":
        about = {"kind": "model_starts", "model": MODELS[options.name].title, "dtype": options.dtype}
        kept = {**about, "provenance": provenance([], seed=SEED), "starts": measure_starts()}
    else:
        kept = measure_ways(options, settings, folder / name)
        print(json.dumps(kept["ways"], indent=1))
    for place in (folder, RESULTS)[: 1 + options.keep]:
        write_result(place / f"{name}.json", kept)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True, choices=[EMBEDDED, *MODELS])
    parser.add_argument("--part", required=True, choices=("starts", "answers", "speed"), help="what is measured")
    parser.add_argument("--set", default="own", help="what the set is called in the embedded model's results")
    parser.add_argument("--data", type=Path, help="edits for answers and speed")
    parser.add_argument("--updates", type=Path)
    asked_help = (
        "what is asked with: the snippet, the whole new file, or the commit's subject (for drafters, not for ways)"
    )
    parser.add_argument("--asked", default="snippet", choices=("snippet", "whole", "instruction"), help=asked_help)
    limit_help = "so many edits, evenly over those that are short enough; default: 20, of the embedded model all"
    parser.add_argument("--limit", type=int, help=limit_help)
    parser.add_argument("--max-chars", type=int, help="longest original; default: 1500, of the embedded model any")
    parser.add_argument(
        "--ways", default=",".join((MERGE, *WAYS)), help="also plain, a drafter, or hf-prompt-lookup[-128]"
    )
    parser.add_argument("--only-answered-by", metavar="WAY", help="leave out what this one of the ways does not answer")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--keep", action="store_true", help="write to the committed results as well")
    parser.add_argument("--fresh", action="store_true", help="throw away what a stopped run has left")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds an edit; a slower one is refused")
    parser.add_argument("--start", help=argparse.SUPPRESS)  # the folder of state of one start, in a process of its own
    options = parser.parse_args()
    if options.data is None and options.part != "starts":
        parser.error(f"--part {options.part} needs --data")
    if options.name != EMBEDDED:
        options.limit, options.max_chars = options.limit or 20, options.max_chars or 1500
    elif options.part != "answers":
        parser.error("the embedded model has --part answers alone: make bench-start, make demo")
    return options


# -- answers and speeds ------------------------------------------------------------------------------------------------
def measure_ways(options: argparse.Namespace, settings: Settings, out: Path) -> dict[str, Any]:
    """All ways in turns on all edits: figures and intervals of every way, no rows."""
    records, files = chosen_records(options.data, updates=options.updates, split=None)
    if options.asked == "whole":
        records = [replace(record, update=record.after) for record in records]
    short = [one for one in records if options.max_chars is None or len(one.before) <= options.max_chars]
    records = evenly(short, options.limit or len(short))
    runtime = build_runtime(settings)
    runners = {name: open_runner(name, runtime, options) for name in options.ways.split(",")}
    start = provenance(files, seed=SEED)
    is_embedded = options.name == EMBEDDED
    plan = {
        "schema_version": 1,
        "name": options.set if is_embedded else options.name,
        "data": start["data"],
        "windows": settings.windows,
        "timeout_s": options.timeout,
    }
    about: dict[str, Any] = {}
    if not is_embedded:
        engine: Any = in_process(runtime.load(runtime.models[0])).engine
        dtype = str(engine.pool.shape.dtype).removeprefix("torch.")
        about = {"kind": f"model_{options.part}", "model": MODELS[options.name].title, "dtype": dtype}
        about |= {"max_chars": options.max_chars, "asked": options.asked}
    for name in (ROWS, f"asked-{ROWS}") if options.fresh else ():
        (out / name).unlink(missing_ok=True)
    if way := options.only_answered_by:
        about |= {"only_answered_by": way, "n_asked": len(records)}
        with RowsFile(out / f"asked-{ROWS}", {**plan, **_taking_part(records, [way])}) as file:
            take_turns(records, {way: runners[way]}, file, start)
            answered = {row.id for row in file.record.rows if row.outcome == "answered"}
        records = [record for record in records if record.id in answered]
    with RowsFile(out / ROWS, {**plan, **_taking_part(records, list(runners))}) as file:
        take_turns(records, runners, file, start, warms_up=is_embedded)
        results = build_results(file.record, [facts_of(r) for r in records], SummaryOptions(SEED), plain=None)
        return keep(results, file.record.rows) | about


def _taking_part(records: Sequence[EditRecord], names: Sequence[str]) -> dict[str, Any]:
    return {"sample_ids": [record.id for record in records], "names": list(names)}


def take_turns(
    records: Sequence[EditRecord],
    runners: Mapping[str, Runner],
    file: RowsFile,
    start: Mapping[str, Any],
    *,
    warms_up: bool = False,
) -> None:
    """Ask what is not answered yet."""
    file.add_session(start)
    loop = Loop({record.id: record for record in records}, runners, file, on_row=log)
    turns = schedule([record.id for record in records], list(runners), seed=SEED)
    if warms_up and loop.pending(turns):
        loop.warm_up(min(records, key=lambda record: len(record.before)))
    loop.run(turns)


def log(row: RunRow) -> None:
    outcome = "exact" if row.exact else row.error or "wrong"
    print(f"{row.id}  {row.name}  {outcome}  {row.latency_s or 0:.2f} s", file=sys.stderr, flush=True)


def keep(results: dict[str, Any], rows: list[RunRow]) -> dict[str, Any]:
    """What is kept of a run."""
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
    more = {"intervals": intervals, "strategies": found["strategies"], "errors": found["errors"]}
    return figures | more | {speed: found[speed] for speed in SPEEDS}


# -- ways to answer ----------------------------------------------------------------------------------------------------
def open_runner(name: str, runtime: Runtime, chosen: argparse.Namespace) -> Runner:
    """The merge alone, one of WAYS, `plain`, the library's prompt lookup, or a drafter of ours; the last three write
    freely."""
    if name == MERGE:
        return MergeAlone()
    if name in WAYS:
        return alone(name, runtime, options=RequestOptions(*WAYS[name], timeout_s=chosen.timeout), drafter=None)
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


# -- starts ------------------------------------------------------------------------------------------------------------
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


if __name__ == "__main__":
    sys.exit(main())
