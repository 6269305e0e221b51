"""`apply-service recover`: roll back what a batch that was killed had begun to write.

Every command that writes files does so first (`roll_back_dead`); this one only says it aloud, and can give up on a
change set whose files were changed since (`--forget`).
"""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import asdict

from apply_service.backups import BackupStore
from apply_service.commands.exit_codes import FILE, OK
from apply_service.commands.output import print_error, write_line, write_note
from apply_service.errors import FileError
from apply_service.journal.change_sets import Journal, Recovery
from apply_service.settings import Settings


def run(arguments: Namespace, settings: Settings) -> int:
    """Run the command; the exit code says whether anything is left to settle.  Raises ApplyError."""
    if arguments.forget:
        return _forget(Journal(settings.state_path), is_json=arguments.json)
    recoveries = Journal(settings.state_path).recover()
    if arguments.json:
        write_line(json.dumps([asdict(recovery) for recovery in recoveries]))
    for recovery in recoveries:
        _tell(recovery)
    if not recoveries:
        write_note("nothing was interrupted")
    return FILE if any(recovery.conflicts for recovery in recoveries) else OK


def roll_back_dead(settings: Settings) -> None:
    """Roll back what a dead process left, and say so.  What cannot be rolled back is told and stops nobody."""
    try:
        for recovery in BackupStore(settings.state_path, settings.backups_kept).recover():
            _tell(recovery)
    except FileError as error:
        print_error(error)


def _forget(journal: Journal, *, is_json: bool) -> int:
    notes = journal.forget()
    if is_json:
        write_line(json.dumps(list(notes)))
    write_note(f"{len(notes)} interrupted batches forgotten; their files are as they are")
    return OK


def _tell(recovery: Recovery) -> None:
    if not recovery.conflicts:
        files = ", ".join(recovery.restored) or "no file had been changed"
        write_note(f"the batch of {recovery.started} was interrupted and is rolled back: {files}")
        return
    write_note(f"the batch of {recovery.started} was interrupted, and cannot be rolled back:")
    for path in recovery.conflicts:
        write_note(f"  {path} was changed since, or its bytes are lost")
    write_note("  its files are as they are; apply-service recover --forget leaves them so")
