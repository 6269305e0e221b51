// What the page offers to load: name, file and edit, and who decides if that is not the default.

export const EXAMPLES = [
  {
    name: "Lazy snippet",
    path: "cart.py",
    original: `from dataclasses import dataclass, field


@dataclass
class Item:
    name: str
    price: int
    quantity: int = 1


@dataclass
class Cart:
    items: list[Item] = field(default_factory=list)
    discount: int = 0

    def add(self, item: Item) -> None:
        self.items.append(item)

    def remove(self, name: str) -> None:
        self.items = [item for item in self.items if item.name != name]

    def total(self) -> int:
        return sum(item.price for item in self.items)

    def is_empty(self) -> bool:
        return not self.items
`,
    update: `# ... existing code ...

    def add(self, item: Item) -> None:
        if item.quantity < 1:
            raise ValueError(f"no {item.name} to add")
        self.items.append(item)

    # ... existing code ...

    def total(self) -> int:
        full = sum(item.price * item.quantity for item in self.items)
        return full * (100 - self.discount) // 100

    def is_empty(self) -> bool:
        return not self.items
`,
  },
  {
    name: "Two readings",
    path: "load.py",
    original: `import json
import logging
from pathlib import Path

log = logging.getLogger(__name__)


def load(path: Path) -> dict:
    text = open(path).read()
    log.debug("read %s", path)
    settings = json.loads(text)
    settings["source"] = str(path)
    return settings
`,
    update: `def load(path: Path) -> dict:
    text = path.read_text(encoding="utf-8")
    # ... existing code ...
    return dict(sorted(settings.items()))
`,
  },
  {
    name: "A model alone",
    path: "queue.go",
    strategy: "model",
    original: `package queue

import "sync"

type Queue struct {
	mu    sync.Mutex
	items []string
}

func (q *Queue) Push(item string) {
	q.mu.Lock()
	q.items = append(q.items, item)
	q.mu.Unlock()
}

func (q *Queue) Pop() (string, bool) {
	if len(q.items) == 0 {
		return "", false
	}
	item := q.items[0]
	q.items = q.items[1:]
	return item, true
}
`,
    update: `func (q *Queue) Pop() (string, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	// ... existing code ...
}

func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}
`,
  },
  {
    name: "Search and replace",
    path: "format.ts",
    original: `export function price(cents: number): string {
  return "$" + cents / 100;
}

export function plural(n: number, word: string): string {
  return n === 1 ? word : word + "s";
}
`,
    update: `<<<<<<< SEARCH
  return "$" + cents / 100;
=======
  return new Intl.NumberFormat("en", { style: "currency", currency: "USD" }).format(cents / 100);
>>>>>>> REPLACE
`,
  },
  {
    name: "A chat reply",
    path: "retry.rs",
    original: `pub fn retry<T, E>(mut work: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let mut left = 3;
    loop {
        match work() {
            Ok(value) => return Ok(value),
            Err(error) if left == 0 => return Err(error),
            Err(_) => left -= 1,
        }
    }
}
`,
    update: `Sure! The number of attempts is now a parameter:

\`\`\`diff
--- a/retry.rs
+++ b/retry.rs
@@ -1,4 +1,4 @@
-pub fn retry<T, E>(mut work: impl FnMut() -> Result<T, E>) -> Result<T, E> {
-    let mut left = 3;
+pub fn retry<T, E>(attempts: u32, mut work: impl FnMut() -> Result<T, E>) -> Result<T, E> {
+    let mut left = attempts;
     loop {
         match work() {
\`\`\`

Let me know if you need anything else.
`,
  },
  {
    name: "A broken edit",
    path: "limits.js",
    original: `export const limits = {
  requests: 100,
  seconds: 60,
};

export function isAllowed(count) {
  return count < limits.requests;
}
`,
    update: `export function isAllowed(count, burst = 0) {
  return count < (limits.requests + burst;
}
`,
  },
];
