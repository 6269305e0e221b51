"""The address, key, abilities and time limits of a remote server, from the settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from apply_service.errors import SettingsError
from apply_service.settings import ENV_KEY, VLLM, Settings

PREFIX = "remote:"
"""Begins the source of a remote model in the settings; the rest is its name on the server."""
VLLM_TAKES = frozenset({"usage", "logprobs", "seed", "vllm_xargs"})
"""What every vLLM takes.  It ignores the last one without our plug-in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One server, and how to ask it."""

    url: str
    """It ends with the version, without a slash."""
    key: str | None = field(default=None, repr=False)
    takes: frozenset[str] = frozenset()
    """What the server takes beyond plain chat completions: words of the setting `remote_takes`."""
    n_retries: int = 3
    backoff_s: float = 0.5
    """Wait before the first retry; twice as long before each further one."""
    connect_timeout_s: float = 10.0
    silence_timeout_s: float = 60.0
    total_timeout_s: float = 120.0
    """The deadline of a request that names none."""
    max_bytes: int = 64 * 2**20
    """Of an answer, events included."""

    @classmethod
    def of(cls, settings: Settings, environment: Mapping[str, str] | None = None) -> Endpoint:
        """Raises SettingsError: the URL is missing or is not a server's; the variable of the key is not set, or holds
        no key."""
        is_vllm = settings.engine == VLLM
        url = _url(settings.vllm_url, "vllm_url") if is_vllm else _url(settings.remote_url, "remote_url")
        environment = os.environ if environment is None else environment
        key = settings.remote_key
        variable = key.removeprefix(ENV_KEY) if key is not None and key.startswith(ENV_KEY) else None
        if variable is not None:
            key = environment.get(variable, "")
        if not (key is None or (key.isascii() and key.isprintable() and key.strip() == key != "")):
            # The key itself is not quoted.
            limit = "printable ASCII, or env:NAME of a variable that holds it"
            remedy = "Correct remote_key, or set that variable."
            raise SettingsError("remote_key is no key.", value=variable, limit=limit, remedy=remedy)
        return cls(
            # A vLLM server is named without the version.
            url=f"{url}/v1" if is_vllm and not urlsplit(url).path else url,
            key=key,
            takes=frozenset(settings.remote_takes) | (VLLM_TAKES if is_vllm else frozenset()),
            n_retries=settings.remote_retries,
            silence_timeout_s=settings.remote_silence_timeout_s,
            total_timeout_s=settings.default_timeout_s,
        )

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        return {} if self.key is None else {"Authorization": f"Bearer {self.key}"}


def _url(url: str | None, name: str) -> str:
    if url is None:
        remedy = f"Set {name} (--{name.replace('_', '-')})."
        raise SettingsError(f"A remote model needs {name}.", limit="https://HOST/v1", remedy=remedy)
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_server = is_server and not (parts.query or parts.fragment or parts.username is not None)
    except ValueError:
        is_server = False
    if not is_server:
        raise SettingsError(
            f"{name} is not the URL of a server.",
            # One with a password in it is not repeated: errors go to logs.
            value=None if "@" in url else url,
            limit="http(s)://HOST:PORT/v1",
            remedy="Correct it; a key goes to remote_key.",
        )
    return url.rstrip("/")
