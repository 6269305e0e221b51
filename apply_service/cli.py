"""`apply-service`: the command line.  It parses, calls one of `commands`, and turns errors into exit codes.

Options for settings are made from `settings`.  Commands import what they need, so that this module stays light.
"""

from __future__ import annotations

import gc
import os
import sys
from argparse import (
    Action,
    ArgumentParser,
    ArgumentTypeError,
    BooleanOptionalAction,
    RawDescriptionHelpFormatter,
)
from collections.abc import Iterable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

from apply_service.commands import output
from apply_service.errors import ApplyError, InvalidField
from apply_service.registry import CHECKS, EDIT_FORMATS
from apply_service.settings import load_settings, parse_setting, setting_specs

EXIT_CODES = "exit codes:\n" + "\n".join(f"  {code:>3}  {meaning}" for code, meaning in output.MEANINGS.items())


class Parser(ArgumentParser):
    """argparse, with our errors instead of an exit, and without abbreviated options: a new option would change their
    meaning, and what hides API keys by the name of their option would miss them."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **options})

    def print_help(self, file: Any = None) -> None:
        """argparse's own ignores errors of writing."""
        if file is None:
            output.write_out(self.format_help())
        else:
            super().print_help(file)

    def error(self, message: str) -> NoReturn:
        raise InvalidField(f"{message}.", remedy=f"See {self.prog} --help.")


class PrintVersion(Action):
    def __call__(self, *_: object) -> NoReturn:
        from importlib.metadata import version  # takes longer to import than the rest of this file

        output.write_line(f"apply-service {version('apply-service')}")
        raise SystemExit(0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    # Before numpy is imported: the NumPy engine's products are too small to share, and waiting threads only take time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(100_000)  # imports make objects that stay: looking for garbage among them takes a tenth of a start
    try:
        try:
            arguments = build_parser().parse_args(argv)
            given = {spec.name: getattr(arguments, spec.name, None) for spec in setting_specs()}
            settings = load_settings(given, config=arguments.config)
            module, _, function = arguments.runs.partition(".")
            code: int = getattr(import_module(f"apply_service.commands.{module}"), function)(arguments, settings)
            return code
        finally:
            output.end_output()
    except ApplyError as error:
        output.print_error(error)
        output.drop_output()
        return output.exit_code(error)
    except KeyboardInterrupt:
        return output.INTERRUPTED
    except BrokenPipeError:
        output.drop_output()
        return output.READER_GONE


def build_parser() -> ArgumentParser:
    """The parser of all commands.  It sets `runs` to the function in `commands` to call."""
    shape: dict[str, Any] = {"epilog": EXIT_CODES, "formatter_class": RawDescriptionHelpFormatter}
    text = "Apply code edits: original file + edit -> the whole merged file."
    parser = Parser(prog="apply-service", description=text, **shape)
    parser.add_argument("--version", action=PrintVersion, nargs=0, help="print the version")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add_command(name: str, runs: str, text: str, description: str) -> ArgumentParser:
        command = commands.add_parser(name, help=text, description=description, **shape)
        command.set_defaults(runs=runs)
        return command

    command = add_command("apply", "apply.run", "apply one edit to one file", APPLY_TEXT)
    _add_apply_options(command)
    _add_settings(command, ("engine", "command", "backups"))

    command = add_command("serve", "serve.run", "serve edits over HTTP", "Load the model and serve edits over HTTP.")
    _add_settings(command, ("http", "engine"))

    text = "list, download or delete models"
    command = add_command("models", "models.run", text, MODELS_TEXT)
    command.add_argument("action", nargs="?", choices=("list", "pull", "rm"), default="list", help="default: list")
    command.add_argument("name", nargs="?", metavar="NAME", help="short name, Hugging Face id, or unpacked folder")
    command.add_argument("--json", action="store_true", help="print the list as JSON")
    _add_settings(command, (), ("engine", "vllm_url", "model", "models", "remote_url", "state_dir"))

    command = add_command("doctor", "doctor.run", "check this installation", "Versions, device, model, self-test.")
    command.add_argument("--json", action="store_true", help="print JSON")
    _add_settings(command, ("engine", "backups"))

    command = add_command("undo", "undo.run", "take back the newest --in-place edit of a file", UNDO_TEXT)
    command.add_argument("file", metavar="FILE", help="file to bring back")
    _add_settings(command, (), ("state_dir",))

    command = add_command("recover", "undo.recover", "roll back a batch that was killed while writing", RECOVER_TEXT)
    command.add_argument("--forget", action="store_true", help="give up on it instead and leave its files as they are")
    command.add_argument("--json", action="store_true", help="print JSON")
    _add_settings(command, (), ("state_dir",))

    command = add_command("mcp", "mcp.run", "serve the tool edit_file to coding agents (MCP)", MCP_TEXT)
    text = "folder that agents may edit files in (default: the current one); may be repeated"
    command.add_argument("--root", action="append", metavar="FOLDER", help=text)
    text = "serve streamable HTTP at this address, below /mcp, instead of stdio"
    command.add_argument("--listen", metavar="HOST:PORT", help=text)
    text = "who decides; exact never loads a model (default: auto)"
    command.add_argument("--strategy", choices=("auto", "model", "exact"), help=text)
    _add_settings(command, ("engine", "command", "mcp", "backups"), ("keys_file", "allow_open"))

    command = add_command("connect", "connect.run", "point a coding agent or editor here", CONNECT_TEXT)
    command.add_argument("client", metavar="CLIENT", help=CONNECT_CLIENTS)
    command.add_argument("--write", action="store_true", help="add it to the client's file, and show the diff")
    command.add_argument("--root", metavar="FOLDER", default=".", help="the project (default: the current folder)")
    command.add_argument("--file", metavar="FILE", help="the client's file, where it is another one")
    _add_settings(command, ("backups",), ("server", "color"))

    command = add_command("key", "key.run", "make an API key for the server", KEY_TEXT)
    command.add_argument("name", metavar="NAME", help="who will use it; stands in logs and limits")
    command.add_argument("--file", metavar="FILE", help="file of keys to add the entry to (setting keys_file)")
    command.add_argument("--stdin", action="store_true", help="hash the key on standard input instead of making one")
    _add_settings(command, ())
    return parser


def _add_apply_options(command: ArgumentParser) -> None:
    """The options of `apply`.  Long, because each option takes a line or two."""
    add = command.add_argument
    text = "file to edit; one that does not exist is a new file; - edits what comes through standard input"
    add("file", nargs="?", metavar="FILE", help=text)
    text = "where FILE is -: its name, which tells the language; nothing is opened"
    add("--stdin-path", metavar="NAME", help=text)
    add("--update", metavar="FILE", help="file with the edit; - reads it from standard input")
    add("--instruction", metavar="TEXT", help="what the edit is to do, in words")
    text = "read one JSON request, as POST /v1/apply takes it; - is standard input"
    add("--request", metavar="FILE", help=text)
    text = "edit several files: JSON as POST /v1/apply/batch takes it, without the files; - is standard input"
    add("--batch", metavar="FILE", help=text)
    text = "apply one diff, patch or reply over several files; - reads it from standard input"
    add("--patch", metavar="FILE", help=text)
    add("--independent", action="store_true", help="of a --patch, write the files that fit even if others do not")
    text = "folder that a --batch or --patch may change files in (default: the current one); may be repeated"
    add("--root", action="append", metavar="FOLDER", help=text)

    text = f"format of the edit ({', '.join(EDIT_FORMATS)}); detected where it is left out"
    add("--format", metavar="NAME", help=text)
    add("--strategy", metavar="auto|model|exact", help="who decides; exact never loads a model")
    add("--encoding", metavar="NAME", help="encoding of FILE (default: utf-8)")
    add("--language", metavar="NAME", help="language of FILE, where its name does not tell")
    add("--temperature", type=float, metavar="T", help="0 is greedy (default)")
    add("--seed", type=int, metavar="N", help="seed of the sampling")
    add("--max-tokens", type=int, metavar="N", help="most tokens to generate; reaching it is an error")
    text = "deadline of the edit in seconds; loading a model here does not count"
    add("--timeout", type=float, metavar="S", help=text)
    text = "accept or refuse what a check finds; so for fallback, doubt, instruction, reply and other_files"
    add("--on-verdict", action="append", type=_verdict_rule, metavar="CHECK=warn|fail", help=text)

    text = "write the file (atomically, with a backup) instead of printing it"
    add("--in-place", action="store_true", help=text)
    text = "with --in-place: write an answer that may be wrong (verdict doubt)"
    add("--allow-doubt", action="store_true", help=text)
    add("--diff", action="store_true", help="print a unified diff instead of the merged file")
    add("--json", action="store_true", help="print the whole answer as JSON")
    add("--quiet", "-q", action="store_true", help="no summary on standard error")


def _add_settings(command: ArgumentParser, groups: Iterable[str], names: Iterable[str] = ()) -> None:
    """Options for the settings of these groups, and for those of these names."""
    options = command.add_argument_group("settings")
    options.add_argument("--config", metavar="FILE", help="configuration file (TOML)")
    for spec in setting_specs():
        if spec.group not in groups and spec.name not in names:
            continue
        text = f"{spec.help} ({spec.range}; default: {spec.default_text})".replace("%", "%%")
        if spec.kind is bool:
            options.add_argument(spec.flag, action=BooleanOptionalAction, default=None, help=text)
            continue
        metavar = {int: "N", float: "S"}.get(spec.kind, "NAME")
        if spec.is_list:
            metavar = "NAME,..."
        elif spec.choices:
            metavar = "|".join(spec.choices)
        parse = partial(parse_setting, spec, source=spec.flag)
        options.add_argument(spec.flag, type=parse, metavar=metavar, default=None, help=text)


def _verdict_rule(text: str) -> tuple[str, str]:
    check, _, action = text.partition("=")
    known = tuple(CHECKS)
    if check not in known:
        from apply_service.strategies import STRATEGY_VERDICTS  # costs more than most commands do; seldom needed

        known += tuple(STRATEGY_VERDICTS)
    if check not in known or action not in ("warn", "fail"):
        raise ArgumentTypeError(f"{text!r} is not CHECK=warn or CHECK=fail with CHECK one of {', '.join(known)}")
    return check, action


APPLY_TEXT = """\
Apply one edit to FILE and print the merged file, byte for byte; a summary of who decided and what the checks found
goes to standard error.  The edit is a lazy snippet, search/replace blocks, a diff, a patch or a whole file.

As FILE, - is standard input: a filter for editors.

With --batch or --patch several files are edited: all of them, or none where one fails.

With --server the running service answers and no model is loaded here."""

UNDO_TEXT = """\
Bring back what FILE held before the newest `apply --in-place`; a file that the edit had created is removed.  Refused
where the file was changed since."""

CONNECT_TEXT = """\
Print the configuration that lets CLIENT edit by this service, or add it to the client's file in the project (--write):
all else there stays as it is, comments too, and `undo FILE` takes it back.  A file to which it cannot be added so is
left alone.

With --server the running service applies the edits and no model is loaded by the client."""

CONNECT_CLIENTS = "claude-code, cursor, codex, opencode, zed, continue, avante, codecompanion or aider"

KEY_TEXT = """\
Make an API key and the entry for the file of keys, which holds its hash alone.  The key is shown once."""

RECOVER_TEXT = """\
Roll back what `apply --in-place` of several files had begun to write when it was killed, so that all of its files are
as they were.  Every command that writes files does so first.  Where a file was changed since, nothing is touched."""

MODELS_TEXT = """\
List the models that a request may name, the short names, and what was downloaded or unpacked; loads none.  `pull` shows
size and licence and downloads a model from the Hugging Face hub (stopped, it goes on); `rm` deletes its files."""

MCP_TEXT = """\
Serve MCP with one tool, edit_file: agents send the lines that change, the file is merged, checked and written, and the
answer is the diff.  Only files below the roots are touched; links and .. are followed first.

With --server the running service applies the edits and no model is loaded here."""


if __name__ == "__main__":
    sys.exit(main())
