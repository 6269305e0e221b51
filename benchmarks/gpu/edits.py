"""`make bench-gpu-prepare`: edits read and merged for `benchmarks.gpu` where the project is installed whole, so that a
machine with a GPU needs neither the merger nor the parsers.

    python -m benchmarks.gpu.edits [--data F.jsonl] [--updates G.jsonl] [--out runs/bench-gpu/cases.json.xz]

Drawn at random; most of them short enough that many are decoded together.  Nothing is left out for how its merge looks.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apply_eval.provenance import provenance
from apply_eval.replay import Replay
from apply_service.errors import FileNotReadable
from apply_service.protocols import EditJob, PromptFormat
from apply_service.target import SPARE_TOKENS
from apply_service.types import ApplyRequest, Certainty, LineOp, Prediction
from benchmarks.decoding.contenders import Case

SCHEMA_VERSION = 1
OUT = Path("runs/bench-gpu/cases.json.xz")
MAX_TOKENS, BATCH_MAX_TOKENS = 8_192, 2_048
"""Context that an edit may take alone, and in a batch."""


def read_prepared(folder: Path) -> dict[str, Any]:
    """The file in this folder: `edits` in the order drawn, their `provenance`, and its `digest`.

    Raises:
        FileNotReadable: it is not there, or not such a file.
    """
    path = folder / OUT.name
    try:
        raw = path.read_bytes()
        value: dict[str, Any] = json.loads(lzma.decompress(raw))
        if value["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"schema version {value['schema_version']}")
    except (OSError, ValueError, KeyError, lzma.LZMAError) as error:
        raise FileNotReadable(
            f"the prepared edits can't be read: {error}",
            value=str(path),
            remedy="make them where the project is installed whole: make bench-gpu-prepare",
        ) from error
    return value | {"digest": hashlib.sha256(raw).hexdigest()}


def case_of(edit: dict[str, Any], prompt_format: PromptFormat) -> Case:
    """A prepared edit as a target sees it.  A replay target is to write the right answer; any other decides."""
    ops = tuple(LineOp(*op) for op in edit["ops"])
    prediction = Prediction(ops, tuple(edit["update_lines"]), Certainty(edit["certainty"]))
    job = EditJob(edit["original"], edit["update"], "", edit["path"], edit["language"], prediction)
    request = ApplyRequest(original=job.original, update=job.update, path=job.path, strategy="model", constrain="none")
    answer = tuple(prompt_format.encode_output(edit["after"])) if isinstance(prompt_format, Replay) else None
    longest = len(prompt_format.encode_sources(job).predicted.ids) + SPARE_TOKENS if answer is None else len(answer)
    prompt = tuple(prompt_format.encode_prompt(job))
    return Case(edit["id"], request, job, edit["after"], prompt, answer, longest, reread=lambda: job)


def main(arguments: Sequence[str] | None = None) -> int:
    from apply_eval.datasets import chosen_records
    from apply_eval.mine import OWN_EDITS
    from benchmarks.decoding.cases import make_case

    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.edits", description=__doc__)
    parser.add_argument("--data", type=Path, default=OWN_EDITS, help="edits; default: this project's own")
    parser.add_argument("--updates", type=Path, help="other snippets for the same edits")
    parser.add_argument("--alone", type=int, default=16, help="edits of any length, for runs alone")
    parser.add_argument("--together", type=int, default=64, help="short edits, for batches; an edit may be of both")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    records, sources = chosen_records(options.data, updates=options.updates, split=None)
    random.Random(options.seed).shuffle(records)
    prompt_format = Replay()
    edits: list[dict[str, Any]] = []
    n_any, n_short = options.alone, options.together
    for record in records:
        case = make_case(record, prompt_format)
        is_short = case.n_needed <= BATCH_MAX_TOKENS
        if case.n_needed <= MAX_TOKENS and (n_any > 0 or (is_short and n_short > 0)):
            edits.append(_as_json(case))
            n_any, n_short = n_any - 1, n_short - is_short
    value = {"schema_version": SCHEMA_VERSION, "provenance": provenance(sources, seed=options.seed), "edits": edits}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(lzma.compress(json.dumps(value, ensure_ascii=False).encode()))
    print(f"{options.out}: {len(edits)} edits, {options.out.stat().st_size:,} bytes")
    return 0


def _as_json(case: Case) -> dict[str, Any]:
    """`merge_s`: what reading and merging took here."""
    started_s = time.perf_counter()
    job = case.reread()
    merge_s = time.perf_counter() - started_s
    return {
        "id": case.id,
        **{name: getattr(job, name) for name in ("original", "update", "path", "language")},
        "after": case.after,
        "merge_s": round(merge_s, 6),
        "ops": [list(op) for op in job.prediction.ops],
        "update_lines": list(job.prediction.update_lines),
        "certainty": job.prediction.certainty.value,
    }


if __name__ == "__main__":
    raise SystemExit(main())
