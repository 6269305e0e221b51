"""`make finetune-prepare`: record samples for `training.finetune`, where the project is installed whole.

    python -m training.finetune_record --model runs/models/NAME --data train_windows.jsonl.xz [--written hand.jsonl]

A sample is the service's own prompt for an edit, in the format of the model, and the file after the edit.  Windows are
sketched by a program; snippets of `--written` (`training.fit_sets` makes that file) were written by hand.  Samples are
packed: several stand in one row, their positions begin again at 0.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from apply_service.errors import ApplyError
from apply_service.pipeline import read_edit
from apply_service.prompts.by_model import open_prompt_format
from apply_service.protocols import EditJob, PromptFormat
from apply_service.text.diff import diff_lines
from apply_service.text.fidelity import ops_from_texts
from apply_service.types import ApplyRequest, Certainty, Prediction
from training.batch import Array, Unpadded
from training.corpus import Edit, is_excluded, read_edits, split_by_repository
from training.finetune import CHANGED, COPIED, WRONG, digest_of_tokenizer
from training.recorded import Recorded
from training.samples import TRIES, cut_edit, make_case

WRITTEN_SHARE = 0.4
"""Of samples with a snippet written by hand, where there are any."""
CLEAN = 0.4
"""Share of sketches in a clean style."""
CHUNK = 64

Triple = tuple[Array, Array, Array]
"""Ids, positions and weights."""


class Snippet(NamedTuple):
    """An edit with a snippet that somebody wrote for it."""

    edit: Edit
    update: str


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    recorded = record(options)
    recorded.write(options.out)
    n_tokens = sum(len(ids) for chunk in recorded.chunks for group in chunk for ids, _, _ in group)
    print(f"{options.out}: {len(recorded.chunks)} chunks, {n_tokens:,} tokens, {options.out.stat().st_size:,} bytes")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m training.finetune_record", description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="folder of the model: its tokenizer and format")
    parser.add_argument("--data", type=Path, required=True, help="windows (.jsonl.xz) or a local git repository")
    parser.add_argument("--written", type=Path, help="edits with their snippets (.jsonl)")
    parser.add_argument("--out", type=Path, help="default: runs/finetune/NAME/batches.safetensors.xz")
    parser.add_argument("--chunks", type=int, default=300, help=f"of {CHUNK} samples each")
    parser.add_argument("--held-out-chunks", type=int, default=2, help="of repositories that are not trained on")
    parser.add_argument("--pack-tokens", type=int, default=4096, help="longest row; longer samples are left out")
    parser.add_argument("--batch-packs", type=int, default=4, help="rows of a batch")
    parser.add_argument("--max-lines", type=int, default=130, help="of the original, in a window")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    options.out = options.out or Path("runs/finetune") / options.model.name / "batches.safetensors.xz"
    return options


def record(options: argparse.Namespace) -> Recorded:
    """Chunks of packed samples, and some of held-out repositories.  Raises ModelNotLoadable: the folder has no usable
    tokenizer."""
    prompt_format = open_prompt_format(str(options.model))
    edits = split_by_repository(read_edits(options.data))
    written = [] if options.written is None else read_written(options.written)
    trained = set(split_by_repository(one.edit for one in written)[0])
    sides = ([one for one in written if one.edit in trained], [one for one in written if one.edit not in trained])
    makers = [
        Maker(side, snippets, prompt_format, options.max_lines, options.seed + at)
        for at, (side, snippets) in enumerate(zip(edits, sides, strict=True))
    ]
    shape = (options.pack_tokens, options.batch_packs)
    chunks = [batches_of(makers[0], chunk, *shape) for chunk in range(options.chunks)]
    held_out = [group for chunk in range(options.held_out_chunks) for group in batches_of(makers[1], chunk, *shape)]
    origin = {
        "data": [path.name for path in (options.data, options.written) if path is not None],
        "prompt_format": prompt_format.name,
        "tokenizer": digest_of_tokenizer(options.model),
        "seed": options.seed,
    }
    return Recorded([chunk for chunk in chunks if chunk], held_out, 0, origin)


def read_written(path: Path) -> list[Snippet]:
    """The edits of a file that have a snippet, without those of the evaluation's repositories."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        Snippet(Edit(row["repo"], row["path"], row["language"], row["before"], row["after"]), row["update"])
        for row in rows
        if not is_excluded(row["repo"])
    ]


class Maker:
    """Makes sample number i, a pure function of the seed and i."""

    def __init__(
        self,
        edits: Sequence[Edit],
        written: Sequence[Snippet],
        prompt_format: PromptFormat,
        max_lines: int,
        seed: int,
    ) -> None:
        self._edits = edits
        self._written = written
        self._format = prompt_format
        self._max_lines = max_lines
        self.seed = seed

    def make(self, index: int) -> Triple | None:
        """None where the edit can't be sketched or read."""
        rng = random.Random(f"finetune {self.seed} {index}")
        if self._written and rng.random() < WRITTEN_SHARE:
            edit, update = rng.choice(self._written)
        else:
            edit = cut_edit(rng.choice(self._edits), max_lines=self._max_lines, rng=rng)
            cases = (make_case(edit, rng, clean=rng.random() < CLEAN) for _ in range(TRIES))
            case = next((case for case in cases if case is not None), None)
            if case is None:
                return None
            update = case.update
        try:
            job = read_edit(ApplyRequest(edit.before, update, path=edit.path), edit.language)
        except ApplyError:
            return None
        return encode(self._format, job, edit.after)


def encode(prompt_format: PromptFormat, job: EditJob, right: str) -> Triple:
    """Prompt and right answer.  Prompt tokens weigh nothing; the token behind a difference weighs as much as those in
    it, for there the model has to find back."""
    prompt = prompt_format.encode_prompt(job)
    truth = Prediction(ops_from_texts(job.original, right), job.prediction.update_lines, Certainty.LIKELY)
    answer = prompt_format.encode_sources(replace(job, prediction=truth)).predicted.ids.tolist()
    sources = prompt_format.encode_sources(job)
    weights = np.full(len(prompt) + len(answer), COPIED, np.float32)
    for source, weight in ((sources.original, CHANGED), (sources.predicted, WRONG)):
        for change in diff_lines([str(token) for token in source.ids.tolist()], [str(token) for token in answer]):
            weights[len(prompt) + change.b0 : len(prompt) + change.b1 + 1] = weight
    weights[: len(prompt)] = 0.0
    return np.array([*prompt, *answer]), np.arange(len(weights)), weights


def batches_of(maker: Maker, chunk: int, pack_tokens: int, batch_packs: int) -> list[Unpadded]:
    """The batches of one chunk of samples, each of rows of at most `pack_tokens`."""
    made = (maker.make(index) for index in range(chunk * CHUNK, (chunk + 1) * CHUNK))
    samples = [sample for sample in made if sample is not None and len(sample[0]) <= pack_tokens]
    packs: list[list[Triple]] = []
    for sample in sorted(samples, key=lambda sample: len(sample[0]), reverse=True):
        fitting = (pack for pack in packs if sum(len(ids) for ids, _, _ in pack) + len(sample[0]) <= pack_tokens)
        if (pack := next(fitting, None)) is None:
            packs.append(pack := [])
        pack.append(sample)
    random.Random(f"order {maker.seed} {chunk}").shuffle(packs)
    rows = [tuple(np.concatenate(parts) for parts in zip(*pack, strict=True)) for pack in packs]
    return [rows[at : at + batch_packs] for at in range(0, len(rows), batch_packs)]  # type: ignore[misc]


if __name__ == "__main__":
    raise SystemExit(main())
