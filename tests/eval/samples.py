"""Small files of several languages, written for these tests, and the project's own sources: input for drawn edits."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]

TYPESCRIPT = """\
import { readFile } from "node:fs/promises";
import path from "node:path";

export interface Shelf {
  name: string;
  books: Book[];
}

export interface Book {
  title: string;
  year: number;
}

/** Keeps the shelves of one library. */
export class Library {
  private shelves = new Map<string, Shelf>();

  constructor(private readonly root: string) {}

  async load(name: string): Promise<Shelf> {
    const file = path.join(this.root, `${name}.json`);
    const shelf = JSON.parse(await readFile(file, "utf-8")) as Shelf;
    this.shelves.set(name, shelf);
    return shelf;
  }

  find(title: string): Book | undefined {
    for (const shelf of this.shelves.values()) {
      const book = shelf.books.find((b) => b.title === title);
      if (book) {
        return book;
      }
    }
    return undefined;
  }

  count(): number {
    let total = 0;
    for (const shelf of this.shelves.values()) {
      total += shelf.books.length;
    }
    return total;
  }
}
"""

GO = """\
package store

import (
\t"errors"
\t"sync"
)

var ErrMissing = errors.New("store: missing key")

type Store struct {
\tmu   sync.RWMutex
\tdata map[string]string
}

func New() *Store {
\treturn &Store{data: make(map[string]string)}
}

func (s *Store) Get(key string) (string, error) {
\ts.mu.RLock()
\tdefer s.mu.RUnlock()
\tvalue, ok := s.data[key]
\tif !ok {
\t\treturn "", ErrMissing
\t}
\treturn value, nil
}

func (s *Store) Set(key, value string) {
\ts.mu.Lock()
\tdefer s.mu.Unlock()
\ts.data[key] = value
}

func (s *Store) Delete(key string) {
\ts.mu.Lock()
\tdefer s.mu.Unlock()
\tdelete(s.data, key)
}
"""

YAML = """\
name: checks
on: [push]
jobs:
  lint:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.11"
      - run: make lint
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: make test
"""

CSS = """\
:root {
  --ink: #222;
}

.card {
  color: var(--ink);
  padding: 4px;
}

.card .title {
  font-weight: bold;
}

.card .body {
  padding: 4px;
}
"""

MARKDOWN = """\
# Gardens

## Tools

A spade, a rake, and patience.

## Seasons

- spring: sow
- summer: water
- autumn: reap

## Notes

Nothing grows faster for being watched.
"""

PYTHON = '''\
"""Weather stations and what they measure."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass
class Reading:
    station: str
    celsius: float
    note: str = ""

    @property
    def fahrenheit(self) -> float:
        return self.celsius * 9 / 5 + 32


class Archive:
    """All readings, newest last."""

    def __init__(self) -> None:
        self.readings: list[Reading] = []

    def add(self, reading: Reading) -> None:
        if not reading.station:
            raise ValueError("a reading needs a station")
        self.readings.append(reading)

    def of_station(self, station: str) -> list[Reading]:
        return [r for r in self.readings if r.station == station]

    def warmest(self) -> Reading | None:
        if not self.readings:
            return None
        return max(self.readings, key=lambda r: r.celsius)

    def to_json(self) -> str:
        rows = [vars(r) for r in self.readings]
        return json.dumps(rows, indent=2)


def load(text: str) -> Archive:
    archive = Archive()
    for row in json.loads(text):
        archive.add(Reading(**row))
    return archive
'''

SAMPLES = (
    ("typescript", "src/library.ts", TYPESCRIPT),
    ("go", "store/store.go", GO),
    ("yaml", ".github/workflows/checks.yml", YAML),
    ("css", "card.css", CSS),
    ("markdown", "GARDENS.md", MARKDOWN),
    ("python", "weather/archive.py", PYTHON),
)


def sample_sources() -> list[tuple[str, str, str]]:
    """(language, path, text) of the small files, and of some of the project's own."""
    own = [ROOT / "apply_service" / name for name in ("types.py", "protocols.py", "registry.py", "errors.py")]
    own.append(ROOT / "pyproject.toml")
    language = {".py": "python", ".toml": "toml"}
    return [*SAMPLES, *((language[path.suffix], path.name, path.read_text(encoding="utf-8")) for path in own)]
