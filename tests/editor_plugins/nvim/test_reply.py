"""A reply over several files, against the real service: patches need no model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doubles import ScriptedRun
from tests.editor_plugins.nvim.editor import Editor
from tests.editor_plugins.nvim.real_server import real_server
from tests.live_server import live_server

REPLY = """Here are both changes.

`a.py`:
```python
<<<<<<< SEARCH
x = 1
=======
x = 2
>>>>>>> REPLACE
```

`lib/b.py`:
```python
<<<<<<< SEARCH
y = 1
=======
y = 2
>>>>>>> REPLACE
```
"""
PATCH = """--- a/a.py
+++ b/a.py
@@ -1 +1 @@
-x = 1
+x = 2
--- /dev/null
+++ b/new/c.py
@@ -0,0 +1 @@
+z = 1
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with live_server(ScriptedRun()) as (found, _):
        yield found


@pytest.fixture
def folder(editor: Editor, url: str, tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "a.py").write_bytes(b"x = 1\n")
    (tmp_path / "lib" / "b.py").write_bytes(b"top = 0\r\ny = 1\r\n")
    editor.setup(url=url, verdicts="never")
    editor.command(f"cd {tmp_path}")
    return tmp_path


def ask(editor: Editor, text: str) -> None:
    editor.nvim.funcs.setreg("a", text)
    editor.command("ApplyReply a")


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_each_file_has_its_preview_and_nothing_is_written_before_it_is_accepted(editor: Editor, folder: Path) -> None:
    before = files_in(folder)
    ask(editor, REPLY)
    editor.wait_for_note("2 hunks in 2 files (")
    assert editor.nvim.funcs.expand("%:t") == "a.py"
    assert "1 of 1 hunks" in editor.status()
    assert editor.marks(), "drawn"
    places = [(item["lnum"], item["text"]) for item in editor.nvim.funcs.getqflist()]
    assert places == [(1, "hunk 1/1"), (2, "hunk 1/1")]
    editor.command("cnext")
    assert editor.nvim.funcs.expand("%:t") == "b.py"
    assert editor.marks()
    assert files_in(folder) == before
    editor.command("silent cfdo ApplyAccept!")
    assert files_in(folder) == before, "accepting changes buffers alone"
    editor.command("silent wall")
    assert files_in(folder) == {"a.py": b"x = 2\n", "lib/b.py": b"top = 0\r\ny = 2\r\n"}


def test_one_file_is_accepted_and_the_other_rejected(editor: Editor, folder: Path) -> None:
    ask(editor, REPLY)
    editor.wait_for_note("2 hunks in 2 files")
    editor.command("ApplyReject!")
    editor.command("cnext")
    editor.command("ApplyAccept!")
    editor.command("silent wall")
    assert files_in(folder) == {"a.py": b"x = 1\n", "lib/b.py": b"top = 0\r\ny = 2\r\n"}


def test_a_buffer_that_is_not_saved_is_what_is_edited(editor: Editor, folder: Path) -> None:
    editor.command("edit a.py")
    editor.command("call append(1, 'kept = 1')")
    ask(editor, REPLY)
    editor.wait_for_note("2 hunks in 2 files")
    editor.command("silent cfdo ApplyAccept!")
    editor.command("buffer a.py")
    assert editor.text() == b"x = 2\nkept = 1\n"


def test_a_new_file_is_made_by_writing_its_buffer(editor: Editor, folder: Path) -> None:
    ask(editor, PATCH)
    editor.wait_for_note("2 hunks in 2 files")
    editor.command("silent cfdo ApplyAccept!")
    assert not (folder / "new").exists()
    editor.command("silent cfdo write ++p")
    assert (folder / "new" / "c.py").read_bytes() == b"z = 1\n"


def test_a_file_that_fails_does_not_take_the_others_with_it(editor: Editor, folder: Path) -> None:
    (folder / "lib" / "b.py").write_bytes(b"other = 1\n")
    ask(editor, REPLY)
    editor.wait_for_note("1 hunk in 1 file, 1 failed")
    assert "lib/b.py: block 1 has no place" in editor.wait_for_note("[needs_more_context]")
    assert editor.nvim.funcs.expand("%:t") == "a.py"


@pytest.mark.parametrize("name", ["../outside.py", "/tmp/outside.py", "link/outside.py", ".git/config"])
def test_names_that_lead_out_of_the_folder_are_refused(editor: Editor, folder: Path, name: str) -> None:
    (folder / "link").symlink_to(folder.parent)
    ask(editor, REPLY.replace("lib/b.py", name))
    editor.wait_for_note("1 hunk in 1 file, 1 failed")
    editor.wait_for_note("leads out of the current folder")


def test_what_an_editor_does_not_do_is_said(editor: Editor, folder: Path) -> None:
    ask(editor, "--- a/a.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x = 1\n")
    editor.wait_for_note("a.py: `delete` is not done by an editor: apply-service apply --patch")
    assert (folder / "a.py").exists()


@pytest.mark.parametrize(("text", "words"), [("hello\n", "does not say which files it edits"), ("", "is empty")])
def test_what_is_no_reply_is_refused(editor: Editor, folder: Path, text: str, words: str) -> None:
    ask(editor, text)
    editor.wait_for_note(words)
    assert files_in(folder).keys() == {"a.py", "lib/b.py"}


def test_a_file_changed_while_the_service_works_is_merged_with_the_change(editor: Editor, folder: Path) -> None:
    """The change falls between the second question and its answer."""
    editor.command("edit a.py")
    editor.lua(
        """local client, n = require("apply_service.client"), 0
        local batch = client.batch
        client.batch = function(...)
          n = n + 1
          local stop = batch(...)
          if n == 2 then vim.api.nvim_buf_set_lines(0, 0, 0, false, { "typed = 1", "" }) end
          return stop
        end"""
    )
    with real_server() as merging:
        editor.setup(url=merging, verdicts="never")
        ask(editor, REPLY)
        editor.wait_for_note("2 hunks in 2 files")
        editor.wait_for_note(
            "the buffer was changed since the request, and the edit was merged with the change: 1 hunk"
        )
        editor.command("buffer a.py")
        assert editor.text() == b"typed = 1\n\nx = 1\n"
        assert editor.marks()
        editor.command("ApplyAccept!")
    assert editor.text() == b"typed = 1\n\nx = 2\n"
