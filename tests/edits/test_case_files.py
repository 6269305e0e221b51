"""The reader of case files: what it makes of a listing, and that a listing which says too little is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.edits.case_files import CASES, Case, read_all, read_cases


def read(folder: Path, text: str) -> Case:
    (folder / "x.md").write_text(text, encoding="utf-8")
    (case,) = read_cases(folder / "x.md")
    return case


def test_the_example_of_the_readme_is_read(tmp_path: Path) -> None:
    (example,) = re.findall(r"```markdown\n(.*?)```", (CASES / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    case = read(tmp_path, example)
    new = "\n    def clear(self):\n        self.items = []\n"
    assert case.wanted == case.original + new
    assert case.edit == case.original[:12] + "    # ...\n" + case.original[case.original.index("    def size") :] + new
    assert (case.name, case.fields["path"]) == ("x: a new method goes below the shown one", "cart.py")


def test_every_sign_is_of_its_texts_and_content_is_no_control(tmp_path: Path) -> None:
    case = read(
        tmp_path,
        "### all\nno final newline: edit\n\n    =\n     # a\n    .@@\n\n    -```\n    !- c\n    +d  \n    >e\n    *f\n",
    )
    assert case.original == "\n# a\n@@\n\n```\n- c\n"
    assert case.edit == "\n# a\n\n- c\nd  \ne"
    assert case.wanted == "\n# a\n@@\n\nd  \nf\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("## f\n\n    a\n    a\n\n### c\n    -a\n    >x\n", "stands 2 times"),
        ("## f\n\n    a\n    b\n\n### c\n    -z\n", "stands 0 times"),
        ("## f\n\n    a\n    b\n\n### c\n    -b\n    @@\n    -a\n", "above what comes before it"),
        ("### c\n     a\n    @@\n     b\n", "a gap"),
        ("### c\n    a\n", "no such sign"),
        ("### c\nlangauge: go\nasks: x\n\n     a\n    b: 1\nasks: y\n", "neither indented nor a field|no such sign"),
    ],
)
def test_a_listing_that_is_not_clear_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=said):
        read(tmp_path, text)


def test_there_are_cases() -> None:
    assert len(read_all()) > 200
