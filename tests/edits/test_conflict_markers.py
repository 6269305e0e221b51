"""Conflict markers as an edit: where they are one, where they are text, and what becomes of the file."""

from __future__ import annotations

import pytest

from apply_service.errors import ApplyError, MalformedEdit, NeedsMoreContext
from apply_service.formats import conflict_markers, search_replace
from apply_service.pipeline import apply
from apply_service.protocols import EditContext
from apply_service.reply.reader import detect_format, named_files, read_patch_reply, read_reply
from apply_service.target import Runtime, no_target
from apply_service.types import ApplyRequest, ApplyResult, Certainty
from tests.edits.scripts import assert_contract

FILE = "import os\n\n\ndef first():\n    return load()\n\n\ndef second():\n    return load() + 1\n"
EDITED = FILE.replace("load() + 1", "load() + 2")
BLOCK = "<<<<<<< ours\n    return load() + 1\n=======\n    return load() + 2\n>>>>>>> theirs\n"


def apply_reply(update: str, original: str = FILE, path: str = "a.py", named: str | None = None) -> ApplyResult:
    request = ApplyRequest(original, update, path=path, format=named, strategy="exact")
    return apply(request, Runtime(load=no_target))


@pytest.mark.parametrize(
    "update",
    [
        BLOCK,
        BLOCK.replace(" ours", "").replace(" theirs", ""),
        BLOCK.replace(" ours", " HEAD").replace(" theirs", " 1a2b3c4 (second adds two)"),
        BLOCK.replace("=======", "||||||| 0f0f0f0\n    return load()\n======="),
        f"Here is the change:\n\n```python\n{BLOCK}```\n",
        f"a.py\n{BLOCK}",
    ],
)
def test_the_second_side_takes_the_place_of_the_first(update: str) -> None:
    answer = apply_reply(update)
    assert (answer.format, answer.merged_code, answer.certainty) == ("conflict_markers", EDITED, Certainty.CERTAIN)


def test_several_blocks_and_an_empty_second_side() -> None:
    first = "<<<<<<<\nimport os\n\n\n=======\n>>>>>>>\n"
    assert apply_reply(f"{first}\n{BLOCK}").merged_code == EDITED.removeprefix("import os\n\n\n")


def test_every_line_of_the_edit_is_accounted_for() -> None:
    prediction = conflict_markers.predict(FILE, BLOCK, EditContext("a.py"))
    assert_contract(prediction, FILE, BLOCK)
    assert prediction.text == EDITED
    assert prediction.determined


@pytest.mark.parametrize(
    "update",
    [
        "<<<<<<< SEARCH\n    return load() + 1\n=======\n    return load() + 2\n>>>>>>> REPLACE\n",
        "<<<<<<< ORIGINAL\n    return load() + 1\n=======\n    return load() + 2\n>>>>>>> UPDATED\n",
        "<<<<<<< SEARCH line=9\n    return load() + 1\n=======\n    return load() + 2\n>>>>>>> REPLACE\n",
        "<<<<<<< SEARCH\n    return load() + 1\n=======\n    # <<<<<<< ours\n    return load() + 2\n>>>>>>> REPLACE\n",
    ],
)
def test_search_replace_blocks_stay_what_they_are(update: str) -> None:
    assert detect_format(update, named=None, original=FILE) == "search_replace"


def test_a_block_that_mixes_both_is_none() -> None:
    mixed = BLOCK.replace(" theirs", " REPLACE")
    assert detect_format(mixed, named=None, original=FILE) != "conflict_markers"
    with pytest.raises(MalformedEdit):
        conflict_markers.predict(FILE, mixed, EditContext())


@pytest.mark.parametrize(
    ("original", "update"),
    [
        (BLOCK + FILE, BLOCK.replace("+ 2", "+ 3") + FILE),  # the file holds conflicts
        ("", BLOCK),
        (FILE, f'# ... existing code ...\n\nTEXT = """\n{BLOCK.replace("load", "read")}"""\n'),
        (FILE, BLOCK.replace(">>>>>>> theirs\n", "")),
    ],
)
def test_markers_that_are_text_are_left_alone(original: str, update: str) -> None:
    assert detect_format(update, named=None, original=original) == "lazy_snippet"


def test_a_page_may_show_markers() -> None:
    page = "# Conflicts\n\nGit writes markers.\n"
    shown = f"# Conflicts\n\nGit writes markers.\n\n```\n{BLOCK}```\n"
    assert read_reply(shown, original=page, path="a.md").format == "lazy_snippet"


@pytest.mark.parametrize("old", ["    return nothing_like_it(at, all, here)", "    return load()"])
def test_old_text_without_one_place_is_the_error_of_search_replace(old: str) -> None:
    file = FILE + "\n\ndef third():\n    return load()\n"
    update = f"<<<<<<< a\n{old}\n=======\n    return 3\n>>>>>>> b\n"
    alike = f"<<<<<<< SEARCH\n{old}\n=======\n    return 3\n>>>>>>> REPLACE\n"
    said = []
    for edit in (update, alike):
        with pytest.raises(ApplyError) as refused:
            apply_reply(edit, original=file)
        said.append(refused.value.as_dict())
    assert said[0] == said[1]
    assert said[0]["code"] == NeedsMoreContext.code


def test_no_old_text_is_a_new_file_and_nothing_else() -> None:
    update = "<<<<<<< a\n=======\nx = 1\n>>>>>>> b\n"
    assert conflict_markers.predict("", update, EditContext()).text == "x = 1\n"
    with pytest.raises(NeedsMoreContext):
        conflict_markers.predict(FILE, update, EditContext())
    with pytest.raises(NeedsMoreContext):
        search_replace.predict(
            FILE, update.replace("<<<<<<< a", "<<<<<<< SEARCH").replace("> b", "> REPLACE"), EditContext()
        )


@pytest.mark.parametrize(
    "update",
    ["x = 1\n", BLOCK.replace("=======\n", ""), BLOCK.replace(">>>>>>> theirs\n", ""), BLOCK + ">>>>>>> b\n"],
)
def test_what_is_not_complete_is_refused_where_the_format_is_named(update: str) -> None:
    with pytest.raises(MalformedEdit):
        apply_reply(update, named="conflict_markers")


def test_a_reply_over_several_files_is_divided_by_them() -> None:
    other = "<<<<<<< ours\nx = 1\n=======\nx = 2\n>>>>>>> theirs\n"
    reply = f"a.py\n{BLOCK}\nb.py\n{other}"
    found = read_patch_reply(reply, [FILE, "x = 1\n"])
    assert found.format == "conflict_markers"
    assert list(found.parts) == ["a.py", "b.py"]
    assert apply_reply(reply).merged_code == EDITED
    assert apply_reply(reply, original="x = 1\n", path="b.py").merged_code == "x = 2\n"
    assert named_files(reply) == ()  # without a file no line of a reply shows that the markers are meant
