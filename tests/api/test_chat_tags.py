"""Tagged messages: every client's layout is read, and no content is ever taken for a tag."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from apply_service.api.chat_edit import APPLY_TOKEN, MERCURY, MORPH, Tagged, read_chat, read_tags
from apply_service.errors import AmbiguousTags, ApplyError, NotAnEdit

PROMPT = (
    "Merge all changes from the <update> snippet into the <code> below.\n- Use <updated-code> and </updated-code>.\n\n"
)
LAYOUTS = {
    "code and update": "<code>{c}</code>\n<update>{u}</update>",
    "in one line": "<code>{c}</code><update>{u}</update>",
    "instruction first": "<instruction>{i}</instruction>\n<code>{c}</code>\n<update>{u}</update>",
    "instructions, blanks between": "<instructions>{i}</instructions> <code>{c}</code> <update>{u}</update>",
    "line breaks around": "\n<instruction>{i}</instruction>\n<code>{c}</code>\n<update>{u}</update>\n",
    "in a prompt": PROMPT + "<code>{c}</code>\n\n<update>{u}</update>\n\nProvide the complete updated code.",
    "in a prompt, instruction": PROMPT
    + "<instruction>{i}</instruction>\n<code>{c}</code>\n<update>{u}</update>\nDone.",
}
PIECES = (
    "<code>",
    "</code>",
    "<update>",
    "</update>",
    "<instruction>",
    "</instruction>",
    "<instructions>",
    "</instructions>",
    "<updated-code>",
    "</updated-code>",
    "<|original_code|>",
    "<|/original_code|>",
    "<|update_snippet|>",
    "<|/update_snippet|>",
    "<|im_end|>",
    APPLY_TOKEN,
    "\n",
    "\r\n",
    " ",
    "x = 1",
)
CONTENT = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_every_layout_is_read(layout: str) -> None:
    text = layout.format(i="I do.", c="a\n  b\n", u="# ...\nb")
    read = read_tags(text, MORPH)
    assert read is not None
    instruction = "I do." if "{i}" in layout else ""
    assert (read.instruction, read.code, read.update) == (instruction, "a\n  b\n", "# ...\nb")


OTHER_LAYOUTS = (
    "<update>{u}</update>\n<code>{c}</code>",
    "<instruction>{i}</instruction>\n<update>{u}</update>\n<code>{c}</code>",
    "<update>{u}</update>\n<instructions>{i}</instructions>\n<code>{c}</code>\n",
    "Apply this:\n<update>{u}</update>\n<code>{c}</code>\n<instruction>{i}</instruction>\nThanks.",
    "<code>{c}</code>\n<instruction>{i}</instruction>\n<update>{u}</update>",
    "<code>{c}</code>\n<update>{u}</update>\n<instruction>{i}</instruction>",
)


@pytest.mark.parametrize("layout", OTHER_LAYOUTS)
def test_the_tags_may_come_in_another_order(layout: str) -> None:
    edit = read_chat([], [layout.format(i="I do.", c="a\n  b\n", u="# ...\nb")], None, MORPH)
    assert (edit.original, edit.update, edit.instruction) == (
        "a\n  b\n",
        "# ...\nb",
        "I do." if "{i}" in layout else "",
    )


@settings(max_examples=400, deadline=None, print_blob=True)
@given(st.sampled_from(OTHER_LAYOUTS), CONTENT, CONTENT, CONTENT)
def test_content_in_another_order_is_read_exactly_or_refused(
    layout: str, instruction: str, code: str, update: str
) -> None:
    assume(
        "</code><update>" not in "".join((instruction + "@" + code + "@" + update).split())
    )  # the usual order's seam
    try:
        edit = read_chat([], [layout.format(i=instruction, c=code, u=update)], None, MORPH)
    except (AmbiguousTags, NotAnEdit):
        return
    read = (edit.original, edit.update, edit.instruction)
    assert read == (code, update, instruction if "{i}" in layout else "")


def test_text_around_the_tags_is_kept_apart() -> None:
    read = read_tags(PROMPT + "<code>a</code>\n\n<update>b</update>\n\nNow.", MORPH)
    assert read == Tagged("a", "b", "", PROMPT + "\n\nNow.")


@pytest.mark.parametrize(
    "content",
    [
        "</code>",
        "</update>",
        "<code>\n</code>",
        "<update>\n</update>\n",
        "\n<code>\n",
        "\n<instruction>x</instruction>\n",
        "</code></update>",
        "</update></code>",
        "<updated-code></updated-code>",
        "<|/original_code|>\n<|update_snippet|>",
        "\n\n",
        "",
        "\n",
        "</code>\n\t ",
        "<update>",
    ],
)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_tags_inside_file_and_edit_stay(layout: str, content: str) -> None:
    for code, update in ((content, "u"), ("c", content), (content, content), (content + "c" + content, "u" + content)):
        read = read_tags(layout.format(i="", c=code, u=update), MORPH)
        assert read is not None
        assert (read.code, read.update) == (code, update)


@pytest.mark.parametrize("seam", ["</code><update>", "</code>\n<update>", "</code>\r\n\t<update>"])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_the_seam_inside_content_is_refused(layout: str, seam: str) -> None:
    for code, update in ((f"a{seam}b", "u"), ("c", f"a{seam}b")):
        with pytest.raises(AmbiguousTags) as caught:
            read_tags(layout.format(i="", c=code, u=update), MORPH)
        assert caught.value.value == 2
        assert "/v1/code/apply" in caught.value.remedy


@pytest.mark.parametrize("place", ["i", "c"])
def test_the_seam_of_the_instruction_inside_content_is_refused(place: str) -> None:
    values = {"i": "i", "c": "c", "u": "u"} | {place: "x</instruction>\n<code>y"}
    with pytest.raises(AmbiguousTags):
        read_tags(LAYOUTS["instruction first"].format_map(values), MORPH)


@settings(max_examples=400, deadline=None, print_blob=True)
@given(st.sampled_from(list(LAYOUTS)), CONTENT, CONTENT, CONTENT)
def test_content_is_read_exactly_or_refused(name: str, instruction: str, code: str, update: str) -> None:
    layout = LAYOUTS[name]
    try:
        read = read_tags(layout.format(i=instruction, c=code, u=update), MORPH)
    except AmbiguousTags:
        assert any(_has_seam(text) for text in (instruction, code, update))
        return
    assert read is not None
    assert (read.code, read.update) == (code, update)
    assert read.instruction == (instruction if "{i}" in layout else "")


def _has_seam(text: str) -> bool:
    """Written down again, without regular expressions: white space between two tags is none of them."""
    squeezed = "".join(text.split())
    return any(
        f"</{a}><{b}>" in squeezed for a, b in (("code", "update"), ("instruction", "code"), ("instructions", "code"))
    )


@settings(max_examples=200, deadline=None, print_blob=True)
@given(CONTENT, CONTENT)
def test_mercurys_tags_are_on_lines_of_their_own(code: str, update: str) -> None:
    text = f"<|original_code|>\n{code}\n<|/original_code|>\n\n<|update_snippet|>\n{update}\n<|/update_snippet|>"
    for message in (text, text + APPLY_TOKEN):
        try:
            read = read_tags(message, MERCURY)
        except AmbiguousTags:
            assert "<|/original_code|><|update_snippet|>" in "".join((code + "@" + update).split())
            continue
        assert read is not None
        assert (read.code, read.update) == (code, update)


def test_mercurys_tags_without_line_breaks() -> None:
    text = "<|original_code|>a<|/original_code|><|update_snippet|>b<|/update_snippet|>"
    assert read_tags(text, MERCURY) == Tagged("a", "b", "", "")


@pytest.mark.parametrize(
    "text", ["", "hello", "<code>a</code>", "<update>b</update>", "<update>b</update><code>a</code>"]
)
def test_what_has_no_seam_is_no_tagged_message(text: str) -> None:
    assert read_tags(text, MORPH) is None


@pytest.mark.parametrize(
    "text",
    [
        "<code>a</code><update>b",
        "a</code><update>b</update>",
        "see <code>a</code><update>b</update>",
        "<code>a</code><update>b</update>\n<code>late</code>",
        "<update>first</update> and\n<code>a</code><update>b</update>",
    ],
)
def test_tags_that_do_not_fit_are_no_edit(text: str) -> None:
    with pytest.raises(NotAnEdit) as caught:
        read_tags(text, MORPH)
    assert caught.value.remedy


def test_an_instruction_that_leads_to_no_code_is_not_dropped() -> None:
    with pytest.raises(ApplyError):
        read_tags("<instruction>do</instruction> then\n<code>a</code><update>b</update>", MORPH)


def test_megabytes_of_hostile_text_take_no_time_to_speak_of() -> None:
    """Each of them would take minutes if any pattern went back over what it has seen."""
    for piece in ("</code>", "</code> ", "<code>\n", "\n \t", "</instruction>\n", "<instruction>"):
        text = piece * 300_000
        read = read_tags(f"<code>{text}</code>\n<update>u</update>", MORPH)
        assert read is not None
        assert read.code == text
