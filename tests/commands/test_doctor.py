"""`apply-service doctor`: says what works and what does not, and dies of neither."""

import json
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from apply_service import build
from apply_service.cli import main
from apply_service.commands import doctor
from apply_service.errors import ModelNotLoadable
from tests.engine.tiny_models import save_tiny


class Found(NamedTuple):
    buckets: tuple[int, ...] = (8, 32)
    determinism: str = "bitwise"
    divergence: float = 0.0
    attention: str = "sdpa"
    has_graphs: bool = False
    notes: tuple[str, ...] = ("no kernel here",)
    pass_times: dict[int, float] = {8: 0.1, 32: 0.2}  # noqa: RUF012
    plain_s: float = 0.08


class Loaded(NamedTuple):
    self_test: Found = Found()
    number_format: str = "bfloat16"


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("APPLY_SERVICE_ENGINE", "torch")


def run(capsysbinary: pytest.CaptureFixture[bytes]) -> tuple[int, dict[str, tuple[bool, str]]]:
    code = main(["doctor", "--json"])
    findings = json.loads(capsysbinary.readouterr().out)
    return code, {finding["topic"]: (finding["is_ok"], finding["text"]) for finding in findings}


def test_a_drafter_that_does_not_exist(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(build, "load_anew", lambda name, settings: Loaded())
    monkeypatch.setenv("APPLY_SERVICE_DRAFTER", "nonsense")
    code, findings = run(capsysbinary)
    assert code == 4
    assert findings["drafter"] == (False, "nonsense: no such drafter")


def test_all_is_well(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    monkeypatch.setattr(build, "load_anew", lambda name, settings: Loaded())
    code, findings = run(capsysbinary)
    assert code == 0
    assert all(is_ok for is_ok, _ in findings.values())
    speeds = "by its rows: 8 100, 32 200; at most 12.5 tokens a second without drafts, 160 with all drafts right"
    assert f"determinism: bitwise; milliseconds of a pass {speeds}" in findings["model"][1]
    assert findings["model"][1].endswith("attention sdpa, CUDA graphs off (no kernel here)")
    assert findings["torch"][1][0].isdigit()
    assert main(["doctor"]) == 0
    assert b"ok   model: embedded loads in bfloat16" in capsysbinary.readouterr().out


def test_the_embedded_model_needs_no_torch(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.delenv("APPLY_SERVICE_ENGINE")
    monkeypatch.setattr(doctor, "MODEL_PACKAGES", ("no-such-package",))
    monkeypatch.setitem(sys.modules, "torch", None)
    code, findings = run(capsysbinary)
    assert code == 0
    assert findings["no-such-package"] == (True, "not installed; the embedded model needs none")
    assert "runs on NumPy" in findings["model"][1]


@pytest.mark.parametrize("error", [ModelNotLoadable("no weights", remedy="reinstall"), RuntimeError("no weights")])
def test_a_model_that_does_not_load(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(build, "load_anew", fail)
    code, findings = run(capsysbinary)
    assert code == 4
    assert findings["model"][0] is False
    assert "no weights" in findings["model"][1]


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    monkeypatch.setattr(build, "load_anew", lambda name, settings: Loaded())
    monkeypatch.setattr(doctor, "PACKAGES", ("no-such-package",))
    code, findings = run(capsysbinary)
    assert code == 4
    assert findings["no-such-package"] == (False, "not installed")


@pytest.mark.parametrize(
    ("removed", "environment", "says"),
    [("tokenizer.json", {}, "tokenizer"), ("", {"DRAFTER": "merged_edit+medusa", "DRAFT_HEAD": "head"}, "medusa")],
)
def test_what_serve_would_refuse_is_no_ok(
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
    tmp_path: Path,
    removed: str,
    environment: dict[str, str],
    says: str,
) -> None:
    model = save_tiny(tmp_path / "model")
    (model / removed).unlink() if removed else (tmp_path / "head").mkdir()
    monkeypatch.chdir(tmp_path)
    for name, value in ({"MODEL": str(model), "WINDOW": "7"} | environment).items():
        monkeypatch.setenv(f"APPLY_SERVICE_{name}", value)
    code, findings = run(capsysbinary)
    assert code == 4
    assert findings["model"][0] is False
    assert says in findings["model"][1]
