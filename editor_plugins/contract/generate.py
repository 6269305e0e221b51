"""Writes the fixtures of the contract: what an editor sends, and what the service answers, as recorded bytes.

    python -m editor_plugins.contract.generate

One JSON file a case, in `fixtures/`.  `request` is the body; `reply` the answer to it, and `stream` the answer where it
has `"stream": true`, each with status, headers and body (text; its bytes are UTF-8).  A test sends the requests to the
service's own app and holds the answers against them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from apply_service.api.dialect import SSE, sse_event
from apply_service.api.errors import NATIVE
from apply_service.api.native import NativeReply
from apply_service.types import ApplyEvent, FinalEvent, TokenEvent
from editor_plugins.contract.cases import EDITS, ERRORS, EditCase, ErrorCase, result_of

FOLDER = Path(__file__).parent / "fixtures"
JSON_TYPE = "application/json"
TOKEN_CHARACTERS = 12


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    wanted = {f"{name}.json": text for name, text in fixtures()}
    for path in FOLDER.glob("*.json"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def fixtures() -> Iterator[tuple[str, str]]:
    """Name and JSON text of each."""
    for edit in EDITS:
        yield edit.name, _text(_edit_fixture(edit))
    for error in ERRORS:
        yield error.name, _text(_error_fixture(error))
    yield "cut_off", _text(_cut_off(_edit_fixture(EDITS[0])))


def tokens_of(case: EditCase) -> tuple[str, ...]:
    """The provisional pieces; none where the program decides."""
    if not case.confidences:
        return ()
    text = case.merged
    return tuple(text[at : at + TOKEN_CHARACTERS] for at in range(0, len(text), TOKEN_CHARACTERS))


def request_of(case: EditCase) -> dict[str, Any]:
    """The body an editor sends."""
    body = {"original": case.original, "base": case.base, "update": case.update, "path": case.path}
    body |= {"format": case.format, "strategy": case.strategy}
    made_for = case.original if case.base is None else case.base
    body["base_sha256"] = hashlib.sha256(made_for.encode()).hexdigest()
    return {key: value for key, value in body.items() if value is not None}


def _edit_fixture(case: EditCase) -> dict[str, Any]:
    reply, result = NativeReply(with_bytes=False), result_of(case)
    events: list[ApplyEvent] = [*map(TokenEvent, tokens_of(case)), FinalEvent(result)]
    frames = [frame for event in events for frame in reply.frames(event)]
    return {
        "name": case.name,
        "about": case.about,
        "request": request_of(case),
        "reply": _answer(200, JSON_TYPE, reply.whole(result)),
        "stream": _stream(frames),
    }


def _error_fixture(case: ErrorCase) -> dict[str, Any]:
    whole = _answer(NATIVE.status(type(case.error)), JSON_TYPE, NATIVE.json(case.error), NATIVE.headers(case.error))
    reply = NativeReply(with_bytes=False)
    frames = [frame for text in case.tokens for frame in reply.frames(TokenEvent(text))]
    stream = _stream([*frames, sse_event(NATIVE.json(case.error), reply.error_event)]) if frames else whole
    return {"name": case.name, "about": case.about, "request": dict(case.request), "reply": whole, "stream": stream}


def _cut_off(fixture: dict[str, Any]) -> dict[str, Any]:
    """A stream whose last event is only half there."""
    body = fixture["stream"]["body"]
    cut = fixture["stream"] | {"body": body[: body.index("event: final") + 100]}
    return fixture | {"name": "cut_off", "about": "The connection is lost in the final event.", "stream": cut}


def _stream(frames: Iterable[bytes]) -> dict[str, Any]:
    return _answer(200, SSE, b"".join(frames).decode())


def _answer(status: int, media_type: str, body: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
    return {"status": status, "headers": {"content-type": media_type, **(headers or {})}, "body": body}


def _text(fixture: dict[str, Any]) -> str:
    return json.dumps(fixture, indent=1, ensure_ascii=True) + "\n"


if __name__ == "__main__":
    main()
