"""A real server on a free loopback port, for tests that need a socket."""

import contextlib
import threading
import time
from collections.abc import Iterator

from apply_service.api.app import create_app
from apply_service.commands.serve import DrainingServer, open_listener, url_of
from apply_service.service import Run, Service
from apply_service.settings import Settings


@contextlib.contextmanager
def live_server(run: Run, settings: Settings | None = None) -> Iterator[tuple[str, Service]]:
    """Serve `run` in a thread; gives the URL and the service, whose integrity is checked at the end."""
    with stoppable_server(run, settings or Settings(drain_timeout_s=0)) as (url, service, _):
        yield url, service


@contextlib.contextmanager
def stoppable_server(run: Run, settings: Settings) -> Iterator[tuple[str, Service, DrainingServer]]:
    """As `live_server`, with the server, so that a test can stop it (`should_exit`)."""
    with (
        Service(run, queue_limit=settings.queue_limit, max_timeout_s=settings.max_timeout_s) as service,
        serving(service, settings) as (url, server),
    ):
        yield url, service, server


@contextlib.contextmanager
def serving(service: Service, settings: Settings) -> Iterator[tuple[str, DrainingServer]]:
    """Serve a service in a thread; its integrity is checked at the end."""
    listener = open_listener("127.0.0.1", 0)
    server = DrainingServer(create_app(service, settings), service, settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.002)
        yield url_of(listener), server
    finally:
        server.should_exit = True
        thread.join(60)
        listener.close()
        assert not thread.is_alive()
    assert service.wait_until_idle(5)
    service.check_integrity()
