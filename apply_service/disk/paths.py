"""Names the folders of the program's own files, and decides in which folders files may be edited on behalf of
others."""

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
"""Invisible characters that the file system of macOS ignores when it compares names."""
OF_A_REPOSITORY = frozenset({"config", "config.worktree", "commondir", "gitdir", "hooks", "info", "objects", "refs"})
"""Names that turn a folder with a file HEAD into a repository, or tell git what to run there."""
DOT_GIT = re.compile(r"(\.git|git~1)(:.*)?", re.DOTALL)
"""Matches `.git` and its short name on Windows, also with a colon behind, which on Windows opens a stream of the
file."""


def platform_config_path(environment: Mapping[str, str]) -> Path:
    """Return the path at which the platform keeps our configuration file; the file need not exist."""
    if sys.platform == "win32":
        root = environment.get("APPDATA") or str(Path.home() / "AppData" / "Roaming")
    else:
        root = _absolute(environment.get("XDG_CONFIG_HOME")) or str(Path.home() / ".config")
    return Path(root) / "apply-service" / "config.toml"


def platform_state_path(environment: Mapping[str, str]) -> Path:
    """Return the folder in which the platform keeps our own files; the folder need not exist."""
    if sys.platform == "win32":
        root = environment.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        root = _absolute(environment.get("XDG_STATE_HOME")) or str(Path.home() / "Library" / "Application Support")
    else:
        root = _absolute(environment.get("XDG_STATE_HOME")) or str(Path.home() / ".local" / "state")
    return Path(root) / "apply-service"


def _absolute(folder: str | None) -> str | None:
    """Return the folder; None if it is relative.  The XDG specification forbids that: each project would have a folder
    of its own."""
    return folder if folder and is_same_everywhere(folder) else None


def is_same_everywhere(folder: str | Path) -> bool:
    """Tell whether the name is absolute and means the same in every process.  Names below /proc, for example, do
    not."""
    return os.path.isabs(folder) and not os.path.normpath(folder).startswith(("/proc/", "/dev/fd/"))


class Roots:
    """The folders that edits are allowed in, for names that come from others: an agent, a patch, a batch.

    A name is judged by the place it leads to, with symbolic links and `..` followed.  A relative name is looked for in
    each folder; if no folder has it, it belongs to the first.  `read_as_judged` refuses a place that has since become a
    link.  Some microseconds lie between that last check and the writing; a link made during them is followed.

    No edit reaches files that make programs run or that this program trusts: git's own files, and the guarded places,
    under whatever name.
    """

    def __init__(self, folders: Sequence[str | Path], guarded: Sequence[Path] = ()) -> None:
        """`guarded`: files and folders that nobody may edit; they need not exist.  Raises FileNotReadable if one of
        `folders` is not a folder."""
        self.folders = tuple(Path(os.path.realpath(Path(folder).expanduser())) for folder in folders)
        self._guarded = tuple(guarded)
        for name, folder in zip(folders, self.folders, strict=True):
            if not folder.is_dir():
                raise FileNotReadable(
                    f"{name} is not a folder.", value=str(name), remedy="Name a folder in which files may be edited."
                )

    def resolve(self, name: str) -> Path:
        """Return the absolute path that a name leads to; nothing need exist there.  Raises OutsideRoots if the name
        leads out of the allowed folders or to a guarded place, and InvalidField if it is not the name of a file."""
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
        """Tell whether the name itself, before links are followed, is a symbolic link.  Raises InvalidField."""
        return os.path.islink(self._place(name))

    def _place(self, name: str) -> Path:
        try:
            os.fsencode(name)
            path = Path(name).expanduser() if name.strip() and "\0" not in name and "://" not in name else None
        except (UnicodeEncodeError, RuntimeError):  # a lone surrogate, or `~` with an unknown user
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
    """Tell whether the place is the guarded file or folder, or lies below it.  Links, differences of case and other
    mounts of the same folder are seen through.  Neither path need exist."""
    wanted = _identity(Path(os.path.realpath(guarded)))
    return any(_identity(one) == wanted for one in (place, *place.parents))


def _identity(place: Path) -> tuple[object, ...]:
    """Return the system's number of the nearest existing place upward, and the names below that place as the most
    tolerant file system compares them (`_folded`)."""
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
    """Return the name in the form that the most tolerant file system compares.  macOS ignores some characters, Windows
    ignores dots and blanks at the end, and both ignore case."""
    return unicodedata.normalize("NFC", name.translate(IGNORED)).casefold().rstrip(" .")


def _is_of_git(place: Path, root: Path) -> bool:
    """Tell whether the place is one of git's own files, which can make programs run.  A place is one of git's files by
    its name, or because it lies in a folder that git takes for a repository.

    Git looks for a repository upward, whatever the root is, and looks for `.git` first in each folder.  So a working
    tree that is kept inside its repository's folder can be edited.  Edits cannot make a new repository, in however many
    steps.  It needs the file HEAD, which no edit can create; and if a HEAD exists, no edit can create the rest.
    """
    # If this folder is shared with Windows, a backslash separates names there.
    names = [part for name in place.relative_to(root).parts for part in name.split("\\")]
    if any(map(_is_gits_name, names)):
        return True
    # If there is a file `head` and no HEAD, the folder distinguishes upper case from lower case.
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
    """Tell whether the folder is a repository, or could become one through the place (only if `can_be_made`)."""
    has = {name: os.path.lexists(folder / name) for name in ("objects", "refs", "commondir")}
    has_head = os.path.islink(folder / "HEAD") or os.path.isfile(folder / "HEAD")
    has_data = has["objects"] and has["refs"]
    if has_head and (has["commondir"] or has_data):
        return True
    # A folder that a `commondir` elsewhere points to needs no HEAD.
    inside = re.split(r"[/\\:]", str(place.relative_to(folder)))[0]
    return can_be_made and (has_head or has_data) and _folded(inside) in OF_A_REPOSITORY


def _is_working_tree(folder: Path) -> bool:
    """Tell whether the folder has a repository of its own, in `.git` or at the place that the file `.git` names.  That
    repository must have no `.git` itself: else its `.git` could lead back to this folder."""
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
    """Tell whether the file is a hard link to a file in a guarded folder or in its own repository's folder.  Links to
    other repositories are not found.  Git's objects are content, not configuration, and may be shared."""
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
    """Yield git's folders of the place's repository: its own, and the shared one if it is a worktree."""
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
