"""`python -m training.ablations`: what each choice of the recipe is worth, by leaving it out of a short run.

Every variant trains for the same number of updates from the same seed on the same edits and is scored on the same
held-out cases at the same updates; what a variant learns in the long run this cannot tell.  A variant that is in the
file of results already is not run again, so a stopped command goes on.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from apply_eval.provenance import provenance
from apply_service.prompts.compact import Compact
from training.batches import Place, StreamOptions, generate
from training.corpus import read_edits, split_by_repository
from training.evaluate import EvalCase, score_cases, validation_cases
from training.samples import SampleMix
from training.train import MODEL_DIR, SHORT, SHORT_MIX, Trainer, TrainOptions

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results" / "ablations.json"


@dataclass(frozen=True, slots=True)
class Variant:
    """What differs from `base`, and in words."""

    says: str
    mix: SampleMix = SHORT_MIX
    options: Mapping[str, Any] = field(default_factory=dict)


VARIANTS: Mapping[str, Variant] = {
    "base": Variant("the recipe"),
    "random-start": Variant("initialisation: random, no circuits", options={"circuits": False}),
    "never-hinted": Variant("format: no prompt has hints", replace(SHORT_MIX, no_hints=1.0, spoilt_hints=0.0)),
    "always-hinted": Variant("format: every prompt has hints", replace(SHORT_MIX, no_hints=0.0)),
    "flat-loss": Variant(
        "loss: every token weighs the same",
        replace(SHORT_MIX, text_weight=1.0, plain_weight=1.0, contested_weight=1.0),
    ),
    "never-spoilt": Variant("data: no hints spoilt on purpose", replace(SHORT_MIX, spoilt_hints=0.0)),
    "clean-styles": Variant("data: snippets in clean styles alone", replace(SHORT_MIX, clean_style=1.0)),
    "never-permuted": Variant(
        "data: vocabulary never permuted, no gaps", replace(SHORT_MIX, permuted=0.0, position_gaps=0.0)
    ),
    "3-layers": Variant("size: 3 layers in the place of 5", options={"n_layers": 3}),
    "7-layers": Variant("size: 7 layers in the place of 5", options={"n_layers": 7}),
}


def run_variant(
    variant: Variant, stream: StreamOptions, cases: Sequence[EvalCase], compact: Compact, *, steps: int, scores: int
) -> list[dict[str, Any]]:
    """The curve of one variant: a score before the first update and after each of `scores` equal parts."""
    with tempfile.TemporaryDirectory() as folder:
        options = TrainOptions(run_dir=Path(folder), minutes=0, steps=steps, lr=SHORT["lr"], **variant.options)
        trainer = Trainer(options, compact)
    curve = [{"step": 0, "tokens": 0, **score_cases(trainer.network, cases).as_dict()}]
    losses: list[float] = []
    for batch in islice(generate(replace(stream, mix=variant.mix), Place()), steps):
        losses.append(trainer.step(batch))
        if trainer.progress.step % max(1, steps // scores) == 0:
            figures = score_cases(trainer.network, cases).as_dict()
            loss = round(sum(losses) / len(losses), 4)
            curve.append({"step": trainer.progress.step, "tokens": trainer.progress.tokens, "loss": loss, **figures})
            losses = []
    return curve


def main() -> None:
    parser = argparse.ArgumentParser(description="short runs, each without one choice of the recipe")
    parser.add_argument("--data", type=Path, default=Path(), help="as for training.train")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--scores", type=int, default=4, help="points of a curve after its start")
    parser.add_argument("--cases", type=int, default=90, help="held-out cases, a third each kind of hints")
    parser.add_argument("--variants", type=lambda text: text.split(","), default=list(VARIANTS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    compact = Compact.from_directory(MODEL_DIR)
    stream = StreamOptions(arguments.data, MODEL_DIR, batch_tokens=4096, last_lines=60, curriculum_samples=1500)
    held_out = split_by_repository(read_edits(arguments.data))[1]
    cases = validation_cases(held_out, compact, n_cases=arguments.cases, seed=1)
    result = begun(arguments.out, steps=arguments.steps, n_cases=len(cases))
    files = [arguments.data] if arguments.data.is_file() else []
    for name in arguments.variants:
        if name not in result["variants"]:
            curve = run_variant(VARIANTS[name], stream, cases, compact, steps=arguments.steps, scores=arguments.scores)
            result["variants"][name] = {"says": VARIANTS[name].says, "curve": curve}
            result["provenance"] = provenance(files)
            arguments.out.write_text(json.dumps(result) + "\n", encoding="utf-8")
            print(name, json.dumps(curve[-1]), flush=True)


def begun(path: Path, **plan: int) -> dict[str, Any]:
    """The results so far; of another plan none."""
    empty = {"kind": "ablations", "schema_version": 1, **plan, "variants": {}}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else empty
    return found if all(found.get(name) == value for name, value in plan.items()) else empty


if __name__ == "__main__":
    main()
