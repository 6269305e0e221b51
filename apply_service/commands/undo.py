"""Runs `apply-service undo` and `recover`: takes back the newest edit of a file, and rolls back a killed batch.

Every command that writes files first rolls back what a killed command left (`open_store`).  `recover` does only this,
and reports it.  With `--forget` it gives up all interrupted batches and leaves their files as they are.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any

from apply_service.commands.output import FILE, OK, file_hint, print_error, spinning, write_json, write_note
from apply_service.disk.backups import BackupStore
from apply_service.disk.journal import Journal, Recovery
from apply_service.disk.paths import Roots
from apply_service.errors import FileError, NoBackup, UnsupportedParameter
from apply_service.settings import Settings, own_places


def run(arguments: Namespace, settings: Settings) -> int:
    """Run `undo` and return the exit code.  Raises ApplyError."""
    if arguments.root and not arguments.all:
        raise UnsupportedParameter(
            "--root has no effect without --all.", value="--root", remedy="Leave --root out, or add --all."
        )
    store = open_store(arguments, settings)
    limits: dict[str, Any] = {"max_bytes": settings.max_file_bytes, "is_forced": arguments.force}
    try:
        if arguments.all:
            roots = Roots(arguments.root or ["."], own_places(settings, config=arguments.config))
            with spinning("taking back"):
                backups = store.undo_all(arguments.file, roots, **limits)
        else:
            backups = [store.undo(arguments.file, **limits)]
    except NoBackup as error:
        error.remedy = file_hint(arguments.file) or error.remedy
        raise
    for backup in backups:
        name = arguments.file if backup is backups[-1] else shown(backup.path)
        write_note(f"{name}: {'as before the edit' if backup.existed else 'removed; the edit had created it'}")
    return OK


def undo_command(path: str | Path, *options: str) -> str:
    """Return the command line that takes back an edit of the file."""
    name = f"./{path}" if str(path).startswith("-") else str(path)
    words = ["apply-service", "undo", *options, name]
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)


def shown(path: str | Path) -> str:
    """Return the path, relative to the current folder if the path lies there."""
    here = os.path.realpath(os.curdir)
    return os.path.relpath(path, here) if Path(path).is_relative_to(here) else str(path)


def recover(arguments: Namespace, settings: Settings) -> int:
    """Run `recover` and return the exit code, which says whether anything is left to roll back.  Raises ApplyError."""
    journal = Journal(settings.state_path, own_places(settings, config=arguments.config))
    if arguments.forget:
        notes = journal.forget()
        if arguments.json:
            write_json(notes)
        write_note(f"{len(notes)} interrupted batches are forgotten; their files stay as they are.")
        return OK
    recoveries = journal.recover()
    if arguments.json:
        write_json([asdict(recovery) for recovery in recoveries])
    for recovery in recoveries:
        _note(recovery)
    if not recoveries:
        write_note("No edit was interrupted.")
    return FILE if any(recovery.conflicts or recovery.rejected for recovery in recoveries) else OK


def open_store(arguments: Namespace, settings: Settings) -> BackupStore:
    """Return the store that writes files.  What a dead process left is first rolled back and reported.  A change set
    that cannot be rolled back is named, and the command goes on."""
    try:
        places = own_places(settings, config=arguments.config)
        for recovery in Journal(settings.state_path, places).recover():
            _note(recovery)
    except FileError as error:
        print_error(error)
    return BackupStore(settings.state_path, settings.backups_kept)


def _note(recovery: Recovery) -> None:
    if recovery.rejected:
        write_note(recovery.rejected)
        write_note(f"  No file was touched; look at {recovery.note}, then remove it.")
        return
    if not recovery.conflicts:
        files = ", ".join(recovery.restored) or "no file had been changed"
        write_note(f"The batch of {recovery.started} was interrupted and has been rolled back: {files}")
        return
    write_note(f"The batch of {recovery.started} was interrupted, and cannot be rolled back:")
    for path in recovery.conflicts:
        write_note(f"  {path} was changed since, or its bytes are lost")
    write_note("  Its files stay as they are; `apply-service recover --forget` ends this notice.")
