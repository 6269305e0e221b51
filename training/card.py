"""The model card: what the weights are, where they come from, what they can and cannot do.

Facts come from the checkpoint and the run's log of scores; the table of results on evaluation sets is handed in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from training.checkpoint import Progress
from training.corpus import Edit
from training.model import Network

CARD = """---
license: apache-2.0
library_name: transformers
tags: [code, code-edit, apply]
---
# The embedded model of apply-service

A {size:.1f}M-parameter Llama ({layers} layers, width {width}, {heads} heads, {vocabulary} tokens, context {context})
that decides how an edit is merged into a file. It reads an annotated listing of the original and of the
edit, in which every line carries a tag with what the deterministic merger would do, and writes for each line an
operation (keep, both, drop, take) and the line. It was trained from scratch by this project for this one task and
knows nothing else: no instructions, no chat, no code of its own.

## How it came to be
- **Initialisation** (`training/initialisation.py`): attention heads are written by hand as a copying machine that
  carries out the hints in the prompt. That machine alone, without any training, already decides most edits; it is the
  control below.
- **Training**: {steps} updates, {tokens:.1f}M tokens, {minutes:.0f} minutes on {hardware},
  bfloat16 autocast; Muon and AdamW; curriculum of real edits from 14 lines up. Hints are
  the real merger's (its mistakes included), spoilt on purpose, or absent. The weights are {kept:.0%} of the way from
  the circuits to the end of training (an average of the two, chosen on held-out edits).
- **Data**: {edits} windows of real commits from {n_repositories} public repositories under MIT, BSD and Apache-2.0
  licences, with snippets sketched on the fly. {held_out} windows of
  {held_out_names} were held out. The repositories of the development set are excluded by name (`training/corpus.py`).

## Results
Validation, held-out repositories, teacher-forced, at most 60 original lines; `all right` is the share of edits whose
every decision is right under the copy constraint, `free` the share whose every token is right without it.

{validation}

{results}

## Limits
- It leans on the merger's hints: with none it is wrong in about {wrong_unhinted:.0f}% of the decisions. Where
  the hints are wrong it follows them more often than not.
- Free output (without the copy constraint) now and then miscopies inside a line; the constraint is on by default.
- Line numbers are known modulo 64: in files with long stretches that repeat every 64 lines it can jump.
- Trained on files of at most about {max_lines} lines; longer ones work as far as the circuits carry.
- Insertion order that runs against the file's order cannot be told apart from the file's order.

## Sources
{sources}
"""


def write_card(
    out: Path,
    *,
    network: Network,
    progress: Progress,
    scores: Sequence[dict[str, Any]],
    train: Sequence[Edit],
    held_out: Sequence[Edit],
    hardware: str,
    max_lines: int,
    kept: float,
    results: str,
) -> None:
    """Write README.md into `out`.  `scores` are the rows of a run's `scores.jsonl`, the untrained control first."""
    shape = network.shape
    counts = Counter(edit.repo for edit in train)
    text = CARD.format(
        size=sum(p.numel() for p in network.parameters()) / 1e6,
        layers=shape.n_layers,
        width=shape.d_model,
        heads=shape.n_heads,
        vocabulary=shape.n_vocab,
        context=shape.context,
        steps=progress.step,
        tokens=progress.tokens / 1e6,
        minutes=progress.seconds / 60,
        hardware=hardware,
        edits=len(train),
        n_repositories=len(counts),
        held_out=len(held_out),
        held_out_names=", ".join(sorted({edit.repo for edit in held_out})),
        validation=_validation_table(scores),
        results=results.strip(),
        wrong_unhinted=100 * (1 - scores[-1]["none"]["decision_accuracy"]),
        max_lines=max_lines,
        kept=kept,
        sources=", ".join(f"{repo} ({n})" for repo, n in sorted(counts.items(), key=lambda item: item[0].lower())),
    )
    (out / "README.md").write_text(text, encoding="utf-8")


def _validation_table(scores: Sequence[dict[str, Any]]) -> str:
    """The control and the end of the run, by kind of hints."""
    rows = [
        "| hints | weights | edits | decisions right | where the hint is wrong | all right | tokens right | free |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for hints in ("merger", "spoilt", "none"):
        for name, row in (("untrained", scores[0]), ("trained", scores[-1])):
            group = row[hints]
            shares = ("decision_accuracy", "contested_accuracy", "all_right", "token_accuracy", "free")
            cells = " | ".join(f"{100 * group[share]:.1f}%" for share in shares)
            rows.append(f"| {hints} | {name} | {group['n']} | {cells} |")
    return "\n".join(rows)
