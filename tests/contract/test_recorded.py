"""Requests of real clients, byte for byte, against a running server; answers read the way that those clients read them.

Each record cites client, version and file, and says whether the client's own code sent it (`recorded`) or its bytes
were made as that file makes them (`derived`).
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.contract.edits import MERGED

FOLDER = Path(__file__).parent / "recorded"
RECORDS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
EDITS = {name: record for name, record in RECORDS.items() if record["merged"]}


def send(url: str, record: dict[str, Any]) -> tuple[int, str, bytes]:
    """The record over a socket of its own; status, content type and body of the answer."""
    parts = urlsplit(url)
    body = record["body"].encode()
    lines = [f"{record['method']} {record['path']} HTTP/1.1", f"Host: {parts.netloc}"]
    lines += [f"{name}: {value}" for name, value in record["headers"]]
    lines += [f"Content-Length: {len(body)}"] if body else []
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=60) as connection:
        connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode() + body)
        with HTTPResponse(connection) as response:
            response.begin()
            return response.status, response.headers["content-type"], response.read()


# -- how clients read --------------------------------------------------------------------------------------------------
def read_chat(body: bytes) -> str:
    text: str = json.loads(body)["choices"][0]["message"]["content"]
    return text


def read_chat_stream(body: bytes) -> str:
    return "".join(choice["delta"].get("content") or "" for chunk in chunks(body) for choice in chunk["choices"])


def read_text_stream(body: bytes) -> str:
    return "".join(choice["text"] for chunk in chunks(body) for choice in chunk["choices"])


def read_code_apply(body: bytes) -> str:
    """Usage is read without a look at whether it is there."""
    answer = json.loads(body)
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + answer["usage"]["completion_tokens"]
    text: str = answer["mergedCode"]
    return text


def read_updated_code(body: bytes) -> str:
    """First opening to last closing tag."""
    raw = read_chat(body).strip()
    return raw[raw.index("<updated-code>") + len("<updated-code>") : raw.rindex("</updated-code>")]


def read_escaped_updated_code(body: bytes) -> str:
    """First opening to the first closing tag after it, then the escapes undone one by one."""
    raw = read_chat(body).strip()
    inner = raw[raw.index("<updated-code>") + len("<updated-code>") :]
    inner = inner[: inner.index("</updated-code>")]
    for name, sign in (("lt", "<"), ("gt", ">"), ("quot", '"'), ("apos", "'"), ("amp", "&")):
        inner = inner.replace(f"&{name};", sign)
    return inner


def chunks(body: bytes) -> list[Any]:
    """The stream's events as every client reads them: lines that begin with `data: `, until `[DONE]`."""
    data = [line.removeprefix("data: ") for line in body.decode().split("\n") if line.startswith("data: ")]
    assert data[-1] == "[DONE]"
    return [json.loads(line) for line in data[:-1]]


READERS: dict[str, Callable[[bytes], str]] = {
    "chat": read_chat,
    "chat_stream": read_chat_stream,
    "text_stream": read_text_stream,
    "code_apply": read_code_apply,
    "updated_code": read_updated_code,
    "updated_code_escaped": read_escaped_updated_code,
}


@pytest.mark.parametrize("name", EDITS)
def test_the_client_gets_the_merged_file(name: str, url: str) -> None:
    record = EDITS[name]
    status, kind, body = send(url, record)
    assert status == 200, body
    assert kind.startswith("text/event-stream" if record["reads"].endswith("_stream") else "application/json")
    assert READERS[record["reads"]](body) == MERGED[record["merged"]]


def test_a_client_that_lists_models(url: str) -> None:
    status, _, body = send(url, RECORDS["continue-models"])
    assert status == 200
    assert [card["id"] for card in json.loads(body)["data"]] == ["embedded", "auto", "Fast-Apply"]


def test_a_file_that_the_client_lost_is_not_overwritten(url: str) -> None:
    record = RECORDS["continue-relace-empty"]
    status, _, body = send(url, record)
    answer = json.loads(body)
    assert (status, answer["code"]) == (record["refused"]["status"], record["refused"]["code"])
    assert isinstance(answer["error"], str)


@pytest.mark.parametrize("name", RECORDS)
def test_records_cite_their_source(name: str) -> None:
    record = RECORDS[name]
    assert record["how"] in ("recorded", "derived")
    assert all(record[field] for field in ("client", "version", "source", "note"))
