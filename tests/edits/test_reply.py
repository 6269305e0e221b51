"""Whole replies, as models write them: what is the edit, what is only said, and that neither becomes the other."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable

import pytest

from apply_service.errors import ApplyError, MalformedEdit, NeedsMoreContext
from apply_service.pipeline import apply
from apply_service.reply.reader import named_files, read_patch_reply, read_reply
from apply_service.target import Runtime
from apply_service.text.paths import named_path
from apply_service.types import ApplyRequest, ApplyResult
from tests.edits.scripts import as_blocks, as_diff, as_v4a, draw_script
from tests.effort import no_hang
from tests.seeds import draw_seed

FILE = """\
import os


def load(path):
    with open(path) as file:
        return file.read()


def save(path, text):
    with open(path, "w") as file:
        file.write(text)
"""
PATH = "src/store.py"
OLD, NEW = "        return file.read()", "        return file.read().strip()"
WANTED = FILE.replace(OLD, NEW)
BLOCK = f"<<<<<<< SEARCH\n{OLD}\n=======\n{NEW}\n>>>>>>> REPLACE\n"
HUNK = f"     with open(path) as file:\n-{OLD}\n+{NEW}\n"
DIFF = f"--- a/{PATH}\n+++ b/{PATH}\n@@ -5,2 +5,2 @@\n{HUNK}"
PATCH = f"*** Begin Patch\n*** Update File: {PATH}\n@@ def load(path):\n{HUNK}*** End Patch\n"
SNIPPET = f"# ... existing code ...\ndef load(path):\n    with open(path) as file:\n{NEW}\n# ... existing code ...\n"
JSON = '{"old_string": "return file.read()", "new_string": "return file.read().strip()"}'


def run(update: str, original: str = FILE, path: str | None = PATH, format: str | None = None) -> ApplyResult:
    """The service's own answer, without any model."""

    def no_model(name: str) -> None:
        raise AssertionError(name)

    request = ApplyRequest(original, update, path=path, format=format, strategy="exact")
    return apply(request, Runtime(load=no_model))  # type: ignore[arg-type]


def severities(result: ApplyResult, check: str = "reply") -> list[str]:
    return [verdict.severity for verdict in result.verdicts if verdict.check == check]


# -- complete markers decide ------------------------------------------------------------------------------------------
WRAPPERS: dict[str, Callable[[str], str]] = {
    "prose with signs": lambda edit: (
        f"Use `a = b; if (c < d) {{ e | f }}` \\ here:\n\n{edit}\nThat is x > y, {{so}} on.\n"
    ),
    "list with backticks": lambda edit: f"- `load` changes\n- the rest stays\n\n{edit}",
    "short lead-in": lambda edit: f"Do this:\n\n{edit}",
    "lower case": lambda edit: f"ok, so here it is\n\n{edit}\nhope that helps\n",
    "fence": lambda edit: f"Here:\n\n```\n{edit}```\n\nDone.\n",
    "fence with a title": lambda edit: f"Here:\n\n```python {PATH}\n{edit}```\n",
    "source tags": lambda edit: f"{PATH}\n<source>python\n{edit}</source>\n\nThe end.\n",
    "heading": lambda edit: f"### 1. Change `{PATH}`\n\n{edit}\n### 2. Done\n",
}


@pytest.mark.parametrize("write", WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize(
    ("edit", "name"),
    [(BLOCK, "search_replace"), (DIFF, "unified_diff"), (PATCH, "v4a_patch"), (JSON + "\n", "json_edit")],
    ids=["blocks", "diff", "patch", "json"],
)
def test_markers_decide_whatever_stands_around(write: Callable[[str], str], edit: str, name: str) -> None:
    result = run(write(edit))
    assert result.format == name
    assert result.merged_code == WANTED
    assert not [verdict for verdict in result.verdicts if verdict.severity == "error"]


@pytest.mark.parametrize(
    "update",
    [
        f"{BLOCK}\n...\n",
        BLOCK.replace("<<<<<<<", "<<<<<<<<<<").replace("=======", "==========").replace(">>>>>>>", ">>>>>>>>>>>"),
        BLOCK.replace("SEARCH", "SEARCH line=6"),
        BLOCK.replace("SEARCH", "SEARCH:6"),
        BLOCK.replace("SEARCH", "SEARCH>>"),
        BLOCK.replace("SEARCH", f"SEARCH {PATH}"),
        BLOCK.replace("SEARCH\n", "SEARCH\n:start_line:6\n:end_line: 6\n-------\n"),
        BLOCK.replace("SEARCH", "search").replace("REPLACE", "replace"),
        BLOCK.replace("<<<<<<<", "-------").replace(">>>>>>>", "+++++++"),
        BLOCK.replace(f"{OLD}\n=", f"6 | {OLD}\n="),
        BLOCK.replace(f"{OLD}\n=", f"   6\t{OLD}\n="),
        "1. Change it:\n\n" + "".join(f"   {line}\n" for line in BLOCK.splitlines()),
        "- so:\n\n" + "".join(f"  {line}\n" for line in f"```python\n{BLOCK}```".splitlines()),
        f"<edits>\n<old_text line=6>\n{OLD}\n</old_text>\n<new_text>\n{NEW}\n</new_text>\n</edits>\n",
        f"<path>{PATH}</path>\n<diff>\n{BLOCK}</diff>\n",
    ],
    ids=range(15),
)
def test_dialects_of_blocks(update: str) -> None:
    assert run(update).merged_code == WANTED


@pytest.mark.parametrize(
    "update",
    [
        f"Sure:\n\n%%bash\napply_patch <<'EOF'\n{PATCH}EOF\n\nThat strips what was read.\n",
        f"cat <<'EOF'\n{PATCH}EOF\n",
        f"<<EOF\n{PATCH}EOF\n",
        f"applypatch <<PATCH\n{PATCH}PATCH\n",
        f" {PATCH}",
        PATCH.replace("*** End", " *** End"),
        PATCH.replace("*** Update", "  *** Update"),
        PATCH + "\nThis strips the text, as you asked; x = {1}.\n",
        '{"cmd": ["apply_patch", ' + '"' + PATCH.replace("\n", "\\n").replace('"', '\\"') + '"]}',
    ],
    ids=range(9),
)
def test_wrappers_of_patches(update: str) -> None:
    assert run(update).merged_code == WANTED


@pytest.mark.parametrize(
    "update",
    [DIFF.replace("@@ -5,2 +5,2 @@\n", ""), DIFF + "\nnow it strips what it reads\n"],
    ids=["no hunk's header", "prose below"],
)
def test_the_names_of_files_make_a_diff(update: str) -> None:
    result = run(update)
    assert (result.format, result.merged_code) == ("unified_diff", WANTED)


@pytest.mark.parametrize("name", [None, "unified_diff"])
@pytest.mark.parametrize(
    "update",
    [
        f"```diff\n{HUNK}```\n",
        f"Change it:\n```python\n def load(path):\n{HUNK}```\n",
        f"```diff\n # ... existing code ...\n def load(path):\n{HUNK} # ... existing code ...\n```\n",
        SNIPPET.replace(NEW, f"-{OLD}\n+{NEW}"),
    ],
    ids=range(4),
)
def test_signs_without_headers_are_read_by_their_signs(update: str, name: str | None) -> None:
    result = run(update, format=name)
    assert (result.format, result.merged_code) == (name or "lazy_snippet", WANTED)


def test_signs_that_fit_nowhere_are_refused() -> None:
    with pytest.raises(ApplyError) as refused:
        run("```diff\n-    nothing_like_it(12)\n+    or_this(13)\n```\n")
    assert refused.value.remedy


def test_a_diff_of_context_alone_changes_nothing() -> None:
    result = run(f"--- a/{PATH}\n+++ b/{PATH}\n@@ -5,2 +5,2 @@\n     with open(path) as file:\n {OLD}\n")
    assert result.merged_code == FILE
    assert severities(result, "no_op") == ["warning"]


# -- JSON --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "update",
    [
        JSON,
        f"Here you go:\n\n```json\n{JSON}\n```\n\nDone.\n",
        '[{"oldText": "file.read()", "newText": "file.read().strip()"}]',
        '{"path": "src/store.py", "edits": [{"old_str": "file.read()", "new_str": "file.read().strip()"}]}',
        json.dumps({"name": "edit", "arguments": json.dumps({"old_string": OLD, "new_string": NEW})}),
        '{"oldString": "file.read()", "newString": "file.read().strip()", "replaceAll": true}',
        '{\n  "old_string": "with open(path) as file:\\n    return file.read()",\n'
        '  "new_string": "with open(path) as file:\\n    return file.read().strip()"\n}\n',
    ],
    ids=range(7),
)
def test_json_edits(update: str) -> None:
    result = run(update)
    assert (result.format, result.merged_code) == ("json_edit", WANTED)


def test_json_that_is_cut_short_is_refused() -> None:
    with pytest.raises(MalformedEdit) as refused:
        run(JSON[:-20])
    assert "old_string" in refused.value.remedy


def test_an_old_text_at_several_places_is_refused_with_their_lines() -> None:
    with pytest.raises(NeedsMoreContext, match="lines 5, 6, 10, 11"):
        run('{"old_string": "file", "new_string": "f"}')
    everywhere = run('{"old_string": "file", "new_string": "f", "replace_all": true}')
    assert everywhere.merged_code == FILE.replace("file", "f")


def test_a_json_file_may_hold_such_names() -> None:
    original = '{\n  "rules": [],\n  "name": "x"\n}\n'
    update = '{\n  "rules": [\n    {"search": "a", "replace": "b"}\n  ],\n  "name": "x"\n}\n'
    assert run(update, original, "rules.json").merged_code == update


# -- snippets and whole files ------------------------------------------------------------------------------------------
def test_a_snippet_comes_out_of_its_prose_and_the_prose_is_told() -> None:
    result = run(f"I changed `load`, as you asked.\n\n```python\n{SNIPPET}```\n\nHope it helps!\n")
    assert result.merged_code == WANTED
    assert severities(result) == ["pass"]


def test_prose_goes_to_the_format_as_the_instruction() -> None:
    reply = read_reply(f"Add it after load:\n\n```python\n{SNIPPET}```\n", original=FILE, path=PATH)
    assert reply.prose == "Add it after load:"
    assert reply.update == SNIPPET


@pytest.mark.parametrize(
    "name", [lambda path: f"```python {path}", lambda path: f"### {path}\n```python", lambda path: f"{path}\n```python"]
)
def test_several_files_in_fences_go_where_they_belong(name: Callable[[str], str]) -> None:
    update = f"{name('src/other.py')}\nx = 1\n```\n\n{name(PATH)}\n{SNIPPET}```\n"
    result = run(update)
    assert result.merged_code == WANTED
    assert severities(result, "other_files") == ["pass"]
    assert run(update, "", "src/other.py").merged_code == "x = 1\n"
    with pytest.raises(MalformedEdit, match="several files"):
        run(update, path="src/third.py")


def test_other_files_are_no_warning_where_the_reply_has_a_part_for_this_one() -> None:
    other = BLOCK.replace(OLD, "x = 1").replace(NEW, "x = 2")
    for reply in (f"{PATH}\n{BLOCK}\nsrc/other.py\n{other}", f"In `{PATH}`:\n\n{BLOCK}\nIn `src/other.py`:\n\n{other}"):
        result = run(reply)
        said = [(v.severity, v.message) for v in result.verdicts if v.check == "other_files"]
        assert said == [("pass", "the reply also changes src/other.py")]
        assert result.merged_code == WANTED
        assert [verdict for verdict in result.verdicts if not verdict.is_pass] == []


def test_other_files_are_a_warning_where_nothing_names_this_one() -> None:
    assert severities(run(DIFF.replace(PATH, "src/other.py")), "other_files") == ["warning"]
    assert severities(run(f"src/other.py\n{BLOCK}"), "other_files") == ["warning"]


@pytest.mark.parametrize("folder", ["lib/", "lib/src/other/"])
@pytest.mark.parametrize(
    "reply",
    [DIFF, PATCH, f"{PATH}\n{BLOCK}", f"{PATH}\n```python\n{SNIPPET}```\n"],
    ids=["diff", "v4a", "block", "lazy"],
)
def test_the_same_file_under_another_folder_is_no_finding(folder: str, reply: str) -> None:
    result = run(reply.replace("src/", folder))
    assert [v.message for v in result.verdicts if not v.is_pass] == []
    assert result.merged_code == WANTED


def test_commands_for_a_shell_are_no_part_of_another_file() -> None:
    result = run(f"First:\n```bash\npip install x\n```\nThen:\n```python\n{SNIPPET}```\n")
    assert result.merged_code == WANTED


def test_a_named_whole_file_in_prose_is_the_fence_alone() -> None:
    result = run(f"Here is the file:\n\n```python\n{WANTED}```\nDone; x = 1.\n", format="whole_file")
    assert result.merged_code == WANTED
    assert severities(result) == ["pass"]


def test_two_fenced_texts_are_no_whole_file() -> None:
    with pytest.raises(MalformedEdit, match="several code blocks"):
        run("```python\nx = 1\n```\nand\n```python\ny = 1\n```\n", format="whole_file")


@pytest.mark.parametrize("write", ["```\n{}```\n", "Here is the new page:\n\n```\n{}```\nDone.\n"])
def test_a_fence_around_a_page_is_taken_off_with_a_doubt(write: str) -> None:
    page = "# Title\n\nMore text here.\n"
    result = run(write.format(page), "# Title\n\nText.\n", "README.md", "whole_file")
    assert result.merged_code == page
    assert "code block around the whole file" in result.reasons[0]


def test_a_fence_inside_a_docstring_keeps_its_indentation() -> None:
    original = '    def load(path):\n        """Read.\n\n        text = load("a")\n        """\n        return 1\n'
    line = '        text = load("a")\n'
    update = original.replace(line, f"        ```python\n{line}        ```\n")
    assert run(update, original).merged_code == update


FENCED_PAGE = (
    "# My page\n\nDo this:\n\n```\nmake it\n```\n\nand then\n\n```sh\nrun it\n```\n\n```\nlook\n```\n\nThe end.\n"
)


@pytest.mark.parametrize("original", ["", FENCED_PAGE.replace("make", "build"), FENCED_PAGE.replace("The end", "End")])
@pytest.mark.parametrize(
    "write", ["```markdown\n{}```\n", "Here is the page:\n\n```md\n{}```\nIt says how.\n", "`README.md`\n```\n{}```\n"]
)
def test_fences_in_a_page_do_not_end_the_one_around_it(original: str, write: str) -> None:
    result = run(write.format(FENCED_PAGE), original, "README.md")
    assert result.merged_code == FENCED_PAGE
    assert any("the last line" in verdict.message for verdict in result.verdicts if verdict.severity == "warning")


def test_a_fence_that_may_be_around_a_new_page_is_told() -> None:
    result = run(f"```\n{FENCED_PAGE}```\n", "", "README.md")
    assert result.merged_code == FENCED_PAGE or severities(result) == ["warning"]


def test_two_fences_of_a_page_with_a_sentence_between_stay_apart() -> None:
    update = "```markdown\n# My page\n\nDo that:\n```\nand\n```markdown\nThe very end.\n```\n"
    assert "and" not in run(update, FENCED_PAGE, "README.md").merged_code.split("\n")


def test_no_first_line_of_a_new_file_is_dropped_without_a_word() -> None:
    for update, path in (("# README.md\n\nHello.\n", "README.md"), (f"{PATH}\n\nimport os\n", PATH)):
        result = run(update, "", path)
        assert update == result.merged_code or severities(result) == ["warning"]


# -- content is never control -----------------------------------------------------------------------------------------
PAGE = f"# Guide\n\nUse it so:\n\n```\n{BLOCK}```\n\nThe end.\n"
TEST = (
    f'import it\n\n\ndef test_diff():\n    diff = """\\\n{DIFF}"""\n    check(diff)\n\n\n'
    "def test_two():\n    check(2)\n"
)


def test_a_page_about_blocks_is_edited_by_blocks() -> None:
    update = "<<<<<<< SEARCH\nThe end.\n=======\nThe very end.\n>>>>>>> REPLACE\n"
    assert run(update, PAGE, "guide.md").merged_code == PAGE.replace("The end", "The very end")
    inner = f"```\n{BLOCK}```\n"
    update = f"<<<<<<< SEARCH\n{inner}=======\n{inner.replace('strip', 'rstrip')}>>>>>>> REPLACE\n"
    assert run(update, PAGE, "guide.md").merged_code == PAGE.replace("strip", "rstrip")


def test_a_page_about_blocks_is_edited_by_a_snippet() -> None:
    new = PAGE.replace("strip", "rstrip")
    update = "<!-- ... existing content ... -->\n\n" + new.split("# Guide\n\n")[1]
    assert run(update, PAGE, "guide.md").merged_code == new


def test_a_test_that_holds_a_diff_is_edited_by_a_snippet() -> None:
    update = TEST.replace("check(diff)", "check(diff, 1)").replace(
        "def test_two():\n    check(2)", "# ... existing code ..."
    )
    assert run(update, TEST, "test_it.py").merged_code == TEST.replace("check(diff)", "check(diff, 1)")


def test_a_snippet_may_hold_lines_like_the_headers_of_a_diff() -> None:
    """Lines of context below it are those of a snippet: a hunk without a change is none."""
    update = SNIPPET.replace("    with open", "@@ -1 +1 @@\n    with open").replace(NEW, f"{OLD}\ndiff --git a/x b/x")
    reply = read_reply(update, original=FILE, path=PATH)
    assert (reply.format, reply.update) == ("lazy_snippet", update)


@pytest.mark.xfail(strict=True, reason="a new function below a marker at the file's end is refused as a guess")
def test_new_markers_in_a_snippet_of_code_are_an_error() -> None:
    update = f'# ... existing code ...\n\n\ndef test_three():\n    edit = """\\\n{BLOCK}"""\n    check(edit)\n'
    result = run(update, TEST.replace(DIFF, ""), "test_it.py")
    assert "error" in severities(result, "edit_markup")


# -- a byte-order mark -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("has_mark", [True, False])
@pytest.mark.parametrize("shown", [("\ufeff", "\ufeff"), ("", "\ufeff"), ("\ufeff", "")], ids=["both", "new", "old"])
@pytest.mark.parametrize(
    "write",
    [
        "<<<<<<< SEARCH\n{}import os\n=======\n{}import json\n>>>>>>> REPLACE\n",
        "*** Begin Patch\n*** Update File: src/store.py\n@@\n-{}import os\n+{}import json\n*** End Patch\n",
        '{{"old_string": "{}import os", "new_string": "{}import json"}}',
    ],
    ids=["block", "v4a", "json"],
)
def test_a_byte_order_mark_stays_the_files_own(write: str, shown: tuple[str, str], has_mark: bool) -> None:
    mark = "\ufeff" * has_mark
    result = run(write.format(*shown), mark + FILE)
    assert result.merged_code == mark + FILE.replace("import os", "import json")
    assert [verdict for verdict in result.verdicts if not verdict.is_pass] == []


def test_a_byte_order_mark_of_a_fence_is_not_doubled() -> None:
    result = run(f"{PATH}\n```python\n\ufeff{WANTED}```\n", f"\ufeff{FILE}")
    assert result.merged_code == f"\ufeff{WANTED}"


# -- what does not fit is refused -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "update",
    [
        f"=======\n{NEW}\n>>>>>>> REPLACE\n",
        BLOCK.replace(">>>>>>> REPLACE\n", ""),
        BLOCK.replace("=======\n", ""),
        BLOCK.replace("<<<<<<< SEARCH", "<<-- SEARCH"),
        BLOCK.replace("<<<<<<< SEARCH", "<<<<<<< SEARCH  >"),
        BLOCK.replace(">>>>>>> REPLACE", "<<<<<<< SEARCH\n>>>>>>> REPLACE") + BLOCK,
        BLOCK.replace(f"{NEW}\n", f":start_line:6\n{NEW}\n"),
        BLOCK.replace(f"{NEW}\n", f"{NEW}\n=======\n{NEW}\n"),
        PATCH.replace("*** End Patch\n", ""),
        f"--- a/{PATH}\n+++ b/{PATH}\n",
    ],
    ids=range(10),
)
def test_broken_markers_are_refused_with_a_remedy(update: str) -> None:
    with pytest.raises(MalformedEdit) as refused:
        run(f"Here it is:\n\n{update}\nHope it helps.\n")
    assert refused.value.remedy


@pytest.mark.parametrize("doubled", ["=======\n=======\n", "=======\n=======\n=======\n"])
def test_a_second_divider_beside_the_new_text_is_left_out_with_a_doubt(doubled: str) -> None:
    for update in (BLOCK.replace("=======\n", doubled), BLOCK.replace(">>>>>>>", "=======\n>>>>>>>")):
        result = run(update)
        assert result.merged_code == WANTED
        assert severities(result, "doubt") == ["warning"]
    gone = run(BLOCK.replace(f"{NEW}\n", "=======\n"))
    assert gone.merged_code == FILE.replace(f"{OLD}\n", "")


def test_escaped_lines_lose_their_backslash() -> None:
    update = BLOCK.replace(f"{NEW}\n", f"{NEW}\n\\=======\n\\:start_line:5\n\\>>>>>>> REPLACE\n")
    assert run(update, path="notes.txt").merged_code == FILE.replace(
        OLD, f"{NEW}\n=======\n:start_line:5\n>>>>>>> REPLACE"
    )


def test_a_failed_block_names_the_nearest_lines() -> None:
    with pytest.raises(NeedsMoreContext, match=r"6 \|         return file\.read\(\)"):
        run(BLOCK.replace(f"{OLD}\n=", "        return file.raed_all()\n="))


def test_typographic_signs_are_folded() -> None:
    old, new = "    with open(path, “w”) as file:", "    with open(path, 'wb') as file:"
    assert run(BLOCK.replace(OLD + "\n", old + "\n").replace(NEW, new)).merged_code == FILE.replace('"w"', "'wb'")


# -- several files -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("update", "names"),
    [
        (f"a.py\n{BLOCK}\nb.py\n{BLOCK}", ("a.py", "b.py")),
        (PATCH.replace("*** End", "*** Add File: new.py\n+x\n*** End"), (PATH, "new.py")),
        (
            '[{"path": "a.py", "old_str": "x", "new_str": "y"}, {"path": "b.py", "old_str": "x", "new_str": "y"}]',
            ("a.py", "b.py"),
        ),
        ("```python a.py\nx\n```\n\n**b.py**\n```\ny\n```\n", ("a.py", "b.py")),
        (
            "### a.py\n```diff\n@@ -1 +1 @@\n-x\n+y\n```\n### b.py\n```diff\n@@ -1 +1 @@\n-x\n+z\n```\n",
            ("a.py", "b.py"),
        ),
        ("Just words about `a.py`.\n", ()),
    ],
    ids=range(6),
)
def test_the_files_that_a_reply_names(update: str, names: tuple[str, ...]) -> None:
    found = read_patch_reply(update)
    from apply_service.formats.patch import read_patch

    named = tuple(change.path for change in read_patch(found.update)) if found.is_patch else named_files(update)
    assert named == names


# -- fuzz --------------------------------------------------------------------------------------------------------------
LEADS = (
    "Here you go:",
    "Do this:",
    "- `x = y;` changes { here }",
    "ok so",
    "1. First, the change < below >",
    "Use a | b \\ c",
)
TAILS = ("Hope it helps!", "That is all; x = {1}.", "* done", "let me know")


def test_random_edits_in_random_wrappings_change_nothing_else() -> None:
    """Each format, in prose, fences and prefixes: the wanted text, a refusal, or an error that says so."""
    rng = random.Random(draw_seed())
    for _ in range(150):
        script = draw_script(rng)
        write = rng.choice((as_blocks, as_diff, as_v4a, None))
        pair = {"old_string": script.before, "new_string": script.after}
        edit = json.dumps(pair) if write is None else write(script, rng.randrange(1, 4))
        lead, tail = rng.choice(LEADS), rng.choice(TAILS)
        fence = rng.choice(("", "```", "```python", "~~~", "````text"))
        body = f"{fence}\n{edit.rstrip()}\n{fence.strip('pythonex')}" if fence else edit.rstrip()
        reply = "\n\n".join(part for part in (lead if rng.random() < 0.8 else "", body, tail if fence else "") if part)
        try:
            result = run(reply + "\n", script.before, "dir/x.py")
        except (MalformedEdit, NeedsMoreContext):
            continue
        is_told = any(verdict.severity == "error" for verdict in result.verdicts)
        if result.merged_code != script.after:
            assert is_told or result.certainty != "certain", reply
            assert not any(word in result.merged_code for word in (lead, tail)), reply
        assert is_told or not any(
            sign in result.merged_code
            for sign in ("<<<<<<<", ">>>>>>>", "*** Begin", "*** End Patch", "```", "~~~", "\n@@ ")
        ), reply


def test_random_prefixed_snippets_never_write_their_signs() -> None:
    rng = random.Random(draw_seed())
    for _ in range(100):
        script = draw_script(rng)
        lines = [{"=": " ", "-": "-", "+": "+"}[sign] + line for sign, line in script.steps]
        reply = "Here:\n\n```diff\n" + "\n".join(lines) + "\n```\n"
        try:
            result = run(reply, script.before, "dir/x.py")
        except (MalformedEdit, NeedsMoreContext):
            continue
        assert result.merged_code == script.after or result.certainty != "certain", reply
        assert not any(line[:1] in ("+", "-") for line in result.merged_code.split("\n")), reply


def test_a_file_that_holds_an_edit_is_edited_by_snippets() -> None:
    """The edit stands in a string of the file, and the snippet shows it beside what changes."""
    rng = random.Random(draw_seed())
    held = (BLOCK, DIFF, PATCH, JSON + "\n", f"```\n{BLOCK}```\n", "<<<<<<< SEARCH\n", "*** Begin Patch\n")
    for _ in range(60):
        name = rng.choice("bcd")
        functions = [f"def {n}(a):\n    {n}{n} = a + 1\n    return {n}{n}\n" for n in "bcd"]
        functions.insert(
            rng.randrange(4), f'def test_it():\n    edit = """\\\n{rng.choice(held)}"""\n    check(edit)\n'
        )
        new = [text.replace(f"{name}{name} = a + 1", f"{name}{name} = a * 2") for text in functions]
        shown = [
            text.rstrip("\n") if text != old or "test_it" in text else "# ... existing code ..."
            for text, old in zip(new, functions, strict=True)
        ]
        update = "\n\n\n".join(text for k, text in enumerate(shown) if not k or text != shown[k - 1]) + "\n"
        update = f"```python\n{update}```\n" if rng.random() < 0.5 else update
        result = run(update, "\n\n".join(functions), "tests/test_it.py")
        assert (result.format, result.merged_code) == ("lazy_snippet", "\n\n".join(new)), update


@pytest.mark.parametrize(
    "text",
    [
        " " * 400 + "{",
        ("." * 5000 + " ") * 200,
        "<<<<<<< SEARCH\n" * 50_000,
        "```\n" * 50_001,
        "```python\n" * 50_001,
        "<source>\n" * 50_000,
        "{" * 200_000,
        '{"old_string": ' * 30_000 + '"new_string"',
        "*** Begin Patch\n" * 50_000,
        "--- a\n+++ b\n" * 30_000,
        "@@ -1 +1 @@\n" * 30_000,
        "   <<<<<<< SEARCH\n" * 20_000,
        "=======\n" * 100_000,
        "path: " + "a/" * 100_000,
        "`a.py` " * 50_000,
    ],
    ids=range(15),
)
def test_hostile_replies_cost_little(text: str) -> None:
    with no_hang():
        for original in ("", FILE):
            with contextlib.suppress(MalformedEdit):
                read_reply(text, original=original, path=PATH)


@pytest.mark.parametrize("update", ["```sh\nmake\n```\n", "```sh\nmake\n```\n\nThen run it.\n", "    make\n"])
def test_an_order_above_a_new_page_may_be_of_the_page(update: str) -> None:
    reply = read_reply(f"Add this line to your config:\n\n{update}", original="", path="a.md")
    assert [finding.check for finding in reply.findings if finding.severity == "warning"] == ["doubt"]
    reply = read_reply("Here is the page:\n\n# Title\n\nText.\n", original="", path="a.md")
    assert not [finding for finding in reply.findings if finding.severity == "warning"]


# -- replies with blocks for one file and the whole of another ---------------------------------------------------------
MIXED = """First the new helper:

**src/clamp.py** (new file)

```python
def clamp(x, low, high):
    return max(low, min(x, high))
```

Then use it:

`src/volume.py`
```python
<<<<<<< SEARCH
    return level
=======
    return clamp(level, 0, 11)
>>>>>>> REPLACE
```
```python
<<<<<<< SEARCH
import math
=======
import math

from clamp import clamp
>>>>>>> REPLACE
```

Run it with:

    python src/volume.py
"""
VOLUME = "import math\n\n\ndef volume(level):\n    return level\n"


def test_each_file_of_a_mixed_reply_gets_its_own_part() -> None:
    blocks = read_reply(MIXED, original=VOLUME, path="src/volume.py", language="python")
    assert blocks.format == "search_replace"
    whole = read_reply(MIXED, original="", path="src/clamp.py", language="python")
    assert (whole.format, whole.update.strip("\n").split("\n")[0]) == ("lazy_snippet", "def clamp(x, low, high):")
    assert "SEARCH" not in whole.update
    assert {*named_files(MIXED)} == {"src/volume.py", "src/clamp.py"}


def test_what_belongs_to_another_file_is_not_left_out() -> None:
    found = read_reply(MIXED, original=VOLUME, path="src/volume.py", language="python").findings
    told = {verdict.check: verdict for verdict in found}
    assert told["other_files"].severity == "pass"
    assert "src/clamp.py" in told["other_files"].message
    assert "clamp(x" not in told["reply"].message


@pytest.mark.parametrize("state", ["(new file)", "(updated)", "(a new file)", "(changed):", "(complete file)"])
def test_what_is_said_of_a_file_behind_its_name_is_no_part_of_it(state: str) -> None:
    assert named_path(f"**src/clamp.py** {state}") == "src/clamp.py"
    assert named_path(f"src/clamp.py {state}") == "src/clamp.py"
    assert named_path("src/clamp.py (f(x), 2)") is None


def test_commands_below_the_fence_of_a_new_file_are_no_part_of_it() -> None:
    reply = (
        "Create `Dockerfile`:\n\n```dockerfile\nFROM node\nRUN npm ci\n```\n\nBuild it:\n\n    docker build -t a .\n"
    )
    assert (
        read_reply(reply, original="", path="Dockerfile", language=None).update.strip("\n") == "FROM node\nRUN npm ci"
    )


SUGGESTED = """Here's `ci.yml`:

```yaml
name: CI
on: [push]
```

That's short. {lead}

```yaml
timeout-minutes: 5
```
"""


@pytest.mark.parametrize(
    "lead", ["If it hangs, use:", "Optionally, add a limit:", "But if you prefer a limit, add this:"]
)
def test_what_a_reply_only_suggests_is_left_out_and_told(lead: str) -> None:
    found = read_reply(SUGGESTED.format(lead=lead), original="name: CI\n", path="ci.yml", language="yaml")
    assert "timeout" not in found.update
    assert ("doubt", "warning") in [(one.check, one.severity) for one in found.findings]
    ordered = read_reply(SUGGESTED.format(lead="Then add:"), original="name: CI\n", path="ci.yml", language="yaml")
    assert "timeout" in ordered.update


def test_a_new_file_is_its_own_fence_alone() -> None:
    reply = "**a.py**\n```python\nx = 1\n```\nThe rest:\n```python\ny = 2\n```\n"
    found = read_reply(reply, original="", path="a.py", language="python")
    assert found.update.strip() == "x = 1"
    assert ("doubt", "warning") in [(one.check, one.severity) for one in found.findings]
