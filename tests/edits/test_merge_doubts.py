"""What makes the predicted merge less than certain, one reason a test, and blocks that only tell a place."""

from __future__ import annotations

from apply_service.edits.merge import merge
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


def test_another_end_that_makes_the_change_smaller_is_a_doubt() -> None:
    update = """\
# ... existing code ...
class Server:
    def open(self, address):
        if address is None:
            warn(
                "an address is needed here",

    def open(self, address):
        if address is None:
            warn(
# ... existing code ...
"""
    assert python(SERVER, update).certainty is not Certainty.CERTAIN


def test_a_line_shown_as_new_right_beside_its_old_place_is_a_doubt() -> None:
    update = """\
import os
import warnings

# Raised for hosts that are trusted
warnings.filterwarnings("ignore", category=PoolWarning)
# Raised where a library is not installed
# that the pool would have liked to use
# for its connections to the outside
warnings.filterwarnings("ignore", category=LibraryWarning)

logger = get_logger(__name__)

# ... existing code ...
"""
    assert python(SERVER, update).certainty is not Certainty.CERTAIN


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
    assert prediction.certainty is Certainty.CERTAIN


def test_space_left_before_a_remark_may_belong_to_the_line() -> None:
    update = SERVER.replace("connect(address)", "connect(address, 3)   # <- changed")
    prediction = python(SERVER, update)
    assert text_of(prediction) == SERVER.replace("connect(address)", "connect(address, 3)")
    assert "trailing white space differs" in prediction.reasons
    close = python(SERVER, SERVER.replace("connect(address)", "connect(address, 3)  # <- changed"))
    assert "trailing white space differs" not in close.reasons


def test_remarks_without_an_arrow_may_be_the_authors_own() -> None:
    update = SERVER.replace("import os", "import io  # replaces os").replace("connect(", "dial(").rstrip("\n")
    update += "  # replaces connect\n"
    assert "remark or comment" in python(SERVER, update).reasons


def test_a_line_indented_as_no_line_of_the_file_is_a_doubt() -> None:
    update = """\
# ... existing code ...
        elif address == "":
            warn(
              "an address must not be empty",
              stacklevel=3,
            )
        return connect(address)
"""
    assert "indented otherwise without a cause" in python(SERVER, update).reasons


def test_other_blank_lines_at_a_deletion_note_than_the_file_has_are_a_doubt() -> None:
    original = "def first():\n    x = 1\n\n    y = 2\n\n\ndef second():\n    return 2\n"
    update = "def first():\n    x = 1\n\n    # removed: y\ndef second():\n    return 2\n"
    assert "blank lines at a deletion note" in python(original, update).reasons


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


LOOP = """\
    for _, test in ipairs(tests_of_the_parser) do
      local parsed = parse_the_spec(test)
      assert_that(parsed.is_complete)
      assert_same(test.options, values_of(parsed, "options"))
    end
  end)
end)

describe("the whole spec", function()
  it("has a name", function()
    assert_that(spec.name_of_it)
  end)
end)
"""


def test_levels_wider_than_the_files_are_a_doubt_even_where_one_line_fits() -> None:
    wider = """\
    for _, test in ipairs(tests_of_the_parser) do
        it("parses the options of " .. name_of(test), function()
            local parsed = parse_the_spec(test)
            assert_that(parsed.is_complete)
            assert_same(test.options, values_of(parsed, "options"))
        end)
    end
end)

describe("the whole spec", function()
-- ... remaining code unchanged ...
"""
    as_the_file = (
        wider.replace("            ", "        ").replace("        it", "      it").replace("        end", "      end")
    )
    assert merge(LOOP, wider, language="lua", path="spec.lua").certainty is not Certainty.CERTAIN
    assert merge(LOOP, as_the_file, language="lua", path="spec.lua").certainty is Certainty.CERTAIN
