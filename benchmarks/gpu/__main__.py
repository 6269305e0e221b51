"""`make bench-gpu`: correctness, then speed at real shapes, in pieces that resume (docs/gpu.md).

    python -m benchmarks.gpu [--shapes qwen2.5-coder-7b,...] [--pieces NAME,...] [--budget-s 540]

Needs torch, triton, transformers, safetensors, tokenizers and numpy, and the edits that `make bench-gpu-prepare` wrote;
no network.  The most important pieces come first; a run ends before its budget does, and the same command goes on where
it ended.  Every piece is a process of its own, so that one that breaks takes no other with it.  Weights are random and
the right answers replayed: every forward is really computed.  Contenders take turns on each edit; undrafted runs stop
after `--plain-tokens` tokens (in batches they go on to the end, but for the library's, which stop after
`--peer-tokens`), which is in their favour; alone the library decodes the first `--peer-limit` edits.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from apply_eval.provenance import provenance
from apply_service.engine.loading import pick_device
from apply_service.engine.weights import Weights
from benchmarks.decoding.contenders import describe_device
from benchmarks.decoding.samples import LOOKUP_PEER, PLAIN_ENGINE, PLAIN_PEER, WIDE_LOOKUP_PEER
from benchmarks.gpu.checks import Group, check_attention, check_decoding, check_matrices, check_rows, run_checks
from benchmarks.gpu.edits import OUT, read_prepared
from benchmarks.gpu.measure import measure_piece
from benchmarks.gpu.pieces import CHECKS, Piece, Results, choose_pieces, failure_of, plan_pieces
from benchmarks.gpu.tables import render
from benchmarks.report import told_errors

GPU_SHAPES = "qwen2.5-coder-7b,llama-3-70b-fp8,qwen2.5-coder-1.5b,qwen2.5-coder-32b"
SHAPES = {"cuda": GPU_SHAPES, "cpu": "tiny-10m,tiny-10m-fp8"}
CHECKED = {"cuda": "qwen2.5-coder-1.5b", "cpu": "tiny-2m"}
CONTENDERS = (PLAIN_ENGINE, PLAIN_PEER, LOOKUP_PEER, WIDE_LOOKUP_PEER, "original_snippet", "merged_edit")
LEAST_S = 45.0
"""With less than this left no piece is begun: a shape has to be made, and its self-test run."""
CHECKS_S = 300.0
"""At most for the checks of one call, or half of its budget: they are there to help the rest."""
RUN_OPTIONS = (
    *("shapes", "batches", "contenders", "limit", "groups", "peer_limit"),
    *("plain_tokens", "peer_tokens", "attention", "cuda_graphs", "seed"),
)
"""What results depend on."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    with told_errors():
        planned = plan_pieces(options.shapes.split(","), list(map(int, options.batches.split(","))))
        run_id = {name: getattr(options, name) for name in RUN_OPTIONS}
        device = describe_device(options.device)["name"]
        files = Results(options.out, run_id | {"cases": read_prepared(options.out)["digest"], "device": device})
        if options.one_piece:
            return run_one(choose_pieces(planned, options.one_piece)[0], options, files)
        return run_all(planned, options, files)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--shapes", help=f"the most important first; default: {GPU_SHAPES}, on a CPU tiny ones")
    parser.add_argument("--batches", default="1,8,32,64", help="edits decoded together")
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    parser.add_argument("--pieces", help="these alone, in this order; default: all, the most important first")
    parser.add_argument("--budget-s", type=float, default=540.0, help="seconds that this call may take")
    parser.add_argument("--limit", type=int, default=12, help="edits alone")
    parser.add_argument("--peer-limit", type=int, default=4, help="edits alone that the library decodes as well")
    parser.add_argument("--groups", type=int, default=2, help="times that each batch size is run")
    parser.add_argument("--plain-tokens", type=int, default=128, help="tokens of undrafted runs alone")
    parser.add_argument("--peer-tokens", type=int, default=32, help="tokens of the library's runs in batches")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--attention", default="auto", choices=("auto", "sdpa", "triton"))
    parser.add_argument("--cuda-graphs", default="auto", choices=("auto", "on", "off"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="forget what the folder holds")
    parser.add_argument("--out", type=Path, default=OUT.parent, help="folder of results, and of the prepared edits")
    parser.add_argument("--one-piece", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.arguments = list(sys.argv[1:] if arguments is None else arguments)
    options.where = pick_device(options.device)
    options.shapes = options.shapes or SHAPES["cuda" if options.where.type == "cuda" else "cpu"]
    return options


# -- all pieces --------------------------------------------------------------------------------------------------------
def run_all(planned: Sequence[Piece], options: argparse.Namespace, files: Results) -> int:
    """Pieces until the budget is spent, each in a process of its own; then the tables of all that there is.  1 where a
    check failed or a piece broke."""
    started_s = time.monotonic()
    if options.fresh:
        files.clear()
    pieces = choose_pieces(planned, options.pieces)
    files.put_together(head_of(options), planned)
    broken = [piece.name for piece in pieces if not _run_in_processes(piece, options, files, started_s)]
    value = files.put_together(head_of(options), planned)
    print(render(value))
    todo = [piece["piece"] for piece in value["pieces"] if not piece["is_complete"]]
    print(f"to do: {', '.join(todo)}; run the same command again" if todo else "all pieces are done")
    failed = [check for piece in value["pieces"] for check in piece.get("checks", ()) if check["is_ok"] is False]
    return 1 if broken or failed or any(piece["failures"] for piece in value["pieces"]) else 0


def _run_in_processes(piece: Piece, options: argparse.Namespace, files: Results, started_s: float) -> bool:
    """Whether it did not break; a piece that is done, or for which no time is left, is not begun, and one that is
    stopped at its end is not broken.  Checks that broke their process go on in another, as long as each gets
    further."""
    is_whole = True
    most_s = max(CHECKS_S, options.budget_s / 2) if piece.name == CHECKS else options.budget_s
    end_s = min(started_s + options.budget_s, time.monotonic() + most_s)
    given = [argument for argument in options.arguments if argument != "--fresh"]
    command = [sys.executable, "-m", "benchmarks.gpu", *given, "--one-piece", piece.name]
    while (left_s := end_s - time.monotonic()) > LEAST_S and not (before := files.read(piece.name))["is_complete"]:
        try:
            done = subprocess.run([*command, "--budget-s", f"{left_s:.0f}"], check=False, timeout=left_s)
            is_whole = done.returncode == 0
        except subprocess.TimeoutExpired:
            print(f"{piece.name}: stopped at the end of its time", file=sys.stderr)
            is_whole = True
        if is_whole or piece.name != CHECKS or files.read(piece.name) == before:
            break
    return is_whole


def head_of(options: argparse.Namespace) -> dict[str, Any]:
    """What stands over all pieces: machine, versions, command, where the edits come from."""
    prepared = read_prepared(options.out)
    is_cuda = options.where.type == "cuda"
    memory = torch.cuda.get_device_properties(options.where).total_memory if is_cuda else None
    return {
        "kind": "bench-gpu",
        "schema_version": 2,
        "provenance": provenance([], seed=options.seed),
        "edits": {name: prepared[name] for name in ("provenance", "digest")} | {"n": len(prepared["edits"])},
        "merge_s": [edit["merge_s"] for edit in prepared["edits"]],
        "device": describe_device(options.device) | {"is_gpu": is_cuda, "memory": memory},
        "options": {name: getattr(options, name) for name in RUN_OPTIONS},
    }


# -- one piece ---------------------------------------------------------------------------------------------------------
def run_one(piece: Piece, options: argparse.Namespace, files: Results) -> int:
    """Go on with one piece, for at most the budget."""
    stop_s = time.monotonic() + options.budget_s
    found = files.read(piece.name)
    log = partial(print, file=sys.stderr, flush=True)
    try:
        if piece.name == CHECKS:
            save = partial(files.write, piece.name, found)
            found["is_complete"] = run_checks(groups_of(options), found, stop_s, save=save, log=log)
        else:
            found["is_complete"] = measure_piece(piece, options, files, found, stop_s, log=log)
    except Exception as error:
        found["failures"].append(failure_of(error, piece.name))
        raise
    finally:
        files.write(piece.name, found)
    return 0


def groups_of(options: argparse.Namespace) -> Mapping[str, Group]:
    """All checks."""
    device, seed = options.where, options.seed
    is_cuda = device.type == "cuda"
    groups: dict[str, Group] = {}
    for dtype in (torch.bfloat16, torch.float32) if is_cuda else (torch.float32,):
        groups[f"attention kernel, {dtype}"] = partial(check_attention, device, dtype, seed=seed)
    groups["fp8 matrices"] = partial(check_matrices, device, "fp8", seed=seed)
    groups["int8 matrices"] = partial(check_matrices, device, "int8", seed=seed)
    groups["fp8 rows"] = partial(check_rows, device, seed=seed)
    formats: tuple[Weights, ...] = ("own", "fp8")
    shape = CHECKED[device.type]
    for weights in formats:
        name = f"decoding, {shape} {weights}"
        groups[name] = partial(check_decoding, name, shape, device, weights, seed)
    return groups


if __name__ == "__main__":
    sys.exit(main())
