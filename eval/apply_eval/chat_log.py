"""What a chat history of aider says: replies, the files that they were applied to, and the commits that followed.

The client only ever appends to the file.  A session begins with `# aider chat started at`; a line of the user begins
with `####`, a line of the client with `>`, and both end with two spaces; everything else is what the model wrote.  A
message of the client that has several lines is marked on its first line alone, and its last one ends with the two
spaces.  Pure: nothing here looks at a repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

HISTORY_FILE = ".aider.chat.history.md"
ANSWER_MARK = "► **ANSWER**"
"""What the client writes between a model's thoughts and its answer."""
SESSION = re.compile(r"^# aider chat started at (.*)$", re.MULTILINE)
MODEL = re.compile(r"(?:Main model|Models?): ([^\s,]+)(?: (?:with|using) (\S+) edit format)?")
EDITOR = re.compile(r"Editor model: ([^\s,]+)(?: with (\S+) edit format)?")
APPLIED = re.compile(r"Applied edit to (.+)")
COMMIT = re.compile(r"Commit ([0-9a-f]{7,40}) (.*)")
FAILURE = re.compile(
    r"The LLM did not conform to the edit format|Malformed response|UnifiedDiffNoMatch|UnifiedDiffNotUnique|"
    r"# \d+ SEARCH/REPLACE blocks? failed to match|Unable to write file"
)
END = "  "
"""How lines of the user and messages of the client end."""


class NamedCommit(NamedTuple):
    """A commit as the chat names it: the first digits of its hash, and the first line of its message."""

    digits: str
    subject: str


@dataclass(slots=True, eq=False)
class Reply:
    """One reply, and what the client said about it."""

    text: str
    session: str = ""
    """When its session began, in the client's words."""
    model: str | None = None
    edit_format: str | None = None
    """As the client calls it: `diff`, `udiff`, `whole` ..."""
    applied: list[str] = field(default_factory=list)
    """Files that it was applied to."""
    has_failed: bool = False
    """Whether the client could not apply it, or only a part of it."""
    commit: NamedCommit | None = None
    """The first one after it was applied."""


@dataclass(slots=True)
class Session:
    """What was said in one session."""

    replies: list[Reply] = field(default_factory=list)
    other_commits: int = 0
    """Commits that no applied reply leads to: the user's own edits, a linter's, a part of a failed reply."""
    is_trimmed: bool = False
    """Whether the spaces at the ends of lines were lost, so that nobody can tell who wrote which line."""


def sessions_of(versions: Iterable[str]) -> list[str]:
    """Each session once, as the longest version of the file has it; all of those that say different things."""
    found: dict[str, list[str]] = {}
    for version in versions:
        text = version.replace("\r\n", "\n")
        starts = [match.start() for match in SESSION.finditer(text)]
        for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
            session = text[start:end]
            kept = found.setdefault(session.partition("\n")[0], [])
            if not any(other.startswith(session.rstrip()) for other in kept):
                kept[:] = [*(other for other in kept if not session.startswith(other.rstrip())), session]
    return [session for kept in found.values() for session in kept]


def read_session(text: str) -> Session:
    """Take a session apart."""
    started, _, body = text.partition("\n")
    reader = _Reader(started.removeprefix("# aider chat started at ").strip())
    lines = body.split("\n")
    said = [line for line in lines if line.startswith(("> ", "#### "))]
    if said and not any(line.endswith(END) for line in said):
        return Session(is_trimmed=True)
    follows_client = inside = False  # inside a message of the client that has several lines
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        is_end = line.endswith(END)
        if line.startswith("> ") and (is_end or follows_client):
            reader.hear_client(line[2:].strip())
            follows_client, inside = is_end, not is_end
        elif inside:
            follows_client = is_end and (not after or after.startswith("> "))
            inside = not follows_client
        elif line.startswith("#### ") and is_end:
            follows_client = True
            reader.end_reply()
        else:
            follows_client = False
            reader.lines.append(line)
    reader.end_reply()
    return reader.session


class _Reader:
    """The state of a session as its lines go by."""

    def __init__(self, started: str) -> None:
        self.session = Session()
        self.started = started
        self.lines: list[str] = []
        self.model: str | None = None
        self.edit_format: str | None = None
        self.editor: tuple[str, str | None] | None = None
        self.waiting: list[Reply] = []
        """Replies that were applied and not committed yet."""

    def end_reply(self) -> None:
        """Keep what the model wrote since the last line of anyone else."""
        text = "\n".join(self.lines).strip("\n")
        self.lines.clear()
        if not text.strip():
            return
        model, edit_format = self.model, self.edit_format
        if edit_format == "architect" and self.editor is not None:  # its own replies change no file
            model, edit_format = self.editor
        text = text.rpartition(ANSWER_MARK)[2].strip("\n")
        self.session.replies.append(Reply(text, self.started, model, edit_format))

    def hear_client(self, said: str) -> None:
        """Take in one message, by its first line."""
        self.end_reply()
        last = self.session.replies[-1] if self.session.replies else None
        if match := EDITOR.match(said):
            self.editor = match[1], match[2]
        elif match := MODEL.match(said):
            self.model, self.edit_format = match[1], match[2]
        elif match := COMMIT.match(said):
            commit = NamedCommit(match[1], match[2].strip())
            if not self.waiting:
                self.session.other_commits += 1
            for reply in self.waiting:
                reply.commit = commit
            self.waiting.clear()
        elif last is not None and (match := APPLIED.match(said)):
            last.applied.append(match[1].strip())
            if last not in self.waiting:
                self.waiting.append(last)
        elif last is not None and FAILURE.match(said):
            last.has_failed = True
