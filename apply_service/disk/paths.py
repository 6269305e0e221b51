"""Where the program keeps its own files, and in which folders others may have files edited."""

from __future__ import annotations

import os
import re
import stat
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from apply_service.errors import FileNotReadable, InvalidField, OutsideRoots

IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
"""Characters that are not seen, and that the file system of macOS leaves out where it compares names."""
OF_A_REPOSITORY = frozenset({"config", "config.worktree", "commondir", "gitdir", "hooks", "info", "objects", "refs"})
"""What makes a folder with a file HEAD a repository, or tells git what to run there."""
DOT_GIT = re.compile(r"(\.git|git~1)(:.*)?", re.DOTALL)
"""`.git`, its short name on Windows, and the streams that Windows opens by a colon."""


def platform_config_path(environment: Mapping[str, str]) -> Path:
    """Return where the platform wants the configuration file; it need not exist."""
    if sys.platform == "win32":
        root = environment.get("APPDATA") or str(Path.home() / "AppData" / "Roaming")
    else:
        root = _absolute(environment.get("XDG_CONFIG_HOME")) or str(Path.home() / ".config")
    return Path(root) / "apply-service" / "config.toml"


def platform_state_path(environment: Mapping[str, str]) -> Path:
    """Return where the platform wants a program's own files; the folder need not exist."""
    if sys.platform == "win32":
        root = environment.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        root = _absolute(environment.get("XDG_STATE_HOME")) or str(Path.home() / "Library" / "Application Support")
    else:
        root = _absolute(environment.get("XDG_STATE_HOME")) or str(Path.home() / ".local" / "state")
    return Path(root) / "apply-service"


def _absolute(folder: str | None) -> str | None:
    """Return the folder; None for a relative one, as the XDG specification demands: it would be one of each project."""
    return folder if folder and is_same_everywhere(folder) else None


def is_same_everywhere(folder: str | Path) -> bool:
    """Tell whether the name is absolute and means the same whatever the current folder is: those below /proc do not."""
    return os.path.isabs(folder) and not os.path.normpath(folder).startswith(("/proc/", "/dev/fd/"))


class Roots:
    """The folders that edits are allowed in, for names that come from others: an agent, a patch, a batch.

    A name is judged by the place it leads to, with symbolic links and `..` followed.  A relative name is looked for in
    each folder and belongs to the first where none has it.  `read_as_judged` refuses what has become a link since; for
    some microseconds between the last look and the writing, whoever can replace a folder by a link is not stopped.

    No edit reaches what makes programs run, or is trusted by this one: files of git's own, and the guarded places, by
    whatever name.
    """

    def __init__(self, folders: Sequence[str | Path], guarded: Sequence[Path] = ()) -> None:
        """`guarded`: files and folders, which need not exist, that are nobody's to edit.  Raises FileNotReadable for
        what is not a folder."""
        self.folders = tuple(Path(os.path.realpath(Path(folder).expanduser())) for folder in folders)
        self._guarded = tuple(guarded)
        for name, folder in zip(folders, self.folders, strict=True):
            if not folder.is_dir():
                raise FileNotReadable(
                    f"{name} is not a folder.", value=str(name), remedy="Name a folder in which files may be edited."
                )

    def resolve(self, name: str) -> Path:
        """Return the absolute path that a name leads to; nothing need exist there.  Raises OutsideRoots: it leads out
        of the allowed folders, or to what is guarded; InvalidField: it is not the name of a file."""
        place = Path(os.path.realpath(self._place(name)))
        root = next((folder for folder in self.folders if place.is_relative_to(folder)), None)
        if root is None:
            message = f"{name} is outside the allowed folders."
            remedy = "Name a file inside the allowed folders, or allow its folder with --root."
            raise OutsideRoots(message, value=str(place), limit=[str(folder) for folder in self.folders], remedy=remedy)
        remedy = "Name another file inside the allowed folders."
        if any(lies_in(place, one) for one in self._guarded):
            raise OutsideRoots(
                f"{name} belongs to apply-service's own data and is never edited.", value=str(place), remedy=remedy
            )
        if _is_of_git(place, root):
            raise OutsideRoots(
                f"{name} belongs to git's own data and is never edited.", value=str(place), remedy=remedy
            )
        if _is_other_name(place, self._guarded):
            message = f"{name} is a hard link to a file of git's or apply-service's own data, which is never edited."
            raise OutsideRoots(message, value=str(place), remedy=remedy)
        return place

    def is_link(self, name: str) -> bool:
        """Tell whether the name, as it is written, is that of a symbolic link.  Raises InvalidField."""
        return os.path.islink(self._place(name))

    def _place(self, name: str) -> Path:
        try:
            os.fsencode(name)
            path = Path(name).expanduser() if name.strip() and "\0" not in name and "://" not in name else None
        except (UnicodeEncodeError, RuntimeError):  # lone surrogates; no such user
            path = None
        if path is None:
            raise InvalidField(
                "That is not the name of a file.", value=name, remedy="Send the path of a file, such as src/app.py."
            )
        if path.is_absolute():
            return path
        places = [folder / path for folder in self.folders]
        return next((place for place in places if os.path.lexists(place)), places[0])


# -- places that are guarded -------------------------------------------------------------------------------------------
def lies_in(place: Path, guarded: Path) -> bool:
    """Tell whether the place is the guarded file or folder, or lies below it, by whatever name: links, another case and
    other mounts of the same folder are seen through.  Neither need exist."""
    wanted = _identity(Path(os.path.realpath(guarded)))
    return any(_identity(one) == wanted for one in (place, *place.parents))


def _identity(place: Path) -> tuple[object, ...]:
    """Return the number of the place, or that of the nearest folder above it that exists and the names below that,
    folded as the most forgiving file system would."""
    names: list[str] = []
    while True:
        try:
            found = place.stat()
        except OSError:
            if place.parent == place:
                return tuple(names)
            names.append(_folded(place.name))
            place = place.parent
        else:
            return (found.st_dev, found.st_ino, *names)


def _folded(name: str) -> str:
    """Return the name as the most forgiving of all file systems compares it: macOS leaves out some characters, Windows
    dots and blanks at the end, both the case."""
    return unicodedata.normalize("NFC", name.translate(IGNORED)).casefold().rstrip(" .")


def _is_of_git(place: Path, root: Path) -> bool:
    """Tell whether the place is a file of git's own, which can make programs run, by its name or because it lies in a
    folder that git takes for a repository.

    Git looks for one upward, in each folder first for `.git`, whatever the root is.  So a working tree that is kept in
    the folder of its repository can be edited.  No repository is one without the file HEAD, which can't be made, and
    what else makes one can't be made beside a HEAD that is there: so no new one comes about, in however many steps.
    """
    # Where this folder is shared with Windows, a backslash divides names there.
    names = [part for name in place.relative_to(root).parts for part in name.split("\\")]
    if any(map(_is_gits_name, names)):
        return True
    # A file `head` that is there, and no HEAD, show that the case counts in this folder.
    last = _folded(names[-1].partition(":")[0]) if names else ""
    if last == "head" and (not os.path.exists(place) or os.path.lexists(place.with_name("HEAD"))):
        return True
    for folder in place.parents:
        if _is_working_tree(folder):
            return False
        is_repository = _is_of_repository(place, folder, can_be_made=folder.is_relative_to(root))
        if is_repository or _is_gits_name(folder.name):
            return True
    return False


def _is_gits_name(name: str) -> bool:
    return DOT_GIT.fullmatch(re.sub(r"[ .]+(?=:|$)", "", _folded(name))) is not None


def _is_of_repository(place: Path, folder: Path, *, can_be_made: bool) -> bool:
    """Tell whether the folder is a repository, or, where one can be made of it, would be one with the place in it."""
    has = {name: os.path.lexists(folder / name) for name in ("objects", "refs", "commondir")}
    has_head = os.path.islink(folder / "HEAD") or os.path.isfile(folder / "HEAD")
    has_data = has["objects"] and has["refs"]
    if has_head and (has["commondir"] or has_data):
        return True
    # What would make it one; and where `commondir` of another leads, there need be no HEAD.
    inside = re.split(r"[/\\:]", str(place.relative_to(folder)))[0]
    return can_be_made and (has_head or has_data) and _folded(inside) in OF_A_REPOSITORY


def _is_working_tree(folder: Path) -> bool:
    """Tell whether the folder has a repository of its own, in `.git` or where that file leads: one that is none itself
    a working tree, as this folder would be if `.git` led back to it."""
    own = folder / ".git"
    try:
        mode = own.stat().st_mode
        if stat.S_ISREG(mode):
            own = folder / os.fsdecode(own.read_bytes()).removeprefix("gitdir:").strip()
        elif not stat.S_ISDIR(mode):
            return False
        return os.path.lexists(own / "HEAD") and not os.path.lexists(own / ".git")
    except (OSError, ValueError):
        return False


def _is_other_name(place: Path, guarded: Sequence[Path]) -> bool:
    """Tell whether the file is a hard link to one in a guarded folder, or in the folder of its own repository; links
    from other repositories are not found.  Objects of git are content, not configuration, and may be shared."""
    try:
        found = place.stat()
    except OSError:
        return False
    if found.st_nlink < 2 or not place.is_file():
        return False
    for top in (*guarded, *_git_folders(place)):
        for folder, folders, names in os.walk(top):
            folders[:] = [name for name in folders if name != "objects"]
            for name in names:
                try:
                    other = os.lstat(os.path.join(folder, name))
                except OSError:
                    continue
                if (other.st_dev, other.st_ino) == (found.st_dev, found.st_ino):
                    return True
    return False


def _git_folders(place: Path) -> Iterator[Path]:
    """Git's folders of the repository that the place belongs to: its own, and of a worktree the one that it shares."""
    own = next((folder / ".git" for folder in place.parents if os.path.lexists(folder / ".git")), None)
    if own is None:
        return
    try:
        if own.is_file():
            own = own.parent / os.fsdecode(own.read_bytes()).removeprefix("gitdir:").strip()
        yield own
        yield own / os.fsdecode((own / "commondir").read_bytes()).strip()
    except OSError:
        return
