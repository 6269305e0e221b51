"""Draws the pictures of the docs from a real run, into runs/vscode-pictures: the embedded model, light and dark.

python -m tests.editor_plugins.vscode.e2e.pictures
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.editor_plugins.vscode.e2e.code_server import PLUGIN, ROOT, missing, running_code_server
from tests.editor_plugins.vscode.e2e.editor import Editor, open_editor, running_browser
from tests.editor_plugins.vscode.e2e.service import ORIGINAL, UPDATE, running_service

if TYPE_CHECKING:
    from playwright.sync_api import FloatRect

THEMES = {"dark": "Default Dark Modern", "light": "Default Light Modern", "contrast": "Default High Contrast"}
SIZE = (1120, 720)
BARS = 30
"""Height of the title bar, which the harness uses for notes of its own."""
TARGET = ROOT / "runs" / "vscode-pictures"


def main() -> None:
    """Write one picture a scene and theme."""
    if why := missing():
        sys.exit(why)
    subprocess.run(["npm", "run", "package"], cwd=PLUGIN, check=True, capture_output=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "shop").mkdir()
        with (
            running_service(folder) as service,
            running_code_server(PLUGIN / "apply-service.vsix", folder) as server,
            running_browser() as browser,
            open_editor(browser, server, folder / "shop", SIZE) as editor,
        ):
            draw_scenes(editor, service.url)


def draw_scenes(editor: Editor, service: str) -> None:
    editor.command("View: Toggle Primary Side Bar Visibility")
    for name, theme in THEMES.items():
        editor.tidy()
        editor.configure(theme, url=service, strategy="model", preview="below")
        editor.open("cart.py", ORIGINAL)
        editor.apply(UPDATE)
        editor.wait_for_status("3 hunks")
        editor.command("Notifications: Clear All Notifications")
        editor.focus()
        editor.press("Alt+F5")
        editor.page.locator(".codelens-decoration a", has_text="Accept").first.wait_for()
        draw(editor, f"preview-{name}.png")
        editor.command("Apply: Open Diff")
        editor.page.locator(
            ".monaco-diff-editor .editor.modified .view-line", has_text="must be positive"
        ).first.wait_for()
        draw(editor, f"diff-{name}.png")
        editor.wait_for_status("3 hunks", within_s=30)
        editor.command("View: Close Editor")
        editor.command("Apply: Show Last Verdicts")
        editor.page.locator(".view-lines", has_text="decided by:").first.wait_for()
        draw(editor, f"verdicts-{name}.png")
        editor.tidy()
        editor.open("cart.py")
        editor.command("Apply: Reject All Hunks")
        editor.wait_for_status("ready")


def draw(editor: Editor, name: str) -> None:
    clip: FloatRect = {"x": 0, "y": BARS, "width": SIZE[0], "height": SIZE[1] - BARS}
    editor.screenshot(TARGET / name, clip=clip)


if __name__ == "__main__":
    main()
