"""Runs `apply-service mcp`: serves the tool `edit_file` to coding agents, over stdio or streamable HTTP.

By default this process applies the edits, and loads its model in the background from the start.  With --server, a
running service applies them.  Files are read and written here either way.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import math
import os
import sys
import threading
import traceback
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apply_service.commands.output import INTERRUPTED, OK, exit_code, print_error, write_line, write_note
from apply_service.commands.request import refuse_engine_options, refuse_given
from apply_service.commands.undo import open_store
from apply_service.disk.paths import Roots
from apply_service.errors import ApplyError, SettingsError, TooLarge, missing_extra
from apply_service.settings import AUTO, Settings, own_places
from apply_service.types import ApplyRequest, ApplyResult, Strategy

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from starlette.types import Message, Receive, Scope, Send

    from apply_service.api.keys import KeyHolder
    from apply_service.mcp.tool import Apply
    from apply_service.service import Service

CRASHED = 1
PATH = "/mcp"
KEY_NAME = "run"
MAX_MESSAGE_BYTES = 256 * 1024
"""A limit that protects the event loop, which parses messages.  Parsing this much text takes 1 ms, and this many
brackets 60 ms."""
MAX_SESSIONS = 1000
"""How many sessions there may be over HTTP at a time; a request for one more is answered 503."""
SESSION_IDLE_S = 1800.0
"""A session ends after this many seconds without a request or a listening stream.  Its client then has to start a new
one."""


def run(arguments: Namespace, settings: Settings) -> int:
    """Run the command until the client hangs up or it is stopped, and return the exit code.  Raises ApplyError."""
    try:
        import mcp  # noqa: F401
    except ImportError as error:
        raise missing_extra("The MCP server needs the MCP SDK", "mcp") from error
    from apply_service.mcp.tool import FileEditor, create_server

    settings = replace(settings, server=None if settings.server == AUTO else settings.server)
    refuse_engine_options(arguments, settings)
    host, _, port = (arguments.listen or "").rpartition(":")
    if arguments.listen is not None:
        if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
            message, remedy = "That is not an address to listen on.", "Write --listen 127.0.0.1:8766."
            raise SettingsError(message, value=arguments.listen, limit="HOST:PORT", remedy=remedy)
    else:
        remedy = "Leave them out, or name an address with --listen."
        refuse_given(
            arguments,
            ("keys_file", "allow_open"),
            "Without --listen only the program that starts this server can call it",
            remedy,
        )
    roots = Roots(arguments.root or ["."], own_places(settings, config=arguments.config))
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    store = open_store(arguments, settings)
    with contextlib.ExitStack() as stack:
        if settings.server:
            apply = remote_apply(arguments, settings)
        else:
            apply = local_apply(stack.enter_context(model_service(settings, asks_model=arguments.strategy != "exact")))
        if arguments.listen is not None:
            apply = for_valid_keys(apply)
        strategy: Strategy = arguments.strategy or "auto"
        max_bytes = min(settings.max_file_bytes, settings.max_body_bytes)
        server = create_server(
            FileEditor(roots, apply, store, strategy=strategy, max_bytes=max_bytes), arguments.tool or ()
        )
        if arguments.listen is None:
            return serve_stdio(server)
        return serve_http(server, (host.strip("[]"), int(port)), settings)


# -- who applies -------------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def model_service(settings: Settings, *, asks_model: bool = True) -> Iterator[Service]:
    """Yield a service in this process.  If the model may be asked, it is loaded while the client connects."""
    from apply_service.build import build_runtime, open_service

    runtime = build_runtime(settings)
    service = open_service(runtime, settings)

    def load() -> None:
        try:
            runtime.load(settings.model)
            gc.freeze()  # else collecting torch's objects would stop every thread
        except ApplyError as error:  # every edit that needs the model will raise this error, too
            print_error(error)

    loading = threading.Thread(target=load, name="apply-load", daemon=True)
    if asks_model:
        loading.start()
    try:
        with service:
            yield service
    finally:
        if loading.is_alive() or service.is_alive:
            # A normal exit during a forward pass would abort the process.
            code = OK
            if (error := sys.exception()) is not None:
                code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else CRASHED
                if isinstance(error, ApplyError):
                    print_error(error)
                    code = exit_code(error)
                elif code == CRASHED:
                    traceback.print_exception(error)
            sys.stderr.flush()
            os._exit(code)


def local_apply(service: Service) -> Apply:
    async def apply(request: ApplyRequest) -> ApplyResult:
        return await service.submit(request).result_async()

    return apply


def remote_apply(arguments: Namespace, settings: Settings) -> Apply:
    """Return a function that sends each edit on a thread.  If an edit is cancelled here, it is cancelled on the server,
    too."""
    import anyio

    from apply_service.clients.http import HttpClient

    server = settings.server or ""
    HttpClient(server, api_key=settings.api_key)  # raises now if the URL or key is wrong, before anything is served

    async def apply(request: ApplyRequest) -> ApplyResult:
        # Both can also be set by the configuration; the server gets only what the command line asked for.
        asked = replace(request, model=arguments.model, drafter=arguments.drafter)
        client = HttpClient(server, api_key=settings.api_key, timeout_s=settings.default_timeout_s)
        try:
            return await anyio.to_thread.run_sync(client.apply, asked, abandon_on_cancel=True)
        finally:
            client.close()

    return apply


# -- transports --------------------------------------------------------------------------------------------------------
def serve_stdio(server: Server[Any]) -> int:
    import anyio
    from mcp.server.stdio import stdio_server

    async def main() -> None:
        async with stdio_server() as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())

    anyio.run(main)
    return OK


def for_valid_keys(apply: Apply) -> Apply:
    """Return `apply` for edits that come over HTTP.  If the caller's key is revoked, a running edit ends, and new edits
    are refused."""
    import anyio

    from apply_service.api.calls import this_call

    async def apply_for_caller(request: ApplyRequest) -> ApplyResult:
        call = this_call()  # the call that brought the message: the SDK keeps its context
        call.refuse_revoked()
        with anyio.CancelScope() as scope:
            call.on_revoked = lambda _: scope.cancel()
            return await apply(request)
        call.refuse_revoked()
        raise AssertionError("only a key that goes ends this scope")

    return apply_for_caller


def serve_http(server: Server[Any], address: tuple[str, int], settings: Settings) -> int:
    """Serve until a signal.  If there is no file of keys, a key is made for this run.  The key is needed because all
    users of a machine share its loopback, and edits run with the rights of this process."""
    import uvicorn

    from apply_service.api.auth import refuse_open_network
    from apply_service.api.keys import hold_keys, hold_new_key
    from apply_service.commands.serve import KeyedServer, handling_signals, open_listener, survive_hangup, url_of

    with contextlib.closing(open_listener(*address)) as listener:
        host = listener.getsockname()[0]
        refuse_open_network(host, replace(settings, host=address[0]))
        keys, new_key = hold_keys(settings.keys_file), None
        if keys is not None:
            survive_hangup()
        elif not settings.allow_open:
            keys, new_key = hold_new_key(KEY_NAME)
        app = http_app(server, host, settings, keys)
        config = uvicorn.Config(
            app,
            http="h11",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="on",
        )
        write_note(f"Serving {PATH} on {url_of(listener)}{PATH}")
        if new_key is not None:
            write_note("The key of this run, shown this once; clients send it as Authorization: Bearer KEY")
            write_line(new_key)
            sys.stdout.flush()
        with handling_signals(lambda *_: None):
            KeyedServer(config, keys).run(sockets=[listener])
    return OK


def http_app(server: Server[Any], host: str, settings: Settings, keys: KeyHolder | None) -> Any:
    """Return the app, with the same limits and deadlines as the service's own HTTP.  `keys`: the keys of which a caller
    must have one; None lets everyone call.  On loopback, requests must name this machine as their host, even with a
    key."""
    from starlette.datastructures import Headers

    from apply_service.api.auth import AuthMiddleware
    from apply_service.api.calls import CallMiddleware
    from apply_service.api.limits import LimitMiddleware, UnreadBodies, declared_bytes

    app = server.streamable_http_app(
        streamable_http_path=PATH,
        host=host,
        max_request_body_size=sys.maxsize,  # `small` refuses a large message before, and says why
        max_sessions=MAX_SESSIONS,
        session_idle_timeout=SESSION_IDLE_S,
    )

    async def small(scope: Scope, receive: Receive, send: Send) -> None:
        """Run the app for messages of at most `MAX_MESSAGE_BYTES`.

        Each message is read before the app gets it, because the app would answer 500 to whatever `receive` raises.
        """
        body, n_bytes, limit = bytearray(), 0, MAX_MESSAGE_BYTES
        has_more = scope["type"] == "http"
        if has_more and settings.max_body_bytes < (n_declared := declared_bytes(Headers(scope=scope))) < math.inf:
            has_more, n_bytes = False, int(n_declared)
        while has_more and n_bytes <= settings.max_body_bytes:  # read on: a sending client would miss an answer
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            n_bytes += len(message.get("body", b""))
            body += message.get("body", b"") if n_bytes <= limit else b""
            has_more = message.get("more_body", False)
        if n_bytes > limit:
            remedy = "send only the lines that change"
            raise TooLarge("the message is too large", value=n_bytes, limit=limit, remedy=remedy)
        read: list[Message] = [{"type": "http.request", "body": bytes(body)}] if scope["type"] == "http" else []

        async def receive_again() -> Message:
            return read.pop() if read else await receive()

        await app(scope, receive_again, send)

    limited = LimitMiddleware(small, settings=settings, methods=frozenset({"POST"}))
    checked = AuthMiddleware(limited, keys=keys, cors_origins=settings.cors_origins, own_host=host)
    return UnreadBodies(CallMiddleware(checked))
