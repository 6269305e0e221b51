"""`apply-service mcp` as agents start it: the SDK's own client over stdio and HTTP, with the embedded model."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import uvicorn
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

from apply_service.api.keys import format_entry, hold_keys
from apply_service.commands import mcp as mcp_command
from apply_service.commands.mcp import http_app, local_apply
from apply_service.commands.serve import open_listener, url_of
from apply_service.disk.backups import BackupStore
from apply_service.disk.paths import Roots
from apply_service.mcp.tool import FileEditor, create_server
from apply_service.settings import Settings
from apply_service.types import ApplyRequest, ApplyResult
from tests.api.test_batch import pipeline_run, program_run
from tests.batch.test_edits import block
from tests.live_server import live_server
from tests.mcp.test_editing import SCOPES, UNCLEAR, fields, text

EXAMPLE = Path(__file__).parents[2] / "benchmarks" / "example"
COMMAND = [sys.executable, "-m", "apply_service.cli", "mcp"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "cart.py").write_bytes((EXAMPLE / "cart.py").read_bytes())
    (folder / "plain.py").write_bytes(b"x = 1\n")
    return folder


def environment(root: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("APPLY_")}
    return {
        **kept,
        "XDG_STATE_HOME": str(root.parent / "state"),
        "XDG_CONFIG_HOME": str(root.parent),
        "OMP_NUM_THREADS": "1",
    }


def stdio(root: Path, *options: str) -> StdioServerParameters:
    [command, *arguments] = [*COMMAND, "--root", str(root), *options]
    return StdioServerParameters(command=command, args=arguments, env=environment(root), cwd=str(root.parent))


async def edit(client: Client, path: str, code_edit: str, **options: Any) -> CallToolResult:
    return await client.call_tool(
        "edit_file", {"path": path, "code_edit": code_edit, "instruction": "I edit.", **options}
    )


async def edit_lazily(client: Client, root: Path, model: str | None) -> None:
    """A lazy snippet: shown, then written."""
    update = (EXAMPLE / "update.txt").read_text()
    shown = await edit(client, "cart.py", update, dryRun=True)
    assert fields(shown)["status"] == "dry_run"
    assert (root / "cart.py").read_bytes() == (EXAMPLE / "cart.py").read_bytes()
    written = await edit(client, str(root / "cart.py"), update)
    assert fields(written)["status"] == "written", text(written)
    assert fields(written)["model"] == model
    assert fields(written)["diff"] == fields(shown)["diff"]
    assert (root / "cart.py").read_text() == (EXAMPLE / "merged.py").read_text()


async def edit_by_program(client: Client, root: Path) -> None:
    assert [tool.name for tool in (await client.list_tools()).tools] == ["edit_file"]
    exact = await edit(client, "plain.py", block("x = 1", "x = 2"))
    assert fields(exact)["strategy"] == "exact"
    assert (root / "plain.py").read_bytes() == b"x = 2\n"
    outside = await edit(client, "../elsewhere.py", "x")
    assert text(outside).startswith("error [outside_roots]: ")


@pytest.mark.parametrize(("options", "model"), [((), None), (("--strategy", "model"), "embedded")])
def test_stdio(root: Path, options: tuple[str, ...], model: str | None) -> None:
    async def main() -> None:
        async with Client(stdio_client(stdio(root, *options))) as client:
            if model is None:
                await edit_by_program(client, root)
            await edit_lazily(client, root, model)

    anyio.run(main)


def test_state_below_a_root_is_nobodys(root: Path) -> None:
    """As with `--root ~`: what an agent could write there would be trusted later."""
    top = root.parent
    hook = root / ".git" / "hooks" / "pre-commit"
    (top / "link").symlink_to("state")
    os.link(root / "plain.py", root / "twin.py")
    (top / "bare.git" / "refs").mkdir(parents=True)
    (top / "bare.git" / "objects").mkdir()
    (top / "bare.git" / "HEAD").write_bytes(b"ref: refs/heads/main\n")
    guarded = [
        *("state/apply-service/journal/x.json", "link/apply-service/journal/x.json", "apply-service/config.toml"),
        *("state/apply-service/backups/x/00000001.json", "state/apply-service/server/keys.toml", "bare.git/config"),
        *("bare.git/hooks/pre-commit", "new.git/HEAD", "project/GIT~1/config", str(hook)),
    ]

    async def main() -> None:
        async with Client(stdio_client(stdio(root, "--root", str(top), "--strategy", "exact"))) as client:
            for name in guarded:
                path = name if name.startswith("/") else str(top / name)
                assert text(await edit(client, path, "{}\n")).startswith("error [outside_roots]: "), name
            assert fields(await edit(client, "twin.py", block("x = 1", "x = 2")))["status"] == "written"

    anyio.run(main)
    assert not any(Path(top / name).exists() for name in guarded)
    assert (root / "plain.py").read_bytes() == b"x = 1\n"


def test_stdio_by_the_handshake_of_older_clients(root: Path) -> None:
    async def main() -> None:
        async with Client(stdio_client(stdio(root)), mode="legacy") as client:
            await edit_by_program(client, root)

    anyio.run(main)


@contextmanager
def http_server(root: Path, *options: str) -> Iterator[tuple[str, str, "subprocess.Popen[str]"]]:
    """The command over HTTP: its URL, the key that it made, if it did, and the process, which must stop cleanly when
    told to."""
    with subprocess.Popen(
        [*COMMAND, "--listen", "127.0.0.1:0", "--root", str(root), *options],
        env=environment(root),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        has_own_key = not {"--keys-file", "--allow-open"} & set(options)
        try:
            url = process.stderr.readline().split()[-1]
            yield url, process.stdout.readline().strip() if has_own_key else "", process
        finally:
            process.send_signal(signal.SIGTERM)
            said, printed = process.stderr.read(), process.stdout.read()
        assert process.wait(20) == 0, said
        assert printed == ""


def client_of(url: str, key: str, **options: Any) -> tuple[httpx2.AsyncClient, Client]:
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, trust_env=False)
    return http, Client(streamable_http_client(url, http_client=http), **options)


def test_streamable_http(root: Path) -> None:
    async def main(url: str, key: str) -> None:
        http, client = client_of(url, key)
        async with http, client:
            await edit_lazily(client, root, None)
        http, client = client_of(url, key, mode="legacy")
        async with http, client:
            await edit_by_program(client, root)

    with http_server(root) as (url, key, _):
        assert url.startswith("http://127.0.0.1:")
        anyio.run(main, url, key)


def call_of(code_edit: str) -> dict[str, Any]:
    arguments = {"path": "plain.py", "code_edit": code_edit}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "edit_file", "arguments": arguments}}


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def test_without_a_key_nobody_edits(root: Path) -> None:
    """Every user of the machine reaches its loopback, and edits had the rights of whoever started the server."""
    with http_server(root, "--strategy", "exact") as (url, key, _), httpx2.Client(trust_env=False) as http:
        assert key.startswith("sk-apply-")
        wrong = {"Authorization": f"Bearer {key}x"}
        for headers in ({}, wrong, {"X-API-Key": "wrong"}, {"Cookie": f"key={key}"}):
            for body in (HELLO, call_of(block("x = 1", "x = 2"))):
                refused = http.post(f"{url}?key={key}", json=body, headers=ACCEPT | headers)
                assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthorized")
                assert refused.headers["x-content-type-options"] == "nosniff"
            for method in ("GET", "DELETE", "OPTIONS"):
                assert http.request(method, url, headers=ACCEPT | headers).status_code == 401
        answer = http.post(url, json=HELLO, headers=ACCEPT | {"Authorization": f"Bearer {key}"})
        assert answer.status_code == 200
        assert "server" not in answer.headers
    with http_server(root, "--strategy", "exact") as (url, other, _), httpx2.Client(trust_env=False) as http:
        assert other != key
        assert http.post(url, json=HELLO, headers=ACCEPT | {"Authorization": f"Bearer {key}"}).status_code == 401
    assert (root / "plain.py").read_bytes() == b"x = 1\n"


def test_who_asks_for_an_open_server_has_one(root: Path) -> None:
    async def main(url: str) -> None:
        async with Client(streamable_http_client(url)) as client:
            assert fields(await edit(client, "plain.py", block("x = 1", "x = 2")))["status"] == "written"

    with http_server(root, "--strategy", "exact", "--allow-open") as (url, _, _):
        anyio.run(main, url)


@pytest.mark.parametrize("is_open", [True, False])
def test_web_pages_and_foreign_names_are_turned_away(root: Path, is_open: bool) -> None:
    """With a key, too.  The SDK's own look at the name takes `localhost:80@evil.example` for localhost."""
    with http_server(root, "--strategy", "exact", *["--allow-open"] * is_open) as (url, key, _):
        port = url.split(":")[2].partition("/")[0]
        known = ACCEPT | ({} if is_open else {"Authorization": f"Bearer {key}"})
        with httpx2.Client(trust_env=False) as http:
            for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
                assert http.post(url, json=HELLO, headers=known | {"Host": host}).status_code == 200
            for host in ("evil.example", "localhost:80@evil.example", "[::1]:80@evil.example", "[::1]evil.example", ""):
                assert http.post(url, json=HELLO, headers=known | {"Host": host}).status_code == 403
            for origin in ("https://evil.example", "null", "https://localhost.evil.example"):
                assert http.post(url, json=HELLO, headers=known | {"Origin": origin}).status_code == 403


def test_keys_of_a_file(root: Path) -> None:
    """They last longer than a run, and one that is taken out of the file is refused once the server reads it again."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    keys = root.parent / "keys.toml"
    made = [
        subprocess.run(
            [sys.executable, "-m", "apply_service.cli", "key", name, "--file", str(keys)],
            env=environment(root),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()[-1]
        for name in ("agent", "other")
    ]

    async def main(url: str) -> None:
        http, client = client_of(url, made[0])
        async with http, client:
            exact = await edit(client, "plain.py", block("x = 1", "x = 2"))
            assert fields(exact)["status"] == "written"

    options = ("--strategy", "exact", "--keys-file", str(keys))
    with http_server(root, *options) as (url, _, process), httpx2.Client(trust_env=False) as http:
        refused = http.post(url, json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthorized")
        anyio.run(main, url)
        keys.write_text("[[key]]" + keys.read_text().split("[[key]]")[2])
        process.send_signal(signal.SIGHUP)
        assert process.stderr is not None
        while "API keys loaded: 1" not in (line := process.stderr.readline()):
            assert line
        for key, status in zip(made, (401, 200), strict=True):
            bearer = {"Authorization": f"Bearer {key}"}
            assert http.post(url, json=HELLO, headers=ACCEPT | bearer).status_code == status


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_edit_whose_key_goes_ends_and_writes_nothing(root: Path, mode: str) -> None:
    """The agent is told why, and what it listens on is cut."""
    keys = root.parent / "keys.toml"
    keys.write_text(format_entry("agent", "agent-key-0123456789-0123456789"))
    holder = hold_keys(str(keys))
    assert holder is not None
    started, cancelled = anyio.Event(), anyio.Event()

    async def apply(_: ApplyRequest) -> ApplyResult:
        started.set()
        try:
            await anyio.sleep(60)
        finally:
            cancelled.set()
        raise AssertionError("it was not cut")

    store = BackupStore(root.parent / "state", 3)
    editor = FileEditor(Roots([str(root)]), mcp_command.for_valid_keys(apply), store, strategy="exact")
    app = http_app(create_server(editor), "127.0.0.1", Settings(), holder)

    async def main() -> None:
        config = uvicorn.Config(app, http="h11", log_level="critical", lifespan="on")
        server = uvicorn.Server(config)
        with closing(open_listener("127.0.0.1", 0)) as listener:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(server.serve, [listener])
                http, client = client_of(f"{url_of(listener)}/mcp", "agent-key-0123456789-0123456789", mode=mode)
                told: list[str] = []

                async def ask() -> None:
                    told.append(text(await edit(client, "plain.py", block("x = 1", "x = 2"))))

                with suppress(Exception):  # its own farewell is refused
                    async with http, client, anyio.create_task_group() as edits:
                        edits.start_soon(ask)
                        await started.wait()
                        keys.write_text(format_entry("other", "other-key-0123456789-0123456789"))
                        holder.reload()
                with anyio.fail_after(10):
                    await cancelled.wait()
                server.should_exit = True
        assert told[0].startswith("error [unauthorized]: this API key has been removed from the service")

    anyio.run(main)
    assert (root / "plain.py").read_bytes() == b"x = 1\n"


def test_limits_of_the_keys_hold_here_too(root: Path) -> None:
    async def answer(request: Request) -> Response:
        await request.body()
        return Response("done")

    class Protocol:
        def streamable_http_app(self, **_: object) -> Starlette:
            return Starlette(routes=[Route("/mcp", answer, methods=["GET", "POST"])])

    keys = root.parent / "keys.toml"
    keys.write_text(format_entry("agent", "agent-key-0123456789-0123456789") + "rate_limit = 2\n")
    settings = Settings(keys_file=str(keys), body_timeout_s=0.05)
    bearer = {"Authorization": "Bearer agent-key-0123456789-0123456789"}
    http = TestClient(http_app(Protocol(), "127.0.0.1", settings, hold_keys(str(keys))), headers=bearer)  # type: ignore[arg-type]
    assert [http.get("/mcp").status_code for _ in range(4)] == [200] * 4, "who listens asks for nothing"
    assert [http.post("/mcp").status_code for _ in range(3)] == [200, 200, 429]


def test_a_large_message_is_refused_with_the_limit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether its length is declared or not; a smaller one after it is read."""
    monkeypatch.setattr("apply_service.commands.mcp.MAX_MESSAGE_BYTES", 2000)
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    with live_server(pipeline_run) as (_, service):
        editor = FileEditor(Roots([str(root)]), local_apply(service), BackupStore(root.parent / "state", 3))
        app = http_app(create_server(editor), "127.0.0.1", Settings(), None)
        with TestClient(app, base_url="http://127.0.0.1:8000") as http:
            for body in (b" " * 2001, iter([b" " * 1500] * 3), b" " * 20_000_000):
                refused = http.post("/mcp", content=body, headers=headers)
                error = refused.json()["error"]
                assert (refused.status_code, error["code"], error["limit"]) == (413, "too_large", 2000)
            assert http.post("/mcp", content=b" " * 2000, headers=headers).status_code == 400


def test_sessions_are_few_and_end_when_idle(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One too many is turned away; one that nobody uses makes room."""
    monkeypatch.setattr(mcp_command, "MAX_SESSIONS", 1)
    monkeypatch.setattr(mcp_command, "SESSION_IDLE_S", 0.2)
    with live_server(pipeline_run) as (_, service):
        editor = FileEditor(
            Roots([str(root)]), local_apply(service), BackupStore(root.parent / "state", 3), strategy="exact"
        )
        app = http_app(create_server(editor), "127.0.0.1", Settings(), None)
        with TestClient(app, base_url="http://127.0.0.1:8000") as http:
            assert http.post("/mcp", json=HELLO, headers=ACCEPT).status_code == 200
            assert http.post("/mcp", json=HELLO, headers=ACCEPT).status_code == 503
            end = time.monotonic() + 30
            while http.post("/mcp", json=HELLO, headers=ACCEPT).status_code != 200:
                assert time.monotonic() < end
                time.sleep(0.05)


def test_a_running_server_applies_the_edits(root: Path) -> None:
    async def main(url: str) -> None:
        async with Client(stdio_client(stdio(root, "--server", url))) as client:
            exact = await edit(client, "plain.py", block("x = 1", "x = 2"))
            assert fields(exact)["status"] == "written"
            lost = await edit(client, "plain.py", block("nowhere", "x"))
            assert text(lost).startswith("error [needs_more_context]: ")

    with live_server(pipeline_run) as (url, _):
        anyio.run(main, url)
    assert (root / "plain.py").read_bytes() == b"x = 2\n"


@pytest.mark.parametrize("strategy", ["auto", "exact"])
def test_a_running_server_is_asked_for_the_reading_that_the_agent_takes(root: Path, strategy: str) -> None:
    """Its doubt and its error ask the same question."""
    (root / "a.py").write_text(SCOPES)

    async def main(url: str) -> None:
        async with Client(stdio_client(stdio(root, "--server", url, "--strategy", strategy))) as client:
            asked = await edit(client, "a.py", UNCLEAR)
            assert (asked.is_error, fields(asked)["status"]) == (True, "asked")
            assert len(fields(asked)["readings"]) == 3
            assert (root / "a.py").read_text() == SCOPES
            arguments = {"path": "a.py", "code_edit": UNCLEAR, "reading": 3}
            assert fields(await client.call_tool("edit_file", arguments))["status"] == "written"

    with live_server(program_run) as (url, _):
        anyio.run(main, url)
    assert (root / "a.py").read_text().count("x = 2") == 1


def test_a_server_that_is_not_there_is_told(root: Path) -> None:
    async def main() -> None:
        async with Client(stdio_client(stdio(root, "--server", "http://127.0.0.1:9"))) as client:
            result = await edit(client, "plain.py", block("x = 1", "x = 2"))
            assert text(result).startswith("error [unreachable]: ")

    anyio.run(main)


@pytest.mark.parametrize(
    ("options", "why", "exit_code"),
    [
        (["--root", "no/such/folder"], "no/such/folder is not a folder", 3),
        (["--listen", "here"], "not an address to listen on: here", 2),
        (["--listen", "0.0.0.0:0"], "no API keys are configured", 2),
        (["--allow-open"], "--allow-open would have no effect", 2),
        (["--keys-file", "keys.toml"], "--keys-file would have no effect", 2),
        (["--server", "nonsense"], "not the URL of a service: nonsense", 2),
        (["--server", "http://127.0.0.1:9", "--dtype", "float32"], "--dtype would have no effect", 2),
    ],
)
def test_what_it_does_not_start_with(root: Path, options: list[str], why: str, exit_code: int) -> None:
    done = subprocess.run(
        [*COMMAND, *options],
        env=environment(root),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert why in done.stderr
    assert done.returncode == exit_code
    assert done.stdout == ""
