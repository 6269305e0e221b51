"""The structured endpoint of Morph and Relace: `POST /v1/code/apply`."""

from __future__ import annotations

import time

from apply_eval.datasets import EditRecord
from apply_eval.runners.answer import MISSING_OVER_HTTP, Answer
from apply_eval.runners.request import RequestOptions
from apply_eval.transports import Endpoint
from apply_eval.transports.http import open_client, read_object, translated
from apply_eval.transports.usage import usage_fields


class CodeApply:
    """One service; whole answers, not streamed.  Reads the merged file under either of its two names."""

    is_concurrent = True
    missing = MISSING_OVER_HTTP

    def __init__(self, name: str, endpoint: Endpoint, options: RequestOptions) -> None:
        self.name = name
        self._url = endpoint.url
        self._model = endpoint.model
        self._client = open_client(endpoint.url, timeout_s=options.timeout_s, api_key=endpoint.api_key)

    def answer(self, record: EditRecord) -> Answer:
        body: dict[str, object] = {"initial_code": record.before, "edit_snippet": record.update, "stream": False}
        if self._model is not None:
            body["model"] = self._model
        started = time.perf_counter()
        with translated(self._url):
            answer = read_object(self._client.post("code/apply", json=body))
            latency_s = time.perf_counter() - started
            text = answer["mergedCode"] if "mergedCode" in answer else answer["merged_code"]
            if not isinstance(text, str):
                raise TypeError("the merged file is no text")
        return Answer(text=text, latency_s=latency_s, **usage_fields(answer, latency_s))

    def close(self) -> None:
        self._client.close()
