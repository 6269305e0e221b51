"""The command line in this process: output, exit codes, files written and files left alone."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apply_service.cli import main
from apply_service.clients.wire import decode_answer
from apply_service.commands.exit_codes import MEANINGS, exit_code
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
from apply_service.types import ApplyRequest, Verdict
from tests.doubles import ScriptedRun, make_result
from tests.live_server import live_server

OLD = b"old\r\nname = 1\n"


@pytest.fixture
def run() -> ScriptedRun:
    return ScriptedRun(result=make_result("new\r\nname = 1\n", diff="--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n"))


@pytest.fixture
def url(run: ScriptedRun) -> Iterator[str]:
    with live_server(run) as (url, _):
        yield url


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a file to edit and an edit, and a state folder of its own."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.py").write_bytes(OLD)
    (work / "edit.txt").write_bytes(b"new\n")
    monkeypatch.chdir(work)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in [name for name in os.environ if name.startswith("APPLY_") and name != "APPLY_SHARED_DATA"]:
        monkeypatch.delenv(name)
    return work


class Stdin:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


# -- output ------------------------------------------------------------------------------------------------------------
def test_the_merged_file_goes_to_stdout_byte_for_byte(
    folder: Path, url: str, run: ScriptedRun, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["apply", "a.py", "--update", "edit.txt", "--server", url]) == 0
    out, err = capsysbinary.readouterr()
    assert out == b"new\r\nname = 1\n"
    assert b"lazy_snippet: model (embedded), as the merge predicted; 1 warning, 1 check passed" in err
    assert b"warning: syntax: line 1 is odd (line 1 of the merged file)" in err
    assert b"6 tokens in 2 passes, 62.5% of drafted tokens accepted, 12 tok/s" in err
    assert run.requests == [ApplyRequest(original=OLD.decode(), update="new\n", path="a.py")]
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


def test_every_option_reaches_the_request(
    folder: Path, url: str, run: ScriptedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(b"\xef\xbb\xbfsnippet \xc3\xa9"))
    options = [
        *("--instruction", "do", "--format", "lazy_snippet", "--model", "m", "--drafter", "none"),
        *("--strategy", "model", "--language", "python", "--seed", "3", "--temperature", "0.5", "--max-tokens", "9"),
        *("--timeout", "7", "--on-verdict", "syntax=fail", "--on-verdict", "no_op=warn", "--diff"),
    ]
    assert main(["apply", "a.py", "--update", "-", "--server", url, *options]) == 0
    assert run.requests == [
        ApplyRequest(
            original=OLD.decode(),
            update="snippet é",
            instruction="do",
            path="a.py",
            language="python",
            format="lazy_snippet",
            strategy="model",
            model="m",
            drafter="none",
            temperature=0.5,
            seed=3,
            max_tokens=9,
            timeout_s=7.0,
            on_verdict={"syntax": "fail", "no_op": "warn"},
            diff=True,
        )
    ]


def test_server_and_other_settings_come_from_the_environment(
    folder: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APPLY_SERVER", url)
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


# -- in place ----------------------------------------------------------------------------------------------------------
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
    assert b"[no_backup]" in capsysbinary.readouterr().err


def test_a_file_that_does_not_exist_is_a_new_file(folder: Path, url: str, run: ScriptedRun) -> None:
    assert main(["apply", "new.py", "--update", "edit.txt", "--server", url, "--in-place"]) == 0
    assert run.requests[0].original == ""
    assert (folder / "new.py").read_bytes() == b"new\r\nname = 1\n"
    assert main(["undo", "new.py"]) == 0
    assert not (folder / "new.py").exists()


def test_in_place_without_a_change_writes_nothing(folder: Path, url: str, run: ScriptedRun) -> None:
    run.result = replace(run.result, merged_code=OLD.decode())
    before = (folder / "a.py").stat()
    assert main(["apply", "a.py", "--update", "edit.txt", "--server", url, "--in-place"]) == 0
    assert (folder / "a.py").stat().st_ino == before.st_ino
    assert main(["undo", "a.py"]) == 3


def test_in_place_refuses_where_a_check_found_an_error(
    folder: Path, url: str, run: ScriptedRun, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    run.result = replace(run.result, verdicts=(Verdict("syntax", "error", "broken", (3, 4)),))
    command = ["apply", "a.py", "--update", "edit.txt", "--server", url]
    assert main([*command, "--in-place"]) == 1
    assert (folder / "a.py").read_bytes() == OLD
    err = capsysbinary.readouterr().err
    assert b"[check_failed]" in err
    assert b"syntax: broken" in err
    assert main(command) == 1  # printed, but the exit code says so
    out, err = capsysbinary.readouterr()
    assert out == b"new\r\nname = 1\n"
    assert b"error: syntax: broken (lines 3-4 of the merged file)" in err
    assert main([*command, "--in-place", "--on-verdict", "syntax=warn"]) == 0
    assert (folder / "a.py").read_bytes() == b"new\r\nname = 1\n"


def test_in_place_refuses_a_file_that_changed_meanwhile(
    folder: Path,
    url: str,
    run: ScriptedRun,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    from apply_service.commands import apply

    def answer_and_meddle(*arguments: Any) -> dict[str, Any]:
        (folder / "a.py").write_bytes(b"someone else's")
        return real(*arguments)

    real = apply.answer_request
    monkeypatch.setattr(apply, "answer_request", answer_and_meddle)
    assert main(["apply", "a.py", "--update", "edit.txt", "--server", url, "--in-place"]) == 3
    assert b"[file_changed]" in capsysbinary.readouterr().err
    assert (folder / "a.py").read_bytes() == b"someone else's"


# -- a JSON request ----------------------------------------------------------------------------------------------------
def test_a_json_request_is_answered_as_over_http(
    folder: Path,
    url: str,
    run: ScriptedRun,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(b'{"original": "a", "update": "b", "seed": 4}'))
    assert main(["apply", "--request", "-", "--server", url]) == 0
    assert decode_answer(json.loads(capsysbinary.readouterr().out)) == run.result
    assert run.requests == [ApplyRequest(original="a", update="b", seed=4)]


@pytest.mark.parametrize(
    ("body", "code", "value"),
    [
        (b'{"original": "", "bla": 1}', "unknown_field", "bla"),
        (b'{"original": "", "stream": true}', "unsupported_parameter", "stream"),
        (b"{", "invalid_field", "body"),
        (b"[]", "invalid_field", []),
        (b"\xff", "invalid_field", "body"),
    ],
)
def test_a_bad_json_request_is_refused_as_over_http(
    folder: Path,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
    body: bytes,
    code: str,
    value: object,
) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(body))
    assert main(["apply", "--request", "-", "--server", url]) == 2
    out, err = capsysbinary.readouterr()
    assert (json.loads(out)["error"]["code"], json.loads(out)["error"]["value"]) == (code, value)
    assert f"[{code}]".encode() in err
    assert b"remedy" in err


# -- errors ------------------------------------------------------------------------------------------------------------
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
            "apply-service: error: no anchor [needs_more_context]",
            '  value: ["def f"]',
            "  limit: one place",
            "  remedy: show more lines",
        ]
        assert (json.loads(out)["error"]["code"] if options == ["--json"] else out) in ("needs_more_context", b"")
    assert (folder / "a.py").read_bytes() == OLD


@pytest.mark.parametrize(
    ("arguments", "code", "name"),
    [
        ([], 2, "invalid_field"),
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
    assert f"[{name}]".encode() in err
    assert b"remedy:" in err
    assert out == b""


def test_a_server_that_is_not_there(folder: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["apply", "a.py", "--update", "edit.txt", "--server", "http://127.0.0.1:9", "--in-place"]) == 4
    assert b"[unreachable]" in capsysbinary.readouterr().err
    assert (folder / "a.py").read_bytes() == OLD


def test_interrupting_is_no_crash(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("apply_service.commands.apply.answer_request", interrupt)
    assert main(["apply", "a.py", "--update", "edit.txt", "--in-place"]) == 130
    assert (folder / "a.py").read_bytes() == OLD


def test_help_names_options_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ([], ["apply"], ["serve"], ["models"], ["doctor"], ["undo"]):
        with pytest.raises(SystemExit) as caught:
            main([*command, "--help"])
        assert caught.value.code == 0
        text = capsys.readouterr().out
        assert all(meaning in text for meaning in MEANINGS.values())
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    assert "--queue-limit" in capsys.readouterr().out


def test_models_lists_the_embedded_one_without_loading_it(
    folder: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["models", "--json", "--model", "some/other"]) == 0
    listings = json.loads(capsysbinary.readouterr().out)
    assert [listing["name"] for listing in listings] == ["some/other", "embedded"]
    assert listings[0]["is_default"] is True
    assert listings[0]["is_present"] is False
    assert main(["models"]) == 0
    assert capsysbinary.readouterr().out.startswith(b"* embedded")


# -- the command as a process ------------------------------------------------------------------------------------------
def test_with_a_server_nothing_heavy_is_imported(folder: Path, url: str) -> None:
    script = (
        "import sys; from apply_service.cli import main; code = main(sys.argv[1:]);"
        "print(sorted({'torch', 'numpy', 'pydantic', 'httpx', 'fastapi', 'tree_sitter'} & set(sys.modules)), code)"
    )
    command = [sys.executable, "-c", script, "apply", "a.py", "--update", "edit.txt", "--server", url, "--in-place"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[] 0\n"
    assert (folder / "a.py").read_bytes() == b"new\r\nname = 1\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_large_output_arrives_whole(folder: Path, url: str, run: ScriptedRun, unbuffered: str) -> None:
    run.result = replace(run.result, merged_code="x\n" * 1_000_000)
    command = [sys.executable, "-m", "apply_service.cli", "apply", "a.py", "--update", "edit.txt", "--server", url]
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert len(done.stdout) == 2_000_000


@pytest.mark.skipif(os.name == "nt", reason="pipes of a POSIX shell")
def test_a_reader_that_goes_away_is_no_traceback(folder: Path, url: str, run: ScriptedRun) -> None:
    run.result = replace(run.result, merged_code="x\n" * 4_000_000)
    command = [
        sys.executable,
        "-m",
        "apply_service.cli",
        "apply",
        "a.py",
        "--update",
        "edit.txt",
        "--server",
        url,
        "-q",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141
