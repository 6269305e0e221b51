"""What a batch, a patch or an agent may not reach, and what `--force` is for: whole commands."""

import hashlib
import json
import os
import stat
from pathlib import Path

import pytest

from apply_service.cli import main
from apply_service.disk.paths import Roots
from apply_service.settings import load_settings, own_places
from tests.commands.conftest import OLD, last_code

DELETE = "--- a/a.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-old\r\n-name = 1\n"
RENAME = "diff --git a/a.py b/z.py\nsimilarity index 100%\nrename from a.py\nrename to z.py\n"
CHANGE = "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n-old\r\n+new\r\n name = 1\n"


def new_file(name: str, text: str = "x") -> str:
    return f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+{text}\n"


def home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder above, with state and configuration below it, as in a user's home."""
    monkeypatch.chdir(folder.parent)
    return folder.parent


OURS = [
    "state/apply-service/journal/x.json",
    "state/apply-service/server/keys.toml",
    "config/apply-service/config.toml",
]


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("kind", ["--batch", "--patch"])
def test_our_own_files_are_nobodys(folder: Path, name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    top = home(folder, monkeypatch)
    edit = json.dumps({"edits": [{"path": name, "update": "{}\n", "format": "whole_file"}]})
    (top / "edit").write_text(edit if kind == "--batch" else new_file(name))
    assert main(["apply", kind, "edit", "-i"]) == 3
    assert last_code() == "outside_roots"
    assert not (top / name).exists()


@pytest.mark.parametrize("how", ["--config", "APPLY_SERVICE_CONFIG", "APPLY_CONFIG", "keys_file", "state_dir"])
def test_places_that_were_named_are_guarded(folder: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = []
    (folder / "c.toml").write_text("")
    if how in ("--config", "APPLY_SERVICE_CONFIG", "APPLY_CONFIG"):
        name = "c.toml"
        if how == "--config":
            words = ["--config", name]
        else:
            monkeypatch.setenv(how, name)
    else:
        name = "own/x"
        monkeypatch.setenv(f"APPLY_SERVICE_{how.upper()}", str(folder / "own") if how == "state_dir" else "own/x")
    (folder / "p.diff").write_text(new_file(name))
    assert main(["apply", "--patch", "p.diff", *words]) == 3
    assert last_code() == "outside_roots"


def test_the_usual_places_are_guarded_too(folder: Path) -> None:
    places = own_places(load_settings({"state_dir": str(folder / "elsewhere")}))
    for name in ("state/apply-service", "config/apply-service"):
        assert folder.parent / name in places


def test_a_planted_note_is_never_acted_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the attack wrote it, should a file get into the journal after all."""
    top = home(folder, monkeypatch)
    hook = folder / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(parents=True)
    script = b"#!/bin/sh\ntouch /tmp/owned\n"
    (folder / "text").write_bytes(script)
    journal = top / "state" / "apply-service" / "journal"
    journal.mkdir(parents=True)
    step = {
        "target": str(hook),
        "before": [hashlib.sha256(script).hexdigest(), 0o755],
        "after": [None, None],
        "kept": str(folder / "text"),
        "temporary": str(folder / ".git" / "hooks" / "t"),
    }
    for extra in ({}, {"roots": [str(top)]}, {"roots": ["/"]}):
        note = {"steps": [step], "folders": [], "started": "2026-01-01", **extra}
        (journal / "x.json").write_text(json.dumps(note))
        assert main(["recover"]) == 3
        assert "No file was touched; look at " in capsys.readouterr().err
        assert not hook.exists()
        assert (journal / "x.json.rejected").is_file()
    assert main(["recover"]) == 0
    (journal / "x.json").write_text(json.dumps(note))
    (folder / "edit.txt").write_bytes(b"<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n")
    assert main(["apply", str(folder / "a.py"), str(folder / "edit.txt"), "-i"]) == 0, "it stops nobody"
    assert not hook.exists()


@pytest.mark.parametrize("name", ["server/keys.toml", "backups/x/1.json"])
def test_a_plain_edit_does_not_write_state(folder: Path, name: str) -> None:
    path = folder.parent / "state" / "apply-service" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(OLD)
    (folder / "edit.txt").write_bytes(b"<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n")
    assert main(["apply", str(path), "edit.txt", "-i"]) == 3
    assert last_code() == "outside_roots"
    assert path.read_bytes() == OLD
    assert main(["apply", str(path), "edit.txt"]) == 0, "it may be looked at"


def test_a_plain_edit_writes_the_configuration(folder: Path) -> None:
    """Its user named it himself."""
    path = folder.parent / "config" / "apply-service" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_bytes(b'color = "never"\n')
    (folder / "edit.txt").write_bytes(b'<<<<<<< SEARCH\ncolor = "never"\n=======\ncolor = "auto"\n>>>>>>> REPLACE\n')
    assert main(["apply", str(path), "edit.txt", "-i"]) == 0
    assert path.read_bytes() == b'color = "auto"\n'


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes")
@pytest.mark.parametrize("patch", [DELETE, RENAME, CHANGE])
@pytest.mark.parametrize("more", [[], ["--independent"]])
def test_a_read_only_file_is_changed_only_by_force(
    folder: Path, patch: str, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.py").chmod(0o444)
    (folder / "p.diff").write_bytes(patch.encode())
    assert main(["apply", "--patch", "p.diff", "-i", *more]) == 3
    assert "--force" in capsys.readouterr().err
    assert (folder / "a.py").read_bytes() == OLD
    assert not (folder / "z.py").exists()
    assert main(["apply", "--patch", "p.diff", "-i", "--force", *more]) == 0
    assert not (folder / "a.py").exists() or (folder / "a.py").read_bytes() == b"new\r\nname = 1\n"
    if patch is CHANGE:
        assert stat.S_IMODE((folder / "a.py").stat().st_mode) == 0o444
    assert main(["undo", "a.py", "--force"]) == 0
    assert (folder / "a.py").read_bytes() == OLD
    assert stat.S_IMODE((folder / "a.py").stat().st_mode) == 0o444


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes")
def test_a_batch_and_a_plain_edit_need_force_too(folder: Path) -> None:
    (folder / "a.py").chmod(0o444)
    block = "<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n"
    (folder / "edit.txt").write_text(block)
    (folder / "batch.json").write_text(json.dumps({"edits": [{"path": "a.py", "update": block}]}))
    for words in (["a.py", "edit.txt"], ["--batch", "batch.json"]):
        assert main(["apply", *words, "-i"]) == 3
        assert (folder / "a.py").read_bytes() == OLD
        assert main(["apply", *words, "-i", "--force"]) == 0
        assert main(["undo", "a.py", "--force"]) == 0


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o750, 0o644])
def test_a_moved_file_keeps_its_rights(folder: Path, mode: int) -> None:
    (folder / "a.py").chmod(mode)
    (folder / "p.diff").write_text(RENAME)
    assert main(["apply", "--patch", "p.diff", "-i"]) == 0
    assert stat.S_IMODE((folder / "z.py").stat().st_mode) == mode


NUL = "x\0"
V4A = f"*** Begin Patch\n*** Add File: new.py\n+{NUL}\n*** End Patch\n"
REPLY = f"new.py\n```python\n{NUL}\n```\n"
BLOCK = f"a.py\n<<<<<<< SEARCH\nold\n=======\n{NUL}\n>>>>>>> REPLACE\n"
JSON_EDIT = json.dumps({"edits": [{"oldText": "old", "newText": NUL}]})


@pytest.mark.parametrize(
    "patch", [CHANGE.replace("new", NUL), new_file("new.py", NUL), V4A, REPLY, BLOCK, f"{NUL}{CHANGE}", DELETE + NUL]
)
def test_a_patch_with_nul_is_refused(folder: Path, patch: str) -> None:
    (folder / "p.diff").write_bytes(patch.encode())
    assert main(["apply", "--patch", "p.diff", "-i"]) == 2
    assert last_code() == "nul_byte"
    assert (folder / "a.py").read_bytes() == OLD
    assert not (folder / "new.py").exists()


@pytest.mark.parametrize("old", [b"old\0\r\nname = 1\n", b"\0"])
def test_a_file_with_nul_is_refused(folder: Path, old: bytes) -> None:
    (folder / "a.py").write_bytes(old)
    for patch in (CHANGE, RENAME):
        (folder / "p.diff").write_bytes(patch.encode())
        assert main(["apply", "--patch", "p.diff", "-i"]) == 2
        assert last_code() == "nul_byte"
    assert (folder / "a.py").read_bytes() == old


@pytest.mark.parametrize("update", [BLOCK.partition("\n")[2], JSON_EDIT, NUL])
def test_nul_is_refused_in_edits_and_batches(folder: Path, update: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the edit only names the character, as JSON does."""
    (folder / "edit.txt").write_bytes(update.encode())
    assert main(["apply", "a.py", "edit.txt", "-i"]) == 2
    assert last_code() == "nul_byte"
    (folder / "batch.json").write_text(json.dumps({"edits": [{"path": name, "update": update} for name in ("a.py",)]}))
    assert main(["apply", "--batch", "batch.json", "-i", "--json"]) == 1
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert item["error"]["code"] == "nul_byte"
    assert (folder / "a.py").read_bytes() == OLD


def test_a_state_folder_of_the_project_brings_nothing_along(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user wants state beside each project; a cloned one brings a change set of its own, interrupted, that would
    give him back a file which he never had."""
    login, script = folder.parent / "home" / ".bash_login", b"touch /tmp/owned\n"
    login.parent.mkdir()
    kept = folder / ".apply" / "backups" / hashlib.sha256(os.path.normcase(login).encode()).hexdigest()[:32]
    kept.mkdir(parents=True)
    (kept / "00000001.bytes").write_bytes(script)
    before, after = [hashlib.sha256(script).hexdigest(), 0o755, None], [None, None, None]
    step = {"target": str(login), "before": before, "after": after, "kept": "00000001.bytes"}
    note = {"roots": [str(login.parent)], "started": "2026-11-26T12:00:00+00:00", "folders": [], "steps": [step]}
    (folder / ".apply" / "journal").mkdir()
    (folder / ".apply" / "journal" / "0123456789abcdef.json").write_text(json.dumps(note))
    (folder / "whole.txt").write_text("new\n")
    monkeypatch.setenv("APPLY_SERVICE_STATE_DIR", ".apply")
    main(["apply", "a.py", "whole.txt", "-i", "-f", "whole_file", "--strategy", "exact"])
    assert not login.exists()


@pytest.mark.skipif(os.name == "nt", reason="symbolic links need rights there")
@pytest.mark.parametrize("kind", ["--batch", "--patch"])
def test_a_link_that_comes_after_the_look(folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (folder / "src", folder.parent / "outside"):
        place.mkdir()
        (place / "a.py").write_bytes(OLD)
    edit = json.dumps({"edits": [{"path": "src/a.py", "update": "new\n", "format": "whole_file"}]})
    patch = CHANGE.replace("/a.py", "/src/a.py")
    (folder / "edit").write_bytes((edit if kind == "--batch" else patch).encode())
    judge = Roots.resolve

    def resolve(self: Roots, name: str) -> Path:
        place = judge(self, name)
        if not (folder / "src").is_symlink():
            (folder / "src").rename(folder / "was")
            (folder / "src").symlink_to(folder.parent / "outside")
        return place

    monkeypatch.setattr(Roots, "resolve", resolve)
    code = main(["apply", kind, "edit", "-i"])
    assert (folder.parent / "outside" / "a.py").read_bytes() == OLD
    assert code == 3
