"""Names that are spelt wrong: of options, commands, settings, files.  The right one is asked for."""

from pathlib import Path

import pytest

from apply_service.cli import main
from apply_service.commands.output import closest, file_hint
from tests.commands.conftest import OLD


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["aply", "a.py", "edit.txt"], "apply"),
        (["apply", "a.py", "edit.txt", "--in-plac"], "--in-place"),
        (["apply", "a.py", "edit.txt", "--modle=SECRET"], "--model"),
        (["serve", "--prot", "80"], "--port"),
        (["mcp", "--strategy", "exat"], "exact"),
        (["models", "pul", "x"], "pull"),
        (["apply", "a.py", "edit.txt", "--format", "lazy"], "lazy_snippet"),
        (["apply", "a.py", "edti.txt"], "edit.txt"),
        (["apply", "wrok/a.py", "edit.txt"], "work/a.py"),
        (["apply", "b.py", "edit.txt"], "src/deep/b.py"),
        (["apply", "-p", "edit.tx"], "edit.txt"),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, list) else "",
)
def test_the_right_name_is_asked_for(
    folder: Path, capsysbinary: pytest.CaptureFixture[bytes], arguments: list[str], meant: str
) -> None:
    (folder / "edit.txt").write_text("# ... existing code ...\nname = 2\n")
    (folder / "work").mkdir()
    (folder / "work" / "a.py").write_bytes(OLD)
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "src" / "deep" / "b.py").write_bytes(OLD)
    assert main(arguments) in (2, 3)
    out, err = capsysbinary.readouterr()
    assert out == b""
    assert f"Did you mean {Path(meant)}?".encode() in err
    assert b"SECRET" not in err
    assert not (folder / "b.py").exists()


def test_a_misspelt_variable(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setenv("APPLY_SERVICE_MODLE", "embedded")
    assert main(["models"]) == 2
    assert b"Did you mean model?" in capsysbinary.readouterr().err


def test_a_new_file_that_looks_like_a_mistake(
    folder: Path, url: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    (folder / "settings.py").write_bytes(OLD)
    assert main(["apply", "setings.py", "edit.txt", "--in-place", "--server", url]) == 0
    assert b"setings.py is a new file. Did you mean settings.py?" in capsysbinary.readouterr().err


def test_nothing_like_it() -> None:
    assert closest("xyz", ["apply", "serve"]) is None
    assert closest("", ["apply"]) is None
    assert file_hint("no/such/thing.at.all") == ""


def test_names_and_options_in_any_order(folder: Path, url: str) -> None:
    for words in (["a.py", "edit.txt", "-i"], ["-i", "a.py", "edit.txt"], ["a.py", "-i", "edit.txt"]):
        (folder / "a.py").write_bytes(OLD)
        assert main(["apply", *words, "-q", "--server", url]) == 0
        assert (folder / "a.py").read_bytes() != OLD


@pytest.mark.parametrize(
    "words", [["a.py", "edit.txt", "more.txt"], ["a.py", "edit.txt", "--update", "edit.txt"]], ids=["three", "twice"]
)
def test_one_snippet(folder: Path, words: list[str], capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["apply", *words]) == 2
    assert b"\n  " in capsysbinary.readouterr().err
