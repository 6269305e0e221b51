"""`make bench-gpu-real`: a pretrained model's own choices on a GPU, with an adapter and without one.

    python -m benchmarks.gpu.real --model FOLDER [--adapter FOLDER] --out FILE.json [--limit 100] [--speeds 12]

The edits are those of `make bench-gpu-prepare`.  Each is answered once, greedily and freely, with `merged_edit` as
drafter; the first `--speeds` of them by every contender in turns as well.  An answer is right when it is the wanted
text to the byte.  One process measures one model, so that adapters compare by two calls.  Results are written after
every edit.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apply_eval.provenance import provenance
from apply_service.engine.loading import load_model
from apply_service.errors import ApplyError
from apply_service.prompts.by_model import open_prompt_format
from apply_service.target import Target
from benchmarks.decoding.contenders import Case, describe, describe_device, open_contender, take_turns, undrafted_cap
from benchmarks.decoding.samples import summarise
from benchmarks.gpu.edits import OUT, case_of, read_prepared
from benchmarks.gpu.measure import bytes_read, time_passes
from benchmarks.report import told_errors, write_result

CONTENDERS = "plain_engine,hf_plain,hf_prompt_lookup,hf_prompt_lookup_128,original_snippet,merged_edit"
FULL_SPEED = "merged_edit"


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    with told_errors():
        measure(options)
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.real", description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="folder of the model")
    parser.add_argument("--adapter", type=Path, help="folder of a LoRA adapter")
    parser.add_argument("--edits", type=Path, default=OUT.parent, help="folder of the prepared edits")
    parser.add_argument("--out", type=Path, required=True, help="file of results")
    parser.add_argument("--limit", type=int, default=100, help="edits that are answered")
    parser.add_argument("--speeds", type=int, default=12, help="of these, edits that every contender decodes; 0: none")
    parser.add_argument("--contenders", default=CONTENDERS)
    parser.add_argument("--plain-tokens", type=int, default=128, help="tokens of undrafted runs")
    parser.add_argument("--max-tokens", type=int, default=8_192, help="context that an edit may take")
    parser.add_argument("--budget-s", type=float, default=300.0)
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> None:
    """Answers first, then speeds, until the budget is spent.  Raises as `load_model` does."""
    stop_s = time.monotonic() + options.budget_s
    prompt_format = open_prompt_format(str(options.model))
    prepared = read_prepared(options.edits)
    started_s = time.monotonic()
    loaded = load_model(str(options.model), device=options.device, adapter=options.adapter, kv_cache_bytes=4 * 2**30)
    ready_s = time.monotonic() - started_s
    engine = loaded.engine
    target = Target(engine.name, engine, prompt_format)
    cases = [case_of(edit, prompt_format) for edit in prepared["edits"]]
    cases = [case for case in cases if case.n_needed <= min(options.max_tokens, engine.context_limit)]
    cases = cases[: options.limit]
    found: dict[str, Any] = {
        "kind": "gpu_real",
        "provenance": provenance([], seed=0),
        "edits": {name: prepared[name] for name in ("provenance", "digest")} | {"n": len(cases)},
        "device": describe_device(options.device),
        "adapter": options.adapter is not None,
        "ready_s": round(ready_s, 3),
        "target": describe(engine.name, engine, cases)
        | {
            "attention": engine.attention,
            "has_graphs": engine.has_graphs,
            "weight_bytes_read": bytes_read(engine.model),
            "notes": list(loaded.self_test.notes),
            "pass_ms": time_passes(engine),  # type: ignore[arg-type]
        },
        "answers": [],
        "samples": [],
    }

    def write() -> None:
        write_result(options.out, {**found, "samples": [sample.as_json() for sample in found["samples"]]})

    fast = open_contender(FULL_SPEED, target, engine)
    fast.run(cases[:1], "warm-up", cap=24)
    for case in cases:
        if time.monotonic() > stop_s:
            return
        found["answers"].append(answer(fast, case))
        write()
    contenders = [open_contender(name, target, engine) for name in options.contenders.split(",")]
    groups = {case.id: [case] for case in cases[: options.speeds]}
    for sample in take_turns(contenders, groups, cap=undrafted_cap(options.plain_tokens)) if groups else ():
        found["samples"].append(sample)
        write()
        if time.monotonic() > stop_s:
            break
    summary = summarise(found["samples"])
    found["summary"] = summary
    write()
    for row in summary:
        print(row["contender"], round(row["tok_s"]), row["acceptance"], row["n_exact"], row.get("vs_plain"))
    print(f"{sum(row['is_right'] for row in found['answers'])} of {len(found['answers'])} right")


def answer(contender: Any, case: Case) -> dict[str, Any]:
    """One edit written to its end; an answer that fails is wrong, and its error is kept."""
    about = {"id": case.id, "merge_is_right": case.job.prediction.text == case.after}
    try:
        sample = contender.run([case], case.id, cap=None)
    except ApplyError as error:
        return {**about, "is_right": False, "error": error.code}
    kept = ("n_prompt_tokens", "n_tokens", "decode_s", "end_to_end_s", "passes", "drafted", "accepted", "rejections")
    row = sample.as_json()
    return {**about, "is_right": bool(sample.n_exact), **{name: row[name] for name in kept}}


if __name__ == "__main__":
    sys.exit(main())
