"""The same in other languages: where the code of a directive goes."""

from __future__ import annotations

import pytest

from apply_service.merge.words.sites import merge_placed

GO = """\
package main

import (
	"fmt"
	"os"
)

// Config holds settings.
type Config struct {
	Name string
	Port int
}

func load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	cfg := &Config{}
	if len(data) == 0 {
		cfg.Port = 80
	} else {
		cfg.Port = 8080
	}
	return cfg, nil
}

func main() {
	cfg, _ := load("x")
	fmt.Println(cfg.Name)
	fmt.Println(cfg.Port)
}
"""

CSS = """\
.card {
  color: red;
  padding: 4px;
}

.card:hover {
  color: blue;
}

@media (max-width: 600px) {
  .card {
    padding: 2px;
  }
}
"""

HTML = """\
<html>
  <head>
    <title>Demo</title>
    <link rel="stylesheet" href="a.css">
  </head>
  <body>
    <nav id="top">
      <a href="/">Home</a>
      <a href="/docs">Docs</a>
    </nav>
    <main>
      <p>Hello</p>
    </main>
  </body>
</html>
"""

CLASSES = """\
class A:
    \"\"\"First class.\"\"\"

    name = "a"

    def run(self):
        if self.name:
            print("on")
        else:
            print("off")
        raise ValueError("x")

    def stop(self):
        return 1


class B:
    \"\"\"Second class.\"\"\"

    name = "b"

    def run(self):
        start()
        try:
            work()
        except OSError:
            raise
        finally:
            close()
        raise KeyError("y")

    def stop(self):
        return 2


TABLE = {
    "one": 1,
    "two": 2,
    "three": 3,
}
"""

SHELL = """\
#!/bin/bash
set -e

DIR=/tmp
NAME=app

build() {
  make all
  make check
}

deploy() {
  scp "$NAME" host:
}

build
deploy
"""

TOML = """\
[package]
name = "x"
version = "0.1"

[dependencies]
serde = "1"
rand = "0.8"

[dev-dependencies]
tempfile = "3"
"""

SERVICE = """\
import { Router } from "express";
import { z } from "zod";

interface User {
  id: number;
  name: string;
}

const LIMIT = 50;

export class UserService {
  private cache = new Map<number, User>();

  constructor(private db: Db) {}

  async find(id: number): Promise<User | null> {
    const hit = this.cache.get(id);
    if (hit) {
      return hit;
    }
    const row = await this.db.get(id);
    return row ?? null;
  }

  async remove(id: number) {
    await this.db.delete(id);
    this.cache.delete(id);
  }
}

export const router = Router();

router.get("/users/:id", async (req, res) => {
  const user = await service.find(Number(req.params.id));
  res.json(user);
});

router.delete("/users/:id", async (req, res) => {
  await service.remove(Number(req.params.id));
  res.status(204).end();
});
"""

RUST = """\
use std::fs;
use std::io;

#[derive(Debug)]
pub struct Options {
    pub depth: usize,
}

impl Options {
    pub fn new() -> Self {
        Self { depth: 1 }
    }
}

fn read(path: &str) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    Ok(text)
}

fn main() {
    match read("a") {
        Ok(text) => println!("{}", text),
        Err(e) => eprintln!("{}", e),
    }
}
"""

GUIDE = """\
# Guide

Intro text here.

## Setup

1. Clone the repo
2. Install it
3. Run it

## Options

| Name | Meaning |
| --- | --- |
| depth | How deep |
| limit | How many |

## FAQ

### Why?

Because.
"""

COMPOSE = """\
version: 3
services:
  web:
    image: web:1
    ports:
      - "80:80"
    environment:
      MODE: prod
  db:
    image: postgres:14
    environment:
      USER: a
volumes:
  data: {}
"""

RUBY = """\
require "json"
require "set"

class Store
  attr_reader :rows

  def initialize(path)
    @path = path
    @rows = []
  end

  def load
    JSON.parse(File.read(@path))
  rescue Errno::ENOENT
    []
  end
end
"""

CASES = [
    (GO, "go", '// imports: between fmt and os\n\t"io"', [('\t"os"\n', '\t"io"\n\t"os"\n')]),
    (GO, "go", "// Config: new field after Port\n\tHost string", [("\tPort int\n", "\tPort int\n\tHost string\n")]),
    (
        GO,
        "go",
        "// load(): the whole if/else on len(data) becomes\n\tcfg.Port = 80",
        [("\tif len(data) == 0 {\n\t\tcfg.Port = 80\n\t} else {\n\t\tcfg.Port = 8080\n\t}\n", "\tcfg.Port = 80\n")],
    ),
    (
        GO,
        "go",
        "// main: replaces both Println lines\n\tfmt.Println(cfg)",
        [("\tfmt.Println(cfg.Name)\n\tfmt.Println(cfg.Port)\n", "\tfmt.Println(cfg)\n")],
    ),
    (
        GO,
        "go",
        "// goes right above func main\nfunc (c *Config) String() string {\n\treturn c.Name\n}",
        [("func main", "func (c *Config) String() string {\n\treturn c.Name\n}\n\nfunc main")],
    ),
    (GO, "go", "// drop the Name field from Config", [("\tName string\n", "")]),
    (
        CSS,
        "css",
        "/* add to .card, below color */\n  margin: 0;",
        [("  color: red;\n", "  color: red;\n  margin: 0;\n")],
    ),
    (
        CSS,
        "css",
        "/* inside the media query: replaces the padding */\n    padding: 1px;",
        [("    padding: 2px;", "    padding: 1px;")],
    ),
    (
        CSS,
        "css",
        "/* new rule, between .card:hover and the media query */\n.card:focus {\n  color: green;\n}",
        [("@media", ".card:focus {\n  color: green;\n}\n\n@media")],
    ),
    (
        HTML,
        "html",
        '<!-- in <head>, right after the title -->\n    <meta charset="utf-8">',
        [("</title>\n", '</title>\n    <meta charset="utf-8">\n')],
    ),
    (
        HTML,
        "html",
        '<!-- nav: last link, after Docs -->\n      <a href="/x">X</a>',
        [("Docs</a>\n", 'Docs</a>\n      <a href="/x">X</a>\n')],
    ),
    (HTML, "html", "<!-- replaces the Hello paragraph -->\n      <p>Bye</p>", [("Hello", "Bye")]),
    (
        CLASSES,
        "python",
        "# in class B only: replaces stop()\n    def stop(self):\n        return 3",
        [("        return 2", "        return 3")],
    ),
    (
        CLASSES,
        "python",
        "# B.run: the try block is replaced by a plain call\n        work()",
        [
            (
                "        try:\n            work()\n        except OSError:\n            raise\n"
                "        finally:\n            close()\n",
                "        work()\n",
            )
        ],
    ),
    (
        CLASSES,
        "python",
        '# class A: new class docstring\n    """The first class."""',
        [('"""First class."""', '"""The first class."""')],
    ),
    (CLASSES, "python", '# B.run: replaces the last raise\n        raise KeyError("z")', [('"y"', '"z"')]),
    (
        CLASSES,
        "python",
        "# A.run(): the if/else goes away, this takes its place\n        print(self.name)",
        [
            (
                '        if self.name:\n            print("on")\n        else:\n            print("off")\n',
                "        print(self.name)\n",
            )
        ],
    ),
    (
        CLASSES,
        "python",
        '# TABLE: append after "three"\n    "four": 4,',
        [('    "three": 3,\n', '    "three": 3,\n    "four": 4,\n')],
    ),
    (
        CLASSES,
        "python",
        "# at the top of B.run(), ahead of start()\n        check()",
        [("        start()\n", "        check()\n        start()\n")],
    ),
    (CLASSES, "python", "# removes A.stop()", [("    def stop(self):\n        return 1\n\n\nclass B", "\nclass B")]),
    (CLASSES, "python", '# TABLE: the "two" entry is now\n    "two": 22,', [('"two": 2', '"two": 22')]),
    (CLASSES, "python", "# insert at the top of the file\nimport os", [("class A:", "import os\n\n\nclass A:")]),
    (
        SHELL,
        "bash",
        "# build(): add between make all and make check\n  make docs",
        [("  make check", "  make docs\n  make check")],
    ),
    (SHELL, "bash", "# below NAME=app\nHOST=h", [("NAME=app\n", "NAME=app\nHOST=h\n")]),
    (SHELL, "bash", "# delete the final deploy call", [("build\ndeploy\n", "build\n")]),
    (
        SHELL,
        "bash",
        "# new function; place it after deploy() and before the build call\nclean() {\n  rm -f x\n}",
        [("\nbuild\ndeploy", "\nclean() {\n  rm -f x\n}\n\nbuild\ndeploy")],
    ),
    (
        TOML,
        "toml",
        '# [dependencies]: add below rand\nlog = "0.4"',
        [('rand = "0.8"\n', 'rand = "0.8"\nlog = "0.4"\n')],
    ),
    (TOML, "toml", '# package version bump, replaces the version line\nversion = "0.2"', [("0.1", "0.2")]),
    (
        TOML,
        "toml",
        "# new section at the end of the file\n[features]\ndefault = []",
        [('tempfile = "3"\n', 'tempfile = "3"\n\n[features]\ndefault = []\n')],
    ),
    (
        TOML,
        "toml",
        "# new table, goes before [dev-dependencies]\n[features]\ndefault = []",
        [("[dev-", "[features]\ndefault = []\n\n[dev-")],
    ),
    (
        SERVICE,
        "typescript",
        '// third import, after zod\nimport { Db } from "./db";',
        [('from "zod";\n', 'from "zod";\nimport { Db } from "./db";\n')],
    ),
    (
        SERVICE,
        "typescript",
        "// User interface: one more field at the end\n  email?: string;",
        [("  name: string;\n", "  name: string;\n  email?: string;\n")],
    ),
    (
        SERVICE,
        "typescript",
        "// find(): cache the row, goes right before the final return\n    this.cache.set(id, row);",
        [("    return row", "    this.cache.set(id, row);\n    return row")],
    ),
    (
        SERVICE,
        "typescript",
        "// the `if (hit)` block in find becomes a one-liner\n    if (hit) return hit;",
        [("    if (hit) {\n      return hit;\n    }\n", "    if (hit) return hit;\n")],
    ),
    (
        SERVICE,
        "typescript",
        "// new method in UserService, between find and remove\n  async list() {\n    return this.db.all();\n  }",
        [("  async remove", "  async list() {\n    return this.db.all();\n  }\n\n  async remove")],
    ),
    (
        SERVICE,
        "typescript",
        "// new route, put it above router.delete\n"
        'router.post("/users", async (req, res) => {\n  res.status(201).end();\n});',
        [
            (
                'router.delete("',
                'router.post("/users", async (req, res) => {\n  res.status(201).end();\n});\n\nrouter.delete("',
            )
        ],
    ),
    (SERVICE, "typescript", "// LIMIT: bump it\nconst LIMIT = 100;", [("50", "100")]),
    (
        SERVICE,
        "typescript",
        "// in the delete route: await line is replaced by\n  await service.drop(Number(req.params.id));",
        [("service.remove(", "service.drop(")],
    ),
    (SERVICE, "typescript", "// remove() loses its cache.delete line\n", [("    this.cache.delete(id);\n", "")]),
    (
        SERVICE,
        "typescript",
        "// at the end of UserService, following remove()\n  clear() {\n    this.cache.clear();\n  }",
        [
            (
                "    this.cache.delete(id);\n  }\n",
                "    this.cache.delete(id);\n  }\n\n  clear() {\n    this.cache.clear();\n  }\n",
            )
        ],
    ),
    (
        RUST,
        "rust",
        "// with the use lines at the top, below std::io\nuse std::path::Path;",
        [("use std::io;\n", "use std::io;\nuse std::path::Path;\n")],
    ),
    (
        RUST,
        "rust",
        "// Options: second field\n    pub limit: usize,",
        [("    pub depth: usize,\n", "    pub depth: usize,\n    pub limit: usize,\n")],
    ),
    (
        RUST,
        "rust",
        "// replaces the derive on Options\n#[derive(Debug, Clone)]",
        [("#[derive(Debug)]", "#[derive(Debug, Clone)]")],
    ),
    (
        RUST,
        "rust",
        '// main: the match is replaced with\n    println!("{}", read("a").unwrap());',
        [
            (
                '    match read("a") {\n        Ok(text) => println!("{}", text),\n'
                '        Err(e) => eprintln!("{}", e),\n    }\n',
                '    println!("{}", read("a").unwrap());\n',
            )
        ],
    ),
    (
        RUST,
        "rust",
        "// impl Options: after new()\n    pub fn deep() -> Self {\n        Self { depth: 9 }\n    }",
        [
            (
                "        Self { depth: 1 }\n    }\n",
                "        Self { depth: 1 }\n    }\n\n    pub fn deep() -> Self {\n        Self { depth: 9 }\n    }\n",
            )
        ],
    ),
    (GUIDE, "markdown", "<!-- Setup list: goes after step 3 -->\n4. Enjoy", [("3. Run it\n", "3. Run it\n4. Enjoy\n")]),
    (
        GUIDE,
        "markdown",
        "<!-- options table: new row below depth -->\n| width | How wide |",
        [("| How deep |\n", "| How deep |\n| width | How wide |\n")],
    ),
    (
        GUIDE,
        "markdown",
        "<!-- replaces the intro sentence under the title -->\nA longer intro.",
        [("Intro text here.", "A longer intro.")],
    ),
    (
        GUIDE,
        "markdown",
        "<!-- at the end of the FAQ -->\n### How?\n\nWell.",
        [("Because.\n", "Because.\n\n### How?\n\nWell.\n")],
    ),
    (
        COMPOSE,
        "yaml",
        "# services.db.environment: add after USER\n      PASS: b",
        [("      USER: a\n", "      USER: a\n      PASS: b\n")],
    ),
    (COMPOSE, "yaml", "# web: new image tag\n    image: web:2", [("web:1", "web:2")]),
    (
        COMPOSE,
        "yaml",
        "# new service, between web and db\n  cache:\n    image: redis",
        [("  db:", "  cache:\n    image: redis\n  db:")],
    ),
    (COMPOSE, "yaml", "# db only: image bumped\n    image: postgres:16", [("postgres:14", "postgres:16")]),
    (COMPOSE, "yaml", "# drop the ports from web", [('    ports:\n      - "80:80"\n', "")]),
    (COMPOSE, "yaml", "# web.environment: MODE changes\n      MODE: dev", [("prod", "dev")]),
    (
        RUBY,
        "ruby",
        "# Store#load: replaces the rescue part\n  rescue Errno::ENOENT, JSON::ParserError\n    nil",
        [("  rescue Errno::ENOENT\n    []", "  rescue Errno::ENOENT, JSON::ParserError\n    nil")],
    ),
    (
        RUBY,
        "ruby",
        "# add after load, last method of Store\n  def save\n    File.write(@path, @rows.to_json)\n  end",
        [("    []\n  end\nend", "    []\n  end\n\n  def save\n    File.write(@path, @rows.to_json)\n  end\nend")],
    ),
    (
        RUBY,
        "ruby",
        "# in initialize, under @path\n    @size = 0",
        [("    @path = path\n", "    @path = path\n    @size = 0\n")],
    ),
]


@pytest.mark.parametrize(
    ("original", "language", "update", "swaps"), CASES, ids=[case[2].split("\n")[0] for case in CASES]
)
def test_places(original: str, language: str, update: str, swaps: list[tuple[str, str]]) -> None:
    wanted = original
    for old, new in swaps:
        assert wanted.count(old) == 1
        wanted = wanted.replace(old, new)
    lines = original.removesuffix("\n").split("\n")
    readings = merge_placed(lines, update.split("\n"), language=language, path=None)
    assert readings
    assert "\n".join(op.text for op in readings[0][1] if op.kind != "drop") + "\n" == wanted
