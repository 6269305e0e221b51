"""Which models a server says it has: for a diagnosis, never on a request's path."""

from __future__ import annotations

from http import HTTPStatus

import httpx2

from apply_service.errors import RemoteFailure
from apply_service.remote.endpoint import Endpoint
from apply_service.remote.failures import error_of
from apply_service.remote.reply import REPORT


def served_models(endpoint: Endpoint) -> list[str]:
    """
    Raises:
        RemoteFailure, Overloaded: it can't be reached, refuses, or lists no models.
    """
    url = endpoint.url + "/models"
    try:
        response = httpx2.get(url, headers=endpoint.headers, timeout=endpoint.connect_timeout_s, trust_env=False)
    except (httpx2.RequestError, httpx2.InvalidURL) as error:
        why = type(error).__name__
        raise RemoteFailure(f"The remote server cannot be reached ({why}).", value=url, remedy=REPORT) from error
    if response.status_code != HTTPStatus.OK:
        raise error_of(response.status_code, response.content)
    try:
        return [str(model["id"]) for model in response.json()["data"]]
    except (ValueError, KeyError, TypeError) as error:
        raise RemoteFailure("The remote server lists no models.", value=url, remedy=REPORT) from error
