"""The editor in a headless browser, driven as a user drives it: palette, keys, clipboard, mouse.

What a file holds is read from disk after saving; the rest from what the window shows.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.editor_plugins.vscode.e2e.code_server import QUIET, CodeServer, chromium

if TYPE_CHECKING:  # without it the tests are skipped, with the reason
    from playwright.sync_api import Browser, FloatRect, Locator, Page

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
STATUS = "Apply: "
QUICK_INPUT = ".quick-input-widget"
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
    server: CodeServer
    folder: Path

    def configure(self, theme: str = "Default Light Modern", **settings: object) -> None:
        """Give the plugin these settings and no others; returns once the window has them.

        They are typed into the editor's own page: a window does not see the file of settings change.
        """
        if self.page.evaluate("window.givenSettings") == json.dumps([theme, settings]):
            return
        mark = f"settings {time.monotonic_ns()}"
        mine = {f"applyService.{name}": value for name, value in settings.items()}
        wanted = QUIET | PATIENT | {"window.title": mark, "workbench.colorTheme": theme} | mine
        self.command("Preferences: Open User Settings (JSON)")
        self.page.locator('.tab.active[data-resource-name="settings.json"]').first.wait_for()
        self.focus()
        self.press("Control+a")
        self.type(json.dumps(wanted))
        self.press("Control+s")
        wait_until(lambda: mark in self.page.title(), 60, lambda: f"title {self.page.title()!r}")
        self.command("View: Close Editor")
        self.page.evaluate("given => { window.givenSettings = given }", json.dumps([theme, settings]))

    def tidy(self) -> None:
        """Close what the last test left open; its files stay open behind those of the next."""
        for _ in range(3):
            self.page.keyboard.press("Escape")
        if self.notes():
            self.command("Notifications: Clear All Notifications")
        if self.page.locator(".editor-group-container").count() > 1:
            self.command("View: Single Column Editor Layout")

    def reload(self) -> None:
        """Load the window anew, and the plugin with it."""
        self.page.reload()
        self.wait_until_there()
        self.wait_for_status("ready")

    def wait_until_there(self) -> None:
        """Return once the workbench is there."""
        self.page.locator(".monaco-workbench .statusbar").wait_for()
        self.page.locator(".explorer-folders-view").wait_for()

    # -- files ---------------------------------------------------------------------------------------------------------
    def open(self, name: str, data: bytes | str | None = None) -> None:
        """Open a file of the folder, written before where `data` is given, with the cursor at its start."""
        if data is not None:
            (self.folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
        self.pick_file(name)
        self.page.locator(QUICK_INPUT).wait_for(state="hidden")
        self.page.locator(f'.tab.active[data-resource-name="{name}"]').first.wait_for()
        self.page.locator(".editor-group-container.active .monaco-editor.focused").first.wait_for()

    def focus(self) -> None:
        """The keys go to the text."""
        self.command("View: Focus Active Editor Group")

    def save(self, name: str) -> bytes:
        """Save; what the file holds then.  The tab alone does not tell: it may not show yet that the text changed."""
        path = self.folder / name
        before = path.stat().st_mtime_ns
        self.focus()
        self.page.keyboard.press("Control+s")
        wait_until(lambda: path.stat().st_mtime_ns != before, 60, lambda: f"{name} is not saved")
        self.page.locator(f'.tab.active:not(.dirty)[data-resource-name="{name}"]').first.wait_for()
        return path.read_bytes()

    def is_dirty(self, name: str) -> bool:
        return self.page.locator(f'.tab.dirty[data-resource-name="{name}"]').count() > 0

    def press(self, *keys: str) -> None:
        """Keys, to what has the focus: the text, unless something else was opened since."""
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        """Text at the cursor, as typed."""
        self.page.keyboard.insert_text(text)

    def go_to_line(self, line: int) -> None:
        """The cursor to the start of a line; 1-based."""
        self.palette("", prefix=f":{line}")
        self.page.locator(QUICK_INPUT).wait_for(state="hidden")

    # -- commands ------------------------------------------------------------------------------------------------------
    def command(self, title: str, *, asks: bool = False) -> None:
        """Run a command by its title in the palette; `asks`: it opens a list or an input box."""
        self.palette(title, prefix=">")
        if not asks:
            self.page.locator(QUICK_INPUT).wait_for(state="hidden")

    def palette(self, text: str, *, prefix: str) -> None:
        """Choose the entry of the palette that reads `text`."""
        self.open_quick_input("F1").fill(prefix + text)
        self.choose(text)

    def pick_file(self, name: str) -> None:
        """Choose a file of the folder by its whole path: a search may not know a new one yet."""
        self.open_quick_input("Control+p").fill(str(self.folder / name))
        self.choose(name)

    def open_quick_input(self, key: str) -> Locator:
        """The input box that the key opens; pressed again where the window was busy and has lost it."""
        box = self.page.locator(f"{QUICK_INPUT} input[type=text]").first
        for _ in range(10):
            self.page.keyboard.press(key)
            with contextlib.suppress(TimeoutError):
                wait_for(box.is_visible, 6)
                break
        return box

    def choose(self, text: str) -> None:
        """Take the entry of an open list that reads `text`."""
        row = self.page.locator(".quick-input-list .monaco-list-row", has_text=text).first
        row.click()

    def answer(self, text: str) -> None:
        """Type into the input box that a command has opened."""
        box = self.page.locator(f"{QUICK_INPUT} input:visible").first
        box.fill(text)
        box.press("Enter")
        self.page.locator(QUICK_INPUT).wait_for(state="hidden")

    def copy(self, text: str) -> None:
        """Put a text into the clipboard."""
        self.page.evaluate("text => navigator.clipboard.writeText(text)", text)

    def apply(self, snippet: str) -> None:
        """Apply a snippet to the open file, by the clipboard."""
        self.copy(snippet)
        self.command("Apply: Apply Snippet from Clipboard")

    # -- what the window shows -----------------------------------------------------------------------------------------
    def status(self) -> str:
        """The plugin's words in the status bar; empty where it has none yet."""
        items = self.page.locator(".statusbar .statusbar-item").all_inner_texts()
        found = [text.strip() for text in items if text.strip().startswith(STATUS)]
        return found[0].replace("\xa0", " ") if found else ""

    def wait_for_status(self, part: str, *, within_s: float = 300) -> str:
        """The status once it holds `part`."""
        wait_until(lambda: part in self.status(), within_s, lambda: f"status {self.status()!r}, {self.notes()}")
        return self.status()

    def notes(self) -> list[str]:
        """Messages that are shown now."""
        return self.page.locator(".notification-list-item-message").all_inner_texts()

    def wait_for_note(self, part: str, *, within_s: float = 300) -> str:
        """The message that holds `part`, once there is one."""
        wait_until(
            lambda: any(part in note for note in self.notes()),
            within_s,
            lambda: f"{part!r} is not in {self.notes()}, status {self.status()!r}",
        )
        return next(note for note in self.notes() if part in note)

    def click_button(self, label: str) -> None:
        """Press a button of a message."""
        self.page.locator(".notifications-toasts .monaco-button", has_text=label).first.click()

    def drawn_beside(self) -> str:
        """What decorations write into the text: of a preview the lines that would come."""
        return "".join(self.page.evaluate(DRAWN)).replace("\xa0", " ")

    def screenshot(self, path: Path, *, clip: FloatRect | None = None) -> None:
        """A picture of the window, or of the part that `clip` tells in pixels."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.mouse.move(20, 450)  # over nothing that has a tooltip
        self.page.wait_for_timeout(700)
        self.page.screenshot(path=path, clip=clip)


DRAWN = """() => [...document.querySelectorAll('.view-lines span')].flatMap(span => ['::before', '::after']
  .map(which => getComputedStyle(span, which).content)
  .filter(text => text.startsWith('"')).map(text => text.slice(1, -1).replaceAll('\\\\"', '"')))"""

PATIENT = {
    "applyService.timeoutSeconds": 290,
    "applyService.connectTimeoutSeconds": 60,
    "applyService.preview": "beside",
}
"""The machine may be busy, and most tests edit the file that they look at."""


def wait_until(is_so: Callable[[], bool], within_s: float, describe: Callable[[], str]) -> None:
    """Raises AssertionError with a description where it never gets so."""
    try:
        wait_for(is_so, within_s)
    except TimeoutError:
        raise AssertionError(f"not within {within_s} s: {describe()}") from None


def wait_for(is_so: Callable[[], bool], within_s: float) -> None:
    """Raises TimeoutError where it never gets so."""
    end = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.02)


@contextlib.contextmanager
def open_editor(browser: Browser, server: CodeServer, folder: Path, size: tuple[int, int] = SIZE) -> Iterator[Editor]:
    """A window on `folder`, once the workbench is there."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, permissions=["clipboard-read", "clipboard-write"]
    )
    try:
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.goto(f"{server.url}/?folder={folder}")
        editor = Editor(page, server, folder)
        editor.wait_until_there()
        yield editor
    finally:
        context.close()
