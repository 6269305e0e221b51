"""A local git history: commits, the files that they changed, and their texts.

Git is only asked, one process a question.  No working tree, index or network is touched, and no program that the
repository's own configuration names may run.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from apply_eval.errors import GitError
from apply_service.isolation import find_program

GIT_OPTIONS: Mapping[str, str] = {
    "core.quotePath": "off",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "log.showRoot": "true",
    "log.showSignature": "false",  # else gpg.program runs for each signed commit
}
GIT_VARIABLES = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}
"""Objects that a partial clone lacks are not fetched, by no program and from nowhere."""
GIT_TIMEOUT_S = 300
MAX_FILE_BYTES = 2**28
_COMMIT = "\x01"
_FIELD = "\x02"
_ABBREVIATION = re.compile(r"[0-9a-f]{4,64}\Z")


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that one commit changed, with the ids of both texts."""

    commit: str
    parent: str
    """Several of a merge; empty of a first commit."""
    date: str
    """ISO day of the commit."""
    subject: str
    path: str
    old_blob: str
    new_blob: str
    n_files: int
    """How many files the commit touched, of those asked for."""
    status: str = "M"
    """Git's letter: added, modified, deleted, of another type."""
    is_regular: bool = True
    """Whether neither side is a link or a submodule."""


class GitRepo:
    """A repository, read by one git process a question."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def origin(self) -> str:
        """The URL that it was cloned from; empty where there is none."""
        return self._git("config", "--default", "", "remote.origin.url").decode("utf-8", "replace").strip()

    @property
    def name(self) -> str:
        """`owner/name` of its origin where that is a server's, else the folder's name."""
        if self.origin.startswith(("http://", "https://", "git@", "ssh://")):
            return "/".join(self.origin.removesuffix(".git").rstrip("/").replace(":", "/").split("/")[-2:])
        return Path(self._git("rev-parse", "--show-toplevel").decode("utf-8", "replace").strip()).name

    def is_shallow(self) -> bool:
        """Whether history was cut when it was cloned."""
        return self._git("rev-parse", "--is-shallow-repository").strip() == b"true"

    def changes(self, *, max_commits: int, since: str | None = None, until: str | None = None) -> list[FileChange]:
        """Modified files (not added, deleted, renamed or merged) of the last `max_commits` commits, newest first.
        Raises GitError: no repository there, or git refused."""
        options = ["--no-merges", f"--max-count={max_commits}"]
        options += [f"--since={since}"] if since else []
        options += [f"--until={until}"] if until else []
        return [change for change in self._log(*options) if change.status == "M" and change.is_regular]

    def all_changes(self) -> list[FileChange]:
        """Every file of every commit that any branch or tag leads to, newest first.  Raises GitError."""
        return list(self._log("--all", "--no-merges"))

    def changes_of_file(self, name: str) -> list[FileChange]:
        """Commits on any branch that changed a file of that name, in whatever folder, newest first.  Raises
        GitError."""
        return list(self._log("--all", "--", f":(top,glob)**/{name}"))

    def changes_of(self, commits: Iterable[str]) -> dict[str, list[FileChange]]:
        """What each of these commits changed, by its id; nothing of a merge.  Raises GitError."""
        found: dict[str, list[FileChange]] = {commit: [] for commit in commits}
        for change in self._log("--no-walk", "--stdin", given=[*found]) if found else ():
            found[change.commit].append(change)
        return found

    def resolve(self, abbreviations: Iterable[str]) -> dict[str, str]:
        """The commits that begin with these hexadecimal digits, of those that one commit alone begins with.  Raises
        GitError."""
        asked = [one for one in dict.fromkeys(abbreviations) if _ABBREVIATION.match(one)]
        answer = self._git("cat-file", "--batch-check", given=[f"{one}^{{commit}}" for one in asked])
        lines = answer.decode("ascii", "replace").split("\n")
        words = ((one, line.split(" ")) for one, line in zip(asked, lines, strict=False))
        return {one: said[0] for one, said in words if said[1:2] == ["commit"]}

    def working_files(self, name: str) -> dict[str, Path]:
        """Regular files of that name in the working tree, ignored ones too, by their paths in the repository; none of a
        bare one.  Raises GitError."""
        if self._git("rev-parse", "--is-inside-work-tree").strip() != b"true":
            return {}
        top = Path(os.fsdecode(self._git("rev-parse", "--show-toplevel").removesuffix(b"\n")))
        said = self._git("ls-files", "-z", "--full-name", "--cached", "--others", "--", f":(top,glob)**/{name}")
        names = (os.fsdecode(one) for one in sorted({*said.split(b"\0")} - {b""}))
        return {name: top / name for name in names if _is_small_file(top / name)}

    def text(self, blob: str) -> str | None:
        """A blob as text; None where it is not UTF-8 or holds NUL."""
        data = self.data(blob)
        try:
            return None if b"\0" in data else data.decode("utf-8")
        except UnicodeDecodeError:
            return None

    def data(self, blob: str) -> bytes:
        """A blob's bytes.  Raises GitError: the repository lacks it."""
        return self._git("cat-file", "blob", blob)

    def _log(self, *options: str, given: Sequence[str] = ()) -> Iterator[FileChange]:
        layout = f"--format={_COMMIT}{_FIELD.join(('%H', '%P', '%cs', '%s'))}"
        shown = ("--no-renames", "--no-ext-diff", "--no-textconv", "--raw", "--no-abbrev", "-z", layout)
        said = self._git("log", *shown, *options, given=given).decode("utf-8", "surrogateescape")
        for entry in said.split(_COMMIT)[1:]:
            head, *rest = entry.split("\0")
            commit, parents, date, subject = head.split(_FIELD, 3)
            pairs = [(rest[i].lstrip("\n"), rest[i + 1]) for i in range(0, len(rest) - 1, 2)]
            for raw, path in pairs:
                old_mode, new_mode, old_blob, new_blob, status = raw.removeprefix(":").split(" ")
                is_regular = all(mode.startswith("100") or not mode.strip("0") for mode in (old_mode, new_mode))
                about = (commit, parents, date, subject, path)
                yield FileChange(*about, old_blob, new_blob, len(pairs), status, is_regular)

    def _git(self, *arguments: str, given: Sequence[str] = ()) -> bytes:
        """What git says to the lines that it is given.  A repository's own configuration names programs: none of them
        may run."""
        if (git := find_program("git")) is None:
            raise GitError("git is not on the path", remedy="install git")
        options = [word for name, value in GIT_OPTIONS.items() for word in ("-c", f"{name}={value}")]
        command = [git, "--no-pager", *options, "-C", str(self.path), *arguments]
        try:
            found = subprocess.run(
                command,
                input="".join(f"{line}\n" for line in given).encode(),
                capture_output=True,
                check=False,
                timeout=GIT_TIMEOUT_S,
                env=os.environ | GIT_VARIABLES,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise GitError(f"git could not be run: {error}", remedy="install git") from error
        if found.returncode:
            message = found.stderr.decode("utf-8", "replace").strip()
            raise GitError(f"git refused: {message}", value=str(self.path), remedy="give the path of a git repository")
        return found.stdout


def _is_small_file(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:  # listed in the index, and deleted since
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= MAX_FILE_BYTES and os.access(path, os.R_OK)
