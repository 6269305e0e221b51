"""`apply-eval chats`: replies that models really wrote, each with the commit that it made.

Chat histories of aider lie in many repositories, and name the commit of each edit.  A reply and a file make one edit:
`before` is the file at the commit's parent, `update` the whole reply, `after` the file in the commit.  An edit whose
commit is not certain, or holds more than the reply, is left out and counted by its reason; nothing is guessed.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from apply_eval.chat_log import HISTORY_FILE, NamedCommit, Reply, read_session, sessions_of
from apply_eval.datasets import EditRecord, measure_edit
from apply_eval.errors import DataError
from apply_eval.history import FileChange, GitRepo
from apply_eval.mine import language_name
from apply_service.text.markers import is_marker

MODEL_TAG, FORMAT_TAG, NEW_FILE, NOT_NAMED = "model ", "format ", "new file", "not named"
WHOLE_FORMATS = frozenset({"whole", "editor-whole", "whole-func", "single-whole-func"})
"""The client's formats that show no removed line."""
DIFF_MARKS = ("<<<<<<<", "@@", "--- ")
"""Beginnings of lines that tell a reply of another format, where the chat names none."""
FAILED, NO_COMMIT, GONE, AMBIGUOUS, SEVERAL = "failed", "no_commit", "gone", "ambiguous", "several_replies"
NOT_IN_COMMIT, NOT_TEXT, OTHER_CHANGES, MARKER_KEPT = "not_in_commit", "not_text", "other_changes", "marker_kept"
LEFT_OUT: Mapping[str, str] = {
    FAILED: "the client could not apply the reply, or only a part of it",
    NO_COMMIT: "the chat names no commit after it",
    GONE: "no commit has that hash, and none with that message fits the reply",
    AMBIGUOUS: "that hash is gone, and several commits with that message fit the reply",
    SEVERAL: "several replies' edits of the file went into the commit",
    NOT_IN_COMMIT: "the commit does not change the file, or is a merge",
    NOT_TEXT: "the file is deleted, no regular file, or not UTF-8",
    OTHER_CHANGES: "the commit also changes lines that the reply does not show, by a user, a formatter, an amendment",
    MARKER_KEPT: "the client wrote a marker for left-out code into the file",
}
"""Why an edit is not measured."""


class FoundEdits(NamedTuple):
    """What a repository's chats gave; `docs/evaluation.md` lists the counts."""

    records: list[EditRecord]
    counts: dict[str, Any]


class ToldEdit(NamedTuple):
    """A reply's edit of one file, as the chat tells it."""

    reply: Reply
    commit: NamedCommit
    path: str


class MadeEdit(NamedTuple):
    """What a commit made of one file."""

    change: FileChange
    before: str
    after: str


def find_edits(repo_path: Path, *, limit: int | None = None) -> FoundEdits:
    """The edits of all chats of a repository, in the order of the chats.  Raises GitError: no repository there, or git
    refused; DataError: no chat, or none of its edits can be measured."""
    repo = GitRepo(repo_path)
    histories = Histories(repo)
    sessions = [read_session(text) for text in sessions_of(histories.versions())]
    replies = [reply for session in sessions for reply in session.replies]
    left_out: Counter[str] = Counter()
    edits = told_edits(replies, left_out)
    commits = Commits(repo, {edit.commit for edit in edits})
    made = made_edits(edits, commits, left_out)
    name = repo.name
    records = [record_of(name, edit.reply, one) for edit, one in made.items()][:limit]
    counts = {
        "histories": len(histories.paths),
        "versions": histories.n_versions,
        "sessions": len(sessions),
        "sessions_not_read": sum(session.is_trimmed for session in sessions),
        "replies": len(replies),
        "replies_without_edit": sum(not reply.applied and not reply.has_failed for reply in replies),
        "edits": len(made) + left_out.total(),
        "measured": len(records),
        "found_by_message": sum(edit.commit.digits not in commits.ids for edit in made),
        "left_out": {reason: left_out[reason] for reason in LEFT_OUT if left_out[reason]},
        "other_commits": sum(session.other_commits for session in sessions),
    }
    if not records:
        what = "no edit of its chats can be measured" if histories.paths else "it has no chat history"
        remedy = "; ".join(tell_counts(counts)) if histories.paths else f"name a repository with {HISTORY_FILE}"
        raise DataError(f"{repo_path}: {what}", value=0, limit=1, remedy=remedy)
    return FoundEdits(records, counts)


def tell_counts(counts: Mapping[str, Any]) -> list[str]:
    """What was found and what was left out, a line each."""
    lines = [
        f"{counts['sessions']} sessions, {counts['replies']} replies, {counts['edits']} edits of a file, "
        f"{counts['measured']} measured"
    ]
    if n := counts["found_by_message"]:
        lines.append(f"{n} found by the commit's message, as its hash is gone")
    if n := counts["sessions_not_read"]:
        lines.append(f"{n} sessions not read: the spaces at the ends of their lines are lost")
    return lines + [f"left out {n}: {LEFT_OUT[reason]}" for reason, n in counts["left_out"].items()]


def told_edits(replies: Iterable[Reply], left_out: Counter[str]) -> list[ToldEdit]:
    """The edits of replies for which the chat names a commit; the others are counted."""
    told: dict[tuple[str, NamedCommit, str], ToldEdit] = {}  # two versions of a session may have the same reply
    for reply in replies:
        paths = list(dict.fromkeys(reply.applied))
        if reply.has_failed:
            left_out[FAILED] += len(paths) or 1
        elif reply.commit is None:
            left_out[NO_COMMIT] += len(paths)
        else:
            told |= {(reply.text, reply.commit, path): ToldEdit(reply, reply.commit, path) for path in paths}
    return list(told.values())


def made_edits(edits: Sequence[ToldEdit], commits: Commits, left_out: Counter[str]) -> dict[ToldEdit, MadeEdit]:
    """What commits made of the files by each edit alone; the edits of which that can't be told are counted."""
    made: dict[ToldEdit, MadeEdit] = {}
    told = Counter((edit.commit, edit.path) for edit in edits)
    for edit in edits:
        answer = SEVERAL if told[edit.commit, edit.path] > 1 else find_commit(edit, commits)
        if isinstance(answer, str):
            left_out[answer] += 1
        else:
            made[edit] = answer
    # Found by their messages, two hashes may lead to the same commit.
    taken = Counter((one.change.commit, one.change.path) for one in made.values())
    sure = {edit: one for edit, one in made.items() if taken[one.change.commit, one.change.path] == 1}
    left_out[SEVERAL] += len(made) - len(sure)
    return sure


class Histories:
    """All versions of a repository's chat files: in the working tree, and in every commit."""

    def __init__(self, repo: GitRepo) -> None:
        self._repo, self._files = repo, repo.working_files(HISTORY_FILE)
        changes = [one for one in repo.changes_of_file(HISTORY_FILE) if one.status != "D" and one.is_regular]
        self._blobs = list(dict.fromkeys(change.new_blob for change in changes))
        self.paths = {*self._files, *(change.path for change in changes)}
        self.n_versions = len(self._files) + len(self._blobs)

    def versions(self) -> Iterator[str]:
        """Their texts, the newest first.  Raises GitError."""
        for path in self._files.values():
            yield path.read_text(encoding="utf-8", errors="replace")
        for blob in self._blobs:
            yield self._repo.data(blob).decode("utf-8", "replace")


# -- an edit's commit --------------------------------------------------------------------------------------------------
class Commits:
    """The commits that chats name, and where a hash is gone, all those with that message.  Raises GitError."""

    def __init__(self, repo: GitRepo, named: Iterable[NamedCommit]) -> None:
        known = sorted(named)
        self.repo, self.ids = repo, repo.resolve(one.digits for one in known)
        self.changes = repo.changes_of(self.ids.values())
        self.alike: dict[NamedCommit, list[str]] = {one: [] for one in known if one.digits not in self.ids}
        for change in repo.all_changes() if self.alike else ():
            for one, commits in self.alike.items():
                # A subject is the whole first paragraph of a message, and the chat has its first line.
                if one.subject and f"{change.subject} ".startswith(f"{one.subject} "):
                    commits += [change.commit] if change.commit not in commits else []
                    self.changes.setdefault(change.commit, []).append(change)

    def change(self, commit: str, path: str) -> FileChange | None:
        """What the commit did to the file, by its name on any system."""
        names = (path, path.replace("\\", "/").removeprefix("./"))
        return next((change for change in self.changes[commit] if change.path in names), None)


def find_commit(edit: ToldEdit, commits: Commits) -> MadeEdit | str:
    """What the edit's commit made of the file, or the reason why that can't be told."""
    if edit.commit.digits in commits.ids:
        return judge(edit, commits.ids[edit.commit.digits], commits)
    answers = [judge(edit, commit, commits) for commit in commits.alike[edit.commit]]
    fitting = [answer for answer in answers if not isinstance(answer, str)]
    if len(fitting) == 1:
        return fitting[0]
    return AMBIGUOUS if fitting else GONE


def judge(edit: ToldEdit, commit: str, commits: Commits) -> MadeEdit | str:
    """What a commit made of the file if all of that is the reply's, else the reason against it."""
    change = commits.change(commit, edit.path)
    if change is None:
        return NOT_IN_COMMIT
    if change.status == "D" or not change.is_regular:
        return NOT_TEXT
    before = "" if change.status == "A" else commits.repo.text(change.old_blob)
    after = commits.repo.text(change.new_blob)
    if before is None or after is None:
        return NOT_TEXT
    if before == after:
        return NOT_IN_COMMIT
    added, is_all = changes_shown(before, after, edit.reply)
    if not is_all:
        return OTHER_CHANGES
    return MARKER_KEPT if any(map(is_marker, added)) else MadeEdit(change, before, after)


def changes_shown(before: str, after: str, reply: Reply) -> tuple[list[str], bool]:
    """The lines that a commit adds, and whether the reply shows all that it changes.

    White space at both ends aside, each added line must be in the reply, and of each stretch that is only removed at
    least one line, unless the reply is a whole file.  What it replaces may be misquoted.
    """
    lines = reply.text.split("\n")
    shown = {line.strip() for line in lines} | {line[1:].strip() for line in lines if line[:1] in ("+", "-", " ")}
    is_whole = reply.edit_format in WHOLE_FORMATS
    if reply.edit_format is None:
        is_whole = not any(line.startswith(DIFF_MARKS) for line in lines)
    old, new = before.split("\n"), after.split("\n")
    added: list[str] = []
    for hunk in measure_edit(before, after).hunks:
        more, less = (
            [line for line in some if line.strip()] for some in (new[hunk.b0 : hunk.b1], old[hunk.a0 : hunk.a1])
        )
        added += more
        evidence = more if more or is_whole else less
        is_shown = [line.strip() in shown for line in evidence]
        if is_shown and not (all(is_shown) if more else any(is_shown)):
            return added, False
    return added, True


def record_of(repo: str, reply: Reply, made: MadeEdit) -> EditRecord:
    """The edit as a record; its tags are the model, the client's format, and whether the file is new."""
    change = made.change
    mark = hashlib.sha256(change.path.encode("utf-8", "surrogateescape")).hexdigest()[:6]
    tags: Sequence[str] = (MODEL_TAG + (reply.model or NOT_NAMED), FORMAT_TAG + (reply.edit_format or NOT_NAMED))
    return EditRecord(
        id=f"{repo.replace('/', '__')}-{change.commit[:10]}-{mark}",
        before=made.before,
        after=made.after,
        measures=measure_edit(made.before, made.after),
        update=reply.text,
        language=language_name(change.path),
        path=change.path,
        subject=change.subject,
        repo=repo,
        commit=change.commit,
        parent=change.parent,
        date=change.date,
        tags=(*tags, NEW_FILE) if change.status == "A" else (*tags,),
    )
