"""Builds these pages as a site, by Sphinx with MyST; every link and anchor is checked, and nothing is fetched.

    python -m docs.site [FOLDER]    # build/site

The pages stay as they are read in the repository: they and the files that they link to are copied to where the same
relative links hold, and the README becomes the first page.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAVIGATION = {
    "Start": (
        "docs/quickstart.md",
        "docs/install.md",
        "docs/faq.md",
        "docs/glossary.md",
        "docs/how-it-works.md",
        "docs/beside-others.md",
    ),
    "Apply edits": (
        "docs/edits.md",
        "docs/tricky.md",
        "docs/merging.md",
        "docs/cli.md",
        "docs/playground.md",
        "docs/editors.md",
        "editor_plugins/vscode/README.md",
        "editor_plugins/nvim/README.md",
    ),
    "Agents and clients": (
        "docs/mcp.md",
        "docs/clients.md",
        "docs/http-api.md",
        "docs/batch.md",
        "docs/dialects.md",
        "docs/client-libraries.md",
        "apply_service/clients/typescript/README.md",
    ),
    "Run it": (
        "docs/operations.md",
        "docs/models.md",
        "docs/gpu.md",
        "docs/remote.md",
        "docs/engines.md",
        "docs/vllm.md",
        "docs/scaling.md",
    ),
    "How right, how fast": (
        "docs/evaluation.md",
        "docs/embedded-model.md",
        "docs/confidence.md",
        "docs/performance.md",
        "apply_service/models/embedded/README.md",
        "eval/apply_eval/fixtures/replay/README.md",
    ),
    "Work on it": (
        "CONTRIBUTING.md",
        "docs/drafting.md",
        "docs/decisions.md",
        "docs/log.md",
        "docs/log-training.md",
        "tests/edits/cases/README.md",
        "tests/fuzz/README.md",
        "editor_plugins/README.md",
        "CHANGELOG.md",
    ),
}
"""Pages by what a reader is about."""
PAGES = ("README.md", *(page for pages in NAVIGATION.values() for page in pages))
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
_FIRST_PAGE = re.compile(r"(\]\((?:\.\./)+)README\.md\b")


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site")
    shutil.rmtree(out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        stage(Path(folder))
        options = ("--nitpicky", "--fail-on-warning", "--keep-going", "--quiet", "--jobs=1", "--doctree-dir")
        command = [sys.executable, "-m", "sphinx", *options, f"{folder}/.doctrees", folder, str(out)]
        code = subprocess.run(command, check=False).returncode
    if not code:
        print(f"site in {(out / 'index.html').resolve().as_uri()}")
    sys.exit(code)


def stage(folder: Path) -> None:
    """Copy the pages, what they link to, and Sphinx's settings to `folder`."""
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for path in linked_files(page, text):
            if path.as_posix() not in PAGES:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, folder / path)
        if page == "README.md":
            page, text = "index.md", text + _contents()
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        (folder / page).write_text(_FIRST_PAGE.sub(r"\1index.md", text), encoding="utf-8")
    shutil.copy(Path(__file__).parent / "conf.py", folder)


def linked_files(page: str, text: str) -> list[Path]:
    """The files of the repository that a page links to, relative to its root; code blocks hold no links."""
    prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    found = dict.fromkeys((ROOT / page).parent.joinpath(link).resolve() for link in _LINK.findall(prose))
    return [path.relative_to(ROOT) for path in found if path.is_file()]


def _contents() -> str:
    groups = (f"```{{toctree}}\n:hidden:\n:caption: {name}\n\n" + "\n".join(NAVIGATION[name]) for name in NAVIGATION)
    return "".join(f"\n{group}\n```\n" for group in groups)


if __name__ == "__main__":
    main()
