"""Files: read, and written wholly or not at all."""

import io
import os
import random
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from apply_service.disk import files
from apply_service.disk.files import read_source, read_within, refuse_read_only, write_atomic
from apply_service.errors import FileChanged, FileNotReadable, FileNotWritable, TooLarge
from tests.other_user import as_user, let_in, needs_root
from tests.seeds import draw_seed


def may_write_everything() -> bool:
    """Whether modes mean nothing to this process (root, unless its capabilities were dropped)."""
    with tempfile.NamedTemporaryFile() as file:
        os.chmod(file.name, 0o444)
        return os.access(file.name, os.W_OK)


needs_rights = pytest.mark.skipif(may_write_everything(), reason="this process may write everything")
needs_posix = pytest.mark.skipif(os.name == "nt", reason="POSIX modes, links and pipes")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_read_and_replace(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old\r\n")
    source = read_source(path)
    assert (source.data, source.exists) == (b"old\r\n", True)
    write_atomic(source, b"new\r\n\xff")
    assert path.read_bytes() == b"new\r\n\xff"
    assert names(tmp_path) == {"a.py"}


def test_a_missing_file_is_empty_and_is_created(tmp_path: Path) -> None:
    source = read_source(tmp_path / "new.py")
    assert (source.data, source.exists) == (b"", False)
    write_atomic(source, b"x")
    assert (tmp_path / "new.py").read_bytes() == b"x"
    assert names(tmp_path) == {"new.py"}


@needs_posix
def test_a_new_file_gets_the_usual_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomic(read_source(tmp_path / "new.py"), b"x")
    finally:
        assert os.umask(before) == 0o027
    assert stat.S_IMODE((tmp_path / "new.py").stat().st_mode) == 0o640


@needs_posix
@pytest.mark.parametrize("mode", [0o755, 0o600, 0o664])
def test_the_mode_is_kept(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "run.sh"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_atomic(read_source(path), b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode


@needs_posix
def test_a_symbolic_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    target = tmp_path / "deep" / "real.py"
    target.write_bytes(b"old")
    link = tmp_path / "link.py"
    link.symlink_to(Path("deep") / "real.py")
    write_atomic(read_source(link), b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_file_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    source = read_source(path)
    path.write_bytes(b"someone else's")
    with pytest.raises(FileChanged) as caught:
        write_atomic(source, b"new")
    assert caught.value.value == str(path)
    assert path.read_bytes() == b"someone else's"
    assert names(tmp_path) == {"a.py"}


def test_a_change_while_the_temporary_is_written_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    source = read_source(path)
    real = os.fsync

    def sync_and_meddle(descriptor: int) -> None:
        real(descriptor)
        path.write_bytes(b"someone else's")

    monkeypatch.setattr(os, "fsync", sync_and_meddle)
    with pytest.raises(FileChanged):
        write_atomic(source, b"new")
    assert path.read_bytes() == b"someone else's"
    assert names(tmp_path) == {"a.py"}


def test_created_or_deleted_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.py"
    fresh = read_source(path)
    path.write_bytes(b"theirs")
    with pytest.raises(FileChanged):
        write_atomic(fresh, b"new")
    monkeypatch.setattr(files, "refuse_if_changed", lambda source: None)
    with pytest.raises(FileChanged):  # the last moment: the name is taken when the new file is put in its place
        write_atomic(fresh, b"new")
    assert path.read_bytes() == b"theirs"
    monkeypatch.undo()
    source = read_source(path)
    path.unlink()
    with pytest.raises(FileChanged):
        write_atomic(source, b"new")
    assert not path.exists()


def test_as_windows_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no link that fails where the name is taken, since its rename does; folders can't be opened; there is no
    executable bit."""
    created, kept = tmp_path / "new.py", tmp_path / "old.py"
    kept.write_bytes(b"old")
    before = kept.stat().st_mode
    renamed: list[str] = []

    def rename(source: Path, target: Path) -> None:
        renamed.append(target.name)
        if target.exists():
            raise FileExistsError
        os.replace(source, target)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    real = os.open

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, "open", lambda path, *rest: refuse() if os.path.isdir(path) else real(path, *rest))
    source = read_source(created)
    write_atomic(source, b"new")
    write_atomic(read_source(kept), b"newer")
    assert (created.read_bytes(), kept.read_bytes(), renamed) == (b"new", b"newer", ["new.py"])
    assert files.FileWrite(read_source(kept), b"newer", is_executable=True).mode is None
    assert kept.stat().st_mode == before
    monkeypatch.setattr(files, "refuse_if_changed", lambda _: None)  # somebody is faster than the last look
    with pytest.raises(FileChanged):
        write_atomic(source, b"lost")
    assert created.read_bytes() == b"new"
    assert names(tmp_path) == {"new.py", "old.py"}


def test_a_crash_before_the_rename_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(FileNotWritable, match="No space left"):
                write_atomic(read_source(path), b"new")
        assert path.read_bytes() == b"old"
        assert names(tmp_path) == {"a.py"}


def test_not_readable(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "a.py", "", tmp_path / ("a" * 5000)):
        with pytest.raises(FileNotReadable) as caught:
            read_source(path)
        assert caught.value.remedy


@needs_posix
def test_pipes_and_loops_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("pipe", "loop"):
        with pytest.raises(FileNotReadable):
            read_source(tmp_path / name)


@needs_posix
@needs_rights
def test_rights_are_respected(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    path.chmod(0o000)
    with pytest.raises(FileNotReadable):
        read_source(path)
    path.chmod(0o644)
    source = read_source(path)
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(FileNotWritable):
            write_atomic(source, b"new")
    finally:
        tmp_path.chmod(0o755)
    assert path.read_bytes() == b"old"


def test_a_read_only_file_is_told_to_root_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    refuse_read_only(read_source(path))
    refuse_read_only(read_source(tmp_path / "new.py"))
    path.chmod(0o444)
    with pytest.raises(FileNotWritable, match="read-only") as caught:
        refuse_read_only(read_source(path))
    assert "--force" in caught.value.remedy
    path.chmod(0o644)
    monkeypatch.setattr(os, "access", lambda *arguments: False)
    with pytest.raises(FileNotWritable, match="read-only"):
        refuse_read_only(read_source(path))


@needs_root
@pytest.mark.parametrize(
    ("mode", "groups", "gid", "wanted"),
    [
        (0o660, (2001,), 2001, 0o660),
        (0o2770, (2001,), 2001, 0o2770),
        (0o4770, (2001,), 2001, 0o770),
        (0o660, (), 1002, 0o600),
        (0o664, (), 1002, 0o644),
        (0o640, (), 1002, 0o600),
        (0o2775, (), 1002, 0o755),
        (0o606, (), 1002, 0o600),
    ],
)
def test_who_may_not_keep_the_owner_keeps_the_group_or_gives_no_rights(
    tmp_path: Path, mode: int, groups: tuple[int, ...], gid: int, wanted: int
) -> None:
    """The file of 1001:2001 is edited by 1002, a member of its group or none."""
    let_in(tmp_path)
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    os.chown(path, 1001, 2001)
    path.chmod(mode)
    source = read_source(path)

    def edit() -> None:
        files.refuse_if_changed = lambda _: None  # type: ignore[assignment]  # in this process, which may not read it
        write_atomic(source, b"new")

    as_user(edit, 1002, 1002, groups)
    now = path.stat()
    assert path.read_bytes() == b"new"
    assert (now.st_uid, now.st_gid, oct(stat.S_IMODE(now.st_mode))) == (1002, gid, oct(wanted))


@needs_root
def test_root_keeps_owner_group_and_all_bits(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    os.chown(path, 1001, 2001)
    path.chmod(0o6755)
    write_atomic(read_source(path), b"new")
    now = path.stat()
    assert (now.st_uid, now.st_gid, stat.S_IMODE(now.st_mode)) == (1001, 2001, 0o6755)


@needs_root
def test_an_access_list_is_kept(tmp_path: Path) -> None:
    """Without it the group would have what only the list's mask allows."""
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    entries = [(1, 6, 0xFFFFFFFF), (2, 6, 1001), (4, 0, 0xFFFFFFFF), (16, 6, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF)]
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(path, files.ACCESS_LIST, value)
    except OSError:
        pytest.skip("this file system keeps no access lists")
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    write_atomic(read_source(path), b"new")
    assert os.getxattr(path, files.ACCESS_LIST) == value


def test_the_size_is_told_before_anything_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.py"
    with path.open("wb") as file:
        file.truncate(3 * 2**30)
    assert read_source(tmp_path / "none.py", max_bytes=1).data == b""

    class Unread(io.FileIO):
        def read(self, *_: object) -> bytes:
            raise AssertionError("it was read")

    with Unread(path) as file, pytest.raises(TooLarge) as caught:
        read_within(file, "a.py", 64 * 2**20)  # type: ignore[arg-type]
    assert (caught.value.value, caught.value.limit) == (3 * 2**30, 64 * 2**20)
    assert "--max-file-bytes" in caught.value.remedy
    with pytest.raises(TooLarge):
        read_source(path, max_bytes=64 * 2**20)


@pytest.mark.parametrize("max_bytes", [0, 1, 7, 8])
def test_what_has_no_size_is_read_up_to_the_limit(max_bytes: int) -> None:
    if max_bytes < 8:
        with pytest.raises(TooLarge):
            read_within(io.BytesIO(b"12345678"), "x", max_bytes)
    else:
        assert read_within(io.BytesIO(b"12345678"), "x", max_bytes) == b"12345678"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is nothing without an end")
def test_what_has_no_end_is_left() -> None:
    with open("/dev/zero", "rb") as file, pytest.raises(TooLarge) as caught:
        read_within(file, "/dev/zero", 3 * 2**20)
    assert caught.value.value == 4 * 2**20


def test_a_file_that_grew_is_not_read_whole_to_see_that_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    source = read_source(path)
    with path.open("r+b") as file:
        file.truncate(2**40)
    with pytest.raises(FileChanged):
        write_atomic(source, b"new")


def test_remove_refuses_a_changed_file(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    source = read_source(path)
    path.write_bytes(b"theirs")
    with pytest.raises(FileChanged):
        write_atomic(source, None)
    write_atomic(read_source(path), None)
    assert not path.exists()


@needs_posix
def test_killed_at_any_moment_the_file_is_wholly_old_or_wholly_new(tmp_path: Path) -> None:
    seed = draw_seed()
    rng = random.Random(seed)
    path = tmp_path / "a.py"
    path.write_bytes(b"0" * 300_000)
    script = """
        import sys
        from apply_service.disk.files import read_source, write_atomic
        print("ready", flush=True)
        number = 0
        while True:
            source = read_source(sys.argv[1])
            number += 1
            write_atomic(source, str(number % 10).encode() * 300_000)
    """
    for _ in range(12):
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script), str(path)], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(rng.random() * 0.05)
            process.send_signal(signal.SIGKILL)
        data = path.read_bytes()
        assert len(data) == 300_000
        assert data == data[:1] * 300_000
