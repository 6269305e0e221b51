"""Ways to ask somebody else's service, one file a dialect; `TRANSPORTS` is the table of them.

A transport sends one edit and brings back the merged text with what the service says of its cost.  To add a dialect:
write its file, add its line here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from apply_eval.runners.answer import Runner
from apply_eval.runners.request import RequestOptions
from apply_service.registry import resolve

TRANSPORTS = {
    "native": "apply_eval.transports.native:open_native",
    "openai_chat": "apply_eval.transports.openai_chat:OpenAiChat",
    "code_apply": "apply_eval.transports.code_apply:CodeApply",
}
"""Dialects by name: our own; chat completions with Morph's tags; Morph's and Relace's structured endpoint."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A service: where it is, who asks, and which of its models is meant."""

    url: str
    api_key: str | None = field(default=None, repr=False)
    model: str | None = None
    drafter: str | None = None
    """Of our own service only."""


def open_transport(dialect: str, name: str, endpoint: Endpoint, options: RequestOptions) -> Runner:
    """A runner called `name` that asks `endpoint` in `dialect`.  Raises ApplyError where it can't."""
    open_dialect: Callable[[str, Endpoint, RequestOptions], Runner] = resolve(TRANSPORTS, dialect)
    return open_dialect(name, endpoint, options)
