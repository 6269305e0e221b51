"""Typical mistakes of somebody new: nothing is written, and the message names what is wrong and what to do next."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from apply_service.cli import main
from tests.commands.conftest import Stdin
from tests.newcomer.edits import EDITS, PROJECT

SNIPPET = next(edit.snippet for edit in EDITS if edit.kind == "a function between two markers")
NO_SERVER = "http://127.0.0.1:9"


class Mistake(NamedTuple):
    what: str
    words: str
    code: int
    names: str
    """What the message must name."""
    advice: str
    """What it must say to do."""


MISTAKES = (
    Mistake("no words at all", "", 2, "apply", "apply-service apply --help"),
    Mistake("only the file", "apply src/inventory.py", 2, "src/inventory.py", "apply src/inventory.py SNIPPET"),
    Mistake("a misspelt command", "aply src/inventory.py snippet.py", 2, "aply", "Did you mean apply?"),
    Mistake("a misspelt option", "apply src/inventory.py snippet.py --inplace", 2, "--inplace", "mean --in-place?"),
    Mistake("the file's folder left out", "apply inventory.py snippet.py", 3, "inventory.py", "src/inventory.py?"),
    Mistake("a misspelt file", "apply src/inventroy.py snippet.py", 3, "inventroy.py", "src/inventory.py?"),
    Mistake("a misspelt folder", "apply scr/inventory.py snippet.py", 3, "scr/inventory.py", "src/inventory.py?"),
    Mistake("a misspelt snippet", "apply src/inventory.py snipet.py", 3, "snipet.py", "Did you mean snippet.py?"),
    Mistake("a folder", "apply src snippet.py", 3, "src: it is a folder", "Name a regular file"),
    Mistake("an empty snippet", "apply src/inventory.py empty.py", 2, "empty.py", "Save the edit first"),
    Mistake("nothing in the clipboard", "apply src/inventory.py -", 2, "Standard input", "Save the edit first"),
    Mistake(
        "a snippet of another file", "apply src/store.go snippet.py", 2, "in common with the file", "Send the file"
    ),
    Mistake("file and snippet exchanged", "apply snippet.py src/inventory.py", 2, "exchanged", "Name the file first"),
    Mistake("a picture as the file", "apply logo.png snippet.py", 2, "logo.png is a binary", "Name a text file"),
    Mistake("a picture as the snippet", "apply src/inventory.py logo.png", 2, "logo.png is a binary", "Name a text"),
    Mistake("a new letter in another encoding", "apply latin.py accent.py", 2, "latin.py", "encoding"),
    Mistake(
        "search text that is not there", "apply src/inventory.py lost.txt", 5, "src/inventory.py", "Quote the lines"
    ),
    Mistake("no server", f"apply src/inventory.py snippet.py -s {NO_SERVER}", 4, NO_SERVER, "apply-service serve"),
    Mistake("a word for the URL", "apply src/inventory.py snippet.py -s here", 2, "here", "--server"),
    Mistake(
        "a format that is none", "apply src/inventory.py snippet.py -f diff", 2, "diff", "Did you mean unified_diff?"
    ),
    Mistake("a value out of range", "serve --port 123456", 2, "123456", "allowed"),
    Mistake("undo of a misspelt file", "undo src/inventroy.py", 3, "inventroy.py", "src/inventory.py?"),
    Mistake("a misspelt model", "apply src/inventory.py snippet.py -m fastaply-1.5b", 4, "fastaply", "fastapply-1.5b?"),
    Mistake("a model of another service", "apply src/inventory.py snippet.py -m gpt-4o", 4, "gpt-4o", "embedded"),
    Mistake(
        "search text that stands twice",
        "apply src/store.go twice.txt",
        1,
        "several places (lines 30, 44, 50, 56)",
        "beside them",
    ),
    Mistake("undo of what was never edited", "undo src/inventory.py", 3, "src/inventory.py", "--in-place"),
    Mistake(
        "a file of keys that is not there", "serve --port 0 --keys-file keys.toml", 2, "keys.toml", "apply-service key"
    ),
)


def make_project(folder: Path) -> None:
    """The files of the project in `src`, and what somebody new tries with them."""
    shutil.copytree(PROJECT, folder / "src")
    for name, data in {
        "snippet.py": SNIPPET.encode(),
        "empty.py": b"\n",
        "guess.py": b"x = 1\n",
        "accent.py": "name = 'na\u00efve'\n".encode(),
        "lost.txt": b"<<<<<<< SEARCH\nfor key in self.shelves:\n=======\npass\n>>>>>>> REPLACE\n",
        "twice.txt": b"<<<<<<< SEARCH\n\ts.mu.Lock()\n=======\n\ts.mu.RLock()\n>>>>>>> REPLACE\n",
        "latin.py": "name = 'caf\u00e9'\n".encode("latin-1"),
        "logo.png": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
    }.items():
        (folder / name).write_bytes(data)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "work"
    make_project(work)
    monkeypatch.chdir(work)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(sys, "stdin", Stdin(b""))
    for name in [name for name in os.environ if name.startswith("APPLY_")]:
        monkeypatch.delenv(name)
    return work


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def judge(mistake: Mistake, code: int, out: str, said: str) -> None:
    assert code == mistake.code
    assert out == ""
    assert mistake.names in said
    assert mistake.advice in said
    first, *more = said.splitlines()
    assert more, "nothing says what to do next"
    assert first.startswith(("apply-service: ", "usage: "))
    assert "Traceback" not in said
    assert "Allowed: 10" not in said
    for tag in ("error:", "remedy:", "value:", "[", "Errno"):
        assert tag not in first.replace("[options]", ""), tag


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.what)
def test_a_mistake_is_told_with_what_to_do_next(
    mistake: Mistake, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(project)
    words = mistake.words.split()
    if words and words[0] == "apply":
        words.append("--in-place")
    code = main(words)
    judge(mistake, code, *capsys.readouterr())
    assert files(project) == before


def test_a_key_that_is_missing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from apply_service.settings import Settings
    from tests.doubles import ScriptedRun
    from tests.live_server import live_server

    assert main(["key", "me", "--file", "keys.toml"]) == 0
    key = capsys.readouterr().out.strip()
    with live_server(ScriptedRun(), Settings(keys_file="keys.toml", drain_timeout_s=0)) as (url, _):
        words = ["apply", "src/inventory.py", "snippet.py", "-i", "--server", url]
        code = main(words)
        judge(Mistake("", "", 2, "API key", "--api-key"), code, *capsys.readouterr())
        assert main([*words, "--api-key", key]) == 0


def test_a_message_that_helps_nobody_is_found_out() -> None:
    mistake = Mistake("", "", 2, "a.py", "Name")
    judge(mistake, 2, "", "apply-service: a.py is empty\n  Name another\n")
    for said in (
        "apply-service: a.py is empty: Name another\n",
        "apply-service: it is empty\n  Name another\n",
        "apply-service: a.py is empty [empty_update]\n  Name another\n",
        "apply-service: error: a.py is empty\n  Name another\n",
    ):
        with pytest.raises(AssertionError):
            judge(mistake, 2, "", said)
