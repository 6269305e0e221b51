"""Backups: what --in-place overwrote can be brought back, and nothing else is lost by it."""

import contextlib
import json
import os
import stat
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from apply_service.disk import backups, files, journal
from apply_service.disk.backups import BackupStore
from apply_service.disk.files import FileWrite, SourceFile, read_source, write_atomic
from apply_service.disk.paths import Roots
from apply_service.errors import FileChanged, FileNotWritable, NoBackup, OutsideRoots
from tests.other_user import as_user, let_in, needs_root


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return BackupStore(tmp_path / "state", 3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.py"
    path.write_bytes(b"v0\r\n\xff")
    return path


def edit(store: BackupStore, path: Path, *versions: bytes) -> None:
    for version in versions:
        store.write_all([FileWrite(read_source(path), version)])


def test_edits_are_undone_one_by_one(store: BackupStore, path: Path) -> None:
    edit(store, path, b"v1", b"v2")
    store.undo(path)
    assert path.read_bytes() == b"v1"
    store.undo(path)
    assert path.read_bytes() == b"v0\r\n\xff"
    with pytest.raises(NoBackup) as caught:
        store.undo(path)
    assert caught.value.value == str(path)


def test_two_writers_take_turns(store: BackupStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes second finds the file changed, even if it has looked before the first was done."""
    sources = [read_source(path), read_source(path)]
    look, looked = files.refuse_if_changed, threading.Barrier(2)

    def look_and_wait(source: SourceFile) -> None:
        look(source)
        with contextlib.suppress(threading.BrokenBarrierError):
            looked.wait(0.3)

    monkeypatch.setattr(files, "refuse_if_changed", look_and_wait)
    ends: list[str] = []

    def write(source: SourceFile, data: bytes) -> None:
        try:
            store.write_all([FileWrite(source, data)])
            ends.append("written")
        except FileChanged:
            ends.append("changed")

    threads = [
        threading.Thread(target=write, args=(one, data)) for one, data in zip(sources, (b"1", b"2"), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(ends) == ["changed", "written"]


def test_a_writer_that_never_ends_is_named(
    store: BackupStore, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "LOCK_TIMEOUT_S", 0.05)
    edit(store, path, b"v1")
    with FileLock(tmp_path / "state" / "journal" / "lock"):
        for write in (lambda: edit(store, path, b"v2"), lambda: store.undo(path)):
            with pytest.raises(FileNotWritable, match="is writing files"):
                write()
    assert path.read_bytes() == b"v1"


def test_a_new_file_is_undone_by_removing_it(store: BackupStore, tmp_path: Path) -> None:
    edit(store, tmp_path / "new.py", b"", b"x")
    store.undo(tmp_path / "new.py")
    assert (tmp_path / "new.py").read_bytes() == b""
    store.undo(tmp_path / "new.py")
    assert not (tmp_path / "new.py").exists()


def test_a_file_changed_since_is_left_alone_and_the_backup_named(store: BackupStore, path: Path) -> None:
    edit(store, path, b"v1")
    path.write_bytes(b"by hand")
    with pytest.raises(FileChanged) as caught:
        store.undo(path)
    assert path.read_bytes() == b"by hand"
    backup = Path(caught.value.remedy.removeprefix("The file as it was before the edit is in ").removesuffix("."))
    assert backup.read_bytes() == b"v0\r\n\xff"
    path.unlink()
    with pytest.raises(FileChanged):
        store.undo(path)


def test_only_the_last_few_are_kept(store: BackupStore, path: Path, tmp_path: Path) -> None:
    edit(store, path, *(f"v{i}".encode() for i in range(1, 8)))
    assert len(list((tmp_path / "state").rglob("*.bytes"))) == 3
    for expected in (b"v6", b"v5", b"v4"):
        store.undo(path)
        assert path.read_bytes() == expected
    with pytest.raises(NoBackup):
        store.undo(path)


def test_files_have_backups_of_their_own(store: BackupStore, path: Path, tmp_path: Path) -> None:
    other = tmp_path / "b.py"
    other.write_bytes(b"other")
    edit(store, path, b"v1")
    edit(store, other, b"other 1")
    store.undo(path)
    assert (path.read_bytes(), other.read_bytes()) == (b"v0\r\n\xff", b"other 1")


def test_a_failed_write_leaves_no_backup(store: BackupStore, path: Path, tmp_path: Path) -> None:
    source = read_source(path)
    path.write_bytes(b"theirs")
    with pytest.raises(FileChanged):
        store.write_all([FileWrite(source, b"v1")])
    assert path.read_bytes() == b"theirs"
    assert not list((tmp_path / "state").rglob("*.bytes"))


def test_a_backup_of_an_edit_that_never_happened_is_passed_over(
    store: BackupStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(store, path, b"v1")
    with monkeypatch.context() as patch:  # as if the process had been killed between backup and replacement
        patch.setattr(backups, "write_atomic", lambda *_, **__: None)
        edit(store, path, b"v2")
    assert path.read_bytes() == b"v1"
    store.undo(path)
    assert path.read_bytes() == b"v0\r\n\xff"


@pytest.mark.parametrize("note", [b"{", b"\xff", b"[]", b"null", b"{}", b'{"path": 1, "other": 2}'])
def test_a_damaged_note_is_no_backup_and_its_folder_is_named(
    store: BackupStore, path: Path, tmp_path: Path, note: bytes
) -> None:
    edit(store, path, b"v1")
    (note_path,) = (tmp_path / "state").rglob("*.json")
    note_path.write_bytes(note)
    with pytest.raises(NoBackup) as caught:
        store.undo(path)
    assert str(note_path.parent) in caught.value.remedy
    assert path.read_bytes() == b"v1"


def test_damaged_bytes_are_not_brought_back(store: BackupStore, path: Path, tmp_path: Path) -> None:
    edit(store, path, b"v1")
    (kept,) = (tmp_path / "state").rglob("*.bytes")
    kept.write_bytes(b"cut of")
    with pytest.raises(NoBackup) as caught:
        store.undo(path)
    assert caught.value.value == str(kept)
    assert path.read_bytes() == b"v1"


def test_no_place_for_backups_means_no_edit(path: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileNotWritable) as caught:
        BackupStore(tmp_path / "file", 3).write_all([FileWrite(read_source(path), b"v1")])
    assert "state_dir" in caught.value.remedy
    assert path.read_bytes() == b"v0\r\n\xff"


@pytest.mark.skipif(os.name == "nt", reason="POSIX links and modes")
def test_links_share_backups_and_the_folder_is_private(store: BackupStore, path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.py"
    link.symlink_to("a.py")
    edit(store, link, b"v1")
    store.undo(path)
    assert path.read_bytes() == b"v0\r\n\xff"
    assert stat.S_IMODE((tmp_path / "state" / "backups").stat().st_mode) == 0o700


def kept_names(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "state").rglob("*") if path.is_file()} - {"lock"}


@pytest.mark.parametrize("n_call", [1, 2, 3])
def test_a_full_disk_leaves_nothing_of_a_backup(
    store: BackupStore, path: Path, tmp_path: Path, n_call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls: the bytes, the note, its folder."""
    real, count = os.fsync, [0]

    def full(descriptor: int) -> None:
        count[0] += 1
        if count[0] == n_call:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileNotWritable, match="No space left"):
        edit(store, path, b"v1")
    assert path.read_bytes() == b"v0\r\n\xff"
    assert kept_names(tmp_path) == set()


def test_what_a_dead_writer_left_is_removed_by_the_next(store: BackupStore, path: Path, tmp_path: Path) -> None:
    edit(store, path, b"v1")
    (note,) = (tmp_path / "state" / "backups").rglob("*.json")
    for name in ("00000002.bytes", "00000003.bytes", "00000003.draft", "x.bytes"):
        (note.parent / name).write_bytes(b"half")
    edit(store, path, b"v2")
    assert kept_names(tmp_path) == {f"0000000{i}.{end}" for i in (1, 2) for end in ("bytes", "json")}
    store.undo(path)
    assert path.read_bytes() == b"v1"


@pytest.mark.parametrize(
    "change",
    [
        {"path": "/etc/passwd"},
        {"mode": 0o104755},
        {"mode": -1},
        {"mode": True},
        {"mode": "0755"},
        {"owner": [-1, 0]},
        {"owner": [0]},
        {"owner": "ab"},
    ],
)
def test_a_planted_note_is_no_backup(store: BackupStore, path: Path, tmp_path: Path, change: dict[str, object]) -> None:
    edit(store, path, b"v1")
    (note,) = (tmp_path / "state" / "backups").rglob("*.json")
    note.write_text(json.dumps(json.loads(note.read_text()) | change))
    with pytest.raises(NoBackup, match="damaged"):
        store.undo(path)
    assert path.read_bytes() == b"v1"


@pytest.mark.skipif(os.name == "nt", reason="POSIX links and modes")
@pytest.mark.parametrize("place", ["note", "bytes", "folder", "backups"])
def test_links_in_the_state_folder_are_not_followed(store: BackupStore, path: Path, tmp_path: Path, place: str) -> None:
    edit(store, path, b"v1")
    (note,) = (tmp_path / "state" / "backups").rglob("*.json")
    real = {"note": note, "bytes": note.with_suffix(".bytes"), "folder": note.parent, "backups": note.parent.parent}[
        place
    ]
    real.rename(tmp_path / "elsewhere")
    real.symlink_to(tmp_path / "elsewhere")
    with pytest.raises((NoBackup, FileNotWritable)):
        store.undo(path)
    assert path.read_bytes() == b"v1"
    if place in ("folder", "backups"):
        before = sorted((tmp_path / "elsewhere").rglob("*"))
        with pytest.raises(FileNotWritable, match="link"):
            edit(store, path, b"v2")
        assert sorted((tmp_path / "elsewhere").rglob("*")) == before
        assert path.read_bytes() == b"v1"


@pytest.mark.parametrize("name", ["journal/x.json", "backups/x/00000001.json", "server/keys.toml", "new/x"])
def test_no_edit_reaches_the_state_folder(store: BackupStore, path: Path, tmp_path: Path, name: str) -> None:
    target = tmp_path / "state" / name
    for write in (
        lambda: store.write_all([FileWrite(read_source(target, needs_folder=False), b"x")]),
        lambda: store.write_all(
            [FileWrite(read_source(one, needs_folder=False), b"x") for one in (path, target)], is_forced=True
        ),
        lambda: store.undo(target),
    ):
        with pytest.raises(OutsideRoots, match="own data"):
            write()
    assert not target.exists()
    assert path.read_bytes() == b"v0\r\n\xff"


@pytest.mark.skipif(os.name == "nt", reason="POSIX links and modes")
@pytest.mark.parametrize("data", [b"v1", None])
def test_a_read_only_file_is_changed_only_by_force(store: BackupStore, path: Path, data: bytes | None) -> None:
    path.chmod(0o444)
    with pytest.raises(FileNotWritable, match="read-only"):
        store.write_all([FileWrite(read_source(path), data)])
    assert path.read_bytes() == b"v0\r\n\xff"
    store.write_all([FileWrite(read_source(path), data)], is_forced=True)
    if data is not None:
        with pytest.raises(FileNotWritable, match="read-only"):
            store.undo(path)
    store.undo(path, is_forced=True)
    assert path.read_bytes() == b"v0\r\n\xff"
    assert stat.S_IMODE(path.stat().st_mode) == 0o444


@needs_root
@pytest.mark.parametrize("uid", [0, 1002])
def test_a_deleted_file_comes_back_with_its_owner_or_less(tmp_path: Path, uid: int) -> None:
    let_in(tmp_path)
    (tmp_path / "work").mkdir()
    (tmp_path / "work").chmod(0o777)
    path = tmp_path / "work" / "a.py"
    path.write_bytes(b"v0")
    os.chown(path, 1001, 2001)
    path.chmod(0o6775)

    def delete_and_undo() -> None:
        store = BackupStore(tmp_path / "state", 3)
        store.write_all([FileWrite(read_source(path), None)], is_forced=True)
        assert not path.exists()
        store.undo(path)

    as_user(delete_and_undo, uid, uid)
    now = path.stat()
    expected = (1001, 2001, 0o6775) if uid == 0 else (1002, 1002, 0o755)
    assert (now.st_uid, now.st_gid, stat.S_IMODE(now.st_mode)) == expected


@pytest.mark.skipif(os.name == "nt", reason="symbolic links need rights there")
def test_a_batch_stages_nothing_where_a_folder_has_become_a_link(store: BackupStore, tmp_path: Path) -> None:
    folder, outside = tmp_path / "d", tmp_path / "outside"
    for place in (folder, outside):
        place.mkdir()
        for name in ("a", "b"):
            (place / name).write_bytes(b"old")
    writes = [FileWrite(read_source(folder / name), b"new") for name in ("a", "b")]
    writes += [FileWrite(read_source(folder / "sub" / "c", needs_folder=False), b"new")]
    folder.rename(tmp_path / "was")
    folder.symlink_to(outside)
    seen: list[set[str]] = []

    def note(event: str, _: object) -> None:
        if seen and event in ("open", "os.mkdir", "os.rename", "os.link", "os.remove"):
            seen[0].update(one.name for one in outside.iterdir())

    sys.addaudithook(note)
    seen.append(set())
    with pytest.raises(FileChanged):
        store.write_all(writes)
    found = seen.pop()
    assert found <= {"a", "b"}
    assert {one.name: one.read_bytes() for one in outside.iterdir()} == {"a": b"old", "b": b"old"}


# -- a whole edit ------------------------------------------------------------------------------------------------------
@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    for name in ("a.py", "b.py", "gone.py", "alone.py"):
        (tmp_path / "work" / name).write_bytes(b"v0")
    return tmp_path / "work"


def edit_all(store: BackupStore, work: Path) -> None:
    after = {"a.py": b"v1", "b.py": b"v1", "gone.py": None, "new.py": b"v1"}
    store.write_all([FileWrite(read_source(work / name), data) for name, data in after.items()])


def held(work: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in work.iterdir()}


def test_a_whole_edit_is_undone_and_no_other(store: BackupStore, work: Path) -> None:
    before = held(work)
    edit(store, work / "alone.py", b"other")
    edit_all(store, work)
    assert len(store.undo_all(work / "b.py", Roots([work]))) == 4
    assert held(work) == before | {"alone.py": b"other"}
    with pytest.raises(NoBackup):
        store.undo_all(work / "b.py", Roots([work]))


def test_files_that_are_back_already_are_left_out(store: BackupStore, work: Path) -> None:
    before = held(work)
    edit_all(store, work)
    store.undo(work / "a.py")
    assert len(store.undo_all(work / "b.py", Roots([work]))) == 3
    assert held(work) == before


@pytest.mark.parametrize("how", ["changed", "edited", "read-only", "elsewhere"])
def test_no_file_of_an_edit_is_undone_where_one_cannot_be(
    store: BackupStore, work: Path, tmp_path: Path, how: str
) -> None:
    edit_all(store, work)
    roots = Roots([work])
    if how == "changed":
        (work / "b.py").write_bytes(b"by hand")
    elif how == "edited":
        edit(store, work / "b.py", b"v2")
    elif how == "read-only":
        (work / "b.py").chmod(0o400)
    else:
        (tmp_path / "elsewhere").mkdir()
        roots = Roots([tmp_path / "elsewhere"])
    after = held(work)
    with pytest.raises((FileChanged, FileNotWritable, OutsideRoots)):
        store.undo_all(work / "a.py", roots)
    assert held(work) == after


def test_an_undo_that_fails_midway_goes_on(store: BackupStore, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = held(work)
    edit_all(store, work)
    calls = iter((False, True))

    def write(source: SourceFile, data: bytes | None, **more: Any) -> None:
        if next(calls, False):
            raise FileNotWritable("The disk is full.", remedy="Make room.")
        write_atomic(source, data, **more)

    monkeypatch.setattr("apply_service.disk.backups.write_atomic", write)
    with pytest.raises(FileNotWritable) as caught:
        store.undo_all(work / "a.py", Roots([work]))
    assert "1 of 4 files are back; the same command takes back the rest." in caught.value.remedy
    assert len(store.undo_all(work / "a.py", Roots([work]))) == 3
    assert held(work) == before
