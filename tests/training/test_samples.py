"""Samples: reproducible, true, and never outside what the constraint allows."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from apply_service.prompts.compact import Compact, LineConstraint
from tests.training.edits import make_edits
from training.corpus import Edit
from training.corruption import corrupt_ops
from training.samples import SampleMaker, SampleMix, cut_edit, matches_of
from training.train import MODEL_DIR

COMPACT = Compact.from_directory(MODEL_DIR)
EDITS = make_edits(40)


def merged(ops) -> str:  # type: ignore[no-untyped-def]
    return "\n".join(op.text for op in ops if op.kind != "drop")


def test_a_sample_is_a_function_of_seed_and_index() -> None:
    for index in range(20):
        one, other = (SampleMaker(EDITS, COMPACT, seed=3).make(index, max_lines=40) for _ in range(2))
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert all(np.array_equal(a, b) for a, b in zip(one[:3], other[:3], strict=True))


@pytest.mark.parametrize("mix", [SampleMix(), SampleMix(no_hints=1), SampleMix(no_hints=0, spoilt_hints=1)])
def test_every_target_is_the_true_merge_and_allowed(mix: SampleMix) -> None:
    maker = SampleMaker(EDITS, COMPACT, seed=1, mix=mix)
    n = 0
    for index in range(40):
        listing = maker.listing(index, max_lines=40)
        if listing is None:
            continue
        n += 1
        case = listing.case
        assert merged(case.truth) == case.edit.after
        output = COMPACT.encode_ops(case.truth)
        original = case.edit.before.split("\n")
        constraint = LineConstraint(COMPACT.vocabulary, original, case.update_lines, matches_of(listing.hinted or ()))
        masks = constraint.masks([], output[:-1])
        assert all(allowed is not None and token in allowed for token, allowed in zip(output, masks, strict=True))
    assert n > 20


def test_the_loss_is_on_the_output_alone_and_heaviest_on_decisions() -> None:
    sample = SampleMaker(EDITS, COMPACT, seed=1).make(2, max_lines=40)
    assert sample is not None
    assert not sample.weights[: sample.n_prompt].any()
    output, weights = sample.ids[sample.n_prompt :], sample.weights[sample.n_prompt :]
    is_text = output < COMPACT.vocabulary.n_text
    assert (weights > 0).all()
    assert weights[is_text].max() < weights[~is_text].min()


def test_positions_rise_by_one_but_for_gaps() -> None:
    maker = SampleMaker(EDITS, COMPACT, seed=1, mix=SampleMix(position_gaps=1))
    samples = [sample for index in range(10) if (sample := maker.make(index, max_lines=40)) is not None]
    for sample in samples:
        steps = np.diff(sample.positions)
        assert (steps >= 1).all()
        assert (sample.ids[1:][steps > 1] >= COMPACT.vocabulary.n_text).all()
    assert any((np.diff(sample.positions) > 1).any() for sample in samples)


def test_a_cut_edit_is_a_window_of_the_edit() -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for edit in EDITS:
        cut = cut_edit(edit, max_lines=16, rng=rng)
        assert cut.before != cut.after
        assert cut.before.rstrip("\n") in edit.before
        assert cut.after.rstrip("\n") in edit.after
        assert cut.before.count("\n") <= 24


def test_spoilt_operations_keep_the_original_whole_and_in_order() -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    n_changed = 0
    for index in range(60):
        case = SampleMaker(EDITS, COMPACT, seed=seed).case(index, max_lines=40)
        if case is None:
            continue
        wrong = corrupt_ops(case.truth, case.update_lines, rng)
        n_lines = case.edit.before.count("\n") + 1
        assert [op.original_line for op in wrong if op.original_line is not None] == list(range(n_lines))
        uses = Counter(op.update_line for op in wrong if op.update_line is not None)
        assert not uses or max(uses.values()) == 1
        n_changed += tuple(wrong) != case.truth
    assert n_changed > 20


def test_an_unchanged_edit_gives_no_sample() -> None:
    same = Edit("a/b", "x.py", "python", "a\nb\n", "a\nb\n")
    assert SampleMaker([same], COMPACT, seed=0).make(0, max_lines=40) is None
