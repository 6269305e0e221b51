"""How many passes and rejections real edits take with an ideal target, by drafter, and how honest the drafters'
expected acceptance is.  Counted, not timed; no model takes part.

    python -m benchmarks.drafting_counts --data F.jsonl[.xz] [--updates G.jsonl | --sketch] [--instruct] [--limit 300]
        [--seed 1] [--vocabulary embedded|replay] [--drafters merged_edit,original,...] [--out FILE.json]

`--sketch` draws a snippet in a sloppy style for each change (data of windows has none); `--instruct` gives the drafters
nothing but the original, as for an instruction.  Calibration: drafts are put in bins by their stated expected
acceptance; of the first 16 tokens, those expected and those accepted.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from apply_eval.datasets import join_updates, read_records, read_rows
from apply_eval.provenance import provenance
from apply_eval.sketch import draw_style, sketch
from apply_service.drafting.acceptance import expected_tokens
from apply_service.drafting.chain import open_drafter
from apply_service.edits.fidelity import normalise
from apply_service.edits.lazy_snippet import LazySnippet
from apply_service.engine.loading import embedded_directory
from apply_service.errors import NeedsMoreContext
from apply_service.pipeline import unchanged
from apply_service.prompts.sources import text_sources
from apply_service.prompts.tokenizer import ContentTokenizer
from apply_service.protocols import DraftContext, EditJob
from apply_service.syntax.languages import detect_language
from benchmarks.drafting_simulation import Run, drive

END = 1 << 20
COUNTED = 16
BINS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.01)
"""Upper ends of the calibration's bins."""
DRAFTERS = (
    "none,original,original_snippet,merged_edit,prompt_lookup,suffix,merged_edit+suffix,merged_edit+prompt_lookup"
)


class Edit(NamedTuple):
    """An edit and what the target writes."""

    job: EditJob
    after: str

    @property
    def is_right(self) -> bool:
        """Whether the predicted merge is what the target writes."""
        return self.job.prediction.text == self.after


def main() -> int:
    options = _parse()
    tokenizer = _tokenizer(options.vocabulary)
    edits = list(_edits(options))[: options.limit]
    if not edits:
        sys.exit("no edit could be read")
    data = [path for path in (options.data, options.updates) if path is not None]
    result: dict[str, Any] = {"kind": "drafting_counts", "schema_version": 1, "vocabulary": options.vocabulary}
    result |= {"n_edits": len(edits), "n_right": sum(edit.is_right for edit in edits)}
    result["provenance"] = provenance(data, seed=options.seed)
    result["summary"] = {name: _measure(name, edits, tokenizer) for name in options.drafters.split(",")}
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: value for name, value in result.items() if name != "provenance"}, indent=1))
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    snippets = parser.add_mutually_exclusive_group()
    snippets.add_argument("--updates", type=Path)
    snippets.add_argument("--sketch", action="store_true")
    parser.add_argument("--instruct", action="store_true")
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--vocabulary", choices=("embedded", "replay"), default="embedded")
    parser.add_argument("--drafters", default=DRAFTERS)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def _tokenizer(vocabulary: str) -> ContentTokenizer:
    if vocabulary == "embedded":
        return ContentTokenizer.from_directory(embedded_directory())
    packed = (embedded_directory().parent / "replay" / "tokenizer.json.xz").read_bytes()
    return ContentTokenizer(lzma.decompress(packed).decode())


# -- edits -------------------------------------------------------------------------------------------------------------
def _edits(options: argparse.Namespace) -> Iterator[Edit]:
    """Those that the merger does not refuse; drawn at random where they are sketched, else in order."""
    changes = _sketched(options.data, options.seed) if options.sketch else _given(options.data, options.updates)
    for n_found, (before, after, update, language, path) in enumerate(changes):
        if n_found >= options.limit:
            return
        if options.instruct:
            yield Edit(EditJob(before, "", "as told", path, language, unchanged(before)), after)
            continue
        try:
            prediction = LazySnippet().predict(before, update, language=language, path=path)
        except NeedsMoreContext:
            continue
        yield Edit(EditJob(before, update, "", path, language, prediction), after)


Change = tuple[str, str, str, str | None, str | None]
"""Before, after, update, language, path."""


def _given(data: Path, updates: Path | None) -> Iterator[Change]:
    records = read_records(data)
    for record in records if updates is None else join_updates(records, updates):
        before, after, update = (normalise(text) for text in (record.before, record.after, record.update))
        yield before, after, update, record.language, record.path


def _sketched(data: Path, seed: int) -> Iterator[Change]:
    rng = random.Random(seed)
    rows = [row for _, row in read_rows(data)]
    rng.shuffle(rows)
    for row in rows:
        before, after = (normalise(str(row[name])) for name in ("before", "after"))
        path = str(row["path"])
        language = detect_language(name=str(row["language"]), path=path)
        style = draw_style(rng, clean=False)
        found = sketch(before, after, language=language, path=path, style=style, rng=rng)
        if found is not None:
            yield before, after, found.update, language, path


# -- counts ------------------------------------------------------------------------------------------------------------
def _measure(name: str, edits: Sequence[Edit], tokenizer: ContentTokenizer) -> dict[str, Any]:
    runs = [_run(name, edit, tokenizer) for edit in edits]
    wrong = [run for run, edit in zip(runs, edits, strict=True) if not edit.is_right]
    return {**_counts(runs), "where_wrong": _counts(wrong) if wrong else None, "calibration": _calibration(runs)}


def _run(name: str, edit: Edit, tokenizer: ContentTokenizer) -> Run:
    job = edit.job
    answer = [*tokenizer.encode(edit.after).ids, END]
    prompt_ids = tokenizer.encode(f"<original>\n{job.original}\n</original>\n<update>\n{job.update}\n</update>\n").ids
    sources = text_sources(job, tokenizer, before="", after="", end_id=END)
    context = DraftContext(sources, prompt_ids, max_new_tokens=len(answer) + 64)
    return drive(lambda: open_drafter(name, context), answer)


def _counts(runs: Sequence[Run]) -> dict[str, float]:
    n_passes, n_drafted = sum(len(run.passes) for run in runs), sum(run.n_drafted for run in runs)
    n_accepted = sum(run.n_accepted for run in runs)
    return {
        "n_edits": len(runs),
        "rejections_per_edit": round(sum(run.n_rejections for run in runs) / len(runs), 3),
        "rejections_in_a_row_per_edit": round(sum(run.n_rejections_in_a_row for run in runs) / len(runs), 3),
        "passes_per_edit": round(n_passes / len(runs), 2),
        "tokens_per_pass": round(sum(run.n_tokens for run in runs) / n_passes, 1),
        "acceptance_rate": round(n_accepted / n_drafted, 4) if n_drafted else 0.0,
    }


def _calibration(runs: Sequence[Run]) -> list[dict[str, float]]:
    rows = []
    drafts = [one for run in runs for one in run.passes if one.n_drafted]
    for low, high in zip((0.0, *BINS), BINS, strict=False):
        mine = [one for one in drafts if low <= one.expected_acceptance < high]
        if mine:
            expected = [expected_tokens(one.expected_acceptance, min(COUNTED, one.n_drafted)) for one in mine]
            accepted = [min(COUNTED, one.n_accepted) for one in mine]
            row = {"from": low, "n_drafts": len(mine), "expected": sum(expected) / len(mine)}
            rows.append({**row, "accepted": sum(accepted) / len(mine)})
    return [{name: round(value, 3) for name, value in row.items()} for row in rows]


if __name__ == "__main__":
    sys.exit(main())
