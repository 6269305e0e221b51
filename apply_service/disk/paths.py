"""Where the program keeps its own files, and in which folders others may have files edited."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from apply_service.errors import FileNotReadable, InvalidField, OutsideRoots


def platform_config_path(environment: Mapping[str, str]) -> Path:
    """Where the platform wants the configuration file; it need not exist."""
    if sys.platform == "win32":
        root = environment.get("APPDATA") or str(Path.home() / "AppData" / "Roaming")
    else:
        root = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(root) / "apply-service" / "config.toml"


def platform_state_path(environment: Mapping[str, str]) -> Path:
    """Where the platform wants a program's own files; the folder need not exist."""
    if sys.platform == "win32":
        root = environment.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        root = environment.get("XDG_STATE_HOME") or str(Path.home() / "Library" / "Application Support")
    else:
        root = environment.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(root) / "apply-service"


class Roots:
    """The folders that edits are allowed in, for names that come from others: an agent, a patch, a batch.

    A name is judged by the place it leads to, with symbolic links and `..` followed.  A relative name is looked for in
    each folder and belongs to the first where none has it.  Whoever can replace a folder by a link between that look
    and the writing is not stopped: he could write there himself.
    """

    def __init__(self, folders: Sequence[str | Path]) -> None:
        """Raises FileNotReadable for what is not a folder."""
        self.folders = tuple(Path(os.path.realpath(Path(folder).expanduser())) for folder in folders)
        for name, folder in zip(folders, self.folders, strict=True):
            if not folder.is_dir():
                raise FileNotReadable(
                    f"{name} is no folder.", value=str(name), remedy="Name a folder that edits are allowed in."
                )

    def resolve(self, name: str) -> Path:
        """The absolute path that a name leads to; nothing need exist there.  Raises OutsideRoots: it leads out of the
        allowed folders, or into git's own; InvalidField: it is not the name of a file."""
        place = Path(os.path.realpath(self._place(name)))
        root = next((folder for folder in self.folders if place.is_relative_to(folder)), None)
        if root is None:
            message = f"{name} is outside the allowed folders."
            remedy = "Name a file inside of them, or allow its folder with --root."
            raise OutsideRoots(message, value=str(place), limit=[str(folder) for folder in self.folders], remedy=remedy)
        # Files of git's own can make programs run, and no edit is ever meant for them.
        if ".git" in [part.lower() for part in place.relative_to(root).parts]:
            raise OutsideRoots(f"{name} belongs to git itself.", value=str(place), remedy="Edit files of the project.")
        return place

    def is_link(self, name: str) -> bool:
        """Whether the name, as it is written, is that of a symbolic link.  Raises InvalidField."""
        return os.path.islink(self._place(name))

    def _place(self, name: str) -> Path:
        try:
            os.fsencode(name)
            path = Path(name).expanduser() if name.strip() and "\0" not in name and "://" not in name else None
        except (UnicodeEncodeError, RuntimeError):  # lone surrogates; no such user
            path = None
        if path is None:
            raise InvalidField("That is no name of a file.", value=name, remedy="Send a path.")
        if path.is_absolute():
            return path
        places = [folder / path for folder in self.folders]
        return next((place for place in places if os.path.lexists(place)), places[0])
