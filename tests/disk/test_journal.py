"""Several files: all written, or all as they were."""

import json
import os
from pathlib import Path
from typing import cast

import pytest

from apply_service.disk import files, journal
from apply_service.disk.backups import BackupStore
from apply_service.disk.files import FileWrite, read_source
from apply_service.disk.journal import Journal
from apply_service.errors import FileChanged, FileNotWritable, InvalidField

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
    real, count = files._owned, [0]

    def owned(*arguments: object) -> int:
        count[0] += 1
        if count[0] == 3:
            raise OSError(28, "No space left on device")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(files, "_owned", owned)
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


@pytest.mark.parametrize("data", [b"{", b"", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"roots": ["~"], "steps": 1}'])
def test_a_damaged_note_is_set_aside(root: Path, store: BackupStore, tmp_path: Path, data: bytes) -> None:
    folder = tmp_path / "state" / "journal"
    folder.mkdir(parents=True)
    (folder / "x.json").write_bytes(data)
    (recovery,) = recover(root)
    assert recovery.note == str(folder / "x.json.rejected")
    assert recovery.rejected
    assert Path(recovery.note).read_bytes() == data
    assert recover(root) == ()
    (folder / "y.json").write_bytes(data)
    assert Journal(tmp_path / "state").forget() == (str(folder / "y.json"),)
    assert recover(root) == ()


@needs_posix
@pytest.mark.parametrize("what", ["loop", "nowhere", "other note", "folder"])
def test_what_is_no_file_is_set_aside(root: Path, tmp_path: Path, what: str) -> None:
    folder = tmp_path / "state" / "journal"
    folder.mkdir(parents=True)
    (tmp_path / "other note").write_bytes(b"{}")
    path = folder / "x.json"
    if what == "folder":
        path.mkdir()
    else:
        path.symlink_to(path if what == "loop" else tmp_path / what)
    (recovery,) = recover(root)
    assert recovery.rejected
    assert not os.path.lexists(path)
    assert (tmp_path / "other note").read_bytes() == b"{}"


Steps = list[dict[str, object]]


def altered(note: dict[str, object], how: str, root: Path) -> dict[str, object]:
    """The note as somebody would write it who may make files in the state folder, but is not the program."""
    out, steps, folders = root.parent / "out", cast("Steps", note["steps"]), cast("list[str]", note["folders"])
    step = next(one for one in steps if one["target"] == str(root / "a.py"))
    bare, linked = root / "bare", root / "linked"
    match how:
        case "a target outside of the roots":
            step["target"] = str(out / "a.py")
        case "a target by a detour":
            step["target"] = f"{root}/../out/a.py"
        case "a target by a link":
            linked.symlink_to(out)
            step["target"] = str(linked / "a.py")
        case "a target of git":
            step["target"] = str(root / ".git" / "hooks" / "pre-commit")
        case "a target in a bare repository":
            for name in ("objects", "refs"):
                (bare / name).mkdir(parents=True)
            (bare / "HEAD").write_bytes(b"")
            step["target"] = str(bare / "config")
        case "a target in the state folder":
            note["roots"] = [str(root.parent)]
            step["target"] = str(root.parent / "state" / "server" / "keys.toml")
        case "a guarded target":
            note["roots"] = [str(root.parent)]
            step["target"] = str(root.parent / "config.toml")
        case "a relative target":
            step["target"] = "a.py"
        case "a root by a link":
            (root.parent / "alias").symlink_to(root)
            note["roots"] = [str(root.parent / "alias")]
        case "no root":
            note["roots"] = []
        case "no roots":
            del note["roots"]
        case "kept elsewhere":
            step["kept"] = "../../../../out/a.py"
        case "kept at a place of its own":
            step["kept"] = str(out / "a.py")
        case "bits beyond rights":
            step["before"] = [None, 0o104755, None]
        case "an owner that is none":
            step["before"] = [None, 0o644, [-1, -1]]
        case "no hash":
            step["before"] = ["x", None, None]
        case "a folder elsewhere":
            folders.append(str(out / "empty"))
        case "a folder that is a root":
            folders.append(str(root))
        case "a folder above no file":
            folders.append(str(root / "empty"))
    return note


WAYS = [
    *("a target outside of the roots", "a target by a detour", "a target by a link", "a target of git"),
    *("a target in a bare repository", "a target in the state folder", "a guarded target", "a relative target"),
    *("a root by a link", "no root", "no roots", "kept elsewhere", "kept at a place of its own", "bits beyond rights"),
    *("an owner that is none", "no hash", "a folder elsewhere", "a folder that is a root", "a folder above no file"),
]


@needs_posix
@pytest.mark.parametrize("how", WAYS)
def test_a_note_that_does_not_fit_is_set_aside(
    root: Path, store: BackupStore, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(root, store, monkeypatch)
    (path,) = (tmp_path / "state" / "journal").glob("*.json")
    real = path.read_bytes()
    (tmp_path / "config.toml").write_bytes(NEW["a.py"])
    for folder in (tmp_path / "out", tmp_path / "out" / "empty", root / "empty", root / ".git" / "hooks"):
        folder.mkdir(parents=True)
    (tmp_path / "out" / "a.py").write_bytes(NEW["a.py"])
    path.write_text(json.dumps(altered(json.loads(real), how, root)))
    before = tree(tmp_path)
    planted, number = path.rename(path.with_name("f" * 16 + ".json")), path.stem
    path.write_bytes(real)
    os.utime(path, ns=(1, 1))  # it is the older one
    journal_ = Journal(tmp_path / "state", [tmp_path / "config.toml"])
    monkeypatch.setattr(Journal, "_take_back", lambda *_: journal.Recovery(number, ""))
    rejected, other = journal_.recover()
    assert rejected.rejected
    assert rejected.note == f"{planted}.rejected"
    assert other.note == number, "it stops no other"
    after = tree(tmp_path)
    assert {name: after[name] for name in after if "journal" not in name} == {
        name: before[name] for name in before if "journal" not in name
    }
    assert all(folder.is_dir() for folder in (tmp_path / "out" / "empty", root / "empty"))


@needs_posix
def test_a_folder_that_became_a_link_is_not_written_through(
    root: Path, store: BackupStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "sub").mkdir()
    (root / "sub" / "x.py").write_bytes(b"x0")
    (tmp_path / "out").mkdir()
    with monkeypatch.context() as patch:
        die_at(1, "remove", patch)
        with pytest.raises(Killed):
            store.write_all([*writes(root), FileWrite(source(root, "sub/x.py"), b"x1")], [root])
    (root / "sub" / "x.py").rename(tmp_path / "out" / "x.py")
    (root / "sub").rmdir()
    (root / "sub").symlink_to(tmp_path / "out")
    (recovery,) = recover(root)
    assert recovery.rejected
    assert (tmp_path / "out" / "x.py").read_bytes() == b"x1"


@needs_posix
def test_a_planted_link_is_not_written_through(
    root: Path, store: BackupStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the place of what a dead process staged."""
    with monkeypatch.context() as patch:
        die_at(1, "publish", patch)
        with pytest.raises(Killed):
            store.write_all(writes(root))
    (tmp_path / "precious").write_bytes(b"precious")
    staged = list(root.rglob("*.apply-tmp"))
    for path in staged:
        path.unlink()
        path.symlink_to(tmp_path / "precious")
    (root / "a.py").write_bytes(NEW["a.py"])  # so that it has to be given back
    (recovery,) = recover(root)
    assert recovery.restored == (str(root / "a.py"),)
    assert tree(root) == OLD
    assert (tmp_path / "precious").read_bytes() == b"precious"


@needs_posix
@pytest.mark.parametrize("name", ["journal", "journal/lock"])
def test_links_in_the_state_folder_are_not_followed(root: Path, store: BackupStore, tmp_path: Path, name: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").write_bytes(b"precious")
    (tmp_path / "state" / name).parent.mkdir(parents=True)
    (tmp_path / "state" / name).symlink_to(tmp_path / "out" / ("file" if "/" in name else ""))
    with pytest.raises(FileNotWritable, match="link"):
        store.write_all(writes(root))
    assert tree(root) == OLD
    assert tree(tmp_path / "out") == {"file": b"precious"}


def test_a_living_change_set_is_not_rolled_back(
    root: Path, store: BackupStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "LOCK_TIMEOUT_S", 0.05)
    real = files.publish

    def publish_and_recover(temporary: Path, source: files.SourceFile) -> None:
        real(temporary, source)
        with pytest.raises(FileNotWritable, match="is writing files"):
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
