"""The tool calls that agents send, each as an edit of one small file: what `docs/edits.md` lists and the tests hold."""

from __future__ import annotations

import json
from typing import NamedTuple

from xxhash import xxh32_intdigest

FILE = """\
import os


def load(path):
    with open(path) as file:
        return file.read()


def save(path, text):
    with open(path, 'w') as file:
        file.write(text)
"""
OLD, NEW = "        return file.read()", "        return file.read().strip()"
STRIPPED = FILE.replace(OLD, NEW)
IMPORTED = FILE.replace("import os\n", "import os\nimport sys\n")
HUNK = f"@@ def load(path):\n     with open(path) as file:\n-{OLD}\n+{NEW}\n"
SNIPPET = f"def load(path):\n    with open(path) as file:\n{NEW}\n# ... existing code ...\n"
PATCH = f"*** Begin Patch\n*** Update File: a.py\n{HUNK}*** End Patch\n"
THOUGHT = "Perhaps so:\n```python\ndef load(path):\n    return 1\n```"


class Form(NamedTuple):
    """A way to write an edit.  `wanted`: the file after it; None where the call is refused."""

    name: str
    sent_by: str
    edit: str
    wanted: str | None = STRIPPED
    format: str = "json_edit"
    error: str = ""
    is_doubted: bool = False


def anchor(line: int, sign: str = ":") -> str:
    """The line's number and usual hash."""
    bare = "".join(FILE.split("\n")[line - 1].split()).encode()
    return f"{line}{sign}{xxh32_intdigest(bare) & 255:02x}"


def lettered(line: int) -> str:
    """The line's number and its hash in letters."""
    letters = "ZPMQVRWSNKTXJBYH"
    n = xxh32_intdigest("".join(FILE.split("\n")[line - 1].split()).encode()) & 255
    return f"{line}#{letters[n >> 4]}{letters[n & 15]}"


def text_editor(command: str, **fields: object) -> str:
    return json.dumps({"type": "tool_use", "name": "str_replace_based_edit_tool", "id": "toolu_1",
                       "input": {"command": command, "path": "a.py", **fields}})  # fmt: skip


def operation(kind: str, path: str = "a.py", **fields: object) -> dict[str, object]:
    return {"type": "apply_patch_call", "call_id": "c1", "operation": {"type": kind, "path": path, **fields}}


def hashed(*edits: dict[str, object]) -> str:
    return json.dumps({"path": "a.py", "edits": edits})


def call(name: str, **arguments: object) -> str:
    return json.dumps({"type": "function_call", "name": name, "arguments": json.dumps(arguments)})


BOTH = STRIPPED.replace("import os\n", "import os\nimport sys\n")
PAIR = {"old_string": OLD, "new_string": NEW}
SECOND = {"old_string": "import os\n", "new_string": "import os\nimport sys\n"}
TEXT_EDITOR, RESPONSES, HASHLINE = "Anthropic's text editor", "OpenAI's Responses", "oh-my-pi and followers"

FORMS = (
    Form("str_replace", TEXT_EDITOR, text_editor("str_replace", old_str=OLD, new_str=NEW)),
    Form("insert", TEXT_EDITOR, text_editor("insert", insert_line=1, insert_text="import sys\n"), IMPORTED),
    Form("insert, older", TEXT_EDITOR, text_editor("insert", insert_line=1, new_str="import sys"), IMPORTED),
    Form("insert at the start", TEXT_EDITOR, text_editor("insert", insert_line=0, insert_text="#!\n"), "#!\n" + FILE),
    Form("insert at the end", TEXT_EDITOR, text_editor("insert", insert_line=11, insert_text="# end\n"),
         FILE + "# end\n"),
    Form("insert behind the end", TEXT_EDITOR, text_editor("insert", insert_line=99, insert_text="x\n"), None,
         error="needs_more_context"),
    Form("create, where the file exists", TEXT_EDITOR, text_editor("create", file_text="x = 1\n"), None,
         error="needs_more_context"),
    Form("view", TEXT_EDITOR, text_editor("view"), None, error="malformed_edit"),
    Form("oldString, newString", "opencode", call("edit", filePath="a.py", oldString=OLD, newString=NEW)),
    Form("edits of oldText, newText", "pi, MCP's filesystem server",
         json.dumps({"path": "a.py", "edits": [{"oldText": OLD, "newText": NEW}]})),
    Form("several edits", "Claude Code's MultiEdit", call("MultiEdit", file_path="a.py", edits=[PAIR, SECOND]), BOTH),
    Form("several calls", "any", json.dumps([{"name": "edit", "arguments": one} for one in (PAIR, SECOND)]), BOTH),
    Form("functionCall with args", "Gemini CLI",
         json.dumps({"functionCall": {"name": "replace", "args": {"file_path": "a.py", **PAIR}}})),
    Form("apply_patch_call, update_file", RESPONSES, json.dumps(operation("update_file", diff=HUNK)),
         format="v4a_patch"),
    Form("apply_patch_call in an output", RESPONSES,
         json.dumps({"output": [{"type": "reasoning", "summary": []}, operation("update_file", diff=HUNK)]}),
         format="v4a_patch"),
    Form("apply_patch_call, several", RESPONSES,
         json.dumps([operation("update_file", diff=HUNK), operation("create_file", "b.py", diff="+x = 1\n"),
                     operation("delete_file", "c.py")]), format="v4a_patch"),
    Form("apply_patch_call with a directive in its diff", RESPONSES,
         json.dumps(operation("update_file", diff=HUNK + "*** Delete File: b.py\n")), None, error="malformed_edit"),
    Form("apply_patch in a shell call", "codex", json.dumps({"command": ["apply_patch", PATCH]}), format="v4a_patch"),
    Form("set_line", HASHLINE, hashed({"set_line": {"anchor": anchor(6), "new_text": NEW}}), format="hashline"),
    Form("replace_lines", HASHLINE,
         hashed({"replace_lines": {"start_anchor": anchor(5), "end_anchor": anchor(6),
                                   "new_text": f"    with open(path) as file:\n{NEW}"}}), format="hashline"),
    Form("insert_after", HASHLINE, hashed({"insert_after": {"anchor": anchor(1), "text": "import sys"}}), IMPORTED,
         format="hashline"),
    Form("op, pos and lines", HASHLINE,
         hashed({"op": "replace", "pos": lettered(6), "lines": [NEW]},
                {"op": "append", "pos": lettered(1), "lines": ["import sys"]}), BOTH, format="hashline"),
    Form("src and dst", HASHLINE, hashed({"src": f"{anchor(5)}..{anchor(6)}",
                                          "dst": f"    with open(path) as file:\n{NEW}"}), format="hashline"),
    Form("src behind a line", HASHLINE, hashed({"src": f"{anchor(1)}..", "dst": "import sys"}), IMPORTED,
         format="hashline"),
    Form("text without JSON", HASHLINE,
         f"replace {anchor(5)}..{anchor(6)}\n+    with open(path) as file:\n+{NEW}\ninsert after {anchor(1)}:\n"
         "+import sys\n", BOTH, format="hashline"),
    Form("lines and text in one call", HASHLINE,
         hashed({"set_line": {"anchor": anchor(6), "new_text": NEW}},
                {"replace": {"old_text": "import os", "new_text": "import os\nimport sys"}}), BOTH, format="hashline"),
    Form("new lines that begin with a number and hash", HASHLINE,
         hashed({"set_line": {"anchor": anchor(6), "new_text": f"{anchor(6)}|{NEW}"}}), format="hashline",
         is_doubted=True),
    Form("a hash that does not fit", HASHLINE, hashed({"set_line": {"anchor": "6:00", "new_text": NEW}}), None,
         error="stale_base"),
    Form("a line that is not there", HASHLINE, hashed({"set_line": {"anchor": "60:00", "new_text": NEW}}), None,
         error="stale_base"),
    Form("two edits of one line", HASHLINE,
         hashed({"set_line": {"anchor": anchor(6), "new_text": NEW}},
                {"replace_lines": {"start_anchor": anchor(5), "end_anchor": anchor(6), "new_text": "x"}}), None,
         error="malformed_edit"),
    Form("JSON with a raw line end in a text", "any",
         '{"old_string": "    with open(path) as file:\n' + OLD + '", "new_string": "    with open(path) as file:\n'
         + NEW + '"}'),
    Form("JSON with a comma too many", "any",
         '{"edits": [{"old_string": "' + OLD + '", "new_string": "' + NEW + '",},]}', is_doubted=True),
    Form("JSON with single quotes", "any", str(PAIR), is_doubted=True),
    Form("JSON cut off inside a text", "any", json.dumps(PAIR)[:-4], None, error="malformed_edit"),
    Form("JSON cut off inside a list", "any", json.dumps({"edits": [SECOND, PAIR]})[:-2], None, error="malformed_edit"),
    Form("JSON without its last bracket", "any", json.dumps(PAIR)[:-1], None, error="malformed_edit"),
    Form("`<tool_call>` around JSON", "Qwen, Hermes",
         f"<tool_call>\n{json.dumps({'name': 'edit', 'arguments': PAIR})}\n</tool_call>"),
    Form("`<invoke>` with parameters", "Claude's own tags",
         f'<function_calls>\n<invoke name="Edit">\n<parameter name="file_path">a.py</parameter>\n'
         f'<parameter name="old_string">{OLD}</parameter>\n<parameter name="new_string">{NEW}</parameter>\n'
         "</invoke>\n</function_calls>"),
    Form("`<function=>` with parameters", "Qwen3-Coder",
         f"<tool_call>\n<function=edit>\n<parameter=old_string>\n{OLD}\n</parameter>\n<parameter=new_string>\n{NEW}\n"
         "</parameter>\n</function>\n</tool_call>"),
    Form("tags with a closing tag in a value", "any",
         '<invoke name="Edit">\n<parameter name="old_string">import os</parameter>\n<parameter name="new_string">'
         'x = "</parameter>"</parameter>\n</invoke>', None, error="malformed_edit"),
    Form("write_file", "Cline, Claude Code", call("write_to_file", path="a.py", content=STRIPPED), format="whole_file"),
    Form("edit_file with code_edit", "Morph", call("edit_file", target_filepath="a.py", instructions="I strip the text",
                                                   code_edit=SNIPPET), format="lazy_snippet"),
    Form("insert_edit_into_file", "VS Code's chat", call("insert_edit_into_file", filePath="a.py", explanation="x",
                                                         code=SNIPPET), format="lazy_snippet"),
    Form("`<think>` before a call", "reasoning models", f"<think>\n{THOUGHT}\n</think>\n{json.dumps(PAIR)}"),
    Form("`<think>` before a snippet", "reasoning models", f"<think>{THOUGHT}\n</think>\n\n```python\n{SNIPPET}```",
         format="lazy_snippet"),
    Form("`<thinking>` behind a sentence", "reasoning models",
         f"Let me see.\n<thinking>\n{THOUGHT}\n</thinking>\n\n```python\n{SNIPPET}```", format="lazy_snippet"),
)  # fmt: skip
