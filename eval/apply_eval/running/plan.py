"""What a run is: the choices that its rows depend on.  Two runs with the same plan may be one run that was stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from apply_eval.runners.request import RequestOptions
from apply_eval.runners.target import TargetOptions

DEFAULT_DRAFTERS = ("prompt_lookup", "original", "original_snippet", "merged_edit")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Somebody's service.  The key is no part of a plan."""

    url: str
    dialect: str = "native"
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Who takes part and how they are asked.  `drafters` None: the default ones, or none where they make no sense."""

    drafters: tuple[str, ...] | None = None
    peers: Mapping[str, str | None] = field(default_factory=dict)
    """Peer by name, and the URL of its server where it has one."""
    target: TargetOptions = field(default_factory=TargetOptions)
    server: ServerOptions | None = None
    request: RequestOptions = field(default_factory=RequestOptions)
    with_plain: bool = True
    concurrency: int = 1
    repeats: int = 1


def plan_of(
    options: RunOptions,
    *,
    names: list[str],
    data: list[dict[str, str]],
    sample_ids: list[str],
    model: dict[str, Any] | None,
) -> dict[str, Any]:
    """The plan as JSON.  `names`: the contestants; `model`: the target's identity, None where it is a server's."""
    server = None if options.server is None else {**asdict(options.server), "api_key": None}
    return {
        "schema_version": 1,
        "data": data,
        "sample_ids": sample_ids,
        "names": names,
        "model": model,
        "server": server,
        "peers": dict(options.peers),
        "request": asdict(options.request),
        "concurrency": options.concurrency,
        "repeats": options.repeats,
    }
