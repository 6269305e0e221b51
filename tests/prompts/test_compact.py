"""The compact format: every text round-trips, no file text becomes a control token, nothing can be invented."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apply_service.types
from apply_service.errors import ModelNotLoadable, Truncated
from apply_service.prompts.compact import LOOK_AHEAD, Compact, LineVocabulary, control_tokens, hints_of
from apply_service.protocols import EditJob
from apply_service.types import Certainty, LineOp, Prediction

MODEL = Path(apply_service.types.__file__).parent / "models" / "embedded"
COMPACT = Compact.from_directory(MODEL)
VOCABULARY = COMPACT.vocabulary
TEXT = st.text(st.characters(codec="utf-8"))


def job_of(original: str, update: str, ops: list[LineOp]) -> EditJob:
    prediction = Prediction(tuple(ops), tuple(update.split("\n")), Certainty.LIKELY)
    return EditJob(original, update, "", None, None, prediction)


def sample_job() -> tuple[EditJob, str]:
    """a b c d with c replaced by X, Y, and Z put before a."""
    ops = [
        LineOp("take", None, 0, "Z"),
        LineOp("both", 0, 1, "a"),
        LineOp("keep", 1, None, "b"),
        LineOp("drop", 2, None, "c"),
        LineOp("take", None, 3, "X"),
        LineOp("take", None, 4, "Y"),
        LineOp("both", 3, 5, "d"),
    ]
    return job_of("a\nb\nc\nd", "Z\na\n...\nX\nY\nd", ops), "Z\na\nb\nX\nY\nd"


def random_job(rng: random.Random) -> EditJob:
    words = ["", "x", "return é", "\tif 日本:", "}", "<|end|>", "// ...", "🙂 = 1", "  \x0c", "a\rb"]
    original = [rng.choice(words) for _ in range(rng.randint(1, 90))]
    update: list[str] = []
    ops: list[LineOp] = []
    for i, line in enumerate(original):
        while rng.random() < 0.2:
            update.append(rng.choice(words))
            if rng.random() < 0.8:
                ops.append(LineOp("take", None, len(update) - 1, update[-1]))
        kind = rng.choice(["keep", "keep", "both", "drop"])
        if kind == "both":
            update.append(line if rng.random() < 0.8 else line + " ")
        ops.append(LineOp(kind, i, len(update) - 1 if kind == "both" else None, line))  # type: ignore[arg-type]
    update.append("")
    return job_of("\n".join(original), "\n".join(update), ops)


@given(TEXT)
def test_every_text_round_trips(text: str) -> None:
    ops = [LineOp("keep", i, None, line) for i, line in enumerate(text.split("\n"))]
    assert COMPACT.decode_output(COMPACT.encode_ops(ops)) == text


@given(TEXT)
def test_pieces_of_text_round_trip(text: str) -> None:
    assert VOCABULARY.decode_bytes(VOCABULARY.encode_text(text)).decode() == text


@pytest.mark.parametrize("name", control_tokens()[:8])
def test_file_text_that_spells_a_control_token_is_plain_text(name: str) -> None:
    ids = VOCABULARY.encode_lines([f"x {name} y"])[0]
    assert max(ids) < VOCABULARY.n_text
    assert VOCABULARY.decode_bytes(ids.tolist()).decode() == f"\nx {name} y"


def test_a_newline_and_its_indentation_are_one_token() -> None:
    for indentation in ("", "    ", " " * 8, "\t", "\t\t"):
        first, *rest = VOCABULARY.encode_lines([indentation + "return"])[0].tolist()
        assert VOCABULARY.decode_bytes([first]).decode() == "\n" + indentation
        assert VOCABULARY.decode_bytes(rest).decode() == "return"


def test_dropped_lines_are_written_but_are_no_part_of_the_text() -> None:
    job, merged = sample_job()
    ids = COMPACT.encode_ops(job.prediction.ops)
    assert b"\nc" in VOCABULARY.decode_bytes(ids)
    assert COMPACT.decode_output(ids) == merged == job.prediction.text


def test_output_without_its_end_is_truncated() -> None:
    job, _ = sample_job()
    with pytest.raises(Truncated):
        COMPACT.decode_output(COMPACT.encode_ops(job.prediction.ops)[:-1])


def test_every_used_line_is_followed_by_the_next_operation() -> None:
    job, _ = sample_job()
    ops = job.prediction.ops
    hints = hints_of(VOCABULARY, ops, 4, 6)
    tag = VOCABULARY.tag
    assert hints.first == tag("take", 0)
    assert hints.original == (tag("both", 0), tag("keep", 1), tag("drop", 2), tag("both", 3))
    assert hints.after_original == (None, None, tag("take", 3), VOCABULARY.end)
    assert hints.update == (
        tag("take", 0),
        tag("both", 0),
        VOCABULARY.skip,
        tag("take", 3),
        tag("take", 4),
        tag("both", 3),
    )
    assert hints.after_update == (None, tag("keep", 1), None, None, None, VOCABULARY.end)


def test_the_prompt_holds_both_texts_in_order() -> None:
    job, _ = sample_job()
    ids = COMPACT.encode_prompt(job)
    assert ids[0] == VOCABULARY.original
    assert ids[-1] == VOCABULARY.merge
    cut = ids.index(VOCABULARY.update)
    assert VOCABULARY.decode_bytes(ids[:cut]).decode() == "\n" + job.original
    assert VOCABULARY.decode_bytes(ids[cut:]).decode() == "\n" + job.update


def test_streamed_pieces_join_to_the_decoded_output() -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(40):
        job = random_job(rng)
        ids = COMPACT.encode_ops(job.prediction.ops)
        stream, pieces, at = COMPACT.open_stream(), [], 0
        while at < len(ids):
            step = rng.randint(1, 5)
            pieces.append(stream.push(ids[at : at + step]))
            at += step
        pieces.append(stream.finish())
        assert "".join(pieces) == COMPACT.decode_output(ids) == job.prediction.text


def test_sources_cover_their_text_and_point_into_each_other() -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(40):
        job = random_job(rng)
        sources = COMPACT.encode_sources(job)
        for source in (sources.predicted, sources.original, sources.update):
            assert len(source.starts) == len(source.ids) + 1
            assert source.starts[0] == 0
            assert source.starts[-1] == len(source.text)
            assert (np.diff(source.starts) >= 0).all()
            assert sources.decode(source.ids.tolist()) == source.text
        assert sources.predicted.ids.tolist() == COMPACT.encode_ops(job.prediction.ops)
        for places, other in (
            (sources.predicted_to_original, sources.original),
            (sources.predicted_to_update, sources.update),
        ):
            assert len(places) == len(sources.predicted.ids) + 1
            assert places.min() >= 0
            assert places.max() <= len(other.ids)


def test_kept_tokens_align_with_the_same_tokens_of_the_original() -> None:
    job, _ = sample_job()
    sources = COMPACT.encode_sources(job)
    for at, token in enumerate(sources.predicted.ids[:-1].tolist()):
        place = sources.predicted_to_original[at]
        if token < VOCABULARY.n_text and VOCABULARY.decode_bytes([token]).decode() in "abcd":
            assert sources.original.ids[place] == token


# -- the constraint ----------------------------------------------------------------------------------------------------
def test_the_constraint_allows_every_prediction() -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(60):
        job = random_job(rng)
        ids = COMPACT.encode_ops(job.prediction.ops)
        constraint = COMPACT.constraint(job)
        assert constraint is not None
        at = 0
        while at < len(ids):
            step = rng.randint(1, 40)
            masks = constraint.masks(ids[:at], ids[at : at + step])
            for offset, allowed in enumerate(masks[: len(ids) - at]):
                assert allowed is not None
                assert ids[at + offset] in allowed
                assert (np.diff(allowed) > 0).all()
            at += step


@pytest.mark.parametrize("added", [{0}, {4}, {5}, {1, 2}, {0, 3, 4, 7}])
def test_blank_lines_that_the_merger_adds_have_a_place_in_the_update(added: set[int]) -> None:
    """The bug: they have none in the update as it came, and every such edit was a crash of the embedded model."""
    edit, _ = sample_job()
    ops: list[LineOp] = []
    for i, op in enumerate((*edit.prediction.ops, None)):
        ops += [LineOp("take", None, None, "")] * (i in added)
        ops += [op] * (op is not None)  # type: ignore[list-item]
    edit = job_of(edit.original, edit.update, ops)
    predicted = COMPACT.encode_sources(edit).predicted.ids.tolist()
    assert COMPACT.decode_output(predicted) == edit.prediction.text
    constraint = COMPACT.constraint(edit)
    assert constraint is not None
    masks = constraint.masks([], predicted[:-1])
    assert all(mask is None or token in mask for token, mask in zip(predicted, masks, strict=True))
    update = [op.text for op in ops if op.update_line is not None or op.original_line is None]
    listed = COMPACT.encode_prompt(edit)
    shown = VOCABULARY.decode_bytes(listed[listed.index(VOCABULARY.update) :]).decode().split("\n")
    assert [line for line in shown[1:] if line != "..."] == update


def test_whatever_the_constraint_allows_is_made_of_source_lines() -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(40):
        job = random_job(rng)
        constraint = COMPACT.constraint(job)
        assert constraint is not None
        output: list[int] = []
        while not output or output[-1] != VOCABULARY.end:
            allowed = constraint.masks(output, [])[0]
            assert allowed is not None
            output.append(int(rng.choice(list(allowed))))
        lines = set(job.original.split("\n")) | set(job.prediction.update_lines)
        merged = COMPACT.decode_output(output)
        assert set(merged.split("\n")) <= lines or merged == ""
        kept = sum(VOCABULARY.is_tag(t) and VOCABULARY.kind_of(t) != "take" for t in output)
        assert kept == job.original.count("\n") + 1


def test_drafts_and_committed_tokens_give_the_same_masks() -> None:
    rng = random.Random(5)
    job = random_job(rng)
    ids = COMPACT.encode_ops(job.prediction.ops)
    one, other = COMPACT.constraint(job), COMPACT.constraint(job)
    assert one is not None
    assert other is not None
    drafted = one.masks([], ids[:-1])
    for at, allowed in enumerate(drafted):
        committed = other.masks(ids[:at], [])[0]
        assert allowed is not None
        assert committed is not None
        assert allowed.tolist() == committed.tolist()


def test_a_forbidden_draft_token_frees_what_follows() -> None:
    job, _ = sample_job()
    constraint = COMPACT.constraint(job)
    assert constraint is not None
    masks = constraint.masks([], [VOCABULARY.end, VOCABULARY.end])
    assert masks[0] is not None
    assert VOCABULARY.end not in masks[0]
    assert masks[1] is None


# -- cost and errors ---------------------------------------------------------------------------------------------------
def test_a_mask_is_as_large_as_the_choice_not_as_the_vocabulary() -> None:
    rng = random.Random(11)
    for _ in range(10):
        job = random_job(rng)
        ids = COMPACT.encode_ops(job.prediction.ops)
        constraint = COMPACT.constraint(job)
        assert constraint is not None
        sizes = [len(mask) for mask in constraint.masks([], ids[:-1]) if mask is not None]
        assert max(sizes) <= LOOK_AHEAD + 3
        assert sizes.count(1) >= sum(not VOCABULARY.is_tag(token) for token in ids) - 1


def test_a_tokenizer_of_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotLoadable):
        Compact.from_directory(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"added_tokens": [], "model": {}}')
    with pytest.raises(ModelNotLoadable):
        LineVocabulary.from_file(tmp_path / "tokenizer.json")
