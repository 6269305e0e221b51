"""What commands print: answers on standard output, everything about them on standard error."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from apply_service.commands.exit_codes import exit_code
from apply_service.errors import ApplyError, FileNotWritable, shorten

RED, GREEN, CYAN, BOLD, RESET = "\033[31m", "\033[32m", "\033[36m", "\033[1m", "\033[0m"
MAX_VALUE_CHARS = 300


def write_out(data: bytes | str) -> None:
    """To standard output, byte for byte: text as UTF-8, without the platform's line ends.

    Raises:
        BrokenPipeError: its reader went away.
        FileNotWritable: it is closed, or full.
    """
    rest = memoryview(data if isinstance(data, bytes) else data.encode("utf-8", "backslashreplace"))
    with _writing_out():
        while rest:  # unbuffered (python -u), a write may take only a part
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.buffer.flush()


def end_output() -> None:
    """Write what is buffered, such as a page of help.  Raises as `write_out`."""
    if sys.stdout is not None:
        with _writing_out():
            sys.stdout.flush()


def drop_output() -> None:
    """Let what standard output still does not take be lost: the interpreter would try again on its way out."""
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
        raise FileNotWritable(
            f"Standard output cannot be written: {error.strerror or error}.",
            value="standard output",
            remedy="Make room, or send the output elsewhere.",
        ) from error


def write_line(text: str) -> None:
    """One line to standard output."""
    write_out(text + "\n")


def write_note(text: str) -> None:
    """One line to standard error; what it cannot show is escaped."""
    if sys.stderr is None:
        return
    encoding = sys.stderr.encoding or "utf-8"
    with contextlib.suppress(OSError):  # nobody is left to tell
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
        write_line(json.dumps({"error": error.as_dict()}, default=str))
    return exit_code(error)


def quoted(path: object) -> str:
    """A path as an argument of a command in the shell."""
    text = str(path)
    text = f"./{text}" if text.startswith("-") else text
    return subprocess.list2cmdline([text]) if os.name == "nt" else shlex.quote(text)


def color_diff(diff: str) -> str:
    """A unified diff with terminal colours."""
    return "".join(_color_line(line) for line in diff.splitlines(keepends=True))


def _color_line(line: str) -> str:
    body = line.rstrip("\r\n")
    color = _line_color(body)
    return f"{color}{body}{RESET}{line[len(body) :]}" if color else line


def _line_color(line: str) -> str:
    if line.startswith(("+++ ", "--- ")):
        return BOLD
    return {"+": GREEN, "-": RED, "@": CYAN}.get(line[:1], "")


def summary_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """The native answer in a few lines: who decided, what the checks found, how fast it was."""
    yield f"{_decided(answer)}; {_checked(answer['verdicts'])}"
    for verdict in answer["verdicts"]:
        if verdict["severity"] != "pass":
            yield f"  {verdict['severity']}: {verdict['check']}: {verdict['message']}{_place(verdict)}"
    if answer["model"] is not None:
        yield _speed(answer)


def _decided(answer: Mapping[str, Any]) -> str:
    who = answer["strategy"] if answer["model"] is None else f"{answer['strategy']} ({answer['model']})"
    agreement = {None: "", True: ", as the merge predicted", False: ", against the predicted merge"}[
        answer["agreement"]
    ]
    return f"{answer['format']}: {who}{agreement}"


def _checked(verdicts: list[Mapping[str, Any]]) -> str:
    n_by = {severity: sum(v["severity"] == severity for v in verdicts) for severity in ("error", "warning", "pass")}
    parts = [_count(n_by[severity], severity) for severity in ("error", "warning") if n_by[severity]]
    return ", ".join([*parts, _count(n_by["pass"], "check") + " passed"])


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _place(verdict: Mapping[str, Any]) -> str:
    if verdict["lines"] is None:
        return ""
    first, last = verdict["lines"]
    lines = f"line {first}" if first == last else f"lines {first}-{last}"
    return f" ({lines} of the {verdict['side']} file)"


def _speed(answer: Mapping[str, Any]) -> str:
    usage, decode_s = answer["usage"], answer["timings_s"]["decode_s"]
    drafted = (usage["accepted_prediction_tokens"] or 0) + (usage["rejected_prediction_tokens"] or 0)
    passes = "" if usage["passes"] is None else f" in {usage['passes']} passes"
    parts = [f"{usage['completion_tokens']} tokens{passes}"]
    if drafted:
        parts.append(f"{usage['accepted_prediction_tokens'] / drafted:.1%} of drafted tokens accepted")
    if decode_s:
        parts.append(f"{usage['completion_tokens'] / decode_s:,.0f} tok/s")
    return ", ".join(parts)
