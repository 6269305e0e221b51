"""Runs `apply-service serve`: loads the model, then listens.

SIGTERM and Ctrl-C stop it gracefully: it takes no new requests, and accepted requests may finish within the drain
timeout.  SIGHUP makes it read the file of keys again.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import os
import signal
import socket
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import uvicorn

from apply_service.commands import background
from apply_service.commands.output import OK, spinning, write_note
from apply_service.errors import FileNotWritable, NotReady
from apply_service.service import Service
from apply_service.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from apply_service.api.keys import KeyHolder

ANSWER_TIMEOUT_S = 5
"""How long answers to slow clients may still take after the drain."""
KEEP_ALIVE_S = 75
"""How long an idle connection stays open.  Proxies and clients wait less, so that they close the connection first."""
BACKLOG = 2048
"""How many connections may wait to be accepted."""


def run(arguments: Namespace, settings: Settings) -> int:
    """Run the command until it is stopped, and return the exit code.  Raises ApplyError."""
    if not arguments.background:
        return serve(settings, greet)
    with background.held(settings) as (settings, publish):
        background.write_log(settings)
        return serve(settings, lambda url, _: publish(url), lambda: publish(""))


def greet(url: str, settings: Settings) -> None:
    """Print that the server listens, and what to do next."""
    write_note(f"Serving {', '.join((settings.model, *settings.more_models))} on {url}")
    if settings.has_playground:
        write_note(f"  {url}/ is a page to try edits on.")
    write_note(f"  {url}/docs is the API; point a client of OpenAI or Morph at {url}/v1")
    write_note(f"  apply-service apply FILE SNIPPET --server {url}")
    write_note("  Ctrl-C stops it; --log-level info shows each request.")


def serve(
    settings: Settings, tell: Callable[[str, Settings], None], withdraw: Callable[[], None] = lambda: None
) -> int:
    """Serve until a signal.  `tell` is called with the URL once the server listens and the models are loaded, and
    `withdraw` before the port is closed."""
    with handling_signals(signal.SIG_DFL):  # pydantic would turn a KeyboardInterrupt into an error of its own
        from apply_service.api.app import create_app
        from apply_service.api.auth import refuse_open_network
        from apply_service.api.calls import configure_logging
        from apply_service.api.keys import load_keys
        from apply_service.build import build_runtime, open_service

    configure_logging(settings)
    load_keys(settings.keys_file)  # so that a mistake in the file is found before the model is loaded
    if settings.keys_file is not None:
        survive_hangup()
    runtime = build_runtime(settings)
    names = (settings.model, *settings.more_models)
    with contextlib.closing(open_listener(settings.host, settings.port)) as listener:
        refuse_open_network(listener.getsockname()[0], settings)
        with spinning(f"loading {', '.join(names)}"):
            for name in names:
                runtime.load(name)
        with open_service(runtime, settings) as service:
            app = create_app(service, settings)
            gc.collect()
            gc.freeze()  # 450,000 objects, mostly torch's: collecting them would stop every thread for 0.2 s
            server = DrainingServer(app, service, settings, withdraw)
            tell(url_of(listener), settings)
            with handling_signals(lambda *_: None):
                server.run(sockets=[listener])
        if service.is_alive:  # its thread hangs in a pass; a normal exit would abort the process
            sys.stderr.flush()
            os._exit(OK)
    return OK


def survive_hangup() -> None:
    """Ignore SIGHUP until a `KeyedServer` handles it.  Nothing is lost, because that server reads the keys anyway."""
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, lambda *_: None)


class KeyedServer(uvicorn.Server):
    """A uvicorn server that reads the file of keys again at each SIGHUP.  Windows has no SIGHUP."""

    def __init__(self, config: uvicorn.Config, keys: KeyHolder | None) -> None:
        super().__init__(config)
        self._keys = keys

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        is_main = threading.current_thread() is threading.main_thread()  # no other thread can handle signals
        if self._keys is not None and self._keys.has_file and is_main and sys.platform != "win32":
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._keys.reload)
            self._keys.reload(logging.INFO)
        await super().startup(sockets)


class DrainingServer(KeyedServer):
    """A server that closes the service when it shuts down.  Accepted requests may finish within the drain timeout; the
    rest are answered 503 before their connections are closed."""

    def __init__(
        self, app: FastAPI, service: Service, settings: Settings, withdraw: Callable[[], None] = lambda: None
    ) -> None:
        self._service = service
        self._withdraw = withdraw
        self._drain_timeout_s = settings.drain_timeout_s
        config = uvicorn.Config(
            app,
            http="h11",
            log_config=None,
            log_level=settings.log_level,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            lifespan="off",
            timeout_graceful_shutdown=math.ceil(settings.drain_timeout_s + ANSWER_TIMEOUT_S),
        )
        super().__init__(config, app.state.keys)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        with contextlib.suppress(FileNotWritable):  # a full disk must not keep the server from ending
            self._withdraw()
        closing = asyncio.create_task(asyncio.to_thread(self._service.close, self._drain_timeout_s))
        await super().shutdown(sockets)
        await closing


@contextlib.contextmanager
def handling_signals(handler: signal.Handlers | Callable[..., None]) -> Iterator[None]:
    """Handle SIGINT and SIGTERM with `handler`.  uvicorn handles the signals itself, and afterwards raises them again
    for the earlier handler.  If the earlier handler does nothing, a graceful stop ends with exit code 0."""
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def open_listener(host: str, port: int) -> socket.socket:
    """Return a bound socket, so that a taken port is found before the model is loaded.  Raises NotReady if the address
    can't be listened on."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        family, kind, protocol, _, address = found[0]
        # asyncio turns off Nagle's algorithm, which costs 40 ms, only if the socket names its protocol.
        listener = socket.socket(family, kind, protocol)
        try:
            if sys.platform != "win32":  # on Windows the option would let two servers share a port
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        message = f"Cannot listen on {host}:{port}: {error.strerror or error}."
        remedy = "Choose another --host or --port; port 0 takes a free one."
        raise NotReady(message, value=f"{host}:{port}", remedy=remedy) from error
    return listener


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
