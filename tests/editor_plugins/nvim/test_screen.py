"""What the user sees: the drawn screen, cell by cell."""

import threading
from pathlib import Path

from tests.editor_plugins.nvim.editor import Editor, open_editor
from tests.editor_plugins.nvim.replay_server import Script, replay_server
from tests.editor_plugins.nvim.screen import read_screen
from tests.editor_plugins.nvim.test_apply import ask

WIDTH, HEIGHT = 90, 30
COLOURS = {"ApplyServiceUpdate": 0x00AA00, "ApplyServiceModel": 0x0000AA, "ApplyServiceDelete": 0xAA0000}


def prepare(editor: Editor) -> None:
    editor.command("set termguicolors laststatus=2")
    editor.command("let &statusline = '%{v:lua.require(\"apply_service\").statusline()}'")
    for group, colour in COLOURS.items():
        editor.command(f"highlight {group} guibg=#{colour:06x} guifg=#ffffff")


def test_the_preview_is_drawn_by_origin(tmp_path: Path) -> None:
    script = Script(gate=threading.Event())
    assert script.gate is not None
    with open_editor(ui=(WIDTH, HEIGHT)) as editor, replay_server(script) as url:
        prepare(editor)
        ask(editor, url, tmp_path)
        editor.wait_for_status("provisional")
        waiting = read_screen(editor, WIDTH, HEIGHT)
        assert waiting.lines[:3] == ["import os", "", ""]
        assert waiting.lines[-2].startswith("apply: provisional ~")
        script.gate.set()
        editor.wait_for_status("hunks")
        screen = read_screen(editor, WIDTH, HEIGHT)
    lines = screen.lines
    assert lines[:2] == ["import os", "import sys hunk 1/3 99%"]
    row_of = {text.split("  hunk")[0].split(" hunk")[0].rstrip(): row for row, text in enumerate(lines)}
    backgrounds = {
        "import sys": "ApplyServiceUpdate",
        "    return 1": "ApplyServiceDelete",
        "    return 10": "ApplyServiceUpdate",
        "    return 3": "ApplyServiceDelete",
    }
    for text, group in backgrounds.items():
        assert screen.style_at(row_of[text], 5).background == COLOURS[group], text
    of_model = next(row for row, text in enumerate(lines) if text.startswith("    # checked"))
    assert screen.style_at(of_model, 5).background == COLOURS["ApplyServiceModel"]
    assert any("warning syntax: line 2 is odd" in line for line in lines), "the floating window of the verdicts"
    assert any("confidence: 50.0%" in line for line in lines)
    assert lines[-2] == "apply: 3 of 3 hunks, 80 tok/s"


FIRST_LINE_ADDED = """local answer = {
  merged_code = "a = 1\\nb = 2\\nc = 3\\n", verdicts = { { check = "doubt", severity = "warning" } }, reasons = {},
  spans = { { start_line = 0, end_line = 1, origin = "model" } }, reading = "a",
  readings = { { id = "b", difference = "leave out `\\ta\\1`" } },
  hunks = { { original_start = 0, original_end = 0, merged_start = 0, merged_end = 1, first_edit = 0, end_edit = 1 } },
  edits = { { range = { start = { line = 0 }, ["end"] = { line = 0 } }, newText = "a = 1\\n",
              utf8_columns = { start = 0, ["end"] = 0 } } },
}
local proposal = require("apply_service.proposal").new("b = 2\\nc = 3\\n", answer)
local readings = ... and require("apply_service.readings").of({}, answer) or nil
local offer = { asked = {}, proposal = proposal, readings = readings }
require("apply_service.proposals").open(vim.api.nvim_get_current_buf(), offer)"""


def test_lines_before_the_first_are_seen(tmp_path: Path) -> None:
    with open_editor(ui=(WIDTH, HEIGHT)) as editor:
        prepare(editor)
        editor.open(tmp_path / "a.py", b"b = 2\nc = 3\n")
        editor.lua(FIRST_LINE_ADDED, False)
        lines = read_screen(editor, WIDTH, HEIGHT).lines
        assert lines[:3] == ["a = 1 hunk 1/1", "b = 2", "c = 3"]
        editor.command("ApplyAccept")
        assert read_screen(editor, WIDTH, HEIGHT).lines[:3] == ["a = 1", "b = 2", "c = 3"]


def test_the_reading_is_told_above_the_first_hunk_until_it_is_accepted(tmp_path: Path) -> None:
    with open_editor(ui=(WIDTH, HEIGHT)) as editor:
        prepare(editor)
        editor.command("set tabstop=2")
        editor.open(tmp_path / "a.py", b"b = 2\nc = 3\n")
        editor.lua(FIRST_LINE_ADDED, True)
        lines = read_screen(editor, WIDTH, HEIGHT).lines
        told = ["reading 1 of 2 (]r next, [r previous)", "Did you mean to leave out `  a?`?"]
        assert lines[:5] == [*told, "a = 1 hunk 1/1", "b = 2", "c = 3"]
        editor.command("ApplyAccept")
        assert read_screen(editor, WIDTH, HEIGHT).lines[:3] == ["a = 1", "b = 2", "c = 3"]
        assert editor.nvim.funcs.maparg("]r", "n") == ""


def test_a_reading_that_changes_nothing_waits_until_it_is_taken(tmp_path: Path) -> None:
    with open_editor(ui=(WIDTH, HEIGHT)) as editor:
        prepare(editor)
        editor.open(tmp_path / "a.py", b"b = 2\n")
        editor.lua(
            """local failure = { readings = { { id = "a", difference = "change nothing" } } }
            local readings = require("apply_service.readings").of_refusal({}, failure)
            local answer = { merged_code = "b = 2\\n", verdicts = {}, spans = {}, hunks = {}, edits = {} }
            local proposal = require("apply_service.proposal").new("b = 2\\n", answer)
            local offer = { asked = {}, proposal = proposal, readings = readings }
            require("apply_service.proposals").open(vim.api.nvim_get_current_buf(), offer)"""
        )
        lines = read_screen(editor, WIDTH, HEIGHT).lines
        assert lines[:3] == ["reading 1 of 1 (]r next, [r previous)", "Did you mean to change nothing?", "b = 2"]
        editor.command("ApplyAccept")
        assert read_screen(editor, WIDTH, HEIGHT).lines[0] == "b = 2"
        assert editor.notes() == []
