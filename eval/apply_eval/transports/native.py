"""Our own dialect, through our own client: verdicts, confidence and passes come with the answer."""

from __future__ import annotations

from apply_eval.runners.answer import MISSING_OVER_HTTP
from apply_eval.runners.own_service import OwnService
from apply_eval.runners.request import RequestOptions
from apply_eval.transports import Endpoint
from apply_service.clients.http import HttpClient


def open_native(name: str, endpoint: Endpoint, options: RequestOptions) -> OwnService:
    """Streams, so that the time to the first text is known.  Raises SettingsError."""
    client = HttpClient(endpoint.url, api_key=endpoint.api_key, timeout_s=options.timeout_s)
    return OwnService(
        name,
        client.stream,
        options=options,
        drafter=endpoint.drafter,
        model=endpoint.model,
        is_concurrent=True,
        missing=MISSING_OVER_HTTP,
    )
