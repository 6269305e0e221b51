"""What `apply` prints: the merged file, a diff or JSON on standard output, all about them on standard error."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from apply_service.cli import main
from apply_service.clients.http import decode_answer
from apply_service.commands.output import write_diff
from apply_service.settings import Settings
from apply_service.types import ApplyRequest, Verdict
from tests.commands.conftest import OLD
from tests.doubles import ScriptedRun


def test_the_merged_file_goes_to_stdout_byte_for_byte(
    folder: Path, url: str, run: ScriptedRun, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["apply", "a.py", "edit.txt", "--server", url, "-v"]) == 0
    out, err = capsysbinary.readouterr()
    assert out == b"new\r\nname = 1\n"
    assert err.decode().splitlines() == [
        "a.py: sure, 1 hunk",
        "  line 1 is odd (line 1 of the merged file, check syntax)",
        "  lazy_snippet, decided by: model (embedded), as the merge predicted; passed: no_op",
        "  6 tokens in 2 passes, 62.5% of drafted tokens accepted, 12 tok/s",
    ]
    assert run.requests == [ApplyRequest(original=OLD.decode(), update="new\n", path="a.py", owner="anonymous")]
    assert (folder / "a.py").read_bytes() == OLD


def test_quiet_leaves_standard_error_empty(folder: Path, url: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["apply", "a.py", "--update", "edit.txt", "--server", url, "-q"]) == 0
    assert capsysbinary.readouterr().err == b""


def test_quiet_still_tells_what_must_be_looked_at(
    folder: Path, url: str, run: ScriptedRun, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Whoever reads the exit code alone takes no answer in doubt, and whoever reads the words knows why."""
    doubt = Verdict("doubt", "warning", "`a; b` is at two places; another reading would keep line 3 (`x`); 80% sure")
    run.result = replace(run.result, verdicts=(doubt,))
    command = ["apply", "a.py", "edit.txt", "--server", url, "-q"]
    for options in ([], ["--diff"], ["--json"]):
        assert main([*command, *options]) == 1
        out, err = capsysbinary.readouterr()
        assert out
        assert err.decode().splitlines() == [
            "a.py: 80% sure, 1 hunk; look at it before you use it (--allow-doubt accepts it)",
            "  `a; b` is at two places",
            "  another reading would keep line 3 (`x`)",
        ]
    assert main([*command, "--allow-doubt"]) == 0
    assert capsysbinary.readouterr().err == b""


def test_lines_that_are_missing_are_told_before_the_doubt(
    folder: Path, url: str, run: ScriptedRun, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    doubt = Verdict("doubt", "warning", "the model read the edit in another way than this program can")
    lost = Verdict("no_op", "warning", "2 new lines of the edit are not in the merged file, the first: if not items:")
    run.result = replace(run.result, verdicts=(doubt, lost))
    assert main(["apply", "a.py", "edit.txt", "--server", url]) == 1
    assert capsysbinary.readouterr().err.decode().splitlines()[1:] == [
        "  2 new lines of the edit are not in the merged file, the first: if not items: (check no_op)",
        "  the model read the edit in another way than this program can",
    ]


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


@pytest.mark.skipif(os.name == "nt", reason="a POSIX terminal")
@pytest.mark.parametrize(("pager", "before"), [("sed s/^/p:/", b"p:"), ("", b""), ("no-such-pager", b"")])
def test_a_terminal_shows_a_diff_in_the_users_pager(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], pager: str, before: bytes
) -> None:
    monkeypatch.setenv("PAGER", pager)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    write_diff("-old\n+new\n", Settings())
    assert capfdbinary.readouterr().out == before + b"-old\n" + before + b"+new\n"


@pytest.mark.skipif(os.name == "nt", reason="a POSIX terminal")
def test_the_pager_is_none_of_the_current_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Where Windows, `shutil.which` there and its shell look first."""
    pager = folder / "our-pager"
    pager.write_text("#!/bin/sh\necho planted\n")
    pager.chmod(0o755)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PAGER", "our-pager")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    write_diff("-old\n", Settings())
    assert capfdbinary.readouterr().out == b"-old\n"
    monkeypatch.setenv("PAGER", "echo $NoDefaultCurrentDirectoryInExePath; cat")
    write_diff("-old\n", Settings())
    assert capfdbinary.readouterr().out == b"1\n-old\n"


@pytest.mark.skipif(os.name == "nt", reason="a POSIX terminal")
@pytest.mark.parametrize("first", [".", ""])
def test_the_pager_that_was_found_is_the_one_that_runs(
    folder: Path, first: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """PATH names the current folder, and behind it one that has the pager, too."""
    (folder.parent / "bin").mkdir()
    for place, word in ((folder, "planted"), (folder.parent / "bin", "found")):
        (place / "our-pager").write_text(f"#!/bin/sh\necho {word} $1\n")
        (place / "our-pager").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join((first, str(folder.parent / "bin"), os.environ["PATH"])))
    monkeypatch.setenv("PAGER", "our-pager -x")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    write_diff("-old\n", Settings())
    assert capfdbinary.readouterr().out == b"found -x\n"


@pytest.mark.skipif(os.name == "nt", reason="a POSIX terminal")
def test_what_the_pager_starts_is_not_of_the_current_folder_either(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (folder.parent / "bin").mkdir()
    for place, word in ((folder, "planted"), (folder.parent / "bin", "found")):
        (place / "our-pager").write_text(f"#!/bin/sh\necho {word}\n")
        (place / "our-pager").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join((".", str(folder.parent / "bin"), os.environ["PATH"])))
    monkeypatch.setenv("PAGER", "env our-pager")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    write_diff("-old\n", Settings())
    assert capfdbinary.readouterr().out == b"found\n"
