"""The playground in a real browser, against a real service with the embedded model.

Needs playwright (the extra `plugins`) and Chromium (`CHROMIUM` names its program).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.layers import ALICE, write_keys
from tests.editor_plugins.vscode.e2e.code_server import chromium
from tests.editor_plugins.vscode.e2e.service import running_service

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("playwright") is None, reason="playwright is not installed: pip install playwright"),
    pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine"),
]
PATIENCE_MS = 120_000
HOSTILE = """<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>
</textarea><b>bold</b> \u202e reversed
last = 1
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_service(tmp_path_factory.mktemp("service")) as service:
        yield f"{service.url}/"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium(), args=flags)
        yield opened
        opened.close()


def is_wrong(message: ConsoleMessage) -> bool:
    """Whether the console holds an error; a refusal of the service is none of the page's."""
    return message.type == "error" and not message.text.startswith("Failed to load resource: the server responded")


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    """The page, in a profile of its own.  It may ask this service alone, and nothing may go wrong unseen."""
    with browser.new_context(permissions=["clipboard-read", "clipboard-write"]) as context:
        opened, wrong = context.new_page(), []
        opened.set_default_timeout(PATIENCE_MS)
        opened.on("pageerror", lambda error: wrong.append(str(error)))
        opened.on("console", lambda message: wrong.append(message.text) if is_wrong(message) else None)
        opened.on(
            "request", lambda request: None if request.url.startswith((url, "data:")) else wrong.append(request.url)
        )
        opened.goto(url)
        yield opened
        assert wrong == []


def wait_for(page: Page, selector: str, text: str) -> None:
    page.locator(selector).filter(has_text=text).wait_for()


def apply(page: Page, example: str | None = None) -> None:
    if example is not None:
        page.get_by_role("button", name=example).click()
    page.get_by_role("button", name="Apply").click()
    wait_for(page, "#status", "Done in")


def shown_lines(page: Page, kind: str) -> list[str]:
    """The texts of the lines of an origin, or of those that go; without what only screen readers say."""
    script = "rows => rows.map(row => row.querySelector('.text').lastChild.textContent)"
    return list(page.locator(f"#lines tr.{kind}").evaluate_all(script))


def test_lines_are_shown_by_origin_and_confidence(page: Page) -> None:
    apply(page, "Lazy snippet")
    assert '            raise ValueError(f"no {item.name} to add")' in shown_lines(page, "update")
    assert shown_lines(page, "removed") == ["        return sum(item.price for item in self.items)"]
    assert page.locator("#lines tr.update.sure").count() == page.locator("#lines tr.update").count() == 4
    assert "% sure" in page.inner_text("#summary")
    numbers = page.locator("#lines tr.update").first.inner_text().split()
    assert numbers[:2] == ["17", "+"]
    page.get_by_label("show removed lines").uncheck()
    assert page.locator("#lines tr.removed").is_hidden()
    page.get_by_role("button", name="unchanged lines").click()
    assert "from dataclasses import dataclass, field" in shown_lines(page, "original")


def test_doubts_other_readings_and_errors_are_told(page: Page) -> None:
    apply(page, "Two readings")
    assert "This may be wrong" in page.inner_text("#verdicts")
    assert "Did you mean to keep line 13" in page.inner_text("#readings")
    apply(page, "A broken edit")
    wait_for(page, "#verdicts", "Syntax error")
    page.get_by_role("button", name="line 7", exact=True).click()
    assert page.evaluate("document.activeElement.dataset.line") == "7"


BODY = "    x = 1\n    y = 2\n    z = 3\n"
THREE_PLACES = "".join(f"def {name}():\n{BODY}\n\n" for name in "abc")
ANY_PLACE = "# ... existing code ...\n" + BODY.replace("2", "20") + "# ... existing code ...\n"


def changed_lines(page: Page) -> list[str]:
    """The numbers of the lines that come from the snippet."""
    return list(page.locator("#lines tr.update").evaluate_all("rows => rows.map(row => row.dataset.line)"))


def test_an_edit_in_doubt_ends_right_after_one_answer(page: Page) -> None:
    page.get_by_label("File", exact=True).fill(THREE_PLACES)
    page.get_by_label("Edit", exact=True).fill(ANY_PLACE)
    page.get_by_label("File name").fill("m.py")
    apply(page)
    assert changed_lines(page) == ["3"]
    assert "This is probably wrong" in page.inner_text("#verdicts")
    page.get_by_role("button", name="Did you mean to keep line 3 (y = 2) and remove line 9 (y = 2)?").click()
    wait_for(page, "#status", "Reading 2 of 4.")
    assert changed_lines(page) == ["9"]
    assert "You chose reading 2 of 4." in page.inner_text("#summary")
    assert "wrong" not in page.inner_text("#verdicts")
    page.get_by_role("button", name="Copy file").click()
    wait_for(page, "#status", "Copied the merged file.")
    head = "def b():\n"
    wanted = THREE_PLACES.replace(head + BODY, head + BODY.replace("2", "20"))
    assert page.evaluate("navigator.clipboard.readText()") == wanted


def test_an_edit_that_the_program_refuses_is_a_question_too(page: Page) -> None:
    page.get_by_label("File", exact=True).fill(THREE_PLACES)
    page.get_by_label("Edit", exact=True).fill(ANY_PLACE)
    page.get_by_label("Decided by").select_option("exact")
    apply(page)
    assert "This edit is not clear." in page.inner_text("#summary")
    page.get_by_role("button", name="Did you mean to replace line 15 (y = 2) by y = 20?").click()
    wait_for(page, "#status", "Reading 3 of 4.")
    assert changed_lines(page) == ["15"]
    page.keyboard.press("]")
    wait_for(page, "#status", "Reading 4 of 4.")
    page.keyboard.press("]")
    wait_for(page, "#status", "Reading 1 of 4.")
    assert changed_lines(page) == ["3"]


def test_readings_are_stepped_through_by_keys(page: Page) -> None:
    edit = page.get_by_label("Edit", exact=True)
    page.get_by_label("File", exact=True).fill(THREE_PLACES)
    edit.fill(ANY_PLACE)
    apply(page)
    chosen = page.locator("#readings button[aria-pressed=true]")
    for key, place, lines in (("]", 2, ["9"]), ("]", 3, ["15"]), ("[", 2, ["9"]), ("[", 1, ["3"]), ("[", 4, ["4"])):
        page.keyboard.press(key)
        wait_for(page, "#status", f"Reading {place} of 4.")
        assert changed_lines(page) == lines
        assert chosen.count() == 1
    page.get_by_role("button", name="The likeliest").click()
    wait_for(page, "#status", "Reading 1 of 4.")
    assert changed_lines(page) == ["3"]
    assert "This is probably wrong" in page.inner_text("#verdicts")
    edit.press("End")
    edit.press("]")
    assert edit.input_value().count("]") == 1
    assert changed_lines(page) == ["3"]


def test_every_example_is_applied(page: Page) -> None:
    names = [name for name in page.locator("#examples button").all_inner_texts() if name]
    assert len(names) == 6
    for name in names:
        apply(page, name)
        assert page.locator("#lines tr.update").count() > 0
        page.get_by_label("File", exact=True).press("End")


def test_what_a_file_holds_stays_text(page: Page) -> None:
    page.get_by_label("File", exact=True).fill(HOSTILE)
    page.get_by_label("Edit", exact=True).fill(HOSTILE.replace("last = 1", "last = 2"))
    page.get_by_label("File name").fill("<b>.py")
    apply(page)
    shown = page.locator("#lines").inner_text()
    assert "<img src=x onerror=" in shown
    assert "U+202E" in shown
    assert page.locator("#result img, #result script, #result .text b").count() == 0
    assert page.title().startswith("Playground")


def test_an_error_says_what_to_do(page: Page) -> None:
    page.get_by_label("Edit", exact=True).fill("")
    page.get_by_role("button", name="Apply").click()
    wait_for(page, "#error", "What to do: ")
    assert "There is no edit" in page.inner_text("#error")


def test_the_race_shows_each_pass_and_the_same_file(page: Page) -> None:
    page.get_by_role("button", name="Two readings").click()
    page.get_by_role("button", name="Race").click()
    wait_for(page, "#race-verdict", "the same file, byte for byte")
    merge, prompt, plain = page.locator(".lane").all()
    assert "in 2 passes" in merge.inner_text()  # 124 tokens, in windows of up to 64 rows
    assert merge.locator(".strip .rejected").count() == 0
    assert prompt.locator(".strip .rejected").count() > 0
    assert "1.0 a pass" in plain.inner_text()
    texts = {lane.locator(".live").inner_text() for lane in (merge, prompt, plain)}
    assert len(texts) == 1
    assert 'path.read_text(encoding="utf-8")' in texts.pop()


def test_a_run_can_be_stopped(page: Page) -> None:
    page.get_by_role("button", name="A model alone").click()
    page.get_by_role("button", name="Race").click()
    wait_for(page, ".lane:last-child", "token")
    page.get_by_role("button", name="Stop").click()
    wait_for(page, "#status", "Stopped.")
    apply(page, "Search and replace")


def test_the_keyboard_is_enough(page: Page) -> None:
    page.get_by_label("Edit", exact=True).focus()
    page.keyboard.press("Control+Enter")
    wait_for(page, "#status", "Done in")
    assert page.evaluate("document.activeElement.id") == "result-title"
    reached = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert {"copy-result", "show-removed", "code"} <= reached


def test_copied_code_asks_for_the_same(page: Page, url: str, tmp_path: Path) -> None:
    page.get_by_label("File", exact=True).fill("it's = 1\nb = '\u2028'\n")
    page.get_by_label("Edit", exact=True).fill('it\'s = "2"\n# ... existing code ...\n')
    page.get_by_label("File name").fill("a.txt")
    copied = {}
    for name in ("curl", "Python", "TypeScript"):
        page.get_by_role("button", name=name).click()
        wait_for(page, "#status", f"Copied the request as {name}.")
        copied[name] = page.evaluate("navigator.clipboard.readText()")
    answer = subprocess.run(["bash", "-c", copied["curl"]], capture_output=True, text=True, timeout=60, check=True)
    merged = json.loads(answer.stdout)["merged_code"]
    assert merged == "it's = \"2\"\nb = '\u2028'\n"
    run = subprocess.run(
        [sys.executable, "-c", copied["Python"]], capture_output=True, text=True, timeout=60, check=True
    )
    assert run.stdout == f"{merged}\n"
    assert f'baseUrl: "{url[:-1]}"' in copied["TypeScript"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_nothing_is_cut_off_and_texts_have_contrast(browser: Browser, url: str, scheme: Any, width: int) -> None:
    with browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800}) as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(url)
        apply(page, "Two readings")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        poor = page.evaluate((Path(__file__).parent / "contrast.js").read_text(encoding="utf-8"))
        assert poor == []


def test_where_keys_are_set_one_is_asked_for(browser: Browser, tmp_path: Path) -> None:
    with (
        running_service(tmp_path, "--keys-file", write_keys(tmp_path), key=ALICE) as service,
        browser.new_context() as context,
    ):
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(service.url)
        page.get_by_label("API key").fill("wrong")
        page.get_by_role("button", name="Apply").click()
        wait_for(page, "#error", "not one of this service")
        page.get_by_label("API key").fill(ALICE)
        page.get_by_label("API key").blur()
        apply(page)
        assert page.evaluate("sessionStorage.getItem('key')") == ALICE
        assert page.evaluate("localStorage.length") == 0
        page.evaluate("document.querySelector('[data-copy=curl]').click()")
        assert ALICE not in page.locator("#dialog-text").input_value()
        other = context.new_page()
        other.goto(service.url)
        assert other.get_by_label("API key").input_value() == ""
