"""The plugin against a real server with the embedded model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from apply_service.api.keys import format_entry, make_key
from apply_service.settings import Settings
from tests.doubles import wait_for
from tests.editor_plugins.nvim.editor import Editor, arguments
from tests.editor_plugins.nvim.real_server import EXAMPLE, real_server

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
