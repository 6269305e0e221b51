"""Snippets applied in the real editor, by a real service with the embedded model; files are read from disk."""

import pytest

from tests.editor_plugins.vscode.e2e.editor import Editor, wait_until
from tests.editor_plugins.vscode.e2e.service import MERGED, ORIGINAL, UPDATE

pytestmark = pytest.mark.slow

CHECKED = b'        if item.quantity < 1:\n            raise ValueError(f"quantity of {item.sku} must be positive")\n'
NOTHING = b'    if not cart.items:\n        return f"Nothing to pay, {cart.customer}."\n'
FIRST_HUNK = ORIGINAL.replace(b"        self.items.append(item)\n", CHECKED + b"        self.items.append(item)\n")
FIRST_AND_LAST = FIRST_HUNK.replace(b"    lines = [f", NOTHING + b"    lines = [f")


def replaced(old: str, new: str) -> str:
    """An edit whose result its format determines: no model is asked."""
    return f"<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n"


def test_applied_by_the_model_accepted_undone_and_redone(editor: Editor, service: str) -> None:
    editor.configure(url=service, strategy="model")
    editor.open("cart.py", ORIGINAL)
    editor.apply(UPDATE)
    assert "tok/s" in editor.wait_for_status("3 hunks")
    assert not editor.is_dirty("cart.py")
    assert "must be positive" in editor.drawn_beside()
    editor.command("Apply: Accept All Hunks")
    editor.wait_for_status("ready")
    assert editor.save("cart.py") == MERGED
    assert "must be positive" not in editor.drawn_beside()
    editor.press("Control+z")
    assert editor.save("cart.py") == ORIGINAL
    editor.press("Control+y")
    assert editor.save("cart.py") == MERGED


def test_the_stream_is_seen_while_it_runs(editor: Editor, service: str) -> None:
    """Undrafted, the model takes long enough to be watched."""
    editor.configure(url=service, strategy="model", drafter="none")
    editor.open("stream.py", ORIGINAL)
    editor.apply(UPDATE)
    editor.wait_for_status("streaming…")
    editor.wait_for_status("streaming… ~")
    wait_until(lambda: "streaming" in editor.drawn_beside(), 300, editor.drawn_beside)
    editor.command("Apply: Open Diff")
    page = editor.page.locator(".monaco-diff-editor .editor.modified").first
    wait_until(lambda: "Shopping cart" in page.inner_text().replace("\xa0", " "), 60, page.inner_text)
    assert not editor.is_dirty("stream.py")
    editor.wait_for_status("3 hunks")
    assert (editor.folder / "stream.py").read_bytes() == ORIGINAL


def test_what_is_typed_while_the_service_works_is_merged(editor: Editor, service: str) -> None:
    editor.configure(url=service, strategy="model", drafter="none")
    editor.open("typed.py", ORIGINAL)
    editor.apply(UPDATE)
    editor.wait_for_status("streaming… ~")
    editor.type("# typed\n")
    editor.wait_for_note("and the edit was merged with the change")
    editor.wait_for_status("3 hunks")
    assert editor.save("typed.py") == b"# typed\n" + ORIGINAL
    editor.press("Control+Shift+Enter")
    editor.wait_for_status("ready")
    assert editor.save("typed.py") == b"# typed\n" + MERGED


def test_what_is_typed_after_the_answer_is_merged_before_it_is_accepted(editor: Editor) -> None:
    editor.open("stale.py", ORIGINAL)
    editor.apply(UPDATE)
    editor.wait_for_status("3 hunks")
    editor.type("#typed")
    editor.wait_for_status("document changed")
    assert "must be positive" not in editor.drawn_beside()
    editor.press("Control+z")
    editor.wait_for_status("3 hunks")
    editor.type("#typed")
    editor.wait_for_status("document changed")
    editor.press("Control+Shift+Enter")
    editor.wait_for_note("and the edit was merged with the change")
    editor.wait_for_status("3 hunks")
    assert editor.save("stale.py") == b"#typed" + ORIGINAL
    editor.press("Control+Shift+Enter")
    editor.wait_for_status("ready")
    assert editor.save("stale.py") == b"#typed" + MERGED


def test_one_hunk_accepted_and_another_rejected_by_keys(editor: Editor) -> None:
    editor.open("keys.py", ORIGINAL)
    editor.apply(UPDATE)
    editor.wait_for_status("3 hunks")
    editor.press("Alt+F5", "Control+Alt+y")
    editor.wait_for_status("2 hunks")
    assert editor.save("keys.py") == FIRST_HUNK
    editor.press("Alt+F5", "Control+Alt+n")
    editor.wait_for_status("1 hunk")
    assert editor.save("keys.py") == FIRST_HUNK
    editor.press("Control+Shift+Enter")
    editor.wait_for_status("ready")
    assert editor.save("keys.py") == FIRST_AND_LAST
    editor.press("Control+z")
    assert editor.save("keys.py") == FIRST_HUNK
    editor.press("Control+z")
    assert editor.save("keys.py") == ORIGINAL


def test_keys_that_are_new_to_the_window_are_taken_in_their_order(editor: Editor) -> None:
    """The editor holds back the first use of a command: a known one that follows at once must not overtake it."""
    editor.reload()
    editor.open("first.py", "a = 1\nb = 2\nc = 3\nd = 4\n")
    editor.apply(replaced("a = 1\n", "a = 10\n") + replaced("d = 4\n", "d = 40\n"))
    editor.wait_for_status("2 hunks")
    editor.press("Control+Alt+y")
    editor.wait_for_status("1 hunk,")
    editor.press("Alt+F5", "Control+Alt+y")
    editor.wait_for_status("ready")
    assert editor.save("first.py") == b"a = 10\nb = 2\nc = 3\nd = 40\n"


def test_keys_are_not_waited_for(editor: Editor) -> None:
    editor.open("hasty.py", ORIGINAL)
    editor.apply(UPDATE)
    editor.wait_for_status("3 hunks")
    editor.press("Alt+F5", "Control+Alt+y", "Alt+F5", "Control+Alt+n", "Alt+F5", "Control+Alt+y")
    editor.wait_for_status("ready")
    assert editor.save("hasty.py") == FIRST_AND_LAST


def test_a_hunk_accepted_by_its_own_button(editor: Editor) -> None:
    editor.open("lens.py", ORIGINAL)
    editor.apply(UPDATE)
    editor.wait_for_status("3 hunks")
    editor.page.locator(".codelens-decoration a", has_text="Accept").first.click()
    editor.wait_for_status("2 hunks")
    assert editor.save("lens.py") == FIRST_HUNK


def test_the_preview_shows_what_comes_below_what_goes(editor: Editor, service: str) -> None:
    editor.configure(url=service, preview="below")
    editor.open("below.py", "a = 1\nb = 2\nc = 3\nd = 4\n")
    editor.apply(replaced("b = 2\n", "b = 20\n") + replaced("d = 4\n", "d = 40\n"))
    editor.wait_for_status("2 hunks")
    page = editor.page.locator(".editor-group-container.active .view-lines").first
    wanted = ["a = 1", "b = 2", "b = 20", "c = 3", "d = 4", "d = 40"]
    wait_until(lambda: page.inner_text().replace("\xa0", " ").split("\n")[:6] == wanted, 60, page.inner_text)
    editor.press("Control+Alt+y")
    editor.wait_for_status("1 hunk")
    wanted.remove("b = 2")
    wait_until(lambda: page.inner_text().replace("\xa0", " ").split("\n")[:5] == wanted, 60, page.inner_text)
    editor.press("Alt+F5", "Control+Alt+n")
    editor.wait_for_status("ready")
    editor.page.locator('.tab.active.dirty[data-resource-name="below.py"]').first.wait_for()
    assert editor.save("below.py") == b"a = 1\nb = 20\nc = 3\nd = 4\n"


BODY = "    x = 1\n    y = 2\n    z = 3\n"
THREE_PLACES = "".join(f"def {name}():\n{BODY}\n\n" for name in "abc")
ANY_PLACE = "# ... existing code ...\n" + BODY.replace("2", "20") + "# ... existing code ...\n"


def edited_in(name: str) -> bytes:
    """The file of three places with the edit made in the function `name`."""
    head = f"def {name}():\n"
    return THREE_PLACES.replace(head + BODY, head + BODY.replace("2", "20")).encode()


def test_an_edit_in_doubt_ends_right_after_one_answer(editor: Editor) -> None:
    editor.open("doubt.py", THREE_PLACES)
    editor.apply(ANY_PLACE)
    editor.wait_for_note("Did you mean to keep line 3 (`y = 2`) and remove line 9 (`y = 2`)?")
    assert "reading 1 of" in editor.wait_for_status("1 hunk")
    editor.click_button("Next Reading")
    editor.wait_for_status("reading 2 of")
    assert not editor.is_dirty("doubt.py")
    editor.press("Control+Shift+Enter")
    editor.wait_for_status("ready")
    assert editor.save("doubt.py") == edited_in("b")


def test_an_edit_that_the_program_refuses_is_a_question_too(editor: Editor, service: str) -> None:
    editor.configure(url=service, strategy="exact", autoAccept="clean")
    editor.open("refused.py", THREE_PLACES)
    editor.apply(ANY_PLACE)
    editor.wait_for_note("Did you mean to replace line 3 (`y = 2`) by `y = 20`?")
    editor.wait_for_status("1 hunk, exact, reading 1 of")
    assert not editor.is_dirty("refused.py")
    editor.press("Control+Alt+.")
    editor.wait_for_status("reading 2 of")
    editor.press("Control+Alt+,")
    editor.wait_for_status("reading 1 of")
    editor.press("Control+Shift+Enter")
    editor.wait_for_status("ready")
    assert editor.save("refused.py") == edited_in("a")


def test_readings_are_stepped_through_by_keys_and_buttons_on_the_preview(editor: Editor, service: str) -> None:
    editor.configure(url=service, preview="below")
    editor.open("step.py", THREE_PLACES)
    editor.apply(ANY_PLACE)
    editor.wait_for_status("reading 1 of")
    lens = editor.page.locator(".editor-group-container.active .codelens-decoration a")
    lens.filter(has_text="Did you mean to keep line 3").first.click()
    editor.wait_for_status("reading 2 of")
    lens.filter(has_text="reading 2 of").first.wait_for()
    editor.press("Control+Alt+.")
    editor.wait_for_status("reading 3 of")
    lens.filter(has_text="reading 3 of").first.wait_for()
    editor.press("Control+Alt+,", "Control+Alt+,", "Control+Alt+.", "Control+Alt+.", "Control+Alt+y")
    editor.wait_for_status("ready")
    editor.page.locator('.tab.active.dirty[data-resource-name="step.py"]').first.wait_for()
    assert editor.save("step.py") == edited_in("c")


def test_rejected_all_leaves_the_file(editor: Editor) -> None:
    editor.open("reject.py", ORIGINAL)
    editor.apply(UPDATE)
    editor.wait_for_status("3 hunks")
    editor.press("Control+Shift+Backspace")
    editor.wait_for_status("ready")
    assert not editor.is_dirty("reject.py")


def test_undo_brings_an_accepted_hunk_back_to_choose_again(editor: Editor) -> None:
    editor.open("again.py", ORIGINAL)
    editor.apply(UPDATE)
    editor.wait_for_status("3 hunks")
    editor.press("Alt+F5", "Control+Alt+y")
    editor.wait_for_status("2 hunks")
    editor.press("Control+z")
    editor.wait_for_status("3 hunks")
    editor.command("Apply: Accept All Hunks")
    editor.wait_for_status("ready")
    assert editor.save("again.py") == MERGED


def test_accepted_without_being_asked_where_the_rule_says_so(editor: Editor, service: str) -> None:
    editor.configure(url=service, autoAccept="always", stream=False)
    editor.open("auto.py", ORIGINAL)
    editor.apply(UPDATE)
    wait_until(lambda: editor.is_dirty("auto.py"), 300, editor.status)
    assert editor.save("auto.py") == MERGED
    editor.press("Control+z")
    assert editor.save("auto.py") == ORIGINAL


ODD = "\ufeffs = '😀é' + one\r\n\tt = '𝔘' + two  \r\n\x0c\r\nu = three\r\nv = four"
ODD_EDIT = replaced("\tt = '𝔘' + two  \n", "\tt = '𝔘𝔙' + zwei  \n\tw = '👩‍👩‍👧'\n") + replaced(
    "v = four\n", "v = vier\n"
)
ODD_MERGED = "\ufeffs = '😀é' + one\r\n\tt = '𝔘𝔙' + zwei  \r\n\tw = '👩‍👩‍👧'\r\n\x0c\r\nu = three\r\nv = vier"


def test_windows_line_ends_astral_characters_and_a_byte_order_mark(editor: Editor) -> None:
    editor.open("odd.py", ODD)
    editor.apply(ODD_EDIT)
    editor.wait_for_status("2 hunks, exact")
    editor.command("Apply: Accept All Hunks")
    editor.wait_for_status("ready")
    assert editor.save("odd.py").decode() == ODD_MERGED
    editor.press("Control+z")
    assert editor.save("odd.py").decode() == ODD


def test_a_selection_applied_to_another_file(editor: Editor) -> None:
    editor.open("target.py", "a = 1\nb = 2\n")
    editor.open("chat.md", "Do this:\n\n```\n" + replaced("b = 2\n", "b = 20\n") + "```\n")
    editor.go_to_line(5)
    editor.command("Apply: Apply Selection or Code Block to File...", asks=True)
    editor.choose("target.py")
    editor.wait_for_status("1 hunk")
    editor.command("Apply: Accept All Hunks")
    editor.wait_for_status("ready")
    assert editor.save("target.py") == b"a = 1\nb = 20\n"


def test_a_document_that_was_never_saved(editor: Editor) -> None:
    editor.command("File: New Untitled Text File")
    editor.type("a = 1\nb = 2\n")
    editor.apply(replaced("b = 2\n", "b = 20\n"))
    editor.wait_for_status("1 hunk")
    editor.command("Apply: Accept All Hunks")
    editor.wait_for_status("ready")
    editor.press("Control+a", "Control+c")
    assert editor.page.evaluate("navigator.clipboard.readText()") == "a = 1\nb = 20\n"


def test_the_verdicts_are_shown(editor: Editor) -> None:
    editor.open("verdicts.py", "a = 1\n")
    editor.apply(replaced("a = 1\n", "a = (\n"))
    editor.wait_for_note("The checks found something: ")
    editor.click_button("Show Verdicts")
    page = editor.page.locator(".editor-group-container .view-lines", has_text="decided by:").first
    page.wait_for()
    assert "syntax" in page.inner_text()


def test_the_diff_shows_file_and_proposal(editor: Editor) -> None:
    editor.open("diff.py", "a = 1\nb = 2\n")
    editor.apply(replaced("b = 2\n", "b = 20\n"))
    editor.wait_for_status("1 hunk")
    editor.command("Apply: Open Diff")
    page = editor.page.locator(".monaco-diff-editor .editor.modified").first
    wait_until(lambda: "b = 20" in page.inner_text().replace("\xa0", " "), 60, page.inner_text)
    editor.command("Apply: Accept All Hunks")
    editor.wait_for_status("ready")
    editor.open("diff.py")
    assert editor.save("diff.py") == b"a = 1\nb = 20\n"
