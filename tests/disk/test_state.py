"""Our own folders: the user's alone, and no planted link leads out of them."""

import os
import stat
from pathlib import Path

import pytest

from apply_service.disk.state import open_private, private_folder
from apply_service.errors import FileNotWritable
from tests.other_user import as_user, let_in, needs_root

needs_posix = pytest.mark.skipif(os.name == "nt", reason="POSIX modes, links and pipes")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_are_created(tmp_path: Path) -> None:
    state = tmp_path / "a" / "state"
    assert private_folder(state) == state
    assert private_folder(state, "backups", "x") == state / "backups" / "x"
    assert private_folder(state, "backups", "x").is_dir()


@needs_posix
def test_folders_are_the_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        folder = private_folder(tmp_path / "state", "server")
    finally:
        os.umask(before)
    assert [mode_of(folder), mode_of(folder.parent)] == [0o700, 0o700]
    folder.chmod(0o777)
    folder.parent.chmod(0o2775)
    private_folder(tmp_path / "state", "server")
    assert [mode_of(folder), mode_of(folder.parent)] == [0o700, 0o2755]


@needs_posix
def test_a_folder_for_all_that_is_sticky_stays(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    private_folder(tmp_path / "tmp", "backups")
    assert mode_of(tmp_path / "tmp") == 0o1777


@needs_posix
@pytest.mark.parametrize("what", ["link", "dangling link", "file"])
def test_below_the_state_folder_no_link_is_followed(tmp_path: Path, what: str) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "elsewhere").mkdir()
    place = tmp_path / "state" / "server"
    if what == "file":
        place.write_bytes(b"")
    else:
        place.symlink_to(tmp_path / ("elsewhere" if what == "link" else "nowhere"))
    with pytest.raises(FileNotWritable, match="it is not a folder" if what == "file" else "it is a link"):
        private_folder(tmp_path / "state", "server", "x")
    assert not list((tmp_path / "elsewhere").iterdir())
    assert not (tmp_path / "nowhere").exists()


@needs_posix
def test_the_state_folder_may_be_a_link_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "big" / "disk")
    assert private_folder(tmp_path / "link", "backups") == tmp_path / "big" / "disk" / "backups"


@needs_root
@pytest.mark.parametrize("names", [(), ("server",)])
def test_a_folder_of_another_user_is_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    place = tmp_path.joinpath("state", *names)
    place.mkdir(parents=True)
    os.chown(place, 1001, 1001)
    with pytest.raises(FileNotWritable, match="another user"):
        private_folder(tmp_path / "state", *names)


@needs_root
def test_a_link_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    os.chown(tmp_path / "link", 1001, 1001, follow_symlinks=False)
    with pytest.raises(FileNotWritable, match="another user"):
        private_folder(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


@needs_root
def test_roots_folder_serves_where_only_root_renames_in_it(tmp_path: Path) -> None:
    let_in(tmp_path)
    for name, mode in (("sticky", 0o1777), ("open", 0o777)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)

    def use() -> None:
        private_folder(tmp_path / "sticky", "backups")
        with pytest.raises(FileNotWritable, match="another user"):
            private_folder(tmp_path / "open")

    as_user(use, 1001, 1001)
    assert (tmp_path / "sticky" / "backups").stat().st_uid == 1001


@needs_posix
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC])
def test_a_file_is_never_reached_by_a_link(tmp_path: Path, flags: int) -> None:
    target = tmp_path / "precious"
    target.write_bytes(b"x")
    (tmp_path / "log").symlink_to(target)
    with pytest.raises(OSError, match="link"):
        open_private(tmp_path / "log", flags)
    assert target.read_bytes() == b"x"


@needs_posix
def test_a_file_is_opened_as_usual(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for text in (b"long text", b"short"):
        os.write(descriptor := open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), text)
        os.close(descriptor)
    assert (path.read_bytes(), mode_of(path)) == (b"short", 0o600)
    with pytest.raises(FileNotFoundError):
        open_private(tmp_path / "none", os.O_RDONLY)
    with pytest.raises(FileExistsError):
        open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


@needs_posix
def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(OSError, match="regular"):
            open_private(tmp_path / name, os.O_RDONLY)


@needs_root
def test_a_file_of_another_user_is_refused_and_not_emptied(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x")
    os.chown(path, 1001, 1001)
    with pytest.raises(PermissionError, match="another user"):
        open_private(path, os.O_WRONLY | os.O_TRUNC)
    assert path.read_bytes() == b"x"


@needs_posix
def test_a_file_with_another_name_is_never_emptied(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    os.link(precious, tmp_path / "log")
    with pytest.raises(OSError, match="hard link"):
        os.close(open_private(tmp_path / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
    assert precious.read_bytes() == b"precious"


@needs_posix
def test_a_file_with_another_name_can_be_read(tmp_path: Path) -> None:
    """A copy of the state folder may be one of hard links: it hides no server, and damages no backup."""
    (tmp_path / "server.json").write_text("{}")
    os.link(tmp_path / "server.json", tmp_path / "copy")
    os.close(open_private(tmp_path / "server.json", os.O_RDONLY))
    os.close(open_private(tmp_path / "server.json", os.O_RDWR))
