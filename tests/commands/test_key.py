"""`apply-service key`: a key that is shown once, an entry that the server reads."""

import io
import os
import stat
from pathlib import Path

import pytest

from apply_service.api.keys import hash_key, load_keys
from apply_service.cli import main
from tests.commands.conftest import last_code

OWN = "my-own-key-0123456789-0123456789"


@pytest.fixture(autouse=True)
def no_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("APPDATA", str(tmp_path))


def test_keys_are_added_to_the_file(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "keys.toml"
    keys = []
    for name in ("ci", "laptop"):
        assert main(["key", name, "--file", str(path)]) == 0
        keys.append(capsysbinary.readouterr().out.decode().strip())
    ring = load_keys(str(path))
    assert ring is not None
    assert [(key.name, key.sha256) for key in ring.keys] == [("ci", hash_key(keys[0])), ("laptop", hash_key(keys[1]))]
    assert not any(key in path.read_text() for key in keys)
    if os.name != "nt":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_a_file_key_and_entry_are_printed(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["key", "ci"]) == 0
    key, *entry = capsysbinary.readouterr().out.decode().splitlines()
    assert entry == ["[[key]]", 'name = "ci"', f'sha256 = "{hash_key(key)}"']


def test_a_key_that_exists_is_hashed_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(OWN + "\n"))
    assert main(["key", "ci", "--stdin"]) == 0
    out, err = capsysbinary.readouterr()
    assert f'sha256 = "{hash_key(OWN)}"' in out.decode()
    assert OWN.encode() not in out + err


def test_what_cannot_be_an_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "keys.toml"
    assert main(["key", "ci", "--file", str(path)]) == 0
    before = path.read_bytes()
    assert main(["key", "ci", "--file", str(path)]) == 2
    assert main(["key", "a b", "--file", str(path)]) == 2
    monkeypatch.setattr("sys.stdin", io.StringIO("short\n"))
    assert main(["key", "other", "--stdin", "--file", str(path)]) == 2
    assert path.read_bytes() == before
    path.write_text("broken")
    assert main(["key", "other", "--file", str(path)]) == 2
    assert path.read_text() == "broken"
    assert main(["key", "other", "--file", str(tmp_path / "no" / "keys.toml")]) == 3
    assert last_code() == "file_not_writable"
