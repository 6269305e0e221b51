"""The main job on a shipped example, offline, with the embedded model: diff, verdicts, and the speed over `plain`
measured in this same run.  `make demo` runs it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import cast

from rich.console import Console
from rich.syntax import Syntax

from apply_service.build import build_runtime
from apply_service.engine.torch_local import TorchEngine
from apply_service.pipeline import apply, read_edit
from apply_service.runtime import Runtime
from apply_service.settings import Settings
from apply_service.target import in_process, open_decoding
from apply_service.types import ApplyRequest, ApplyResult
from benchmarks.plain import Plain, measure_plain

EXAMPLE = Path(__file__).parent / "example"


def main() -> int:
    console = Console()
    request = ApplyRequest(
        original=(EXAMPLE / "cart.py").read_text(encoding="utf-8"),
        update=(EXAMPLE / "update.txt").read_text(encoding="utf-8"),
        path="cart.py",
        diff=True,
    )
    runtime = build_runtime(Settings())
    apply(request, runtime)  # warm-up: loads the model
    result = apply(request, runtime)
    console.print(Syntax(result.diff or "", "diff", background_color="default"))
    for verdict in result.verdicts:
        style = {"pass": "green", "warning": "yellow", "error": "red"}[verdict.severity]
        console.print(f"  {verdict.check}: {verdict.severity} {verdict.message}", style=style)
    is_exact = result.merged_code == (EXAMPLE / "merged.py").read_text(encoding="utf-8")
    console.print(f"  decided by: {result.strategy}; merged file as expected: {'yes' if is_exact else 'NO'}")
    written = apply(replace(request, strategy="model"), runtime)  # a merge that is only scored accepts no draft
    console.print(speed_line(written, _plain(request, runtime)), style="bold", soft_wrap=True)
    return 0 if is_exact and all(verdict.severity != "error" for verdict in result.verdicts) else 1


def _plain(request: ApplyRequest, runtime: Runtime) -> Plain:
    target = in_process(runtime.load(runtime.models[0]))
    job = read_edit(request, "python")[1]
    decoding = open_decoding(job, request, target, request.drafter or runtime.default_drafter)
    return measure_plain(cast(TorchEngine, target.engine), list(decoding.prompt_ids), 256)


def speed_line(result: ApplyResult, plain: Plain) -> str:
    stats = result.stats
    return (
        f"\ntoken by token: {stats.completion_tokens} tokens in {stats.passes} passes, "
        f"{stats.acceptance_rate:.1%} of drafts accepted, "
        f"{stats.tokens_per_s:,.0f} tok/s: {stats.tokens_per_s / plain.tok_s:.1f}x plain ({plain.tok_s:,.0f} tok/s, "
        f"{plain.winner}); {len(result.merged_code):,} characters in {result.timings_s['total_s']:.2f} s in all"
    )


if __name__ == "__main__":
    sys.exit(main())
