"""The prompt format of a model, from its folder alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apply_service.errors import ModelNotLoadable
from apply_service.models import embedded_directory
from apply_service.prompts.by_model import infer_prompt_format, open_prompt_format, open_prompt_formats
from tests.engine.tiny_models import tiny_tokenizer


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("Kortix/FastApply-7B-v1.0", "fastapply"),
        ("osmosis-ai/Osmosis-Apply-1.7B", "osmosis"),
        ("aiXcoder/aiXapply-4B-SFT", "aixapply"),
        ("/cache/models--Kortix--FastApply-1.5B-v1.0/snapshots/4ad19fe", "fastapply"),
        ("/models/FastApply-1.5B-v1.0.Q4_K_M-0123abcd", "fastapply"),
        ("Qwen/Qwen2.5-Coder-7B-Instruct", "chat"),
    ],
)
def test_published_names_tell_the_format(source: str, name: str) -> None:
    assert infer_prompt_format(source) == name


def test_the_embedded_model_has_one_format_of_its_own() -> None:
    assert [one.name for one in open_prompt_formats(str(embedded_directory()))] == ["compact"]


def test_a_chat_model_can_be_asked_in_all_others_too(tmp_path: Path) -> None:
    folder = tmp_path / "FastApply-small"
    tiny_tokenizer().save_pretrained(folder)
    own, *others = open_prompt_formats(str(folder))
    assert own.name == "fastapply"
    assert sorted(one.name for one in others) == ["aixapply", "begun_chat", "chat", "osmosis"]
    assert open_prompt_format(str(folder)).name == "fastapply"


def test_an_answer_is_begun_only_where_the_model_is_at_hand(tmp_path: Path) -> None:
    """A chat server takes no beginning of the answer, so its drafts may not count on one."""
    tiny_tokenizer().save_pretrained(tmp_path)
    assert open_prompt_formats(str(tmp_path))[0].name == "chat"
    assert open_prompt_format(str(tmp_path)).name == "begun_chat"


def test_the_record_of_a_folder_wins(tmp_path: Path) -> None:
    folder = tmp_path / "FastApply-small"
    tiny_tokenizer().save_pretrained(folder)
    (folder / "apply_service.json").write_text(json.dumps({"prompt_format": "osmosis"}), encoding="utf-8")
    assert open_prompt_format(str(folder)).name == "osmosis"


@pytest.mark.parametrize("record", ["{", '{"prompt_format": "replay"}', '{"prompt_format": "telepathy"}'])
def test_a_record_of_no_use_is_refused(tmp_path: Path, record: str) -> None:
    (tmp_path / "apply_service.json").write_text(record, encoding="utf-8")
    with pytest.raises(ModelNotLoadable):
        open_prompt_format(str(tmp_path))


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    with pytest.raises(ModelNotLoadable):
        open_prompt_format(str(tmp_path))
