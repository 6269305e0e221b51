"""What the edit doesn't touch keeps its bytes, whatever they are."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apply_service.errors import AlteredBytes, BadEncoding, NulByte
from apply_service.text.fidelity import SourceText, decode, encode, normalise, ops_from_texts, refuse_altered, restore
from apply_service.types import LineOp
from tests.effort import no_hang

ODD = "ab \t\f\v\x1c\x85\u2028\u2029\ufeffé€😀"
LINES = st.text(alphabet=ODD, max_size=6)
"""Lines hold everything that some program somewhere takes for a line end, except real ones."""
WILD = st.text(alphabet=ODD + "\r\n", max_size=60)


@st.composite
def files(draw: st.DrawFn) -> str:
    """A file with mixed line ends, with or without a final one, with or without a byte-order mark."""
    lines = draw(st.lists(LINES, min_size=1, max_size=12))
    ends = [draw(st.sampled_from(["\n", "\r\n"])) for _ in lines[1:]]
    mark = draw(st.sampled_from(["", "\ufeff"]))
    return mark + "".join(line + end for line, end in zip(lines, [*ends, ""], strict=True))


def keep_all(text: str) -> list[LineOp]:
    return [LineOp("keep", i, None, line) for i, line in enumerate(normalise(text).split("\n"))]


# -- line ends ---------------------------------------------------------------------------------------------------------
@given(WILD)
def test_an_identity_edit_returns_the_original(text: str) -> None:
    assert restore(text, keep_all(text)) == text


@given(WILD)
def test_a_merge_that_changes_nothing_returns_the_original(text: str) -> None:
    assert restore(text, ops_from_texts(normalise(text), normalise(text))) == text


@given(files(), st.lists(LINES, min_size=1, max_size=12))
def test_any_merged_text_is_what_was_meant(original: str, merged_lines: list[str]) -> None:
    merged = "\n".join(merged_lines)
    restored = restore(original, ops_from_texts(normalise(original), merged))
    assert restored.replace("\r\n", "\n") == ("\ufeff" if original.startswith("\ufeff") else "") + merged


@given(files(), st.data())
def test_untouched_lines_keep_their_bytes(original: str, data: st.DataObject) -> None:
    ops: list[LineOp] = []
    expected: list[tuple[str, str | None]] = []
    raw = original.removeprefix("\ufeff").split("\n")
    for i, line in enumerate(raw):
        text = line if i == len(raw) - 1 else line.removesuffix("\r")
        choice = data.draw(st.sampled_from(["keep", "both", "drop", "insert"]))
        ops.append(drop(i, text) if choice == "drop" else LineOp("both" if choice == "both" else "keep", i, None, text))
        if choice != "drop":
            expected.append((text, None if i == len(raw) - 1 else line[len(text) :] + "\n"))
        if choice == "insert":
            ops.append(take("<new>"))
            expected.append(("<new>", None))
    at = 1 if original.startswith("\ufeff") and expected else 0
    restored = restore(original, ops)
    for place, (text, end) in enumerate(expected):
        assert restored.startswith(text, at)
        at += len(text)
        if place < len(expected) - 1:
            assert restored.startswith(end or ("\r\n", "\n"), at)
            at += len(end or ("\r\n" if restored.startswith("\r\n", at) else "\n"))
    assert at == len(restored)


def take(text: str) -> LineOp:
    return LineOp("take", None, 0, text)


def keep(i: int, text: str) -> LineOp:
    return LineOp("keep", i, None, text)


def drop(i: int, text: str) -> LineOp:
    return LineOp("drop", i, None, text)


@pytest.mark.parametrize(
    ("original", "ops", "restored"),
    [
        ("a\r\nb\n", [keep(0, "a"), take("x"), keep(1, "b"), keep(2, "")], "a\r\nx\r\nb\n"),
        ("a\r\nb\n", [take("x"), keep(0, "a"), keep(1, "b"), keep(2, "")], "x\r\na\r\nb\n"),
        ("a\nb\r\nc\n", [keep(0, "a"), drop(1, "b"), take("B"), keep(2, "c"), keep(3, "")], "a\nB\r\nc\n"),
        ("a\r\nb", [keep(0, "a"), keep(1, "b"), take("c"), take("")], "a\r\nb\r\nc\r\n"),
        ("a\r\nb\r\n", [keep(0, "a"), keep(1, "b"), drop(2, "")], "a\r\nb"),
        ("a\nb", [keep(0, "a"), keep(1, "b"), take("")], "a\nb\n"),
        ("\ufeffa\r\nb", [drop(0, "a"), take("A"), keep(1, "b")], "\ufeffA\r\nb"),
        ("a\rb\r", [keep(0, "a"), take("x"), keep(1, "b"), keep(2, "")], "a\rx\rb\r"),
        ("a\rb\n", [keep(0, "a\rb"), take("x"), keep(1, "")], "a\rb\nx\n"),
        ("", [drop(0, ""), take("x"), take("")], "x\n"),
        ("a\n", [drop(0, "a"), drop(1, "")], ""),
        ("\ufeffa\n", [drop(0, "a"), drop(1, "")], ""),
        (
            "0\na\r\nb\nc\r\n",
            [keep(0, "0"), drop(1, "a"), drop(2, "b"), drop(3, "c"), *map(take, "xabC"), keep(4, "")],
            "0\nx\na\r\nb\nC\r\n",
        ),
    ],
)
def test_new_lines_take_the_ending_of_their_neighbourhood(original: str, ops: list[LineOp], restored: str) -> None:
    assert restore(original, ops) == restored


@pytest.mark.parametrize(
    ("text", "lf"),
    [
        ("a\r\nb\n", "a\nb\n"),
        ("a\rb\n", "a\rb\n"),
        ("a\rb", "a\nb"),
        ("a\r\r\nb", "a\r\nb"),
        ("\ufeffa", "a"),
        ("a\x0cb\x0b\x85\u2028", "a\x0cb\x0b\x85\u2028"),
        ("", ""),
    ],
)
def test_normalised_text(text: str, lf: str) -> None:
    assert normalise(text) == lf


# -- operations from texts ---------------------------------------------------------------------------------------------
@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_operations_keep_the_contract(old: list[str], new: list[str]) -> None:
    original, merged = "\n".join(old), "\n".join(new)
    ops = ops_from_texts(original, merged)
    assert [op.original_line for op in ops if op.kind != "take"] == list(range(len(original.split("\n"))))
    assert "\n".join(op.text for op in ops if op.kind != "drop") == merged
    assert all(op.text == original.split("\n")[op.original_line] for op in ops if op.original_line is not None)
    assert not any(a.kind == "take" and b.kind == "drop" for a, b in pairwise(ops))


def longest_common(old: list[str], new: list[str]) -> int:
    """Textbook dynamic programming."""
    row = [0] * (len(new) + 1)
    for x in old:
        above = row[:]
        for j, y in enumerate(new):
            row[j + 1] = above[j] + 1 if x == y else max(above[j + 1], row[j])
    return row[-1]


@given(st.lists(st.sampled_from("abc"), max_size=10), st.lists(st.sampled_from("abc"), max_size=10))
def test_operations_are_the_fewest(old: list[str], new: list[str]) -> None:
    a, b = "\n".join(old), "\n".join(new)
    kept = sum(op.kind == "keep" for op in ops_from_texts(a, b))
    assert kept == longest_common(a.split("\n"), b.split("\n"))


def test_a_new_function_is_not_cut_in_the_middle() -> None:
    original = "def a():\n    return 1\n\ndef c():\n    return 1\n"
    merged = "def a():\n    return 1\n\ndef b():\n    return 1\n\ndef c():\n    return 1\n"
    added = [op.text for op in ops_from_texts(original, merged) if op.kind == "take"]
    assert added == ["def b():", "    return 1", ""]


def test_twenty_thousand_lines_are_compared() -> None:
    lines = [f"line {i % 700}" for i in range(20_000)]
    changed = [line if i % 97 else f"changed {i}" for i, line in enumerate(lines) if i % 89]
    other = [f"other {i}" for i in range(20_000)]
    with no_hang():
        for new in map("\n".join, (changed, other, lines[::-1])):
            assert "\n".join(op.text for op in ops_from_texts("\n".join(lines), new) if op.kind != "drop") == new


# -- the last look -----------------------------------------------------------------------------------------------------
@given(files(), st.lists(LINES, min_size=1, max_size=12))
def test_what_is_restored_is_never_refused(original: str, merged_lines: list[str]) -> None:
    ops = ops_from_texts(normalise(original), "\n".join(merged_lines))
    refuse_altered(original, restore(original, ops), ops)


@pytest.mark.parametrize(
    ("original", "merged", "ops"),
    [
        ("a\r\nb\n", "a\nb\n", [keep(0, "a"), keep(1, "b"), keep(2, "")]),
        ("a\r\nb\n", "a\r\nB\n", [keep(0, "a"), keep(1, "b"), keep(2, "")]),
        ("a\r\nb\n", "a\r\nb\n\n", [keep(0, "a"), keep(1, "b"), keep(2, "")]),
        ("a\nb\nc\n", "a\nc\n", [keep(0, "a"), keep(2, "c"), keep(3, "")]),
        ("a\nb\n", "b\na\n", [keep(1, "b"), keep(0, "a"), keep(2, "")]),
        ("\ufeffa\n", "a\n", [keep(0, "a"), keep(1, "")]),
        ("a\n", "", [keep(0, "a"), keep(1, "")]),
        ("a\nb", "a\nx\nb\n", [keep(0, "a"), take("x"), keep(1, "b")]),
    ],
    ids=["end", "text", "more", "a line unsaid", "order", "mark", "nothing left", "a final newline"],
)
def test_bytes_altered_outside_the_edit_are_refused(original: str, merged: str, ops: list[LineOp]) -> None:
    with pytest.raises(AlteredBytes):
        refuse_altered(original, merged, ops)


# -- encodings ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("data", "told", "text", "canonical"),
    [
        (b"caf\xc3\xa9\r\n", "utf-8", "café\r\n", "utf-8"),
        (b"\xef\xbb\xbfx", "UTF8", "x", "utf-8-sig"),
        (b"x", "utf-8-sig", "x", "utf-8"),
        (b"\xff\xfeh\x00i\x00", "utf-16", "hi", "utf-16-le-sig"),
        (b"\xfe\xff\x00h\x00i", "utf_16", "hi", "utf-16-be-sig"),
        (b"h\x00i\x00", "utf-16", "hi", "utf-16-le"),
        (b"\x00h\x00i", "utf-16-be", "hi", "utf-16-be"),
        (b"\xff\xfe=\xd8\x00\xde", "utf-16-le", "😀", "utf-16-le-sig"),
        (b"caf\xe9\x85", "latin-1", "café\x85", "latin-1"),
        (b"\x93caf\xe9\x94 \x80", "cp1252", "\u201ccafé\u201d €", "cp1252"),
        (b"\xff\xfe\x00\x00h\x00\x00\x00", "utf-32", "h", "utf-32-le-sig"),
        (b"", "utf-8", "", "utf-8"),
        (b"", "utf-16", "", "utf-16-le-sig"),
    ],
)
def test_bytes_become_text(data: bytes, told: str, text: str, canonical: str) -> None:
    source = decode(data, told)
    assert (source.text, source.encoding) == (text, canonical)
    if data:
        assert encode(source.text, source) == data


@given(st.text(), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-16-le-sig", "utf-32"]))
def test_a_text_returns_from_its_bytes(text: str, encoding: str) -> None:
    if "\0" in text or text.startswith("\ufeff"):
        return
    source = SourceText.of(text, encoding)
    again = decode(encode(text, source), source.encoding)
    assert again.text == text
    assert encode(again.text, again) == encode(text, source)


@given(
    st.binary(max_size=40),
    st.sampled_from(["utf-8", "utf-16", "latin-1", "cp1252", "utf-16-be", "shift_jis", "gb18030"]),
)
def test_any_bytes_return_or_are_refused(data: bytes, encoding: str) -> None:
    try:
        source = decode(data, encoding)
    except (BadEncoding, NulByte):
        return
    assert encode(source.text, source) == data or not data
    assert decode(data, source.encoding) == source or not data


@pytest.mark.parametrize(
    ("data", "encoding", "offset", "remedy"),
    [
        (b"ab\xe9c", "utf-8", 2, "cp1252"),
        (b"\xef\xbb\xbfab\xe9", "utf-8", 5, "cp1252"),
        (b"\xff\xfea\x00", "utf-8", 0, "utf-16"),
        (b"a\x81", "cp1252", 1, "latin-1"),
        (b"a\x00b", "utf-16-le", 2, "cp1252"),
    ],
)
def test_other_bytes_are_refused_by_offset(data: bytes, encoding: str, offset: int, remedy: str) -> None:
    with pytest.raises(BadEncoding) as refused:
        decode(data, encoding)
    assert refused.value.value == offset
    assert remedy in refused.value.remedy


def test_a_second_byte_order_mark_is_refused() -> None:
    with pytest.raises(BadEncoding, match="two byte-order marks"):
        decode(b"\xef\xbb\xbf\xef\xbb\xbfx")
    with pytest.raises(BadEncoding, match="two byte-order marks"):
        SourceText.of("\ufeffx", "utf-8-sig")


def test_a_nul_byte_is_refused() -> None:
    with pytest.raises(NulByte) as refused:
        decode(b"ab\0c")
    assert refused.value.value == 2


@pytest.mark.parametrize(
    "name",
    ["no-such", "", "hex", "rot13", "base64", "idna", "punycode", "unicode_escape", "utf-7", "latin-1-sig", "\0"],
)
def test_unknown_encodings_are_refused(name: str) -> None:
    with pytest.raises(BadEncoding) as refused:
        decode(b"a", name)
    assert refused.value.value == name


@pytest.mark.parametrize(("text", "encoding"), [("a€", "latin-1"), ("a\u0100", "cp1252"), ("a\ud800", "utf-8")])
def test_what_the_encoding_cannot_hold_is_refused(text: str, encoding: str) -> None:
    with pytest.raises(BadEncoding) as refused:
        encode(text, SourceText("", encoding))
    assert refused.value.value == 1
    with pytest.raises(BadEncoding):
        SourceText.of(text, encoding)
