"""`make bench-gpu`: correctness, then speed at real shapes beside the roofline, in pieces that resume (docs/gpu.md).

    python -m benchmarks.bench_gpu [--shapes 7b,70b-fp8,1.5b,32b] [--pieces NAME,...] [--budget-s 540]

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
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from apply_eval.provenance import hardware, provenance, safe_path
from apply_service.engine.loading import pick_device
from apply_service.errors import ApplyError
from benchmarks.bench_gpu_cases import Prepared
from benchmarks.bench_gpu_checks import run_checks
from benchmarks.bench_gpu_measure import measure_piece
from benchmarks.bench_gpu_pieces import CHECKS, Piece, PieceFiles, choose_pieces, failure_of, plan_pieces
from benchmarks.bench_gpu_tables import render
from benchmarks.bench_gpu_target import CONTENDERS

SCHEMA_VERSION = 1
DEFAULT_OUT = Path("runs/bench-gpu")
SHAPES = {"cuda": "7b,70b-fp8,1.5b,32b", "cpu": "tiny-10m,tiny-10m-fp8"}
CHECKED = {"cuda": "qwen2.5-coder-1.5b", "cpu": "tiny-2m"}
LEAST_PIECE_S = 45.0
"""With less than this left no piece is begun: a shape has to be made, and its self-test run."""
CHECKS_S = 300.0
"""At most for the checks of one call, or half of its budget: they are there to help the rest."""
RUN_OPTIONS = (
    *("shapes", "batches", "contenders", "limit", "max_tokens", "batch_max_tokens", "groups", "peer_limit"),
    *("plain_tokens", "peer_tokens", "attention", "cuda_graphs", "seed"),
)
"""What results depend on."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    try:
        return run_one(options) if options.one_piece else run_all(options)
    except ApplyError as error:
        sys.exit(f"{error.code}: {error.message} ({error.value}); {error.remedy}")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_gpu", description=__doc__)
    parser.add_argument("--shapes", help=f"the most important first; default: {SHAPES['cuda']}, on a CPU tiny ones")
    parser.add_argument("--batches", default="1,8,32,64", help="edits decoded together")
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    parser.add_argument("--pieces", help="these alone, in this order; default: all, the most important first")
    parser.add_argument("--list", action="store_true", help="name the pieces and what is done of each")
    parser.add_argument("--budget-s", type=float, default=540.0, help="seconds that this call may take")
    parser.add_argument("--cases", type=Path, help="the prepared edits; default: cases.json.xz in the folder of --out")
    parser.add_argument("--limit", type=int, default=12, help="edits alone")
    parser.add_argument("--peer-limit", type=int, default=4, help="edits alone that the library decodes as well")
    parser.add_argument("--max-tokens", type=int, default=8_192, help="context that an edit alone may take")
    parser.add_argument("--batch-max-tokens", type=int, default=2_048, help="context that an edit in a batch may take")
    parser.add_argument("--groups", type=int, default=2, help="times that each batch size is run")
    parser.add_argument("--plain-tokens", type=int, default=128, help="tokens of undrafted runs alone")
    parser.add_argument("--peer-tokens", type=int, default=32, help="tokens of the library's runs in batches")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--attention", default="auto", choices=("auto", "sdpa", "triton"))
    parser.add_argument("--cuda-graphs", default="auto", choices=("auto", "on", "off"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="forget what the folder holds of these pieces")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--one-piece", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.arguments = list(sys.argv[1:] if arguments is None else arguments)
    options.where = pick_device(options.device)
    options.shapes = options.shapes or SHAPES["cuda" if options.where.type == "cuda" else "cpu"]
    options.cases = options.cases or options.out / "cases.json.xz"
    return options


# -- all pieces --------------------------------------------------------------------------------------------------------
def run_all(options: argparse.Namespace) -> int:
    """Pieces until the budget is spent, each in a process of its own; then the tables of all that there is.  1 where a
    check failed or a piece broke."""
    started_s = time.monotonic()
    planned = plan_pieces(options.shapes.split(","), list(map(int, options.batches.split(","))))
    files = open_files(options)
    if options.fresh:
        files.clear(planned)
    pieces = choose_pieces(planned, options.pieces)
    if options.list:
        for piece in pieces:
            found = files.read(piece.name)
            n_samples = f"{len(found['samples'])} samples"
            print(f"{piece.name}: {'done' if found['is_complete'] else n_samples}")
        return 0
    broken = [piece.name for piece in pieces if not _run_in_processes(piece, options, files, started_s)]
    value = files.write_combined(head_of(options), planned)
    print(render(value))
    todo = [piece.name for piece in planned if not files.read(piece.name)["is_complete"]]
    print(f"to do: {', '.join(todo)}; run the same command again" if todo else "all pieces are done")
    return 1 if broken or _has_failed(value) else 0


def _run_in_processes(piece: Piece, options: argparse.Namespace, files: PieceFiles, started_s: float) -> bool:
    """Whether it did not break; a piece that is done, or for which no time is left, is not begun.  Checks that broke
    their process go on in another, as long as each gets further."""
    is_whole = True
    most_s = max(CHECKS_S, options.budget_s / 2) if piece.name == CHECKS else options.budget_s
    end_s = min(started_s + options.budget_s, time.monotonic() + most_s)
    while not (before := files.read(piece.name))["is_complete"] and end_s - time.monotonic() >= LEAST_PIECE_S:
        is_whole = _run_in_process(piece, options, end_s - time.monotonic())
        if is_whole or piece.name != CHECKS or files.read(piece.name) == before:
            break
    return is_whole


def _run_in_process(piece: Piece, options: argparse.Namespace, left_s: float) -> bool:
    """Whether it did not break; one that is stopped at its end is not broken."""
    given = [argument for argument in options.arguments if argument != "--fresh"]
    command = [sys.executable, "-m", "benchmarks.bench_gpu", *given]
    command += ["--one-piece", piece.name, "--budget-s", f"{left_s:.0f}"]
    try:
        done = subprocess.run(command, check=False, timeout=left_s)
    except subprocess.TimeoutExpired:
        print(f"{piece.name}: stopped at the end of its time", file=sys.stderr)
        return True
    return done.returncode == 0


def open_files(options: argparse.Namespace) -> PieceFiles:
    """The folder of results; a run is known by its options, its edits and its device."""
    run_id = {name: getattr(options, name) for name in RUN_OPTIONS}
    run_id |= {"cases": Prepared.read(options.cases).digest, "device": device_name(options.where)}
    return PieceFiles(options.out, run_id)


def head_of(options: argparse.Namespace) -> dict[str, Any]:
    """What stands over all pieces: machine, versions, command, where the edits come from."""
    prepared = Prepared.read(options.cases)
    is_cuda = options.where.type == "cuda"
    return {
        "kind": "bench-gpu",
        "schema_version": SCHEMA_VERSION,
        "provenance": provenance([], seed=options.seed),
        "edits": {"provenance": prepared.provenance, "digest": prepared.digest, "n": len(prepared.edits)},
        "merge_s": [edit.merge_s for edit in prepared.edits],
        "device": {
            "kind": options.where.type,
            "name": device_name(options.where),
            "is_gpu": is_cuda,
            "memory": torch.cuda.get_device_properties(options.where).total_memory if is_cuda else None,
            "cuda": torch.version.cuda if is_cuda else None,
            "threads": torch.get_num_threads(),
            "load_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        },
        "options": {
            name: safe_path(str(v)) if isinstance(v, Path) else v
            for name, v in vars(options).items()
            if name in RUN_OPTIONS
        },
    }


def device_name(where: torch.device) -> str:
    """As its maker calls it."""
    if where.type == "cuda":
        return torch.cuda.get_device_name(where)
    return str(hardware()["cpu"] or platform.machine())


def _has_failed(value: Mapping[str, Any]) -> bool:
    failed = (check["is_ok"] is False for piece in value["pieces"] for check in piece.get("checks", ()))
    return any(failed) or any(piece.get("failures") for piece in value["pieces"])


# -- one piece ---------------------------------------------------------------------------------------------------------
def run_one(options: argparse.Namespace) -> int:
    """Go on with one piece, for at most the budget."""
    stop_s = time.monotonic() + options.budget_s
    planned = plan_pieces(options.shapes.split(","), list(map(int, options.batches.split(","))))
    (piece,) = choose_pieces(planned, options.one_piece)
    files = open_files(options)
    found = files.read(piece.name)
    try:
        found["is_complete"] = _go_on(piece, options, files, found, stop_s)
    except Exception as error:
        found["failures"].append(failure_of(error, piece.name))
        raise
    finally:
        files.write(piece.name, found)
    return 0


def _go_on(piece: Piece, options: argparse.Namespace, files: PieceFiles, found: dict[str, Any], stop_s: float) -> bool:
    """Whether the piece is done."""
    if piece.name != CHECKS:
        return measure_piece(piece, options, files, found, stop_s, name=device_name(options.where), log=log)
    shape = CHECKED["cuda" if options.where.type == "cuda" else "cpu"]
    return run_checks(
        options.where, shape, found, stop_s, seed=options.seed, save=lambda: files.write(piece.name, found), log=log
    )


def log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
