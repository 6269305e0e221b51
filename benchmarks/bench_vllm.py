"""Our drafts inside vLLM against vLLM's own: plain, ngram, suffix and ours on one model, edit by edit, in one run.

    python -m benchmarks.bench_vllm --python VENV/bin/python --data F.jsonl [--limit 40] [--minutes 9] [--out FILE.json]

`--python` is that of the environment in which vLLM and this package are installed (docs/vllm.md).  All servers run at
once and are asked one after the other, so that whatever else the machine does hits all alike.  `told` sends the
predicted merge along, `shown` is the same server and finds original and update in the prompt.  Then eight edits at a
time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from apply_eval.datasets import EditRecord, read_records
from apply_eval.provenance import provenance
from apply_eval.runners.request import RequestOptions, request_of
from apply_eval.runners.vllm import METHODS, OURS
from apply_service.edits.fidelity import normalise
from apply_service.engine.loading import embedded_directory
from apply_service.errors import ApplyError
from apply_service.pipeline import read_edit
from apply_service.prompts.by_model import open_prompt_format
from apply_service.protocols import PromptFormat
from apply_service.syntax.languages import detect_language
from benchmarks.vllm_requests import Case, Written, gap_at, write
from benchmarks.vllm_servers import Server, counters, started, version_of

LONG_NGRAM = '{"method": "ngram", "num_speculative_tokens": 127, "prompt_lookup_max": 4}'
"""vLLM's own prompt lookup with drafts as long as ours: what a user who copies a lot would set."""
SERVERS: Mapping[str, str | None] = {
    "plain": METHODS["vllm"],
    "ngram": METHODS["vllm-ngram"],
    "ngram-127": LONG_NGRAM,
    "suffix": METHODS["vllm-suffix"],
    "told": METHODS[OURS],
}
SHOWN = "shown"
CONTENDERS = (*SERVERS, SHOWN)
CONTEXT = 8192
SPARE = 128
"""vLLM drafts for nobody while a request is this close to the end of the context."""
LEAST_TOKENS, MOST_TOKENS = 200, 2500
"""Of the expected output: shorter ones say nothing of a speed, longer ones take the time of several."""
N_TOGETHER = 8


def main() -> int:
    options = _parse()
    prompt_format = open_prompt_format(str(options.model))
    cases = read_cases(options.data, prompt_format, limit=options.limit + N_TOGETHER + 1, seed=options.seed)
    if len(cases) <= N_TOGETHER + 1:
        sys.exit("too few edits fit the model's context")
    # Of its own: suffix decoding remembers what it wrote.
    warm_up, together, alone = cases[0], cases[1 : N_TOGETHER + 1], cases[N_TOGETHER + 1 :]
    result: dict[str, Any] = {"kind": "vllm", "schema_version": 1, "servers": SERVERS}
    result["provenance"] = provenance([options.data], seed=options.seed) | {"niceness": os.nice(0)}
    with tempfile.TemporaryDirectory() as logs:
        limits = ["--max-model-len", str(CONTEXT), "--max-num-seqs", str(N_TOGETHER)]
        with started(options.python, options.model, SERVERS, Path(logs), limits) as servers:
            result["load_before"] = os.getloadavg()
            result["vllm"] = version_of(servers["plain"])
            for server in servers.values():
                write(server, warm_up, is_told=False)
            result["samples"] = run_alone(servers, alone, minutes=options.minutes)
            result["together"] = run_together(servers, together)
            result["load_after"] = os.getloadavg()
    result["summary"] = summary_of(result["samples"])
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: result[name] for name in ("summary", "together")}, indent=1))
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, default=embedded_directory())
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=9.0, help="begin no further edit after that")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def read_cases(path: Path, prompt_format: PromptFormat, *, limit: int, seed: int) -> list[Case]:
    """A seeded choice of the edits whose prompt and output fit."""
    records = read_records(path)
    random.Random(seed).shuffle(records)
    cases: list[Case] = []
    for record in records:
        if len(cases) == limit:
            break
        case = _case(record, prompt_format)
        if case is not None:
            cases.append(case)
    return cases


def _case(record: EditRecord, prompt_format: PromptFormat) -> Case | None:
    request = request_of(record, RequestOptions())
    try:
        job = read_edit(request, detect_language(name=request.language, path=request.path))[1]
    except ApplyError:
        return None
    sources = prompt_format.encode_sources(job)
    prompt_ids, n_expected = prompt_format.encode_prompt(job), len(sources.predicted.ids)
    n_new = max(n_expected + 1, len(sources.original.ids) + len(sources.update.ids) + 64)
    if not LEAST_TOKENS <= n_expected <= MOST_TOKENS or len(prompt_ids) + n_new + SPARE > CONTEXT:
        return None
    return Case(record.id, job, tuple(prompt_ids), n_new, prompt_format, normalise(record.after))


# -- one at a time -----------------------------------------------------------------------------------------------------
def run_alone(servers: Mapping[str, Server], cases: Sequence[Case], *, minutes: float) -> list[dict[str, Any]]:
    """Every edit by every contender, who goes first changing from edit to edit."""
    deadline = time.monotonic() + 60 * minutes
    samples: list[dict[str, Any]] = []
    for number, case in enumerate(cases):
        if time.monotonic() > deadline:
            break
        turn = number % len(CONTENDERS)
        written = {
            name: _counted(_server(servers, name), case, is_told=name != SHOWN)
            for name in (*CONTENDERS[turn:], *CONTENDERS[:turn])
        }
        samples.append(_sample(servers["plain"], case, written))
        print(
            number, {name: one["tok_s"] and round(one["tok_s"]) for name, one in samples[-1]["by"].items()}, flush=True
        )
    return samples


def _server(servers: Mapping[str, Server], name: str) -> Server:
    return servers["told" if name == SHOWN else name]


def _counted(server: Server, case: Case, *, is_told: bool) -> tuple[Written, dict[str, int]]:
    before = counters(server)
    written = write(server, case, is_told=is_told and server.name == "told")
    return written, {name: count - before[name] for name, count in counters(server).items()}


def _sample(plain: Server, case: Case, written: Mapping[str, tuple[Written, dict[str, int]]]) -> dict[str, Any]:
    reference = written["plain"][0].ids
    by: dict[str, Any] = {}
    for name in CONTENDERS:
        one, counts = written[name]
        at = first_difference(reference, one.ids)
        by[name] = one.as_row() | counts | {"is_right": case.is_right(one.ids), "differs_at": at}
        if at is not None:
            by[name]["gap_nats"] = gap_at(plain, case, reference[:at])
    return {"id": case.id, "n_prompt": len(case.prompt_ids), "by": by}


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """The first place where they differ; None where they are equal."""
    if list(a) == list(b):
        return None
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


# -- eight at a time ---------------------------------------------------------------------------------------------------
def run_together(servers: Mapping[str, Server], cases: Sequence[Case]) -> dict[str, Any]:
    """All edits at once on each server in turn, then one by one where we draft: do the outputs differ?"""
    found: dict[str, Any] = {}
    for name in CONTENDERS:
        server, is_told = _server(servers, name), name == "told"
        started_at = time.perf_counter()
        with ThreadPoolExecutor(len(cases)) as pool:
            written = list(pool.map(lambda case: write(server, case, is_told=is_told), cases))  # noqa: B023
        wall_s = time.perf_counter() - started_at
        n_tokens = sum(len(one.ids) for one in written)
        found[name] = {"n_tokens": n_tokens, "wall_s": round(wall_s, 3), "tok_s": round(n_tokens / wall_s, 1)}
        if server.name == "told":
            lone = [write(server, case, is_told=is_told).ids for case in cases]
            found[name]["n_as_alone"] = sum(a.ids == b for a, b in zip(written, lone, strict=True))
    return found


# -- sums --------------------------------------------------------------------------------------------------------------
def summary_of(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """By contender: tokens a second over all edits, of decoding and from end to end; steps, counters, differences from
    plain; how much faster ours are, over all edits."""
    summary: dict[str, Any] = {}
    for name in CONTENDERS:
        rows = [sample["by"][name] for sample in samples]
        total: defaultdict[str, float] = defaultdict(float)
        for row in rows:
            for key in ("n_tokens", "n_timed", "decode_s", "total_s", "n_steps", "drafts", "drafted", "accepted"):
                total[key] += row[key]
        gaps = [row["gap_nats"] for row in rows if "gap_nats" in row]
        summary[name] = {
            "n": len(rows),
            "tok_s": round(total["n_timed"] / total["decode_s"], 1),
            "tok_s_with_prompt": round(total["n_tokens"] / total["total_s"], 1),
            "tokens_per_step": round(total["n_tokens"] / total["n_steps"], 2),
            **{key: int(total[key]) for key in ("n_tokens", "n_steps", "drafts", "drafted", "accepted")},
            "n_right": sum(row["is_right"] for row in rows),
            "n_cut": sum(row["is_cut"] for row in rows),
            "n_different": len(gaps),
            "largest_gap_nats": max(gaps, default=None),
        }
    for name in ("told", SHOWN):
        summary[name]["speedup_over"] = {
            peer: round(summary[name]["tok_s"] / summary[peer]["tok_s"], 2) for peer in CONTENDERS if peer != name
        }
    return summary


if __name__ == "__main__":
    sys.exit(main())
