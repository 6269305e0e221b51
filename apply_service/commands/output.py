"""Prints answers on standard output and messages about them on standard error, and defines the exit codes of commands.

If a name does not exist, the error also asks whether a similar name is meant.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import apply_service.errors as errors
from apply_service.errors import ApplyError, FileNotWritable, shorten
from apply_service.settings import Settings, is_color_wanted
from apply_service.types import DOUBT

OK = 0
REFUSED = 1
BAD_REQUEST = 2
FILE = 3
UNAVAILABLE = 4
NEEDS_MORE_CONTEXT = 5
INTERRUPTED = 130
READER_GONE = 141

MEANINGS: Mapping[int, str] = {
    OK: "done; no check failed, and nothing is in doubt",
    REFUSED: "there is an answer, but it is in doubt, a check failed, or it was cut off; such a file was not written",
    BAD_REQUEST: "bad request, option or setting",
    FILE: "a file cannot be read or written, changed meanwhile, or has no backup; nothing was written",
    UNAVAILABLE: "model or service unavailable, overloaded or too late",
    NEEDS_MORE_CONTEXT: "the edit does not say where it belongs",
    INTERRUPTED: "interrupted",
    READER_GONE: "whoever read the output went away",
}
RED, GREEN, CYAN, BOLD, RESET = "\033[31m", "\033[32m", "\033[36m", "\033[1m", "\033[0m"
MAX_VALUE_CHARS = 300
SPIN_S = 0.3
MAX_LINE_CHARS = 100
"""A message longer than this is printed on several lines."""
BETWEEN_REASONS = re.compile(r"; (?=(?:[^`]*`[^`]*`)*[^`]*$)")
"""Matches the semicolons of a message, except those in code."""
SURE = re.compile(r"\d+% sure")
ERRNO = re.compile(r"\[Errno \d+\] ")
FIRST_LETTER = re.compile(r"^[a-z](?=[a-z]*,? )")
"""Matches the first letter of a sentence, but not of a file's name."""
LAST_WORD = re.compile(r"[\s(][a-z]+\)?$")
"""Matches the last word of a sentence, but not a value."""


def exit_code(error: ApplyError) -> int:
    """Return the exit code of an error."""
    if isinstance(error, errors.NeedsMoreContext):
        return NEEDS_MORE_CONTEXT
    if isinstance(error, errors.FileError | errors.StaleBase):
        return FILE
    if isinstance(error, errors.UnknownModel | errors.ServiceError | errors.ModelError):
        return UNAVAILABLE
    return REFUSED if isinstance(error, errors.ResultError) else BAD_REQUEST


# -- standard output and standard error --------------------------------------------------------------------------------
def write_out(data: bytes | str) -> None:
    """Write to standard output, byte for byte.  Text is written as UTF-8, with its line ends unchanged.  Raises
    BrokenPipeError if the reader went away, FileNotWritable if the output is closed or full."""
    rest = memoryview(data if isinstance(data, bytes) else data.encode("utf-8", "backslashreplace"))
    with _writing_out():
        while rest:  # without a buffer (python -u), one write may take only a part
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.buffer.flush()


def write_line(text: str) -> None:
    """Write one line to standard output."""
    write_out(text + "\n")


def write_json(value: object) -> None:
    """Write a JSON value as one line of standard output."""
    write_line(json.dumps(value, ensure_ascii=False, default=str))


def end_output() -> None:
    """Write what is still buffered, such as a page of help.  Raises what `write_out` raises."""
    if sys.stdout is not None:
        with _writing_out():
            sys.stdout.flush()


def drop_output() -> None:
    """Drop what standard output does not accept.  Otherwise the interpreter would try to write it again when it
    ends."""
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
    """Write one line to standard error; characters that standard error cannot show are escaped."""
    if sys.stderr is None:
        return
    encoding = sys.stderr.encoding or "utf-8"
    with contextlib.suppress(OSError):  # nobody reads standard error any more
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr, flush=True)


@contextlib.contextmanager
def spinning(text: str) -> Iterator[None]:
    """Show on a terminal's standard error what the program waits for and for how long, if the wait takes more than a
    moment."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    has_ended, started = threading.Event(), time.monotonic()

    def spin() -> None:
        for frame in itertools.cycle("|/-\\"):
            if has_ended.wait(SPIN_S):
                return
            # The carriage return at the end lets other lines overwrite this one.
            print(f"\r\033[K{frame} {text} ({time.monotonic() - started:.0f} s)\r", end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()
        print("\033[K", end="", file=sys.stderr, flush=True)


def print_error(error: ApplyError, *, program: str = "apply-service") -> None:
    """Print an error for people: what is wrong, the value if the message lacks it, what is allowed, and what to do."""
    message = ERRNO.sub("", error.message)
    said = f"{message} {error.remedy}".casefold()
    first, *more = BETWEEN_REASONS.split(message) if len(message) > MAX_LINE_CHARS else [message]
    first = sentence(first)
    has_value = error.value is not None and bool(str(error.value).strip())
    if has_value and any(part.casefold() not in said for part in _parts(error.value)):
        first = f"{first.rstrip('.')}: {shorten(', '.join(_parts(error.value)), MAX_VALUE_CHARS)}"
    meant = _meant_by(error)
    if meant is not None:
        more.append(f"Did you mean {meant}?")
    is_said = all(part.casefold() in said for part in _parts(error.limit))
    if error.limit not in (None, False, error.value) and not is_said and (meant is None or "one of these" in said):
        more.append(f"Allowed: {shorten(', '.join(_parts(error.limit)), MAX_VALUE_CHARS)}")
    write_note(f"{program}: {first}")
    for line in (*more, sentence(error.remedy)):
        if line:
            write_note(indented(line))


def _meant_by(error: ApplyError) -> str | None:
    """Return the allowed value that is most similar to the given value; None if no value is similar."""
    if not isinstance(error.value, str) or not isinstance(error.limit, list | tuple):
        return None

    return closest(error.value, [part for part in _parts(error.limit) if part != error.value])


def sentence(text: str) -> str:
    """Return the text with a capital letter and a full stop, except next to a name or a value."""
    text = FIRST_LETTER.sub(lambda match: match[0].upper(), text)
    return text if "\n" in text else LAST_WORD.sub(r"\g<0>.", text)


def indented(text: str) -> str:
    """Return the text indented under a first line; its further lines, which quote a file, are indented more."""
    return "  " + text.replace("\n", "\n    ")


def _parts(value: object) -> list[str]:
    """Return a value or a limit as words; each item of a list is one word."""
    return [str(one) for one in value] if isinstance(value, list | tuple) else [shorten(value, MAX_VALUE_CHARS)]


def print_failure(error: ApplyError, *, is_json: bool) -> int:
    """Print the error, also as JSON if the output is JSON, and return the exit code."""
    print_error(error)
    if is_json:
        write_json({"error": error.as_dict()})
    return exit_code(error)


# -- answers -----------------------------------------------------------------------------------------------------------
def write_diff(diff: str, settings: Settings) -> None:
    """Write a unified diff to standard output, as git shows one.  On a terminal it has colours and goes through a
    pager: $PAGER, or else less, which ends by itself if the diff fits the screen."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    if is_color_wanted(settings, is_terminal):
        diff = "".join(in_color(line) for line in diff.splitlines(keepends=True))
    pager = os.environ.get("PAGER", "less") if is_terminal and diff else ""
    if pager:
        import shlex  # imported late, because most commands do without it
        import subprocess

        from apply_service.isolation import find_program
    program, _, options = pager.strip().partition(" ")
    if not pager or (found := find_program(program)) is None:
        write_out(diff)
        return
    ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pager handles Ctrl-C
    # Without the second variable, the shell of Windows would run a `less.exe` in the current folder.
    environment = {"LESS": "FRX", **os.environ, "NoDefaultCurrentDirectoryInExePath": "1"}
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    environment["PATH"] = os.pathsep.join(filter(os.path.isabs, folders))  # for programs that the pager starts
    try:
        quoted = subprocess.list2cmdline([found]) if sys.platform == "win32" else shlex.quote(found)
        subprocess.run(f"{quoted} {options}", shell=True, input=diff.encode(), env=environment, check=False)
    finally:
        signal.signal(signal.SIGINT, ignored)


def in_color(line: str) -> str:
    """Return a line of a diff in its colour."""
    body = line.rstrip("\r\n")
    is_name = line.startswith(("diff --git ", "+++ ", "--- "))
    color = BOLD if is_name else {"+": GREEN, "-": RED, "@": CYAN}.get(line[:1])
    return f"{color}{body}{RESET}{line[len(body) :]}" if color and body else line


def visible(text: str) -> str:
    """Return the text with escapes for the characters that a terminal would obey."""
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in text)


def headline(answer: Mapping[str, Any], *, is_chosen: bool = False) -> str:
    """Return how sure the answer is and how much it changes: `93% sure, 2 hunks`.  `is_chosen`: whether the user chose
    this reading."""
    doubt = next((v["message"] for v in answer["verdicts"] if v["check"] == DOUBT and v["severity"] != "pass"), None)
    measured = [reason for reason in BETWEEN_REASONS.split(doubt or "") if SURE.fullmatch(reason)]
    sure = ("as chosen" if is_chosen else "sure") if doubt is None else measured[-1] if measured else "not sure"
    n = len(answer["hunks"])
    return f"{sure}, {n} {'hunk' if n == 1 else 'hunks'}" if n else "nothing changes"


def findings(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the checks found: failures first, and last the doubt, with a line for each reason.  The verdict that
    nothing changes is left out, because the headline says it."""
    told = () if answer.get("hunks") else (("no_op", "warning"),)
    for verdict in sorted(answer["verdicts"], key=lambda one: (one["severity"] != "error", one["check"] == DOUBT)):
        if verdict["severity"] == "pass" or (verdict["check"], verdict["severity"]) in told:
            continue
        if verdict["check"] == DOUBT:
            reasons = BETWEEN_REASONS.split(verdict["message"])
            yield from (indented(reason) for reason in reasons if not SURE.fullmatch(reason))
        else:
            yield indented(describe(verdict))


def describe(verdict: Mapping[str, Any]) -> str:
    """Return what a check found, where it found it, and the check's name, for use in an option that accepts such
    findings."""
    if verdict["check"] == DOUBT:
        return str(verdict["message"])
    place = ""
    if verdict["lines"] is not None:
        first, last = verdict["lines"]
        lines = f"line {first}" if first == last else f"lines {first}-{last}"
        place = f"{lines} of the {verdict['side']} file, "
    return f"{verdict['message']} ({place}check {verdict['check']})"


def details(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield who decided, which checks passed, and how fast the model wrote."""
    decided = f"  {answer['format']}, decided by: {answer['strategy']}"
    if answer["model"] is not None:
        decided += f" ({answer['model']})"
    if answer["agreement"] is not None:
        decided += ", as the merge predicted" if answer["agreement"] else ", against the predicted merge"
    passed = [verdict["check"] for verdict in answer["verdicts"] if verdict["severity"] == "pass"]
    yield f"{decided}; passed: {', '.join(passed) or 'no check'}"
    if answer["model"] is not None:
        usage, decode_s = answer["usage"], answer["timings_s"]["decode_s"]
        passes = "" if usage["passes"] is None else f" in {usage['passes']} passes"
        parts = [f"{usage['completion_tokens']} tokens{passes}"]
        accepted = usage["accepted_prediction_tokens"] or 0
        if drafted := accepted + (usage["rejected_prediction_tokens"] or 0):
            parts.append(f"{accepted / drafted:.1%} of drafted tokens accepted")
        if decode_s:
            parts.append(f"{usage['completion_tokens'] / decode_s:,.0f} tok/s")
        yield "  " + ", ".join(parts)


# -- what a user may have meant by a name that does not exist: used only after an error --------------------------------
LEAST_LIKE = 75.0
"""How similar two names must be, on a scale from 0 to 100."""
LEAST_CHARS = 3
"""A word with fewer characters than this occurs in too many names."""
MAX_ENTRIES = 5_000
"""At most this many names in the folders below the current one are looked at in search of a file."""
NOT_SEARCHED = frozenset({"node_modules", "__pycache__", "venv", "target", "build", "dist"})


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the only known name that contains the word, or else the most similar one; None if none is similar."""
    from rapidfuzz import fuzz, process

    known = list(known)
    longer = [name for name in known if len(word) >= LEAST_CHARS and word in name]
    if len(longer) == 1:
        return longer[0]
    found = process.extractOne(word, known, scorer=fuzz.ratio, processor=str.casefold, score_cutoff=LEAST_LIKE)
    return None if found is None else str(found[0])


def did_you_mean(name: str | None) -> str:
    """Return the question whether this name is meant; empty for None."""
    return "" if name is None else f"Did you mean {name}?"


def file_hint(path: str | Path) -> str:
    """Return a hint to the file that may be meant: a file of the same name in a folder below the current one, or a file
    with a similar path.  The hint is empty if the path exists or nothing is found."""
    path = Path(path)
    if path.exists():
        return ""
    looks = (_elsewhere, _similar) if path.parent.is_dir() else (_similar, _elsewhere)
    return did_you_mean(looks[0](path) or looks[1](path))


def _similar(path: Path) -> str | None:
    """Return the path with its first wrong part replaced by a similar name, if that path exists."""
    right = Path(path.anchor)
    for i, part in enumerate(parts := path.parts[bool(path.anchor) :]):
        if (right / part).exists():
            right /= part
            continue
        try:
            names = [entry.name for entry in os.scandir(right) if entry.is_dir() == (i < len(parts) - 1)]
        except OSError:
            return None
        name = closest(part, names)
        if name is None:
            return None
        right /= name
    return str(right) if right.is_file() else None


def _elsewhere(path: Path) -> str | None:
    """Return a file of this name in the folders below the current one, the nearest first."""
    folders, n_seen = ["."], 0
    for folder in folders:  # the loop appends the folders that it finds
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        n_seen += len(entries)
        for entry in entries:
            if entry.name == path.name and entry.is_file():
                return os.path.normpath(entry.path)
            is_searched = not entry.name.startswith(".") and entry.name not in NOT_SEARCHED
            if is_searched and entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
        if n_seen > MAX_ENTRIES:
            break
    return None
