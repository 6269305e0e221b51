"""`apply --in-place` and `undo`: files written, and files left alone."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apply_service.cli import main
from apply_service.types import Verdict
from tests.commands.conftest import OLD, last_code
from tests.doubles import ScriptedRun


def test_in_place_writes_and_undo_takes_it_back(
    folder: Path, url: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["apply", "a.py", "--update", "edit.txt", "--server", url, "--in-place"]) == 0
    out, err = capsysbinary.readouterr()
    assert out == b""
    assert b"apply-service undo a.py" in err
    assert (folder / "a.py").read_bytes() == b"new\r\nname = 1\n"
    assert main(["undo", "a.py"]) == 0
    assert (folder / "a.py").read_bytes() == OLD
    assert main(["undo", "a.py"]) == 3
    assert last_code() == "no_backup"


@pytest.mark.parametrize(("platform", "quoted"), [("linux", "'my file.py'"), ("win32", '"my file.py"')])
def test_the_way_back_can_be_copied_into_the_systems_own_shell(
    platform: str,
    quoted: str,
    folder: Path,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (folder / "my file.py").write_bytes(OLD)
    monkeypatch.setattr(sys, "platform", platform)
    words = ["apply", "my file.py", "--update", "edit.txt", "--server", url, "-i", "--state-dir", str(folder / "state")]
    assert main(words) == 0
    assert f"`apply-service undo {quoted}`" in capsys.readouterr().err


def test_a_file_that_does_not_exist_is_a_new_file(folder: Path, url: str, run: ScriptedRun) -> None:
    assert main(["apply", "new.py", "--update", "edit.txt", "--server", url, "--in-place"]) == 0
    assert run.requests[0].original == ""
    assert (folder / "new.py").read_bytes() == b"new\r\nname = 1\n"
    assert main(["undo", "new.py"]) == 0
    assert not (folder / "new.py").exists()


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names are Unicode there")
def test_a_file_whose_name_is_not_utf8(
    folder: Path, url: str, run: ScriptedRun, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    name = os.fsdecode(b"caf\xe9.py")
    (folder / name).write_bytes(OLD)
    assert main(["apply", name, "--update", "edit.txt", "--server", url, "--in-place"]) == 0
    assert run.requests[0].path == "caf\ufffd.py"
    assert (folder / name).read_bytes() == b"new\r\nname = 1\n"
    assert main(["undo", name]) == 0
    assert (folder / name).read_bytes() == OLD


def test_in_place_without_a_change_writes_nothing(folder: Path, url: str, run: ScriptedRun) -> None:
    run.result = replace(run.result, merged_code=OLD.decode())
    before = (folder / "a.py").stat()
    assert main(["apply", "a.py", "--update", "edit.txt", "--server", url, "--in-place"]) == 0
    assert (folder / "a.py").stat().st_ino == before.st_ino
    assert main(["undo", "a.py"]) == 3


def test_an_answer_in_doubt_is_written_only_where_that_is_allowed(
    folder: Path, url: str, run: ScriptedRun, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    run.result = replace(run.result, verdicts=(Verdict("doubt", "warning", "80% sure"),))
    assert main(["apply", "a.py", "--update", "edit.txt", "--server", url, "--in-place"]) == 1
    assert b"a.py was not changed: 80% sure.\n" in capsysbinary.readouterr().err
    assert (folder / "a.py").read_bytes() == OLD
    assert main(["apply", "a.py", "--update", "edit.txt", "--server", url, "--in-place", "--allow-doubt"]) == 0
    assert (folder / "a.py").read_bytes() != OLD
    assert run.requests[-1].on_verdict == {"doubt": "warn"}


def test_in_place_refuses_where_a_check_found_an_error(
    folder: Path, url: str, run: ScriptedRun, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    run.result = replace(run.result, verdicts=(Verdict("syntax", "error", "broken", (3, 4)),))
    command = ["apply", "a.py", "--update", "edit.txt", "--server", url]
    assert main([*command, "--in-place"]) == 1
    assert (folder / "a.py").read_bytes() == OLD
    err = capsysbinary.readouterr().err
    assert last_code() == "check_failed"
    assert b"a.py was not changed: broken (lines 3-4 of the merged file, check syntax)" in err
    assert main(command) == 1  # printed, but the exit code says so
    out, err = capsysbinary.readouterr()
    assert out == b"new\r\nname = 1\n"
    assert b"a.py: sure, 1 hunk; look at it before you use it\n" in err
    assert b"  broken (lines 3-4 of the merged file, check syntax)\n" in err
    assert main([*command, "--in-place", "--on-verdict", "syntax=warn"]) == 0
    assert (folder / "a.py").read_bytes() == b"new\r\nname = 1\n"


def test_in_place_refuses_a_file_that_changed_meanwhile(
    folder: Path,
    url: str,
    run: ScriptedRun,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    from apply_service.commands import request

    def answer_and_meddle(*arguments: Any) -> dict[str, Any]:
        (folder / "a.py").write_bytes(b"someone else's")
        return real(*arguments)

    real = request.answer_request
    monkeypatch.setattr(request, "answer_request", answer_and_meddle)
    assert main(["apply", "a.py", "--update", "edit.txt", "--server", url, "--in-place"]) == 3
    assert last_code() == "file_changed"
    assert (folder / "a.py").read_bytes() == b"someone else's"


def test_with_diff_a_refused_answer_is_shown(
    folder: Path, url: str, run: ScriptedRun, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    run.result = replace(run.result, verdicts=(Verdict("doubt", "warning", "two places fit"),))
    assert main(["apply", "a.py", "--update", "edit.txt", "--server", url, "--in-place", "--diff"]) == 1
    out, err = capsysbinary.readouterr()
    assert b"+new" in out
    assert b"--allow-doubt" in err
    assert b"Look at the answer" not in err
    assert (folder / "a.py").read_bytes() == OLD
