"""What `apply` prints: the merged file, a diff or JSON on standard output, all about them on standard error."""

import json
from pathlib import Path

import pytest

from apply_service.cli import main
from apply_service.clients.http import decode_answer
from apply_service.types import ApplyRequest
from tests.commands.conftest import OLD
from tests.doubles import ScriptedRun


def test_the_merged_file_goes_to_stdout_byte_for_byte(
    folder: Path, url: str, run: ScriptedRun, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["apply", "a.py", "--update", "edit.txt", "--server", url]) == 0
    out, err = capsysbinary.readouterr()
    assert out == b"new\r\nname = 1\n"
    assert b"lazy_snippet: model (embedded), as the merge predicted; 1 warning, 1 check passed" in err
    assert b"warning: syntax: line 1 is odd (line 1 of the merged file)" in err
    assert b"6 tokens in 2 passes, 62.5% of drafted tokens accepted, 12 tok/s" in err
    assert run.requests == [ApplyRequest(original=OLD.decode(), update="new\n", path="a.py", owner="anonymous")]
    assert (folder / "a.py").read_bytes() == OLD


def test_quiet_leaves_standard_error_empty(folder: Path, url: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["apply", "a.py", "--update", "edit.txt", "--server", url, "-q"]) == 0
    assert capsysbinary.readouterr().err == b""


def test_json_is_the_whole_answer(
    folder: Path, url: str, run: ScriptedRun, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["apply", "a.py", "--update", "edit.txt", "--server", url, "--json"]) == 0
    assert decode_answer(json.loads(capsysbinary.readouterr().out)) == run.result


def test_diff_is_coloured_only_where_wanted(
    folder: Path, url: str, run: ScriptedRun, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["apply", "a.py", "--update", "edit.txt", "--server", url, "--diff"]) == 0
    assert capsysbinary.readouterr().out == (run.result.diff or "").encode()
    assert run.requests[0].diff is True
    assert main(["apply", "a.py", "--update", "edit.txt", "--server", url, "--diff", "--color", "always"]) == 0
    out = capsysbinary.readouterr().out
    assert b"\033[31m-old\033[0m\n\033[32m+new\033[0m\n" in out
    assert b"\033[1m--- a\033[0m\n" in out
