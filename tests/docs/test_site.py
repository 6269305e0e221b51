"""The pages as a site: every page has its place, every link and anchor leads somewhere.  Sphinx runs in `make docs`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.site import PAGES, ROOT, linked_files, stage

PICTURE_OR_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]+)?\)")
TAGS = re.compile(r"<[^>]+>|`|\*")


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors of headings, as GitHub makes them."""
    text = re.sub(r"^(```|````).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#{1,6} (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", TAGS.sub("", title).strip().lower()).replace(" ", "-") for title in titles}


def test_every_page_has_one_place() -> None:
    assert len(PAGES) == len(set(PAGES))
    assert {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    path = ROOT / page
    for target, anchor in PICTURE_OR_LINK.findall(prose(path)):
        file = path.parent / target if target else path
        assert file.is_file(), f"{page}: {target}"
        if anchor and file.suffix == ".md":
            assert anchor[1:] in anchors(file), f"{page}: {target}{anchor}"


def test_staged_pages_keep_their_links_and_the_readme_comes_first(tmp_path: Path) -> None:
    stage(tmp_path)
    first = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert first.startswith((ROOT / "README.md").read_text(encoding="utf-8"))
    assert all(page in first for page in PAGES[1:])
    assert "](../index.md)" in (tmp_path / "docs" / "quickstart.md").read_text(encoding="utf-8")
    assert (tmp_path / "docs" / "images" / "preview.svg").is_file()
    assert (tmp_path / "conf.py").is_file()


def test_code_holds_no_links() -> None:
    text = "[a](CHANGELOG.md) `[b](LICENSE)`\n```\n[c](Makefile)\n```\n[d](https://x.org/README.md) [e](nowhere.md)\n"
    assert linked_files("README.md", text) == [Path("CHANGELOG.md")]
