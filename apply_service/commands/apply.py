"""`apply-service apply`: one edit of one file, or one JSON request from standard input.  Several files: see `batch`.

Reads the file (or, as a filter, standard input), asks for the answer (`answering`), and prints it or writes it back.
The file is written only where every check passed, and only if it still is as it was read.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apply_service.backups import BackupStore
from apply_service.commands import batch
from apply_service.commands.answering import answer_request
from apply_service.commands.content import (
    STANDARD_INPUT,
    UTF8,
    merged_bytes,
    original_fields,
    printable,
    read_bytes,
    read_text,
)
from apply_service.commands.exit_codes import OK, REFUSED
from apply_service.commands.options import refuse_unused
from apply_service.commands.output import (
    color_diff,
    print_failure,
    quoted,
    summary_lines,
    write_line,
    write_note,
    write_out,
)
from apply_service.commands.recover import roll_back_dead
from apply_service.errors import ApplyError, CheckFailed, InvalidField, UnsupportedParameter
from apply_service.files import SourceFile, read_source
from apply_service.settings import Settings, is_color_wanted
from apply_service.verdict_rules import DOUBT, is_refused

PASSED_ON = ("instruction", "format", "language", "strategy", "drafter", "model", "seed", "temperature", "max_tokens")
"""Options that go into the request as they are, where they were given."""


def run(arguments: Namespace, settings: Settings) -> int:
    """Run the command; the exit code.  Raises ApplyError."""
    refuse_unused(arguments, settings)
    if arguments.in_place:
        roll_back_dead(settings)
    if arguments.batch is not None or arguments.patch is not None:
        return batch.run(arguments, settings)
    if arguments.request is not None:
        return _run_request(arguments, settings)
    source = _read_original(arguments)
    request = dict(_request_fields(arguments, source))
    try:
        answer = answer_request(json.dumps(request).encode(), settings, arguments.timeout)
        if arguments.in_place and isinstance(source, SourceFile):
            _write_back(source, answer, request, settings)
    except ApplyError as error:
        return print_failure(error, is_json=arguments.json)
    _print_answer(answer, arguments, settings)
    return REFUSED if _failed_checks(answer, request) else OK


# -- a JSON request ----------------------------------------------------------------------------------------------------
def _run_request(arguments: Namespace, settings: Settings) -> int:
    body = read_bytes(arguments.request)
    try:
        request = _refuse_stream(body)
        answer = answer_request(body, settings, request.get("timeout_s"))
    except ApplyError as error:
        return print_failure(error, is_json=True)
    write_line(json.dumps(answer, ensure_ascii=False))
    _note_summary(answer, arguments)
    return REFUSED if _failed_checks(answer, request) else OK


def _refuse_stream(body: bytes) -> dict[str, Any]:
    """The request as an object, as far as it is one: whoever answers it checks it in earnest."""
    try:
        request = json.loads(body)
    except ValueError:
        return {}
    if not isinstance(request, dict):
        return {}
    if request.get("stream"):
        raise UnsupportedParameter(
            "The command line answers with one JSON object; it does not stream.",
            value="stream",
            limit=False,
            remedy="Leave stream out, or ask a server by HTTP.",
        )
    return request


# -- the request -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class PipedText:
    """An editor's buffer, which came through standard input."""

    data: bytes
    path: Path | None
    """What the editor calls it; nothing is opened."""


def _read_original(arguments: Namespace) -> SourceFile | PipedText:
    if arguments.file is None:
        raise InvalidField("No FILE is named.", value="FILE", remedy="Name the file to edit, or use --request -.")
    if arguments.file == STANDARD_INPUT:
        path = None if arguments.stdin_path is None else Path(arguments.stdin_path)
        return PipedText(read_bytes(STANDARD_INPUT), path)
    return read_source(str(arguments.file))


def _request_fields(arguments: Namespace, source: SourceFile | PipedText) -> Iterator[tuple[str, object]]:
    yield from original_fields(source.data, UTF8 if arguments.encoding is None else arguments.encoding)
    if source.path is not None:
        yield "path", printable(source.path)
    if arguments.update is not None:
        yield "update", read_text(arguments.update)
    yield from ((name, value) for name in PASSED_ON if (value := getattr(arguments, name)) is not None)
    if arguments.timeout is not None:
        yield "timeout_s", arguments.timeout
    if arguments.on_verdict or arguments.allow_doubt:
        allowed = {DOUBT: "warn"} if arguments.allow_doubt else {}
        yield "on_verdict", {**allowed, **dict(arguments.on_verdict or ())}
    if arguments.diff:
        yield "diff", True


# -- the answer --------------------------------------------------------------------------------------------------------
def _write_back(source: SourceFile, answer: Mapping[str, Any], request: Mapping[str, Any], settings: Settings) -> None:
    if failed := _failed_checks(answer, {"on_verdict": {DOUBT: "fail", **(request.get("on_verdict") or {})}}):
        raise CheckFailed(
            f"{source.path} was left alone: {failed[0]['check']}: {failed[0]['message']}",
            value=sorted({verdict["check"] for verdict in failed}),
            remedy="Look at the answer with --diff; --allow-doubt writes it all the same, and --on-verdict CHECK=warn "
            "accepts another check's findings.",
        )
    data = merged_bytes(answer)
    if source.exists and data == source.data:
        write_note(f"{source.path}: nothing to change")
        return
    BackupStore(settings.state_path, settings.backups_kept).replace(source, data)
    done = "changed" if source.exists else "created"
    write_note(f"{source.path}: {done}; to take it back: apply-service undo {quoted(source.path)}")


def _failed_checks(answer: Mapping[str, Any], request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Verdicts that the caller does not accept."""
    rules = request.get("on_verdict") or {}
    return [v for v in answer["verdicts"] if is_refused(v["check"], v["severity"], rules)]


def _print_answer(answer: Mapping[str, Any], arguments: Namespace, settings: Settings) -> None:
    if arguments.json:
        write_line(json.dumps(answer, ensure_ascii=False))
    elif arguments.diff:
        is_colored = is_color_wanted(settings, sys.stdout.isatty())
        write_out(color_diff(answer["diff"] or "") if is_colored else answer["diff"] or "")
    elif not arguments.in_place:
        write_out(merged_bytes(answer))
    _note_summary(answer, arguments)


def _note_summary(answer: Mapping[str, Any], arguments: Namespace) -> None:
    if not arguments.quiet:
        for line in summary_lines(answer):
            write_note(line)
