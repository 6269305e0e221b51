"""Edits whose place is told in words, as chat models write them: above a fence, without one, in comments, or in the
instruction."""

from __future__ import annotations

import pytest

from apply_service.merge.merge import readings
from apply_service.reply.reader import read_reply

PYTHON = '''\
"""Orders of a small shop."""

import json
import os
from typing import Optional

from shop.models import Item, Order

LIMIT = 10
RATES = {
    "de": 0.19,
    "fr": 0.2,
}


def load(path: str) -> dict:
    """Read one file."""
    with open(path) as handle:
        data = json.load(handle)
    return data


class Cart:
    """A cart."""

    currency = "EUR"

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.items: list[Item] = []

    def add(self, item: Item) -> None:
        if item in self.items:
            raise ValueError(item)
        self.items.append(item)

    def total(self) -> float:
        result = 0.0
        for item in self.items:
            result += item.price
        return result


class Archive(Cart):
    def add(self, item: Item) -> None:
        super().add(item)
        self.flush()

    def flush(self) -> None:
        pass


def main() -> None:
    cart = Cart("me")
    cart.add(Item("book", 3.0))
    print(cart.total())


if __name__ == "__main__":
    main()
'''
TYPESCRIPT = """\
import express from "express";
import { readConfig } from "./config";
import { logger } from "./logger";

const app = express();
const PORT = 3000;

interface User {
  id: number;
  name: string;
}

const users: User[] = [];

app.get("/users", (req, res) => {
  res.json(users);
});

app.get("/users/:id", (req, res) => {
  const user = users.find((u) => u.id === Number(req.params.id));
  if (!user) {
    res.status(404).end();
    return;
  }
  res.json(user);
});

export function createUser(name: string): User {
  const user = { id: users.length + 1, name };
  users.push(user);
  return user;
}

export class Session {
  private token = "";

  constructor(private readonly user: User) {}

  start(): void {
    this.token = Math.random().toString(36);
    logger.info("started");
  }

  stop(): void {
    this.token = "";
  }
}

app.listen(PORT, () => {
  logger.info(`listening on ${PORT}`);
});
"""
GO = """\
package store

import (
	"errors"
	"fmt"
)

// ErrMissing is returned for unknown keys.
var ErrMissing = errors.New("missing")

type Store struct {
	rows map[string]string
	size int
}

func New() *Store {
	return &Store{rows: map[string]string{}}
}

func (s *Store) Get(key string) (string, error) {
	value, ok := s.rows[key]
	if !ok {
		return "", ErrMissing
	}
	return value, nil
}

func (s *Store) Put(key, value string) error {
	if key == "" {
		return fmt.Errorf("empty key")
	}
	s.rows[key] = value
	s.size++
	return nil
}
"""
YAML = """\
name: ci
on:
  push:
    branches: [main]

jobs:
  lint:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: make lint

  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.11"
      - run: make test
"""
FILES = {
    "python": ("shop/cart.py", PYTHON),
    "typescript": ("src/app.ts", TYPESCRIPT),
    "go": ("store/store.go", GO),
    "yaml": (".github/workflows/ci.yml", YAML),
}
# Name, language, reply, instruction, and what changes: old text and new text.
CASES: list[tuple[str, str, str, str, dict[str, str]]] = [
    (
        "after a method in fence",
        "python",
        "Sure! Add this method to `Cart` right after `add`:\n\n```python\n"
        "    def clear(self) -> None:\n        self.items = []\n```\n\nThat empties the cart.\n",
        "",
        {
            "        self.items.append(item)\n": (
                "        self.items.append(item)\n\n    def clear(self) -> None:\n        self.items = []\n"
            )
        },
    ),
    (
        "dedented method in fence",
        "python",
        "Add a `clear` method to the `Cart` class, after `total`:\n\n```python\n"
        "def clear(self) -> None:\n    self.items = []\n```\n",
        "",
        {"        return result\n": "        return result\n\n    def clear(self) -> None:\n        self.items = []\n"},
    ),
    (
        "comment: after foo function",
        "python",
        "# Add this after the `load` function:\ndef save(path: str, data: dict) -> None:\n"
        '    with open(path, "w") as handle:\n        json.dump(data, handle)\n',
        "",
        {
            "    return data\n": (
                "    return data\n\n\ndef save(path: str, data: dict) -> None:\n"
                '    with open(path, "w") as handle:\n        json.dump(data, handle)\n'
            )
        },
    ),
    (
        "two prose steps no fence",
        "python",
        "At the top of the file, add:\n\nimport logging\n\n"
        'Then in `main`, right before the print:\n\n    logging.info("ready")\n',
        "",
        {
            "import json\nimport os\n": "import logging\nimport json\nimport os\n",
            "    print(cart.total())\n": '    logging.info("ready")\n    print(cart.total())\n',
        },
    ),
    (
        "preposition only leads",
        "python",
        "In `Cart.__init__`, after `self.owner = owner`:\n\n        self.created = now()\n\n"
        'In `main`, after the `cart.add(...)` call:\n\n    cart.add(Item("pen", 1.0))\n',
        "",
        {
            "        self.owner = owner\n": "        self.owner = owner\n        self.created = now()\n",
            '    cart.add(Item("book", 3.0))\n': '    cart.add(Item("book", 3.0))\n    cart.add(Item("pen", 1.0))\n',
        },
    ),
    (
        "steps with numbers and fences",
        "python",
        "1. First, add the constant below `LIMIT`:\n\n```python\nMAX_ITEMS = 50\n```\n\n"
        "2. Then check it at the start of `Cart.add`:\n\n```python\n"
        "if len(self.items) >= MAX_ITEMS:\n    raise OverflowError(MAX_ITEMS)\n```\n",
        "",
        {
            "LIMIT = 10\n": "LIMIT = 10\nMAX_ITEMS = 50\n",
            "        if item in self.items:\n": (
                "        if len(self.items) >= MAX_ITEMS:\n            raise OverflowError(MAX_ITEMS)\n"
                "        if item in self.items:\n"
            ),
        },
    ),
    (
        "bold headings",
        "python",
        "**1. Update `LIMIT`**\n\n```python\nLIMIT = 20\n```\n\n"
        "**2. Add `discount` to `Cart`, just before `total`**\n\n```python\n"
        "    def discount(self) -> float:\n        return 0.1 * self.total()\n```\n",
        "",
        {
            "LIMIT = 10\n": "LIMIT = 20\n",
            "    def total(self)": (
                "    def discount(self) -> float:\n        return 0.1 * self.total()\n\n    def total(self)"
            ),
        },
    ),
    (
        "replace body in instruction",
        "python",
        "        return sum(item.price for item in self.items)\n",
        "Replace the body of `Cart.total` with this:",
        {
            "        result = 0.0\n        for item in self.items:\n"
            "            result += item.price\n        return result\n": (
                "        return sum(item.price for item in self.items)\n"
            )
        },
    ),
    (
        "instruction: I will add",
        "python",
        'def save(path: str, data: dict) -> None:\n    with open(path, "w") as handle:\n'
        "        json.dump(data, handle)\n",
        "I am adding a save function right after load.",
        {
            "    return data\n": (
                "    return data\n\n\ndef save(path: str, data: dict) -> None:\n"
                '    with open(path, "w") as handle:\n        json.dump(data, handle)\n'
            )
        },
    ),
    (
        "instruction: adding dict entry",
        "python",
        '    "at": 0.2,\n',
        "Add an entry for Austria to the end of the RATES dict.",
        {'    "fr": 0.2,\n': '    "fr": 0.2,\n    "at": 0.2,\n'},
    ),
    (
        "instruction dedented statement",
        "python",
        'logger.info("added %s", item)\n',
        "Log each added item at the end of Cart.add.",
        {
            "            raise ValueError(item)\n        self.items.append(item)\n": (
                "            raise ValueError(item)\n        self.items.append(item)\n"
                '        logger.info("added %s", item)\n'
            )
        },
    ),
    (
        "comment: two line directive",
        "python",
        "# In Cart.total, replace the\n# `for item in self.items` loop with:\n"
        "        result = sum(item.price for item in self.items)\n",
        "",
        {
            "        for item in self.items:\n            result += item.price\n": (
                "        result = sum(item.price for item in self.items)\n"
            )
        },
    ),
    (
        "comment: numbered steps",
        "python",
        "# 1. Below LIMIT, add:\nMIN = 1\n\n# 2. In main, before the print call, add:\n"
        '    cart.add(Item("pen", MIN))\n',
        "",
        {
            "LIMIT = 10\n": "LIMIT = 10\nMIN = 1\n",
            "    print(cart.total())\n": '    cart.add(Item("pen", MIN))\n    print(cart.total())\n',
        },
    ),
    (
        "comment: delete then add",
        "python",
        "# Delete the `flush` method of Archive completely.\n\n"
        "# Then replace the call to it in Archive.add with:\n        self.store()\n",
        "",
        {"        self.flush()\n\n    def flush(self) -> None:\n        pass\n": "        self.store()\n"},
    ),
    (
        "trailing paren note",
        "python",
        '# Add this in load(), right after the with block:\n    data["path"] = path\n\n'
        "(no blank line before the return)\n",
        "",
        {"        data = json.load(handle)\n": '        data = json.load(handle)\n    data["path"] = path\n'},
    ),
    (
        "ts: route after route",
        "typescript",
        "Add a POST route after the `/users/:id` handler:\n\n```ts\n"
        'app.post("/users", (req, res) => {\n'
        "  res.status(201).json(createUser(req.body.name));\n});\n```\n",
        "",
        {
            "  res.json(user);\n});\n": (
                '  res.json(user);\n});\n\napp.post("/users", (req, res) => {\n'
                "  res.status(201).json(createUser(req.body.name));\n});\n"
            )
        },
    ),
    (
        "ts: import and use, prose",
        "typescript",
        'Import `cors` below the express import:\n\n```ts\nimport cors from "cors";\n```\n\n'
        "and register it right after `const app = express();`:\n\n```ts\napp.use(cors());\n"
        "```\n",
        "",
        {
            'from "express";\n': 'from "express";\nimport cors from "cors";\n',
            "const app = express();\n": "const app = express();\napp.use(cors());\n",
        },
    ),
    (
        "ts: property of interface",
        "typescript",
        "// in interface User, after name:\n  email: string;\n",
        "",
        {"  name: string;\n}": "  name: string;\n  email: string;\n}"},
    ),
    (
        "ts: replace if block",
        "typescript",
        "In the `/users/:id` handler, replace the `if (!user) { ... }` block with:\n\n```ts\n"
        "  if (user === undefined) {\n"
        '    return res.status(404).json({ error: "not found" });\n  }\n```\n',
        "",
        {
            "  if (!user) {\n    res.status(404).end();\n    return;\n  }\n": (
                '  if (user === undefined) {\n    return res.status(404).json({ error: "not found" });\n  }\n'
            )
        },
    ),
    (
        "ts: between methods comment",
        "typescript",
        "// Add between start() and stop() in class Session:\n  isActive(): boolean {\n"
        '    return this.token !== "";\n  }\n',
        "",
        {"  stop(): void {": '  isActive(): boolean {\n    return this.token !== "";\n  }\n\n  stop(): void {'},
    ),
    (
        "ts: multi comment parens",
        "typescript",
        '// Then add this right after the "/users" route\n// (before the "/users/:id" one):\n'
        'app.get("/health", (req, res) => {\n  res.json({ ok: true });\n});\n',
        "",
        {
            "  res.json(users);\n});\n": (
                '  res.json(users);\n});\n\napp.get("/health", (req, res) => {\n  res.json({ ok: true });\n});\n'
            )
        },
    ),
    (
        "ts: end of file prose",
        "typescript",
        "And at the very end of the file:\n\n```ts\nexport default app;\n```\n",
        "",
        {
            "  logger.info(`listening on ${PORT}`);\n});\n": (
                "  logger.info(`listening on ${PORT}`);\n});\n\nexport default app;\n"
            )
        },
    ),
    (
        "ts: instruction constructor",
        "typescript",
        '    logger.debug("stopping");\n',
        "At the start of Session.stop, log a debug line.",
        {"  stop(): void {\n": '  stop(): void {\n    logger.debug("stopping");\n'},
    ),
    (
        "go: method after New",
        "go",
        "Add a `Len` method right after `New`:\n\n```go\nfunc (s *Store) Len() int {\n\treturn s.size\n}\n```\n",
        "",
        {
            "rows: map[string]string{}}\n}\n": (
                "rows: map[string]string{}}\n}\n\nfunc (s *Store) Len() int {\n\treturn s.size\n}\n"
            )
        },
    ),
    (
        "go: struct field + replace",
        "go",
        "// Add to the Store struct, after size:\n\tmu   sync.Mutex\n\n"
        "// And in Put, replace `s.size++` with:\n\ts.mu.Lock()\n\ts.size++\n\ts.mu.Unlock()\n",
        "",
        {
            "\tsize int\n": "\tsize int\n\tmu   sync.Mutex\n",
            "\ts.size++\n": "\ts.mu.Lock()\n\ts.size++\n\ts.mu.Unlock()\n",
        },
    ),
    (
        "go: everything after to end",
        "go",
        '// In Put: replace everything after the `if key == ""` check\n'
        "// (to the end of the function body) with:\n\treturn s.write(key, value)\n",
        "",
        {"\ts.rows[key] = value\n\ts.size++\n\treturn nil\n": "\treturn s.write(key, value)\n"},
    ),
    (
        "go: import",
        "go",
        'Add `sync` to the imports, after `fmt`:\n\n```go\n\t"sync"\n```\n',
        "",
        {'\t"fmt"\n': '\t"fmt"\n\t"sync"\n'},
    ),
    (
        "yaml: step after checkout in job test",
        "yaml",
        "In the `test` job, add a cache step right after the checkout step:\n\n```yaml\n"
        "      - uses: actions/cache@v4\n        with:\n          path: ~/.cache\n```\n",
        "",
        {
            "      - uses: actions/checkout@v4\n      - uses: actions/setup": (
                "      - uses: actions/checkout@v4\n      - uses: actions/cache@v4\n        with:\n"
                "          path: ~/.cache\n      - uses: actions/setup"
            )
        },
    ),
    (
        "yaml: job at the end",
        "yaml",
        "# Add a new job at the end, after `test`:\n  build:\n    runs-on: ubuntu-latest\n"
        "    steps:\n      - run: make build\n",
        "",
        {
            "      - run: make test\n": (
                "      - run: make test\n\n  build:\n    runs-on: ubuntu-latest\n    steps:\n      - run: make build\n"
            )
        },
    ),
    (
        "yaml: instruction",
        "yaml",
        "    timeout-minutes: 10\n",
        "In the test job, below runs-on, set a timeout.",
        {"  test:\n    runs-on: ubuntu-latest\n": "  test:\n    runs-on: ubuntu-latest\n    timeout-minutes: 10\n"},
    ),
    (
        "py: swap decorator",
        "python",
        "Right above `def total`, add the decorator:\n\n```python\n    @property\n```\n\n"
        "and in `main()` change the print to:\n\n```python\n    print(cart.total)\n```\n",
        "",
        {
            "    def total(self)": "    @property\n    def total(self)",
            "    print(cart.total())\n": "    print(cart.total)\n",
        },
    ),
    (
        "py: wrap from-to",
        "python",
        "In `load`, replace everything from `with open(path)` to the `return data` line with:\n"
        "\n```python\n    return json.loads(Path(path).read_text())\n```\n",
        "",
        {
            "    with open(path) as handle:\n        data = json.load(handle)\n    return data\n": (
                "    return json.loads(Path(path).read_text())\n"
            )
        },
    ),
    (
        "py: class attr comment below",
        "python",
        "# Cart: below `currency`\n    vat = 0.19\n",
        "",
        {'    currency = "EUR"\n': '    currency = "EUR"\n    vat = 0.19\n'},
    ),
]


@pytest.mark.parametrize(
    ("language", "update", "instruction", "changes"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_words_tell_the_place(language: str, update: str, instruction: str, changes: dict[str, str]) -> None:
    path, original = FILES[language]
    wanted = original
    for old, new in changes.items():
        assert wanted.count(old) == 1
        wanted = wanted.replace(old, new)
    reply = read_reply(update, original=original, path=path, language=language)
    said = "\n".join(filter(None, [instruction, reply.prose]))
    found = readings(original, reply.update, language=language, path=path, instruction=said)
    assert wanted in [reading.text for reading, _ in found]


def test_no_reading_writes_a_comment_that_is_carried_out() -> None:
    update = "# Add this after the `load` function:\ndef save(path: str) -> None:\n    pass\n"
    found = readings(PYTHON, update, language="python", path="shop/cart.py")
    assert not any("Add this" in reading.text for reading, _ in found)
