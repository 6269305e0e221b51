"""The plugin against a real server with the embedded model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from apply_service.api.keys import format_entry, make_key
from apply_service.settings import Settings
from tests.doubles import wait_for
from tests.editor_plugins.nvim.editor import Editor, arguments, open_editor
from tests.editor_plugins.nvim.real_server import EXAMPLE, real_server
from tests.editor_plugins.nvim.screen import read_screen

pytestmark = pytest.mark.slow

ORIGINAL = (EXAMPLE / "cart.py").read_bytes()
MERGED = (EXAMPLE / "merged.py").read_bytes()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    arguments()  # no model is loaded where no editor is
    with real_server() as found:
        yield found


def ask(editor: Editor, url: str, path: Path, data: bytes = ORIGINAL, **options: object) -> None:
    editor.setup(url=url, verdicts="never", **options)
    editor.open(path / "cart.py", data)
    editor.nvim.funcs.setreg("a", (EXAMPLE / "update.txt").read_text(encoding="utf-8"))
    editor.command("ApplySnippet a")


def test_the_shipped_example_is_applied_and_undone(editor: Editor, url: str, tmp_path: Path) -> None:
    ask(editor, url, tmp_path, strategy="model")
    seen = []
    assert wait_for(lambda: seen.append(editor.status()) or "hunks" in seen[-1] or "failed" in seen[-1], 60)  # type: ignore[func-returns-value]
    assert "tok/s" in seen[-1], (seen[-1], editor.notes())
    assert any("provisional" in status for status in seen)
    assert editor.text() == ORIGINAL
    editor.command("ApplyAccept!")
    assert editor.text() == MERGED
    editor.command("silent undo")
    assert editor.text() == ORIGINAL


def test_one_hunk_of_the_shipped_example(editor: Editor, url: str, tmp_path: Path) -> None:
    ask(editor, url, tmp_path, data=ORIGINAL.replace(b"\n", b"\r\n"))
    status = editor.wait_for_status("hunks")
    n_hunks = int(status.split(" of ")[1].split()[0])
    assert n_hunks > 1
    editor.nvim.feedkeys("]h", "xt")
    editor.command("ApplyReject")
    assert f"{n_hunks - 1} of {n_hunks}" in editor.status()
    editor.command("ApplyAccept!")
    result = editor.text()
    assert result not in (ORIGINAL.replace(b"\n", b"\r\n"), MERGED.replace(b"\n", b"\r\n"))
    assert result.count(b"\r\n") == result.count(b"\n")


BODY = "    x = 1\n    y = 2\n    z = 3\n"
THREE_PLACES = "".join(f"def {name}():\n{BODY}\n\n" for name in "abc")
ANY_PLACE = "# ... existing code ...\n" + BODY.replace("2", "20") + "# ... existing code ...\n"
WIDTH, HEIGHT = 90, 30


def edited_in(name: str) -> bytes:
    """The file of three places with the edit made in the function `name`."""
    head = f"def {name}():\n"
    return THREE_PLACES.replace(head + BODY, head + BODY.replace("2", "20")).encode()


def ask_in_doubt(editor: Editor, url: str, path: Path, **options: object) -> None:
    editor.setup(url=url, verdicts="never", **options)
    editor.open(path / "places.py", THREE_PLACES.encode())
    editor.nvim.funcs.setreg("a", ANY_PLACE)
    editor.command("ApplySnippet a")
    editor.wait_for_status("1 of 1 hunks, exact, reading 1 of")


def test_an_edit_in_doubt_ends_right_after_one_answer(url: str, tmp_path: Path) -> None:
    with open_editor(ui=(WIDTH, HEIGHT)) as editor:
        ask_in_doubt(editor, url, tmp_path)
        lines = read_screen(editor, WIDTH, HEIGHT).lines
        assert lines[2].startswith("reading 1 of 4 (]r next, [r previous)")
        assert lines[3:5] == [
            "Did you mean to keep line 3 (`y = 2`) and remove line 9 (`y = 2`)?",
            "    y = 2  hunk 1/1 27%",
        ]
        editor.nvim.feedkeys("]r", "xt")
        editor.wait_for_status("reading 2 of")
        lines = read_screen(editor, WIDTH, HEIGHT).lines
        assert lines[8].startswith("reading 2 of 4")
        assert lines[9:12] == [
            "keep line 3 (`y = 2`) and remove line 9 (`y = 2`)",
            "    y = 2  hunk 1/1",
            "    y = 20",
        ]
        assert editor.text() == THREE_PLACES.encode()
        editor.nvim.feedkeys("g2", "xt")
        assert editor.text() == edited_in("b")
        assert editor.marks() == []


def test_readings_go_round_and_the_likeliest_comes_back(editor: Editor, url: str, tmp_path: Path) -> None:
    ask_in_doubt(editor, url, tmp_path)
    editor.command("ApplyReading!")
    editor.wait_for_status("reading 4 of 4")
    editor.command("ApplyReading")
    editor.wait_for_status("reading 1 of 4")
    editor.command("ApplyReading")
    editor.wait_for_status("reading 2 of 4")
    editor.command("ApplyReading!")
    editor.wait_for_status("reading 1 of 4")
    editor.command("ApplyAccept")
    assert editor.text() == edited_in("a")


def test_an_edit_that_the_program_refuses_is_a_question_too(editor: Editor, url: str, tmp_path: Path) -> None:
    ask_in_doubt(editor, url, tmp_path, strategy="exact", auto_accept="clean")
    told = [text for mark in editor.marks() for line in mark[3].get("virt_lines", []) for text, _ in line]
    assert "Did you mean to replace line 3 (`y = 2`) by `y = 20`?" in told
    assert editor.text() == THREE_PLACES.encode()
    editor.command("ApplyReading")
    editor.wait_for_status("reading 2 of 4")
    editor.command("ApplyReading!")
    editor.wait_for_status("reading 1 of 4")
    editor.command("ApplyAccept!")
    assert editor.text() == edited_in("a")


def test_a_reading_that_is_not_there_leaves_the_one_that_is_shown(editor: Editor, url: str, tmp_path: Path) -> None:
    ask_in_doubt(editor, url, tmp_path)
    editor.lua(
        """local buffer = vim.api.nvim_get_current_buf()
        require("apply_service.proposals").readings(buffer).all[2].id = ("f"):rep(12)"""
    )
    editor.command("ApplyReading")
    editor.wait_for_note("[unknown_reading]")
    editor.wait_for_status("reading 1 of 4")
    editor.command("ApplyAccept!")
    assert editor.text() == edited_in("a")


@pytest.mark.parametrize("field", ["id", "difference"])
def test_an_older_service_that_gives_no_ids_is_not_asked_for_readings(editor: Editor, field: str) -> None:
    found = editor.lua(
        """local answer = { reading = "a", verdicts = { { check = "doubt", severity = "warning" } },
                           readings = { { id = "b", difference = "keep line 3" } } }
        local readings = require("apply_service.readings")
        local before = readings.of({}, answer) ~= nil
        answer.readings[1][...] = nil
        return { before, readings.of({}, answer) == nil }""",
        field,
    )
    assert found == [True, True]
    editor.command("ApplyReading")
    editor.wait_for_note("no other reading")


SMALL = "a = 1\nb = 2\nc = 3\nd = 4\ne = 5\nf = 6\ng = 7\n"
TWO_BLOCKS = "".join(
    f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"
    for old, new in (("b = 2", "b = 20"), ("f = 6", "f = 60"))
)
TYPE_AT_EACH_REQUEST = """local client, n = require("apply_service.client"), 0
local apply = client.apply
client.apply = function(...)
  local stop = apply(...)
  n = n + 1
  if n <= ... then vim.api.nvim_buf_set_lines(0, -1, -1, false, { "typed_" .. n .. " = 1" }) end
  return stop
end"""


def ask_small(editor: Editor, url: str, path: Path, **options: object) -> None:
    editor.setup(url=url, verdicts="never", **options)
    editor.open(path / "small.py", SMALL.encode())
    editor.nvim.funcs.setreg("a", TWO_BLOCKS)
    editor.command("ApplySnippet a")


def type_at_requests(editor: Editor, n: int) -> None:
    """A line is typed while each of the first `n` requests is under way."""
    editor.lua(TYPE_AT_EACH_REQUEST.replace("<= ...", f"<= {n}"))


@pytest.mark.parametrize("stream", [True, False])
def test_what_is_typed_while_the_service_works_is_merged(
    editor: Editor, url: str, tmp_path: Path, stream: bool
) -> None:
    type_at_requests(editor, 2)
    ask_small(editor, url, tmp_path, stream=stream)
    editor.wait_for_note("merged with the change: 2 hunks")
    typed = SMALL + "typed_1 = 1\ntyped_2 = 1\n"
    assert editor.text() == typed.encode()
    editor.command("ApplyAccept!")
    assert editor.text() == typed.replace("b = 2", "b = 20").replace("f = 6", "f = 60").encode()


def test_a_buffer_that_never_rests_is_told_so(editor: Editor, url: str, tmp_path: Path) -> None:
    type_at_requests(editor, 4)
    ask_small(editor, url, tmp_path)
    editor.wait_for_note("The buffer was changed again while the service worked; nothing was changed by it.")
    typed = SMALL + "".join(f"typed_{n} = 1\n" for n in range(1, 5))
    assert editor.text() == typed.encode(), "asked four times"
    editor.command("ApplyAccept!")
    editor.wait_for_note("merged with the change: 2 hunks")
    editor.command("ApplyAccept!")
    assert editor.text() == typed.replace("b = 2", "b = 20").replace("f = 6", "f = 60").encode()


def test_what_is_decided_stays_decided_where_the_rest_is_merged(editor: Editor, url: str, tmp_path: Path) -> None:
    ask_small(editor, url, tmp_path)
    editor.wait_for_status("2 of 2")
    editor.command("normal! 2G")
    editor.command("ApplyAccept")
    editor.command("call setline(2, 'b = 21')")  # the accepted line itself
    editor.command("normal! 6G")
    editor.command("ApplyAccept")
    editor.wait_for_note("merged with the change: 1 hunk")
    assert "1 of 1 hunks" in editor.status()
    editor.command("ApplyAccept!")
    assert editor.text() == SMALL.replace("b = 2", "b = 21").replace("f = 6", "f = 60").encode()


def test_a_rejected_hunk_does_not_come_back(editor: Editor, url: str, tmp_path: Path) -> None:
    ask_small(editor, url, tmp_path)
    editor.wait_for_status("2 of 2")
    editor.command("normal! 2G")
    editor.command("ApplyReject")
    editor.command("call setline(1, 'a = 11')")
    editor.command("ApplyAccept!")
    editor.wait_for_note("merged with the change: 1 hunk")
    editor.command("ApplyAccept!")
    assert editor.text() == SMALL.replace("a = 1", "a = 11").replace("f = 6", "f = 60").encode()


def test_a_conflict_is_told_and_nothing_is_changed(editor: Editor, url: str, tmp_path: Path) -> None:
    ask_small(editor, url, tmp_path)
    editor.wait_for_status("2 of 2")
    editor.command("call setline(2, 'b = 3')")
    editor.command("ApplyAccept!")
    note = editor.wait_for_note("[edit_conflict]")
    assert "Line 2: the buffer has `b = 3`, the edit has `b = 20`." in note
    assert editor.text() == SMALL.replace("b = 2", "b = 3").encode()


def test_what_the_model_wrote_is_merged_with_what_is_typed(editor: Editor, url: str, tmp_path: Path) -> None:
    ask(editor, url, tmp_path, strategy="model")
    editor.wait_for_status("hunks")
    editor.command("call append(0, '# typed')")
    editor.command("ApplyAccept!")
    editor.wait_for_note("merged with the change")
    editor.command("ApplyAccept!")
    assert editor.text() == b"# typed\n" + MERGED


def test_readings_are_stepped_through_after_a_change(editor: Editor, url: str, tmp_path: Path) -> None:
    ask_in_doubt(editor, url, tmp_path)
    editor.command("call append(0, 'import q')")
    editor.command("ApplyReading")
    editor.wait_for_note("merged with the change: 1 hunk of reading 1 of 4")
    editor.command("ApplyReading")
    editor.wait_for_status("reading 2 of 4")
    editor.command("ApplyAccept!")
    assert editor.text() == b"import q\n" + edited_in("b")


def test_another_base_is_refused_by_the_server(editor: Editor, url: str, tmp_path: Path) -> None:
    """The plugin's own hash is spoilt: what the server then says must come through."""
    editor.lua("local sha = vim.fn.sha256; vim.fn.sha256 = function(text) return sha(text .. 'x') end")
    ask(editor, url, tmp_path)
    editor.wait_for_note("[stale_base]")
    assert editor.text() == ORIGINAL


def test_cancelled_while_it_decodes(editor: Editor, url: str, tmp_path: Path) -> None:
    ask(editor, url, tmp_path, strategy="model", drafter="none")
    editor.wait_for_status("provisional")
    editor.command("ApplyCancel")
    editor.wait_for_note("[cancelled]")
    assert editor.text() == ORIGINAL


def test_a_wrong_key(editor: Editor, tmp_path: Path) -> None:
    keys, secret = tmp_path / "keys.toml", make_key()
    keys.write_text(format_entry("editor", secret))
    with real_server(Settings(keys_file=str(keys), drain_timeout_s=0)) as guarded:
        ask(editor, guarded, tmp_path)
        editor.wait_for_note("[unauthorized]")
        editor.lua("vim.env.APPLY_SERVICE_API_KEY = ...", secret)
        editor.command("ApplySnippet a")
        editor.wait_for_status("hunks")


def test_health_names_the_model(editor: Editor, url: str) -> None:
    editor.setup(url=url)
    editor.command("checkhealth apply-service")
    page = "\n".join(editor.nvim.current.buffer[:])
    assert f"the service at {url} takes requests (model embedded)" in page
    assert "ERROR" not in page
