"""The page of tricky edits: each file, each edit, and what the program alone makes of it.

A test holds the wanted texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from apply_service.errors import ApplyError
from apply_service.pipeline import apply
from apply_service.target import Runtime, no_target
from apply_service.types import ApplyRequest, ApplyResult


@dataclass(frozen=True, slots=True)
class Tricky:
    """One edit that is easy to get wrong."""

    title: str
    why: str
    """What makes it hard, and what is done."""
    path: str
    file: str
    edit: str
    wanted: str | None
    """The file after the edit, written by hand; None if the edit has to be refused."""
    is_sure: bool = True
    """Whether the answer has to come without a doubt."""
    base: str | None = None


CART = """\
class Cart:
    def add(self, item):
        self.items.append(item)
        self.changed()

    def remove(self, item):
        self.items.remove(item)
        self.changed()
"""
GUARD = "        if item not in self.items:\n            return\n        self.items.remove"
PACKAGE = """\
{
  "name": "shop",
  "scripts": {
    "build": "tsc",
    "test": "vitest run"
  }
}
"""
TRICKY = (
    Tricky(
        "A line that stands in the file twice",
        "The quoted line fits two places, and nothing tells which one is meant. None of them is taken.",
        "cart.py",
        CART,
        "<<<<<<< SEARCH\n        self.changed()\n=======\n        self.changed(item)\n>>>>>>> REPLACE\n",
        None,
    ),
    Tricky(
        "The same line, told by its neighbour",
        "One more quoted line makes it clear.",
        "cart.py",
        CART,
        "<<<<<<< SEARCH\n        self.items.remove(item)\n        self.changed()\n=======\n"
        "        self.items.remove(item)\n        self.changed(item)\n>>>>>>> REPLACE\n",
        CART.replace("remove(item)\n        self.changed()", "remove(item)\n        self.changed(item)"),
    ),
    Tricky(
        "A line that the snippet leaves out without a marker",
        "Two shown lines stand side by side, and the file has a line between them. That line goes.",
        "cart.py",
        CART,
        "class Cart:\n    # ... existing code ...\n    def remove(self, item):\n        self.items.remove(item)\n\n"
        "    def clear(self):\n        self.items.clear()\n",
        CART.replace("        self.items.remove(item)\n        self.changed()\n",
                     "        self.items.remove(item)\n\n    def clear(self):\n        self.items.clear()\n"),
    ),
    Tricky(
        "A marker among arguments",
        "The dots stand for the arguments that stay.",
        "client.py",
        "def fetch(url, headers, retries=3):\n    return send(url, headers, retries)\n",
        "def fetch(..., timeout=5):\n    return send(..., timeout)\n",
        "def fetch(url, headers, retries=3, timeout=5):\n    return send(url, headers, retries, timeout)\n",
    ),
    Tricky(
        "A new JSON key below a marker",
        "The line above has no comma, because it was the last one. It gets one. The new key is like the old one, but "
        "does not take its place.",
        "package.json",
        PACKAGE,
        '{\n  // ... existing keys ...\n  "scripts": {\n    // ... existing scripts ...\n'
        '    "test:watch": "vitest"\n  }\n}\n',
        PACKAGE.replace('"vitest run"\n', '"vitest run",\n    "test:watch": "vitest"\n'),
    ),
    Tricky(
        "A quote with a word less than the file",
        "The file says `self.items.append(item)`. A quote that only resembles the file is never replaced unseen: the "
        "edit is refused, with the call that fits.",
        "cart.py",
        CART,
        json.dumps({
            "old_string": "        self.append(item)\n        self.changed()",
            "new_string": "        self.append(item)\n        self.changed(item)",
        }),
        None,
    ),
    Tricky(
        "A file about search/replace blocks",
        "The fences inside the file are its text. A backslash in the edit tells them from the edit's own.",
        "help.md",
        "Write a block:\n\n<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n\nThen send it.\n",
        "<<<<<<< SEARCH\nThen send it.\n=======\nThen send it to `/v1/apply`.\n>>>>>>> REPLACE\n",
        "Write a block:\n\n<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n\nThen send it to `/v1/apply`.\n",
    ),
    Tricky(
        "A diff with wrong line numbers",
        "Models count badly. The lines decide, not the numbers.",
        "cart.py",
        CART,
        "--- a/cart.py\n+++ b/cart.py\n@@ -40,3 +40,4 @@\n     def remove(self, item):\n+        self.check(item)\n"
        "         self.items.remove(item)\n         self.changed()\n",
        CART.replace("        self.items.remove", "        self.check(item)\n        self.items.remove"),
    ),
    Tricky(
        "A whole reply of a chat",
        "Words around the code are no part of the file.",
        "cart.py",
        CART,
        "Sure! Removing an item that is not there should do nothing:\n\n```python\nclass Cart:\n"
        "    # ... existing code ...\n\n"
        "    def remove(self, item):\n        if item not in self.items:\n            return\n"
        "        self.items.remove(item)\n        self.changed()\n```\n\nLet me know if you want tests.\n",
        CART.replace("        self.items.remove", GUARD),
    ),
    Tricky(
        "Line ends of Windows, and no final newline",
        "The edit has neither. The file keeps both.",
        "notes.txt",
        "one\r\ntwo\r\nthree",
        "<<<<<<< SEARCH\ntwo\n=======\n2\n>>>>>>> REPLACE\n",
        "one\r\n2\r\nthree",
    ),
    Tricky(
        "The same edit again",
        "The file has it already. The answer says so, and adds nothing a second time.",
        "cart.py",
        CART.replace("        self.items.remove", "        self.check(item)\n        self.items.remove"),
        "<<<<<<< SEARCH\n    def remove(self, item):\n        self.items.remove(item)\n=======\n"
        "    def remove(self, item):\n"
        "        self.check(item)\n        self.items.remove(item)\n>>>>>>> REPLACE\n",
        CART.replace("        self.items.remove", "        self.check(item)\n        self.items.remove"),
        is_sure=False,
    ),
    Tricky(
        "A file that moved on",
        "The edit was written for an older text, which is sent as `base`. Both changes are kept.",
        "cart.py",
        CART.replace("def add(self, item):", "def add(self, item, n=1):"),
        "<<<<<<< SEARCH\n        self.items.append(item)\n=======\n"
        "        self.items.insert(0, item)\n>>>>>>> REPLACE\n",
        CART.replace("def add(self, item):", "def add(self, item, n=1):").replace("append(item)", "insert(0, item)"),
        is_sure=False,
        base=CART,
    ),
)  # fmt: skip


def answer(one: Tricky) -> ApplyResult | ApplyError:
    """Return what the program alone makes of an edit, or its refusal."""
    request = ApplyRequest(one.file, one.edit, path=one.path, strategy="exact", diff=True, base=one.base)
    try:
        return apply(request, Runtime(no_target))
    except ApplyError as error:
        return error


def tricky() -> str:
    """Write every edit with what becomes of it."""
    return "\n\n".join(_section(one) for one in TRICKY)


def _section(one: Tricky) -> str:
    found = answer(one)
    parts = [f"## {one.title}", one.why, f"`{one.path}`:", _fence(one.file)]
    parts += ["The text that the edit was written for:", _fence(one.base)] if one.base is not None else []
    return "\n\n".join([*parts, "The edit:", _fence(one.edit), *_told(found)])


def _told(found: ApplyResult | ApplyError) -> list[str]:
    if isinstance(found, ApplyError):
        told = next((str(one["next"]) for one in found.failures if one["next"]), None)
        said = f"It is refused (`{found.code}`): {found.message.partition(chr(10))[0].rstrip(':')}."
        return [said, "The call that fits:", _fence(told, "json")] if told else [said]
    says = [*found.reasons, *(verdict.message for verdict in found.verdicts if verdict.severity != "pass")]
    sure = "The answer is sure:" if not says else "The answer is in doubt: " + "; ".join(dict.fromkeys(says)) + "."
    return [sure, _fence(found.diff, "diff")] if found.diff else [sure]


def _fence(text: str, language: str = "") -> str:
    shown = text.replace("\r", "").rstrip("\n")
    fence = "````" if "```" in shown else "```"
    return f"{fence}{language}\n{shown}\n{fence}"


TRICKY_PARTS: Mapping[str, Callable[[], str]] = {"tricky": tricky}
