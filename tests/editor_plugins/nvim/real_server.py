"""A real server with the embedded model."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from apply_service.build import build_runtime
from apply_service.pipeline import run
from apply_service.settings import Settings
from tests.live_server import live_server

EXAMPLE = Path(__file__).parents[3] / "benchmarks" / "example"


@contextlib.contextmanager
def real_server(settings: Settings | None = None) -> Iterator[str]:
    """Gives the URL; the service's integrity is checked at the end."""
    runtime = build_runtime(Settings())
    with live_server(lambda request, cancelled: run(request, runtime, cancelled), settings) as (url, _):
        yield url
