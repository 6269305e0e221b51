"""`apply-service mcp`: the tool `edit_file` for coding agents, over stdio or streamable HTTP.

By default the edits are applied in this process, whose model is loaded in the background from the start; with --server
a running service applies them.  Files are read and written here either way.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import sys
import threading
import traceback
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from apply_service.backups import BackupStore
from apply_service.commands.exit_codes import INTERRUPTED, OK, exit_code
from apply_service.commands.options import refuse_engine_options, refuse_listener_options
from apply_service.commands.output import print_error, write_note
from apply_service.commands.recover import roll_back_dead
from apply_service.errors import ApplyError, MissingDependency, SettingsError
from apply_service.roots import Roots
from apply_service.settings import Settings
from apply_service.types import ApplyRequest, ApplyResult, FinalEvent

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from apply_service.mcp.editing import Apply
    from apply_service.service import Service

Close = Callable[[], Awaitable[None]]
CRASHED = 1
PATH = "/mcp"
MAX_SESSIONS = 1000
"""Sessions over HTTP at a time; one more is answered 503."""
SESSION_IDLE_S = 1800.0
"""A session without a request, or a stream that listens, for so long is ended; its client has to begin anew."""
CALLS = frozenset({"POST"})
"""What limits count; a GET is the stream on which a client listens as long as it likes."""


def run(arguments: Namespace, settings: Settings) -> int:
    """Run the command until the client hangs up or it is stopped; the exit code.  Raises ApplyError."""
    _refuse_without_sdk()
    refuse_engine_options(arguments, settings)
    refuse_listener_options(arguments)
    roots = Roots(arguments.root or ["."])
    address = None if arguments.listen is None else _address(arguments.listen)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    roll_back_dead(settings)
    store = BackupStore(settings.state_path, settings.backups_kept)
    with contextlib.ExitStack() as stack:
        if settings.server:
            apply, close = _remote(arguments, settings)
        else:
            asks_model = arguments.strategy != "exact"
            apply, close = _local(stack.enter_context(_engine(settings, asks_model=asks_model))), _nothing_to_close
        from apply_service.mcp.editing import FileEditor
        from apply_service.mcp.server import create_server

        editor = FileEditor(
            roots, apply, store, strategy=arguments.strategy or "auto", max_bytes=settings.max_body_bytes
        )
        server = create_server(editor)
        if address is None:
            return _serve_stdio(server, close)
        return _serve_http(server, address, settings, close)


def _refuse_without_sdk() -> None:
    try:
        import mcp  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            "The MCP server needs the MCP SDK.", value="mcp", remedy="pip install 'apply-service[mcp]'"
        ) from error


# -- who applies -------------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def _engine(settings: Settings, *, asks_model: bool = True) -> Iterator[Service]:
    """A service in this process; its model, if one is ever asked, is loaded while the client says hello."""
    from apply_service.build import build_runtime, open_service

    runtime = build_runtime(settings)
    service = open_service(runtime, settings)
    loading = threading.Thread(target=_load, args=(runtime.load, settings.model), name="apply-load", daemon=True)
    if asks_model:
        loading.start()
    try:
        with service:
            yield service
    finally:
        if loading.is_alive() or service.is_alive:
            _end_at_once(sys.exception())


def _end_at_once(error: BaseException | None) -> NoReturn:
    """Without the interpreter's own end, which under a forward pass would abort the process."""
    code = CRASHED
    if error is None:
        code = OK
    elif isinstance(error, ApplyError):
        print_error(error)
        code = exit_code(error)
    elif isinstance(error, KeyboardInterrupt):
        code = INTERRUPTED
    else:
        traceback.print_exception(error)
    sys.stderr.flush()
    os._exit(code)


def _load(load: Any, model: str) -> None:
    try:
        load(model)
        gc.freeze()  # as in `serve`
    except ApplyError as error:  # every edit that needs the model will say so, too
        print_error(error)


def _local(service: Service) -> Apply:
    async def apply(request: ApplyRequest) -> ApplyResult:
        async with aclosing(service.submit(request).events_async()) as events:
            async for event in events:
                if isinstance(event, FinalEvent):
                    return event.result
        raise AssertionError("a ticket ends in a final event or an error")

    return apply


async def _nothing_to_close() -> None:
    pass


def _remote(arguments: Namespace, settings: Settings) -> tuple[Apply, Close]:
    """Who applies, and how its connections are closed, in the event loop that used them."""
    from apply_service.clients.async_http import AsyncHttpClient

    assert settings.server is not None
    client = AsyncHttpClient(settings.server, api_key=settings.api_key, timeout_s=settings.default_timeout_s)

    async def apply(request: ApplyRequest) -> ApplyResult:
        # Both are settings, and meant for the server only where they were asked for here.
        return await client.apply(replace(request, model=arguments.model, drafter=arguments.drafter))

    return apply, client.close


# -- transports --------------------------------------------------------------------------------------------------------
def _serve_stdio(server: Server[Any], close: Close) -> int:
    import anyio
    from mcp.server.stdio import stdio_server

    async def main() -> None:
        try:
            async with stdio_server() as (reader, writer):
                await server.run(reader, writer, server.create_initialization_options())
        finally:
            await close()

    anyio.run(main)
    return OK


def _serve_http(server: Server[Any], address: tuple[str, int], settings: Settings, close: Close) -> int:
    import asyncio

    import uvicorn

    from apply_service.api.auth import refuse_open_network
    from apply_service.api.http_protocol import protocol_class
    from apply_service.commands.serve import absorb_signals, open_listener, url_of

    with contextlib.closing(open_listener(*address)) as listener:
        host = listener.getsockname()[0]
        refuse_open_network(host, replace(settings, host=address[0]))
        app = _http_app(server, host, settings)
        http = protocol_class(header_timeout_s=settings.body_timeout_s, write_timeout_s=settings.write_timeout_s)
        config = uvicorn.Config(app, http=http, log_config=None, log_level="warning", access_log=False, lifespan="on")
        write_note(f"serving {PATH} on {url_of(listener)}{PATH}")

        async def main() -> None:
            try:
                await uvicorn.Server(config).serve(sockets=[listener])
            finally:
                await close()

        with absorb_signals(), asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(main())
    return OK


def _http_app(server: Server[Any], host: str, settings: Settings) -> Any:
    """The protocol behind the same keys, limits and times as the service's own HTTP."""
    from apply_service.api.auth import AuthMiddleware
    from apply_service.api.error_shapes import error_response
    from apply_service.api.keys import load_keys
    from apply_service.api.limits import LimitMiddleware
    from apply_service.api.middleware import CallMiddleware
    from apply_service.api.timeouts import TimeoutMiddleware

    app = server.streamable_http_app(
        streamable_http_path=PATH,
        host=host,
        max_request_body_size=settings.max_body_bytes,
        max_sessions=MAX_SESSIONS,
        session_idle_timeout=SESSION_IDLE_S,
    )
    keys = load_keys(settings.keys_file)
    limited = LimitMiddleware(app, settings=settings, methods=CALLS)
    guarded = AuthMiddleware(limited, keys=keys, cors_origins=settings.cors_origins)
    timed = TimeoutMiddleware(guarded, body_timeout_s=settings.body_timeout_s)
    return CallMiddleware(timed, render=error_response, on_end=lambda *_: None)


def _address(text: str) -> tuple[str, int]:
    """Raises SettingsError for what is no HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise SettingsError(
            "That is no address to listen on.", value=text, limit="HOST:PORT", remedy="Write --listen 127.0.0.1:8766."
        )
    return host.strip("[]"), int(port)
