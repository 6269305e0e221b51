"""Keeps our processes from loading modules or programs from the current folder or from a user's project.

Python puts the current folder first on the module path of `python -m` and `python -c`, and the folders of PYTHONPATH
before its own library.  Build tools also put names there that are not folders, for their own hooks; setuptools does so
for an installation with `-e`.  Python looks for such a name in the current folder.  In all these cases a file
`random.py` in a cloned project would run in place of the real module.  So every process that we start gets `-P`, no
PYTHONPATH, only absolute names, and our own folder last.  On Windows, the system and `shutil.which` look for programs
in the current folder first.  `find_program` does not.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

HOME = str(Path(__file__).resolve().parent.parent)
"""The folder that contains this package."""


def leave_current_folder() -> None:
    """Take the current folder, and relative names, off this process's module path.  An entry stays if the package
    itself or the interpreter's own library lies there."""
    here, library = _real(os.curdir), _real(sysconfig.get_path("stdlib"))
    # The current folder comes before the library, whether `python -m` or PYTHONPATH put it there.
    places = [_real(entry) for entry in sys.path]
    stop = places.index(library) if library in places else len(places)
    sys.path[:] = [
        entry
        for at, (entry, place) in enumerate(zip(sys.path, places, strict=True))
        if place == HOME or (os.path.isabs(entry) and (place != here or at >= stop))
    ]


def has_current_folder() -> bool:
    """Tell whether the current folder is still there."""
    return _real(os.curdir) != ""


def python_command(module: str, function: str = "main") -> list[str]:
    """Return the beginning of a command line that runs a function of one of our modules; the caller appends the
    arguments.  The command must be started with `clean_environment`."""
    # What comes from the user: PYTHONPATH, the current folder, and the folder of the program that imports us.
    given = [os.curdir, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    if (program := getattr(sys.modules.get("__main__"), "__file__", None)) is not None:
        given.append(os.path.dirname(_real(program)))
    foreign = {*map(_real, given), HOME}
    # What the interpreter's own module path lacks: our own folder, and folders that the installation added.
    own = [entry for entry in sys.path if os.path.isabs(entry) and {_real(entry), entry}.isdisjoint(foreign)]
    path = f"dict.fromkeys([*filter(os.path.isabs, sys.path), *{[*own, HOME]!r}])"
    code = f"import os, sys; sys.path[:] = {path}; from {module} import {function}; sys.exit({function}())"
    return [sys.executable, "-P", "-c", code]


def clean_environment() -> dict[str, str]:
    """Return this process's environment for a child.  The child's own children ignore the current folder, too."""
    return {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, "PYTHONSAFEPATH": "1"}


def find_program(name: str) -> str | None:
    """Return the file of a program, found in the absolute folders of PATH; None if it is not found.  If `name` includes
    a folder, only that file is looked for."""
    if os.path.dirname(name):
        return shutil.which(name)
    endings = os.environ.get("PATHEXT", ".EXE").split(";") if sys.platform == "win32" else []
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        for ending in (*endings, "") if os.path.isabs(folder) else ():
            if (found := shutil.which(os.path.join(folder, name + ending))) is not None:
                return found
    return None


def _real(entry: str) -> str:
    """Return the absolute path of an entry, with links followed; "" for a relative entry if the current folder is
    gone."""
    try:
        return os.path.realpath(entry)
    except OSError:
        return ""
