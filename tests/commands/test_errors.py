"""Errors on the command line: exit codes, what is shown, and that nothing is written."""

import json
from pathlib import Path

import pytest

from apply_service.cli import main
from apply_service.commands.output import MEANINGS, exit_code
from apply_service.errors import (
    ApplyError,
    CheckFailed,
    DeadlineExceeded,
    EmptyUpdate,
    FileChanged,
    ModelNotLoadable,
    NeedsMoreContext,
    SettingsError,
    StaleBase,
    Truncated,
    UnknownModel,
    Unreachable,
)
from tests.commands.conftest import OLD, last_code
from tests.doubles import ScriptedRun


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CheckFailed("m"), 1),
        (Truncated("m"), 1),
        (EmptyUpdate("m"), 2),
        (SettingsError("m"), 2),
        (FileChanged("m"), 3),
        (StaleBase("m"), 3),
        (UnknownModel("m"), 4),
        (ModelNotLoadable("m"), 4),
        (Unreachable("m"), 4),
        (DeadlineExceeded("m"), 4),
        (NeedsMoreContext("m"), 5),
    ],
)
def test_exit_codes(error: ApplyError, code: int) -> None:
    assert exit_code(error) == code
    assert code in MEANINGS


def test_errors_of_the_server_are_shown_in_full(
    folder: Path, url: str, run: ScriptedRun, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    run.error = NeedsMoreContext("no anchor", value=["def f"], limit="one place", remedy="show more lines")
    for options in ([], ["--in-place"], ["--json"]):
        assert main(["apply", "a.py", "--update", "edit.txt", "--server", url, *options]) == 5
        out, err = capsysbinary.readouterr()
        assert err.decode().splitlines() == [
            "apply-service: a.py: no anchor: def f",
            "  Allowed: one place",
            "  Show more lines.",
        ]
        assert (json.loads(out)["error"]["code"] if options == ["--json"] else out) in ("needs_more_context", b"")
    assert (folder / "a.py").read_bytes() == OLD


@pytest.mark.parametrize(
    ("arguments", "code", "name"),
    [
        (["nonsense"], 2, "invalid_field"),
        (["apply"], 2, "invalid_field"),
        (["apply", "a.py", "--bla"], 2, "invalid_field"),
        (["apply", "a.py", "--on-verdict", "nothing=fail"], 2, "invalid_field"),
        (["apply", "a.py", "--request", "-"], 2, "unsupported_parameter"),
        (["apply", "a.py", "--window", "0"], 2, "bad_setting"),
        (["apply", "a.py", "--config", "missing.toml"], 2, "bad_setting"),
        (["apply", "a.py", "--server", "nonsense", "--update", "edit.txt"], 2, "bad_setting"),
        (["apply", ".", "--update", "edit.txt"], 3, "file_not_readable"),
        (["apply", "a.py", "--update", "missing.txt"], 3, "file_not_readable"),
        (["apply", "a.py", "--update", "latin.txt"], 2, "bad_encoding"),
        (["undo", "a.py"], 3, "no_backup"),
    ],
)
def test_bad_command_lines(
    folder: Path, capsysbinary: pytest.CaptureFixture[bytes], arguments: list[str], code: int, name: str
) -> None:
    (folder / "latin.txt").write_bytes(b"\xe9")
    assert main(arguments) == code
    out, err = capsysbinary.readouterr()
    assert last_code() == name
    assert b"\n  " in err
    assert out == b""


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (".", "it is a folder"),
        ("..", "it is a folder"),
        ("", "it is a folder"),
        ("no/a.py", "its folder does not exist"),
    ],
)
def test_why_a_file_cannot_be_read(
    folder: Path, capsysbinary: pytest.CaptureFixture[bytes], name: str, why: str
) -> None:
    assert main(["apply", name, "--update", "edit.txt"]) == 3
    assert why.encode() in capsysbinary.readouterr().err


@pytest.mark.parametrize("command", ["apply a.py --update edit.txt", "serve --port 0"])
def test_a_default_drafter_that_does_not_exist_stops_the_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], command: str
) -> None:
    loaded: list[str] = []
    monkeypatch.setattr("apply_service.build.load_target", lambda name, settings: loaded.append(name))
    monkeypatch.setenv("APPLY_SERVICE_DRAFTER", "nonsense")
    assert main(command.split()) == 2
    err = capsysbinary.readouterr().err.decode()
    assert last_code() == "bad_setting"
    assert "nonsense\n" in err
    assert "merged_edit" in err
    assert "\n  " in err
    assert loaded == []
    assert (folder / "a.py").read_bytes() == OLD


def test_a_server_that_is_not_there(folder: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["apply", "a.py", "--update", "edit.txt", "--server", "http://127.0.0.1:9", "--in-place"]) == 4
    assert last_code() == "unreachable"
    assert (folder / "a.py").read_bytes() == OLD


def test_interrupting_is_no_crash(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("apply_service.commands.request.answer_request", interrupt)
    assert main(["apply", "a.py", "--update", "edit.txt", "--in-place"]) == 130
    assert (folder / "a.py").read_bytes() == OLD
