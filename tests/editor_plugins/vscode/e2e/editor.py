"""The editor in a headless browser, driven as a user drives it: palette, keys, clipboard, mouse.

What a file holds is read from disk after saving; the rest from what the window shows.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.editor_plugins.vscode.e2e.code_server import CodeServer, chromium

if TYPE_CHECKING:  # without it the tests are skipped, with the reason
    from playwright.sync_api import Browser, Locator, Page

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
STATUS = "Apply: "
SIZE = (1280, 800)


@contextlib.contextmanager
def running_browser() -> Iterator[Browser]:
    """The system's Chromium, headless, with a profile that is thrown away."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass(frozen=True)
class Editor:
    """One window on one folder."""

    page: Page
    folder: Path

    # -- files ---------------------------------------------------------------------------------------------------------
    def open(self, name: str, data: bytes | None = None) -> None:
        """Open a file of the folder, written before where `data` is given, with the cursor at its start."""
        if data is not None:
            (self.folder / name).write_bytes(data)
        self.palette(name, prefix="")
        self.page.locator(f'.tab.active[data-resource-name="{Path(name).name}"]').wait_for()
        self.focus()

    def focus(self) -> None:
        """The keys go to the text."""
        self.command("View: Focus Active Editor Group")

    def save(self, name: str) -> bytes:
        """Save; what the file holds then."""
        self.focus()
        self.page.keyboard.press("Control+s")
        self.page.locator(f'.tab.active:not(.dirty)[data-resource-name="{name}"]').wait_for()
        return (self.folder / name).read_bytes()

    def undo(self) -> None:
        self.focus()
        self.page.keyboard.press("Control+z")

    # -- commands ------------------------------------------------------------------------------------------------------
    def command(self, title: str) -> None:
        """Run a command by its title in the palette."""
        self.palette(title, prefix=">")

    def palette(self, text: str, *, prefix: str) -> None:
        """Choose the entry that reads `text`."""
        self.page.keyboard.press("F1" if prefix else "Control+p")
        box = self.page.locator(".quick-input-widget input[type=text]").first
        box.fill(prefix + text)
        row = self.page.locator(".quick-input-list .monaco-list-row", has_text=text).first
        row.wait_for()
        row.click()

    def answer(self, text: str) -> None:
        """Type into the input box that a command has opened."""
        box = self.page.locator(".quick-input-widget input:visible").first
        box.wait_for()
        box.fill(text)
        box.press("Enter")

    def copy(self, text: str) -> None:
        """Put a text into the clipboard."""
        self.page.evaluate("text => navigator.clipboard.writeText(text)", text)

    def go_to_line(self, line: int) -> None:
        """The cursor to the start of a line; 1-based."""
        self.page.keyboard.press("Control+g")
        self.answer(str(line))
        self.page.locator(".quick-input-widget").wait_for(state="hidden")

    # -- what the window shows -----------------------------------------------------------------------------------------
    def status(self) -> str:
        """The plugin's words in the status bar; empty where it has none yet."""
        items = self.page.locator("footer .statusbar-item").all_inner_texts()
        found = [text.strip() for text in items if text.strip().startswith(STATUS)]
        return found[0].replace("\xa0", " ") if found else ""

    def wait_for_status(self, part: str, *, within_s: float = 60) -> str:
        """The status once it holds `part`."""
        wait_until(lambda: part in self.status(), within_s, lambda: f"status {self.status()!r}, {self.notes()}")
        return self.status()

    def notes(self) -> list[str]:
        """Messages that are shown now."""
        return self.page.locator(".notification-list-item-message").all_inner_texts()

    def wait_for_note(self, part: str, *, within_s: float = 30) -> str:
        """The message that holds `part`, once there is one."""
        wait_until(lambda: any(part in note for note in self.notes()), within_s, lambda: f"notes {self.notes()}")
        return next(note for note in self.notes() if part in note)

    def button(self, label: str) -> Locator:
        """A button of a message."""
        return self.page.locator(".notifications-toasts .monaco-button", has_text=label)

    def screenshot(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path)


def wait_until(is_so: Callable[[], bool], within_s: float, describe: Callable[[], str]) -> None:
    """Raises AssertionError with a description where it never gets so."""
    end = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < end, f"not within {within_s} s: {describe()}"
        time.sleep(0.02)


@contextlib.contextmanager
def open_editor(
    browser: Browser, server: CodeServer, folder: Path, *, size: tuple[int, int] = SIZE, **settings: object
) -> Iterator[Editor]:
    """A window on `folder` once the workbench is there; `settings`: those of the plugin."""
    server.configure({f"applyService.{name}": value for name, value in settings.items()})
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, permissions=["clipboard-read", "clipboard-write"]
    )
    try:
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.goto(f"{server.url}/?folder={folder}")
        page.locator(".monaco-workbench .statusbar").wait_for(timeout=90_000)
        yield Editor(page, folder)
    finally:
        context.close()
