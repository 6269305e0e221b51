"""Where training edits come from: a file of windows, or the history of a local git repository.

Reads and filters, nothing else: snippets are drawn elsewhere, on the fly.  The repositories of the evaluation sets are
refused whatever file or clone they come in.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from apply_eval.history import GitRepo

EXCLUDED_REPOSITORIES = frozenset(
    name.lower()
    for name in [
        "astral-sh/ruff-vscode",
        "BurntSushi/ripgrep",
        "EleutherAI/lm-evaluation-harness",
        "GeeeekExplorer/nano-vllm",
        "Seldaek/monolog",
        "UKGovernmentBEIS/inspect_ai",
        "biomejs/biome-vscode",
        "caddyserver/caddy",
        "encode/starlette",
        "fastify/fastify",
        "fmtlib/fmt",
        "ggml-org/llama.vscode",
        "gin-gonic/gin",
        "google/gson",
        "jqlang/jq",
        "junegunn/fzf",
        "karpathy/nanochat",
        "meta-pytorch/gpt-fast",
        "ml-explore/mlx-lm",
        "mockito/mockito",
        "openai/simple-evals",
        "possible055/relace-mcp",
        "prettier/prettier-vscode",
        "pydantic/genai-prices",
        "pydantic/pydantic-settings",
        "rubocop/rubocop",
        "sgl-project/mini-sglang",
        "simonw/llm",
        "snowflakedb/ArcticInference",
        "tokio-rs/axum",
        "victor-software-house/pi-fast-apply",
        "voideditor/void",
        "vuejs/core",
        "yetone/avante.nvim",
    ]
)
"""The repositories of the development set.  Forks under another owner are refused by name as well."""

EXCLUDED_NAMES = frozenset(name.rpartition("/")[2] for name in EXCLUDED_REPOSITORIES) - {"core", "void", "llm"}
"""Names too common to stand for a fork are left out."""

LANGUAGES = {
    ".py": "python", ".ts": "typescript", ".tsx": "typescript", ".js": "javascript", ".jsx": "javascript",
    ".go": "go", ".rs": "rust", ".java": "java", ".kt": "kotlin", ".c": "c", ".h": "c", ".cpp": "cpp", ".cc": "cpp",
    ".hpp": "cpp", ".rb": "ruby", ".php": "php", ".cs": "csharp", ".swift": "swift", ".sh": "shell", ".lua": "lua",
    ".sql": "sql", ".css": "css", ".html": "html", ".json": "json", ".yaml": "yaml", ".yml": "yaml",
    ".toml": "toml", ".md": "markdown", ".vue": "vue", ".svelte": "svelte",
}  # fmt: skip

MAX_LINES = 160
MAX_LINE_CHARS = 300
GIT_COMMITS = 2_000


class ExcludedRepository(Exception):
    """Training data may not come from a repository of the evaluation sets."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One file, or a window of it, before and after a real commit; LF line ends."""

    repo: str
    path: str
    language: str | None
    before: str
    after: str


def is_excluded(repo: str) -> bool:
    """Whether `repo` ("owner/name", or a URL that ends so) belongs to the evaluation sets."""
    name = re.sub(r"\.git$", "", repo.strip().rstrip("/")).lower().replace(":", "/")
    return "/".join(name.split("/")[-2:]) in EXCLUDED_REPOSITORIES or name.rpartition("/")[2] in EXCLUDED_NAMES


def read_edits(source: Path) -> list[Edit]:
    """The edits of a `.jsonl.xz` or `.jsonl` file of windows, or of a local git repository, sorted as they come.
    Raises ExcludedRepository: the source holds an evaluation repository."""
    edits = list(read_windows(source) if source.is_file() else read_history(source))
    for repo in {edit.repo for edit in edits}:
        if is_excluded(repo):
            raise ExcludedRepository(f"{source}: {repo} belongs to the evaluation sets")
    return edits


def read_windows(path: Path) -> Iterator[Edit]:
    """One JSON object a line with repo, path, language, before, after."""
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") if path.suffix == ".xz" else path.open() as lines:
        for line in lines:
            row = json.loads(line)
            before, after = (row[name].replace("\r\n", "\n") for name in ("before", "after"))
            yield Edit(row["repo"], row["path"], row["language"], before, after)


def read_history(root: Path) -> Iterator[Edit]:
    """Modified files of the newest commits of a local clone.  Raises ExcludedRepository: the clone's remote is an
    evaluation repository."""
    clone = GitRepo(root)
    repo = clone.name
    if is_excluded(repo) or is_excluded(clone.origin):
        raise ExcludedRepository(f"{root}: {repo} belongs to the evaluation sets")
    for change in clone.changes(max_commits=GIT_COMMITS):
        language = LANGUAGES.get(Path(change.path).suffix)
        if language is None:
            continue
        old, new = clone.text(change.old_blob), clone.text(change.new_blob)
        if old is None or new is None:
            continue
        before, after = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
        texts = (before.split("\n"), after.split("\n"))
        is_short = all(len(lines) <= MAX_LINES + 1 and max(map(len, lines)) <= MAX_LINE_CHARS for lines in texts)
        if before != after and is_short:
            yield Edit(repo, change.path, language, before, after)


def split_by_repository(edits: Iterable[Edit], *, share: float = 0.06) -> tuple[list[Edit], list[Edit]]:
    """(training, validation): whole repositories go to one side, chosen by a hash of their names; of a single
    repository whole files do."""
    edits = list(edits)
    has_many = len({edit.repo for edit in edits}) > 1
    train: list[Edit] = []
    held_out: list[Edit] = []
    for edit in edits:
        digest = hashlib.sha256((edit.repo if has_many else edit.path).encode()).digest()
        (held_out if digest[0] < share * 256 else train).append(edit)
    return train, held_out
