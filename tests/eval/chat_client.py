"""A client that writes the chat history as aider does, and commits what a test says that a reply made."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from apply_eval.chat_log import HISTORY_FILE
from tests.eval.git_history import IDENTITY, git, make_repo


class ChatClient:
    """A repository with files, and a chat about them."""

    def __init__(self, folder: Path, files: Mapping[str, bytes]) -> None:
        self.folder = make_repo(folder, [("Add files", "2025-01-01", {**files})])
        self.history = folder / HISTORY_FILE
        (folder / ".git" / "info" / "exclude").write_text(HISTORY_FILE + "\n")

    def _write(self, text: str) -> None:
        with self.history.open("a", encoding="utf-8", newline="") as file:
            file.write(text)

    def start(self, *lines: str, at: str = "2025-01-02 10:00:00") -> None:
        self._write(f"\n# aider chat started at {at}\n\n")
        self.say("/usr/bin/aider --model some --api-key some=secret-key", "Aider v0.82.1", *lines)

    def ask(self, text: str) -> None:
        self._write("\n#### " + "  \n#### ".join(text.split("\n")) + "  \n")

    def reply(self, text: str) -> None:
        self._write("\n" + text.strip() + "\n\n")

    def say(self, *messages: str) -> None:
        for message in messages:
            self._write(f"> {message.strip()}  \n")

    def write(self, files: Mapping[str, bytes]) -> None:
        for path, data in files.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_bytes(data)

    def applied(self, files: Mapping[str, bytes]) -> None:
        self.write(files)
        self.say("Tokens: 2.3k sent, 120 received. Cost: $0.01 message, $0.02 session.")
        self.say(*(f"Applied edit to {path}" for path in files))

    def commit(self, message: str, *, is_told: bool = True) -> str:
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "-m", message)
        digits = self.head()[:7]
        if is_told:
            self.say(f"Commit {digits} {message}", "You can use /undo to undo and discard each aider commit.")
        return digits

    def head(self) -> str:
        command = ["git", "-C", str(self.folder), "rev-parse", "HEAD"]
        return subprocess.run(
            command, check=True, capture_output=True, text=True, env=os.environ | IDENTITY
        ).stdout.strip()

    def edit(self, request: str, reply: str, files: Mapping[str, bytes], message: str) -> str:
        """One turn that goes well."""
        self.ask(request)
        self.reply(reply)
        self.applied(files)
        return self.commit(message)


def block(path: str, search: str, replace: str, fence: str = "python") -> str:
    search, replace = (f"{text}\n" if text else "" for text in (search, replace))
    return f"{path}\n```{fence}\n<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n```\n"
