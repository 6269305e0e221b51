"""How processes of ours find modules and programs: never in the current folder, nor in one of the user's project.

Python puts the current folder first on the module path of `python -m` and `python -c`, and the folders of PYTHONPATH
before its own library.  Build tools put names there that are no folders, for hooks of their own, as setuptools does for
an installation with `-e`; by Python's rules such a name is a folder of the current one.  A file `random.py` in a cloned
project would then run in our place.  So every process that we start gets `-P`, no PYTHONPATH, no name that is not
absolute, and our own folder last.  Windows looks for programs in the current folder first, and so
does `shutil.which` there: `find_program` does not.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

HOME = str(Path(__file__).resolve().parent.parent)
"""The folder that holds this package."""


def leave_current_folder() -> None:
    """Take the current folder, and what is named from there, off this process's module path, unless the package itself
    or the interpreter's own library lies there."""
    here, library = _real(os.curdir), _real(sysconfig.get_path("stdlib"))
    # The current folder, of `python -m` or of PYTHONPATH, stands before the library; installed packages behind it.
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
    """Return the beginning of a command line that runs a function of one of our modules; its arguments follow.  To be
    started with `clean_environment`."""
    path = f"dict.fromkeys([*filter(os.path.isabs, sys.path), *{_additions()!r}])"
    code = f"import os, sys; sys.path[:] = {path}; from {module} import {function}; sys.exit({function}())"
    return [sys.executable, "-P", "-c", code]


def clean_environment() -> dict[str, str]:
    """Return this process's environment for a child: what it starts in turn does not see the current folder either."""
    return {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, "PYTHONSAFEPATH": "1"}


def find_program(name: str) -> str | None:
    """Return the file of a program, which is looked for in the absolute folders of PATH; None if there is none.  A path
    stays what it is."""
    if os.path.dirname(name):
        return shutil.which(name)
    endings = os.environ.get("PATHEXT", ".EXE").split(";") if sys.platform == "win32" else []
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        for ending in (*endings, "") if os.path.isabs(folder) else ():
            if (found := shutil.which(os.path.join(folder, name + ending))) is not None:
                return found
    return None


def _additions() -> list[str]:
    """Return what the interpreter's own module path lacks: folders that the installation added to it (wrappers of some
    distributions do), and ours.  Left out is what comes from the user: PYTHONPATH, the current folder, and the folder
    of the program that imports us."""
    given = [os.curdir, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    if (program := getattr(sys.modules.get("__main__"), "__file__", None)) is not None:
        given.append(os.path.dirname(_real(program)))
    foreign = {*map(_real, given), HOME}
    return [entry for entry in sys.path if os.path.isabs(entry) and {_real(entry), entry}.isdisjoint(foreign)] + [HOME]


def _real(entry: str) -> str:
    """Return the absolute path of an entry, links followed; "" for a relative one where the current folder is gone."""
    try:
        return os.path.realpath(entry)
    except OSError:
        return ""
