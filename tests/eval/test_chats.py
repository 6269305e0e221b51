"""`apply-eval chats` on three repositories made here: what is measured, what is left out and why, and how it counts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from apply_eval.chat_log import HISTORY_FILE, read_session, sessions_of
from apply_eval.chats import FoundEdits, find_edits, tell_counts
from apply_eval.cli import main
from apply_eval.errors import DataError, GitError
from tests.eval.chat_client import ChatClient, block
from tests.eval.git_history import git, make_repo

SHOP = """\
import json

TAX = 0.19


def price(net):
    return net * (1 + TAX)


def total(items):
    result = 0
    for item in items:
        result += price(item)
    return result


def show(items):
    print(total(items))
"""
CART = """\
class Cart:
    def __init__(self):
        self.items = []

    def add(self, item):
        self.items.append(item)

    def size(self):
        return len(self.items)
"""
GREET = """\
function greet(name) {
  return 'hello ' + name;
}

function leave(name) {
  return 'bye ' + name;
}

module.exports = { greet, leave };
"""
TAX_EDIT = block("shop.py", "TAX = 0.19", "TAX = 0.20")
SHOP_TAX = SHOP.replace("0.19", "0.20")
DIFF = "Main model: openai/gpt-4o with diff edit format"


def measured(repo: Path, out: Path) -> dict[str, Any]:
    assert main(["chats", str(repo), "--strategy", "exact", "--out", str(out)]) == 0
    results: dict[str, Any] = json.loads((out / "results.json").read_text(encoding="utf-8"))
    return results


def outcomes(results: dict[str, Any], tag: str | None = None) -> tuple[int, int, int, int]:
    """Scored, right, right unseen, wrong unseen."""
    (found,) = results["summary"].values()
    found = found if tag is None else found["by_tag"][tag]
    n = found["n_scored"]
    right, unseen, silent = (round(found[name] * n) for name in ("exact_match", "right_unseen", "silent_errors"))
    return n, right, unseen, silent


# -- search/replace ----------------------------------------------------------------------------------------------------
@pytest.fixture
def search_replace(tmp_path: Path) -> Path:
    """Four edits that went well, a question, and an edit whose commit has its lines at another place."""
    client = ChatClient(tmp_path / "shop", {"shop.py": SHOP.encode(), "cart.py": CART.encode()})
    client.start(DIFF, "Weak model: gpt-4o-mini", "Git repo: .git with 2 files", "Added shop.py to the chat.")
    client.edit(
        "raise the tax",
        f"I raise it.\n\n{TAX_EDIT}\nThat is all.",
        {"shop.py": SHOP_TAX.encode()},
        "feat: raise the tax",
    )
    client.ask("what does show do?\nsay it briefly")
    client.reply("It prints the total.\n\n#### Details\n\n> It calls `total`.\n\nNothing else.")
    client.say("Tokens: 2.3k sent, 20 received.")
    shop, cart = (
        SHOP_TAX.replace("print(total", "print('Total:', total"),
        CART + "\n    def clear(self):\n        self.items = []\n",
    )
    reply = "Both files change.\n\n" + block("shop.py", "    print(total(items))", "    print('Total:', total(items))")
    end = "    def size(self):\n        return len(self.items)"
    reply += "\n" + block("cart.py", end, f"{end}\n\n    def clear(self):\n        self.items = []")
    client.edit(
        "name the total, clear carts", reply, {"shop.py": shop.encode(), "cart.py": cart.encode()}, "feat: clear"
    )
    made = "def close():\n    return True\n"
    client.edit("a module to close", block("close.py", "", made.rstrip()), {"close.py": made.encode()}, "feat: close")
    elsewhere = shop.replace("def show(items):\n", "def show(items):\n    items = list(items)\n")
    line = "    result = 0\n"
    moved = block("shop.py", line.rstrip(), f"{line}    items = list(items)")
    client.edit("copy the items", moved, {"shop.py": elsewhere.encode()}, "fix: copy the items")
    return client.folder


def test_search_replace(search_replace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = measured(search_replace, tmp_path / "out")
    assert results["chats"] == {
        "histories": 1,
        "versions": 1,
        "sessions": 1,
        "sessions_not_read": 0,
        "replies": 5,
        "replies_without_edit": 1,
        "edits": 5,
        "measured": 5,
        "found_by_message": 0,
        "left_out": {},
        "other_commits": 0,
    }
    assert outcomes(results) == (5, 4, 4, 1)
    assert outcomes(results, "model openai/gpt-4o") == (5, 4, 4, 1)
    assert outcomes(results, "format diff") == (5, 4, 4, 1)
    assert outcomes(results, "new file") == (1, 1, 1, 0)
    said = capsys.readouterr().out
    assert "1 sessions, 5 replies, 5 edits of a file, 5 measured" in said
    assert "4 of 5 right, 4 of them could have been applied unseen; 1 wrong would have been too" in said


def test_the_report_has_a_section_by_model(search_replace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    measured(search_replace, out)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<h2>Chats</h2>" in page
    row = re.search(r'<th scope="row">openai/gpt-4o \(5\)</th>(.*)', page)
    assert row is not None
    shares = re.findall(r"<td>([^<]*)<small>([^<]*)", row[1])
    assert [share for share, _ in shares] == ["80.0%", "80.0%", "20.0%"]
    assert all("–" in interval for _, interval in shares)
    assert "5 edits of a file, 5 measured" in page
    kept = "".join(path.read_text(encoding="utf-8") for path in out.iterdir())
    assert "secret-key" not in kept, "what the client says may hold keys"
    assert main(["report", str(out), "--out", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / "report.html").read_text(encoding="utf-8") == page


def test_only_the_first_edits(search_replace: Path) -> None:
    found = find_edits(search_replace, limit=2)
    assert [record.path for record in found.records] == ["shop.py", "shop.py"]
    assert (found.counts["edits"], found.counts["measured"]) == (5, 2)


# -- diffs, whole files, several models --------------------------------------------------------------------------------
@pytest.fixture
def several_models(tmp_path: Path) -> Path:
    client = ChatClient(tmp_path / "mixed", {"greet.js": GREET.encode(), "cart.py": CART.encode()})
    client.start("Model: gpt-4-1106-preview using udiff edit format", at="2023-12-30 11:20:27")
    changed = " function greet(name) {\n-  return 'hello ' + name;\n+  return `hello ${name}`;\n }\n"
    diff = f"```diff\n--- greet.js\n+++ greet.js\n@@ ... @@\n{changed}```\n"
    hello = GREET.replace("'hello ' + name", "`hello ${name}`")
    client.edit("use a template", f"Here it is:\n\n{diff}", {"greet.js": hello.encode()}, "aider: Use a template.")
    client.start("Main model: claude-3-5-sonnet with whole edit format, infinite output", at="2024-09-01 08:00:00")
    cart = CART.replace("self.items.append(item)", "self.items += [item]")
    client.edit("no append", f"cart.py\n```python\n{cart}```\n", {"cart.py": cart.encode()}, "refactor: no append")
    client.say("Main model: o1-mini with architect edit format", "Editor model: gpt-4o with editor-diff edit format")
    client.ask("say goodbye with a template")
    client.reply("Change `leave` so that it returns a template.")
    client.say("Tokens: 1k sent, 10 received.", "Edit the files? (Y)es/(N)o [Yes]: y")
    bye = hello.replace("'bye ' + name", "`bye ${name}`")
    thought = (
        "--------------\n► **THINKING**\n\nIs it `'bye'`?\n\n```js\nwrong();\n```\n\n------------\n► **ANSWER**\n\n"
    )
    reply = thought + block("greet.js", "  return 'bye ' + name;", "  return `bye ${name}`;", "javascript")
    client.edit("Change `leave` so that it returns a template.", reply, {"greet.js": bye.encode()}, "feat: goodbye")
    client.start("Nothing is named here", at="2025-02-01 08:00:00")
    cart_2 = cart.replace("return len(self.items)", "return sum(1 for _ in self.items)")
    client.edit(
        "count",
        block("cart.py", "        return len(self.items)", "        return sum(1 for _ in self.items)"),
        {"cart.py": cart_2.encode()},
        "feat: count",
    )
    return client.folder


def test_several_models(several_models: Path, tmp_path: Path) -> None:
    results = measured(several_models, tmp_path / "out")
    assert results["chats"] | {"left_out": {}} == results["chats"]
    assert (results["chats"]["sessions"], results["chats"]["replies"], results["chats"]["measured"]) == (3, 5, 4)
    assert outcomes(results)[:2] == (4, 4)
    (found,) = results["summary"].values()
    assert {tag: of["n_scored"] for tag, of in found["by_tag"].items()} == {
        "model gpt-4-1106-preview": 1,
        "model claude-3-5-sonnet": 1,
        "model gpt-4o": 1,
        "model not named": 1,
        "format udiff": 1,
        "format whole": 1,
        "format editor-diff": 1,
        "format not named": 1,
    }
    assert "THINKING" not in (tmp_path / "out" / "edits.jsonl").read_text(encoding="utf-8")


# -- a messy one -------------------------------------------------------------------------------------------------------
NO_MATCH = """\
# 1 SEARCH/REPLACE block failed to match!

## SearchReplaceNoExactMatch: This SEARCH block failed to exactly match lines in shop.py
<<<<<<< SEARCH
TAX = 19
=======
TAX = 20
>>>>>>> REPLACE

The SEARCH section must exactly match an existing block of lines"""


@pytest.fixture
def messy(tmp_path: Path) -> Path:
    """The folder that a clone is, whose commits were amended since the chat."""
    crlf, path = CART.replace("\n", "\r\n"), "größe/körbe.py"
    files = {
        "shop.py": SHOP.encode(),
        path: crlf.encode(),
        "greet.js": GREET.encode(),
        "latin.py": b"name = '\xe9'\nsize = 1\n",
    }
    client = ChatClient(tmp_path / "work", files)
    client.start(DIFF)
    # A block that does not match, then the right one.
    client.ask("raise the tax")
    client.reply("I raise it.\n\n" + block("shop.py", "TAX = 19", "TAX = 20"))
    client.say(
        "Tokens: 1k sent, 10 received.",
        "The LLM did not conform to the edit format.",
        "https://aider.chat/errors",
        NO_MATCH,
    )
    client.reply("I read it again.\n\n" + TAX_EDIT)
    client.applied({"shop.py": SHOP_TAX.encode()})
    client.commit("feat: raise the tax")
    # A linter's commit after the reply's, and the user's own before the next.
    client.write({"shop.py": SHOP_TAX.replace("import json\n\n", "").encode()})
    client.commit("style: run the linter")
    client.write({"greet.js": GREET.replace("bye", "so long").encode()})
    client.say("Committing greet.js before applying edits.")
    client.commit("my own words")
    # A file with a name and line ends of its own, which the client names in the way of another system.
    new = crlf.replace("self.items.append(item)", "self.items += [item]")
    client.ask("no append")
    client.reply(block(path, "        self.items.append(item)", "        self.items += [item]"))
    client.write({path: new.encode()})
    client.say(f"Applied edit to {path.replace('/', chr(92))}")
    client.commit("refactor: no append\n\nIt is shorter.")
    # Its commit is amended: the reply's change alone is left.
    hello = GREET.replace("bye", "so long").replace("'hello ' + name", "`hello ${name}`")
    reply = block("greet.js", "  return 'hello ' + name;", "  return `hello ${name}`;", "javascript")
    client.edit("use a template", reply, {"greet.js": hello.encode()}, "feat: a template")
    git(client.folder, "commit", "-q", "--amend", "--no-edit", "--date", "2025-03-03T12:00:00+0000")
    # Its commit is amended: the user's own lines are in it too.
    bye = hello.replace("'so long ' + name", "`so long, ${name}`")
    reply = block("greet.js", "  return 'so long ' + name;", "  return `so long, ${name}`;", "javascript")
    client.edit("a comma", reply, {"greet.js": bye.encode()}, "feat: a comma")
    client.write({"greet.js": bye.replace("function greet", "// mine\nfunction greet").encode()})
    git(client.folder, "commit", "-q", "-a", "--amend", "--no-edit")
    # Two replies of one file, and one of another, in one commit; the user changes that one between.
    shop = client.folder / "shop.py"
    client.ask("twice")
    client.reply(block("shop.py", "TAX = 0.20", "TAX = 0.21"))
    client.applied({"shop.py": shop.read_bytes().replace(b"0.20", b"0.21")})
    client.ask("again")
    client.reply(
        block("shop.py", "TAX = 0.21", "TAX = 0.22")
        + block(path, "        self.items = []", "        self.items = list()")
    )
    client.applied(
        {
            "shop.py": shop.read_bytes().replace(b"0.21", b"0.22"),
            path: new.replace("self.items = []", "self.items = list()").encode(),
        }
    )
    client.write({path: ("# mine\r\n" + new.replace("self.items = []", "self.items = list()")).encode()})
    client.ask("/commit")
    client.commit("two taxes")
    # Another encoding, a marker that was taken literally, a file that the commit lacks, a reply that nobody committed.
    client.edit("two", block("latin.py", "size = 1", "size = 2"), {"latin.py": b"name = '\xe9'\nsize = 2\n"}, "size")
    client.say("Main model: o1-mini with whole edit format")
    lazy = "// ... existing code ...\n\nfunction leave(name) {\n  return 'bye';\n}\n"
    client.edit("shorter", f"greet.js\n```javascript\n{lazy}```\n", {"greet.js": lazy.encode()}, "feat: shorter")
    client.say(DIFF)
    client.ask("nothing")
    client.reply(block("shop.py", "TAX = 0.22", "TAX = 0.22") + block("new.py", "", "x = 1"))
    client.applied({"shop.py": shop.read_bytes(), "new.py": b"x = 1\n"})
    client.commit("feat: new")
    client.ask("last")
    client.reply(block("new.py", "x = 1", "x = 2"))
    client.applied({"new.py": b"x = 2\n"})
    git(client.folder, "commit", "-q", "-a", "-m", "by hand")
    # Trimmed by an editor.
    client.start(at="2025-06-01 10:00:00")
    client.edit("trim it", block("new.py", "x = 2", "x = 3"), {"new.py": b"x = 3\n"}, "feat: three")
    whole, _, last = client.history.read_bytes().rpartition(b"# aider chat")
    client.history.write_bytes(whole + b"# aider chat" + last.replace(b"  \n", b"\n"))
    clone = tmp_path / "clone"
    git(client.folder, "clone", "-q", "--no-local", str(client.folder), str(clone))
    (clone / HISTORY_FILE).write_bytes(client.history.read_bytes().replace(b"\n", b"\r\n"))
    return clone


def test_messy(messy: Path, tmp_path: Path) -> None:
    results = measured(messy, tmp_path / "out")
    assert results["chats"] == {
        "histories": 1,
        "versions": 1,
        "sessions": 2,
        "sessions_not_read": 1,
        "replies": 11,
        "replies_without_edit": 0,
        "edits": 13,
        "measured": 4,
        "found_by_message": 1,
        "left_out": {
            "failed": 1,
            "no_commit": 1,
            "gone": 1,
            "several_replies": 2,
            "not_in_commit": 1,
            "not_text": 1,
            "other_changes": 1,
            "marker_kept": 1,
        },
        "other_commits": 2,
    }
    assert outcomes(results)[:2] == (4, 4)
    found = find_edits(messy)
    assert [record.path for record in found.records] == ["shop.py", "größe/körbe.py", "greet.js", "new.py"]
    corrected, crlf, amended, _ = found.records
    assert corrected.before == SHOP
    assert corrected.update.startswith("I read it again.")
    assert crlf.after.count("\r\n") == crlf.after.count("\n") == CART.count("\n")
    assert amended.subject == "feat: a template"
    lines = tell_counts(found.counts)
    assert "1 found by the commit's message, as its hash is gone" in lines
    assert "left out 2: several replies' edits of the file went into the commit" in lines


def test_two_commits_with_one_message(tmp_path: Path) -> None:
    client = ChatClient(tmp_path / "twice", {"shop.py": SHOP.encode()})
    client.start(DIFF)
    client.edit("raise it", TAX_EDIT, {"shop.py": SHOP_TAX.encode()}, "tax")
    history = client.history.read_text(encoding="utf-8")
    digits = client.head()[:7]
    client.write({"shop.py": SHOP.encode()})
    client.commit("back", is_told=False)
    client.write({"shop.py": SHOP_TAX.encode()})
    client.commit("tax", is_told=False)
    client.history.write_text(history.replace(digits, "fffffff"), encoding="utf-8", newline="")
    with pytest.raises(DataError, match="no edit of its chats can be measured") as caught:
        find_edits(client.folder)
    assert "several commits with that message fit the reply" in caught.value.remedy


# -- where histories lie -----------------------------------------------------------------------------------------------
def test_chats_that_only_the_history_has(search_replace: Path) -> None:
    whole = find_edits(search_replace)
    history = search_replace / HISTORY_FILE
    text = history.read_text(encoding="utf-8")
    middle = text.index("Both files change.")
    for version in (text[:middle], text):  # once in the middle of a reply, then moved, then deleted
        history.write_text(version, encoding="utf-8", newline="")
        git(search_replace, "add", "-f", HISTORY_FILE)
        git(search_replace, "commit", "-q", "-m", "Keep the chat")
    (search_replace / "notes").mkdir()
    git(search_replace, "mv", HISTORY_FILE, f"notes/{HISTORY_FILE}")
    git(search_replace, "commit", "-q", "-m", "Move the chat")
    git(search_replace, "rm", "-q", f"notes/{HISTORY_FILE}")
    git(search_replace, "commit", "-q", "-m", "Drop the chat")
    found = find_edits(search_replace)
    assert found.records == whole.records
    assert found.counts == whole.counts | {"histories": 2, "versions": 2}


def test_a_link_is_not_followed(search_replace: Path, tmp_path: Path) -> None:
    history = search_replace / HISTORY_FILE
    history.rename(tmp_path / "elsewhere.md")
    history.symlink_to(tmp_path / "elsewhere.md")
    with pytest.raises(DataError, match="no chat history"):
        find_edits(search_replace)


def test_no_chats_no_repository(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repo = make_repo(tmp_path / "plain", [("Add", "2025-01-01", {"a.py": b"x\n"})])
    assert main(["chats", str(repo)]) == 2
    assert HISTORY_FILE in capsys.readouterr().err
    (tmp_path / "none").mkdir()
    with pytest.raises(GitError):
        find_edits(tmp_path / "none")


# -- the format --------------------------------------------------------------------------------------------------------
def test_a_message_of_several_lines_is_the_clients() -> None:
    failure = f"> Malformed response #1, retrying...  \n> {NO_MATCH}  \n"
    text = f"# aider chat started at 2024\n\n#### go  \n\nfirst\n\n{failure}\nsecond\n"
    session = read_session(text)
    assert [(reply.text, reply.has_failed) for reply in session.replies] == [("first", True), ("second", False)]


def test_quotes_and_headings_of_a_reply_are_the_models() -> None:
    text = "# aider chat started at 2024\n\n#### go  \n\n#### Steps\n\n> quoted\n\ndone\n\n> Tokens: 1 sent.  \n"
    (reply,) = read_session(text).replies
    assert reply.text == "#### Steps\n\n> quoted\n\ndone"


def test_a_session_is_taken_once_from_its_longest_version() -> None:
    first, second = "# aider chat started at 1\n\nab  \n", "# aider chat started at 2\n\ncd\n"
    grown = first.rstrip("\n") + "\nmore\n"
    assert sessions_of([f"\n{grown}{second}", f"\n{first}", f"\n{first}{second}"]) == [grown, second]
    other = "# aider chat started at 1\n\nrewritten\n"
    assert sessions_of([grown, other]) == [grown, other]


def test_found_edits_name_their_models(several_models: Path) -> None:
    found: FoundEdits = find_edits(several_models)
    assert [record.tags[0] for record in found.records] == [
        "model gpt-4-1106-preview",
        "model claude-3-5-sonnet",
        "model gpt-4o",
        "model not named",
    ]
