"""How commands end and what they print: answers on standard output, everything about them on standard error."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import apply_service.errors as errors
from apply_service.errors import ApplyError, FileNotWritable, shorten
from apply_service.settings import Settings, is_color_wanted

OK = 0
REFUSED = 1
BAD_REQUEST = 2
FILE = 3
UNAVAILABLE = 4
NEEDS_MORE_CONTEXT = 5
INTERRUPTED = 130
READER_GONE = 141

MEANINGS: Mapping[int, str] = {
    OK: "done; every check passed or only warned",
    REFUSED: "there is an answer, but a check failed, or it was cut off; what failed was not written",
    BAD_REQUEST: "bad request, option or setting",
    FILE: "a file cannot be read or written, changed meanwhile, or has no backup; nothing was written",
    UNAVAILABLE: "model or service unavailable, overloaded or too late",
    NEEDS_MORE_CONTEXT: "the edit does not say where it belongs",
    INTERRUPTED: "interrupted",
    READER_GONE: "whoever read the output went away",
}
RED, GREEN, CYAN, BOLD, RESET = "\033[31m", "\033[32m", "\033[36m", "\033[1m", "\033[0m"
MAX_VALUE_CHARS = 300


def exit_code(error: ApplyError) -> int:
    """The exit code of an error."""
    if isinstance(error, errors.NeedsMoreContext):
        return NEEDS_MORE_CONTEXT
    if isinstance(error, errors.FileError | errors.StaleBase):
        return FILE
    if isinstance(error, errors.UnknownModel | errors.ServiceError | errors.ModelError):
        return UNAVAILABLE
    return REFUSED if isinstance(error, errors.ResultError) else BAD_REQUEST


# -- standard output and standard error --------------------------------------------------------------------------------
def write_out(data: bytes | str) -> None:
    """To standard output, byte for byte: text as UTF-8, without the platform's line ends.  Raises BrokenPipeError: its
    reader went away; FileNotWritable: it is closed, or full."""
    rest = memoryview(data if isinstance(data, bytes) else data.encode("utf-8", "backslashreplace"))
    with _writing_out():
        while rest:  # unbuffered (python -u), a write may take only a part
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.buffer.flush()


def write_line(text: str) -> None:
    """One line to standard output."""
    write_out(text + "\n")


def write_json(value: object) -> None:
    """A JSON value as one line of standard output."""
    write_line(json.dumps(value, ensure_ascii=False, default=str))


def end_output() -> None:
    """Write what is buffered, such as a page of help.  Raises as `write_out`."""
    if sys.stdout is not None:
        with _writing_out():
            sys.stdout.flush()


def drop_output() -> None:
    """Lose what standard output does not take: the interpreter would try again on its way out."""
    try:
        end_output()
    except (FileNotWritable, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def _writing_out() -> Iterator[None]:
    try:
        if sys.stdout is None:
            raise OSError("it is closed")
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        message = f"Standard output cannot be written: {error.strerror or error}."
        remedy = "Make room, or send the output elsewhere."
        raise FileNotWritable(message, value="standard output", remedy=remedy) from error


def write_note(text: str) -> None:
    """One line to standard error; what it cannot show is escaped."""
    if sys.stderr is None:
        return
    encoding = sys.stderr.encoding or "utf-8"
    with contextlib.suppress(OSError):  # nobody reads it any more
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr, flush=True)


def print_error(error: ApplyError, *, program: str = "apply-service") -> None:
    """An error for people: what, the offending value, what is allowed, what to do."""
    write_note(f"{program}: error: {error.message} [{error.code}]")
    for name in ("value", "limit"):
        if (value := getattr(error, name)) is not None:
            write_note(f"  {name}: {shorten(value, MAX_VALUE_CHARS)}")
    if error.remedy:
        write_note(f"  remedy: {error.remedy}")


def print_failure(error: ApplyError, *, is_json: bool) -> int:
    """The error, as JSON too where that is what the output is; the exit code."""
    print_error(error)
    if is_json:
        write_json({"error": error.as_dict()})
    return exit_code(error)


# -- answers -----------------------------------------------------------------------------------------------------------
def write_diff(diff: str, settings: Settings) -> None:
    """A unified diff to standard output, in terminal colours where they are wanted."""
    if not is_color_wanted(settings, sys.stdout.isatty()):
        write_out(diff)
        return
    colored = []
    for line in diff.splitlines(keepends=True):
        body = line.rstrip("\r\n")
        is_name = line.startswith(("+++ ", "--- "))
        color = BOLD if is_name else {"+": GREEN, "-": RED, "@": CYAN}.get(line[:1])
        colored.append(f"{color}{body}{RESET}{line[len(body) :]}" if color and body else line)
    write_out("".join(colored))


def summary_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """The native answer in a few lines: who decided, what the checks found, how fast it was."""
    verdicts = answer["verdicts"]
    decided = f"{answer['format']}: {answer['strategy']}"
    if answer["model"] is not None:
        decided += f" ({answer['model']})"
    if answer["agreement"] is not None:
        decided += ", as the merge predicted" if answer["agreement"] else ", against the predicted merge"
    n_by = {severity: sum(v["severity"] == severity for v in verdicts) for severity in ("error", "warning", "pass")}
    found = [_count(n_by[severity], severity) for severity in ("error", "warning") if n_by[severity]]
    yield f"{decided}; {', '.join([*found, _count(n_by['pass'], 'check') + ' passed'])}"
    for verdict in verdicts:
        if verdict["severity"] == "pass":
            continue
        place = ""
        if verdict["lines"] is not None:
            first, last = verdict["lines"]
            lines = f"line {first}" if first == last else f"lines {first}-{last}"
            place = f" ({lines} of the {verdict['side']} file)"
        yield f"  {verdict['severity']}: {verdict['check']}: {verdict['message']}{place}"
    if answer["model"] is not None:
        usage, decode_s = answer["usage"], answer["timings_s"]["decode_s"]
        passes = "" if usage["passes"] is None else f" in {usage['passes']} passes"
        parts = [f"{usage['completion_tokens']} tokens{passes}"]
        accepted = usage["accepted_prediction_tokens"] or 0
        if drafted := accepted + (usage["rejected_prediction_tokens"] or 0):
            parts.append(f"{accepted / drafted:.1%} of drafted tokens accepted")
        if decode_s:
            parts.append(f"{usage['completion_tokens'] / decode_s:,.0f} tok/s")
        yield ", ".join(parts)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
