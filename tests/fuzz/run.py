"""Many drawn edits, each applied and compared with the bytes that it should give: `python -m tests.fuzz.run`.

Every edit has a seed of its own, `SEED:NUMBER`; `--only SEED:NUMBER` draws it again and shows it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from apply_service.build import build_runtime
from apply_service.errors import ApplyError, ModelNotLoadable
from apply_service.pipeline import apply
from apply_service.settings import Settings
from apply_service.target import Runtime, Target
from apply_service.text.fidelity import decode, encode
from apply_service.types import DOUBT, ApplyRequest, Strategy
from tests.fuzz.edits import EXACT, Ambiguous, Edit, draw_edit
from tests.fuzz.files import draw_file, read_lines
from tests.seeds import draw_seed

BATCH = 50


@dataclass(frozen=True, slots=True)
class Found:
    """What became of one edit.  `outcome`: `exact`; `flagged`, an error or a doubt; `unseen`, other bytes, no word."""

    name: str
    """SEED:NUMBER"""
    format: str
    strategy: str
    outcome: str
    why: str = ""
    traits: tuple[str, ...] = ()
    file: str = ""


def no_model(name: str) -> Target:
    raise ModelNotLoadable("the fuzzer asks no model", value=name)


@cache
def open_runtime(model: str | None) -> Runtime:
    """With None, every edit that a program does not decide ends in an error."""
    return Runtime(load=no_model) if model is None else build_runtime(Settings(model=model))


def drawn(seed: int, number: int, formats: Sequence[str], *, asks_model: bool = False) -> tuple[Edit, Strategy, Path]:
    """Edit NUMBER of a run: draws until one has a single reading.  Without a model, lazy edits are for programs."""
    rng = random.Random(f"{seed}:{number}")
    format_name = formats[number % len(formats)]
    while True:
        file, other = draw_file(rng), draw_file(rng)
        lines, others = read_lines(file), read_lines(other)
        if lines is None or others is None:
            continue
        try:
            edit = draw_edit(rng, format_name, lines, others, f"src/{file.name}")
        except Ambiguous:
            continue
        if format_name == "lazy_snippet":
            return edit, "auto" if asks_model else "exact", file
        strategy: Strategy = "exact" if rng.random() < 0.5 else "auto"
        return edit, strategy, file


def judge(edit: Edit, strategy: Strategy, model: str | None = None) -> tuple[str, str]:
    """The outcome, and the error's or the doubt's words."""
    source = decode(edit.original)
    request = ApplyRequest(
        source.text, edit.update, path=edit.path, strategy=strategy, format=edit.named, encoding=source.encoding
    )
    try:
        result = apply(request, open_runtime(model))
    except ApplyError as error:
        return "flagged", f"{error.code}: {error.message}"
    if encode(result.merged_code, source) == edit.wanted:
        return "exact", ""
    told = next((v for v in result.verdicts if v.severity == "error" or (v.check == DOUBT and not v.is_pass)), None)
    if told is not None:
        return "flagged", f"{told.check}: {told.message}"
    return "unseen", f"read as {result.format}, by {result.strategy}, {result.certainty}, {result.confidence}"


def judge_batch(seed: int, numbers: Sequence[int], formats: Sequence[str], model: str | None) -> list[Found]:
    found = []
    for number in numbers:
        edit, strategy, file = drawn(seed, number, formats, asks_model=model is not None)
        try:
            outcome, why = judge(edit, strategy, model)
        except Exception as crash:
            outcome, why = "unseen", f"crash {type(crash).__name__}: {crash}"
        found.append(Found(f"{seed}:{number}", edit.format, strategy, outcome, why[:200], edit.traits, str(file)))
    return found


def run(
    seed: int, n_edits: int, formats: Sequence[str] = EXACT, *, n_workers: int = 1, model: str | None = None
) -> Iterator[Found]:
    """The outcomes, batch by batch."""
    batches = [range(at, min(at + BATCH, n_edits)) for at in range(0, n_edits, BATCH)]
    if n_workers == 1:
        for batch in batches:
            yield from judge_batch(seed, batch, formats, model)
        return
    with ProcessPoolExecutor(n_workers) as pool:
        for found in pool.map(partial(judge_batch, seed, formats=formats, model=model), batches):
            yield from found


def show(name: str, formats: Sequence[str], model: str | None) -> int:
    """One edit with its texts, and the lines where the answer differs from what is wanted."""
    seed, number = map(int, name.split(":"))
    edit, strategy, file = drawn(seed, number, formats, asks_model=model is not None)
    told = judge(edit, strategy, model)
    print(f"{file}, {edit.format}, {strategy}: {', '.join(edit.traits)}\n{edit.update!s}\n{told}")
    source = decode(edit.original)
    request = ApplyRequest(
        source.text, edit.update, path=edit.path, format=edit.named, strategy=strategy, encoding=source.encoding
    )
    try:
        rows = encode(apply(request, open_runtime(model)).merged_code, source).split(b"\n")
    except ApplyError as error:
        print(error)
        return 1
    wanted = edit.wanted.split(b"\n")
    at = next((k for k, (a, b) in enumerate(zip(rows, wanted, strict=False)) if a != b), min(len(rows), len(wanted)))
    print(f"{len(rows)} lines, wanted {len(wanted)}; from line {at + 1} on:")
    for k in range(max(0, at - 3), at + 6):
        print(f"  got    {rows[k] if k < len(rows) else None!r}\n  wanted {wanted[k] if k < len(wanted) else None!r}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    parser.add_argument("--edits", type=int, default=50_000)
    parser.add_argument("--formats", default=",".join(EXACT), help="comma separated; lazy_snippet is another one")
    parser.add_argument(
        "--model", help="decides what programs don't, such as `embedded`; lazy snippets are `auto` then"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, help="where the report goes: counts, and every edit that was not exact")
    parser.add_argument("--only", help="SEED:NUMBER of an edit to show")
    arguments = parser.parse_args()
    formats = arguments.formats.split(",")
    if arguments.only:
        return show(arguments.only, formats, arguments.model)
    began = time.monotonic()
    counts: Counter[tuple[str, str, str]] = Counter()
    others: list[Found] = []
    found_all = run(draw_seed(), arguments.edits, formats, n_workers=arguments.workers, model=arguments.model)
    for found in found_all:
        counts[found.format, found.strategy, found.outcome] += 1
        if found.outcome != "exact":
            others.append(found)
        if found.outcome == "unseen":
            print(
                f"unseen {found.name} {found.format} {found.strategy} {found.why} {found.traits} {found.file}",
                flush=True,
            )
    rows = sorted(counts.items())
    for (format_name, strategy, outcome), n in rows:
        print(f"{format_name:16} {strategy:6} {outcome:8} {n}")
    print(f"{arguments.edits} edits in {time.monotonic() - began:.0f} s")
    if arguments.out is not None:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        table = [{"format": f, "strategy": s, "outcome": o, "n": n} for (f, s, o), n in rows]
        listed = [{name: getattr(one, name) for name in Found.__slots__} for one in others]
        arguments.out.write_text(json.dumps({"counts": table, "not_exact": listed}, indent=1) + "\n")
    return 1 if any(found.outcome == "unseen" and found.format in EXACT for found in others) else 0


if __name__ == "__main__":
    sys.exit(main())
