"""Options of `apply` that could have no effect beside others: refused by name, never left unused in silence.

What a value may be is checked elsewhere: by the parser, the settings, and whoever answers the request.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable

from apply_service.commands.content import STANDARD_INPUT
from apply_service.errors import InvalidField, UnsupportedParameter
from apply_service.settings import Settings, setting_specs

IN_REQUEST = (
    *(
        "file",
        "stdin_path",
        "update",
        "instruction",
        "in_place",
        "allow_doubt",
        "diff",
        "format",
        "language",
        "encoding",
        "strategy",
    ),
    *("drafter", "temperature", "seed", "max_tokens", "timeout", "on_verdict"),
)
"""What a JSON request says itself, or leaves no room for."""

IN_BATCH = (
    *("file", "stdin_path", "update", "instruction", "request", "format", "language", "encoding", "strategy"),
    *("drafter", "temperature", "seed", "max_tokens", "timeout", "on_verdict", "independent"),
)
"""What a batch says itself, each edit for itself."""

NOT_IN_PATCH = tuple(name for name in IN_BATCH if name not in ("encoding", "on_verdict", "independent"))
"""What a patch leaves no room for: it is applied by the program."""

OF_SEVERAL_FILES = ("independent", "root")

OF_THE_REQUEST = ("model", "drafter")
"""Settings of the engine that a request may name as well: they are sent to the server."""

OF_THE_ENGINE = tuple(
    spec.name for spec in setting_specs() if spec.group == "engine" and spec.name not in OF_THE_REQUEST
)
"""Settings of an engine in this process, which there is none of where a server is asked."""


def refuse_unused(arguments: Namespace, settings: Settings) -> None:
    """Raises UnsupportedParameter where an option was given that could have no effect, InvalidField where two want the
    same standard input."""
    _refuse_beside_several(arguments)
    _refuse_around_the_filter(arguments)
    if arguments.request is not None:
        _refuse(
            _given(arguments, IN_REQUEST),
            "A JSON request says all of the edit itself, and its answer is printed",
            remedy="Leave them out, or write them into the request.",
        )
    refuse_engine_options(arguments, settings)
    if (arguments.request is not None or arguments.batch is not None) and settings.server is not None:
        _refuse(
            _given(arguments, ("model",)),
            "The server takes the model from the request",
            remedy='Write "model" into the request.',
        )


def refuse_engine_options(arguments: Namespace, settings: Settings) -> None:
    """Raises UnsupportedParameter for options of an engine where a server is asked."""
    if settings.server is not None:
        _refuse(
            _given(arguments, OF_THE_ENGINE),
            "The server has an engine of its own",
            remedy="Leave them out, or give them to `apply-service serve`.",
        )


def refuse_listener_options(arguments: Namespace) -> None:
    """Raises UnsupportedParameter for options of who may call where nothing is listened on."""
    if arguments.listen is None:
        _refuse(
            _given(arguments, ("keys_file", "allow_open")),
            "Over stdio nobody else can call",
            remedy="Leave them out, or name an address by --listen.",
        )


def _refuse_beside_several(arguments: Namespace) -> None:
    """Options beside a batch or a patch, or without either."""
    if arguments.batch is not None:
        _refuse(
            _given(arguments, (*IN_BATCH, "patch")),
            "A batch says all of its edits itself",
            remedy="Leave them out, or write them into the batch.",
        )
    elif arguments.patch is not None:
        _refuse(
            _given(arguments, (*NOT_IN_PATCH, "model")),
            "A patch says itself what changes where, and no model is asked",
            remedy="Leave them out, or send the patch as the --update of one FILE.",
        )
    else:
        _refuse(
            _given(arguments, OF_SEVERAL_FILES),
            "There is only one file",
            remedy="Leave them out, or name a --batch or a --patch.",
        )


def _refuse_around_the_filter(arguments: Namespace) -> None:
    """Options beside a FILE that is standard input, or of one that is not."""
    if arguments.file != STANDARD_INPUT:
        _refuse(
            _given(arguments, ("stdin_path",)), "FILE has its own name", remedy="Leave it out, or write - for FILE."
        )
        return
    _refuse(
        _given(arguments, ("in_place",)), "FILE is standard input", remedy="Leave it out: the merged text is printed."
    )
    if arguments.update == STANDARD_INPUT:
        raise InvalidField(
            "FILE and --update cannot both be standard input.",
            value="-",
            remedy="Write the edit to a file, or pass it as another one: --update <(xclip -o) in bash.",
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
