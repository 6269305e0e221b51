"""One local git repository, read through the git command: which files its commits changed, and their texts.

Reads only; never touches a working tree, an index or the network.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apply_eval.errors import GitError

_COMMIT = "\x01"
_FIELD = "\x02"
TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that one commit modified, with the ids of both texts."""

    commit: str
    parent: str
    date: str
    """ISO day of the commit."""
    subject: str
    path: str
    old_blob: str
    new_blob: str
    n_files: int
    """How many files the commit touched."""


class GitRepo:
    """A repository, read by one git process a question."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        """`owner/name` of its origin where it has one, else the folder's name."""
        url = self._git("config", "--default", "", "remote.origin.url").decode("utf-8", "replace").strip()
        if url.startswith(("http://", "https://", "git@", "ssh://")):
            return "/".join(url.removesuffix(".git").rstrip("/").replace(":", "/").split("/")[-2:])
        return Path(self._git("rev-parse", "--show-toplevel").decode("utf-8", "replace").strip()).name

    def is_shallow(self) -> bool:
        """Whether history was cut when it was cloned."""
        return self._git("rev-parse", "--is-shallow-repository").strip() == b"true"

    def changes(self, *, max_commits: int, since: str | None = None, until: str | None = None) -> list[FileChange]:
        """Modified files (not added, deleted, renamed or merged) of the last `max_commits` commits, newest first.

        Raises:
            GitError: no repository there, or git refused.
        """
        options = ["--no-merges", "--no-renames", "--raw", "--no-abbrev", "-z", f"--max-count={max_commits}"]
        options += [f"--since={since}"] if since else []
        options += [f"--until={until}"] if until else []
        layout = f"--format={_COMMIT}{_FIELD.join(('%H', '%P', '%cs', '%s'))}"
        return list(_parse_log(self._git("log", *options, layout).decode("utf-8", "surrogateescape")))

    def text(self, blob: str) -> str | None:
        """A blob as text; None where it is not UTF-8 or holds NUL."""
        data = self._git("cat-file", "blob", blob)
        try:
            return None if b"\0" in data else data.decode("utf-8")
        except UnicodeDecodeError:
            return None

    def _git(self, *arguments: str) -> bytes:
        command = ["git", "-c", "core.quotepath=off", "-C", str(self.path), *arguments]
        try:
            found = subprocess.run(command, capture_output=True, check=False, timeout=TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise GitError(f"git could not be run: {error}", remedy="install git") from error
        if found.returncode:
            message = found.stderr.decode("utf-8", "replace").strip()
            raise GitError(f"git refused: {message}", value=str(self.path), remedy="give the path of a git repository")
        return found.stdout


def _parse_log(log: str) -> Iterator[FileChange]:
    for entry in log.split(_COMMIT)[1:]:
        head, *rest = entry.split("\0")
        commit, parents, date, subject = head.split(_FIELD, 3)
        pairs = [(rest[i].lstrip("\n"), rest[i + 1]) for i in range(0, len(rest) - 1, 2)]
        for raw, path in pairs:
            old_mode, new_mode, old_blob, new_blob, status = raw.removeprefix(":").split(" ")
            if status == "M" and old_mode.startswith("100") and new_mode.startswith("100"):
                yield FileChange(commit, parents, date, subject, path, old_blob, new_blob, len(pairs))
