"""`apply-service apply`: one edit of one file, or one JSON request.  Several files: see `batch`.

Reads the file (or, as a filter, standard input), asks for the answer (`request`), and prints it or writes it back.  The
file is written only if every check passed and the file has not changed since it was read.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apply_service.commands import output
from apply_service.commands.request import (
    STANDARD_INPUT,
    UTF8,
    answer_request,
    merged_bytes,
    original_fields,
    read_bytes,
    read_text,
    refuse_unused,
)
from apply_service.commands.undo import roll_back_dead
from apply_service.disk.backups import BackupStore
from apply_service.disk.files import FileWrite, SourceFile, read_source
from apply_service.errors import ApplyError, CheckFailed, InvalidField, UnsupportedParameter
from apply_service.settings import Settings
from apply_service.types import DOUBT, is_refused

PASSED_ON = ("instruction", "format", "language", "strategy", "drafter", "model", "seed", "temperature", "max_tokens")
"""Options that are copied into the request if the user gave them."""


def run(arguments: Namespace, settings: Settings) -> int:
    """Run the command and return the exit code.  Raises ApplyError."""
    refuse_unused(arguments, settings)
    if arguments.in_place:
        roll_back_dead(settings)
    if arguments.batch is not None or arguments.patch is not None:
        from apply_service.commands import batch

        return batch.run(arguments, settings)
    if arguments.request is not None:
        return _run_request(arguments, settings)
    source, request = _read_edit(arguments)
    try:
        answer = answer_request(json.dumps(request).encode(), settings, arguments.timeout)
        if arguments.in_place:
            _write_back(source, answer, request, settings)
    except ApplyError as error:
        return output.print_failure(error, is_json=arguments.json)
    if arguments.json:
        output.write_json(answer)
    elif arguments.diff:
        output.write_diff(answer["diff"] or "", settings)
    elif not arguments.in_place:
        output.write_out(merged_bytes(answer))
    return _end(answer, request, arguments)


def _run_request(arguments: Namespace, settings: Settings) -> int:
    body = read_bytes(arguments.request)
    try:
        request = json.loads(body)
    except ValueError:
        request = {}  # `answer_request` refuses the body below
    if not isinstance(request, dict):
        request = {}
    try:
        if request.get("stream"):
            message = "The command line answers with one JSON object; it does not stream."
            remedy = "Leave stream out, or ask a server by HTTP."
            raise UnsupportedParameter(message, value="stream", limit=False, remedy=remedy)
        answer = answer_request(body, settings, request.get("timeout_s"))
    except ApplyError as error:
        return output.print_failure(error, is_json=True)
    output.write_json(answer)
    return _end(answer, request, arguments)


def _end(answer: Mapping[str, Any], request: Mapping[str, Any], arguments: Namespace) -> int:
    """Print the summary of the answer, and return the exit code."""
    if not arguments.quiet:
        for line in output.summary_lines(answer):
            output.write_note(line)
    return output.REFUSED if _failed_checks(answer, request.get("on_verdict") or {}) else output.OK


def _failed_checks(answer: Mapping[str, Any], rules: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """Verdicts that the caller does not accept."""
    return [v for v in answer["verdicts"] if is_refused(v["check"], v["severity"], rules)]


def _read_edit(arguments: Namespace) -> tuple[SourceFile, dict[str, Any]]:
    """The file to edit and the request for it.  Standard input has the name in `--stdin-path`, and no file."""
    if arguments.file is None:
        raise InvalidField("No FILE is named.", value="FILE", remedy="Name the file to edit, or use --request -.")
    if arguments.file != STANDARD_INPUT:
        source = read_source(str(arguments.file))
    else:
        path = Path(arguments.stdin_path or "")
        source = SourceFile(path, path, read_bytes(STANDARD_INPUT), exists=False)
    request: dict[str, Any] = {**original_fields(source.data, arguments.encoding or UTF8)}
    if arguments.file != STANDARD_INPUT or arguments.stdin_path is not None:
        # JSON carries only Unicode text, so bytes of the name that are not UTF-8 are replaced.
        request["path"] = os.fsencode(source.path).decode("utf-8", "replace")
    if arguments.update is not None:
        request["update"] = read_text(arguments.update)
    request |= {name: value for name in PASSED_ON if (value := getattr(arguments, name)) is not None}
    if arguments.timeout is not None:
        request["timeout_s"] = arguments.timeout
    if arguments.on_verdict or arguments.allow_doubt:
        allowed = {DOUBT: "warn"} if arguments.allow_doubt else {}
        request["on_verdict"] = allowed | dict(arguments.on_verdict or ())
    if arguments.diff:
        request["diff"] = True
    return source, request


def _write_back(source: SourceFile, answer: dict[str, Any], request: Mapping[str, Any], settings: Settings) -> None:
    if failed := _failed_checks(answer, {DOUBT: "fail", **(request.get("on_verdict") or {})}):
        raise CheckFailed(
            f"{source.path} was left alone: {failed[0]['check']}: {failed[0]['message']}",
            value=sorted({verdict["check"] for verdict in failed}),
            remedy="Look at the answer with --diff; --allow-doubt writes it all the same, and --on-verdict CHECK=warn "
            "accepts another check's findings.",
        )
    write = FileWrite(source, merged_bytes(answer))
    if not write.is_change:
        output.write_note(f"{source.path}: nothing to change")
        return
    BackupStore(settings.state_path, settings.backups_kept).write_all([write])
    name = f"./{source.path}" if str(source.path).startswith("-") else str(source.path)
    argument = subprocess.list2cmdline([name]) if os.name == "nt" else shlex.quote(name)
    done = "changed" if source.exists else "created"
    output.write_note(f"{source.path}: {done}; to take it back: apply-service undo {argument}")
