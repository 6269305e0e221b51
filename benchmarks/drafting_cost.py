"""What drafting costs: microseconds of processor time a drafted token, on one large file with eight changes.

    python -m benchmarks.drafting_cost [--tokens 10000] [--runs 5] [--out FILE.json]

The file is this project's own code, cut to the size; the target is ideal (it writes the true file), so that nothing but
the drafters is timed.  `right` and `wrong` say what the predicted merge is: all changes as the target writes them, or
four of them missing and four at another indentation.  The best of the runs counts, set-up included (indices over the
sources, the automaton over the prompt).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apply_eval.provenance import provenance
from apply_service.drafting.chain import open_drafter
from apply_service.drafting.lookup import SuffixAutomaton
from apply_service.engine.loading import embedded_directory
from apply_service.prompts.sources import text_sources
from apply_service.prompts.tokenizer import ContentTokenizer
from apply_service.protocols import DraftContext, EditJob
from apply_service.types import Certainty, LineOp, Prediction
from benchmarks.drafting_simulation import Run, drive

PACKAGE = Path(__file__).parent.parent / "apply_service"
COPY = ("merged_edit", "original_snippet", "original")
NOVEL = ("suffix", "prompt_lookup", "merged_edit+suffix", "merged_edit+prompt_lookup")
N_CHANGES = 8
END = 1 << 20
LIMIT_US = 2.0
"""Most that a drafted token of a copy drafter may cost."""


def main() -> int:
    options = _parse()
    tokenizer = ContentTokenizer.from_directory(embedded_directory())
    lines = read_lines(tokenizer, options.tokens)
    result: dict[str, Any] = {"kind": "drafting_cost", "schema_version": 1, "limit_us": LIMIT_US}
    result["provenance"] = provenance([])
    result["rows"] = [
        row
        for is_right in (True, False)
        for name in (*COPY, *NOVEL)
        for row in [_measure(tokenizer, lines, name, is_right=is_right, runs=options.runs)]
    ]
    result["worst_copy_us"] = max(row["us_per_drafted_token"] for row in result["rows"] if row["drafter"] in COPY)
    result["automaton_us_per_token"] = _automaton_us(tokenizer.encode("\n".join(lines)).ids, options.runs)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: value for name, value in result.items() if name != "provenance"}, indent=1))
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def read_lines(tokenizer: ContentTokenizer, n_tokens: int) -> list[str]:
    """Lines of this project's code, as many as have so many tokens."""
    lines: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        lines += path.read_text(encoding="utf-8").split("\n")
        encoded = tokenizer.encode("\n".join(lines))
        if len(encoded.ids) >= n_tokens:
            return "\n".join(lines)[: int(encoded.starts[n_tokens])].split("\n")
    sys.exit(f"this project's code has fewer than {n_tokens} tokens")


def edit_job(lines: Sequence[str], *, is_right: bool) -> tuple[EditJob, str]:
    """Eight blocks of new lines, and the true file.  The snippet shows each between its neighbours."""
    ops: list[LineOp] = []
    truth: list[str] = []
    update: list[str] = []
    every = len(lines) // (N_CHANGES + 1)
    for number, line in enumerate(lines):
        ops.append(LineOp("keep", number, None, line))
        truth.append(line)
        if number % every == every - 1 and number // every < N_CHANGES:
            block = _block(number)
            truth += block
            predicted = block if is_right else [] if number // every % 2 else ["    " + text for text in block]
            ops += [LineOp("take", None, len(update) + 2 + i, text) for i, text in enumerate(predicted)]
            update += ["# ... existing code ...", line, *(predicted or block), lines[number + 1]]
    prediction = Prediction(tuple(ops), (*update, "# ... existing code ..."), Certainty.LIKELY)
    job = EditJob("\n".join(lines), "\n".join(prediction.update_lines), "", None, "python", prediction)
    return job, "\n".join(truth)


def _block(number: int) -> list[str]:
    return [f"if is_needed_{number}:", f"    total_{number} = compute(first={number})", f"    report(total_{number})"]


def _measure(
    tokenizer: ContentTokenizer, lines: Sequence[str], name: str, *, is_right: bool, runs: int
) -> dict[str, Any]:
    job, truth = edit_job(lines, is_right=is_right)
    sources = text_sources(job, tokenizer, before="", after="", end_id=END)
    prompt_ids = tokenizer.encode(job.original + "\n" + job.update + "\n").ids
    answer = [*tokenizer.encode(truth).ids, END]
    context = DraftContext(sources, prompt_ids, max_new_tokens=len(answer) + 64)
    best = min((drive(lambda: open_drafter(name, context), answer) for _ in range(runs)), key=lambda run: run.draft_s)
    return {"drafter": name, "merge": "right" if is_right else "wrong", **_row(best)}


def _row(run: Run) -> dict[str, Any]:
    after_rejection = [later.seconds for one, later in zip(run.passes, run.passes[1:], strict=False) if one.is_rejected]
    return {
        "n_tokens": run.n_tokens,
        "passes": len(run.passes),
        "rejections": run.n_rejections,
        "drafted_tokens": run.n_drafted,
        "set_up_ms": round(run.set_up_s * 1e3, 3),
        "us_per_drafted_token": round(run.draft_s / max(1, run.n_drafted) * 1e6, 3),
        "us_per_token": round(run.draft_s / run.n_tokens * 1e6, 3),
        "us_per_realignment": round(statistics.median(after_rejection) * 1e6, 1) if after_rejection else None,
    }


def _automaton_us(ids: Sequence[int], runs: int) -> float:
    """Microseconds to append one token."""
    best = min(_automaton_s(ids) for _ in range(runs))
    return round(best / len(ids) * 1e6, 3)


def _automaton_s(ids: Sequence[int]) -> float:
    import time

    started = time.thread_time()
    SuffixAutomaton().extend(ids)
    return time.thread_time() - started


if __name__ == "__main__":
    sys.exit(main())
