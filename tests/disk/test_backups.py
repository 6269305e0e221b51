"""Backups: what --in-place overwrote can be brought back, and nothing else is lost by it."""

import contextlib
import os
import stat
import threading
from pathlib import Path

import pytest
from filelock import FileLock

from apply_service.disk import backups, files, journal
from apply_service.disk.backups import BackupStore
from apply_service.disk.files import FileWrite, SourceFile, read_source
from apply_service.errors import FileChanged, FileNotWritable, NoBackup


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
            with pytest.raises(FileNotWritable, match="being written"):
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
    backup = Path(caught.value.remedy.removeprefix("The bytes before the edit are in ").removesuffix("."))
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
