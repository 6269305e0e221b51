"""A small git repository made for a test: a list of commits, each a set of files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

IDENTITY = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


def git(folder: Path, *arguments: str, **variables: str) -> None:
    environment = os.environ | IDENTITY | variables
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, env=environment)


def make_repo(folder: Path, commits: list[tuple[str, str, dict[str, bytes | None]]]) -> Path:
    """`commits`: (subject, ISO date, path -> content or None to delete)."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    for subject, date, files in commits:
        for path, content in files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                file.unlink()
            else:
                file.write_bytes(content)
        git(folder, "add", "-A")
        when = f"{date}T12:00:00+0000"
        git(folder, "commit", "-q", "-m", subject, GIT_AUTHOR_DATE=when, GIT_COMMITTER_DATE=when)
    return folder
