"""The shapes to replay are those that were published."""

from __future__ import annotations

import pytest

from apply_eval.replay import find_shape, read_shapes
from apply_service.errors import UnknownModel

WANTED = {"qwen2.5-coder-1.5b", "qwen2.5-coder-7b", "qwen2.5-coder-32b", "llama-3-70b", "llama-3-70b-fp8"}
NON_EMBEDDING = {"qwen2.5-coder-1.5b": 1.31e9, "qwen2.5-coder-7b": 6.53e9, "qwen2.5-coder-32b": 31.0e9}
"""As the model cards state them."""


def test_all_shapes_are_there() -> None:
    assert set(read_shapes()) >= WANTED


@pytest.mark.parametrize("name", sorted(WANTED))
def test_parameters_are_those_of_the_published_model(name: str) -> None:
    shape = find_shape(f"replay:{name}")
    assert shape.n_params == pytest.approx(shape.published_params, rel=0.01)


@pytest.mark.parametrize("name", sorted(NON_EMBEDDING))
def test_parameters_beside_the_embeddings_are_those_of_the_published_model(name: str) -> None:
    shape = find_shape(f"replay:{name}")
    embeddings = shape.n_vocab * shape.d_model * (1 if shape.tied else 2)
    assert shape.n_params - embeddings == pytest.approx(NON_EMBEDDING[name], rel=0.01)


@pytest.mark.parametrize(("name", "n_params"), [("tiny-2m", 2e6), ("tiny-10m", 10e6), ("tiny-50m", 50e6)])
def test_tiny_shapes_are_as_large_as_their_names(name: str, n_params: float) -> None:
    assert find_shape(f"replay:{name}").n_params == pytest.approx(n_params, rel=0.25)


def test_every_shape_names_its_source_and_holds_the_tokenizer() -> None:
    for shape in read_shapes().values():
        assert shape.source
        assert shape.n_vocab >= 32_768 + 6
        assert shape.d_model == shape.n_heads * shape.d_head


def test_an_unknown_shape_is_refused_by_name() -> None:
    with pytest.raises(UnknownModel) as refused:
        find_shape("replay:gpt-5")
    assert "replay:tiny-2m" in refused.value.limit  # type: ignore[operator]
