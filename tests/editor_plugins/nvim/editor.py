"""Neovim as a child, with the plugin loaded and nothing else."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import wait_for

PLUGIN = Path(__file__).parents[3] / "editor_plugins" / "nvim"
SCRIPTS = str(Path(sys.executable).parent)
NVIM = shutil.which("nvim", path=os.pathsep.join((SCRIPTS, os.environ.get("PATH", ""))))
CURL = shutil.which("curl")

START = """
_G.notes = {}
vim.notify = function(text, level) table.insert(_G.notes, { text, level or 2 }) end
vim.cmd("runtime plugin/apply_service.lua")
"""


def arguments(*more: str) -> list[str]:
    """The command line; skips where there is no Neovim or curl."""
    if NVIM is None:
        pytest.skip("nvim is not installed: make test-plugins")
    if CURL is None:
        pytest.skip("curl is not installed")
    return [NVIM, "-u", "NONE", "-i", "NONE", "-n", "--cmd", f"set runtimepath^={PLUGIN}", *more]


class Editor:
    """What the tests ask of Neovim."""

    def __init__(self, nvim: Any) -> None:
        self.nvim = nvim
        self.styles: dict[int, dict[str, Any]] = {}
        """Highlights that were told to a screen so far."""

    def lua(self, code: str, *values: object) -> Any:
        return self.nvim.exec_lua(code, *values)

    def setup(self, **options: object) -> None:
        self.lua("require('apply_service').setup(...)", options)

    def command(self, text: str) -> None:
        self.nvim.command(text)

    def open(self, path: Path, data: bytes) -> None:
        path.write_bytes(data)
        self.command(f"edit {path}")

    def text(self) -> bytes:
        """The buffer as the file it would be written to, by Neovim's own means."""
        return bytes(
            self.lua(
                """local path = vim.fn.tempname()
                vim.cmd("silent noautocmd keepalt write ++p " .. path)
                local file = assert(io.open(path, "rb"))
                local data = file:read("*a")
                file:close()
                local bytes = {}
                for i = 1, #data do bytes[i] = data:byte(i) end
                return bytes"""
            )
        )

    def status(self) -> str:
        return str(self.lua("return require('apply_service').statusline()"))

    def notes(self) -> list[str]:
        return [text for text, _ in self.lua("return _G.notes")]

    def wait_for_status(self, part: str) -> str:
        assert wait_for(lambda: part in self.status(), 60), (self.status(), self.notes())
        return self.status()

    def wait_for_note(self, part: str) -> str:
        assert wait_for(lambda: any(part in note for note in self.notes()), 60), (self.status(), self.notes())
        return next(note for note in self.notes() if part in note)

    def marks(self) -> list[Any]:
        """Extmarks of the preview with their details."""
        found: list[Any] = self.lua(
            """local ns = vim.api.nvim_get_namespaces()["apply-service"]
            return ns and vim.api.nvim_buf_get_extmarks(0, ns, 0, -1, { details = true }) or {}"""
        )
        return found


@contextlib.contextmanager
def open_editor(*more: str, ui: tuple[int, int] | None = None) -> Iterator[Editor]:
    """A child that ends with the block; `ui` attaches a screen of that size."""
    argv = arguments("--embed", *(() if ui else ("--headless",)), *more)
    pynvim = pytest.importorskip("pynvim")
    nvim = pynvim.attach("child", argv=argv)
    try:
        if ui:
            nvim.ui_attach(*ui, rgb=True, ext_linegrid=True)
        nvim.exec_lua(START)
        nvim.command("set nofixendofline")
        yield Editor(nvim)
    finally:
        with contextlib.suppress(OSError, EOFError):
            nvim.command("qall!")
        nvim.close()
