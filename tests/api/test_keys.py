"""API keys: hashed at rest, read strictly, found whichever stands where."""

import logging
from contextlib import ExitStack
from pathlib import Path

import pytest

from apply_service.api.keys import Key, KeyHolder, KeyRing, format_entry, hash_key, hold_keys, load_keys, make_key
from apply_service.errors import SettingsError

KNOWN_HASH = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
"""SHA-256 of `hello`, from the standard's test collections."""


def write(folder: Path, text: str) -> str:
    path = folder / "keys.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_key_is_found_by_its_hash_alone() -> None:
    assert hash_key("hello") == KNOWN_HASH
    ring = KeyRing((Key("a", "0" * 64), Key("b", KNOWN_HASH), Key("c", "f" * 64)))
    found = ring.find("hello")
    assert found is not None
    assert found.name == "b"
    for wrong in ("hellp", "", "HELLO", KNOWN_HASH, "h\udce9llo"):
        assert ring.find(wrong) is None


def test_what_the_command_writes_is_read_again(tmp_path: Path) -> None:
    first, second = make_key(), make_key()
    assert first != second
    assert first.startswith("sk-"), "some clients take no other"
    path = write(tmp_path, format_entry("ci", first) + format_entry("my.laptop", second))
    ring = load_keys(path)
    assert ring is not None
    assert [key.name for key in ring.keys] == ["ci", "my.laptop"]
    assert ring.find(second) == ring.keys[1]
    text = Path(path).read_text()
    assert first not in text
    assert second not in text


def test_limits_of_a_key(tmp_path: Path) -> None:
    path = write(
        tmp_path, f'[[key]]\nname = "a"\nsha256 = "{KNOWN_HASH.upper()}"\nrate_limit = 5\nconcurrency_limit = 2\n'
    )
    ring = load_keys(path)
    assert ring is not None
    assert ring.keys == (Key("a", KNOWN_HASH, 5, 2),)


def test_no_file_is_no_ring() -> None:
    assert load_keys(None) is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "[[key]]"),
        ("key = 1\n", "[[key]]"),
        ("key = [1]\n", "[[key]]"),
        (f'[[key]]\nname = "a"\nsha256 = "{KNOWN_HASH}"\n[other]\n', "[[key]]"),
        (f'[[key]]\nname = "a"\nsha256 = "{KNOWN_HASH}"\nrate = 1\n', "'rate'"),
        (f'[[key]]\nname = "a b"\nsha256 = "{KNOWN_HASH}"\n', "'a b'"),
        (f'[[key]]\nname = "anonymous"\nsha256 = "{KNOWN_HASH}"\n', "'anonymous'"),
        (f'[[key]]\nsha256 = "{KNOWN_HASH}"\n', "None"),
        ('[[key]]\nname = "a"\nsha256 = "hello"\n', "'a'"),
        ('[[key]]\nname = "a"\n', "'a'"),
        (f'[[key]]\nname = "a"\nsha256 = "{KNOWN_HASH}"\nrate_limit = 0\n', "rate_limit"),
        (f'[[key]]\nname = "a"\nsha256 = "{KNOWN_HASH}"\nconcurrency_limit = true\n', "concurrency_limit"),
        (f'[[key]]\nname = "a"\nsha256 = "{KNOWN_HASH}"\n' * 2, "twice"),
        (f'[[key]]\nname = "a"\nsha256 = "{KNOWN_HASH}"\n[[key]]\nname = "b"\nsha256 = "{KNOWN_HASH}"\n', "twice"),
        ("[[key", "cannot be read"),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path: Path, text: str, named: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        load_keys(path)
    assert caught.value.value == path
    assert named in caught.value.message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load_keys(str(tmp_path / "gone.toml"))


@pytest.mark.parametrize(
    ("name", "key"),
    [("a", "é" * 40), ("a", "x y" * 40), ("a b", "x" * 40), ("", "x" * 40), ("anonymous", "x" * 40), ("a", "short")],
)
def test_an_entry_that_would_be_refused_is_not_written(name: str, key: str) -> None:
    with pytest.raises(SettingsError):
        format_entry(name, key)


FIRST, SECOND, THIRD = ("first-0123456789-0123456789", "second-0123456789-0123456789", "third-0123456789-0123456789")


def held(path: str) -> KeyHolder:
    keys = hold_keys(path)
    assert keys is not None
    return keys


def test_a_file_that_is_read_again_has_the_last_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keys = held(write(tmp_path, format_entry("a", FIRST) + format_entry("b", SECOND)))
    write(tmp_path, format_entry("b", SECOND) + "rate_limit = 7\n" + format_entry("c", THIRD))
    assert keys.find(FIRST) is not None, "it is read when it is asked for"
    keys.reload()
    assert keys.find(FIRST) is None
    assert keys.find(SECOND) == Key("b", hash_key(SECOND), 7)
    assert keys.find(THIRD) == Key("c", hash_key(THIRD))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "API keys loaded: 2; requests in progress whose key has gone: 0")
    ]


def test_only_requests_whose_key_has_gone_are_told(tmp_path: Path) -> None:
    entries = [format_entry("kept", FIRST), format_entry("gone", SECOND), format_entry("rotated", THIRD)]
    keys = held(write(tmp_path, "".join(entries)))
    told: list[str] = []
    with ExitStack() as stack:
        for text in (FIRST, SECOND, THIRD):
            key = keys.find(text)
            assert key is not None
            stack.enter_context(keys.in_use(key, lambda name=key.name: told.append(name)))  # type: ignore[misc]
            with keys.in_use(key, lambda: told.append("one that has ended")):
                pass
        new = format_entry("rotated", "another-0123456789-0123456789")
        write(tmp_path, format_entry("kept", FIRST) + "concurrency_limit = 1\n" + new)
        keys.reload()
    assert sorted(told) == ["gone", "rotated"]
    keys.reload()
    assert len(told) == 2


@pytest.mark.parametrize("text", ["", "[[key", f'[[key]]\nname = "a"\nsha256 = "{KNOWN_HASH}"\nrate = 1\n', None])
def test_a_file_that_cannot_be_used_keeps_the_old_keys(
    tmp_path: Path, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path, format_entry("a", FIRST))
    keys, told = held(path), list[str]()
    if text is None:
        Path(path).unlink()
    else:
        write(tmp_path, text)
    key = keys.find(FIRST)
    assert key is not None
    with keys.in_use(key, lambda: told.append("gone")):
        keys.reload()
    assert keys.find(FIRST) == key
    assert told == []
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith("the API keys stay as they were: ")


def test_no_message_quotes_what_may_be_a_key(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load_keys(write(tmp_path, f'key = ["{FIRST}"]\n'))
    assert FIRST not in f"{caught.value.as_dict()}"
