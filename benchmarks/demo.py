"""The main job on a shipped example, offline, with the embedded model: diff, verdicts, and the speed over `plain`
measured in this same run.  `make demo` runs it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from apply_eval.datasets import EditRecord, measure_edit
from apply_service.build import build_runtime
from apply_service.pipeline import apply
from apply_service.settings import Settings
from apply_service.target import Runtime, in_process
from apply_service.types import ApplyRequest
from benchmarks.decoding.cases import make_case
from benchmarks.decoding.contenders import open_contender, take_turns, undrafted_cap
from benchmarks.decoding.samples import PLAIN_ENGINE, PLAIN_PEER, Sample
from benchmarks.report import label

EXAMPLE = Path(__file__).parent / "example"
PLAIN_TOKENS = 256


def main() -> int:
    before, update, after = ((EXAMPLE / name).read_text("utf-8") for name in ("cart.py", "update.txt", "merged.py"))
    request = ApplyRequest(original=before, update=update, path="cart.py", diff=True)
    runtime = build_runtime(Settings())
    apply(request, runtime)  # warm-up: loads the model
    result = apply(request, runtime)
    print(result.diff or "")
    for verdict in result.verdicts:
        print(f"  {verdict.check}: {verdict.severity} {verdict.message}")
    is_exact = result.merged_code == after
    print(f"  decided by: {result.strategy}; merged file as expected: {'yes' if is_exact else 'NO'}")
    record = EditRecord("demo", before, after, measure_edit(before, after), update=update, path="cart.py")
    ours, *undrafted = measure(record, runtime)
    plain = max(undrafted, key=lambda sample: sample.tok_s)
    accepted, ratio = ours.accepted / ours.drafted, ours.tok_s / plain.tok_s
    print(
        f"\nthe same edit by the model, token by token: {ours.n_tokens} tokens in {ours.passes} passes, {accepted:.1%} "
        f"of drafts accepted, {ours.tok_s:,.0f} tok/s: {ratio:.1f}x plain ({plain.tok_s:,.0f} tok/s, "
        f"{label(plain.contender)}); {ours.n_chars:,} characters in {ours.end_to_end_s:.2f} s with the prompt's reading"
    )
    return 0 if is_exact and all(verdict.severity != "error" for verdict in result.verdicts) else 1


def measure(record: EditRecord, runtime: Runtime) -> list[Sample]:
    """The edit decided token by token: with drafts, and undrafted in two ways that write the same beginning."""
    target = in_process(runtime.load(runtime.models[0]))
    case = make_case(record, target.prompt_format, "sources")
    case = replace(case, answer_ids=tuple(target.prompt_format.encode_sources(case.job).predicted.ids))
    names = (runtime.default_drafter, PLAIN_ENGINE, PLAIN_PEER)
    contenders = [open_contender(name, target, target.engine) for name in names]
    return list(take_turns(contenders, {"demo": [case]}, cap=undrafted_cap(PLAIN_TOKENS)))


if __name__ == "__main__":
    sys.exit(main())
