"""The screen that Neovim draws: its text and the colours of each cell, read from the events of a user interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.editor_plugins.nvim.editor import Editor


class Style(NamedTuple):
    """Colours as 0xRRGGBB."""

    foreground: int
    background: int


@dataclass(frozen=True)
class Screen:
    """Rows of cells: text, and the number of its highlight in `styles`."""

    rows: tuple[tuple[tuple[str, int], ...], ...]
    styles: dict[int, Style]

    @property
    def lines(self) -> list[str]:
        return ["".join(text for text, _ in row).rstrip() for row in self.rows]

    def style_at(self, row: int, column: int) -> Style:
        return self.styles.get(self.rows[row][column][1], self.styles[0])


def read_screen(editor: Editor, width: int, height: int) -> Screen:
    """What is drawn now, everything anew."""
    nvim = editor.nvim
    nvim.command("mode")
    nvim.exec_lua("vim.schedule(function() vim.rpcnotify(0, 'drawn') end)")
    events = []
    while (message := nvim.next_message())[1] != "drawn":
        events += message[2] if message[1] == "redraw" else []
    editor.styles.update(_styles(events))
    return Screen(_cells(events, width, height), _resolved(editor.styles))


def _styles(events: list[Any]) -> dict[int, dict[str, Any]]:
    """Attributes by number, each told once in the editor's life; those of number 0 are the default colours."""
    found: dict[int, dict[str, Any]] = {}
    for name, *calls in events:
        for call in calls:
            if name == "default_colors_set":
                found[0] = {"foreground": call[0], "background": call[1]}
            elif name == "hl_attr_define":
                found[call[0]] = call[1]
    return found


def _resolved(attributes: dict[int, dict[str, Any]]) -> dict[int, Style]:
    default = Style(attributes[0]["foreground"], attributes[0]["background"])
    return {number: _style(found, default) for number, found in attributes.items()}


def _cells(events: list[Any], width: int, height: int) -> tuple[tuple[tuple[str, int], ...], ...]:
    """What was drawn since the screen was last cleared."""
    last_clear = max(place for place, event in enumerate(events) if event[0] == "grid_clear")
    grid = [[(" ", 0)] * width for _ in range(height)]
    for name, *calls in events[last_clear:]:
        assert name != "grid_scroll", "a full redraw does not scroll"
        for call in calls if name == "grid_line" else ():
            _put(grid[call[1]], call[2], call[3])
    return tuple(tuple(row) for row in grid)


def _put(row: list[tuple[str, int]], column: int, cells: list[list[Any]]) -> None:
    highlight = 0
    for cell in cells:
        highlight = cell[1] if len(cell) > 1 else highlight
        for _ in range(cell[2] if len(cell) > 2 else 1):
            row[column] = (cell[0], highlight)
            column += 1


def _style(attributes: dict[str, Any], default: Style) -> Style:
    style = Style(attributes.get("foreground", default.foreground), attributes.get("background", default.background))
    return Style(style.background, style.foreground) if attributes.get("reverse") else style
