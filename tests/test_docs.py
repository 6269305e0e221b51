"""The reference pages say what the code says."""

import pytest

from apply_service.api.errors import error_kinds
from apply_service.settings import setting_specs
from docs.generate import FOLDER, PAGES, PART, PARTS, render


@pytest.mark.parametrize("page", PAGES)
def test_generated_parts_are_current(page: str) -> None:
    text = (FOLDER / page).read_text(encoding="utf-8")
    assert render(text) == text, "run: python -m docs.generate"


def test_every_part_is_on_a_page_and_holds_what_it_should() -> None:
    text = "".join((FOLDER / page).read_text(encoding="utf-8") for page in PAGES)
    assert {match[2] for match in PART.finditer(text)} == set(PARTS)
    assert all(f"`{spec.variable}`" in text for spec in setting_specs())
    assert all(f"| `{kind.code}` |" in text for kind in error_kinds() if not kind.__subclasses__())


def test_no_page_holds_the_words_of_a_library() -> None:
    pages = [path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")]
    assert len(pages) > 10
    assert not [page for page in pages if "base class" in page.lower() or "__pydantic" in page]
