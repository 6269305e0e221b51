"""API keys: made at random, kept as hashes in a TOML file, found again in constant time.

    [[key]]
    name = "ci"
    sha256 = "..."              # of the key; `apply-service key ci` makes both
    rate_limit = 600            # requests a minute; left out: the setting's
    concurrency_limit = 8       # requests at once; left out: the setting's

A key is 256 random bits, so a plain SHA-256 of it cannot be searched, and salts would add nothing.
"""

from __future__ import annotations

import hmac
import re
import secrets
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from apply_service.api.calls import ANONYMOUS
from apply_service.errors import SettingsError

PREFIX = "apply-"
MIN_KEY_CHARS = 24
"""Of a key that was made elsewhere: a short one could be guessed from its hash."""

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
HASH = re.compile(r"[0-9a-f]{64}")
MAX_LIMIT = 1_000_000
FIELDS = ("name", "sha256", "rate_limit", "concurrency_limit")


@dataclass(frozen=True, slots=True)
class Key:
    """One caller; limits of None are the settings'."""

    name: str
    sha256: str
    rate_limit: int | None = None
    concurrency_limit: int | None = None


NO_KEY = Key(ANONYMOUS, "")
"""Who calls where no keys are configured."""


@dataclass(frozen=True, slots=True)
class KeyRing:
    """All keys that the service knows."""

    keys: tuple[Key, ...]

    def find(self, text: str) -> Key | None:
        """The key that the caller sent, or None.  Its time does not depend on which key is how nearly right."""
        digest = hash_key(text)
        found = None
        for key in self.keys:
            if hmac.compare_digest(digest, key.sha256):
                found = key
        return found


def make_key() -> str:
    """A new key."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_key(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def format_entry(name: str, text: str) -> str:
    """What stands in the file for a key.

    Raises:
        SettingsError: the name has characters other than letters, digits, dot, dash and underscore; the key is
            short, or could not stand in a header.
    """
    if not NAME.fullmatch(name) or name == ANONYMOUS:
        raise SettingsError(
            "That cannot be a key's name.", value=name, limit=NAME.pattern, remedy="Use letters, digits, . _ and -."
        )
    if len(text) < MIN_KEY_CHARS or not text.isascii() or not text.isprintable() or " " in text:
        raise SettingsError(
            f"The key must be {MIN_KEY_CHARS} or more printable ASCII characters without spaces.",
            value=f"{len(text)} characters",
            limit=MIN_KEY_CHARS,
            remedy="Let the command make one.",
        )
    return f'[[key]]\nname = "{name}"\nsha256 = "{hash_key(text)}"\n'


def load_keys(path: str | None) -> KeyRing | None:
    """The keys in a file; None where no file is named.

    Raises:
        SettingsError: the file cannot be read, holds no key, or an entry is not as it should be.
    """
    if path is None:
        return None
    try:
        table = tomllib.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _bad_file(path, f"The file of keys cannot be read: {error}") from error
    entries = table.get("key")
    if set(table) != {"key"} or not isinstance(entries, list) or not entries:
        raise _bad_file(path, "The file of keys must hold [[key]] entries and nothing else")
    keys = tuple(_read_entry(path, entry) for entry in entries)
    _refuse_twins(path, [key.name for key in keys])
    _refuse_twins(path, [key.sha256 for key in keys])
    return KeyRing(keys)


def _read_entry(path: str, entry: Any) -> Key:
    if not isinstance(entry, Mapping):
        raise _bad_file(path, f"An entry is a table [[key]], not {entry!r}")
    if unknown := sorted(entry.keys() - set(FIELDS)):
        raise _bad_file(path, f"An entry may hold {', '.join(FIELDS)}, not {unknown[0]!r}")
    name, digest = entry.get("name"), entry.get("sha256")
    if not isinstance(name, str) or not NAME.fullmatch(name) or name == ANONYMOUS:
        raise _bad_file(path, f"A key's name must match {NAME.pattern}; this one is {name!r}")
    if not isinstance(digest, str) or not HASH.fullmatch(digest.lower()):
        raise _bad_file(path, f"sha256 of {name!r} must be 64 hexadecimal digits")
    return Key(name, digest.lower(), _limit(path, entry, "rate_limit"), _limit(path, entry, "concurrency_limit"))


def _limit(path: str, entry: Mapping[str, Any], field: str) -> int | None:
    value = entry.get(field)
    if value is None or (type(value) is int and 1 <= value <= MAX_LIMIT):
        return value
    raise _bad_file(path, f"{field} must be 1 to {MAX_LIMIT}, not {value!r}")


def _refuse_twins(path: str, values: Sequence[str]) -> None:
    if twins := sorted({value for value in values if values.count(value) > 1}):
        raise _bad_file(path, f"Entries must differ; twice there is {twins[0]}")


def _bad_file(path: str, message: str) -> SettingsError:
    return SettingsError(f"{message}.", value=path, remedy="Mend the file; `apply-service key` writes entries.")
