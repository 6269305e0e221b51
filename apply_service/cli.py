"""`apply-service`: the command line.  Parses, calls one of `commands`, turns an error into an exit code.

Options that are settings are made from `settings`, so that each is explained in one place.  Nothing heavy is imported
here: what a command needs it imports itself.
"""

from __future__ import annotations

import sys
from argparse import (
    Action,
    ArgumentParser,
    ArgumentTypeError,
    BooleanOptionalAction,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

from apply_service.commands.exit_codes import INTERRUPTED, MEANINGS, READER_GONE, exit_code
from apply_service.commands.output import drop_output, end_output, print_error, write_line, write_out
from apply_service.errors import ApplyError, InvalidField
from apply_service.registry import CHECKS, EDIT_FORMATS
from apply_service.setting_specs import SettingSpec, parse_setting
from apply_service.settings import load_settings, setting_specs

EXIT_CODES = "exit codes:\n" + "\n".join(f"  {code:>3}  {meaning}" for code, meaning in MEANINGS.items())


class Parser(ArgumentParser):
    """argparse, with errors of our tree instead of an exit, and options in full alone: an abbreviation would mean
    another option once there are two, and a key behind one would escape whatever hides keys by their option."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **options})

    def print_help(self, file: Any = None) -> None:
        """argparse's own says nothing of an output that can't be written."""
        if file is None:
            write_out(self.format_help())
        else:
            super().print_help(file)

    def error(self, message: str) -> NoReturn:
        raise InvalidField(f"{message}.", remedy=f"See {self.prog} --help.")


class PrintVersion(Action):
    def __call__(self, *_: object) -> NoReturn:
        from importlib.metadata import version  # takes longer to import than the rest of this file

        write_line(f"apply-service {version('apply-service')}")
        raise SystemExit(0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    try:
        try:
            arguments = build_parser().parse_args(argv)
            return run_command(arguments)
        finally:
            end_output()
    except ApplyError as error:
        print_error(error)
        drop_output()
        return exit_code(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        drop_output()
        return READER_GONE


def run_command(arguments: Namespace) -> int:
    """Load the settings and run the command that was named."""
    given = {spec.name: getattr(arguments, spec.name, None) for spec in setting_specs()}
    settings = load_settings(given, config=arguments.config)
    code: int = import_module(f"apply_service.commands.{arguments.command}").run(arguments, settings)
    return code


def build_parser() -> ArgumentParser:
    """The parser of all commands."""
    parser = Parser(
        prog="apply-service",
        description="Apply code edits: original file + edit -> the whole merged file.",
        epilog=EXIT_CODES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=PrintVersion, nargs=0, help="print the version")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_command = partial(commands.add_parser, epilog=EXIT_CODES, formatter_class=RawDescriptionHelpFormatter)
    _add_apply(add_command)
    _add_serve(add_command)
    _add_models(add_command)
    _add_doctor(add_command)
    _add_undo(add_command)
    _add_recover(add_command)
    _add_mcp(add_command)
    _add_key(add_command)
    return parser


def _add_apply(add_command: Callable[..., ArgumentParser]) -> None:
    parser = add_command("apply", help="apply one edit to one file", description=APPLY_TEXT)
    _add_edit(parser)
    _add_several_files(parser)
    _add_decision(parser)
    _add_output(parser)
    _add_settings(parser, ("engine", "command", "backups"))


def _add_edit(parser: ArgumentParser) -> None:
    """What is edited, and how."""
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="file to edit; one that does not exist is a new file; - edits what comes through standard input",
    )
    parser.add_argument(
        "--stdin-path", metavar="NAME", help="where FILE is -: its name, which tells the language; nothing is opened"
    )
    parser.add_argument("--update", metavar="FILE", help="file with the edit; - reads it from standard input")
    parser.add_argument("--instruction", metavar="TEXT", help="what the edit is to do, in words")
    parser.add_argument(
        "--request", metavar="FILE", help="read one JSON request, as POST /v1/apply takes it; - is standard input"
    )


def _add_several_files(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--batch",
        metavar="FILE",
        help="edit several files: JSON as POST /v1/apply/batch takes it, without the files; - is standard input",
    )
    parser.add_argument(
        "--patch",
        metavar="FILE",
        help="apply one diff, patch or reply over several files; - reads it from standard input",
    )
    parser.add_argument(
        "--independent", action="store_true", help="of a --patch, write the files that fit even if others do not"
    )
    parser.add_argument(
        "--root",
        action="append",
        metavar="FOLDER",
        help="folder that a --batch or --patch may change files in (default: the current one); may be repeated",
    )


def _add_decision(parser: ArgumentParser) -> None:
    """How the edit is read and who decides."""
    parser.add_argument(
        "--format",
        metavar="NAME",
        help=f"format of the edit ({', '.join(EDIT_FORMATS)}); detected where it is left out",
    )
    parser.add_argument("--strategy", metavar="auto|model|exact", help="who decides; exact never loads a model")
    parser.add_argument("--encoding", metavar="NAME", help="encoding of FILE (default: utf-8)")
    parser.add_argument("--language", metavar="NAME", help="language of FILE, where its name does not tell")
    parser.add_argument("--temperature", type=float, metavar="T", help="0 is greedy (default)")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the sampling")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="most tokens to generate; reaching it is an error")
    parser.add_argument(
        "--timeout",
        type=float,
        metavar="S",
        help="deadline of the edit in seconds; loading a model here does not count",
    )
    parser.add_argument(
        "--on-verdict",
        action="append",
        type=_verdict_rule,
        metavar="CHECK=warn|fail",
        help="accept or refuse what a check finds; so for fallback, doubt, instruction, replay, reply and other_files",
    )


def _add_output(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--in-place", action="store_true", help="write the file (atomically, with a backup) instead of printing it"
    )
    parser.add_argument(
        "--allow-doubt", action="store_true", help="with --in-place: write an answer that may be wrong (verdict doubt)"
    )
    parser.add_argument("--diff", action="store_true", help="print a unified diff instead of the merged file")
    parser.add_argument("--json", action="store_true", help="print the whole answer as JSON")
    parser.add_argument("--quiet", "-q", action="store_true", help="no summary on standard error")


def _add_serve(add_command: Callable[..., ArgumentParser]) -> None:
    parser = add_command("serve", help="serve edits over HTTP", description="Load the model and serve edits over HTTP.")
    _add_settings(parser, ("http", "engine"))


def _add_models(add_command: Callable[..., ArgumentParser]) -> None:
    parser = add_command(
        "models", help="list the models that a request may name", description="List models; loads none."
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    _add_settings(parser, (), ("engine", "vllm_url", "model", "models", "remote_url"))


def _add_doctor(add_command: Callable[..., ArgumentParser]) -> None:
    parser = add_command("doctor", help="check this installation", description="Versions, device, model, self-test.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    _add_settings(parser, ("engine", "backups"))


def _add_undo(add_command: Callable[..., ArgumentParser]) -> None:
    parser = add_command("undo", help="take back the newest --in-place edit of a file", description=UNDO_TEXT)
    parser.add_argument("file", metavar="FILE", help="file to bring back")
    _add_settings(parser, (), ("state_dir",))


def _add_recover(add_command: Callable[..., ArgumentParser]) -> None:
    parser = add_command("recover", help="roll back a batch that was killed while writing", description=RECOVER_TEXT)
    parser.add_argument("--forget", action="store_true", help="give up on it instead and leave its files as they are")
    parser.add_argument("--json", action="store_true", help="print JSON")
    _add_settings(parser, (), ("state_dir",))


def _add_mcp(add_command: Callable[..., ArgumentParser]) -> None:
    parser = add_command("mcp", help="serve the tool edit_file to coding agents (MCP)", description=MCP_TEXT)
    parser.add_argument(
        "--root",
        action="append",
        metavar="FOLDER",
        help="folder that agents may edit files in (default: the current one); may be repeated",
    )
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="serve streamable HTTP at this address, below /mcp, instead of stdio"
    )
    parser.add_argument(
        "--strategy", choices=("auto", "model", "exact"), help="who decides; exact never loads a model (default: auto)"
    )
    _add_settings(parser, ("engine", "command", "backups"), ("keys_file", "allow_open"))


def _add_key(add_command: Callable[..., ArgumentParser]) -> None:
    parser = add_command("key", help="make an API key for the server", description=KEY_TEXT)
    parser.add_argument("name", metavar="NAME", help="who will use it; stands in logs and limits")
    parser.add_argument("--file", metavar="FILE", help="file of keys to add the entry to (setting keys_file)")
    parser.add_argument("--stdin", action="store_true", help="hash the key on standard input instead of making one")
    _add_settings(parser, ())


# -- options made from settings ----------------------------------------------------------------------------------------
def _add_settings(parser: ArgumentParser, groups: Iterable[str], names: Iterable[str] = ()) -> None:
    """Options for the settings of these groups, and for these."""
    options = parser.add_argument_group("settings")
    options.add_argument("--config", metavar="FILE", help="configuration file (TOML)")
    for spec in setting_specs():
        if spec.group in groups or spec.name in names:
            _add_setting(options.add_argument, spec)


def _add_setting(add_option: Callable[..., object], spec: SettingSpec) -> None:
    text = f"{spec.help} ({spec.range}; default: {spec.default_text})".replace("%", "%%")
    if spec.kind is bool:
        add_option(spec.flag, action=BooleanOptionalAction, default=None, help=text)
        return
    metavar = ("" if spec.is_list else "|".join(spec.choices)) or {int: "N", float: "S"}.get(
        spec.kind, "NAME,..." if spec.is_list else "NAME"
    )
    add_option(spec.flag, type=partial(_parse, spec), metavar=metavar, default=None, help=text)


def _parse(spec: SettingSpec, text: str) -> object:
    return parse_setting(spec, text, source=spec.flag)


def _verdict_rule(text: str) -> tuple[str, str]:
    check, _, action = text.partition("=")
    known = CHECKS if check in CHECKS else _verdict_names()
    if check not in known or action not in ("warn", "fail"):
        raise ArgumentTypeError(f"{text!r} is not CHECK=warn or CHECK=fail with CHECK one of {', '.join(known)}")
    return check, action


def _verdict_names() -> tuple[str, ...]:
    from apply_service.strategies import STRATEGY_VERDICTS  # costs more than most commands do; seldom needed

    return (*CHECKS, *STRATEGY_VERDICTS)


APPLY_TEXT = """\
Apply one edit to FILE and print the merged file, byte for byte; a summary of who decided and what the checks found
goes to standard error.  The edit is a lazy snippet, search/replace blocks, a diff, a patch or a whole file.

As FILE, - is standard input: a filter for editors.

With --batch or --patch several files are edited: all of them, or none where one fails.

With --server the running service answers and no model is loaded here."""

UNDO_TEXT = """\
Bring back what FILE held before the newest `apply --in-place`; a file that the edit had created is removed.  Refused
where the file was changed since."""

KEY_TEXT = """\
Make an API key and the entry for the file of keys, which holds its hash alone.  The key is shown once."""

RECOVER_TEXT = """\
Roll back what `apply --in-place` of several files had begun to write when it was killed, so that all of its files are
as they were.  Every command that writes files does so first.  Where a file was changed since, nothing is touched."""

MCP_TEXT = """\
Serve MCP with one tool, edit_file: agents send the lines that change, the file is merged, checked and written, and the
answer is the diff.  Only files below the roots are touched; links and .. are followed first.

With --server the running service applies the edits and no model is loaded here."""


if __name__ == "__main__":
    sys.exit(main())
