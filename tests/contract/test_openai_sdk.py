"""The real OpenAI SDK for Python against a running server with the embedded model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from tests.contract.edits import PYTHON, PYTHON_MERGED, PYTHON_UPDATE, TAGGED

TAGGED_CHAT: Any = [{"role": "user", "content": TAGGED}]
EDIT_CHAT: Any = [{"role": "user", "content": PYTHON_UPDATE}]
BY_MODEL: Any = {"apply_service": {"strategy": "model"}}
"""A program uses no tokens."""
PREDICTION: Any = {"type": "content", "content": PYTHON}


@pytest.fixture
def client(url: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as sdk:
        yield sdk


def test_tags(client: OpenAI) -> None:
    answer = client.chat.completions.create(model="morph-v3-fast", messages=TAGGED_CHAT, extra_body=BY_MODEL)
    assert answer.choices[0].message.content == PYTHON_MERGED
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0


def test_a_prediction_and_its_tokens(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model="Fast-Apply", messages=EDIT_CHAT, prediction=PREDICTION, extra_body=BY_MODEL
    )
    assert answer.choices[0].message.content == PYTHON_MERGED
    assert answer.usage is not None
    details = answer.usage.completion_tokens_details
    assert details is not None
    assert details.accepted_prediction_tokens is not None
    assert details.rejected_prediction_tokens is not None
    assert 0.8 * answer.usage.completion_tokens < details.accepted_prediction_tokens <= answer.usage.completion_tokens


def test_the_readings_of_an_edit_are_choices(client: OpenAI) -> None:
    original = "def first():\n    x = 1\n    return x\n\n\ndef second():\n    x = 1\n    return x\n"
    update = "# ... existing code ...\n    x = 2\n    return x\n# ... existing code ...\n"
    chat: Any = [{"role": "user", "content": f"<code>{original}</code>\n<update>{update}</update>"}]
    answer = client.chat.completions.create(
        model="auto", messages=chat, n=2, extra_body={"apply_service": {"path": "a.py"}}
    )
    texts = {choice.message.content for choice in answer.choices}
    both = original.split("x = 1")
    assert texts == {both[0] + "x = 2" + both[1] + "x = 1" + both[2], both[0] + "x = 1" + both[1] + "x = 2" + both[2]}


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("extra", [{"messages": TAGGED_CHAT}, {"messages": EDIT_CHAT, "prediction": PREDICTION}])
def test_streams(client: OpenAI, extra: dict[str, Any], at_once: bool) -> None:
    stream = client.chat.completions.create(
        model="auto",
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"apply_service": {"stream_at_once": at_once, "strategy": "model"}},
        **extra,
    )
    chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == PYTHON_MERGED
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 0


def test_the_base_url_of_relace(url: str) -> None:
    with OpenAI(base_url=f"{url}/v1/apply", api_key="any", max_retries=0) as client:
        answer = client.chat.completions.create(model="auto", messages=TAGGED_CHAT)
        assert answer.choices[0].message.content == PYTHON_MERGED
        assert "auto" in {model.id for model in client.models.list()}


def test_completions(client: OpenAI) -> None:
    assert client.completions.create(model="auto", prompt=TAGGED).choices[0].text == PYTHON_MERGED
    stream = client.completions.create(model="auto", prompt=TAGGED, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream if chunk.choices) == PYTHON_MERGED


def test_models(client: OpenAI) -> None:
    names = [model.id for model in client.models.list()]
    assert names[0] == "embedded"
    assert client.models.retrieve("morph/morph-v3-fast").id == "morph/morph-v3-fast"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-none")


def test_what_the_service_knows_comes_along(client: OpenAI) -> None:
    answer: Any = client.chat.completions.create(
        model="auto",
        messages=TAGGED_CHAT,
        seed=5,
        extra_body={"apply_service": {"path": "shapes.py", "diff": True}},
    )
    report = answer.apply_service
    assert (report["strategy"], report["language"], report["seed"]) == ("exact", "python", 5)
    assert {verdict["check"] for verdict in report["verdicts"]} >= {"syntax", "marker_leak"}
    assert "+    if w < 0 or h < 0:" in report["diff"]


def test_errors_are_the_sdks_own(client: OpenAI) -> None:
    create = client.chat.completions.create
    plain: Any = [{"role": "user", "content": "Write a poem."}]
    with pytest.raises(openai.BadRequestError) as caught:
        create(model="auto", messages=plain)
    assert caught.value.code == "not_an_edit"
    assert "does not chat" in caught.value.message
    with pytest.raises(openai.NotFoundError) as missing:
        create(model="gpt-none", messages=TAGGED_CHAT)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as unknown:
        create(model="auto", messages=TAGGED_CHAT, extra_body={"x": 1})
    assert (unknown.value.code, unknown.value.param) == ("unknown_field", "x")
    instruction: Any = [{"role": "user", "content": "Rename area to surface."}]
    with pytest.raises(openai.BadRequestError) as unable:
        create(model="auto", messages=instruction, prediction=PREDICTION)
    assert unable.value.code == "instruction_unsupported"
    stale: Any = {"apply_service": {"base_sha256": "0" * 64}}
    with pytest.raises(openai.ConflictError) as conflict:
        create(model="auto", messages=TAGGED_CHAT, extra_body=stale)
    assert conflict.value.code == "stale_base"


def test_an_error_in_mid_stream_is_the_sdks_own(client: OpenAI) -> None:
    """Text was sent at once; only then are there more tokens than allowed."""
    options: Any = {"apply_service": {"strategy": "model", "stream_at_once": True}}
    stream = client.chat.completions.create(
        model="auto", messages=TAGGED_CHAT, stream=True, max_tokens=3, extra_body=options
    )
    with pytest.raises(openai.APIError) as caught:
        list(stream)
    assert caught.value.code == "truncated"


def test_many_at_once(url: str) -> None:
    async def ask(client: AsyncOpenAI, name: str) -> str | None:
        text = TAGGED.replace("area", name)
        answer = await client.chat.completions.create(model="auto", messages=[{"role": "user", "content": text}])
        return answer.choices[0].message.content

    async def ask_all() -> list[str | None]:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
            return await asyncio.gather(*(ask(client, name) for name in ("area", "surface", "size", "extent")))

    assert asyncio.run(ask_all()) == [
        PYTHON_MERGED.replace("area", name) for name in ("area", "surface", "size", "extent")
    ]
