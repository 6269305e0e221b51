"""The commands against a server that replays the contract."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from editor_plugins.contract.cases import EDITS, THREE, THREE_MERGED, THREE_UPDATE, EditCase
from editor_plugins.contract.generate import request_of
from tests.doubles import wait_for
from tests.editor_plugins.nvim.editor import Editor
from tests.editor_plugins.nvim.replay_server import Script, replay_server

CASES = {case.name: case for case in EDITS}


def ask(editor: Editor, url: str, path: Path, **options: object) -> None:
    """The file of three hunks, its snippet in a register, and the question asked."""
    editor.setup(url=url, **options)
    editor.open(path / "sample.py", THREE.encode())
    editor.nvim.funcs.setreg("a", THREE_UPDATE)
    editor.command("ApplySnippet a")


def test_apply_from_the_clipboard(editor: Editor, tmp_path: Path) -> None:
    (tmp_path / "clip").write_text(THREE_UPDATE)
    tool = {"name": "file", "copy": {"+": ["true"], "*": ["true"]}}
    tool["paste"] = {"+": ["cat", str(tmp_path / "clip")], "*": ["false"]}
    editor.nvim.vars["clipboard"] = tool
    script = Script()
    with replay_server(script) as url:
        editor.setup(url=url)
        editor.open(tmp_path / "sample.py", THREE.encode())
        editor.command("ApplySnippet")
        assert "3 of 3 hunks, 80 tok/s" in editor.wait_for_status("hunks")
        assert editor.text() == THREE.encode(), "nothing is changed before it is accepted"
        editor.command("ApplyAccept!")
    assert editor.text() == THREE_MERGED.encode()
    assert editor.status() == ""
    assert editor.marks() == []
    request = script.requests[0]
    assert (request["original"], request["update"], request["path"]) == (THREE, THREE_UPDATE, "sample.py")


def test_the_request_is_the_contracts(editor: Editor, tmp_path: Path) -> None:
    script = Script()
    with replay_server(script) as url:
        ask(editor, url, tmp_path)
        editor.wait_for_status("hunks")
    assert script.requests == [{**request_of(CASES["three_hunks"]), "stream": True, "timeout_s": 120}]


@pytest.mark.parametrize(
    "case", [case for case in EDITS if case.name not in ("no_change", "line_end_changed")], ids=lambda case: case.name
)
@pytest.mark.parametrize("stream", [True, False])
def test_every_case_and_back(editor: Editor, tmp_path: Path, case: EditCase, stream: bool) -> None:
    script = Script(case.name)
    with replay_server(script) as url:
        editor.setup(url=url, stream=stream)
        editor.open(tmp_path / "sample.py", case.original.encode())
        editor.nvim.funcs.setreg("a", case.update or "nothing")
        editor.command("ApplySnippet a")
        editor.wait_for_status("hunks")
        assert script.requests[0]["original"] == case.original
        editor.command("ApplyAccept!")
    assert editor.text() == case.merged.encode()
    editor.command("silent undo")
    assert editor.text() == case.original.encode()
    editor.command("silent redo")
    assert editor.text() == case.merged.encode()


def test_a_result_that_the_file_format_cannot_hold(editor: Editor, tmp_path: Path) -> None:
    case = CASES["line_end_changed"]
    with replay_server(Script(case.name)) as url:
        editor.setup(url=url)
        editor.open(tmp_path / "sample.py", case.original.encode())
        editor.nvim.funcs.setreg("a", case.update)
        editor.command("ApplySnippet a")
        editor.wait_for_status("hunks")
        editor.command("ApplyAccept!")
        editor.wait_for_note("fileformat=dos cannot hold")
        assert editor.text() == case.original.encode()
        assert not editor.nvim.current.buffer.options["modified"]
        editor.command("edit ++ff=unix")
        editor.command("ApplySnippet a")
        editor.wait_for_status("hunks")
        editor.command("ApplyAccept!")
    assert editor.text() == case.merged.encode()


def test_an_edit_that_changes_nothing(editor: Editor, tmp_path: Path) -> None:
    with replay_server(Script("no_change")) as url:
        editor.setup(url=url)
        editor.open(tmp_path / "sample.py", b"a = 1\n")
        editor.nvim.funcs.setreg("a", "a = 1\n")
        editor.command("ApplySnippet a")
        editor.wait_for_note("changes nothing")
    assert editor.text() == b"a = 1\n"
    assert editor.status() == ""


def test_accept_one_hunk_and_reject_another_in_one_undo_step(editor: Editor, tmp_path: Path) -> None:
    with replay_server(Script()) as url:
        ask(editor, url, tmp_path, verdicts="never")
        editor.wait_for_status("3 of 3")
    editor.command("normal! 5G")
    editor.command("ApplyReject")
    assert "2 of 3" in editor.status()
    editor.command("normal! 1G")
    editor.command("ApplyAccept")
    assert "1 of 3" in editor.status()
    assert editor.text().startswith(b"import os\nimport sys\n")
    editor.command("ApplyAccept!")
    wanted = THREE_MERGED.replace("return 10", "return 1")
    assert editor.text() == wanted.encode()
    assert editor.status() == ""
    editor.command("silent undo")
    assert editor.text() == THREE.encode()


def test_undo_between_two_accepts_opens_the_first_again(editor: Editor, tmp_path: Path) -> None:
    with replay_server(Script()) as url:
        ask(editor, url, tmp_path, verdicts="never")
        editor.wait_for_status("3 of 3")
    editor.command("ApplyAccept")
    editor.command("silent undo")
    editor.command("ApplyAccept!")
    assert editor.text() == THREE_MERGED.encode()


def test_earlier_changes_are_steps_of_their_own(editor: Editor, tmp_path: Path) -> None:
    with replay_server(Script()) as url:
        editor.setup(url=url)
        editor.open(tmp_path / "sample.py", b"gone\n" + THREE.encode())
        editor.command("1delete")
        editor.nvim.funcs.setreg("a", THREE_UPDATE)
        editor.command("ApplySnippet a")
        editor.wait_for_status("hunks")
        editor.command("ApplyAccept!")
    editor.command("silent undo")
    assert editor.text() == THREE.encode()


def test_motions_go_round_the_hunks(editor: Editor, tmp_path: Path) -> None:
    with replay_server(Script()) as url:
        ask(editor, url, tmp_path, keymaps={"next_hunk": "]x"})
        editor.wait_for_status("hunks")
    rows = []
    for keys in ("]x", "]x", "]x", "]x", "[h"):
        editor.nvim.feedkeys(keys, "xt")
        rows.append(editor.nvim.current.window.cursor[0])
    assert rows == [5, 13, 2, 5, 2], "the cursor stood at the first hunk"
    editor.command("ApplyReject!")
    assert editor.nvim.funcs.maparg("]x", "n") == ""


def test_an_answer_is_announced_and_the_cursor_stands_at_its_first_hunk(editor: Editor, tmp_path: Path) -> None:
    script = Script(gate=threading.Event())
    assert script.gate is not None
    with replay_server(script) as url:
        ask(editor, url, tmp_path)
        editor.command("normal! G")
        script.gate.set()
        editor.wait_for_note("3 hunks (:ApplyAccept takes the one under the cursor")
        assert editor.nvim.current.window.cursor == (2, 0)
        assert editor.nvim.funcs.getpos("''")[1] == THREE.count("\n"), "`` goes back"
        editor.command("ApplyReject!")
        script.gate.clear()
        editor.command("ApplySnippet a")
        editor.command("enew")
        script.gate.set()
        assert wait_for(lambda: sum("3 hunks" in note for note in editor.notes()) == 2, 20), editor.notes()
    assert editor.nvim.current.window.cursor == (1, 0), "another buffer is shown by now"


def test_keys_that_a_buffer_had_come_back(editor: Editor, tmp_path: Path) -> None:
    with replay_server(Script()) as url:
        editor.open(tmp_path / "sample.py", THREE.encode())
        editor.command("nnoremap <buffer> ]h :echo 1<CR>")
        ask(editor, url, tmp_path)
        editor.wait_for_status("hunks")
        assert "motions" in editor.nvim.funcs.maparg("]h", "n")
        editor.command("ApplyReject!")
    assert editor.nvim.funcs.maparg("]h", "n") == ":echo 1<CR>"


def test_provisional_text_shows_in_the_statusline_only(editor: Editor, tmp_path: Path) -> None:
    script = Script(gate=threading.Event())
    with replay_server(script) as url:
        ask(editor, url, tmp_path)
        assert "tok/s" in editor.wait_for_status("provisional")
        assert editor.text() == THREE.encode()
        assert editor.marks() == []
        assert script.gate is not None
        script.gate.set()
        editor.wait_for_status("3 of 3")


def test_cancel_ends_the_request_at_the_server(editor: Editor, tmp_path: Path) -> None:
    script = Script(gate=threading.Event())
    with replay_server(script) as url:
        ask(editor, url, tmp_path)
        editor.wait_for_status("provisional")
        editor.command("ApplySnippet a")
        editor.wait_for_note("under way")
        editor.command("ApplyCancel")
        editor.wait_for_note("[cancelled]")
        assert script.client_left.wait(10)
    assert editor.text() == THREE.encode()
    assert len(script.requests) == 1


MERGED_NOTE = "the buffer was changed since the request, and the edit was merged with the change: "
CARRIED = {"carried_over": "crlf", "carried_text": "three_hunks"}
WHEN = ("before the answer", "before accepting")


def type_over(editor: Editor, script: Script, when: str, command: str) -> None:
    """Change the buffer before the answer to the first request comes, or before it is accepted."""
    assert script.gate is not None
    assert script.sent_tokens.wait(20)
    if when == "before the answer":
        editor.command(command)
        script.gate.set()
    else:
        script.gate.set()
        editor.wait_for_status("hunks")
        editor.command(command)
        editor.command("ApplyAccept!")


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("name", CARRIED)
@pytest.mark.parametrize("stream", [True, False])
def test_a_change_of_the_buffer_is_merged(editor: Editor, tmp_path: Path, name: str, when: str, stream: bool) -> None:
    """The same edit is asked for with its base; what a model wrote goes as an edit of its own."""
    first, case = CASES[CARRIED[name]], CASES[name]
    script = Script(name, first=(first.name,), gate=threading.Event())
    typed = "call append(line('$'), 'd = 4')" if name == "carried_over" else "%s/return 2$/return 2  # typed/"
    with replay_server(script) as url:
        editor.setup(url=url, stream=stream, verdicts="never")
        editor.open(tmp_path / "sample.py", first.original.encode())
        editor.nvim.funcs.setreg("a", first.update)
        editor.command("ApplySnippet a")
        type_over(editor, script, when, typed)
        editor.wait_for_note(MERGED_NOTE)
        assert editor.text() == case.original.encode(), "it is only shown"
        assert editor.marks()
        editor.command("ApplyAccept!")
    assert editor.text() == case.merged.encode()
    editor.command("silent undo")
    assert editor.text() == case.original.encode(), "what was typed is a step of its own"
    wanted = request_of(case) | {"timeout_s": 120} | ({"stream": True} if stream else {})
    seen = script.requests[1]
    if case.format == "json_edit":
        seen["update"], wanted["update"] = json.loads(seen["update"]), json.loads(wanted["update"])
    assert script.requests[1:] == [wanted]


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("stream", [True, False])
def test_a_conflict_is_told_with_its_lines_and_waits(editor: Editor, tmp_path: Path, when: str, stream: bool) -> None:
    script = Script("edit_conflict", first=("three_hunks",), gate=threading.Event())
    with replay_server(script) as url:
        ask(editor, url, tmp_path, stream=stream, verdicts="never")
        type_over(editor, script, when, "call setline(5, '    return 11') | call deletebufline('%', 13)")
        note = editor.wait_for_note("[edit_conflict]")
        assert "Line 5: the buffer has `return 11`, the edit has `return 10`." in note
        assert "Line 13: the buffer has nothing, the edit has `# checked return 30`." in note
        assert "failed (edit_conflict)" in editor.status()
        typed = THREE.replace("return 1", "return 11").replace("    return 3\n", "")
        assert editor.text() == typed.encode()
        assert script.requests[1]["original"] == typed
        assert len(script.requests) == 2
        editor.command("silent undo")
        editor.command("ApplyAccept!")
    assert editor.text() == THREE_MERGED.encode(), "the change was taken back, so the proposal fits again"
    assert len(script.requests) == 2


def test_a_proposal_that_conflicts_can_be_dropped(editor: Editor, tmp_path: Path) -> None:
    script = Script("edit_conflict", first=("three_hunks",), gate=threading.Event())
    with replay_server(script) as url:
        ask(editor, url, tmp_path)
        type_over(editor, script, "before the answer", "call setline(5, '    return 11')")
        editor.wait_for_note("[edit_conflict]")
        assert editor.marks() == [], "nothing is drawn where it does not fit"
        editor.command("ApplyReject!")
    assert editor.status() == ""
    assert editor.text() == THREE.replace("return 1", "return 11").encode()


def test_what_is_merged_is_accepted_by_itself_only_where_both_answers_are_clean(editor: Editor, tmp_path: Path) -> None:
    first, case = CASES["three_hunks"], CASES["carried_text"]
    script = Script(case.name, first=(first.name,), gate=threading.Event())
    with replay_server(script) as url:
        ask(editor, url, tmp_path, auto_accept="clean", verdicts="never")
        type_over(editor, script, "before the answer", "%s/return 2$/return 2  # typed/")
        editor.wait_for_note(MERGED_NOTE)
    assert editor.text() == case.original.encode()


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ("stale_base", "stale_base"),
        ("needs_more_context", "Show the lines around the edit. [needs_more_context]"),
        ("overloaded", "overloaded"),
        ("failing_stream", "engine_failure"),
        ("cut_off", "was cut off"),
        ("crlf", "hashes do not match"),
    ],
)
def test_errors_are_told_and_change_nothing(editor: Editor, tmp_path: Path, case: str, code: str) -> None:
    with replay_server(Script(case)) as url:
        ask(editor, url, tmp_path)
        editor.wait_for_note(code)
    assert "failed" in editor.status()
    assert editor.text() == THREE.encode()


def test_the_server_is_down(editor: Editor, tmp_path: Path) -> None:
    with replay_server(Script()) as url:
        pass
    ask(editor, url, tmp_path)
    editor.wait_for_note("Start it with `apply-service serve`, or set `url`. [unreachable]")


def test_keys_from_a_function_and_from_the_environment(editor: Editor, tmp_path: Path) -> None:
    with replay_server(Script(key="right")) as url:
        ask(editor, url, tmp_path)
        editor.wait_for_note("[unauthorized]")
        editor.lua("vim.env.APPLY_SERVICE_API_KEY = 'right'")
        editor.command("ApplySnippet a")
        editor.wait_for_status("hunks")
        editor.lua("require('apply_service').setup({ url = ..., api_key = function() return 'wrong' end })", url)
        editor.lua("_G.notes = {}")
        editor.command("ApplySnippet a")
        editor.wait_for_note("[unauthorized]")


def test_an_editor_without_vim_system(editor: Editor, tmp_path: Path) -> None:
    editor.lua("vim.system = nil")
    with replay_server(Script("astral", key="k")) as url:
        case = CASES["astral"]
        editor.lua("vim.env.APPLY_SERVICE_API_KEY = 'k'")
        editor.setup(url=url)
        editor.open(tmp_path / "sample.py", case.original.encode())
        editor.nvim.funcs.setreg("a", case.update)
        editor.command("ApplySnippet a")
        editor.wait_for_status("hunks")
        editor.command("ApplyAccept!")
    assert editor.text() == case.merged.encode()


def test_range_and_block_go_to_the_alternate_or_named_file(editor: Editor, tmp_path: Path) -> None:
    chat = f"Do this:\n```python\n{THREE_UPDATE}```\n"
    script = Script()
    with replay_server(script) as url:
        editor.setup(url=url)
        editor.open(tmp_path / "sample.py", THREE.encode())
        editor.open(tmp_path / "chat.md", chat.encode())
        n_lines = THREE_UPDATE.count("\n")
        editor.command(f"3,{2 + n_lines}ApplySnippet")
        editor.wait_for_status("hunks")
        assert editor.nvim.funcs.expand("%:t") == "sample.py"
        editor.command("ApplyReject!")
        editor.command(f"edit {tmp_path / 'chat.md'}")
        editor.command("normal! 4G")
        editor.command(f"ApplySnippet block {tmp_path / 'sample.py'}")
        editor.wait_for_status("hunks")
    assert [request["update"] for request in script.requests] == [THREE_UPDATE, THREE_UPDATE]


def test_instructions(editor: Editor, tmp_path: Path) -> None:
    script = Script()
    with replay_server(script) as url:
        ask(editor, url, tmp_path, register="a")
        editor.wait_for_status("hunks")
        editor.command("ApplyInstruct make it ten")
        editor.wait_for_status("hunks")
        editor.command("ApplyInstruct! make it ten")
        editor.wait_for_status("hunks")
    seen = [(request.get("instruction"), request.get("update")) for request in script.requests[1:]]
    assert seen == [("make it ten", None), ("make it ten", THREE_UPDATE)]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("set readonly", "read-only"),
        ("set nomodifiable", "not modifiable"),
        ('call setline(1, "a\\xff")', "not UTF-8"),
        ("enew | call setreg('a', '') | ApplySnippet a", "is empty"),
        ("help | ", "help buffer"),
    ],
)
def test_buffers_that_are_refused(editor: Editor, tmp_path: Path, command: str, words: str) -> None:
    editor.setup(url="http://127.0.0.1:1")
    editor.open(tmp_path / "sample.py", THREE.encode())
    editor.nvim.funcs.setreg("a", "x\n")
    editor.command(command)
    editor.command("ApplySnippet a")
    editor.wait_for_note(words)


def test_an_unnamed_buffer(editor: Editor) -> None:
    script = Script()
    with replay_server(script) as url:
        editor.setup(url=url)
        editor.nvim.current.buffer[:] = THREE.split("\n")[:-1]
        editor.command("set filetype=python")
        editor.nvim.funcs.setreg("a", THREE_UPDATE)
        editor.command("ApplySnippet a")
        editor.wait_for_status("hunks")
        editor.command("ApplyAccept!")
    assert editor.text() == THREE_MERGED.encode()
    assert "path" not in script.requests[0]
    assert script.requests[0]["language"] == "python"


def test_the_diff_opens_in_a_tab(editor: Editor, tmp_path: Path) -> None:
    with replay_server(Script()) as url:
        ask(editor, url, tmp_path)
        editor.wait_for_status("hunks")
    editor.command("ApplyDiff")
    windows: list[Any] = list(editor.nvim.current.tabpage.windows)
    assert [window.options["diff"] for window in windows] == [True, True]
    assert [list(window.buffer) for window in windows] == [THREE.split("\n")[:-1], THREE_MERGED.split("\n")[:-1]]


@pytest.mark.parametrize(
    ("rule", "case", "is_applied"),
    [("clean", "astral", True), ("clean", "three_hunks", False), ("always", "three_hunks", True)],
)
def test_what_is_accepted_by_itself(editor: Editor, tmp_path: Path, rule: str, case: str, is_applied: bool) -> None:
    found = CASES[case]
    with replay_server(Script(case)) as url:
        editor.setup(url=url, auto_accept=rule, verdicts="never")
        editor.open(tmp_path / "sample.py", found.original.encode())
        editor.nvim.funcs.setreg("a", found.update)
        tick = editor.nvim.current.buffer.api.get_changedtick()
        editor.command("ApplySnippet a")
        if is_applied:
            assert wait_for(lambda: editor.nvim.current.buffer.api.get_changedtick() != tick, 20)
        else:
            editor.wait_for_status("hunks")
    assert editor.text() == (found.merged if is_applied else found.original).encode()
