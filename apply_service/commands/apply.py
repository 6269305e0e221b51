"""Runs `apply-service apply`: one edit of one file, or one JSON request.  `batch` runs it for several files.

The command reads the file (or, as a filter, standard input), asks for the answer (`request`), and prints the answer or
writes it back.  The file is written only if every check passed and the file has not changed since it was read.

An edit can have several readings: ways to merge it.  If the answer is in doubt, a user at a terminal is asked which
reading is meant.  Elsewhere nobody is asked: the answer carries its doubt, and a message names the option `--reading`.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from apply_service.commands import output
from apply_service.commands.background import choose_server
from apply_service.commands.output import OK, REFUSED, file_hint
from apply_service.commands.request import (
    STANDARD_INPUT,
    Answerer,
    file_encoding,
    merged_bytes,
    original_fields,
    read_bytes,
    read_text,
    refuse_binary,
    refuse_unused,
    refused_verdicts,
    with_guess,
)
from apply_service.commands.undo import open_store, undo_command
from apply_service.disk.backups import BackupStore
from apply_service.disk.encodings import UTF8, FileEncoding
from apply_service.disk.files import FileWrite, SourceFile, read_source
from apply_service.errors import (
    ApplyError,
    BadEncoding,
    CheckFailed,
    ContextLimitExceeded,
    EmptyUpdate,
    Exchanged,
    FileNotReadable,
    InvalidField,
    MalformedEdit,
    NeedsMoreContext,
    NulByte,
    ResultError,
    TooLarge,
    Unrelated,
    UnsupportedParameter,
)
from apply_service.merge.rank.question import in_words, short_diff, shown_readings
from apply_service.settings import AUTO, Settings, is_color_wanted
from apply_service.types import DOUBT, OtherReading

PASSED_ON = (
    *("instruction", "format", "language", "strategy", "drafter", "model", "seed", "temperature", "max_tokens"),
    "reading",
)
"""Options that are copied into the request if the user gave them."""
ABOUT_THE_FILE = (
    *(BadEncoding, NulByte, MalformedEdit, NeedsMoreContext, Unrelated, Exchanged, TooLarge, ContextLimitExceeded),
    ResultError,
)
"""Errors that are about the file and whose message may lack the file's name."""


def run(arguments: Namespace, settings: Settings) -> int:
    """Run the command and return the exit code.  Raises ApplyError."""
    chosen = choose_server(arguments, settings)
    refuse_unused(arguments, chosen)
    store = open_store(arguments, chosen) if arguments.in_place else None
    answerer = Answerer(chosen, is_unbidden=settings.server == AUTO and chosen.server is not None)
    if arguments.batch is not None or arguments.patch is not None:
        from apply_service.commands import batch

        code = batch.run(arguments, answerer, store)
    elif arguments.request is not None:
        code = _run_request(arguments, answerer)
    else:
        code = _run_edit(arguments, answerer, store)
    if answerer.is_unbidden and code in (OK, REFUSED) and not arguments.quiet:
        output.write_note(f"  answered by your server, {chosen.server}")
    return code


def _name_file(error: ApplyError, arguments: Namespace) -> None:
    """Add the file's name to the message of an error that is about it and does not name it."""
    is_unnamed = isinstance(error, ABOUT_THE_FILE) and arguments.file not in error.message
    if is_unnamed and error.value != arguments.update:
        error.message = f"{arguments.file}: {error.message}"


def _run_edit(arguments: Namespace, answerer: Answerer, store: BackupStore | None) -> int:
    is_new, hint, done, encoding = False, "", "", FileEncoding(UTF8)
    try:
        source, encoding, request = _read_edit(arguments, answerer.settings.max_file_bytes)
        if is_new := arguments.file != STANDARD_INPUT and not source.exists:
            hint = file_hint(arguments.file)
        answer = answer_edit(arguments, answerer, request, is_asking=not is_new and may_ask(arguments))
        answer = with_guess(answer, encoding, source.data)
        if is_new and refused_verdicts(answer, request):
            message = f"{source.path} does not exist, and the edit is not the whole of a new file."
            raise FileNotReadable(message, value=str(source.path), remedy="Name the file to edit.")
        if store is not None:
            _show_refused(arguments, answerer.settings, answer, request)
            done = _write_back(source, answer, request, store, is_forced=arguments.force)
    except ApplyError as error:
        _name_file(error, arguments)
        error.remedy = hint or error.remedy + ("" if isinstance(error, BadEncoding) else encoding.hint)
        return output.print_failure(error, is_json=arguments.json)
    if arguments.json:
        output.write_json(answer)
    elif arguments.diff:
        output.write_diff(answer["diff"] or "", answerer.settings)
    elif not arguments.in_place:
        output.write_out(merged_bytes(answer))
    code = _end(answer, request, arguments, done)
    if hint and not arguments.quiet:
        output.write_note(f"  {source.path} is a new file. {hint}")
    return code


def _run_request(arguments: Namespace, answerer: Answerer) -> int:
    body = read_bytes(arguments.request, answerer.settings.max_file_bytes)
    try:
        request = json.loads(body)
    except ValueError:
        request = {}  # `answerer.edit` refuses the body below
    if not isinstance(request, dict):
        request = {}
    try:
        if request.get("stream"):
            message = "The command line answers with one JSON object; it does not stream."
            remedy = "Leave stream out, or ask a server by HTTP."
            raise UnsupportedParameter(message, value="stream", limit=False, remedy=remedy)
        answer = answerer.edit(body, request.get("timeout_s"))
    except ApplyError as error:
        return output.print_failure(error, is_json=True)
    output.write_json(answer)
    return _end(answer, request, arguments)


def _end(answer: Mapping[str, Any], request: Mapping[str, Any], arguments: Namespace, done: str = "") -> int:
    """Say how sure the answer is and what became of it, and return the exit code.  If the answer must not be used as it
    is, this is reported even with `--quiet`."""
    failed = refused_verdicts(answer, request)
    if not done:
        name = str(request.get("path") or "standard input")
        done = f"{name}: {output.headline(answer, is_chosen=arguments.reading is not None)}"
        if failed:
            done += "; look at it before you use it"
            is_doubted = all(verdict["check"] == DOUBT for verdict in failed)
            if is_doubted and arguments.request is None:
                option = option_for_next(answer)
                takes = f", {option} takes the next reading" if option else ""
                done += f" (--allow-doubt accepts it{takes})"
    if failed or not arguments.quiet:
        output.write_note(done)
        for line in output.findings(answer):
            output.write_note(line)
    if arguments.verbose:
        for line in output.details(answer):
            output.write_note(line)
    return REFUSED if failed else OK


def _read_edit(arguments: Namespace, max_bytes: int) -> tuple[SourceFile, FileEncoding, dict[str, Any]]:
    """Return the file to edit, its encoding, and the request for it.  Standard input has no file name; `--stdin-path`
    gives one."""
    if arguments.file is None:
        remedy = "Name the file to edit and the snippet: apply-service apply FILE SNIPPET."
        raise InvalidField("No file is named.", remedy=remedy)
    if arguments.update is None and arguments.instruction is None:
        remedy = f"Name the file that holds it: apply-service apply {arguments.file} SNIPPET; - reads standard input."
        raise EmptyUpdate(f"There is no edit for {arguments.file}.", value="", remedy=remedy)
    source = _read_source(arguments, max_bytes)
    encoding = file_encoding(source.data, arguments.encoding)
    request: dict[str, Any] = {**original_fields(source.data, encoding.name)}
    if "original" not in request and arguments.encoding is None and encoding.name == UTF8:
        refuse_binary(arguments.file, source.data)
    if arguments.file != STANDARD_INPUT or arguments.stdin_path is not None:
        # JSON carries only Unicode text, so bytes of the name that are not UTF-8 are replaced.
        request["path"] = os.fsencode(source.path).decode("utf-8", "replace")
    if arguments.update is not None:
        request["update"] = read_text(arguments.update, max_bytes)
        if not request["update"].strip() and arguments.instruction is None:
            named = "Standard input" if arguments.update == STANDARD_INPUT else arguments.update
            remedy = "Save the edit first, or name the file that holds it."
            raise EmptyUpdate(f"{named} is empty: there is no edit.", value=request["update"], remedy=remedy)
    return source, encoding, request | _options(arguments)


def _read_source(arguments: Namespace, max_bytes: int) -> SourceFile:
    """Return the file that is named, or standard input."""
    if arguments.file == STANDARD_INPUT:
        path = Path(arguments.stdin_path or "")
        return SourceFile(path, path, read_bytes(STANDARD_INPUT, max_bytes), exists=False)
    try:
        return read_source(str(arguments.file), max_bytes=max_bytes)
    except FileNotReadable as error:
        error.remedy = file_hint(arguments.file) or error.remedy
        raise


def _options(arguments: Namespace) -> dict[str, Any]:
    """Return the fields of the request that say how the edit is applied."""
    options = {name: value for name in PASSED_ON if (value := getattr(arguments, name)) is not None}
    if arguments.timeout is not None:
        options["timeout_s"] = arguments.timeout
    if arguments.on_verdict or arguments.allow_doubt:
        allowed = {DOUBT: "warn"} if arguments.allow_doubt else {}
        options["on_verdict"] = allowed | dict(arguments.on_verdict or ())
    if arguments.diff:
        options["diff"] = True
    return options


def _show_refused(arguments: Namespace, settings: Settings, answer: dict[str, Any], request: Mapping[str, Any]) -> None:
    """Print the diff of an answer that will not be written, if `--diff` asks for it."""
    if arguments.diff and not arguments.json and refused_verdicts(answer, request):
        output.write_diff(answer["diff"] or "", settings)


def _write_back(
    source: SourceFile, answer: dict[str, Any], request: Mapping[str, Any], store: BackupStore, *, is_forced: bool
) -> str:
    """Write the file, and return in words what was done.  Raises FileError, or CheckFailed if the answer must not be
    used as it is; in the latter case nothing is written."""
    if failed := refused_verdicts(answer, request):
        found = "; ".join(map(output.describe, failed))
        checks = sorted({verdict["check"] for verdict in failed})
        accepts = " ".join("--allow-doubt" if check == DOUBT else f"--on-verdict {check}=warn" for check in checks)
        option = option_for_next(answer) if DOUBT in checks else ""
        takes = f"; to write the next reading, use {option}" if option else ""
        start = "To" if request.get("diff") else "Look at the answer with --diff; to"
        remedy = f"{start} write it anyway, use {accepts}{takes}."
        raise CheckFailed(f"{source.path} was not changed: {found}", value=checks, remedy=remedy)
    write = FileWrite(source, merged_bytes(answer))
    if not write.is_change:
        return f"{source.path}: nothing changes"
    store.write_all([write], is_forced=is_forced)
    wrote = "wrote" if source.exists else "created"
    told = output.headline(answer, is_chosen="reading" in request)
    return f"{told}; {wrote} {source.path}; undo with `{undo_command(source.path)}`"


# -- asking which reading is meant -------------------------------------------------------------------------------------
Json = dict[str, Any]


def may_ask(arguments: Namespace) -> bool:
    """Tell whether a person can see the question and answer it, and no option has already answered it."""
    is_settled = arguments.quiet or arguments.json or arguments.allow_doubt or arguments.reading is not None
    return not is_settled and all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def _readings_in(answer: Json) -> list[OtherReading]:
    """Return the reading that the answer uses, then the others."""
    first = OtherReading(answer["reading"] or "", answer["confidence"] or 0.0, "", answer["diff"])
    return [first, *(OtherReading(**one) for one in answer["readings"])]


def answer_edit(arguments: Namespace, answerer: Answerer, request: Json, *, is_asking: bool) -> Json:
    """Return the answer to a request.  If the answer is in doubt and `is_asking`, return the answer for the reading
    that the user chooses.  Raises ApplyError; CheckFailed if the user chooses none."""

    def ask_for(asked: Json) -> Json:
        return answerer.edit(json.dumps(asked).encode(), arguments.timeout)

    unclear: NeedsMoreContext | None = None
    try:
        answer = ask_for(request | {"diff": True} if is_asking else request)
    except NeedsMoreContext as error:
        if not error.readings:
            raise
        if not is_asking:
            error.remedy += "; --reading 1 takes the likeliest reading, and --diff shows it"
            raise
        unclear, why = error, error.message
        readings = [OtherReading(**one) for one in error.readings]  # type: ignore[arg-type]
    else:
        doubts = [verdict["message"] for verdict in refused_verdicts(answer, request) if verdict["check"] == DOUBT]
        if not is_asking or not doubts:
            return answer
        why = doubts[0]
        readings = _readings_in(answer)
    original = str(request.get("original") or "")
    taken = _ask(arguments.file, why, readings, original, is_colored=is_color_wanted(answerer.settings, True))
    if taken is None:
        remedy = "Show more unchanged lines of the file in the edit."
        raise unclear or CheckFailed(f"{arguments.file}: no reading was taken.", remedy=remedy)
    if unclear is None and taken is readings[0]:  # the user chose it, so there is no doubt left
        return {**answer, "verdicts": [verdict for verdict in answer["verdicts"] if verdict["check"] != DOUBT]}
    return ask_for(request | {"reading": taken.id, "strategy": "exact"})


def option_for_next(answer: Mapping[str, Any]) -> str:
    """Return the option that chooses the next reading of an answer; empty if there is no other reading."""
    if not answer["readings"]:
        return ""
    # Numbers count from the reading that the merge program ranks first.  A model may have decided against that reading.
    return "--reading 2" if answer["agreement"] is not False else f"--reading {answer['readings'][0]['id']}"


def _ask(
    name: str, why: str, readings: Sequence[OtherReading], original: str, *, is_colored: bool
) -> OtherReading | None:
    """Return the reading that the user chooses; None if the user wants none of them."""
    numbered = {str(n): one for n, one in enumerate(shown_readings(readings), 1)}
    output.write_note(f"{name}: {'which of these is meant?' if readings[1:] else 'is this meant?'}")
    for reason in output.BETWEEN_REASONS.split(why):
        output.write_note(output.indented(output.visible(reason)))
    for number, one in numbered.items():
        output.write_note(f"Reading {number}{f' ({in_words(one.probability)})' if one.probability else ''}:")
        for line in short_diff(one.diff or "", original) or [one.difference or "Nothing changes."]:
            shown = output.visible(line)
            output.write_note("  " + (output.in_color(shown) if is_colored else shown))
    while True:
        print(f"Take {', '.join(numbered)}, or none (n)? ", end="", file=sys.stderr, flush=True)
        typed = sys.stdin.buffer.readline()
        said = typed.decode("ascii", "replace").strip().lower()
        if said in numbered:
            return numbered[said]
        if not typed or said in ("n", "no", "none"):
            return None
