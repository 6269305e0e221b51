"""Draws the picture of the plugin's README from a real run: a server with the embedded model, and the screen as SVG.

python -m tests.editor_plugins.nvim.picture
"""

from __future__ import annotations

import tempfile
from html import escape
from itertools import groupby
from pathlib import Path

from tests.editor_plugins.nvim.editor import PLUGIN, open_editor
from tests.editor_plugins.nvim.real_server import EXAMPLE, real_server
from tests.editor_plugins.nvim.screen import Screen, read_screen

WIDTH, HEIGHT = 108, 40
CELL_WIDTH, CELL_HEIGHT, FONT_SIZE = 8.4, 18, 14
TARGET = PLUGIN / "doc" / "preview.svg"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, real_server() as url, open_editor(ui=(WIDTH, HEIGHT)) as editor:
        editor.setup(url=url, verdicts="never")
        editor.command("set laststatus=2 termguicolors background=dark nomore shortmess+=F")
        editor.command("let &statusline = ' %t   %{v:lua.require(\"apply_service\").statusline()}'")
        editor.command(f"cd {folder}")
        editor.open(Path(folder) / "cart.py", (EXAMPLE / "cart.py").read_bytes())
        editor.command("set filetype=python | syntax on")
        editor.nvim.funcs.setreg("a", (EXAMPLE / "update.txt").read_text(encoding="utf-8"))
        for _ in range(2):  # the first one loads the model
            editor.command("ApplySnippet a")
            editor.wait_for_status("hunks")
        editor.lua("require('apply_service.motions').jump(1)")
        editor.command("set scrolloff=4 | normal! zt")
        editor.command("ApplyVerdicts")
        TARGET.write_text(svg(read_screen(editor, WIDTH, HEIGHT)), encoding="utf-8")


def svg(screen: Screen) -> str:
    """The screen as a picture: a rectangle for each run of background, a text for each run of style."""
    width, height = round(WIDTH * CELL_WIDTH), HEIGHT * CELL_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{FONT_SIZE}">',
        f'<rect width="{width}" height="{height}" fill="{_colour(screen.styles[0].background)}"/>',
    ]
    for number in range(len(screen.rows)):
        parts += _row(screen, number)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _row(screen: Screen, number: int) -> list[str]:
    parts, column = [], 0
    for style, run in groupby(range(len(screen.rows[number])), lambda place: screen.style_at(number, place)):
        cells = list(run)
        text = "".join(screen.rows[number][place][0] for place in cells)
        x, y = round(column * CELL_WIDTH, 1), number * CELL_HEIGHT
        width = round(len(cells) * CELL_WIDTH, 1)
        column += len(cells)
        if style.background != screen.styles[0].background:
            parts.append(
                f'<rect x="{x}" y="{y}" width="{width}" height="{CELL_HEIGHT}" fill="{_colour(style.background)}"/>'
            )
        if text.strip():
            parts.append(
                f'<text x="{x}" y="{y + FONT_SIZE}" textLength="{width}" xml:space="preserve" '
                f'fill="{_colour(style.foreground)}">{escape(text)}</text>'
            )
    return parts


def _colour(number: int) -> str:
    return f"#{number:06x}"


if __name__ == "__main__":
    main()
