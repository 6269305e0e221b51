"""Chat completions with Morph's tags: Morph itself, our own service, and everything that imitates them."""

from __future__ import annotations

import time
from typing import Any

from apply_eval.datasets import EditRecord
from apply_eval.runners.answer import MISSING_OVER_HTTP, Answer
from apply_eval.runners.request import RequestOptions
from apply_eval.transports import Endpoint
from apply_eval.transports.http import open_client, read_object, translated
from apply_eval.transports.usage import usage_fields
from apply_service.errors import Truncated

DEFAULT_MODEL = "auto"


class OpenAiChat:
    """One service; whole answers, not streamed."""

    is_concurrent = True
    missing = MISSING_OVER_HTTP

    def __init__(self, name: str, endpoint: Endpoint, options: RequestOptions) -> None:
        self.name = name
        self._url = endpoint.url
        self._model = endpoint.model or DEFAULT_MODEL
        self._client = open_client(endpoint.url, timeout_s=options.timeout_s, api_key=endpoint.api_key)

    def answer(self, record: EditRecord) -> Answer:
        body = {"model": self._model, "messages": [message_of(record)], "temperature": 0, "stream": False}
        started = time.perf_counter()
        with translated(self._url):
            answer = read_object(self._client.post("chat/completions", json=body))
            latency_s = time.perf_counter() - started
            choice = answer["choices"][0]
            text: str = choice["message"]["content"]
        if choice.get("finish_reason") == "length":
            raise Truncated("the service's answer reached its token limit", value=self.name)
        return Answer(text=text, latency_s=latency_s, **usage_fields(answer, latency_s))

    def close(self) -> None:
        self._client.close()


def message_of(record: EditRecord) -> dict[str, Any]:
    """The one user message."""
    return {"role": "user", "content": f"<code>{record.before}</code>\n<update>{record.update}</update>"}
