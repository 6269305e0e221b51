"""The encoding of a file that nobody has named: found or guessed, and never a reason to write a wrong byte."""

from __future__ import annotations

import pytest

from apply_service.disk.encodings import ASCII_COMPATIBLE, FileEncoding, encoding_of, refuse_new_characters
from apply_service.errors import BadEncoding

FRENCH = "# Le fichier contient des caractères accentués, où l'été est déjà passé.\nx = 1\n"
RUSSIAN = "# Привет, это пример файла на русском языке\nx = 1\n# Ещё одна строка\n"


@pytest.mark.parametrize(
    ("text", "encoding", "name"),
    [
        (FRENCH, "cp1252", "cp1252"),
        (FRENCH, "mac_roman", "mac-roman"),
        ("# Größe der Fläche, über alle Körbe\n", "latin-1", "cp1252"),
        ("# café\n" + "x = 1\n" * 5000, "latin-1", "cp1252"),
        ("# Zażółć gęślą jaźń, oto przykład pliku\n", "cp1250", "cp1250"),
        ("# Αυτή είναι μια συνάρτηση που επιστρέφει την τιμή\n", "cp1253", "cp1253"),
        (RUSSIAN, "cp1251", "cp1251"),
        (RUSSIAN, "koi8_r", "koi8-r"),
        ("# これは日本語のコメントです。\nx = 1\n", "shift_jis", "cp932"),
        ("# これは日本語のコメントです。\nx = 1\n", "euc_jp", "euc-jp"),
        ("# 这是一个中文注释，说明函数的作用。\nx = 1\n", "gbk", "gb18030"),
        ("# 한국어 주석입니다. 함수의 역할을 설명합니다.\n", "cp949", "cp949"),
    ],
)
def test_a_guess_that_is_right(text: str, encoding: str, name: str) -> None:
    data = text.encode(encoding)
    found = encoding_of(data)
    assert found == FileEncoding(name, is_guess=True)
    assert data.decode(name) == text
    assert name in found.verdict.message


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"", "utf-8"),
        (b"x\0y", "utf-8"),
        ("é".encode(), "utf-8"),
        ("é".encode("utf-8-sig"), "utf-8"),
        ("é".encode("utf-16"), "utf-16"),
        ("é".encode("utf-32"), "utf-32"),
        (b"\xfe\xff" + "é".encode("utf-16-be"), "utf-16"),
        (b"\0\0\xfe\xff" + "é".encode("utf-32-be"), "utf-32"),
        ("é x".encode("utf-16-le"), "utf-8"),  # no mark: its NUL bytes are refused by whoever decodes it
        (bytes(range(1, 256)) * 4, "utf-8"),
    ],
)
def test_what_is_no_guess(data: bytes, name: str) -> None:
    found = encoding_of(data)
    assert found == FileEncoding(name)
    assert found.hint == ""


@pytest.mark.parametrize("name", ASCII_COMPATIBLE)
def test_ascii_is_ascii_in_all_that_is_guessed(name: str) -> None:
    ascii_bytes = bytes(range(1, 128))
    assert ascii_bytes.decode(name).encode() == ascii_bytes


@pytest.mark.parametrize("data", [b"# \xe4\xe0\nx = 1\n", b"# \x92\x6c\nx = 1\n", b"\xff", b"a\xe9\rb\xe8"])
def test_a_wrong_guess_keeps_the_bytes(data: bytes) -> None:
    found = encoding_of(data)
    assert data.decode(found.name).encode(found.name) == data


def test_only_characters_of_the_file_are_written_by_a_guess() -> None:
    guess = FileEncoding("cp1252", is_guess=True)
    refuse_new_characters(guess, "é à\n", "à é\nnew = 'é'\n")
    refuse_new_characters(FileEncoding("cp1252"), "x\n", "ü\n")
    with pytest.raises(BadEncoding, match=r"a guess \(cp1252\), and the edit brings 'ß' into the file") as caught:
        refuse_new_characters(guess, "é\n", "é ß ü\n")
    assert (caught.value.value, caught.value.limit) == ("ßü", "cp1252")
