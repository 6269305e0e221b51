"""The question of an edit in doubt: asked on a terminal, and nowhere else."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from apply_service.cli import main
from tests.commands.conftest import last_code

SCOPES = "".join(f"def {name}():\n    x = 1\n    return x\n\n\n" for name in ("first", "second", "third"))
UNCLEAR = "# ... existing code ...\n    x = 2\n    return x\n# ... existing code ...\n"
LAST = SCOPES[::-1].replace("1 = x", "2 = x", 1)[::-1]
THIRD = "\n  @@ line 11 @@\n   def third():\n  -    x = 1\n  +    x = 2\n       return x\n"
ASKS = "Take 1, 2, 3, or none (n)? "

on_posix = pytest.mark.skipif(os.name == "nt", reason="a POSIX terminal")


@pytest.fixture
def unclear(folder: Path) -> Path:
    """A file and an edit that fits three places of it."""
    (folder / "a.py").write_text(SCOPES)
    (folder / "edit.txt").write_text(UNCLEAR)
    return folder


class Terminal(io.TextIOWrapper):
    """Standard input of a user who types these lines."""

    def __init__(self, typed: str) -> None:
        super().__init__(io.BytesIO(typed.encode()))

    def isatty(self) -> bool:
        return True


def type_in(monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    """Let the command run on a terminal where somebody types this."""
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")


def third_of(told: str) -> str:
    """The number of the reading that changes the third place."""
    return told[: told.index(THIRD)].rpartition("Reading ")[2][0]


def on_terminal(folder: Path, typed: str, *words: str) -> tuple[int, str, bytes]:
    """Run the command on a terminal of its own; the exit code, what the terminal shows, and standard output."""
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "apply_service.cli", "apply", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(os.path.isabs, sys.path))},
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    try:
        while not shown.endswith(b")? "):
            shown += os.read(ours, 4096)
        os.write(ours, typed.encode())
        out = process.communicate(timeout=60)[0]
        while True:
            shown += os.read(ours, 4096)
    except OSError:  # the other end is closed, and everything is read
        return process.returncode, shown.decode().replace("\r\n", "\n"), out
    finally:
        os.close(ours)
        process.kill()
        process.wait()


@on_posix
def test_a_terminal_asks_and_writes_what_the_user_takes(unclear: Path) -> None:
    code, shown, out = on_terminal(unclear, "2\n", "a.py", "edit.txt", "--in-place")
    assert (code, out) == (0, b"")
    assert "a.py: which of these is meant?\n  the shown lines fit lines " in shown
    assert "\033[31m-    x = 1\033[0m\n  \033[32m+    x = 2\033[0m\n" in shown
    assert ASKS in shown
    assert "sure, 1 hunk; wrote a.py; undo with" in shown
    assert (unclear / "a.py").read_text() != SCOPES
    assert (unclear / "a.py").read_text().count("x = 2") == 1


@on_posix
def test_ctrl_d_takes_none(unclear: Path) -> None:
    code, shown, out = on_terminal(unclear, "\x04", "a.py", "edit.txt", "--diff")
    assert (code, out) == (1, b"")
    assert "a.py: no reading was taken." in shown
    assert (unclear / "a.py").read_text() == SCOPES


def test_each_number_takes_the_reading_beside_it(
    unclear: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_in(monkeypatch, "n\n")
    assert main(["apply", "a.py", "edit.txt"]) == 1
    out, told = capsys.readouterr()
    assert out == ""
    assert last_code() == "check_failed"
    type_in(monkeypatch, f"\nwhich?\n4\n{third_of(told)}\n")
    assert main(["apply", "a.py", "edit.txt"]) == 0
    out, told = capsys.readouterr()
    assert out == LAST
    assert told.count(ASKS) == 4, "what is no answer is asked again"


@pytest.mark.parametrize("number", ["1", "2", "3"])
def test_the_option_takes_what_the_question_numbers(
    unclear: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: str
) -> None:
    type_in(monkeypatch, f"{number}\n")
    assert main(["apply", "a.py", "edit.txt"]) == 0
    taken = capsys.readouterr().out
    assert main(["apply", "a.py", "edit.txt", "--reading", number]) == 0
    out, told = capsys.readouterr()
    assert out == taken
    assert "meant?" not in told


@pytest.mark.parametrize(("typed", "code"), [("2\n", 0), ("n\n", 5)])
def test_an_edit_that_gets_no_answer_is_asked_about_too(
    unclear: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, code: int
) -> None:
    type_in(monkeypatch, typed)
    assert main(["apply", "a.py", "edit.txt", "-i", "--strategy", "exact"]) == code
    assert ASKS in capsys.readouterr().err
    assert (unclear / "a.py").read_text().count("x = 2") == (code == 0)


def test_what_the_file_holds_does_not_speak_to_the_terminal(
    unclear: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (unclear / "a.py").write_text(SCOPES.replace("x = 1", "x = '\033[2J\u202e'"))
    type_in(monkeypatch, "1\n")
    assert main(["apply", "a.py", "edit.txt"]) == 0
    told = capsys.readouterr().err
    assert "-    x = '\\x1b[2J\\u202e'" in told
    assert not {"\033[2J", "\u202e"} & {told[at : at + n] for at in range(len(told)) for n in (1, 4)}


@pytest.mark.parametrize("option", ["--quiet", "--json", "--allow-doubt"])
def test_an_option_that_settles_it_is_not_asked(
    unclear: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    type_in(monkeypatch, "2\n")
    assert main(["apply", "a.py", "edit.txt", option]) == (0 if option == "--allow-doubt" else 1)
    assert "meant?" not in capsys.readouterr().err


def test_a_sure_edit_is_not_asked_about(
    folder: Path, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_in(monkeypatch, "")
    assert main(["apply", "a.py", "edit.txt", "-i", "--server", url]) == 0
    assert "meant?" not in capsys.readouterr().err


@pytest.mark.parametrize(("pipe", "words"), [("stdin", ["-i"]), ("stderr", ["-i"]), ("stdin", [])])
def test_a_pipe_is_never_asked(
    unclear: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], pipe: str, words: list[str]
) -> None:
    type_in(monkeypatch, "2\n")
    monkeypatch.setattr(getattr(sys, pipe), "isatty", lambda: False)
    assert main(["apply", "a.py", "edit.txt", *words]) == 1
    told = capsys.readouterr().err
    assert "meant?" not in told
    assert "--reading 2" in told
    assert (unclear / "a.py").read_text() == SCOPES
    assert sys.stdin.read() == "2\n"


def test_where_there_is_no_answer_the_message_names_the_option(
    unclear: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["apply", "a.py", "edit.txt", "-i", "--strategy", "exact"]) == 5
    assert "--reading 1 takes the likeliest reading" in capsys.readouterr().err
    assert main(["apply", "a.py", "edit.txt", "-i", "--strategy", "exact", "--reading", "1"]) == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["a.py", "edit.txt", "--strategy", "model"], "A model has no readings: --reading would have no effect."),
        (["--batch", "batch.json"], "A batch says all of its edits: --reading would have no effect."),
        (
            ["--patch", "edit.txt"],
            "and asks no model: --reading would have no effect.",
        ),
        (["--request", "r.json"], "A JSON request says all of the edit: --reading would have no effect."),
    ],
)
def test_where_the_option_makes_no_sense_it_is_refused(
    unclear: Path, capsys: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    assert main(["apply", *words, "--reading", "2"]) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("reading", ["0", "x", "12", "-1"])
def test_a_bad_reading_is_told_in_words(unclear: Path, capsys: pytest.CaptureFixture[str], reading: str) -> None:
    assert main(["apply", "a.py", "edit.txt", f"--reading={reading}"]) == 2
    assert (
        f"'{reading}' is neither a number from 1 to 9 nor an id of twelve hexadecimal digits" in capsys.readouterr().err
    )


def test_an_edit_of_a_batch_names_its_reading(unclear: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (unclear / "b.py").write_text(SCOPES)
    assert main(["apply", "a.py", "edit.txt", "--reading", "3"]) == 0
    third = capsys.readouterr().out
    edits = [{"path": "a.py", "update": UNCLEAR, "reading": "3"}, {"path": "b.py", "update": UNCLEAR, "reading": "1"}]
    (unclear / "batch.json").write_text(json.dumps({"edits": edits}))
    assert main(["apply", "--batch", "batch.json", "-i"]) == 0
    assert (unclear / "a.py").read_text() == third
    assert (unclear / "b.py").read_text() not in (SCOPES, third)
