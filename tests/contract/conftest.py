"""One running server with the embedded model, for all contract tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apply_service.build import build_runtime, open_service
from apply_service.settings import Settings
from tests.live_server import serving


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """The server's address, without a path."""
    settings = Settings(drain_timeout_s=0)
    with open_service(build_runtime(settings), settings) as service, serving(service, settings) as (address, _):
        yield address
