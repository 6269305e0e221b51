"""What of the command line reaches the request, and how the file travels."""

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
