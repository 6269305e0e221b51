"""What a snippet does not show stays: entries, branches and definitions beside new ones, and the rest of the file."""

from __future__ import annotations

import pytest

from apply_service.merge.entries import read_objects
from apply_service.merge.merge import merge
from tests.edits.merges import assert_merged, edited

STUBS = """\
from typing import overload

class Reader:
    def read(self, n: int = ...) -> bytes: ...
    def close(self) -> None: ...
    @property
    def name(self) -> str: ...
"""
PROTOCOL = """\
from typing import Protocol

class Store(Protocol):
    def get(self, key: str) -> bytes:
        ...

    def put(self, key: str, value: bytes) -> None:
        ...

def main() -> None:
    ...
"""
RUST = """\
fn name(op: &Op) -> &'static str {
    match op {
        Op::Add => "add",
        Op::Sub => "sub",
    }
}

fn eval(op: &Op, a: i64, b: i64) -> i64 {
    match op {
        Op::Add => a + b,
        Op::Sub => a - b,
    }
}
"""
RUBY = """\
class Cart
  def price(kind)
    case kind
    when :book
      10
    when :pen
      2
    else
      0
    end
  end

  def name(kind)
    case kind
    when :book
      "Book"
    when :pen
      "Pen"
    else
      "?"
    end
  end
end
"""
GO = """\
func name(k int) string {
	switch k {
	case 1:
		return "one"
	case 2:
		return "two"
	}
	return ""
}

func square(k int) int {
	switch k {
	case 1:
		return 1
	case 2:
		return 4
	}
	return k * k
}
"""
JOBS = """\
jobs:
  lint:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-node@v4
        with:
          node-version: 20
      - run: npm ci
      - run: npm run lint

  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-node@v4
        with:
          node-version: 20
      - run: npm ci
      - run: npm test

  deploy:
    needs: [lint, test]
    steps:
      - run: ./deploy.sh
"""
CLASSES = """\
import math


class First:
    def run(self):
        return 1


class Last:
    def run(self):
        return 10


def total(xs):
    return sum(xs)
"""
STYLES = """\
.card {
  padding: 8px;
  border: 1px solid #ccc;
}

.title { font-size: 20px; }
"""
LISTS = """\
# Lists

Things to buy:

- apples
- bread

Things to do:

+ call mum
+ pay rent

See the notes.
"""


# -- dots that are code ------------------------------------------------------------------------------------------------
def test_a_method_of_a_stub_file_is_added_and_not_taken_for_a_marker() -> None:
    close = "    def close(self) -> None: ...\n"
    new = "    def seek(self, pos: int) -> int: ...\n"
    wanted = edited(STUBS, close, close + new)
    for update in (f"    # ... existing code ...\n{close}{new}    # ... existing code ...\n", wanted):
        assert_merged(STUBS, update, wanted)


def test_a_signature_of_a_stub_file_changes() -> None:
    update = "class Reader:\n    # ...\n    def close(self) -> bool: ...\n    # ...\n"
    assert_merged(STUBS, update, edited(STUBS, "close(self) -> None", "close(self) -> bool"))


def test_dots_below_the_header_of_a_new_method_are_its_body() -> None:
    put = "    def put(self, key: str, value: bytes) -> None:\n        ...\n"
    new = "\n    def drop(self, key: str) -> None:\n        ...\n"
    assert_merged(PROTOCOL, f"class Store(Protocol):\n    # ...\n{put}{new}", edited(PROTOCOL, put, put + new))


def test_dots_for_a_body_that_the_file_has_are_a_marker() -> None:
    update = "def total(xs): ...\n\n\ndef mean(xs):\n    return total(xs) / len(xs)\n"
    wanted = CLASSES + "\n\ndef mean(xs):\n    return total(xs) / len(xs)\n"
    assert "...\n" not in merge(CLASSES, update, language="python").text
    assert_merged(CLASSES, update, wanted)


# -- branches and entries ----------------------------------------------------------------------------------------------
def test_a_new_match_arm_leaves_the_hidden_ones_alone() -> None:
    arm = "        Op::Mul => a * b,\n"
    update = f"fn eval(op: &Op, a: i64, b: i64) -> i64 {{\n    match op {{\n        // ...\n{arm}    }}\n}}\n"
    last = "        Op::Sub => a - b,\n"
    assert_merged(RUST, update, edited(RUST, last, last + arm), language="rust")


def test_a_changed_match_arm_is_replaced() -> None:
    head = "fn eval(op: &Op, a: i64, b: i64) -> i64 {\n    match op {\n"
    update = f"{head}        // ...\n        Op::Sub => a.wrapping_sub(b),\n    }}\n}}\n"
    wanted = edited(RUST, "        Op::Sub => a - b,\n", "        Op::Sub => a.wrapping_sub(b),\n")
    assert_merged(RUST, update, wanted, language="rust")


def test_a_new_branch_of_a_case_leaves_the_hidden_ones_alone() -> None:
    new = '    when :ink\n      "Ink"\n'
    update = f'  def name(kind)\n    case kind\n    # ... existing code ...\n{new}    else\n      "?"\n    end\n  end\n'
    assert_merged(RUBY, update, edited(RUBY, '      "Pen"\n', '      "Pen"\n' + new), language="ruby")


def test_a_new_case_goes_into_the_switch_that_is_named() -> None:
    new = "\tcase 3:\n\t\treturn 9\n"
    update = f"func square(k int) int {{\n\tswitch k {{\n\t// ...\n{new}\t}}\n\treturn k * k\n}}\n"
    assert_merged(GO, update, edited(GO, "\t\treturn 4\n", "\t\treturn 4\n" + new), language="go")


STEP = "      - name: Upload\n        uses: codecov/codecov-action@v4\n"


@pytest.mark.parametrize(
    ("update", "behind"),
    [
        (f"jobs:\n  test:\n    steps:\n      # ... existing steps ...\n{STEP}", "      - run: npm test\n"),
        (f"  test:\n    # ...\n      - run: npm test\n{STEP}", "      - run: npm test\n"),
        (
            f"  test:\n    # ...\n      - uses: actions/checkout@v4\n{STEP}    # ...\n",
            "      - uses: actions/checkout@v4\n",
        ),
        (f"  test:\n    steps:\n      # ...\n      - run: npm ci\n{STEP}      # ...\n", "      - run: npm ci\n"),
    ],
)
def test_a_step_goes_into_its_own_job_and_replaces_none(update: str, behind: str) -> None:
    head, job = JOBS.split("  test:\n")
    wanted = head + "  test:\n" + job.replace(behind, behind + STEP, 1)
    assert_merged(JOBS, update, wanted, language="yaml")


def test_a_step_with_another_version_is_replaced() -> None:
    update = "  deploy:\n    # ...\n      - run: ./deploy.sh --all\n"
    assert_merged(JOBS, update, edited(JOBS, "./deploy.sh", "./deploy.sh --all"), language="yaml")


def test_an_address_without_markers_deletes_nothing() -> None:
    update = "jobs:\n  deploy:\n    needs: [lint]\n"
    assert_merged(JOBS, update, edited(JOBS, "needs: [lint, test]", "needs: [lint]"), language="yaml")


# -- imports -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("marker", ["", "# ... existing code ...\n"])
def test_an_import_beside_a_class_goes_to_the_imports(marker: str) -> None:
    method = "    @cache\n    def run(self):\n        return 10\n"
    update = f"{marker}from functools import cache\n\nclass Last:\n{method}{marker}"
    wanted = edited(CLASSES, "import math\n", "import math\nfrom functools import cache\n")
    assert_merged(CLASSES, update, edited(wanted, "class Last:\n", "class Last:\n    @cache\n"))


def test_an_import_of_a_known_name_replaces_the_other() -> None:
    update = "import cmath as math\n\n\nclass First:\n    def run(self):\n        return 1\n"
    assert_merged(CLASSES, update, edited(CLASSES, "import math\n", "import cmath as math\n"))


# -- definitions in one line -------------------------------------------------------------------------------------------
def test_a_rule_in_one_line_replaces_the_rule_of_its_selector() -> None:
    rule = ".card { padding: 12px; border: 1px solid #ccc; }\n"
    wanted = rule + STYLES.split("}\n", 1)[1]
    for update in (rule, f"/* ... */\n{rule}/* ... */\n"):
        assert_merged(STYLES, update, wanted, language="css")


def test_a_whole_function_with_a_new_header_and_body_is_no_stranger() -> None:
    new = "def total(values, start=0):\n    return start + math.fsum(values)\n"
    found = merge(CLASSES, new, language="python")
    assert found.text == CLASSES.replace("def total(xs):\n    return sum(xs)\n", new)
    assert (found.probability or 0.0) > 0.5


# -- the end of the file -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("shown", "new"), [("- apples\n- bread\n", "- eggs\n"), ("Things to do:\n\n+ call mum\n+ pay rent\n", "+ walk\n")]
)
def test_a_bullet_near_the_end_of_the_file_is_added_and_deletes_nothing(shown: str, new: str) -> None:
    assert_merged(LISTS, shown + new, edited(LISTS, shown, shown + new), language="markdown")


def test_new_lines_replace_nothing_of_an_outer_scope() -> None:
    update = PROTOCOL.split("\ndef main")[0] + "\n    def drop(self, key: str) -> None:\n        ...\n"
    wanted = edited(PROTOCOL, "\ndef main", "\n    def drop(self, key: str) -> None:\n        ...\n\ndef main")
    assert_merged(PROTOCOL, update, wanted)


def test_a_bracket_of_new_code_is_not_one_of_the_file() -> None:
    original = "function f(xs) {\n  const a = xs.filter((x) => x);\n\n  return (\n    g(a)\n  );\n}\n"
    update = "function f(xs) {\n  const a = memo(\n    () => xs.filter((x) => x),\n  );\n\n  // ... rest ...\n}\n"
    old = "  const a = xs.filter((x) => x);\n"
    new = "  const a = memo(\n    () => xs.filter((x) => x),\n  );\n"
    assert_merged(original, update, edited(original, old, new), language="javascript")


# -- one more of a series ----------------------------------------------------------------------------------------------
ROUTES = """\
func (s *Server) routes() {
\ts.mux.HandleFunc("/users", s.handleUsers)
\ts.mux.HandleFunc("/healthz", s.handleHealth)
}
"""
CARDS = """\
<section>
  <article class="card">
    <h3>Tea</h3>
  </article>
  <article class="card">
    <h3>Coffee</h3>
  </article>
</section>
"""
LEXER = """\
int lex(int c) {
    switch (c) {
    case '+':
        return PLUS;
    case '-':
        return MINUS;
    default:
        return ERROR;
    }
}
"""
ARMS = """\
fn parse(arg: Option<&str>) -> Option<Command> {
    match arg {
        Some("index") => Some(Command::Index),
        Some("help") => Some(Command::Help),
        _ => None,
    }
}

fn other() {}
"""


def test_a_call_like_two_of_the_file_below_a_marker_is_one_more() -> None:
    new = '\ts.mux.HandleFunc("/version", s.handleVersion)\n'
    update = f"func (s *Server) routes() {{\n\t// ... existing routes ...\n{new}}}\n"
    wanted = edited(ROUTES, "s.handleHealth)\n", f"s.handleHealth)\n{new}")
    assert_merged(ROUTES, update, wanted, language="go")


def test_an_element_like_others_below_a_marker_is_one_more() -> None:
    new = '  <article class="card">\n    <h3>Cocoa</h3>\n  </article>\n'
    update = f"<section>\n  <!-- ... existing cards ... -->\n{new}</section>\n"
    assert_merged(CARDS, update, edited(CARDS, "</section>", f"{new}</section>"), language="html")


def test_an_element_with_a_line_of_one_of_the_file_is_that_one() -> None:
    new = '  <article class="card">\n    <h3>Coffee</h3>\n    <p>Dark</p>\n  </article>\n'
    update = f"<section>\n  <!-- ... existing cards ... -->\n{new}</section>\n"
    assert_merged(CARDS, update, edited(CARDS, "Coffee</h3>\n", "Coffee</h3>\n    <p>Dark</p>\n"), language="html")


def test_a_case_for_a_sign_is_another_one() -> None:
    update = (
        "int lex(int c) {\n    // ... unchanged ...\n    case '*':\n        return STAR;\n    // ... unchanged ...\n}\n"
    )
    assert "case '-':\n        return MINUS;\n" in merge(LEXER, update, language="c").text


def test_a_case_shown_alone_ends_with_the_next_one() -> None:
    original = LEXER.replace("return PLUS;", "return PLUS ;").replace("MINUS;", "MINUS ;")
    update = "    case '+':\n        return grow(\n            PLUS\n        );\n"
    found = merge(original, update, language="c").text
    assert found == edited(original, "        return PLUS ;\n", "        return grow(\n            PLUS\n        );\n")


def test_a_new_arm_gets_no_blank_line() -> None:
    update = (
        "fn parse(arg: Option<&str>) -> Option<Command> {\n    match arg {\n        // ...\n"
        '        Some("stats") => Some(Command::Stats),\n        Some("help") => Some(Command::Help),\n'
        "        _ => None,\n    }\n}\n"
    )
    wanted = edited(
        ARMS, '        Some("help")', '        Some("stats") => Some(Command::Stats),\n        Some("help")'
    )
    assert_merged(ARMS, update, wanted, language="rust")


# -- files of sections -------------------------------------------------------------------------------------------------
CARGO = """\
[dependencies]
anyhow = "1"
serde = { version = "1", features = ["derive"] }

[dev-dependencies]
tempfile = "3"

[profile.release]
lto = true
"""
TOKIO = 'tokio = { version = "1", features = ["full"] }\n'


@pytest.mark.parametrize(
    "update",
    [
        f"[dependencies]\n# ... existing ...\n{TOKIO}\n[profile.release]\nlto = true\n",
        f"[dependencies]\n{TOKIO}",
        f"[dependencies]\n{TOKIO}\n[profile.release]\nlto = true\n",
    ],
)
def test_new_entries_of_a_section_go_to_its_end(update: str) -> None:
    wanted = edited(CARGO, "\n[dev-dependencies]", f"{TOKIO}\n[dev-dependencies]")
    assert_merged(CARGO, update, wanted, language="toml", path="Cargo.toml")


def test_a_section_between_two_changed_ones_stays() -> None:
    update = '[dependencies]\nanyhow = "2"\n# ...\n\n[profile.release]\nlto = false\n'
    wanted = edited(edited(CARGO, 'anyhow = "1"', 'anyhow = "2"'), "lto = true", "lto = false")
    assert_merged(CARGO, update, wanted, language="toml", path="Cargo.toml")


def test_a_section_between_two_shown_as_they_are_goes() -> None:
    gone = '[dev-dependencies]\ntempfile = "3"\n\n'
    update = f"# ...\n{CARGO[CARGO.index('serde') :].replace(gone, '')}"
    assert_merged(CARGO, update, edited(CARGO, gone, ""), language="toml", path="Cargo.toml")


# -- imports -----------------------------------------------------------------------------------------------------------
def test_new_imports_go_to_their_place_in_order_and_replace_none_like_them() -> None:
    imports = "import web.bind.GetMapping;\nimport web.bind.PathVariable;\nimport web.bind.RequestMapping;\n"
    original = f"package a;\n\n{imports}\nclass A {{\n    int size;\n}}\n"
    new = "import web.bind.PostMapping;\nimport web.bind.RequestBody;\n"
    update = f"{new}\nclass A {{\n    int size = 1;\n}}\n"
    wanted = edited(original, "import web.bind.RequestM", f"{new}import web.bind.RequestM").replace(
        "size;", "size = 1;"
    )
    assert_merged(original, update, wanted, language="java")


def test_a_new_call_far_from_the_series_goes_behind_the_last_of_it() -> None:
    original = "def test_it():\n    refuse('a')\n    refuse('b')\n\n    assert ok()\n"
    update = "def test_it():\n    # ... existing refuse(...) checks\n    refuse('c')\n\n    # ... rest of the test\n"
    assert_merged(original, update, edited(original, "refuse('b')\n", "refuse('b')\n    refuse('c')\n"))


def test_a_block_of_control_like_two_of_the_file_may_be_a_changed_one() -> None:
    loop = "    for (i = 0; i < N; i++) {{\n        {}\n    }}\n"
    original = f"void f(void) {{\n    init();\n{loop.format('a[i] = 1;')}\n{loop.format('b[i] = a[i];')}}}\n"
    update = "void f(void) {\n    // ...\n    for (i = 0; i < N; i++) {\n        a[i] = 2;\n    }\n    // ...\n}\n"
    assert merge(original, update, language="c").text == edited(original, "a[i] = 1;", "a[i] = 2;")


# -- parts of a JSON file ----------------------------------------------------------------------------------------------
SETTINGS = """\
{
  "name": "relay",
  "server": {
    "host": "0.0.0.0",
    "tls": {
      "enabled": false,
      "ports": [
        1,
        2
      ]
    }
  },
  "log": {
    "level": "info",
    "rotate": true
  },
  "limits": 20
}
"""


def test_entries_that_a_part_of_a_json_file_leaves_out_in_several_places_stay() -> None:
    update = (
        '{\n  "server": {\n    "tls": {\n      "enabled": true\n    }\n  },\n  "log": {\n    "level": "debug"\n  }\n}\n'
    )
    wanted = edited(edited(SETTINGS, "false", "true"), '"info"', '"debug"')
    found = merge(SETTINGS, update, language="json", path="a.json")
    assert found.text == wanted
    assert any("leaves out" in reason for reason in found.reasons)
    assert any(reading.text == update for reading in found.readings)


def test_a_new_entry_of_a_part_of_a_json_file_stands_beside_what_it_leaves_out() -> None:
    update = '{\n  "server": {\n    "host": "::1",\n    "port": 1\n  },\n  "limits": 30\n}\n'
    wanted = edited(SETTINGS, '"0.0.0.0",\n', '"::1",\n    "port": 1,\n').replace("20", "30")
    assert_merged(SETTINGS, update, wanted, language="json", path="a.json")


def test_one_entry_left_out_of_a_json_file_goes() -> None:
    update = SETTINGS.replace('  "name": "relay",\n', "").replace("20", "30")
    assert_merged(SETTINGS, update, update, language="json", path="a.json")


@pytest.mark.parametrize("text", ["[\n1\n]\n", "{\n", "x = {\n}\n", '{\n"a": {\n}\n', '{\n"a": [\n}\n', "{\n}\n}\n"])
def test_another_text_has_no_objects(text: str) -> None:
    assert read_objects(text.split("\n")) is None


def test_a_new_statement_that_creates_something_replaces_none_like_it() -> None:
    one = "CREATE TRIGGER {0}_touch\n    BEFORE UPDATE ON {0}\n    FOR EACH ROW EXECUTE FUNCTION touch();\n"
    view = "CREATE VIEW active AS\n    SELECT * FROM users;\n"
    original = f"{one.format('users')}\n{one.format('projects')}\n{view}"
    update = f"{one.format('tasks')}\n{view}"
    wanted = edited(original, view, f"{one.format('tasks')}\n{view}")
    assert_merged(original, update, wanted, language="sql")


def test_a_section_shown_up_to_the_next_heading_is_shown_whole() -> None:
    update = f'# ...\n[dependencies]\n{TOKIO}\n[dev-dependencies]\ntempfile = "3"\n# ...\n'
    wanted = edited(CARGO, CARGO[CARGO.index("anyhow") : CARGO.index("\n[dev")], TOKIO)
    found = merge(CARGO, update, language="toml", path="Cargo.toml")
    assert any(reading.text == wanted for reading in found.readings)
