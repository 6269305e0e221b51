"""What a server's refusals mean here, beyond the cases that the target's tests drive through a socket."""

from __future__ import annotations

import pytest

from apply_service.errors import ContextLimitExceeded, RemoteFailure
from apply_service.remote.client import asked_wait_s
from apply_service.remote.messages import Transcript, error_in, error_of, is_passing


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, None), ("2", 2.0), ("0.5", 0.5), ("-3", 0.0), ("soon", None), ("inf", None)],
)
def test_retry_after_in_seconds(header: str | None, seconds: float | None) -> None:
    assert asked_wait_s(header) == seconds


def test_what_may_pass() -> None:
    assert [status for status in (400, 401, 404, 408, 429, 500, 501, 502, 503, 529) if is_passing(status)] == [
        429,
        500,
        502,
        503,
        529,
    ]


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b'"no"', b'{"error": null}', b'{"error": {"message": 3}}'])
def test_any_body_of_an_error_is_borne(body: bytes) -> None:
    found = error_of(400, body)
    assert type(found) is RemoteFailure
    assert found.value == 400


def test_long_messages_are_cut() -> None:
    assert len(error_of(500, b'{"error": "' + b"x" * 10_000 + b'"}').message) < 300


def test_a_context_error_may_come_in_the_stream() -> None:
    assert isinstance(error_in({"message": "exceeds the available context size"}), ContextLimitExceeded)
    assert isinstance(error_in("boom"), RemoteFailure)


def test_events_are_read_whatever_is_between_them() -> None:
    transcript = Transcript()
    first, second = ('{"choices": [{"delta":', '{"content": "a"}}]}')
    body = f"event: x\ndata: {first}\ndata:{second}\r\n\r\n: c\n\n\ndata: [DONE]".encode()
    assert [text for at in range(0, len(body), 7) for text in transcript.feed(body[at : at + 7])] == ["a"]
    assert not transcript.is_done
    assert list(transcript.feed(b"\n\n")) == [""]
    assert transcript.is_done
