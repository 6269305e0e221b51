"""Several files: all written, or all as they were."""

import json
import os
from pathlib import Path

import pytest

from apply_service.disk import files, journal
from apply_service.disk.backups import BackupStore
from apply_service.disk.files import FileWrite, read_source
from apply_service.disk.journal import Journal
from apply_service.errors import FileChanged, FileNotReadable, FileNotWritable, InvalidField

needs_posix = pytest.mark.skipif(os.name == "nt", reason="POSIX modes and links")

OLD = {"a.py": b"a0\r\n", "b.py": b"b0", "gone.py": b"g0", "run.sh": b"s0"}
NEW = {"a.py": b"a1\r\n", "b.py": b"b1\xff", "deep/er/new.py": b"n1", "run.sh": b"s0"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    for name, data in OLD.items():
        (folder / name).write_bytes(data)
    (folder / "gone.py").chmod(0o640)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return BackupStore(tmp_path / "state", 3)


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def writes(root: Path) -> list[FileWrite]:
    """OLD to NEW: two changes, a new file in new folders, a deletion, a mode."""
    found = [FileWrite(source(root, name), None) for name in OLD.keys() - NEW.keys()]
    found += [FileWrite(source(root, name), data) for name, data in NEW.items() if name != "run.sh"]
    return [*found, FileWrite(source(root, "run.sh"), b"s0", is_executable=True)]


def source(root: Path, name: str) -> files.SourceFile:
    return read_source(root / name, needs_folder=False)


def recover(root: Path) -> tuple[journal.Recovery, ...]:
    return Journal(root.parent / "state").recover()


def is_executable(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o100)


class Killed(BaseException):
    """Stands for SIGKILL: nothing runs after it, least of all a rollback."""


def die_at(n_calls: int, name: str, patch: pytest.MonkeyPatch) -> None:
    """The process dies at the n-th call of one of the functions that touch files."""
    real, count = getattr(files, name), [0]

    def counted(*arguments: object, **options: object) -> object:
        count[0] += 1
        if count[0] == n_calls:
            raise Killed
        return real(*arguments, **options)

    def die(*_: object) -> None:
        raise Killed

    patch.setattr(files, name, counted)
    patch.setattr(Journal, "_take_back", die)


def test_all_are_written(root: Path, store: BackupStore, tmp_path: Path) -> None:
    store.write_all(writes(root))
    assert tree(root) == NEW
    if os.name != "nt":
        assert is_executable(root / "run.sh")
    assert not list((tmp_path / "state" / "journal").glob("*.json"))
    assert recover(root) == ()


@pytest.mark.parametrize(
    ("name", "n_calls"),
    [
        *[("make_folder", 1), ("stage", 1), ("stage", 3), ("refuse_if_changed", 2), ("publish", 1), ("publish", 2)],
        *[("publish", 4), ("remove", 1), ("sync_folder", 7), ("sync_folder", 8), ("sync_folder", 9)],
    ],
)
def test_a_dead_process_is_rolled_back_by_the_next(
    root: Path, store: BackupStore, name: str, n_calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        die_at(n_calls, name, patch)
        with pytest.raises(Killed):
            store.write_all(writes(root))
    (recovery,) = recover(root)
    assert recovery.conflicts == ()
    assert tree(root) == OLD
    assert not (root / "deep").exists()
    assert not is_executable(root / "run.sh")
    assert (root / "gone.py").stat().st_mode & 0o777 == 0o640
    assert recover(root) == ()
    store.write_all(writes(root))
    assert tree(root) == NEW


@pytest.mark.parametrize("n_restored", [0, 1, 2, 3])
def test_a_recovery_that_dies_is_taken_up_again(
    root: Path, store: BackupStore, n_restored: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        die_at(1, "remove", patch)
        with pytest.raises(Killed):
            store.write_all(writes(root))
    real, count = files.publish, [0]

    def publish(*arguments: object) -> None:
        if count[0] == n_restored:
            raise Killed
        count[0] += 1
        real(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(files, "publish", publish)
        patch.setattr(journal, "_clean", publish)
        with pytest.raises(Killed):
            recover(root)
    assert len(recover(root)) == 1
    assert tree(root) == OLD


def test_an_error_in_the_middle_is_rolled_back_at_once(
    root: Path, store: BackupStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, count = files.publish, [0]

    def publish_and_meddle(temporary: Path, source: files.SourceFile) -> None:
        count[0] += 1
        if count[0] == 3:
            source.target.parent.mkdir(exist_ok=True, parents=True)
            source.target.write_bytes(b"someone else's")
        real(temporary, source)

    monkeypatch.setattr(files, "publish", publish_and_meddle)
    with pytest.raises(FileChanged) as caught:
        store.write_all(writes(root))
    assert "recover" not in caught.value.remedy
    assert tree(root) == OLD | {"deep/er/new.py": b"someone else's"}
    assert not list((tmp_path / "state").rglob("*.json"))


def test_a_stale_file_means_no_file_is_written(root: Path, store: BackupStore) -> None:
    planned = writes(root)
    (root / "b.py").write_bytes(b"theirs")
    with pytest.raises(FileChanged) as caught:
        store.write_all(planned)
    assert caught.value.value == str(root / "b.py")
    assert tree(root) == OLD | {"b.py": b"theirs"}
    assert not (root / "deep").exists()


def test_no_room_means_no_file_is_written(root: Path, store: BackupStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real, count = os.chmod, [0]

    def chmod(path: Path, mode: int) -> None:
        count[0] += path.name.endswith(".apply-tmp")
        if count[0] == 3:
            raise OSError(28, "No space left on device")
        real(path, mode)

    monkeypatch.setattr(os, "chmod", chmod)
    with pytest.raises(FileNotWritable, match="No space left"):
        store.write_all(writes(root))
    assert tree(root) == OLD
    assert not (root / "deep").exists()


def interrupted(root: Path, store: BackupStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        die_at(1, "remove", patch)
        with pytest.raises(Killed):
            store.write_all(writes(root))
    assert tree(root) == NEW | {"gone.py": b"g0"}


def test_a_file_changed_since_stops_the_recovery(
    root: Path, store: BackupStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(root, store, monkeypatch)
    (root / "b.py").write_bytes(b"theirs")
    before = tree(root)
    for _ in range(2):
        (recovery,) = recover(root)
        assert recovery.conflicts == (str(root / "b.py"),)
        assert recovery.restored == ()
        assert tree(root) == before
    assert Journal(tmp_path / "state").forget() == (recovery.note,)
    assert tree(root) == before
    assert recover(root) == ()


def test_lost_bytes_stop_the_recovery(
    root: Path, store: BackupStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(root, store, monkeypatch)
    for kept in (tmp_path / "state" / "backups").rglob("*.bytes"):
        kept.write_bytes(b"other")
    (recovery,) = recover(root)
    assert set(recovery.conflicts) == {str(root / name) for name in ("a.py", "b.py", "run.sh")}
    assert tree(root) == NEW | {"gone.py": b"g0"}


def test_a_damaged_note_is_named(root: Path, store: BackupStore, tmp_path: Path) -> None:
    folder = tmp_path / "state" / "journal"
    folder.mkdir(parents=True)
    (folder / "x.json").write_bytes(b"{")
    with pytest.raises(FileNotReadable) as caught:
        recover(root)
    assert caught.value.value == str(folder / "x.json")
    assert Journal(tmp_path / "state").forget() == (str(folder / "x.json"),)
    assert recover(root) == ()


def test_a_living_change_set_is_not_rolled_back(
    root: Path, store: BackupStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "LOCK_TIMEOUT_S", 0.05)
    real = files.publish

    def publish_and_recover(temporary: Path, source: files.SourceFile) -> None:
        real(temporary, source)
        with pytest.raises(FileNotWritable, match="being written"):
            recover(root)

    monkeypatch.setattr(files, "publish", publish_and_recover)
    store.write_all(writes(root))
    assert tree(root) == NEW


def test_each_file_of_a_change_set_can_be_undone(root: Path, store: BackupStore) -> None:
    store.write_all(writes(root))
    for name in ("a.py", "b.py", "gone.py", "deep/er/new.py", "run.sh"):
        store.undo(root / name)
    assert tree(root) == OLD
    assert not is_executable(root / "run.sh")
    assert (root / "gone.py").stat().st_mode & 0o777 == 0o640


@needs_posix
def test_one_file_by_two_names_is_refused(root: Path, store: BackupStore) -> None:
    (root / "link.py").symlink_to("a.py")
    os.link(root / "b.py", root / "hard.py")
    for first, second in (("a.py", "link.py"), ("b.py", "hard.py"), ("no/x.py", "no/../no/x.py")):
        with pytest.raises(InvalidField) as caught:
            store.write_all([FileWrite(source(root, name), b"1") for name in (first, second)])
        assert caught.value.value == [str(root / first), str(root / second)]
    assert {name: data for name, data in tree(root).items() if name in OLD} == OLD


def test_writes_without_a_change_leave_no_trace(root: Path, store: BackupStore, tmp_path: Path) -> None:
    store.write_all([FileWrite(source(root, "a.py"), b"a0\r\n"), FileWrite(source(root, "none.py"), None)])
    assert not (tmp_path / "state").exists()


@needs_posix
def test_the_note_is_private_and_holds_no_code(
    root: Path, store: BackupStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(root, store, monkeypatch)
    (note,) = (tmp_path / "state" / "journal").glob("*.json")
    assert note.parent.stat().st_mode & 0o777 == 0o700
    steps = json.loads(note.read_text())["steps"]
    assert {Path(step["target"]).name for step in steps} == {"a.py", "b.py", "gone.py", "new.py", "run.sh"}
    assert "b1" not in {part for step in steps for part in step}


def test_a_damaged_note_hides_no_error_and_keeps_all_bytes(root: Path, store: BackupStore, tmp_path: Path) -> None:
    folder = tmp_path / "state" / "journal"
    folder.mkdir(parents=True)
    (folder / "1.json").write_text("{")
    write = FileWrite(source(root, "a.py"), b"mine")
    (root / "a.py").write_bytes(b"theirs")
    with pytest.raises(FileChanged):
        store.write_all([write])
    assert list((tmp_path / "state" / "backups").rglob("*.bytes")), "a damaged note may name any bytes"
