"""How many passes real edits take with an ideal target (it writes the true file): counted, not timed.

Runs on the shipped edits of this project's own history, and on the development set where it is at hand.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from apply_eval.datasets import EditRecord, read_records
from apply_service.decoding.verify import Decoding
from apply_service.drafting.copy import CopyDrafter, MergedEdit, Original, OriginalSnippet
from apply_service.drafting.drafter import NoDraft
from apply_service.errors import NeedsMoreContext
from apply_service.formats import lazy_snippet
from apply_service.models import embedded_directory
from apply_service.prompts.tokenizer import ContentTokenizer, text_sources
from apply_service.protocols import DraftContext, DraftSources, EditContext, EditJob
from apply_service.text.fidelity import normalise
from tests.decoding.alone import decode_alone
from tests.fake_engine import ScriptedEngine

SHIPPED = Path(__file__).parents[2] / "eval" / "apply_eval" / "fixtures" / "own_edits.jsonl"
END = 10_000
WINDOW = 255


@cache
def tokenizer() -> ContentTokenizer:
    """The embedded model's vocabulary, here for plain text."""
    return ContentTokenizer((embedded_directory() / "tokenizer.json").read_text(encoding="utf-8"))


def sources_of(record: EditRecord) -> tuple[DraftSources, bool] | None:
    """Draft sources with the real predicted merge, and whether it is right; None where the merger refuses."""
    before, update = normalise(record.before), normalise(record.update)
    try:
        prediction = lazy_snippet.predict(before, update, EditContext(record.path, record.language))
    except NeedsMoreContext:
        return None
    job = EditJob(before, update, "", record.path, record.language, prediction)
    sources = text_sources(job, tokenizer(), before="", after="", end_id=END)
    return sources, prediction.text == normalise(record.after)


def passes(drafter: CopyDrafter | NoDraft, answer: list[int]) -> int:
    decoding = Decoding(ScriptedEngine(answer, max_draft=WINDOW), [0], drafter, len(answer) + 9, frozenset({END}))
    for _ in decode_alone(decoding):
        pass
    assert decoding.output_ids == answer
    return decoding.stats.passes


def count(records: list[EditRecord]) -> Counter[str]:
    totals: Counter[str] = Counter()
    for record in records:
        found = sources_of(record)
        if found is None:
            continue
        sources, is_right = found
        context = DraftContext(sources)
        answer = [*tokenizer().encode(normalise(record.after)).ids, END]
        totals["none"] += passes(NoDraft(), answer)
        totals["merged_edit"] += passes(MergedEdit(context), answer)
        totals["original_snippet"] += passes(OriginalSnippet(context), answer)
        totals["original"] += passes(Original(context), answer)
        if is_right:
            totals["none where right"] += len(answer)
            totals["merged_edit where right"] += passes(MergedEdit(context), answer)
    return totals


def check(totals: Counter[str]) -> None:
    assert totals["none"] >= 15 * totals["merged_edit"]
    assert totals["none where right"] >= 50 * totals["merged_edit where right"]
    assert totals["merged_edit"] < totals["original_snippet"] < totals["original"]


def test_pass_counts_on_shipped_edits() -> None:
    records = list(read_records(SHIPPED))
    assert len(records) >= 10
    check(count(records))


def test_pass_counts_on_every_eighth_of_the_development_set(extra_data: Path) -> None:
    check(count(list(read_records(extra_data / "real_diffs_dev.jsonl"))[::8]))


@pytest.mark.slow
def test_pass_counts_on_the_development_set(extra_data: Path) -> None:
    check(count(list(read_records(extra_data / "real_diffs_dev.jsonl"))))
