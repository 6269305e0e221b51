"""HTTP for the transports: one client a service, errors as errors of ours.

From outside, a broken connection, a status above 499 and a refused key all mean that there was no answer; they become
`ServiceError`s (a missing sample).  A 4xx that judges the request becomes a `RequestError` (a refusal).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2

from apply_service.errors import (
    ApplyError,
    DeadlineExceeded,
    NotReady,
    Overloaded,
    RequestError,
    ServiceError,
    SettingsError,
    TooLarge,
    Unreachable,
)

NO_SUCH_PLACE = (401, 403, 404, 405)
MAX_MESSAGE = 300


def open_client(url: str, *, timeout_s: float, api_key: str | None = None) -> httpx2.Client:
    """A client whose paths are relative to the service's `/v1` (added where `url` has no path of its own).  Proxies of
    the environment are not used; redirects are not followed.

    Raises:
        SettingsError: that is no http or https URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(
            "that is not the URL of a service", value=url, limit="http://HOST:PORT", remedy="correct the URL"
        )
    base = url.rstrip("/") if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/v1"
    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    return httpx2.Client(base_url=f"{base}/", headers=headers, timeout=timeout_s, trust_env=False)


@contextmanager
def translated(url: str) -> Iterator[None]:
    """What goes wrong on the way, or in reading an answer, becomes an error of ours."""
    try:
        yield
    except httpx2.TimeoutException as error:
        raise DeadlineExceeded("the service did not answer in time", value=url, remedy="allow more time") from error
    except httpx2.HTTPError as error:
        message = str(error) or type(error).__name__
        raise Unreachable(f"the service can't be reached: {message}", value=url, remedy="correct the URL") from error
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise Unreachable(
            "the answer is not one of this dialect", value=url, remedy="correct --dialect or the URL"
        ) from error


def refuse_bad_status(response: httpx2.Response) -> None:
    """Raises the error that the status stands for; nothing at 200."""
    if response.status_code == 200:
        return
    response.read()
    raise error_of_status(response.status_code, _message(response))


def error_of_status(status: int, message: str) -> ApplyError:
    """The error of ours for an HTTP status."""
    text = f"HTTP {status}: {message}"[:MAX_MESSAGE]
    if status in NO_SUCH_PLACE:
        return NotReady(text, value=status, remedy="correct the URL, the key or the model's name")
    if status == 429:
        return Overloaded(text, value=status, remedy="lower --concurrency")
    if status == 413:
        return TooLarge(text, value=status)
    return RequestError(text, value=status) if 400 <= status < 500 else ServiceError(text, value=status)


def _message(response: httpx2.Response) -> str:
    """The message in the shapes of error that services use; else the body's beginning."""
    try:
        body: Any = response.json()
    except ValueError:
        return response.text
    found = body.get("error", body.get("message", body.get("detail", body))) if isinstance(body, dict) else body
    return str(found.get("message", found)) if isinstance(found, dict) else str(found)


def read_object(response: httpx2.Response) -> dict[str, Any]:
    """The answer's JSON object.  Raises TypeError, ValueError where there is none."""
    refuse_bad_status(response)
    body = response.json()
    if not isinstance(body, dict):
        raise TypeError("not a JSON object")
    return body
