"""The NumPy engine: the torch engine's logits, texts and verdicts, and the lossless law on its own forwards."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from apply_eval.datasets import read_records
from apply_service.build import build_runtime, load_target
from apply_service.drafting.drafter import NoDraft
from apply_service.engine import sampling
from apply_service.engine.layout import WindowRows
from apply_service.engine.numpy_local import KEY_BLOCK, NumpyEngine, choose, find_determinism, gumbel_noise
from apply_service.engine.torch_local import TorchEngine
from apply_service.errors import ApplyError, ContextLimitExceeded, EngineFailure, ModelNotLoadable
from apply_service.models import embedded_directory
from apply_service.pipeline import apply
from apply_service.protocols import Drafter, Prefill, SamplingParams, Session, Window
from apply_service.settings import Settings
from apply_service.target import Runtime
from apply_service.types import ApplyRequest
from tests.adversarial import AlwaysWrong, RandomDraft
from tests.engine.test_torch_local import decode

N_VOCAB = 4358
SHIPPED = Path(__file__).parents[2] / "eval" / "apply_eval" / "fixtures" / "own_edits.jsonl"


@cache
def runtime(engine: str) -> Runtime:
    return build_runtime(Settings(engine=engine))


@cache
def engine() -> NumpyEngine:
    return NumpyEngine(embedded_directory(), name="embedded", prefix_cache_bytes=2**26)


def ids_of(n: int, seed: int = 0) -> list[int]:
    return [int(i) for i in np.random.default_rng(seed).integers(0, N_VOCAB, n)]


def opened(engine: Any, prompt: Sequence[int], limit: int, owner: str = "") -> Session:
    session = cast(Session, engine.open(prompt, limit, owner=owner))
    while session.n_pending:
        engine.step([Prefill(session, min(session.n_pending, engine.prefill_grain))])
    return session


def test_logits_are_those_of_the_torch_engine() -> None:
    """A prompt and a window over three blocks of keys, beside a neighbour."""
    theirs = cast(TorchEngine, load_target("embedded", Settings(engine="torch")).engine)
    ids = ids_of(700)
    found = []
    for one in (engine(), theirs):
        neighbour, session = opened(one, ids[:40], 9), opened(one, ids[:601], 99)
        windows = [Window(part, ids[600], ids[601:690], SamplingParams()) for part in (session,)]
        parts = [Window(neighbour, 5, ids[:7], SamplingParams()), *windows]
        with session, neighbour:
            logits = one.logits(parts) if isinstance(one, NumpyEngine) else one.logits(parts, 128)
        found.append(np.asarray(torch.as_tensor(logits[0][8 : 8 + 90]).tolist()))
    assert np.abs(found[0] - found[1]).max() < 1e-3 * found[1].std()


def outcome(request: ApplyRequest, engine: str) -> object:
    """What a caller sees, but for times and the last digits of probabilities."""
    try:
        result = apply(request, runtime(engine))
    except ApplyError as error:
        return type(error), error.value
    verdicts = [(verdict.check, verdict.severity, verdict.message) for verdict in result.verdicts]
    confidence = None if result.confidence is None else round(result.confidence, 3)
    return result.merged_code, result.strategy, verdicts, confidence


@pytest.mark.parametrize("strategy", ["auto", "model"])
def test_same_text_and_verdicts_as_the_torch_engine(strategy: str) -> None:
    records = sorted(read_records(SHIPPED), key=lambda record: len(record.before))[:12]
    for record in records:
        request = ApplyRequest(original=record.before, update=record.update, path=record.path, strategy=strategy)
        assert outcome(request, "local") == outcome(request, "torch"), record.id
    sampled = replace(request, strategy="model", temperature=0.7, seed=3)
    assert outcome(sampled, "local") == outcome(sampled, "torch")


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(("prompt_length", "limit"), [(5, 40), (KEY_BLOCK - 9, 30)])
def test_drafts_change_nothing(temperature: float, prompt_length: int, limit: int) -> None:
    if engine().determinism != "bitwise":
        pytest.skip("this processor's kernels differ between places in a product")
    ours: Any = engine()
    prompt, how = ids_of(prompt_length), SamplingParams(temperature, 9)
    answer = decode(ours, NoDraft(), prompt, how, limit).output_ids
    drafters: list[Drafter] = [RandomDraft(N_VOCAB, seed=1, answer=answer), AlwaysWrong(answer, N_VOCAB)]
    for drafter in drafters:
        assert decode(ours, drafter, prompt, how, limit).output_ids == answer, type(drafter).__name__


@pytest.mark.parametrize("seed", range(6))
def test_a_row_has_the_same_bits_in_any_pass(seed: int) -> None:
    """However the prompt was read, whatever the window, wherever it stands, and whoever is beside it."""
    rng, ids = random.Random(seed), ids_of(300, seed)
    last = rng.choice([30, KEY_BLOCK - 1, KEY_BLOCK, 290])
    rows = []
    for i in range(5):
        first = last - rng.choice([0, 1, 3, 4, 11])
        session = cast(Session, engine().open(ids[: first + 1], 60, owner=f"{seed}.{i}"))
        while session.n_pending:
            engine().step([Prefill(session, min(session.n_pending, rng.choice([64, 128, 192])))])
        neighbours = [opened(engine(), ids_of(rng.randint(2, 80), seed + n), 20) for n in range(rng.randrange(3))]
        parts = [Window(one, 7, ids[: rng.randrange(9)], SamplingParams()) for one in neighbours]
        parts.append(Window(session, ids[first], ids[first + 1 : last + 1 + rng.randrange(6)], SamplingParams()))
        logits, layout = engine().logits(parts)
        rows.append(logits[layout.windows[-1].first + last - first].copy())
        for one in (session, *neighbours):
            one.close()
    assert all(np.array_equal(row, rows[0]) for row in rows), f"seed {seed}"


def test_the_prefix_cache_gives_the_same_bits() -> None:
    ids = ids_of(200, seed=8)
    rows = []
    for _ in range(2):
        with opened(engine(), ids, 9, owner="again") as session:
            rows.append(engine().logits([Window(session, ids[-1], [], SamplingParams())])[0].copy())
    assert session.n_cached == 192
    assert np.array_equal(*rows)


def test_determinism_is_measured() -> None:
    """A model made to differ: its output depends on how many rows a pass has."""
    odd = NumpyEngine(embedded_directory(), name="odd")
    honest = odd._normed
    odd._normed = lambda hidden, weight: honest(hidden, weight) + np.float32(hidden.shape[1] == odd.tile)  # type: ignore[method-assign]
    assert find_determinism(odd) == "tolerant"


def test_choices_are_those_of_the_torch_engine() -> None:
    rng = np.random.default_rng(1)
    logits = rng.standard_normal((7, 50)).astype(np.float32)
    logits[2] = 0  # ties
    windows = [
        WindowRows(0, 3, 5, SamplingParams(), [None, np.array([3, 9]), None]),
        WindowRows(3, 4, 90, SamplingParams(0.8, 2**63 + 5), [np.array([1]), None]),
    ]
    choices, logprobs = choose(logits, windows)
    wanted = sampling.choose(torch.from_numpy(logits), windows)
    assert choices.tolist() == wanted.tolist()
    np.testing.assert_allclose(logprobs, sampling.logprobs_of(torch.from_numpy(logits), wanted).numpy(), atol=1e-5)
    noise = sampling.gumbel_noise(7, torch.arange(3, 9), 100).numpy()
    np.testing.assert_allclose(gumbel_noise(7, np.arange(3, 9), 100), noise, rtol=1e-5, atol=1e-6)
    with pytest.raises(EngineFailure, match="allowed tokens"):
        choose(logits[:1], [WindowRows(0, 1, 0, SamplingParams(), [np.array([50])])])


def test_what_is_no_number_is_an_error_and_is_not_kept() -> None:
    broken = NumpyEngine(embedded_directory(), name="broken", prefix_cache_bytes=2**24)
    broken._norm = broken._norm * np.float32(np.nan)
    session = opened(broken, ids_of(100), 9)
    with session, pytest.raises(EngineFailure, match="not a number"):
        broken.step([Window(session, 1, [], SamplingParams())])
    assert broken.prefix_cache.n_slots == 0
    assert broken.pool.n_free == broken.pool.n_slots


def test_limits() -> None:
    with pytest.raises(ContextLimitExceeded):
        engine().open([1] * 8000, 300)
    assert NumpyEngine(embedded_directory(), name="narrow", max_draft=7).max_draft == 7


def test_a_folder_without_the_model(tmp_path: Path) -> None:
    with pytest.raises(ModelNotLoadable, match="can't be read"):
        NumpyEngine(tmp_path, name="none")
