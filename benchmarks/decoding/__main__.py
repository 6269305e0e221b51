"""Every drafter and every peer on the same target, in one run: `make bench`, docs/performance.md.

    python -m benchmarks.decoding [--targets replay:tiny-10m,embedded] [--data F.jsonl] [--updates G.jsonl] [--quick]

Contenders take turns on each edit, in an order that rotates, after a warm-up.  `plain` is the faster of the undrafted
runs.  Windows are off, and so is the copy constraint unless asked for.  Undrafted runs stop after `--plain-tokens`
tokens: their speed hardly changes along an output, and falls if at all, so this is in their favour; in batches they go
on to the end, where few edits are left for all alike.  In batches all prompts are read before the first token is
written, and decoding alone is timed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from apply_eval.datasets import chosen_records
from apply_eval.mine import OWN_EDITS
from apply_eval.provenance import provenance, safe_path
from apply_eval.target import open_any
from apply_service.drafting.drafter import check_drafter
from apply_service.engine.torch_local import TorchEngine
from apply_service.settings import Settings
from apply_service.target import Target
from benchmarks.decoding.cases import make_cases
from benchmarks.decoding.contenders import (
    LOOKUP_TOKENS,
    describe,
    describe_device,
    expect,
    groups_of,
    open_contender,
    take_turns,
    undrafted_cap,
)
from benchmarks.decoding.samples import PLAIN_ENGINE, Sample, summarise
from benchmarks.decoding.tables import render
from benchmarks.report import told_errors, write_result

DEFAULT_OUT = Path("runs/bench/bench.json")
OURS = ("prompt_lookup", "suffix", "original", "original_snippet", "merged_edit", "merged_edit+suffix")
CONTENDERS = (PLAIN_ENGINE, *LOOKUP_TOKENS, *OURS)
QUICK = {"targets": "replay:tiny-2m", "limit": 2, "max_tokens": 1_600, "batches": "1,2", "groups": 1}
QUICK |= {"plain_tokens": 24, "kv_cache_mb": 64}
"""A run of seconds that says nothing about speed: that everything works."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    with told_errors():
        result = run(options, log=lambda line: print(line, file=sys.stderr, flush=True))
    write_result(options.out, result)
    print(render(result))
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decoding", description=__doc__)
    parser.add_argument("--targets", default="replay:tiny-10m", help="models, separated by commas")
    parser.add_argument("--contenders", default=",".join(CONTENDERS), help="of these, separated by commas")
    parser.add_argument("--data", type=Path, default=OWN_EDITS, help="edits; default: this project's own")
    parser.add_argument("--updates", type=Path, help="other snippets for the same edits")
    parser.add_argument("--limit", type=int, default=12, help="edits drawn at random")
    parser.add_argument("--max-tokens", type=int, default=8_192, help="context that an edit may take")
    parser.add_argument("--batches", default="1,8,32,64", help="edits decoded together")
    parser.add_argument("--groups", type=int, default=3, help="times that each batch size is run")
    parser.add_argument("--plain-tokens", type=int, default=256, help="tokens of undrafted runs alone; 0: all")
    parser.add_argument("--batch-max-tokens", type=int, default=2_048, help="context that an edit in a batch may take")
    parser.add_argument(
        "--constrain", choices=("none", "sources"), default="none", help="`sources`: ours alone, as the peers have none"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--kv-cache-mb", type=int, default=4_096, help="memory for keys and values")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a run of seconds, to see that it works")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    if "--quick" in (sys.argv[1:] if arguments is None else arguments):
        parser.set_defaults(**QUICK)
    options = parser.parse_args(arguments)
    if options.constrain == "sources":
        options.contenders = ",".join(name for name in options.contenders.split(",") if name not in LOOKUP_TOKENS)
    return options


def run(options: argparse.Namespace, *, log: Callable[[str], None]) -> dict[str, Any]:
    """The whole run as it stands in the results' file; stopped by Ctrl-C, what was measured until then.

    Raises:
        ApplyError: a target can't be loaded, or no edit fits.
    """
    device = describe_device(options.device)
    samples: list[Sample] = []
    targets: list[dict[str, Any]] = []
    is_complete = True
    try:
        for sample in measure(options, targets):
            log(f"{sample.target} batch {sample.batch} {sample.group} {sample.contender}: {sample.tok_s:,.0f} tok/s")
            samples.append(sample)
    except KeyboardInterrupt:
        is_complete = False
    data = [options.data] + ([options.updates] if options.updates else [])
    return {
        "kind": "bench",
        "schema_version": 1,
        "is_complete": is_complete,
        "provenance": provenance(data, seed=options.seed),
        "device": device | {"threads": torch.get_num_threads()},
        "constrain": options.constrain,
        "options": {
            name: safe_path(str(v)) if isinstance(v, Path) else v for name, v in vars(options).items() if name != "out"
        },
        "targets": targets,
        "summary": summarise(samples),
        "samples": [sample.as_json() for sample in samples],
    }


def measure(options: argparse.Namespace, targets: list[dict[str, Any]]) -> Iterator[Sample]:
    """The samples of every target in turn, alone and then in batches; appends a target's description to `targets` when
    it is loaded."""
    records, _ = chosen_records(options.data, updates=options.updates, split=None)
    names = options.contenders.split(",")
    for name in names:
        if name not in (PLAIN_ENGINE, *LOOKUP_TOKENS):
            check_drafter(name, has_draft_model=False)
    for model in options.targets.split(","):
        target = load(model, options)
        engine = target.engine
        assert isinstance(engine, TorchEngine)
        given = {"limit": options.limit, "seed": options.seed, "constrain": options.constrain}
        draw = partial(make_cases, records, target.prompt_format, **given)
        cases, n_too_long = draw(max_tokens=min(options.max_tokens, engine.context_limit))
        small, _ = draw(max_tokens=min(options.batch_max_tokens, engine.context_limit))
        targets.append(describe(target.name, engine, cases) | {"n_too_long": n_too_long})
        expect(engine, [*cases, *small])
        contenders = [open_contender(name, target, engine) for name in names]
        for batch in sorted(map(int, options.batches.split(","))):
            groups = groups_of(cases if batch == 1 else small, batch, options.groups)
            cap = undrafted_cap(options.plain_tokens if batch == 1 else 0)
            yield from take_turns(contenders, groups, cap=cap)


def load(name: str, options: argparse.Namespace) -> Target:
    """A target whose passes are measured now, not what an earlier start found.  The prefix cache spares batches the
    reading of prompts seen before.

    Raises:
        ModelError, UnknownModel: the model can't be used.
    """
    settings = Settings(
        engine="torch",
        device=options.device,
        kv_cache_mb=options.kv_cache_mb,
        prefix_cache_mb=options.kv_cache_mb // 4,
    )
    with TemporaryDirectory() as folder:
        return open_any(name, replace(settings, state_dir=folder))


if __name__ == "__main__":
    sys.exit(main())
