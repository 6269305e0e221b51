"""What the tests of the layers share: the whole application over a scripted pipeline, with settings and keys."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from apply_service.api.app import create_app
from apply_service.api.keys import format_entry
from apply_service.service import Run, Service
from apply_service.settings import Settings

BODY = {"original": "old\n", "update": "new\n"}
ALICE = "alice-key-0123456789-0123456789"
BOB = "bob-key-0123456789-0123456789"


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def write_keys(folder: Path, *, more: str = "") -> str:
    """A file with the keys of two callers; `more` goes into the first entry."""
    path = folder / "keys.toml"
    path.write_text(format_entry("alice", ALICE) + more + format_entry("bob", BOB), encoding="utf-8")
    return str(path)


@contextmanager
def layered(run: Run, **settings: Any) -> Iterator[TestClient]:
    """The application without a socket; nothing may be lost in its service."""
    chosen = Settings(**settings)
    with Service(run, queue_limit=chosen.queue_limit, max_timeout_s=chosen.max_timeout_s) as service:
        yield TestClient(create_app(service, chosen), raise_server_exceptions=False)
        assert service.wait_until_idle(5)
        service.check_integrity()
