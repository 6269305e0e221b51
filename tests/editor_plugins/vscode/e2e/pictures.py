"""Draws the pictures of the docs from a real run: a server with the embedded model, the editor in light and dark.

python -m tests.editor_plugins.vscode.e2e.pictures FOLDER
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.editor_plugins.vscode.e2e.code_server import PLUGIN, missing, running_code_server
from tests.editor_plugins.vscode.e2e.editor import Editor, open_editor, running_browser
from tests.editor_plugins.vscode.e2e.service import ORIGINAL, UPDATE, running_service

THEMES = {"light": "Default Light Modern", "dark": "Default Dark Modern", "contrast": "Default High Contrast"}
SIZE = (1120, 720)


def main(target: Path) -> None:
    """Write one picture a scene and theme into the folder."""
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
            draw_scenes(editor, service.url, target)


def draw_scenes(editor: Editor, url: str, target: Path) -> None:
    for name, theme in THEMES.items():
        editor.tidy()
        editor.configure(theme, url=url, strategy="model")
        editor.command("View: Close Primary Side Bar" if name == "light" else "Notifications: Clear All Notifications")
        editor.open("cart.py", ORIGINAL)
        editor.apply(UPDATE)
        editor.wait_for_status("3 hunks")
        editor.command("Notifications: Clear All Notifications")
        editor.press("Alt+F5", "Alt+F5")
        editor.page.locator(".codelens-decoration a", has_text="Accept").first.wait_for()
        editor.screenshot(target / f"preview-{name}.png")
        editor.command("Apply: Open Diff")
        editor.page.locator(
            ".monaco-diff-editor .editor.modified .view-line", has_text="must be positive"
        ).first.wait_for()
        editor.screenshot(target / f"diff-{name}.png")
        editor.command("View: Close Editor")
        editor.command("Apply: Show Last Verdicts")
        editor.page.locator(".view-lines", has_text="decided by:").first.wait_for()
        editor.screenshot(target / f"verdicts-{name}.png")
        editor.tidy()
        editor.open("cart.py")
        editor.command("Apply: Reject All Hunks")
        editor.wait_for_status("ready")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
