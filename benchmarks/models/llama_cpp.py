"""A GGUF file in llama.cpp: its own plain decoding and its own prompt lookup against our drafts, on the same edits.

    python -m benchmarks.models.llama_cpp --model FILE.gguf --data FILE.jsonl --out FILE.json [--limit 12]

Every contender gets the same prompt ids, stop rule and limit of tokens, and the model chooses every token.  `plain` and
`lookup-N` are the loop of `llama-cpp-python` without and with its `LlamaPromptLookupDecoding`; the others run in our
engine.  Speeds are of decoding alone, after the prompt has been read, in processor time of one thread: run it with
OMP_NUM_THREADS=1, and other processes hardly count.  `rows` are milliseconds of a batch after a prompt of median
length.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from apply_eval.datasets import chosen_records, evenly
from apply_eval.provenance import hash_file, provenance
from apply_service.build import load_llama
from apply_service.decoding.scheduler import NextPass, drive_alone
from apply_service.decoding.verify import Decoding
from apply_service.engine.llama_cpp.engine import LlamaEngine
from apply_service.errors import ContextLimitExceeded
from apply_service.prompts.by_model import open_gguf_format
from apply_service.protocols import Prefill, SamplingParams, Window
from apply_service.settings import LLAMA_CPP, Settings
from apply_service.target import Target, open_decoding
from benchmarks.decoding.cases import make_case
from benchmarks.decoding.contenders import Case, read_prompts
from benchmarks.report import told_errors, write_result

OURS = ("none", "merged_edit", "merged_edit+suffix")
LIBRARY = {"plain": None, "lookup-10": 10, "lookup-64": 64}
"""Contenders of the library's own loop, and how many tokens they draft."""
CONTEXT = 4096
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Run(NamedTuple):
    """What one contender wrote for one edit, stop token included, and the seconds and passes of its decoding."""

    ids: list[int]
    seconds: float
    passes: int
    n_timed: int
    """Tokens that were written in these seconds."""

    @property
    def tok_s(self) -> float:
        return self.n_timed / self.seconds


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    with told_errors():
        measure(options)
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models.llama_cpp", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file")
    parser.add_argument("--data", type=Path, required=True, help="edits")
    parser.add_argument("--out", type=Path, required=True, help="file of results")
    parser.add_argument("--limit", type=int, default=12, help="so many edits, evenly over those that are short enough")
    parser.add_argument("--max-chars", type=int, default=1500, help="longest file")
    parser.add_argument("--max-tokens", type=int, default=512, help="an output is cut after so many")
    parser.add_argument("--max-active", type=int, help="as the setting")
    parser.add_argument("--contenders", default=",".join((*LIBRARY, *OURS)))
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> None:
    """All contenders take turns on each edit.  Results are written after every edit.  Raises ApplyError."""
    settings = Settings(model=str(options.model), engine=LLAMA_CPP, prefix_cache_mb=0, max_active=options.max_active)
    engine = load_llama(settings.model, settings)
    target = Target(options.model.stem, engine, open_gguf_format(settings.model, engine.model))
    records = chosen_records(options.data, updates=None, split=None)[0]
    short = [one for one in records if len(one.before) <= options.max_chars]
    records = evenly(short, options.limit)
    cases = [
        replace(case, request=replace(case.request, max_tokens=options.max_tokens))
        for case in (make_case(record, target.prompt_format) for record in records)
    ]
    ways = {name: open_way(name, target, options.model) for name in options.contenders.split(",")}
    found: dict[str, Any] = {
        "kind": "llama_cpp",
        "model": options.model.name,
        "model_sha256": hash_file(options.model),
        "provenance": provenance([options.data], seed=0),
        "start": engine.describe(),
        "max_chars": options.max_chars,
        "rows": time_rows(engine, statistics.median(len(case.prompt_ids) for case in cases)),
        "edits": {},
    }
    for i, case in enumerate(cases):
        names = list(ways)
        runs = {}
        for name in names[i % len(names) :] + names[: i % len(names)]:
            runs[name] = ways[name](case)
        found["edits"][case.id] = {
            name: {"n": len(run.ids), "tok_s": round(run.tok_s, 2), "passes": run.passes}
            | {"first_other": first_other(run.ids, runs[names[0]].ids)}
            for name, run in runs.items()
        }
        found["summary"] = summarise(found["edits"], found["rows"])
        write_result(options.out, found)
        speeds = ", ".join(f"{name} {runs[name].tok_s:.0f}" for name in names)
        print(f"{case.id}: {len(case.prompt_ids)} + {len(runs[names[0]].ids)} tokens; {speeds}", flush=True)
    print(json.dumps(found["summary"], indent=1))


def open_way(name: str, target: Target, path: Path) -> Callable[[Case], Run]:
    """A contender by its name."""
    if name in LIBRARY:
        return library_way(path, target, LIBRARY[name])
    return lambda case: run_ours(case, target, name)


def run_ours(case: Case, target: Target, name: str) -> Run:
    """Decode in our engine."""
    with open_decoding(case.job, case.request, target, name) as decoding:
        read_prompts([decoding])
        seconds = list(drive_alone(_timed_passes(decoding)))
    return Run(decoding.output_ids, sum(seconds), decoding.stats.passes, len(decoding.output_ids))


def _timed_passes(decoding: Decoding) -> Any:
    """Run a decoding whose prompt is read, and yield the seconds of each pass."""
    while decoding.finish_reason is None:
        started = time.thread_time()
        yield NextPass((decoding,))
        yield time.thread_time() - started


def library_way(path: Path, target: Target, n_lookup: int | None) -> Callable[[Case], Run]:
    """The library's own loop.  Its lookup fails unless all logits are kept."""
    from llama_cpp import Llama
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    draft = None if n_lookup is None else LlamaPromptLookupDecoding(num_pred_tokens=n_lookup)
    threads = target.engine.n_threads  # type: ignore[attr-defined]
    model = Llama(
        str(path),
        n_ctx=CONTEXT,
        n_threads=target.engine.row_test.single_threads,  # type: ignore[attr-defined]
        n_threads_batch=threads,
        n_gpu_layers=-1,
        flash_attn=True,  # as in our engine: it is the faster one here, and rounds otherwise
        logits_all=draft is not None,
        draft_model=draft,
        verbose=False,
    )
    n_evals = 0
    evaluate = model.eval

    def counted(tokens: Sequence[int]) -> None:
        nonlocal n_evals
        n_evals += 1
        evaluate(tokens)

    model.eval = counted

    def run(case: Case) -> Run:
        nonlocal n_evals
        with open_decoding(case.job, case.request, target, "none") as limits:
            pass
        if len(case.prompt_ids) + limits.max_new_tokens > CONTEXT:
            raise ContextLimitExceeded("the edit is too long", value=case.id, limit=CONTEXT)
        n_evals, times, ids = 0, list[float](), list[int]()
        for token in model.generate(list(case.prompt_ids), temp=0.0, repeat_penalty=1.0):
            times.append(time.thread_time())
            ids.append(int(token))
            end = None if limits.find_stop is None else limits.find_stop([ids[-1]])
            if ids[-1] in limits.stop_ids or end is not None or len(ids) >= limits.max_new_tokens:
                break
        return Run(ids, max(1e-9, times[-1] - times[0]), n_evals, len(ids) - 1)

    return run


def time_rows(engine: LlamaEngine, n_prompt: float) -> dict[int, float]:
    """Milliseconds of one window by its rows, the least of three."""
    rng = np.random.default_rng(0)
    ids = rng.integers(engine.n_vocab // 4, engine.n_vocab // 2, int(n_prompt) + max(ROWS) + 1).tolist()
    session = engine.open(ids[: int(n_prompt) + 1], max(ROWS))
    assert session is not None
    found = {}
    with session:
        while session.n_pending:
            engine.step([Prefill(session, min(session.n_pending, max(engine.pass_times)))])
        for n_rows in ROWS:
            took = []
            for _ in range(3):
                started = time.thread_time()
                part = Window(session, ids[int(n_prompt)], ids[int(n_prompt) + 1 :][: n_rows - 1], SamplingParams())
                engine.logits([part])
                took.append(1000 * (time.thread_time() - started))
            found[n_rows] = round(min(took), 2)
    return found


def first_other(ids: Sequence[int], wanted: Sequence[int]) -> int | None:
    """Where two outputs first differ; None if they do not."""
    if list(ids) == list(wanted):
        return None
    return next((i for i, (one, other) in enumerate(zip(ids, wanted, strict=False)) if one != other), len(ids))


def summarise(edits: dict[str, Any], rows: dict[int, float]) -> dict[str, Any]:
    """For each contender: tokens a second over all edits, the same over the first contender's, how many outputs are
    the same as its, and the share of what rows allow."""
    names = list(next(iter(edits.values())))
    allowed = max(n_rows * rows[1] / took for n_rows, took in rows.items())
    found: dict[str, Any] = {"rows_allow": round(allowed, 3)}

    def total(name: str, what: str) -> float:
        return float(sum(edit[name][what] for edit in edits.values()))

    def speed(name: str) -> float:
        return total(name, "n") / float(sum(edit[name]["n"] / edit[name]["tok_s"] for edit in edits.values()))

    first = next(name for name in (*LIBRARY, *names) if name in names)
    for name in sorted(names):
        over = speed(name) / speed(first)
        n_same = sum(edit[name]["first_other"] is None for edit in edits.values())
        found[name] = {
            "tok_s": round(speed(name), 1),
            f"over_{first}": round(over, 3),
            "share_of_rows": round(over / allowed, 3),
            "tokens_a_pass": round(total(name, "n") / total(name, "passes"), 2),
            f"same_as_{first}": f"{n_same} of {len(edits)}",
        }
    return found


if __name__ == "__main__":
    sys.exit(main())
