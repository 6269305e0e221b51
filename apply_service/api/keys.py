"""Reads, makes and checks API keys: random, stored as hashes in a TOML file, compared in constant time.

    [[key]]
    name = "ci"
    sha256 = "..."           # hash of the key; `apply-service key ci` makes the key and this hash
    rate_limit = 600         # requests a minute; default: the setting
    concurrency_limit = 8    # requests at once; default: the setting

A key is 256 random bits, so nobody can find it from its plain SHA-256, and a salt would add nothing.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import re
import secrets
import tomllib
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from apply_service.errors import SettingsError

ANONYMOUS = "anonymous"
MIN_KEY_CHARS = 24
"""A key that was made elsewhere needs at least this many characters, because a short key can be guessed from its
hash."""
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
GOOD_KEY = re.compile(rf"[!-~]{{{MIN_KEY_CHARS},}}")
HASH = re.compile(r"[0-9a-f]{64}")
MAX_LIMIT = 1_000_000
LIMITS = ("rate_limit", "concurrency_limit")

log = logging.getLogger(__name__)


class Key(NamedTuple):
    """One caller.  A limit that is None is taken from the settings."""

    name: str
    sha256: str
    rate_limit: int | None = None
    concurrency_limit: int | None = None


NO_KEY = Key(ANONYMOUS, "")
"""The caller if no keys are configured."""


class KeyRing(NamedTuple):
    keys: tuple[Key, ...]

    def find(self, text: str) -> Key | None:
        """Return the key with this text.  Comparing takes the same time for every text."""
        digest = hash_key(text)
        found = [key for key in self.keys if hmac.compare_digest(digest, key.sha256)]
        return found[0] if found else None


class KeyHolder:
    """The keys that are valid now.  Their file can be read again while requests are in progress."""

    def __init__(self, ring: KeyRing, path: str | None = None) -> None:
        """`path`: the file that `reload` reads."""
        self._ring = ring
        self._path = path
        self._in_use: set[tuple[Key, Callable[[], None]]] = set()

    @property
    def has_file(self) -> bool:
        return self._path is not None

    def find(self, text: str) -> Key | None:
        """Return the valid key with this text."""
        return self._ring.find(text)

    @contextlib.contextmanager
    def in_use(self, key: Key, revoke: Callable[[], None]) -> Iterator[None]:
        """Call `revoke` if the key is removed while the block is open."""
        use = (key, revoke)
        self._in_use.add(use)
        try:
            yield
        finally:
            self._in_use.discard(use)

    def reload(self, level: int = logging.WARNING) -> None:
        """Read the file again.  Keys that the file no longer has are refused from now on.  If the file can't be used,
        the old keys stay valid, and an error is logged.  `level`: the log level of the line with the number of keys."""
        try:
            ring = load_keys(self._path)
        except SettingsError as error:
            log.error("the API keys stay as they were: %s", error.message)
            return
        if ring is None:
            return
        self._ring = ring
        valid = {(key.name, key.sha256) for key in ring.keys}
        revoked = [revoke for key, revoke in self._in_use if (key.name, key.sha256) not in valid]
        n_keys, n_revoked = len(ring.keys), len(revoked)
        log.log(level, "API keys loaded: %d; requests in progress whose key has gone: %d", n_keys, n_revoked)
        for revoke in revoked:
            revoke()


def make_key() -> str:
    """Return a new key.  It begins with `sk-`, which some clients demand."""
    return f"sk-apply-{secrets.token_urlsafe(32)}"


def hash_key(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def format_entry(name: str, text: str) -> str:
    """Return the key's entry in the file.  Raises SettingsError if the name does not match `NAME`, or the key is too
    short or can't be sent in a header."""
    if not NAME.fullmatch(name) or name == ANONYMOUS:
        remedy = f"use up to 64 letters, digits, . _ and -; the name {ANONYMOUS} is reserved"
        raise SettingsError("the key can't have this name", value=name, limit=NAME.pattern, remedy=remedy)
    if not GOOD_KEY.fullmatch(text):
        message = f"a key needs {MIN_KEY_CHARS} or more printable ASCII characters without spaces"
        length, remedy = f"{len(text)} characters", "leave out --stdin: the command then makes a key itself"
        raise SettingsError(message, value=length, limit=MIN_KEY_CHARS, remedy=remedy)
    return f'[[key]]\nname = "{name}"\nsha256 = "{hash_key(text)}"\n'


def hold_keys(path: str | None) -> KeyHolder | None:
    """Return the keys that `load_keys` returns, in a holder that can read the file again."""
    ring = load_keys(path)
    return None if ring is None else KeyHolder(ring, path)


def hold_new_key(name: str) -> tuple[KeyHolder, str]:
    """Return a new key that is in no file, and its text."""
    text = make_key()
    return KeyHolder(KeyRing((Key(name, hash_key(text)),))), text


def load_keys(path: str | None) -> KeyRing | None:
    """Return the keys in a file; None if no file is given.  Raises SettingsError if the file can't be read, has no
    keys, or has a malformed entry."""

    def bad(message: str) -> SettingsError:
        return SettingsError(
            message, value=path, remedy="correct the file; `apply-service key NAME` prints a valid entry"
        )

    if path is None:
        return None
    try:
        table = tomllib.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise bad(f"the file of keys cannot be read: {error}") from error
    entries = table.get("key")
    if set(table) != {"key"} or not isinstance(entries, list) or not entries:
        raise bad("the file of keys must hold [[key]] entries and nothing else")
    keys: list[Key] = []
    for entry in entries:
        try:
            key = read_entry(entry)
        except ValueError as error:
            raise bad(str(error)) from None
        if any(key.name == other.name or key.sha256 == other.sha256 for other in keys):
            raise bad(f"the name or the key of {key.name} is in the file twice")
        keys.append(key)
    return KeyRing(tuple(keys))


def read_entry(entry: object) -> Key:
    """Return the key of an entry in the file.  Raises ValueError, which says what is wrong with it."""
    if not isinstance(entry, dict):
        raise ValueError("each entry must be a table [[key]]")  # the entry may be a key, so it is not quoted
    if unknown := sorted(entry.keys() - {"name", "sha256", *LIMITS}):
        raise ValueError(f"an entry may hold name, sha256, {', '.join(LIMITS)}, not {unknown[0]!r}")
    name, digest = entry.get("name"), entry.get("sha256")
    if not isinstance(name, str) or not NAME.fullmatch(name) or name == ANONYMOUS:
        raise ValueError(f"a key's name must match {NAME.pattern}; this one is {name!r}")
    if not isinstance(digest, str) or not HASH.fullmatch(digest.lower()):
        raise ValueError(f"sha256 of {name!r} must be 64 hexadecimal digits")
    for limit in LIMITS:
        if limit in entry and not (type(entry[limit]) is int and 1 <= entry[limit] <= MAX_LIMIT):
            raise ValueError(f"{limit} must be 1 to {MAX_LIMIT}, not {entry[limit]!r}")
    return Key(name, digest.lower(), *(entry.get(limit) for limit in LIMITS))
