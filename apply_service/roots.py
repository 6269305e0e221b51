"""The folders that edits are allowed in, for whoever takes file names from others: an agent, a patch, a batch.

A name is judged by the place it leads to, symbolic links and `..` followed.  What happens between that look and the
writing is not covered: somebody who can replace folders by links meanwhile can also write there himself.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from apply_service.errors import FileNotReadable, InvalidField, OutsideRoots

OFF_LIMITS = frozenset({".git"})
"""Folders whose files make programs run; no edit is ever meant for them."""


class Roots:
    """Allowed folders.  Relative names are looked for in each, and are of the first where none has them."""

    def __init__(self, folders: Sequence[str | Path]) -> None:
        """Raises FileNotReadable for one that is no folder."""
        self.folders = tuple(Path(os.path.realpath(Path(folder).expanduser())) for folder in folders)
        for named, folder in zip(folders, self.folders, strict=True):
            if not folder.is_dir():
                raise FileNotReadable(
                    f"{named} is no folder.", value=str(named), remedy="Name a folder that edits are allowed in."
                )

    def resolve(self, name: str) -> Path:
        """The absolute path, links followed, that a name means; nothing need exist there.

        Raises:
            OutsideRoots: it leads out of the allowed folders, or into git's own.
            InvalidField: it is no name of a file.
        """
        place = Path(os.path.realpath(self._place(_path_of(name))))
        root = next((folder for folder in self.folders if place.is_relative_to(folder)), None)
        if root is None:
            raise OutsideRoots(
                f"{name} is outside the allowed folders.",
                value=str(place),
                limit=[str(folder) for folder in self.folders],
                remedy="Name a file inside of them, or allow its folder with --root.",
            )
        if any(part.lower() in OFF_LIMITS for part in place.relative_to(root).parts):
            raise OutsideRoots(f"{name} belongs to git itself.", value=str(place), remedy="Edit files of the project.")
        return place

    def is_link(self, name: str) -> bool:
        """Whether the name, as it is written, is that of a symbolic link."""
        return os.path.islink(self._place(_path_of(name)))

    def _place(self, path: Path) -> Path:
        if path.is_absolute():
            return path
        places = [folder / path for folder in self.folders]
        return next((place for place in places if os.path.lexists(place)), places[0])


def _path_of(name: str) -> Path:
    try:
        os.fsencode(name)
        if name.strip() and "\0" not in name and "://" not in name:
            return Path(name).expanduser()
    except (UnicodeEncodeError, RuntimeError):  # lone surrogates; no such user
        pass
    raise InvalidField("That is no name of a file.", value=name, remedy="Send a path.")
