"""`make bench-gpu-prepare`: edits read and merged for `benchmarks.bench_gpu`, where the project is installed whole.

    python -m benchmarks.bench_gpu_prepare [--data F.jsonl] [--updates G.jsonl] [--out runs/bench-gpu/cases.json.xz]

Drawn at random; most of them short enough that many are decoded together.  Nothing is left out for how its merge looks.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from apply_eval.datasets import EditRecord
from apply_eval.provenance import provenance
from apply_service.engine.replay_shapes import replay_directory
from apply_service.prompts.replay import Replay
from benchmarks.bench_cases import OWN_EDITS, make_case, read_edits
from benchmarks.bench_gpu_cases import Prepared, PreparedEdit

OUT = Path("runs/bench-gpu/cases.json.xz")


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    records = read_edits(options.data, options.updates)
    random.Random(options.seed).shuffle(records)
    edits = draw(records, options)
    sources = [options.data] + ([options.updates] if options.updates else [])
    Prepared(tuple(edits), provenance(sources, seed=options.seed)).write(options.out)
    print(f"{options.out}: {len(edits)} edits, {options.out.stat().st_size:,} bytes")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_gpu_prepare", description=__doc__)
    parser.add_argument("--data", type=Path, default=OWN_EDITS, help="edits; default: this project's own")
    parser.add_argument("--updates", type=Path, help="other snippets for the same edits")
    parser.add_argument("--alone", type=int, default=16, help="edits of any length, for runs alone")
    parser.add_argument("--together", type=int, default=64, help="short edits, for batches")
    parser.add_argument("--max-tokens", type=int, default=8_192, help="context that an edit may take")
    parser.add_argument("--batch-max-tokens", type=int, default=2_048, help="context that a short edit may take")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args(arguments)


def draw(records: Sequence[EditRecord], options: argparse.Namespace) -> list[PreparedEdit]:
    """The first records that fit, `alone` of any length and `together` short ones; an edit may be of both."""
    n_any, n_short = options.alone, options.together
    found: list[PreparedEdit] = []
    for edit, n_tokens in _prepared(records):
        is_short = n_tokens <= options.batch_max_tokens
        if n_tokens <= options.max_tokens and (n_any > 0 or (is_short and n_short > 0)):
            found.append(edit)
            n_any, n_short = n_any - 1, n_short - is_short
        if n_any <= 0 and n_short <= 0:
            break
    return found


def _prepared(records: Sequence[EditRecord]) -> Iterator[tuple[PreparedEdit, int]]:
    """Each edit and the tokens that it takes."""
    prompt_format = Replay.from_directory(replay_directory())
    for record in records:
        case = make_case(record, prompt_format)
        started_s = time.perf_counter()
        case.reread()
        merge_s = time.perf_counter() - started_s
        yield PreparedEdit(record.id, case.job, case.after, merge_s), case.n_needed


if __name__ == "__main__":
    raise SystemExit(main())
