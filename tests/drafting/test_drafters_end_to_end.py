"""Every drafter by name, through settings and pipeline, with the embedded model as target and as draft model."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from apply_service.build import build_runtime, load_anew
from apply_service.drafting.drafter import drafter_names
from apply_service.errors import ModelNotLoadable, SettingsError, UnknownDrafter, UnknownModel, UnsupportedParameter
from apply_service.models import embedded_directory
from apply_service.pipeline import apply, read_edit
from apply_service.registry import COPY_DRAFTERS
from apply_service.settings import Settings
from apply_service.target import Runtime, in_process, open_decoding
from apply_service.types import ApplyRequest
from tests.decoding.alone import decode_alone
from tests.engine.test_heads import save_eagle, save_medusa, save_mtp
from tests.engine.tiny_models import save_tiny

REQUEST = ApplyRequest(
    original="import os\n\n\ndef area(w, h):\n    return w * h\n\n\ndef name():\n    return os.name\n",
    update="# ...\n\ndef area(w, h):\n    if w < 0:\n        return 0\n    return w * h\n\n\ndef name():\n",
    path="shapes.py",
    strategy="model",
    max_tokens=120,
    seed=5,
)


@cache
def runtime() -> Runtime:
    return build_runtime(Settings(draft_model="embedded", drafter="merged_edit+draft_model"))


def decoded_ids(drafter: str, *, temperature: float) -> list[int]:
    request = replace(REQUEST, temperature=temperature)
    decoding = open_decoding(read_edit(request, None), request, runtime().load("embedded"), drafter)
    for _ in decode_alone(decoding):
        pass
    return decoding.output_ids


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_no_drafter_changes_what_the_embedded_model_writes(temperature: float) -> None:
    plain = decoded_ids("none", temperature=temperature)
    assert len(plain) > 40
    names = [*drafter_names(has_draft_model=True)]
    for name in [one for one in names if "+" not in one or one.startswith("merged_edit")]:
        assert decoded_ids(name, temperature=temperature) == plain, name


def test_the_answer_names_the_chain_that_drafted() -> None:
    result = apply(replace(REQUEST, max_tokens=None), runtime())
    assert result.drafter == "merged_edit+draft_model"
    assert result.stats.passes < result.stats.completion_tokens / 5


def test_a_draft_model_is_loaded_with_its_target(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    with pytest.raises(UnknownModel) as caught:
        build_runtime(Settings(draft_model=missing)).load("embedded")
    assert caught.value.value == missing


def test_a_draft_model_of_another_family_is_refused_before_any_pass(tmp_path: Path) -> None:
    other = build_runtime(Settings(draft_model=str(save_tiny(tmp_path))))
    with pytest.raises(UnsupportedParameter, match="tokenizer") as caught:
        apply(replace(REQUEST, drafter="original+draft_model"), other)
    assert caught.value.value == str(tmp_path)
    assert "draft_model" in caught.value.remedy
    assert apply(replace(REQUEST, drafter="merged_edit", max_tokens=None), other).drafter == "merged_edit"


def test_a_model_does_not_start_where_its_default_drafter_could_not_draft(tmp_path: Path) -> None:
    settings = Settings(draft_model=str(save_tiny(tmp_path)), drafter="merged_edit+draft_model")
    with pytest.raises(ModelNotLoadable, match="tokenizer") as caught:
        build_runtime(settings).load("embedded")
    assert caught.value.value == str(tmp_path)
    embedded = str(embedded_directory())
    with pytest.raises(ModelNotLoadable, match="tokenizer"):
        load_anew(str(tmp_path), replace(settings, model=str(tmp_path), draft_model=embedded))


def test_a_draft_model_with_the_targets_tokenizer_drafts(tmp_path: Path) -> None:
    target, small = save_tiny(tmp_path / "target"), save_tiny(tmp_path / "small", "llama")
    made = build_runtime(Settings(model=str(target), draft_model=str(small)))
    request = replace(REQUEST, max_tokens=30)
    job = read_edit(request, None)
    outputs = []
    for name in ("none", "draft_model"):
        decoding = open_decoding(job, request, made.load(str(target)), name)
        for _ in decode_alone(decoding):
            pass
        outputs.append(decoding.output_ids)
    assert outputs[0] == outputs[1]
    assert decoding.stats.drafted_tokens > 0


@pytest.mark.parametrize("head", ["self_speculation", "eagle3", "medusa", "mtp"])
def test_a_head_drafts_for_the_first_model_and_is_refused_elsewhere(head: str, tmp_path: Path) -> None:
    model, folder = save_tiny(tmp_path / "model"), tmp_path / "head"
    if head == "mtp":
        save_mtp(tmp_path / "more", "mtp.")
        (tmp_path / "more" / "model.safetensors").rename(model / "mtp.safetensors")
    elif head != "self_speculation":
        (save_eagle if head == "eagle3" else save_medusa)(folder)
    own = {"draft_head": str(folder)} if folder.exists() else {}
    made = build_runtime(Settings(model=str(model), drafter=f"suffix+{head}", **own))  # type: ignore[arg-type]
    request = replace(REQUEST, max_tokens=30, temperature=0.5)
    job = read_edit(request, None)
    outputs = []
    for name in ("none", f"merged_edit+suffix+{head}", head):
        decoding = open_decoding(job, request, made.load(str(model)), name)
        for _ in decode_alone(decoding):
            pass
        outputs.append(decoding.output_ids)
    assert outputs[0] == outputs[1] == outputs[2]
    assert decoding.stats.drafted_tokens > 0
    with pytest.raises(UnsupportedParameter, match="no head"):
        apply(replace(REQUEST, model="embedded", drafter=head), made)
    with pytest.raises(UnsupportedParameter, match=f"was not started with {head}"):
        apply(replace(REQUEST, drafter=head), build_runtime(Settings()))


def test_requests_and_settings_are_refused_alike() -> None:
    plain = build_runtime(Settings())
    with pytest.raises(UnknownDrafter):
        apply(replace(REQUEST, drafter="merged_edit+psychic"), plain)
    with pytest.raises(UnsupportedParameter, match="no draft model"):
        apply(replace(REQUEST, drafter="draft_model"), plain)
    for name in ("suffix+merged_edit", "draft_model"):
        with pytest.raises(SettingsError) as caught:
            build_runtime(Settings(drafter=name))
        assert caught.value.value == name


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_begun_answer_goes_on_with_the_file_whatever_is_drafted(temperature: float, tmp_path: Path) -> None:
    """A chat model that was not trained to merge: held to the sources, its first token is of one of their lines."""
    made = build_runtime(Settings(model=str(save_tiny(tmp_path))))
    target = in_process(made.load(str(tmp_path)))
    for constrain in ("none", "sources"):
        request = replace(REQUEST, temperature=temperature, constrain=constrain, max_tokens=60)
        job = read_edit(request, None)
        outputs = []
        for name in ("none", *COPY_DRAFTERS, "prompt_lookup"):
            with open_decoding(job, request, target, name) as decoding:
                for _ in decode_alone(decoding):
                    pass
            outputs.append(decoding.output_ids)
        assert all(output == outputs[0] for output in outputs)
    first, *_ = target.prompt_format.open_stream().push(outputs[0]).split("\n")
    assert any(line.startswith(first) for line in (job.original + job.update).split("\n"))
