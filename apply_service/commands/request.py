"""Turns options into a request, and gets the answer: from a server if one is named, else in this process.

Both take the same JSON request and give the same JSON answer, so `apply` and `batch` need not know who answered.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from apply_service.commands.output import file_hint, spinning, write_note
from apply_service.disk.encodings import UTF8, FileEncoding, encoding_of, refuse_new_characters
from apply_service.disk.files import read_within
from apply_service.errors import (
    ApplyError,
    BadEncoding,
    DeadlineExceeded,
    FileNotReadable,
    InvalidField,
    NotReady,
    Overloaded,
    RateLimited,
    RequestTimeout,
    TooLarge,
    Unauthorized,
    Unreachable,
    UnsupportedParameter,
)
from apply_service.settings import Settings, setting_specs
from apply_service.types import DOUBT, is_refused

STANDARD_INPUT = "-"

OF_ONE_EDIT = (
    *("file", "stdin_path", "update", "instruction", "format", "language", "encoding", "strategy", "drafter"),
    *("temperature", "seed", "max_tokens", "timeout", "on_verdict", "reading"),
)
"""Options that a JSON request states itself, and that a batch states for each of its edits."""
NOT_IN_PATCH = ("request", *(name for name in OF_ONE_EDIT if name not in ("encoding", "on_verdict")), "model")
"""Options that have no meaning for a patch, which a program applies."""
OF_THE_ENGINE = tuple(
    spec.name for spec in setting_specs() if spec.group == "engine" and spec.name not in ("model", "drafter")
)
"""Settings of an engine in this process.  Model and drafter are left out, because a server takes them in the
request."""
OF_THE_SERVER = (TooLarge, InvalidField, Unauthorized, Overloaded, RateLimited, NotReady, Unreachable, RequestTimeout)
"""Errors that may come from a server's limits or state, not from the edit.  A field, such as a long deadline, may be
invalid only because of the server's limits."""


# -- options that could have no effect ---------------------------------------------------------------------------------
def refuse_unused(arguments: Namespace, settings: Settings) -> None:
    """Raise UnsupportedParameter if an option would have no effect beside the others, and InvalidField if two options
    both want standard input."""
    has_batch, has_patch = arguments.batch is not None, arguments.patch is not None
    has_request, is_filter = arguments.request is not None, arguments.file == STANDARD_INPUT
    has_one_file = not (has_batch or has_patch)
    is_json_for_server = (has_request or has_batch) and settings.server is not None
    of_batch = (*OF_ONE_EDIT, "request", "independent", "patch")
    of_request = (*OF_ONE_EDIT, "in_place", "allow_doubt", "diff")
    no_model = "A patch says what changes where, and asks no model"
    for applies, names, why, remedy in (
        (has_batch, of_batch, "A batch says all of its edits", "Write them into the batch."),
        (has_patch, NOT_IN_PATCH, no_model, "Name one file, and the patch as its SNIPPET."),
        (has_one_file, ("independent", "root"), "There is only one file", "Name a --batch or a --patch."),
        (not is_filter, ("stdin_path",), "FILE has its own name", "Leave it out, or write - for FILE."),
        (is_filter, ("in_place",), "FILE is standard input", "Leave it out: the merged text is printed."),
        (has_request, of_request, "A JSON request says all of the edit", "Write them into the request."),
        (arguments.strategy == "model", ("reading",), "A model has no readings", "Leave out --strategy, or --reading."),
        (is_json_for_server, ("model",), "The request names the model", 'Write "model" into the request.'),
    ):
        if applies:
            refuse_given(arguments, names, why, remedy)
    refuse_engine_options(arguments, settings)
    if is_filter and arguments.update == STANDARD_INPUT:
        remedy = "Write the edit to a file, or in bash pass it as one: apply-service apply - <(xclip -o)."
        raise InvalidField("FILE and SNIPPET cannot both be standard input.", value="-", remedy=remedy)


def refuse_engine_options(arguments: Namespace, settings: Settings) -> None:
    """Raise UnsupportedParameter for options of an engine if a server is asked."""
    if settings.server is not None:
        remedy = "Leave them out, or give them to `apply-service serve`."
        refuse_given(arguments, OF_THE_ENGINE, "The server has an engine of its own", remedy)


def refuse_given(arguments: Namespace, names: Iterable[str], why: str, remedy: str) -> None:
    """Raise UnsupportedParameter if one of these options was given."""
    given = []
    for name in names:
        value = getattr(arguments, name)
        # An absent switch is False; an absent setting is None.
        if value is not None and (value is not False or name in OF_THE_ENGINE):
            given.append({"file": "FILE", "update": "SNIPPET"}.get(name, "--" + name.replace("_", "-")))
    if given:
        raise UnsupportedParameter(f"{why}: {', '.join(given)} would have no effect.", value=given, remedy=remedy)


# -- files as parts of requests and answers ----------------------------------------------------------------------------
def read_bytes(name: str, max_bytes: int) -> bytes:
    """Return the bytes of a file, or of standard input if the name is `-`.  Raises FileNotReadable, or TooLarge without
    reading the rest."""
    if name == STANDARD_INPUT:
        if sys.stdin is None:
            raise FileNotReadable("Cannot read standard input: it is closed.", value=name, remedy="Name a file.")
        if sys.stdin.isatty():
            write_note("Reading from the keyboard; Ctrl-D on a line of its own ends it.")
        return read_within(sys.stdin.buffer, "Standard input", max_bytes)
    try:
        with open(name, "rb") as file:
            return read_within(file, name, max_bytes)
    except OSError as error:
        remedy = file_hint(name) or "Name a file you may read, or - for standard input."
        raise FileNotReadable(f"Cannot read {name}: {error.strerror or error}.", value=name, remedy=remedy) from error


def read_text(name: str, max_bytes: int) -> str:
    """Return an update or a patch, from a file or standard input.  Raises FileNotReadable, TooLarge or BadEncoding."""
    data = read_bytes(name, max_bytes)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        refuse_binary(name, data)
        message = f"{name} is no text in UTF-8 (byte {error.start})."
        remedy = "Name the file that holds the edit, or convert it to UTF-8."
        raise BadEncoding(message, value=name, limit="utf-8", remedy=remedy) from error


def refuse_binary(name: str, data: bytes) -> None:
    """Raise BadEncoding for bytes that are not UTF-8 and that git would take for a binary file."""
    if b"\0" in data[:8000]:
        remedy = "Name a text file; of UTF-16 say so: --encoding utf-16."
        raise BadEncoding(f"{name} is a binary file, or UTF-16.", value=name, remedy=remedy)


def file_encoding(data: bytes, named: str | None) -> FileEncoding:
    """Return the named encoding, or else the encoding that the bytes seem to have."""
    return encoding_of(data) if named is None else FileEncoding(named)


def original_fields(data: bytes, encoding: str) -> dict[str, str]:
    """Return the request's fields for a file: readable text if the bytes are plain UTF-8, else the bytes."""
    if encoding.lower().replace("_", "-") in (UTF8, "utf8") and not data.startswith(b"\xef\xbb\xbf"):
        try:
            return {"original": data.decode("utf-8")}
        except UnicodeDecodeError:
            pass
    return {"original_b64": base64.b64encode(data).decode(), "encoding": encoding}


def merged_bytes(answer: dict[str, Any]) -> bytes:
    """Return the merged file as bytes, in the original's encoding."""
    if answer["merged_b64"] is not None:
        return base64.b64decode(answer["merged_b64"])
    return str(answer["merged_code"]).encode("utf-8")


def with_guess(answer: dict[str, Any], encoding: FileEncoding, data: bytes) -> dict[str, Any]:
    """Return the answer for a file of these bytes, with a report if its encoding is a guess.  Raises BadEncoding if the
    edit brings in a character that the guess may write wrongly."""
    if not encoding.is_guess:
        return answer
    refuse_new_characters(encoding, data.decode(encoding.name), answer["merged_code"])
    return {**answer, "verdicts": [*answer["verdicts"], asdict(encoding.verdict)]}


def refused_verdicts(answer: Mapping[str, Any], request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the verdicts that the request does not accept.  A doubt is one of them unless the request accepts it."""
    rules = {DOUBT: "fail", **(request.get("on_verdict") or {})}
    return [v for v in answer["verdicts"] if is_refused(v["check"], v["severity"], rules)]


# -- who answers -------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Answerer:
    """Who answers: the server of the settings, or this process.

    `is_unbidden`: the server is the user's own, and the user did not name it.  If the server's limits or its state keep
    it from answering, this process answers.
    """

    settings: Settings
    is_unbidden: bool

    def edit(self, body: bytes, timeout_s: float | None) -> dict[str, Any]:
        """Return the answer to a native request, as `answer_request` does."""
        refusals = OF_THE_SERVER if timeout_s is not None else (*OF_THE_SERVER, DeadlineExceeded)
        return self._ask(body, lambda settings: answer_request(body, settings, timeout_s), refusals)

    def batch(self, body: bytes, n_files: int) -> dict[str, Any]:
        """Return the answer to a batch, as `answer_batch` does."""
        refusals = (*OF_THE_SERVER, DeadlineExceeded)
        return self._ask(body, lambda settings: answer_batch(body, settings, n_files), refusals)

    def _ask(
        self, body: bytes, ask: Callable[[Settings], dict[str, Any]], refusals: tuple[type[ApplyError], ...]
    ) -> dict[str, Any]:
        if self.is_unbidden:
            if len(body) <= self.settings.max_body_bytes:
                with contextlib.suppress(*refusals):
                    return ask(self.settings)
            self.settings, self.is_unbidden = replace(self.settings, server=None), False
        return ask(self.settings)


def answer_request(body: bytes, settings: Settings, timeout_s: float | None) -> dict[str, Any]:
    """Return the native answer to a native request.  Raises ApplyError."""
    if settings.server is not None:
        return _ask_server(body, settings, "/v1/apply", timeout_s)

    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for plugins takes longer than the edit
    from apply_service.api.answer import NativeAnswer
    from apply_service.api.schema import NativeRequest
    from apply_service.build import build_runtime, runs_on_numpy
    from apply_service.pipeline import apply

    call = NativeRequest.parse(body)
    request, runtime = call.to_request(), build_runtime(settings)
    source = settings.model_sources.get(request.model or settings.model, "")
    is_slow = request.strategy != "exact" and not runs_on_numpy(source, settings)
    text = f"asking {request.model or settings.model}; `apply-service start` keeps it loaded" if is_slow else "merging"
    shows_own = is_slow and source.endswith(".gguf")
    progress = contextlib.nullcontext() if shows_own else spinning(text)
    try:  # run it in this thread: Ctrl-C stops it, and no thread is left in a forward pass at the end
        with progress:
            result = apply(request, runtime)
    except ApplyError:
        raise
    except Exception as error:
        from apply_service.serving.ticket import crash_error

        raise crash_error(error) from error
    answer: dict[str, Any] = json.loads(
        NativeAnswer.of(result, with_bytes=call.original_b64 is not None).model_dump_json()
    )
    return answer


def answer_batch(body: bytes, settings: Settings, n_files: int) -> dict[str, Any]:
    """Return the answer to a batch.  Raises ApplyError."""
    if settings.server is not None:
        # The server ends each edit at its own deadline, at most the longest one it allows.
        return _ask_server(body, settings, "/v1/apply/batch", max(1, n_files) * settings.max_timeout_s)

    import asyncio
    from functools import partial

    from apply_service.api.answer import BatchAnswer
    from apply_service.api.schema import BatchRequest
    from apply_service.batch.run import apply_edits, apply_patch_request, share_deadline
    from apply_service.build import build_runtime, open_service

    call = BatchRequest.parse(body)
    with spinning(f"editing {n_files} files"):
        if call.patch is not None:
            result = apply_patch_request(call.to_patch())
        else:
            requests = share_deadline(call.to_requests(), settings.default_timeout_s, settings.max_timeout_s)
            with open_service(build_runtime(settings), replace(settings, small_edit_workers=0)) as service:
                result = asyncio.run(apply_edits(partial(service.submit, is_patient=True), requests, call.mode))
    answer: dict[str, Any] = json.loads(BatchAnswer.of(result, call).model_dump_json())
    return answer


def _ask_server(body: bytes, settings: Settings, path: str, timeout_s: float | None) -> dict[str, Any]:
    from apply_service.clients.http import HttpClient

    client = HttpClient(settings.server or "", api_key=settings.api_key, timeout_s=settings.default_timeout_s)
    try:
        with spinning(f"waiting for {settings.server}"):
            return client.post(body, path=path, timeout_s=timeout_s)
    except Unauthorized as error:
        given = "Give it one by --api-key KEY or APPLY_SERVICE_API_KEY"
        error.remedy = f"{given}; on its side `apply-service key NAME` makes one."
        raise
