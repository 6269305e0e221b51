"""`apply-service undo FILE`: take back the newest `apply --in-place` of a file."""

from __future__ import annotations

from argparse import Namespace

from apply_service.backups import BackupStore
from apply_service.commands.exit_codes import OK
from apply_service.commands.output import write_note
from apply_service.commands.recover import roll_back_dead
from apply_service.settings import Settings


def run(arguments: Namespace, settings: Settings) -> int:
    """Run the command; the exit code.  Raises ApplyError."""
    roll_back_dead(settings)
    backup = BackupStore(settings.state_path, settings.backups_kept).undo(arguments.file)
    write_note(f"{arguments.file}: {'as before the edit' if backup.existed else 'removed; the edit had created it'}")
    return OK
