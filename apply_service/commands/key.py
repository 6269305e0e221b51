"""Runs `apply-service key NAME`: makes an API key, or hashes an existing one, for the file that `keys_file` names."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path

from apply_service.commands.output import OK, write_line, write_note
from apply_service.errors import FileNotWritable, SettingsError
from apply_service.settings import Settings


def run(arguments: Namespace, _: Settings) -> int:
    """Run the command and return the exit code.  A new key is printed to standard output; without a file, so is its
    entry.  Raises SettingsError if the file is not a key file or already has the name, and FileNotWritable if the file
    cannot be written."""
    from apply_service.api.keys import format_entry, load_keys, make_key

    key = sys.stdin.readline().strip() if arguments.stdin else make_key()
    entry = format_entry(arguments.name, key)
    if arguments.file is not None:
        path = Path(arguments.file).expanduser()
        ring = load_keys(str(path)) if path.exists() else None
        if ring is not None and any(other.name == arguments.name for other in ring.keys):
            raise SettingsError(
                "The file already has a key of this name.",
                value=arguments.name,
                remedy="Choose another name, or remove that entry from the file.",
            )
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)  # only the owner can read it
            with os.fdopen(descriptor, "a", encoding="utf-8", newline="\n") as file:
                file.write(("\n" if ring is not None else "") + entry)
        except OSError as error:
            raise FileNotWritable(
                f"The file of keys cannot be written: {error.strerror}.", value=str(path), remedy="Name another file."
            ) from error
        write_note(f"Added {arguments.name} to {arguments.file}")
    if not arguments.stdin:
        write_note("The key, shown this once; the file holds only its hash:")
        write_line(key)
    if arguments.file is None:
        write_note("The entry for the file of keys:")
        write_line(entry.rstrip())
    return OK
