"""Asks a running server through the PyPI packages, and through MCP servers over standard streams.

Runs in the clients' own environment, without this project.  Standard input and output as of `clients.mjs`; `service` is
the command of `apply-service`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from urllib.request import urlopen

JOB: dict[str, Any] = json.load(sys.stdin)
OUT, sys.stdout = sys.stdout, sys.stderr  # some of the packages print
URL, FOLDER = f"{JOB['url']}/v1/", Path(JOB["folder"])

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm  # noqa: E402
import openai  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402
from langchain_openai import OpenAI as LegacyOpenAI  # noqa: E402
from mcp import Client  # noqa: E402
from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: E402

litellm.suppress_debug_info = True
STOP_S = 0.2
TIMEOUT_S: ContextVar[float] = ContextVar("TIMEOUT_S", default=600.0)
"""How long the client waits; where it is short, the client gives the edit up."""


def text_of(edit: dict[str, str]) -> str:
    return edit.get("prompt") or f"<code>{edit['original']}</code>\n<update>{edit['update']}</update>"


def chat(edit: dict[str, str]) -> Any:
    return [{"role": "user", "content": text_of(edit)}]


def sdk(key: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=URL, api_key=key, max_retries=0, timeout=TIMEOUT_S.get())


def joined(chunks: Any) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def lite(edit: dict[str, str], key: str, model: str, **more: Any) -> Any:
    name = f"openai/{model}"
    limits = {"num_retries": 0, "max_retries": 0, "timeout": TIMEOUT_S.get()}
    return litellm.completion(name, chat(edit), api_base=URL, api_key=key, **limits, **more)


def chain(key: str, model: str, **more: Any) -> ChatOpenAI:
    return ChatOpenAI(model=model, base_url=URL, api_key=key, max_retries=0, timeout=TIMEOUT_S.get(), **more)


CLIENTS: dict[str, Callable[[dict[str, str], str, str], str]] = {
    "openai (PyPI) chat": lambda edit, key, model: (
        sdk(key).chat.completions.create(model=model, messages=chat(edit)).choices[0].message.content or ""
    ),
    "openai (PyPI) stream": lambda edit, key, model: joined(
        sdk(key).chat.completions.create(model=model, messages=chat(edit), stream=True)
    ),
    "openai (PyPI) responses": lambda edit, key, model: (
        sdk(key).responses.create(model=model, input=text_of(edit)).output_text
    ),
    "litellm": lambda edit, key, model: lite(edit, key, model).choices[0].message.content,
    "litellm stream": lambda edit, key, model: joined(lite(edit, key, model, stream=True)),
    "langchain-openai ChatOpenAI": lambda edit, key, model: str(chain(key, model).invoke(text_of(edit)).content),
    "langchain-openai OpenAI": lambda edit, key, model: LegacyOpenAI(
        model=model, base_url=URL, api_key=key, max_retries=0, max_tokens=200_000, timeout=TIMEOUT_S.get()
    ).invoke(text_of(edit)),
}


def say(**said: Any) -> None:
    print(json.dumps(said), file=OUT, flush=True)


def n_active() -> int:
    """How many edits the server works on."""
    return int(json.load(urlopen(f"{JOB['url']}/readyz", timeout=60))["n_active"])


def idle_s() -> float:
    """Wait until the server works on nothing; seconds."""
    began = time.monotonic()
    while n_active() > 0:
        time.sleep(0.01)
    return time.monotonic() - began


def whole_s() -> float:
    """What the slow edit takes if nobody gives it up."""
    began = time.monotonic()
    sdk(JOB["key"]).chat.completions.create(model="auto", messages=chat(JOB["slow"]))
    return time.monotonic() - began


def refusal(error: BaseException) -> dict[str, Any]:
    status = getattr(error, "status_code", None)
    return {"error": type(error).__name__, "status": status, "message": str(error)[:2000]}


def ask_sdks(edits: list[dict[str, str]], key: str) -> None:
    probes = [
        *((edit["name"], edit, key, "auto") for edit in edits),
        ("wrong key", edits[0], f"{key}x", "auto"),
        ("unknown model", edits[0], key, "gpt-none"),
        ("no edit", {"prompt": "Write a poem."}, key, "auto"),
    ]
    longest_s = whole_s()
    for client, ask in CLIENTS.items():
        for name, edit, sent, model in probes:
            try:
                say(client=client, edit=name, text=ask(edit, sent, model))
            except Exception as error:
                say(client=client, edit=name, **refusal(error))
        token = TIMEOUT_S.set(STOP_S)
        try:
            said = {"text": ask(JOB["slow"], key, "auto")}
        except Exception as error:
            said = refusal(error)
        TIMEOUT_S.reset(token)
        say(client=client, edit="cancelled", is_freed=idle_s() < (longest_s - STOP_S) / 2, **said)


# -- MCP ---------------------------------------------------------------------------------------------------------------
async def ask_mcp(client: str, command: list[str], variables: dict[str, str], tool: str, update_name: str) -> None:
    """Each edit of a file of its own, in the one folder that the server may write in."""
    key, edits = JOB["key"], JOB["edits"]
    for sent in (key, f"{key}x"):
        values = {name: value.replace("KEY", sent) for name, value in variables.items()}
        more = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        home = {"HOME": str(FOLDER), "TMPDIR": str(FOLDER)}
        server = StdioServerParameters(command=command[0], args=command[1:], env={**more, **home, **values}, cwd=FOLDER)
        with open(os.devnull, "w") as nowhere:
            async with Client(stdio_client(server, errlog=nowhere)) as session:
                for edit in edits if sent == key else edits[:1]:
                    file = FOLDER / Path(edit["path"]).name
                    file.write_bytes(edit["original"].encode())
                    name = edit["name"] if sent == key else "wrong key"
                    arguments = {"path": str(file), update_name: edit["update"], "instruction": "I do."}
                    try:
                        answer = await asyncio.wait_for(session.call_tool(tool, arguments), 120)
                    except Exception as error:
                        say(client=client, edit=name, **refusal(error))
                        continue
                    told = " ".join(getattr(part, "text", "") for part in answer.content)
                    text = file.read_bytes().decode()
                    is_refused = answer.is_error or '"status":"error"' in told or "error" in told.lower()[:40]
                    if is_refused and text == edit["original"]:
                        say(client=client, edit=name, error="tool error", status=None, message=told[:2000])
                    else:
                        say(client=client, edit=name, text=text)
                if sent == key and client != "relace-mcp":  # it refuses this edit without asking
                    await stop_mcp(client, session, tool, update_name)


async def stop_mcp(client: str, session: Client, tool: str, update_name: str) -> None:
    """Give up a call of the slow edit, once the server works on it."""
    longest_s, slow = whole_s(), JOB["slow"]
    file = FOLDER / slow["path"]
    file.write_bytes(slow["original"].encode())
    arguments = {"path": str(file), update_name: slow["update"], "instruction": "I do."}
    call = asyncio.create_task(session.call_tool(tool, arguments))
    while not call.done() and await asyncio.to_thread(n_active) == 0:
        await asyncio.sleep(0.01)
    call.cancel()
    try:
        said = {"text": str(await call)[:200]}
    except asyncio.CancelledError as error:
        said = refusal(error)
    left_s = await asyncio.to_thread(idle_s)
    say(client=client, edit="cancelled", is_freed=left_s < longest_s / 2, **said)


async def ask_servers() -> None:
    morph = ["node", f"{JOB['npm']}/node_modules/@morphllm/morphmcp/dist/index.js", str(FOLDER)]
    relace = [str(Path(sys.executable).with_name("relace-mcp"))]
    own = [*JOB["service"], "mcp", "--root", str(FOLDER), "--server", JOB["url"]]
    asked: list[Awaitable[None]] = [
        ask_mcp(
            "@morphllm/morphmcp", morph, {"MORPH_API_KEY": "KEY", "MORPH_API_URL": JOB["url"]}, "edit_file", "code_edit"
        ),
        ask_mcp(
            "relace-mcp",
            relace,
            {"RELACE_API_KEY": "KEY", "APPLY_ENDPOINT": f"{URL}apply", "MCP_BASE_DIR": str(FOLDER)},
            "fast_apply",
            "edit_snippet",
        ),
        ask_mcp("mcp (PyPI) and apply-service mcp", own, {"APPLY_SERVICE_API_KEY": "KEY"}, "edit_file", "code_edit"),
    ]
    for one in asked:
        await one


if __name__ == "__main__":
    ask_sdks(JOB["edits"], JOB["key"])
    asyncio.run(ask_servers())
