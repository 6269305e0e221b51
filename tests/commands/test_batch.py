"""`apply --batch` and `--patch`: all files or none, or each for itself; in this process and by a server."""

import io
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apply_service.cli import main
from apply_service.types import Verdict
from tests.api.test_batch import pipeline_run
from tests.batch.test_edits import block
from tests.commands.conftest import OLD, Stdin, last_code
from tests.doubles import ScriptedRun
from tests.edits.test_patch import DIFF, FILES, V4A
from tests.live_server import live_server

AFTER = {"a.py": b"x\r\nY\r\n", "dir/new.py": b"fresh\n", "dir/c.py": b"one\n2\nthree\n"}
BEFORE = {name: text.encode() for name, text in FILES.items()}
LOST = V4A.replace("-two\n+2", "-zwei\n+2")


@pytest.fixture
def project(folder: Path) -> Path:
    for path in folder.iterdir():
        path.unlink()
    for name, data in BEFORE.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    (folder.parent / "p.diff").write_bytes(V4A.encode())
    (folder.parent / "lost.diff").write_bytes(LOST.encode())
    return folder


@pytest.fixture(params=["here", "server"])
def options(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Options that have the command answer by itself, or ask a server."""
    if request.param == "here":
        yield []
        return
    with live_server(pipeline_run) as (url, _):
        yield ["--server", url]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_batch(folder: Path, *edits: dict[str, Any], **fields: object) -> str:
    path = folder.parent / "batch.json"
    path.write_text(json.dumps({"edits": list(edits), **fields}))
    return str(path)


GOOD = {"path": "a.py", "update": block("y", "Y")}
NEW = {"path": "deep/er/new.py", "update": "import os\n", "format": "whole_file"}
BAD = {"path": "dir/b.py", "update": block("nowhere at all", "2"), "strategy": "exact"}


@pytest.mark.parametrize("patch", [V4A, DIFF])
def test_a_patch_is_written_and_undone(project: Path, options: list[str], patch: str) -> None:
    (project.parent / "p.diff").write_bytes(patch.encode())
    assert main(["apply", "--patch", "../p.diff", "--in-place", *options]) == 0
    assert tree(project) == AFTER
    if patch is DIFF and os.name != "nt":
        assert (project / "a.py").stat().st_mode & 0o111
        assert not (project / "dir/new.py").stat().st_mode & 0o111
    for name in ("old.py", "a.py", "dir/new.py", "dir/c.py", "dir/b.py"):
        assert main(["undo", name]) == 0
    assert tree(project) == BEFORE
    assert not (project / "a.py").stat().st_mode & 0o111


def test_a_patch_is_printed_as_a_diff(
    project: Path, options: list[str], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["apply", "--patch", "../p.diff", *options]) == 0
    out, err = capsysbinary.readouterr()
    assert tree(project) == BEFORE
    assert b"applied: 4 of 4 files can be written" in err
    (project.parent / "again.diff").write_bytes(out)
    assert main(["apply", "--patch", "../again.diff", "--in-place", *options]) == 0
    assert tree(project) == AFTER


def test_one_file_that_does_not_fit_stops_all(
    project: Path, options: list[str], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["apply", "--patch", "../lost.diff", "--in-place", *options]) == 1
    assert tree(project) == BEFORE
    err = capsysbinary.readouterr().err
    assert b"dir/c.py: rename: failed\n  hunk 1 " in err
    assert b"a.py: modify: withheld" in err
    assert main(["undo", "a.py"]) == 3


def test_independent_files_are_written_where_they_fit(project: Path, options: list[str]) -> None:
    assert main(["apply", "--patch", "../lost.diff", "--in-place", "--independent", *options]) == 1
    assert tree(project) == {"a.py": AFTER["a.py"], "dir/new.py": b"fresh\n", "dir/b.py": BEFORE["dir/b.py"]}


def test_a_batch_of_edits(project: Path, options: list[str], capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    batch = write_batch(project, GOOD, NEW)
    assert main(["apply", "--batch", batch, "--json", *options]) == 0
    answer = json.loads(capsysbinary.readouterr().out)
    assert [(item["path"], item["action"]) for item in answer["items"]] == [
        ("a.py", "modify"),
        ("deep/er/new.py", "create"),
    ]
    assert tree(project) == BEFORE
    assert main(["apply", "--batch", batch, "--in-place", *options]) == 0
    assert tree(project) == BEFORE | {"a.py": b"x\r\nY\r\n", "deep/er/new.py": b"import os\n"}


def test_a_batch_in_doubt_is_written_only_where_that_is_allowed(project: Path) -> None:
    (project / "a.py").write_bytes(b"value = compute(first, second)\ny = 1\n")
    quoted = block("value = compute(first, secnd)\ny = 1", "value = compute(first, secnd)\ny = 2")
    before = tree(project)
    batch = write_batch(project, {"path": "a.py", "update": quoted})
    assert main(["apply", "--batch", batch, "--in-place"]) == 1
    assert tree(project) == before
    assert main(["apply", "--batch", batch, "--in-place", "--allow-doubt"]) == 0
    assert tree(project) != before


def test_rules_that_are_no_object_are_refused(
    project: Path, options: list[str], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    batch = write_batch(project, {"path": "a.py", "update": "y = 2\n", "on_verdict": "fail"})
    assert main(["apply", "--batch", batch, "--in-place", *options]) != 0
    assert b"on_verdict" in capsysbinary.readouterr().err
    assert tree(project) == BEFORE


def test_modes_of_a_batch(project: Path, options: list[str]) -> None:
    assert main(["apply", "--batch", write_batch(project, GOOD, NEW, BAD), "--in-place", *options]) == 1
    assert tree(project) == BEFORE
    batch = write_batch(project, GOOD, NEW, BAD, mode="independent")
    assert main(["apply", "--batch", batch, "--in-place", *options]) == 1
    assert tree(project) == BEFORE | {"a.py": b"x\r\nY\r\n", "deep/er/new.py": b"import os\n"}


def test_a_batch_may_hold_a_patch_and_come_from_standard_input(
    project: Path, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(json.dumps({"patch": V4A, "mode": "all_or_nothing"}).encode()))
    assert main(["apply", "--batch", "-", "--in-place", *options]) == 0
    assert tree(project) == AFTER


def test_encodings_and_bytes_survive(project: Path, options: list[str]) -> None:
    (project / "u16.txt").write_bytes("é\r\nx\r\n".encode("utf-16"))
    batch = write_batch(project, {"path": "u16.txt", "update": block("x", "ü"), "encoding": "utf-16"})
    assert main(["apply", "--batch", batch, "--in-place", *options]) == 0
    assert (project / "u16.txt").read_bytes() == "é\r\nü\r\n".encode("utf-16")
    (project / "l1.txt").write_bytes(b"\xe9\nx\n")
    (project.parent / "p.diff").write_text(
        "--- a/l1.txt\n+++ b/l1.txt\n@@ -1,2 +1,2 @@\n é\n-x\n+ü\n", encoding="utf-8"
    )
    assert main(["apply", "--patch", "../p.diff", "--encoding", "latin-1", "--in-place", *options]) == 0
    assert (project / "l1.txt").read_bytes() == b"\xe9\n\xfc\n"


def test_encodings_are_guessed_for_each_file(
    project: Path, options: list[str], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    files = {"l1.txt": b"\xe9\nx\n", "l2.txt": b"\xe9\r\nx\r\n"}
    for name, data in files.items():
        (project / name).write_bytes(data)
    edits = [{"path": "l1.txt", "update": block("x", "y")}, {"path": "l2.txt", "update": block("x", "ü")}]
    assert main(["apply", "--batch", write_batch(project, *edits), "--in-place", *options]) == 2
    assert b"l2.txt: the file's encoding is a guess (cp1252)" in capsysbinary.readouterr().err
    assert {name: (project / name).read_bytes() for name in files} == files
    batch = write_batch(project, *edits, mode="independent")
    assert main(["apply", "--batch", batch, "--in-place", *options]) == 1
    told = capsysbinary.readouterr().err
    assert b"it was read and is written as cp1252, which is a guess" in told
    assert b"partial: 1 of 2 files written" in told
    assert (project / "l1.txt").read_bytes() == b"\xe9\ny\n"
    assert (project / "l2.txt").read_bytes() == files["l2.txt"]
    edits[1]["encoding"] = "latin-1"
    assert main(["apply", "--batch", write_batch(project, edits[1]), "--in-place", *options]) == 0
    assert (project / "l2.txt").read_bytes() == b"\xe9\r\n\xfc\r\n"


def test_a_file_changed_meanwhile_stops_all(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    from apply_service.commands import request

    real = request.answer_batch

    def answer_and_meddle(*arguments: Any) -> dict[str, Any]:
        (project / "dir/b.py").write_bytes(b"theirs")
        return real(*arguments)

    monkeypatch.setattr(request, "answer_batch", answer_and_meddle)
    assert main(["apply", "--patch", "../p.diff", "--in-place"]) == 3
    assert last_code() == "file_changed"
    assert tree(project) == BEFORE | {"dir/b.py": b"theirs"}
    monkeypatch.setattr(request, "answer_batch", real)
    (project / "dir/b.py").write_bytes(BEFORE["dir/b.py"])
    edits = write_batch(project, GOOD, {"path": "dir/b.py", "update": block("two", "2")}, mode="independent")
    monkeypatch.setattr(request, "answer_batch", answer_and_meddle)
    assert main(["apply", "--batch", edits, "--in-place", "--json"]) == 3
    answer = json.loads(capsysbinary.readouterr().out)
    assert [item["status"] for item in answer["items"]] == ["ok", "failed"]
    assert answer["items"][1]["error"]["code"] == "file_changed"
    assert tree(project)["a.py"] == b"x\r\nY\r\n"


@pytest.mark.parametrize(
    ("name", "code"),
    [("../evil.py", "outside_roots"), ("/etc/evil.py", "outside_roots"), (".git/hooks/post-commit", "outside_roots")],
)
def test_names_that_lead_out_are_refused(
    project: Path, name: str, code: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    patch = V4A.replace("dir/new.py", name)
    (project.parent / "p.diff").write_bytes(patch.encode())
    assert main(["apply", "--patch", "../p.diff", "--in-place"]) == 3
    assert last_code() == code
    assert main(["apply", "--batch", write_batch(project, GOOD, NEW | {"path": name}), "--in-place"]) == 3
    assert capsysbinary.readouterr().err.count(name.encode()) >= 2
    assert tree(project) == BEFORE
    if name == "../evil.py":
        assert main(["apply", "--patch", "../p.diff", "--in-place", "--root", ".", "--root", ".."]) == 0
        assert (project.parent / "evil.py").read_bytes() == b"fresh\n"


@pytest.mark.skipif(os.name == "nt", reason="symbolic links need rights there")
def test_links_are_followed_and_never_taken_away(project: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    (project / "old.py").rename(project / "real.py")
    (project / "old.py").symlink_to("real.py")
    before = tree(project)
    assert main(["apply", "--patch", "../p.diff", "--in-place"]) == 2
    assert b"old.py is a symbolic link" in capsysbinary.readouterr().err
    assert tree(project) == before
    edit = {"path": "old.py", "update": block("gone", "here")}
    assert main(["apply", "--batch", write_batch(project, edit), "--in-place"]) == 0
    assert (project / "old.py").is_symlink()
    assert (project / "real.py").read_bytes() == b"here\n"


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (b"{", "invalid_field"),
        (b"[]", "invalid_field"),
        (b"{}", "invalid_field"),
        (b'{"edits": []}', "invalid_field"),
        (b'{"edits": [1]}', "invalid_field"),
        (b'{"edits": [{"update": "x"}]}', "invalid_field"),
        (b'{"edits": [{"path": "a.py", "update": "x", "original": "y"}]}', "unsupported_parameter"),
        (b'{"edits": [{"path": "a.py", "update": "x"}], "files": []}', "unsupported_parameter"),
        (b'{"edits": [{"path": "a.py", "update": "x", "colour": 1}]}', "unknown_field"),
        (b'{"edits": [{"path": "a.py", "update": "x"}], "mode": "x"}', "invalid_field"),
        (b'{"patch": "hello"}', "malformed_edit"),
        (b'{"edits": [{"path": "a.py", "update": "x"}, {"path": "a.py", "update": "x"}]}', "invalid_field"),
    ],
)
def test_batches_that_are_none(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], batch: bytes, code: str
) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(batch))
    assert main(["apply", "--batch", "-", "--in-place", "--json"]) == 2
    out = capsysbinary.readouterr().out
    assert json.loads(out)["error"]["code"] == code
    assert last_code() == code
    assert tree(project) == BEFORE


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (["--batch", "b", "--strategy", "exact"], ["--strategy"]),
        (["a.py", "--batch", "b"], ["FILE"]),
        (["--batch", "b", "--patch", "p"], ["--patch"]),
        (["--batch", "b", "--independent"], ["--independent"]),
        (["--patch", "p", "--update", "u", "--model", "m"], ["SNIPPET", "--model"]),
        (["a.py", "--update", "u", "--root", "."], ["--root"]),
        (["--request", "r", "--independent"], ["--independent"]),
        (["--batch", "b", "--server", "http://127.0.0.1:9", "--model", "m"], ["--model"]),
    ],
)
def test_options_without_effect_are_refused(
    project: Path, capsysbinary: pytest.CaptureFixture[bytes], arguments: list[str], value: list[str]
) -> None:
    assert main(["apply", *arguments]) == 2
    err = capsysbinary.readouterr().err.decode()
    assert last_code() == "unsupported_parameter"
    assert f": {', '.join(value)} would have no effect" in err


def test_an_interrupted_batch_is_rolled_back_by_the_next_command(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    interrupt(monkeypatch)
    assert tree(project) != BEFORE
    assert main(["apply", "--batch", write_batch(project, NEW), "--in-place", "--quiet"]) == 0
    assert tree(project) == BEFORE | {"deep/er/new.py": b"import os\n"}
    assert b"was interrupted and has been rolled back: " in capsysbinary.readouterr().err


def test_recover_says_what_it_did(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["recover"]) == 0
    interrupt(monkeypatch)
    (project / "a.py").write_bytes(b"by hand")
    before = tree(project)
    assert main(["recover", "--json"]) == 3
    out, err = capsysbinary.readouterr()
    (recovery,) = json.loads(out)
    assert recovery["conflicts"] == [str(project / "a.py")]
    assert b"cannot be rolled back" in err
    assert main(["undo", "dir/new.py"]) == 0  # told again, and stops nobody
    assert b"cannot be rolled back" in capsysbinary.readouterr().err
    (project / "dir/new.py").write_bytes(b"fresh\n")
    assert main(["recover", "--forget"]) == 0
    assert tree(project) == before
    assert main(["recover", "--json"]) == 0
    assert json.loads(capsysbinary.readouterr().out.splitlines()[-1]) == []


def interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a patch, and be killed before its last step."""

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("apply_service.disk.files.remove", die)
        patch.setattr("apply_service.disk.journal.Journal._take_back", die)
        with pytest.raises(Killed):
            main(["apply", "--patch", "../p.diff", "--in-place"])


def test_quiet_and_color(project: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["apply", "--patch", "../p.diff", "--quiet", "--color", "always"]) == 0
    out, err = capsysbinary.readouterr()
    assert err == b""
    assert b"\x1b[32m+Y" in io.BytesIO(out).read()


GIT_DIFFS = {
    "mark": (
        {"f.py": b"\xef\xbb\xbfa = 1\nb = 2\n"},
        "diff --git a/f.py b/f.py\n--- a/f.py\n+++ b/f.py\n@@ -1,2 +1,2 @@\n-\ufeffa = 1\n+\ufeffa = 3\n b = 2\n",
        {"f.py": b"\xef\xbb\xbfa = 3\nb = 2\n"},
    ),
    "swap": (
        {"a.txt": b"one\n", "b.txt": b"two\n"},
        "diff --git a/b.txt b/a.txt\nsimilarity index 100%\nrename from b.txt\nrename to a.txt\n"
        "diff --git a/a.txt b/b.txt\nsimilarity index 100%\nrename from a.txt\nrename to b.txt\n",
        {"a.txt": b"two\n", "b.txt": b"one\n"},
    ),
    "new file with CRLF": (
        {},
        "diff --git a/n.txt b/n.txt\nnew file mode 100644\n--- /dev/null\n+++ b/n.txt\n@@ -0,0 +1 @@\n+x\r\n",
        {"n.txt": b"x\r\n"},
    ),
}


@pytest.mark.parametrize("name", GIT_DIFFS)
@pytest.mark.parametrize("more", [[], ["--independent"]], ids=["together", "independent"])
def test_diffs_are_written_as_git_writes_them(name: str, more: list[str], folder: Path, options: list[str]) -> None:
    before, diff, after = GIT_DIFFS[name]
    for path in folder.iterdir():
        path.unlink()
    for path_name, data in before.items():
        (folder / path_name).write_bytes(data)
    patch = folder.parent / "g.diff"
    patch.write_bytes(diff.encode())
    assert main(["apply", "--patch", str(patch), "--in-place", *more, *options]) == 0
    assert tree(folder) == after


def test_a_batch_in_doubt_is_shown_and_told_by_the_exit_code(
    folder: Path, url: str, run: ScriptedRun, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    run.result = replace(run.result, verdicts=(Verdict("doubt", "warning", "`x` is there twice; 80% sure"),))
    (folder / "batch.json").write_text('{"edits": [{"path": "a.py", "update": "new\\n"}]}')
    command = ["apply", "--batch", "batch.json", "--server", url, "--quiet"]
    assert main(command) == 1
    out, err = capsysbinary.readouterr()
    assert b"+new" in out
    assert err.decode().splitlines() == [
        "a.py: modify: 80% sure, 1 hunk",
        "  `x` is there twice",
        "applied: 1 of 1 files can be written, 1 of them only with --allow-doubt",
    ]
    assert main([*command, "--allow-doubt"]) == 0
    assert capsysbinary.readouterr().err == b""
    assert main([*command, "--in-place"]) == 1
    assert (folder / "a.py").read_bytes() == OLD
    assert b"  `x` is there twice\n  Look at it without --in-place; --allow-doubt" in capsysbinary.readouterr().err
