"""What the tests of the OpenAI dialect share: its requests, a client of the application, and how a stream is read."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.testclient import TestClient

from apply_service.api.app import create_app
from apply_service.service import Run, Service
from apply_service.settings import Settings

TAGGED = "<instruction>I do.</instruction>\n<code>old\n</code>\n<update>new\n</update>"
CHAT = {"model": "auto", "messages": [{"role": "user", "content": TAGGED}]}
MERCURY = "<|original_code|>\nold\n\n<|/original_code|>\n\n<|update_snippet|>\nnew\n\n<|/update_snippet|>"
PREDICTED = {
    "model": "Fast-Apply",
    "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "old\nnew\n"}],
    "prediction": {"type": "content", "content": "old\nkept\n"},
}
CHAT_PATHS = ("/v1/chat/completions", "/v1/apply/chat/completions")


@contextmanager
def client(run: Run, **settings: Any) -> Iterator[TestClient]:
    with Service(run) as service:
        yield TestClient(create_app(service, Settings(**settings)), raise_server_exceptions=False)
        assert service.wait_until_idle(5)
        service.check_integrity()


def chunks(text: str) -> list[Any]:
    """A stream's events; it must end as OpenAI's do."""
    *frames, done = text.removesuffix("\n\n").split("\n\n")
    assert done == "data: [DONE]"
    return [json.loads(frame.removeprefix("data: ")) for frame in frames]


def text_of(stream: list[Any]) -> str:
    return "".join(choice["delta"].get("content", "") for chunk in stream for choice in chunk["choices"])
