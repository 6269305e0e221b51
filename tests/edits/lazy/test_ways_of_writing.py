"""The smallest example of each way in which models write lazy snippets: what the merge must be.

One case, one habit.  The files are small, so how sure the merge is says little here; the text is what counts.
"""

from __future__ import annotations

import pytest

from apply_service.merge.merge import merge

CASES = {
    "a stub stays, its header too": (
        "typescript",
        "function load(xs: string[]): number {\n  return xs.length;\n}\n\nfunction save() {\n  write(1);\n}\n",
        "function load(xs: string[]) {\n  // ... existing code ...\n}\n\nfunction save() {\n  write(2);\n}\n",
        "function load(xs: string[]): number {\n  return xs.length;\n}\n\nfunction save() {\n  write(2);\n}\n",
    ),
    "a stub on one line": (
        "go",
        "func a(x int) int {\n\treturn x\n}\n\nfunc b() int {\n\treturn 1\n}\n",
        "func a(x int) int { ... }\n\nfunc b() int {\n\treturn 2\n}\n",
        "func a(x int) int {\n\treturn x\n}\n\nfunc b() int {\n\treturn 2\n}\n",
    ),
    "placed by a comment": (
        "javascript",
        "function parseArgs() {\n  return 1;\n}\n\nfunction main() {\n  return 2;\n}\n",
        "// add right after parseArgs\nfunction parseTail() {\n  return 3;\n}\n",
        "function parseArgs() {\n  return 1;\n}\n\nfunction parseTail() {\n  return 3;\n}\n\n"
        "function main() {\n  return 2;\n}\n",
    ),
    "a changed signature": (
        "rust",
        "impl A {\n    pub fn draw(self, n: u8) {\n        go(n);\n    }\n}\n",
        "impl A {\n    pub fn draw(&self, n: u8) {\n        go(n);\n    }\n}\n",
        "impl A {\n    pub fn draw(&self, n: u8) {\n        go(n);\n    }\n}\n",
    ),
    "nothing goes between two blocks with a marker between": (
        "python",
        "a = 1\nb = 2\nc = 3\nd = 4\ne = 5\n",
        "a = 10\n# ... existing code ...\ne = 50\n",
        "a = 10\nb = 2\nc = 3\nd = 4\ne = 50\n",
    ),
    "prefixes of a diff without a header": (
        "python",
        "import os\n\n\ndef run():\n    a = 1\n    b = 2\n    return a\n",
        " def run():\n-    a = 1\n+    a = 3\n     b = 2\n",
        "import os\n\n\ndef run():\n    a = 3\n    b = 2\n    return a\n",
    ),
    "a list in Markdown is no diff": (
        "markdown",
        "# Title\n\n- one\n- two\n",
        "# Title\n\n- one\n- two\n- three\n",
        "# Title\n\n- one\n- two\n- three\n",
    ),
    "a value that stays": (
        "yaml",
        "server:\n  host: localhost\n  port: 3000\n  debug: false\n",
        "server:\n  host: localhost\n  port: # ... unchanged\n  debug: true\n",
        "server:\n  host: localhost\n  port: 3000\n  debug: true\n",
    ),
    "a key that is set again": (
        "toml",
        '[tool]\nblack = "22"\nruff = "0.1.1"\nmypy = "1"\n',
        '[tool]\n# ...\nruff = "0.1.2"\n# ...\n',
        '[tool]\nblack = "22"\nruff = "0.1.2"\nmypy = "1"\n',
    ),
    "an assignment replaces its own": ("python", "a = 1\nb = 2\n", "a = 10\n", "a = 10\nb = 2\n"),
    "the same key in another section is left alone": (
        "yaml",
        "linux:\n  runs-on: ubuntu\n  name: Linux\n\nbsd:\n  runs-on: macos\n  name: BSD\n",
        "bsd:\n  runs-on: ubuntu\n  # ...\n",
        "linux:\n  runs-on: ubuntu\n  name: Linux\n\nbsd:\n  runs-on: ubuntu\n  name: BSD\n",
    ),
    "a new definition below a stub stands right behind it": (
        "python",
        "class A:\n    def a(self):\n        return check(1)\n\n    def b(self):\n        return check(2)\n\n"
        "    def c(self):\n        return check(3)\n",
        "class A:\n    # ...\n\n    def a(self):\n        # ...\n\n    @slow(\n        1,\n    )\n"
        "    def new(self):\n        return check(2)\n\n    # ...\n",
        "class A:\n    def a(self):\n        return check(1)\n\n    @slow(\n        1,\n    )\n"
        "    def new(self):\n        return check(2)\n\n    def b(self):\n        return check(2)\n\n"
        "    def c(self):\n        return check(3)\n",
    ),
    "a definition in another form": (
        "javascript",
        "const build = pattern => {\n  const key = pattern;\n  return find(key);\n};\n\nexport default build;\n",
        "function build(pattern) {\n  // ...\n  return find(key);\n}\n\n// ...\n",
        "function build(pattern) {\n  const key = pattern;\n  return find(key);\n}\n\nexport default build;\n",
    ),
    "the header of a scope of which the file has the inside": (
        "java",
        "    int a() {\n        return 1;\n    }\n\n    int b() {\n        return 2;\n    }\n}\n",
        "class Counter {\n    // ...\n\n    int b() {\n        return 3;\n    }\n}\n",
        "    int a() {\n        return 1;\n    }\n\n    int b() {\n        return 3;\n    }\n}\n",
    ),
    "the end of a scope of which the file has the beginning": (
        "java",
        "class Counter {\n    int a() {\n        return 1;\n    }\n\n    int b() {\n        return 2;\n    }\n",
        "class Counter {\n    int a() {\n        return 3;\n    }\n\n    // ...\n}\n",
        "class Counter {\n    int a() {\n        return 3;\n    }\n\n    int b() {\n        return 2;\n    }\n",
    ),
    "a comment stands for a part of a line": (
        "typescript",
        "const names = (xs: X[]) => xs.map(x => x.name)\n\nconst ages = (xs: X[]) => xs.map(x => x.age)\n",
        "const names = (xs: X[]) => /* unchanged */\n\nconst ages = (xs: X[]) => xs.map(age)\n",
        "const names = (xs: X[]) => xs.map(x => x.name)\n\nconst ages = (xs: X[]) => xs.map(age)\n",
    ),
    "a last block that fits twice belongs at the end": (
        "python",
        "def test_one():\n    x = load(1)\n    assert check(x)\n\n\n"
        "def test_two():\n    y = load(2)\n    assert check(x)\n",
        "# ...\n    assert check(x)\n\n\ndef test_new():\n    go(3)\n",
        "def test_one():\n    x = load(1)\n    assert check(x)\n\n\n"
        "def test_two():\n    y = load(2)\n    assert check(x)\n"
        "\n\ndef test_new():\n    go(3)\n",
    ),
    "a new comment above a definition": (
        "kotlin",
        "/**\n * Thrown when a value is wrong\n */\nclass Wrong(text: String) : Exception(text)\n\n"
        "fun find(key: String): String? =\n    get(key)\n",
        "// ...\n\n/**\n * Looks for a value.\n */\nfun find(key: String): String? =\n    // ...\n",
        "/**\n * Thrown when a value is wrong\n */\nclass Wrong(text: String) : Exception(text)\n\n"
        "/**\n * Looks for a value.\n */\nfun find(key: String): String? =\n    get(key)\n",
    ),
    "an attribute below a comment that stays": (
        "rust",
        "impl A {\n    /// Spawns.\n    pub fn spawn(&self) {\n        go(1);\n    }\n}\n",
        "impl A {\n    // ... existing docs ...\n    #[track_caller]\n    pub fn spawn(&self) {\n"
        "        // ...\n    }\n}\n",
        "impl A {\n    /// Spawns.\n    #[track_caller]\n    pub fn spawn(&self) {\n        go(1);\n    }\n}\n",
    ),
    "an assignment of a name that the file assigns": (
        "javascript",
        "exports.start = run;\n\nexports.stop = halt;\n",
        "// ...\n\nexports.stop = function () {\n  log('stop');\n  halt();\n};\n",
        "exports.start = run;\n\nexports.stop = function () {\n  log('stop');\n  halt();\n};\n",
    ),
    "a marker names the definition that stays": (
        "python",
        "check(box)\nstart(box)\n\n\ndef measure(box):\n    return box.size\n\n\ncheck(box)\nstop(box)\n",
        "# ... measure() unchanged ...\n\ncheck(box)\nnote = box.name\n# ...\n",
        "check(box)\nstart(box)\n\n\ndef measure(box):\n    return box.size\n\n\ncheck(box)\nnote = box.name\n"
        "stop(box)\n",
    ),
    "a new method of a prototype": (
        "javascript",
        "Shape.prototype.area = function () {\n  return {\n    size: this.size,\n  };\n};\n\nmodule.exports = Shape;\n",
        "Shape.prototype.angle = function () {\n  return {\n    size: this.size,\n  };\n};\n\n// ...\n\n"
        "module.exports = Shape;\n",
        "Shape.prototype.angle = function () {\n  return {\n    size: this.size,\n  };\n};\n\n"
        "Shape.prototype.area = function () {\n  return {\n    size: this.size,\n  };\n};\n\n"
        "module.exports = Shape;\n",
    ),
    "a stub with a type that is changed": (
        "rust",
        "fn walk(map: &mut Map<u8>, at: Point) -> u8 {\n    map.step(at)\n}\n\nfn stop(at: Point) -> u8 {\n    1\n}\n",
        "fn walk(map: &Map<u8>, at: Point) -> u8 {\n    // ...\n}\n\nfn stop(at: Point) -> u8 {\n    2\n}\n",
        "fn walk(map: &Map<u8>, at: Point) -> u8 {\n    map.step(at)\n}\n\nfn stop(at: Point) -> u8 {\n    2\n}\n",
    ),
    "lines that move past the block's last line": (
        "python",
        "import os\n\nframes = load('frames')\narrow_reader = load('arrow')\nspark_reader = load('spark')\n\nrun()\n",
        "import os\n\narrow_reader = load('arrow')\nspark_reader = load('spark')\nframes = load('frames')\n\n# ...\n",
        "import os\n\narrow_reader = load('arrow')\nspark_reader = load('spark')\nframes = load('frames')\n\nrun()\n",
    ),
    "a note that quotes the line that goes": (
        "python",
        "def test():\n    class Fake:\n        pass\n\n    old = module.name\n    fake = Fake()\n    check(fake)\n",
        "def test():\n    # ... Fake unchanged ...\n\n    # removed: old = module.name\n    fake = Fake()\n    # ...\n",
        "def test():\n    class Fake:\n        pass\n\n    fake = Fake()\n    check(fake)\n",
    ),
    "a new header for the branch above": (
        "typescript",
        "if (id === 'a') {\n  first()\n} else {\n  const found = find(id)\n  use(found)\n}\n",
        "if (id === 'a') {\n  // ...\n} else if (!id.startsWith('.')) {\n  const found = find(id)\n  use(found)\n}\n",
        "if (id === 'a') {\n  first()\n} else if (!id.startsWith('.')) {\n  const found = find(id)\n  use(found)\n}\n",
    ),
    "a remark that the file shall have": (
        "typescript",
        "import a from 'a'\nimport './setup'\n\nrun(a)\n",
        "// ...\nimport './setup' // the page has another one\n\n// ...\n",
        "import a from 'a'\nimport './setup' // the page has another one\n\nrun(a)\n",
    ),
    "a heading in a comment is no remark": (
        "go",
        "// Runs.\n//\n// Example\n//\n// See below.\npackage run\n",
        "// ...\n//\n// # Example\n//\n// ...\npackage run\n",
        "// Runs.\n//\n// # Example\n//\n// See below.\npackage run\n",
    ),
    "a comment on what the code leaves as it is": (
        "javascript",
        "check(page, 'data');\n});\n",
        "// ...\ncheck(page, 'data');\n// the flag leaves all script entries untouched.\ncheck(page, 'script');\n});\n",
        "check(page, 'data');\n// the flag leaves all script entries untouched.\ncheck(page, 'script');\n});\n",
    ),
    "a new method with its brace below its header": (
        "csharp",
        "class Tests\n{\n    [Fact]\n    public void Start_First_Ok()\n    {\n        Check(1);\n"
        "        Done();\n    }\n\n"
        "    [Fact]\n    public void Start_Second_Ok()\n    {\n        Check(2);\n        Done();\n    }\n}\n",
        "class Tests\n{\n    // ...\n\n    [Fact]\n    public void Start_Seventh_Ok()\n    {\n"
        "        Check(7);\n        Done();\n"
        "    }\n\n    [Fact]\n    public void Start_Second_Ok()\n    // ...\n",
        "class Tests\n{\n    [Fact]\n    public void Start_First_Ok()\n    {\n        Check(1);\n"
        "        Done();\n    }\n\n"
        "    [Fact]\n    public void Start_Seventh_Ok()\n    {\n        Check(7);\n        Done();\n    }\n\n"
        "    [Fact]\n    public void Start_Second_Ok()\n    {\n        Check(2);\n        Done();\n    }\n}\n",
    ),
    "new lines like those below them": (
        "java",
        'same("FoO", "fOo");\n\n// more\nsame(text("FoO"), "fOo");\nsame(text("FoO"), text("fOo"));\n\n// more\n'
        'same(text("FoO"), "bAr");\n',
        'same("FoO", "fOo");\nsame("FoO", "bar");\nsame("Foo", "foobar");\n\n// more\n// ...\n',
        'same("FoO", "fOo");\nsame("FoO", "bar");\nsame("Foo", "foobar");\n\n// more\n'
        'same(text("FoO"), "fOo");\nsame(text("FoO"), text("fOo"));\n\n// more\nsame(text("FoO"), "bAr");\n',
    ),
    "a new branch that ends above the hidden one": (
        "javascript",
        "function run(box) {\n  open(box);\n\n  if (box.isFull) {\n    empty(box);\n  }\n\n  return box;\n}\n",
        "function run(box) {\n  if (box.isLocked) {\n    unlock(box, key);\n    open(box);\n  }\n  // ...\n}\n",
        "function run(box) {\n  if (box.isLocked) {\n    unlock(box, key);\n    open(box);\n  }\n\n"
        "  if (box.isFull) {\n    empty(box);\n  }\n\n  return box;\n}\n",
    ),
    "a branch's new lines like those of the next": (
        "rust",
        "match data {\n    A(stream) => {\n        let x = bytes(stream);\n        store(x);\n    }\n"
        "    B(stream) => {\n"
        "        let x = match stream {\n            Ok(x) => text(x),\n"
        "            Err(error) => return fail(error),\n        };\n"
        "        store(x);\n    }\n    C => {}\n}\n",
        "// ...\n    A(stream) => {\n        let x = match stream {\n            Ok(x) => bytes(x),\n"
        "            Err(error) => return fail(error),\n        };\n        store(x);\n// ...\n",
        "match data {\n    A(stream) => {\n        let x = match stream {\n            Ok(x) => bytes(x),\n"
        "            Err(error) => return fail(error),\n        };\n        store(x);\n    }\n    B(stream) => {\n"
        "        let x = match stream {\n            Ok(x) => text(x),\n"
        "            Err(error) => return fail(error),\n        };\n"
        "        store(x);\n    }\n    C => {}\n}\n",
    ),
    "wider levels than the file's below lines at the edge": (
        "css",
        "* {\n  box-sizing: border-box;\n}\n\n.note {\n  color: red;\n}\n\npre {\n  line-height: 1.5;\n}\n",
        "/* ... */\n* {\n    box-sizing: border-box;\n}\n\npre {\n    line-height: 1.5;\n}\n",
        "* {\n  box-sizing: border-box;\n}\n\npre {\n  line-height: 1.5;\n}\n",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_is_read_as_it_was_meant(name: str) -> None:
    language, original, update, wanted = CASES[name]
    assert merge(original, update, language=language).text == wanted


def test_no_line_outside_the_edit_changes_in_any_reading() -> None:
    """Whatever is doubtful, a kept line is the file's."""
    for language, original, update, _ in CASES.values():
        lines = original.split("\n")
        for reading in merge(original, update, language=language).readings:
            kept = [op for op in reading.ops if op.kind in ("keep", "both")]
            assert all(op.original_line is not None and lines[op.original_line] == op.text for op in kept)
            assert [op.original_line for op in reading.ops if op.original_line is not None] == list(range(len(lines)))


def test_the_readings_have_different_texts_and_falling_chances() -> None:
    for language, original, update, _ in CASES.values():
        found = merge(original, update, language=language).readings
        texts = ["\n".join(op.text for op in one.ops if op.kind != "drop") for one in found]
        assert len(set(texts)) == len(texts)
        chances = [one.probability for one in found]
        assert chances == sorted(chances, reverse=True)
        assert sum(chances) <= 1 + 1e-9
