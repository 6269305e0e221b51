"""What a chat is taken for: a tagged edit, a predicted file and its edit, an instruction, or nothing that is served."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apply_service.api.chat_edit import ANCHOR_RULES, MERCURY, MORPH, ChatEdit, is_edit, read_chat
from apply_service.errors import AmbiguousTags, ApplyError, NotAnEdit, TooLarge

FILE = "import os\n\n\ndef area(w, h):\n    return w * h\n"
SNIPPET = "def area(w, h):\n    return abs(w * h)\n"
TAGGED = f"<code>{FILE}</code>\n<update>{SNIPPET}</update>"
ASKS = "Output the file within <updated-code></updated-code> tags only."


def test_tags_alone_are_enough() -> None:
    assert read_chat([], [TAGGED], None, MORPH) == ChatEdit(FILE, SNIPPET, "")


def test_tags_beside_the_same_prediction() -> None:
    assert read_chat(["be brief"], [TAGGED], FILE, MORPH) == ChatEdit(FILE, SNIPPET, "")


def test_tags_beside_another_prediction_are_refused() -> None:
    """The tags may then be what the edit is about."""
    with pytest.raises(AmbiguousTags):
        read_chat([], [TAGGED], FILE + "x", MORPH)


@pytest.mark.parametrize(
    ("system", "user"),
    [([], []), (["s"], []), ([], ["hi"]), ([], [FILE]), ([], ["<code>a</code>", "<update>b</update>"])],
)
def test_chats_without_an_edit(system: list[str], user: list[str]) -> None:
    with pytest.raises(NotAnEdit) as caught:
        read_chat(system, user, None, MORPH)
    assert caught.value.remedy


def test_a_conversation_before_the_tags_is_not_dropped() -> None:
    with pytest.raises(NotAnEdit):
        read_chat([], ["rename w too", TAGGED], None, MORPH)


def test_each_spelling_of_the_tags_has_its_endpoint() -> None:
    mercury = "<|original_code|>\na\n<|/original_code|>\n<|update_snippet|>\nb\n<|/update_snippet|>"
    assert read_chat([], [mercury], None, MERCURY) == ChatEdit("a", "b", "")
    for text, tags in ((mercury, MORPH), (TAGGED, MERCURY)):
        with pytest.raises(NotAnEdit):
            read_chat([], [text], None, tags)


# -- predictions -------------------------------------------------------------------------------------------------------
EDITS = {
    "marker": "# ... existing code ...\n\ndef area(w, h):\n    return abs(w * h)\n",
    "line of the file first": SNIPPET,
    "indented line of the file first": "    def area(w, h):\n        return 0\n",
    "fenced": "```python\ndef perimeter(w, h):\n    return 2 * (w + h)\n```\n",
    "search and replace": "<<<<<<< SEARCH\n    return w * h\n=======\n    return 0\n>>>>>>> REPLACE\n",
    "diff": "--- a/x.py\n+++ b/x.py\n@@ -4,2 +4,2 @@\n def area(w, h):\n-    return w * h\n+    return 0\n",
    "patch": "*** Begin Patch\n*** Update File: x.py\n-    return w * h\n+    return 0\n*** End Patch\n",
}
PROSE = {
    "request": "Rename area to surface.",
    "request with a fence": "Please use this:\n```python\nreturn 0\n```\n",
    "prompt with the file in it": f"{FILE}\n\nThe following code was suggested:\n{SNIPPET}",
    "prompt with the file fenced": f"Rewrite:\n```\n{FILE}```\nMake area absolute.",
    "other code": "fn main() {}\n",
    "blank": " \n",
}


@pytest.mark.parametrize("text", EDITS.values(), ids=EDITS)
def test_a_prediction_and_an_edit(text: str) -> None:
    assert is_edit(text, FILE)
    assert read_chat(["you merge code"], [text], FILE, MORPH) == ChatEdit(FILE, text, "")


@pytest.mark.parametrize("text", PROSE.values(), ids=PROSE)
def test_a_prediction_and_anything_else_is_an_instruction(text: str) -> None:
    assert not is_edit(text, FILE)
    assert read_chat(["Answer in code."], [text], FILE, MORPH) == ChatEdit(FILE, "", f"Answer in code.\n\n{text}")


def test_the_file_as_a_message_of_its_own_is_not_the_edit() -> None:
    """As in the published example of predicted outputs."""
    asked = "Replace the username by an email."
    assert read_chat([], [asked, FILE], FILE, MORPH) == ChatEdit(FILE, "", asked)


@pytest.mark.parametrize("user", [[], [FILE], ["a", "b"], [SNIPPET, FILE, "b"]])
def test_a_prediction_and_not_one_message(user: list[str]) -> None:
    with pytest.raises(NotAnEdit):
        read_chat([], user, FILE, MORPH)


# -- the way back ------------------------------------------------------------------------------------------------------
def test_the_answer_is_tagged_where_the_prompt_asks_for_it() -> None:
    for system, user in (([ASKS], TAGGED), ([], f"{ASKS}\n\n{TAGGED}\n\nNow:")):
        edit = read_chat(system, [user], None, MORPH)
        assert edit.original == FILE
        assert edit.head + edit.write("x\n") + edit.tail == "<updated-code>x\n</updated-code>"


def test_tags_that_only_the_file_names_ask_for_nothing() -> None:
    edit = read_chat([], [f"<code>{ASKS}</code><update>b</update>"], None, MORPH)
    assert edit.wrapping == "bare"
    assert edit.head + edit.write("<&>") + edit.tail == "<&>"


def test_escaped_content_is_merged_as_what_it_stands_for() -> None:
    code = "if (a &lt; b &amp;&amp; c) say(&quot;&amp;lt;&quot;, &apos;x&apos;);"
    edit = read_chat([ASKS], [f"<code>{code}</code>\n<update>a &gt; b</update>"], None, MORPH)
    assert edit == ChatEdit("if (a < b && c) say(\"&lt;\", 'x');", "a > b", "", "escaped")
    assert edit.write(edit.original) == code


@pytest.mark.parametrize("raw", ["a < b", "R&D", 'say("x")', "&copy;", "&#39;", "& "])
def test_content_with_anything_unescaped_is_taken_as_it_is(raw: str) -> None:
    for code, update in ((raw, "&lt;"), ("&lt;", raw)):
        edit = read_chat([ASKS], [f"<code>{code}</code>\n<update>{update}</update>"], None, MORPH)
        assert (edit.original, edit.update, edit.wrapping) == (code, update, "tagged")
        assert edit.write(raw) == raw


@settings(max_examples=200, deadline=None, print_blob=True)
@given(st.text(alphabet="<>&\"'ampltgquosx;# \n"), st.text(alphabet="<>&'x"))
def test_escaped_texts_come_back_as_they_were(text: str, update: str) -> None:
    def escape(raw: str) -> str:
        """As the client does it, one sign after the other."""
        for sign, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ('"', "quot"), ("'", "apos")):
            raw = raw.replace(sign, f"&{name};")
        return raw

    edit = read_chat([ASKS], [f"<code>{escape(text)}</code><update>{escape(update)}</update>"], None, MORPH)
    assert (edit.original, edit.update) == (text, update)
    assert edit.write(text) == escape(text)


def test_escapes_are_found_without_going_back() -> None:
    """A pattern that went back would never end here."""
    code = "x" * 200_000 + "<"
    edit = read_chat([ASKS], [f"<code>{code}</code><update>b</update>"], None, MORPH)
    assert edit.original == code


# -- a long file behind anchors ----------------------------------------------------------------------------------------
def anchored(code: str, update: str = "b", *, space: int = 0, n_chars: int = 3) -> str:
    """The message that Morph's clients send of a long file, where lines of `n_chars` count as long."""
    table: dict[str, str] = {}
    lines = code.split("\n")
    for line in lines:
        if len(line) >= n_chars:
            table.setdefault(line, f"⟪M{space}:{len(table)}:line⟫")
    rows = [f"{placeholder}={json.dumps(line, ensure_ascii=False)}" for line, placeholder in table.items()]
    begin, end, start = (f"⟪MORPH_{name}_{space}⟫" for name in ("DEFINITIONS_BEGIN", "DEFINITIONS_END", "CODE_BEGIN"))
    text = "\n".join([begin, *rows, end, start, "\n".join(table.get(line, line) for line in lines)])
    asked = f"I do.{ANCHOR_RULES}The <code> block starts with a table."
    return f"<instruction>{asked}</instruction>\n<code>{text}</code>\n<update>{update}</update>"


@settings(max_examples=200, deadline=None, print_blob=True)
@given(
    st.lists(st.sampled_from([FILE, "\ufeffx = 1", "\r", '"\\', "⟪M1:0:line⟫", "\u2028", "\n", "=", "ab"])).map("".join)
)
def test_anchors_stand_for_the_file(end: str) -> None:
    code = FILE + end
    expected = ChatEdit(code, "b", "I do.")
    assert read_chat([], [anchored(code)], None, MORPH, 10_000) == expected
    again = anchored(code, space=1) if "⟪M1:" not in code else anchored(code, space=2)
    assert read_chat([], [again], None, MORPH, 10_000) == expected


def test_parts_of_lines_may_be_anchored_too() -> None:
    """As of HTML."""
    table = '⟪M0:0:/div⟫="</div\\n>"\n⟪M0:1:text⟫="a long text"'
    head = f"⟪MORPH_DEFINITIONS_BEGIN_0⟫\n{table}\n⟪MORPH_DEFINITIONS_END_0⟫\n⟪MORPH_CODE_BEGIN_0⟫\n"
    message = f"<code>{head}<a>⟪M0:1:text⟫⟪M0:0:/div⟫</code><update>b</update>"
    edit = read_chat([], [message], None, MORPH, 100)
    assert edit.original == "<a>a long text</div\n>"


def test_anchors_are_the_files_own_text_where_the_client_does_not_say_so() -> None:
    message = anchored(FILE)
    code = message.partition("\n<code>")[2].partition("</code>")[0]
    assert read_chat([], [message], None, MORPH).original == code
    assert read_chat([], [f"<code>x{code}</code><update>b</update>"], None, MORPH, 1000).original == f"x{code}"
    nested = anchored(code, space=1)
    assert read_chat([], [nested], None, MORPH, 10_000).original == code


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (anchored(FILE).replace("⟪MORPH_DEFINITIONS_END_0⟫", ""), NotAnEdit),
        (anchored(FILE).replace("⟪M0:0:line⟫=", ""), NotAnEdit),
        (anchored(FILE).replace('="', '=["'), NotAnEdit),
        (anchored(FILE).replace("import os", "\\ud800"), NotAnEdit),
        (anchored("abc\n" * 1000), TooLarge),
        (anchored("x\n⟪MORPH_CODE_BEGIN_0⟫"), AmbiguousTags),
        (anchored(FILE, "⟪MORPH_CODE_BEGIN_0⟫"), AmbiguousTags),
    ],
)
def test_anchors_that_cannot_be_taken(message: str, kind: type[ApplyError]) -> None:
    with pytest.raises(kind) as caught:
        read_chat([], [message], None, MORPH, 1000)
    assert caught.value.remedy


# -- the language ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("original", "update", "language"),
    [
        (FILE, SNIPPET, "python"),
        ("x\n", f"```python\n{SNIPPET}```\n", "python"),
        ("x\n", "```src/app.ts\nlet a = 1\n```\n", "typescript"),
        ("x\n", "```js\na\n```\n\n```python\nb\n```\n", None),
        (FILE, "```diff\n-a\n+b\n```\n", "python"),
        ("x\n", "y\n", None),
    ],
)
def test_the_language_of_a_file_without_a_name(original: str, update: str, language: str | None) -> None:
    assert ChatEdit(original, update, "").language() == language
