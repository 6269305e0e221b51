"""What of the command line reaches the request, and how the file travels."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from apply_service.cli import main
from apply_service.types import ApplyRequest
from tests.commands.conftest import OLD, Stdin
from tests.doubles import ScriptedRun


def test_every_option_reaches_the_request(
    folder: Path, url: str, run: ScriptedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(b"\xef\xbb\xbfsnippet \xc3\xa9"))
    options = [
        *("--instruction", "do", "--format", "lazy_snippet", "--model", "auto", "--drafter", "none"),
        *("--strategy", "model", "--language", "python", "--seed", "3", "--temperature", "0.5", "--max-tokens", "9"),
        *("--timeout", "7", "--on-verdict", "syntax=fail", "--on-verdict", "no_op=warn", "--diff"),
        *("--on-verdict", "fallback=fail", "--on-verdict", "doubt=warn", "--on-verdict", "instruction=fail"),
    ]
    assert main(["apply", "a.py", "--update", "-", "--server", url, *options]) == 1, "a finding of syntax is to fail"
    assert run.requests == [
        ApplyRequest(
            original=OLD.decode(),
            update="snippet é",
            instruction="do",
            path="a.py",
            language="python",
            format="lazy_snippet",
            strategy="model",
            model="embedded",
            drafter="none",
            temperature=0.5,
            seed=3,
            max_tokens=9,
            timeout_s=7.0,
            on_verdict={
                "syntax": "fail",
                "no_op": "warn",
                "fallback": "fail",
                "doubt": "warn",
                "instruction": "fail",
            },
            diff=True,
            owner="anonymous",
        )
    ]


def test_server_and_other_settings_come_from_the_environment(
    folder: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APPLY_SERVICE_SERVER", url)
    assert main(["apply", "a.py", "--update", "edit.txt"]) == 0


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252"])
def test_other_encodings_travel_as_bytes(
    folder: Path, url: str, run: ScriptedRun, encoding: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    (folder / "a.py").write_bytes("é\r\n".encode(encoding))
    run.result = replace(run.result, merged_code="éé\r\n", encoding=encoding)
    assert main(["apply", "a.py", "--update", "edit.txt", "--encoding", encoding, "--server", url]) == 0
    assert capsysbinary.readouterr().out == "éé\r\n".encode(encoding)
    assert run.requests[0].original.lstrip("\ufeff") == "é\r\n"


def test_an_encoding_is_guessed_and_told(
    folder: Path, url: str, run: ScriptedRun, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    (folder / "a.py").write_bytes(b"\xe9\r\n")
    run.result = replace(run.result, merged_code="éé\r\n", encoding="cp1252")
    assert main(["apply", "a.py", "--update", "edit.txt", "--server", url]) == 0
    out, err = capsysbinary.readouterr()
    assert out == b"\xe9\xe9\r\n"
    assert b"the file is not UTF-8; it was read and is written as cp1252, which is a guess" in err
    assert (run.requests[0].original, run.requests[0].encoding) == ("é\r\n", "cp1252")
    assert main(["apply", "a.py", "--update", "edit.txt", "--server", url, "--json"]) == 0
    answer = json.loads(capsysbinary.readouterr().out)
    assert (answer["encoding"], answer["verdicts"][-1]["check"]) == ("cp1252", "encoding")


def test_a_new_character_needs_the_name_of_the_encoding(
    folder: Path, url: str, run: ScriptedRun, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    (folder / "a.py").write_bytes(b"\xe9\r\n")
    run.result = replace(run.result, merged_code="éü\r\n", encoding="cp1252")
    command = ["apply", "a.py", "--update", "edit.txt", "--server", url, "--in-place"]
    assert main(command) == 2
    assert b"a.py: the file's encoding is a guess (cp1252)" in capsysbinary.readouterr().err
    assert (folder / "a.py").read_bytes() == b"\xe9\r\n"
    assert main([*command, "--encoding", "cp1252"]) == 0
    assert (folder / "a.py").read_bytes() == b"\xe9\xfc\r\n"


def test_utf_16_with_a_mark_needs_no_name(folder: Path, url: str, run: ScriptedRun) -> None:
    (folder / "a.py").write_bytes("é\r\n".encode("utf-16"))
    run.result = replace(run.result, merged_code="日本\r\n", encoding="utf-16-le-sig")
    assert main(["apply", "a.py", "--update", "edit.txt", "--server", url, "--in-place"]) == 0
    assert (folder / "a.py").read_bytes() == "日本\r\n".encode("utf-16")


def test_an_edit_that_does_not_fit_a_guess_is_told_of_it(
    folder: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    (folder / "a.py").write_bytes(b"\xe9\nx\n")
    (folder / "edit.txt").write_text("<<<<<<< SEARCH\nй\n=======\ny\n>>>>>>> REPLACE\n", encoding="utf-8")
    assert main(["apply", "a.py", "edit.txt"]) == 5
    assert b"the file was read as cp1252, which is a guess" in capsysbinary.readouterr().err
