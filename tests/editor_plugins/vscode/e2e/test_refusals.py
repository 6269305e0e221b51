"""What must not be changed is not changed, and the user is told why: in the real editor, by a real service."""

import json
import signal
from collections.abc import Iterator

import pytest

from apply_service.api.keys import format_entry, make_key
from tests.editor_plugins.vscode.e2e.code_server import free_port
from tests.editor_plugins.vscode.e2e.editor import Editor
from tests.editor_plugins.vscode.e2e.service import MERGED, ORIGINAL, UPDATE, LiveService, running_service
from tests.editor_plugins.vscode.e2e.test_proposals import replaced

pytestmark = pytest.mark.slow

KEY = make_key()


@pytest.fixture(scope="module")
def guarded(window: Editor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    """A service that wants a key."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "keys.toml").write_text(format_entry("editor", KEY))
    with running_service(folder, "--keys-file", str(folder / "keys.toml"), key=KEY) as found:
        yield found


def test_what_both_changed_is_told_and_left_alone(editor: Editor) -> None:
    """The proposal waits until the change is taken back."""
    editor.open("conflict.py", "a\nb = 2\nc = 3\n")
    editor.apply(replaced("a\n", "z\n"))
    editor.wait_for_status("1 hunk")
    editor.type("x")
    editor.wait_for_status("document changed")
    editor.press("Control+Shift+Enter")
    editor.wait_for_note("Line 1: the document has `xa`, the edit has `z`.")
    editor.wait_for_status("failed (edit_conflict)")
    assert editor.save("conflict.py") == b"xa\nb = 2\nc = 3\n"
    editor.press("Control+z")
    editor.wait_for_status("1 hunk")
    editor.press("Control+Shift+Enter")
    editor.wait_for_status("ready")
    assert editor.save("conflict.py") == b"z\nb = 2\nc = 3\n"


def test_a_proposal_that_does_not_fit_any_more_can_be_dropped(editor: Editor) -> None:
    editor.open("dropped.py", "a = 1\nb = 2\nc = 3\n")
    editor.apply(replaced("a = 1\n", "a = 10\n"))
    editor.wait_for_status("1 hunk")
    editor.type("x")
    editor.wait_for_status("document changed")
    editor.press("Control+Shift+Backspace")
    editor.wait_for_status("ready")
    assert editor.save("dropped.py") == b"xa = 1\nb = 2\nc = 3\n"


def test_cancelled_while_it_decodes(editor: Editor, service: str) -> None:
    editor.configure(url=service, strategy="model", drafter="none")
    editor.open("cancel.py", ORIGINAL)
    editor.apply(UPDATE)
    editor.wait_for_status("streaming… ~")
    editor.command("Apply: Cancel")
    editor.wait_for_note("cancelled; nothing was changed")
    editor.wait_for_status("ready")
    assert not editor.is_dirty("cancel.py")
    editor.configure(url=service)
    editor.apply(UPDATE)
    editor.wait_for_status("3 hunks")


def test_cancelled_by_the_button_of_the_message(editor: Editor, service: str) -> None:
    editor.configure(url=service, strategy="model", drafter="none")
    editor.open("button.py", ORIGINAL)
    editor.apply(UPDATE)
    editor.wait_for_status("streaming… ~")
    editor.click_button("Cancel")
    editor.wait_for_note("cancelled; nothing was changed")
    assert not editor.is_dirty("button.py")


def test_no_server(editor: Editor) -> None:
    editor.configure(url=f"http://127.0.0.1:{free_port()}")
    editor.open("down.py", ORIGINAL)
    editor.apply(UPDATE)
    assert "apply-service serve" in editor.wait_for_note("No service answers at")
    assert editor.status() == "Apply: offline"
    assert editor.page.locator(".notifications-toasts .monaco-button", has_text="Start Server").count() == 1
    assert not editor.is_dirty("down.py")


def test_a_wrong_key_then_the_right_one(editor: Editor, guarded: LiveService) -> None:
    editor.configure(url=guarded.url)
    editor.open("key.py", ORIGINAL)
    editor.apply(UPDATE)
    editor.wait_for_note("[unauthorized]")
    assert editor.status() == "Apply: failed (unauthorized)"
    editor.click_button("Set API Key")
    editor.answer("wrong")
    editor.wait_for_note("is kept in the secret storage")
    editor.tidy()
    editor.apply(UPDATE)
    editor.wait_for_note("[unauthorized]")
    editor.command("Apply: Set API Key...", asks=True)
    editor.answer(KEY)
    editor.apply(UPDATE)
    editor.wait_for_status("3 hunks")
    editor.command("Apply: Accept All Hunks")
    editor.wait_for_status("ready")
    assert editor.save("key.py") == MERGED
    written = [path.read_bytes() for path in editor.server.data.rglob("*") if path.is_file()]
    assert not any(KEY.encode() in data for data in written)


def test_a_server_killed_in_the_middle_of_a_stream(editor: Editor, guarded: LiveService) -> None:
    """The last test of this module's service."""
    editor.configure(url=guarded.url, strategy="model", drafter="none")
    editor.command("Apply: Set API Key...", asks=True)
    editor.answer(KEY)
    editor.open("killed.py", ORIGINAL)
    editor.apply(UPDATE)
    editor.wait_for_status("streaming… ~")
    guarded.process.send_signal(signal.SIGKILL)
    editor.wait_for_note("[unreachable]")
    assert not editor.is_dirty("killed.py")
    assert editor.drawn_beside() == ""


def test_an_edit_without_a_place(editor: Editor) -> None:
    editor.open("lost.py", "a = 1\nb = 2\n")
    editor.apply(replaced("def lost():\n    return 1\n", "def lost():\n    return 2\n"))
    editor.wait_for_note("[needs_more_context]")
    assert not editor.is_dirty("lost.py")


def test_a_write_protected_file(editor: Editor) -> None:
    path = editor.folder / "locked.py"
    path.write_bytes(ORIGINAL)
    path.chmod(0o444)
    editor.open("locked.py")
    editor.apply(UPDATE)
    editor.wait_for_note("read-only")
    assert path.read_bytes() == ORIGINAL


def test_a_notebook(editor: Editor) -> None:
    cell = {"cell_type": "code", "source": ["a = 1\n"], "metadata": {}, "outputs": [], "execution_count": None}
    book = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    (editor.folder / "book.ipynb").write_text(book)
    editor.pick_file("book.ipynb")
    editor.page.get_by_text("Select Kernel").first.wait_for()
    editor.apply(replaced("a = 1\n", "a = 2\n"))
    editor.wait_for_note("Notebooks are not supported")
    assert (editor.folder / "book.ipynb").read_text() == book


def test_an_empty_clipboard(editor: Editor) -> None:
    editor.open("empty.py", ORIGINAL)
    editor.apply(" \n")
    editor.wait_for_note("The clipboard holds no text")


def test_an_instruction_that_the_embedded_model_cannot_follow(editor: Editor) -> None:
    editor.open("words.py", ORIGINAL)
    editor.copy(" ")
    editor.command("Apply: Apply with Instruction...", asks=True)
    editor.answer("sort the functions")
    editor.wait_for_note("[instruction_unsupported]")
    assert not editor.is_dirty("words.py")
