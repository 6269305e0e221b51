"""What the journal says of a change set: what each file was, what it is to become, and how to go back.

Tells states apart by the bytes that lie there now, never by memory: a note outlives the process that wrote it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from apply_service.errors import FileNotReadable
from apply_service.files import make_folder, publish, read_source, remove, stage


class FileState(NamedTuple):
    """What a file holds."""

    sha256: str | None
    """None: there is no file."""
    mode: int | None
    """Permission bits; None for those that a file like it has anyway."""

    @classmethod
    def of(cls, path: Path) -> FileState:
        source = read_source(path, needs_folder=False)
        return cls(sha256_of(source.data) if source.exists else None, source.mode)


@dataclass(frozen=True, slots=True)
class Step:
    """What one file was and is to become.  `kept`: where its old bytes lie.  `temporary`: where the new ones are
    staged."""

    target: str
    before: FileState
    after: FileState
    kept: str
    temporary: str

    @property
    def is_undone(self) -> bool:
        """Whether the file is as the change set found it."""
        return self._is(self.before)

    @property
    def is_done(self) -> bool:
        """Whether the file is as the change set made it."""
        return self._is(self.after)

    @property
    def can_be_undone(self) -> bool:
        return self.is_undone or (self.is_done and self._bytes_before() is not None)

    def undo(self) -> None:
        """Give the file back what it held.  Raises FileError."""
        source, data = read_source(self.target, needs_folder=False), self._bytes_before()
        if self.before.sha256 is None:
            remove(source)
        elif data is not None:
            make_folder(source)
            stage(Path(self.temporary), source, data, self.before.mode)
            publish(Path(self.temporary), source)

    def _is(self, state: FileState) -> bool:
        # Where the bytes tell the two states apart, the mode is nobody's business.
        has_mode = self.before.sha256 == self.after.sha256
        try:
            now = FileState.of(Path(self.target))
        except FileNotReadable:
            return False
        return now.sha256 == state.sha256 and (now.mode == state.mode or not has_mode)

    def _bytes_before(self) -> bytes | None:
        """What was kept; None where it is lost."""
        if self.before.sha256 is None:
            return b""
        with contextlib.suppress(OSError):
            data = Path(self.kept).read_bytes()
            if self.before.sha256 == sha256_of(data):
                return data
        return None


@dataclass(frozen=True, slots=True)
class Note:
    """One change set in the journal."""

    steps: tuple[Step, ...]
    folders: tuple[str, ...] = ()
    """Folders that the change set creates, outermost first."""
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @classmethod
    def parse(cls, text: str) -> Note:
        """Raises ValueError, KeyError or TypeError for what is no note."""
        values = json.loads(text)
        steps = (
            Step(**{**step, "before": FileState(*step["before"]), "after": FileState(*step["after"])})
            for step in values["steps"]
        )
        return cls(tuple(steps), tuple(values["folders"]), values["started"])


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
