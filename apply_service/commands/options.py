"""Options of `apply` that could have no effect beside others: refused by name, never left unused in silence.

What a value may be is checked elsewhere: by the parser, the settings, and whoever answers the request.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable

from apply_service.errors import UnsupportedParameter
from apply_service.settings import Settings

IN_REQUEST = (
    *("file", "update", "instruction", "in_place", "diff", "format", "language", "encoding", "strategy", "drafter"),
    *("temperature", "seed", "max_tokens", "timeout", "on_verdict"),
)
"""What a JSON request says itself, or leaves no room for."""

OF_THE_ENGINE = ("models", "device", "dtype", "window", "torch_threads", "allow_remote_code")
"""Settings of an engine in this process, which there is none of where a server is asked."""


def refuse_unused(arguments: Namespace, settings: Settings) -> None:
    """Raises UnsupportedParameter where an option was given that could have no effect."""
    if arguments.request is not None:
        _refuse(
            _given(arguments, IN_REQUEST),
            "A JSON request says all of the edit itself, and its answer is printed",
            remedy="Leave them out, or write them into the request.",
        )
    if settings.server is not None:
        _refuse(
            _given(arguments, OF_THE_ENGINE),
            "The server has an engine of its own",
            remedy="Leave them out, or give them to `apply-service serve`.",
        )
    if arguments.request is not None and settings.server is not None:
        _refuse(
            _given(arguments, ("model",)),
            "The server takes the model from the request",
            remedy='Write "model" into the request.',
        )


def _given(arguments: Namespace, names: Iterable[str]) -> list[str]:
    """Options as they are spelled. A switch that was not given is False, a setting None."""
    values = ((name, getattr(arguments, name)) for name in names)
    return [
        _flag(name) for name, value in values if value is not None and (value is not False or name in OF_THE_ENGINE)
    ]


def _flag(name: str) -> str:
    return "FILE" if name == "file" else "--" + name.replace("_", "-")


def _refuse(flags: list[str], why: str, *, remedy: str) -> None:
    if flags:
        raise UnsupportedParameter(f"{why}: {', '.join(flags)} would have no effect.", value=flags, remedy=remedy)
