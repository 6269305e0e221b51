"""The copy drafters against a target that writes a known answer: where they realign, and how many passes that takes."""

from __future__ import annotations

import numpy as np
import pytest

from apply_service.decoding.scheduler import decode_alone
from apply_service.decoding.verify import Decoding
from apply_service.drafting.copying import CopyDrafter, MergedEdit, Original, OriginalSnippet
from apply_service.drafting.suffix_match import SuffixIndex
from apply_service.engine.fake import ScriptedEngine
from apply_service.prompts.plain_bytes import END, PlainBytes
from apply_service.protocols import DraftContext, EditJob
from apply_service.types import Certainty, DecodeStats, LineOp, Prediction

FILE = "".join(f"def function_{i}(a, b):\n    total_{i} = a + b * {i}\n    return total_{i}\n\n\n" for i in range(60))


def job(original: str, update: str, predicted: str) -> EditJob:
    """A job whose predicted merge is given as text (line operations don't matter to byte drafts)."""
    ops = tuple(LineOp("take", None, 0, line) for line in predicted.split("\n"))
    return EditJob(original, update, "", None, None, Prediction(ops, tuple(update.split("\n")), Certainty.LIKELY))


def passes(drafter: type[CopyDrafter], job: EditJob, after: str, *, window: int = 255) -> DecodeStats:
    sources = PlainBytes().encode_sources(job)
    answer = [*after.encode(), END]
    decoding = Decoding(
        ScriptedEngine(answer, max_draft=window), [0], drafter(DraftContext(sources)), len(answer) + 9, frozenset({END})
    )
    for _ in decode_alone(decoding):
        pass
    assert bytes(decoding.output_ids[:-1]).decode() == after
    return decoding.stats


def test_the_original_drafts_everything_but_the_change() -> None:
    after = FILE.replace("b * 30", "b // 31")
    stats = passes(Original, job(FILE, "", FILE), after)
    assert stats.rejections <= 6, "at most one for each byte that is new"
    assert stats.passes <= len(after) / 256 + 7


def test_a_deleted_block_is_skipped_over() -> None:
    start, end = FILE.index("def function_20("), FILE.index("def function_24(")
    after = FILE[:start] + FILE[end:]
    stats = passes(Original, job(FILE, "", FILE), after)
    assert stats.rejections <= 3


def test_an_inserted_block_comes_from_the_update() -> None:
    new = "def brand_new(x):\n    return helper(x) * 17\n\n\n"
    at = FILE.index("def function_30(")
    after = FILE[:at] + new + FILE[at:]
    edit = job(FILE, f"# ... existing code ...\n{new}# ... existing code ...\n", FILE)
    alone, both = passes(Original, edit, after), passes(OriginalSnippet, edit, after)
    assert both.passes < alone.passes / 2
    assert both.accepted_by_source["update"] >= len(new) - 20


def test_a_right_predicted_merge_is_never_rejected() -> None:
    after = FILE.replace("total_7", "sum_7").replace("function_50", "renamed")
    stats = passes(MergedEdit, job(FILE, "", after), after)
    assert stats.rejections == 0
    assert stats.passes == -(-(len(after) + 1) // 256)


def test_a_wrong_predicted_merge_costs_a_few_passes_not_the_file() -> None:
    wrong = FILE.replace("b * 30", "b * 99").replace("def function_10(a, b)", "def function_10(a)")
    stats = passes(MergedEdit, job(FILE, "", wrong), FILE)
    assert stats.rejections <= 4
    assert stats.passes <= len(FILE) / 256 + 8


def test_repetition_in_the_output_is_drafted_from_the_output() -> None:
    new = "".join(f'    "key_{c}": compute_the_value(argument, keyword=True),\n' for c in "abcdefghijklmnop")
    stats = passes(Original, job("x = 1\n", "", "x = 1\n"), "x = 1\n" + new)
    assert stats.accepted_by_source.get("output", 0) > len(new) / 2


@pytest.mark.parametrize("drafter", [Original, OriginalSnippet, MergedEdit])
def test_empty_files_and_empty_updates(drafter: type[CopyDrafter]) -> None:
    assert passes(drafter, job("", "", ""), "").passes == 1
    assert passes(drafter, job("", "new\n", "new\n"), "new\n").passes <= 5


def test_suffix_index_against_a_plain_search() -> None:
    rng = np.random.default_rng(8)
    ids = rng.integers(0, 4, 300)
    index = SuffixIndex(ids)
    for _ in range(50):
        tail = rng.integers(0, 4, rng.integers(1, 12)).tolist()
        ends, lengths = index.matches(tail)
        wanted = {}
        for i, token in enumerate(ids.tolist()):
            n = 0
            while n < len(tail) and i - n >= 0 and ids[i - n] == tail[-1 - n]:
                n += 1
            if token == tail[-1]:
                wanted[i + 1] = n
        assert dict(zip(ends.tolist(), lengths.tolist(), strict=True)) == wanted
