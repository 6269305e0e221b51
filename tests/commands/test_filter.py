"""`apply -`: an editor's buffer through standard input, the merged text through standard output."""

import json
import sys
from pathlib import Path

import pytest

from apply_service.cli import main
from apply_service.errors import NeedsMoreContext
from apply_service.types import ApplyRequest, Verdict
from tests.commands.conftest import OLD, Stdin, last_code
from tests.doubles import ScriptedRun, make_result

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def piped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(OLD))


def test_the_buffer_comes_and_goes_byte_for_byte(
    folder: Path, url: str, run: ScriptedRun, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["apply", "-", "--update", "edit.txt", "--server", url]) == 0
    assert capsysbinary.readouterr().out == b"new\r\nname = 1\n"
    assert run.requests == [ApplyRequest(original=OLD.decode(), update="new\n", owner="anonymous")]
    assert not (folder / "-").exists()


def test_its_name_travels_and_is_not_opened(folder: Path, url: str, run: ScriptedRun) -> None:
    assert main(["apply", "-", "--stdin-path", "no/such/b.go", "--update", "edit.txt", "--server", url]) == 0
    (request,) = run.requests
    assert (request.path, request.original) == ("no/such/b.go", OLD.decode())


def test_other_encodings(
    folder: Path,
    url: str,
    run: ScriptedRun,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(b"caf\xe9\n"))
    run.result = make_result("th\xe9\n", encoding="latin-1")
    assert main(["apply", "-", "--encoding", "latin-1", "--update", "edit.txt", "--server", url]) == 0
    assert capsysbinary.readouterr().out == b"th\xe9\n"


def test_a_refusal_prints_nothing_that_an_editor_could_take_for_the_text(
    folder: Path, url: str, run: ScriptedRun, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    run.error = NeedsMoreContext("No place found.", value="x", remedy="Show more.")
    assert main(["apply", "-", "--update", "edit.txt", "--server", url]) == 5
    assert capsysbinary.readouterr().out == b""
    assert last_code() == "needs_more_context"


def test_no_server_prints_nothing_either(folder: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["apply", "-", "--update", "edit.txt", "--server", NOWHERE]) == 4
    assert capsysbinary.readouterr().out == b""


def test_a_failed_check_is_told_by_the_exit_code(folder: Path, url: str, run: ScriptedRun) -> None:
    run.result = make_result("new\n", verdicts=(Verdict("syntax", "error", "broken", (1, 1)),))
    assert main(["apply", "-", "--update", "edit.txt", "--server", url, "-q"]) == 1


def test_the_answer_as_json(folder: Path, url: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["apply", "-", "--update", "edit.txt", "--server", url, "--json"]) == 0
    assert json.loads(capsysbinary.readouterr().out)["merged_code"] == "new\r\nname = 1\n"


@pytest.mark.parametrize(
    ("options", "code", "value"),
    [
        (("-", "--update", "edit.txt", "--in-place"), "unsupported_parameter", "--in-place would"),
        (("a.py", "--update", "edit.txt", "--stdin-path", "b.py"), "unsupported_parameter", "--stdin-path would"),
        (("--request", "-", "--stdin-path", "b.py"), "unsupported_parameter", "--stdin-path would"),
        (("--patch", "-", "--stdin-path", "b.py"), "unsupported_parameter", "--stdin-path would"),
        (("--batch", "-", "--stdin-path", "b.py"), "unsupported_parameter", "--stdin-path would"),
        (("-", "--update", "-"), "invalid_field", "FILE and SNIPPET cannot both be"),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, tuple) else "",
)
def test_what_makes_no_sense_is_refused_by_name(
    folder: Path, options: tuple[str, ...], code: str, value: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["apply", *options, "--server", NOWHERE]) == 2
    out, err = capsysbinary.readouterr()
    assert out == b""
    assert last_code() == code
    assert value.encode() in err


def test_a_closed_standard_input_is_an_error_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["apply", str(tmp_path / "a.py"), "--update", "-", "--strategy", "exact"]) != 0
    assert "standard input" in capsys.readouterr().err
