"""Definitions that a snippet shows whole, and what it hides beside new ones."""

from __future__ import annotations

import pytest

from apply_service.merge.merge import merge
from apply_service.merge.rank.doubt import what_to_show
from apply_service.merge.readings import readings
from apply_service.types import Certainty, Merge

GO = """\
package stack

type Stack struct {
	items []int
}

func (s *Stack) Pop() int {
	x := s.items[len(s.items)-1]
	s.items = s.items[:len(s.items)-1]
	return x
}

func (s *Stack) Len() int {
	return len(s.items)
}
"""
PYTHON = """\
class Stack:
    def pop(self):
        x = self.items[-1]
        del self.items[-1]
        return x

    def __len__(self):
        return len(self.items)

    def clear(self):
        self.items = []
"""
SHELL = """\
#!/bin/sh
name=$(date +%F)

tar czf "$dir/$name.tgz" /srv/data
echo "done"
"""
CALLS = """\
func init() {
	ns.Add(ctx.MD5,
		[]string{"md5"},
		[][2]string{
			{"{{ md5 }}", "b304"},
		},
	)

	ns.Add(ctx.HMAC,
		[]string{"hmac"},
		[][2]string{
			{"{{ hmac }}", "c0de"},
		},
	)

	return ns
}
"""
ITEMS = """\
export default {
  items: [
    { text: "Adapters", link: "/adapters" },
    { text: "Chat Buffer", link: "/chat" },
    { text: "Prompt Library", link: "/prompts" },
    { text: "System Prompt", link: "/system" },
  ],
}
"""
RUBY = """\
module Ansi
  COLORS = {
    :red => 31,
    :blue => 34
  }

  def reset
    "0m"
  end
end
"""
C = """\
static obj_t unary_op(op_t op, obj_t o_in) {
    if (op == HASH) {
        return hash(o_in);
    }
    return NULL;
}
"""
ARMS = """\
const f = (data) => {
  if (data.a) {
    return one(data);
  } else if (data.b) {
    return two(data);
  } else {
    return three(data);
  }
};
"""
CASES = {
    "a changed method and a new one behind it": (
        "go",
        GO,
        "// ... existing code ...\n\nfunc (s *Stack) Pop() (int, bool) {\n"
        "\tif len(s.items) == 0 {\n\t\treturn 0, false\n\t}\n"
        "\tx := s.items[len(s.items)-1]\n\ts.items = s.items[:len(s.items)-1]\n\treturn x, true\n}\n\n"
        "func (s *Stack) Peek() int {\n\treturn s.items[len(s.items)-1]\n}\n\n// ... existing code ...\n",
        GO.replace(
            "Pop() int {\n", "Pop() (int, bool) {\n\tif len(s.items) == 0 {\n\t\treturn 0, false\n\t}\n"
        ).replace(
            "return x\n}\n", "return x, true\n}\n\nfunc (s *Stack) Peek() int {\n\treturn s.items[len(s.items)-1]\n}\n"
        ),
    ),
    "the same without brackets": (
        "python",
        PYTHON,
        "# ... existing code ...\n\n    def pop(self, default=None):\n"
        "        if not self.items:\n            return default\n"
        "        x = self.items[-1]\n        del self.items[-1]\n        return x, True\n\n"
        "    def peek(self):\n        return self.items[-1]\n\n# ... existing code ...\n",
        PYTHON.replace(
            "pop(self):\n", "pop(self, default=None):\n        if not self.items:\n            return default\n"
        ).replace("return x\n", "return x, True\n\n    def peek(self):\n        return self.items[-1]\n"),
    ),
    "another command below a blank line": (
        "shell",
        SHELL,
        'name=$(date +%F)\n\nrm -f "$dir/$name.tgz"\n# ... existing code ...\n',
        SHELL.replace("%F)\n\n", '%F)\n\nrm -f "$dir/$name.tgz"\n\n'),
    ),
    "one more call of several lines": (
        "go",
        CALLS,
        "\t// ... existing code ...\n\n\tns.Add(ctx.FNV,\n\t\tnil,\n"
        '\t\t[][2]string{\n\t\t\t{"{{ fnv }}", "1515"},\n\t\t},\n\t)\n\n'
        "\treturn ns\n}\n",
        CALLS.replace(
            "\treturn ns",
            '\tns.Add(ctx.FNV,\n\t\tnil,\n\t\t[][2]string{\n\t\t\t{"{{ fnv }}", "1515"},\n\t\t},\n\t)\n\n\treturn ns',
        ),
    ),
    "one more element above known ones": (
        "javascript",
        ITEMS,
        '    { text: "Inline Assistant", link: "/inline" },\n    { text: "Prompt Library", link: "/prompts" },\n'
        '    { text: "System Prompt", link: "/system" },\n    { text: "Others", link: "/others" },\n  ],\n}\n',
        ITEMS.replace(
            '    { text: "Prompt', '    { text: "Inline Assistant", link: "/inline" },\n    { text: "Prompt'
        ).replace("  ],", '    { text: "Others", link: "/others" },\n  ],'),
    ),
    "a closing line with more behind it": (
        "ruby",
        RUBY,
        "  COLORS = {\n    # ... existing code ...\n    :blue => 34,\n"
        "    :gray => 90\n  }.freeze\n\n  # ... existing code ...\n",
        RUBY.replace(":blue => 34\n  }", ":blue => 34,\n    :gray => 90\n  }.freeze"),
    ),
    "a branch cut below its header": (
        "javascript",
        ARMS,
        "const f = (data) => {\n  if (data.c) {\n    return one(data);\n"
        "  } else if (data.b) {\n    // ... existing code ...\n  }\n};\n",
        ARMS.replace("data.a", "data.c"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_default_reading(name: str) -> None:
    language, original, update, wanted = CASES[name]
    assert readings(original, update, language=language)[0].text == wanted


def test_a_return_below_another_may_take_its_place() -> None:
    update = (
        "static obj_t unary_op(op_t op, obj_t o_in) {\n    // ...\n"
        "    // the rest is the table's\n    return table_op(op, o_in);\n}\n"
    )
    wanted = C.replace("    return NULL;\n", "    // the rest is the table's\n    return table_op(op, o_in);\n")
    found = {reading.text: reading.features for reading in readings(C, update, language="c")}
    assert found[wanted]["dead_code"] == 0
    dead = C.replace("NULL;\n", "NULL;\n    // the rest is the table's\n    return table_op(op, o_in);\n")
    assert found[dead]["dead_code"] == 1


def test_a_doubt_names_the_line_to_show() -> None:
    _, original, update, _ = CASES["another command below a blank line"]
    reading, *_ = readings(original, update, language="shell")
    said = 'show line 4 (`tar czf "$dir/$name.tgz" /srv/data`) below `rm -f "$dir/$name.tgz"`'
    assert what_to_show(reading.ops) == [f"to be sure of this one, {said}"]
    assert what_to_show(Merge()) == []


RECORDS = """\
#[derive(Debug, Clone)]
pub struct Point {
    x: i32,
}

pub struct Size {
    w: i32,
}
"""


def test_an_attribute_that_another_definition_has_belongs_to_the_one_below_it() -> None:
    update = "// ... existing code ...\n\n#[derive(Debug, Clone)]\npub struct Size {\n    w: i32,\n    h: i32,\n}\n"
    wanted = RECORDS.replace(
        "pub struct Size {\n    w: i32,\n", "#[derive(Debug, Clone)]\npub struct Size {\n    w: i32,\n    h: i32,\n"
    )
    assert readings(RECORDS, update, language="rust")[0].text == wanted


PROPERTIES = """\
class Dto {
  @Column({ nullable: true })
  nick: string;

  @Column()
  email: string;

  phone: string;
}
"""


def test_so_does_one_above_a_property() -> None:
    update = "  // ... existing code ...\n\n  @Column({ nullable: true })\n  phone: string;\n}\n"
    wanted = PROPERTIES.replace("  phone", "  @Column({ nullable: true })\n  phone")
    assert readings(PROPERTIES, update, language="typescript")[0].text == wanted


def test_a_new_decorator_leaves_the_one_above_it_in_its_place() -> None:
    original = '@app.get("/a")\n@login\ndef a():\n    return 1\n\n\n@app.get("/b")\ndef b():\n    return 2\n'
    update = '# ... existing code ...\n\n@app.get("/b")\n@login\ndef b():\n    return 2\n'
    wanted = original.replace("def b", "@login\ndef b")
    assert readings(original, update, language="python")[0].text == wanted


def test_a_new_definition_with_the_body_of_a_hidden_one_may_be_its_new_name() -> None:
    original = "class Orders:\n    def find(self, id):\n        return self.orders.get(id)\n\n    def clear(self):\n"
    original += "        pass\n"
    update = "class Orders:\n    # ...\n    def find_by_id(self, id):\n        return self.orders.get(id)\n    # ...\n"
    found = merge(original, update, language="python")
    assert found.certainty is not Certainty.CERTAIN
    assert "may be its new name" in "; ".join(found.reasons)
