"""Twenty edits as models write them, of the files in `project`, and what each is to make of its file.

What is wanted is said by replacements in the file, so that nothing here comes from the service.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parent / "project"


class Edit(NamedTuple):
    """One edit.  `changes`: pairs of what stands once in the file and what is to stand there."""

    kind: str
    file: str
    snippet: str
    changes: tuple[tuple[str, str], ...]
    line_end: str = "\n"

    @property
    def before(self) -> str:
        return (PROJECT / self.file).read_text(encoding="utf-8").replace("\n", self.line_end)

    @property
    def after(self) -> str:
        text = self.before
        for old, new in self.changes:
            old, new = old.replace("\n", self.line_end), new.replace("\n", self.line_end)
            assert text.count(old) == 1, (self.kind, old)
            text = text.replace(old, new)
        return text


EDITS = (
    Edit(
        "a function between two markers",
        "inventory.py",
        """\
# ... existing code ...

def export_csv(inventory: Inventory, path: Path) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["sku", "name", "quantity", "price"])
        for item in inventory.all():
            writer.writerow([item.sku, item.name, item.quantity, item.price])

# ... existing code ...
""",
        (('with open(path, "w") as file:', 'with open(path, "w", newline="", encoding="utf-8") as file:'),),
    ),
    Edit(
        "an import and a function far below",
        "inventory.py",
        """\
import csv
import logging
import math
import sqlite3
# ... existing code ...

    def total_value(self) -> float:
        return math.fsum(item.value() for item in self.all())

# ... existing code ...
""",
        (
            ("import logging\n", "import logging\nimport math\n"),
            (
                "        total = 0.0\n        for item in self.all():\n            total += item.value()\n"
                "        return total\n",
                "        return math.fsum(item.value() for item in self.all())\n",
            ),
        ),
    ),
    Edit(
        "a method with a marker inside",
        "inventory.py",
        """\
class Inventory:
    # ... existing code ...

    def remove(self, sku: str, quantity: int) -> None:
        item = self.get(sku)
        if item is None:
            raise KeyError(sku)
        if item.quantity < quantity:
            raise ValueError(f"only {item.quantity} of {sku} are left")
        # ... existing code ...

    # ... existing code ...
""",
        (
            (
                "            raise KeyError(sku)\n",
                "            raise KeyError(sku)\n        if item.quantity < quantity:\n"
                '            raise ValueError(f"only {item.quantity} of {sku} are left")\n',
            ),
        ),
    ),
    Edit(
        "a new method after a quoted one",
        "inventory.py",
        """\
    # ... existing code ...

    def all(self) -> list[Item]:
        rows = self.connection.execute("SELECT * FROM items ORDER BY sku")
        return [Item(*row) for row in rows]

    def low(self, limit: int) -> list[Item]:
        return [item for item in self.all() if item.quantity < limit]

    # ... existing code ...
""",
        (
            (
                "        return [Item(*row) for row in rows]\n",
                "        return [Item(*row) for row in rows]\n\n    def low(self, limit: int) -> list[Item]:\n"
                "        return [item for item in self.all() if item.quantity < limit]\n",
            ),
        ),
    ),
    Edit(
        "search and replace in a chat reply",
        "inventory.py",
        """\
Sure! The count should not include rows without a SKU; here is the change:

```python
<<<<<<< SEARCH
        for row in csv.DictReader(file):
            item = Item(
=======
        for row in csv.DictReader(file):
            if not row["sku"]:
                continue
            item = Item(
>>>>>>> REPLACE
```

Let me know if you need anything else.
""",
        (
            (
                "        for row in csv.DictReader(file):\n",
                '        for row in csv.DictReader(file):\n            if not row["sku"]:\n                continue\n',
            ),
        ),
    ),
    Edit(
        "a unified diff with wrong line numbers",
        "inventory.py",
        """\
--- a/inventory.py
+++ b/inventory.py
@@ -10,4 +10,5 @@
 @dataclass
 class Item:
     sku: str
     name: str
+    shelf: str
     quantity: int
""",
        (("    name: str\n", "    name: str\n    shelf: str\n"),),
    ),
    Edit(
        "old and new text as JSON",
        "inventory.py",
        '{"old_string": "    log.info(\\"imported %d items\\", count)\\n", '
        '"new_string": "    log.info(\\"imported %d items from %s\\", count, path)\\n"}\n',
        (('log.info("imported %d items", count)', 'log.info("imported %d items from %s", count, path)'),),
    ),
    Edit(
        "a removal in a comment",
        "inventory.py",
        """\
# ... existing code ...

def export_csv(inventory: Inventory, path: Path) -> None:
    # ... existing code ...

# removed report
""",
        (
            (
                "\n\ndef report(inventory: Inventory) -> str:\n    lines = []\n    for item in inventory.all():\n"
                '        lines.append(f"{item.sku:10} {item.name:30} {item.quantity:6d} {item.value():10.2f}")\n'
                '    lines.append(f"total: {inventory.total_value():.2f}")\n    return "\\n".join(lines)\n',
                "",
            ),
        ),
    ),
    Edit(
        "a fenced method of a class in TypeScript",
        "client.ts",
        """\
```typescript
// ... existing code ...
  async send(channel: string, text: string): Promise<Message> {
    if (text.trim() === "") {
      throw new Error("a message needs a text");
    }
    const message = await this.request<Message>("POST", `/channels/${channel}/messages`, { text });
    this.emit("sent", message);
    return message;
  }
// ... existing code ...
```
""",
        (
            (
                "  async send(channel: string, text: string): Promise<Message> {\n",
                "  async send(channel: string, text: string): Promise<Message> {\n"
                '    if (text.trim() === "") {\n      throw new Error("a message needs a text");\n    }\n',
            ),
        ),
    ),
    Edit(
        "a field of an interface and its use",
        "client.ts",
        """\
// ... existing code ...
export interface ClientOptions {
  url: string;
  token: string;
  timeoutMs?: number;
  userAgent?: string;
}

const DEFAULT_TIMEOUT_MS = 5_000;

export class ChatClient extends EventEmitter {
  private readonly url: string;
  private readonly token: string;
  private readonly timeoutMs: number;
  private readonly userAgent: string;
  private cache = new Map<string, Message[]>();

  constructor(options: ClientOptions) {
    super();
    this.url = options.url.replace(/\\/$/, "");
    this.token = options.token;
    this.timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    this.userAgent = options.userAgent ?? "chat-client";
  }
  // ... existing code ...
""",
        (
            ("  timeoutMs?: number;\n", "  timeoutMs?: number;\n  userAgent?: string;\n"),
            (
                "  private readonly timeoutMs: number;\n",
                "  private readonly timeoutMs: number;\n  private readonly userAgent: string;\n",
            ),
            (
                "    this.timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;\n",
                "    this.timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;\n"
                '    this.userAgent = options.userAgent ?? "chat-client";\n',
            ),
        ),
    ),
    Edit(
        "another signature, replaced where it stands",
        "client.ts",
        """\
// ... existing code ...

export function formatMessage(message: Message, withChannel = true): string {
  const time = message.sentAt.toISOString().slice(11, 16);
  return withChannel ? `[${time}] ${message.channel}: ${message.text}` : `[${time}] ${message.text}`;
}
""",
        (
            (
                "export function formatMessage(message: Message): string {",
                "export function formatMessage(message: Message, withChannel = true): string {",
            ),
            (
                "  return `[${time}] ${message.channel}: ${message.text}`;",
                "  return withChannel ? `[${time}] ${message.channel}: ${message.text}` : `[${time}] ${message.text}`;",
            ),
        ),
    ),
    Edit(
        "a constant",
        "client.ts",
        "// ... existing code ...\nconst DEFAULT_TIMEOUT_MS = 10_000;\n// ... existing code ...\n",
        (("const DEFAULT_TIMEOUT_MS = 5_000;", "const DEFAULT_TIMEOUT_MS = 10_000;"),),
    ),
    Edit(
        "a patch of an agent, V4A",
        "store.go",
        """\
*** Begin Patch
*** Update File: store.go
@@ func (s *Store) Len() int {
 \ts.mu.Lock()
 \tdefer s.mu.Unlock()
-\treturn len(s.entries)
+\tn := 0
+\tfor _, e := range s.entries {
+\t\tif time.Now().Before(e.expires) {
+\t\t\tn++
+\t\t}
+\t}
+\treturn n
 }
*** End Patch
""",
        (
            (
                "\treturn len(s.entries)\n",
                "\tn := 0\n\tfor _, e := range s.entries {\n"
                "\t\tif time.Now().Before(e.expires) {\n\t\t\tn++\n\t\t}\n\t}\n"
                "\treturn n\n",
            ),
        ),
    ),
    Edit(
        "a whole function without any marker",
        "store.go",
        """\
func (s *Store) Set(key string, value []byte) {
\ts.mu.Lock()
\tdefer s.mu.Unlock()
\tcopied := append([]byte(nil), value...)
\ts.entries[key] = entry{value: copied, expires: time.Now().Add(s.ttl)}
}
""",
        (
            (
                "\ts.entries[key] = entry{value: value, expires: time.Now().Add(s.ttl)}\n",
                "\tcopied := append([]byte(nil), value...)\n"
                "\ts.entries[key] = entry{value: copied, expires: time.Now().Add(s.ttl)}\n",
            ),
        ),
    ),
    Edit(
        "an arm of a match and a variant in Rust",
        "queue.rs",
        """\
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    Waiting,
    Running,
    Failed,
    Done,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            State::Waiting => "waiting",
            State::Running => "running",
            State::Failed => "failed",
            State::Done => "done",
        };
        // ... existing code ...
    }
}

// ... rest of the code remains the same ...
""",
        (
            ("    Running,\n", "    Running,\n    Failed,\n"),
            (
                '            State::Running => "running",\n',
                '            State::Running => "running",\n            State::Failed => "failed",\n',
            ),
        ),
    ),
    Edit(
        "a key of YAML",
        "deploy.yaml",
        """\
# ... existing code ...
          resources:
            requests:
              memory: 128Mi
            limits:
              memory: 512Mi
""",
        (
            ("          resources:\n", "          resources:\n            requests:\n              memory: 128Mi\n"),
            ("              memory: 256Mi\n", "              memory: 512Mi\n"),
        ),
    ),
    Edit(
        "a dependency in package.json",
        "package.json",
        """\
{
  // ... existing code ...
  "dependencies": {
    "eventsource-parser": "^3.0.0",
    "undici": "^6.19.0"
  },
  // ... existing code ...
}
""",
        (('    "undici": "^6.19.0"\n', '    "eventsource-parser": "^3.0.0",\n    "undici": "^6.19.0"\n'),),
    ),
    Edit(
        "a target of a Makefile",
        "Makefile",
        """\
# ... existing code ...
test: all
\t./run_tests.sh

install: all
\tinstall server client $(PREFIX)/bin

clean:
# ... existing code ...
""",
        (("\t./run_tests.sh\n", "\t./run_tests.sh\n\ninstall: all\n\tinstall server client $(PREFIX)/bin\n"),),
    ),
    Edit(
        "a section of Markdown",
        "guide.md",
        """\
<!-- ... existing code ... -->

Then ask for the history of a channel, or send to it.

## Errors

A call that the service refuses raises an error with its status.

## Limits

<!-- ... existing code ... -->
""",
        (
            (
                "or send to it.\n",
                "or send to it.\n\n## Errors\n\nA call that the service refuses raises an error with its status.\n",
            ),
        ),
    ),
    Edit(
        "a file with Windows line ends",
        "gateway.toml",
        "<<<<<<< SEARCH\nmax_recipients = 50\n=======\nmax_recipients = 100\nmax_connections = 20\n>>>>>>> REPLACE\n",
        (("max_recipients = 50\n", "max_recipients = 100\nmax_connections = 20\n"),),
        line_end="\r\n",
    ),
)
