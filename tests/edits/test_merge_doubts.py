"""Lines that only seem to be remarks, notes or anchors, and blocks that only tell a place."""

from __future__ import annotations

import pytest

from apply_service.merge.merge import merge
from apply_service.merge.rank.risks import BESIDE
from apply_service.text.lines import are_other_entries
from apply_service.types import Certainty, Prediction

SERVER = """\
import os
import warnings

logger = get_logger(__name__)

# Hide the warnings of the pool
warnings.filterwarnings("ignore", category=PoolWarning)


class Server:
    def open(self, address):
        if address is None:
            warn(
                "an address is needed here",
                stacklevel=2,
            )
        elif address == "":
            warn(
                "an address must not be empty",
                stacklevel=2,
            )
        return connect(address)
"""


def text_of(prediction: Prediction) -> str:
    return "\n".join(op.text for op in prediction.ops if op.kind != "drop")


def python(original: str, update: str) -> Prediction:
    return merge(original, update, language="python", path="server.py")


def test_a_new_docstring_that_speaks_of_removing_is_no_note() -> None:
    update = """\
# ... existing code ...
class Server:
    def removed(self):
        \"\"\"Removed addresses, oldest first.\"\"\"
        return self._removed

    def open(self, address):
        if address is None:
# ... existing code ...
"""
    head, tail = SERVER.split("    def open", 1)
    new = '    def removed(self):\n        """Removed addresses, oldest first."""\n        return self._removed\n\n'
    prediction = python(SERVER, update)
    assert text_of(prediction) == f"{head}{new}    def open{tail}"


def test_a_remark_goes_with_the_space_before_it() -> None:
    for space in ("  ", "   "):
        update = SERVER.replace("connect(address)", f"connect(address, 3){space}# <- changed")
        assert text_of(python(SERVER, update)) == SERVER.replace("connect(address)", "connect(address, 3)")


BODY = """\
            usage = None
            calls = {}
            for chunk in completion:
                if chunk.has_usage_of_tokens:
                    usage = chunk.usage.dump()
                for tool_call in chunk.delta.tool_calls:
                    index_of_the_call = tool_call.index
                    arguments_of_call = tool_call.arguments
                    calls[index_of_the_call] = arguments_of_call
                text_of_the_chunk = chunk.delta.content
                if text_of_the_chunk is not None:
                    yield text_of_the_chunk
            for name_of_call, value_of_call in calls.items():
                response.add_tool_call(name_of_call, value_of_call)
            response.json_of_response = combine_the_chunks(usage)
"""
SHORT = """\
            usage = None
            async for chunk in completion:
                yield chunk.delta.content
            response.json_of_response = combine_the_chunks(usage)
"""


def test_a_block_that_shows_a_header_only_holds_its_place() -> None:
    """However much of what follows stands further up."""
    chat = f"class Chat(Shared):\n    def execute(self, prompt):\n        if prompt:\n{BODY}        self.finish(1)\n"
    header = "class AsyncChat(Shared):\n    async def execute(self, prompt):\n        if prompt:\n"
    ending = "        self.finish(2)\n"
    wanted_body = BODY.replace("for chunk in", "async for chunk in")
    update = f"# ... existing code ...\nclass AsyncChat(Shared):\n    # ... existing code ...\n{wanted_body}{ending}"
    prediction = python(f"{chat}\n\n{header}{SHORT}{ending}", update)
    assert text_of(prediction) == f"{chat}\n\n{header}{wanted_body}{ending}"


@pytest.mark.parametrize(
    ("original", "update"),
    [
        pytest.param(
            'KINDS = {\n    "json": Json(2),\n    "yaml": Yaml(2),\n    "toml": Toml(2),\n}\n',
            'KINDS = {\n    # ...\n    "yaml": Yaml(2),\n    "yml": Yaml(2),\n    # ...\n}\n',
            id="entry",
        ),
        pytest.param(
            'add("pen", 2);\nadd("ink", 4);\nshow();\n',
            'add("pen", 2);\nadd("pencil", 3);\n// ... rest ...\n',
            id="call",
        ),
        pytest.param(
            "if (a < 0) {\n  throw low();\n}\nif (a > 1) {\n  throw high();\n}\nrun(a);\n",
            "if (a < 0) {\n  throw low();\n}\nif (isNaN(a)) {\n  throw none();\n}\n// ... existing code ...\n",
            id="condition",
        ),
        pytest.param(
            "[[worker]]\nname = 'mail'\n\n[[worker]]\nname = 'index'\n",
            "[[worker]]\nname = 'mail'\n\n[[worker]]\nname = 'pdf'\n\n# ...\n",
            id="named",
        ),
        pytest.param(
            'if ! has node >/dev/null; then\n  log "no node"\n  exit 1\nfi\n\nif ! has git >/dev/null; then\n'
            '  log "no git"\n  exit 1\nfi\n\nrun\n',
            'if ! has node >/dev/null; then\n  log "no node"\n  exit 1\nfi\n\nif ! has jq >/dev/null; then\n'
            '  log "no jq"\n  exit 1\nfi\n\n# ... existing code ...\n',
            id="block with the lines of the other's body",
        ),
    ],
)
def test_a_new_line_like_a_hidden_one_of_another_thing_is_never_sure(original: str, update: str) -> None:
    found = merge(original, update)
    gone = [op for op in found.ops if op.kind == "drop" and op.text.strip()]
    assert not gone or (found.certainty is not Certainty.CERTAIN and any(BESIDE in why for why in found.reasons))


def test_one_thing_before_and_after_an_edit() -> None:
    same = [("x = 1", "x = 2"), ("return a", "return b(c)"), ("if a > 1:", "if a >= 1:"), ('f("a", 1)', 'f("a", 2)')]
    same += [("for a in rows:", "for b in rows:"), ("if [ -f a ]; then", "if [ -f a ]; then  # x")]
    other = [("x = 1", "y = 1"), ("name: a", "name: b"), ('f("a")', 'f("b")'), ("COPY a.json .", "COPY b.lock .")]
    assert not any(are_other_entries(*pair) for pair in same)
    assert all(are_other_entries(*pair) for pair in other)


@pytest.mark.parametrize(
    ("language", "original", "update"),
    [
        pytest.param(
            "c",
            "int f(int a) {\n    if (a < 0) {\n        log();\n        return -1;\n"
            "    } else if (a == 0) {\n        log();\n"
            "        return 0;\n    } else if (a == 1) {\n        one();\n        return 1;\n"
            "    }\n    return run(a);\n}\n",
            "int f(int a) {\n    if (a < 0) {\n        log();\n        return -1;\n"
            "    } else if (a == 2) {\n        log();\n"
            "        return 0;\n    }\n    // rest\n}\n",
            id="closed chain",
        ),
        pytest.param(
            "javascript",
            "function f(a) {\n  if (a < 0) {\n    return -1;\n  } else if (a === 0) {\n    return 0;\n"
            "  } else {\n"
            "    return run(a);\n  }\n}\n",
            "function f(a) {\n  if (a < 0) {\n    return -2;\n"
            "  } else if (a === 9) {\n    return 9;\n  }\n  // rest\n}\n",
            id="closed chain without else",
        ),
    ],
)
def test_branches_that_go_above_a_marker_are_a_doubt(language: str, original: str, update: str) -> None:
    found = merge(original, update, language=language)
    assert found.text.count("else") == original.count("else") or found.certainty is not Certainty.CERTAIN


@pytest.mark.parametrize(
    ("language", "original", "update", "old", "new"),
    [
        pytest.param(
            "json",
            '{\n  "needs": {\n    "express": "^4",\n    "zod": "^3"\n  },\n  "tests": {\n    "vitest": "^1"\n  }\n}\n',
            '"needs": {\n  "express": "^4",\n  "zod": "^3",\n  "pino": "^9"\n}\n',
            '"zod": "^3"\n',
            '"zod": "^3",\n    "pino": "^9"\n',
            id="object",
        ),
        pytest.param(
            "rust",
            "fn f(c: C) -> u8 {\n    match c {\n        C::A => {\n            one();\n            1\n        },\n"
            "        C::B => {\n            two();\n            2\n        }\n    }\n}\n",
            "// ...\n        C::A => {\n            one();\n            extra();\n            1\n        }\n// ...\n",
            "one();\n",
            "one();\n            extra();\n",
            id="arm",
        ),
    ],
)
def test_the_closing_line_of_a_block_has_the_comma_of_the_file(
    language: str, original: str, update: str, old: str, new: str
) -> None:
    assert merge(original, update, language=language).text == original.replace(old, new)
