"""Runs the command line `apply-service`: parses, calls one of `commands`, and turns errors into exit codes.

Options for settings are made from `settings`.  Commands import what they need, so that this module loads fast.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from argparse import (
    SUPPRESS,
    Action,
    ArgumentParser,
    ArgumentTypeError,
    BooleanOptionalAction,
    Namespace,
    RawDescriptionHelpFormatter,
    _ArgumentGroup,
)
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn, cast

from apply_service.commands import output
from apply_service.errors import ApplyError, FileNotReadable, InvalidField
from apply_service.isolation import has_current_folder, leave_current_folder
from apply_service.registry import CHECKS, EDIT_FORMATS
from apply_service.settings import NO_VALUE, SettingSpec, load_settings, parse_setting, renamed_variables, setting_specs

EXIT_CODES = "exit codes:\n" + "\n".join(f"  {code:>3}  {meaning}" for code, meaning in output.MEANINGS.items())
SHORT_FLAGS = {"model": "-m", "port": "-p", "server": "-s"}
"""The short options for settings; other short options are defined beside their long ones."""
USUAL = (
    *("host", "port", "keys_file", "playground", "log_level"),
    *("model", "device", "server", "api_key", "color", "state_dir"),
)
"""The settings that `--help` of a command lists; only `--help-all` lists the others."""


class Parser(ArgumentParser):
    """argparse that raises our errors instead of exiting, and takes no abbreviated options.

    A new option would change what abbreviations mean.  Also, programs that hide API keys by the name of their option
    would miss an abbreviation.
    """

    def __init__(self, *args: Any, examples: str = "", **options: Any) -> None:
        """`examples`: up to three command lines, one per line."""
        shape = {"allow_abbrev": False, "add_help": False, "formatter_class": RawDescriptionHelpFormatter}
        super().__init__(*args, **{**shape, **options})
        self.examples = examples
        self.add_argument("-h", "--help", action=PrintHelp, nargs=0, help="print this help")

    def print_help(self, file: Any = None) -> None:
        """Print the help.  Unlike argparse's own method, this does not ignore errors of writing."""
        if file is None:
            output.write_out(self.format_help())
        else:
            super().print_help(file)

    def error(self, message: str) -> NoReturn:
        raise InvalidField(f"{message}.", remedy=self.remedy)

    @property
    def remedy(self) -> str:
        return f"See {self.prog} --help."

    def remedy_for(self, word: str, known: Iterable[str]) -> str:
        """Return a question with the known word that an unknown word may stand for."""
        from apply_service.commands.output import closest, did_you_mean

        return did_you_mean(closest(word, known)) or self.remedy

    def _check_value(self, action: Action, value: Any) -> None:
        """Check the choices.  Unlike argparse's own method, this suggests a similar choice."""
        if action.choices is None or value in action.choices:
            return
        known = [str(one) for one in action.choices]
        message = f"There is no command {value}."
        if action.dest != "command":
            message = f"{(*action.option_strings, action.dest)[0]} takes {', '.join(known)}, not {value}."
        raise InvalidField(message, remedy=self.remedy_for(str(value), known))


class PrintHelp(Action):
    """Prints a command's help.  The engine's settings fill a screen, so only `--help-all` prints them."""

    def __call__(self, parser: ArgumentParser, _: object, __: object, flag: str | None = None) -> NoReturn:
        if flag != "--help-all":
            for action in parser._actions:
                if getattr(action, "is_rare", False):
                    action.help = SUPPRESS
        parser.print_help()
        raise SystemExit(0)


class PrintVersion(Action):
    def __call__(self, *_: object) -> NoReturn:
        from importlib.metadata import version  # imported late, because it takes longer than this file

        output.write_line(f"apply-service {version('apply-service')}")
        raise SystemExit(0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    # Set before numpy is imported: the NumPy engine's products are too small for threads to help.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    leave_current_folder()
    gc.set_threshold(100_000)  # imports make lasting objects; searching them would take a tenth of the start
    try:
        try:
            parser = build_parser()
            if not (sys.argv[1:] if argv is None else argv):
                output.write_note(parser.format_help().rstrip())
                return output.BAD_REQUEST
            arguments = parse(parser, argv)
            given = {spec.name: getattr(arguments, spec.name, None) for spec in setting_specs()}
            if not (getattr(arguments, "quiet", False) or getattr(arguments, "background", False)):
                for old, new in renamed_variables(os.environ).items():
                    output.write_note(f"The environment variable {old} is now called {new}.")
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
    except FileNotFoundError:
        if has_current_folder():
            raise
        remedy = "Go to another folder, or name files by their whole path."
        gone = FileNotReadable("The current folder no longer exists.", value=".", remedy=remedy)
        output.print_error(gone)
        return output.exit_code(gone)
    except BrokenPipeError:
        output.drop_output()
        return output.READER_GONE


def parse(parser: ArgumentParser, argv: Sequence[str] | None) -> Namespace:
    """Return the arguments.  Raises InvalidField, with a similar word that may have been meant."""
    arguments, rest = parser.parse_known_args(argv)
    unknown = [word.partition("=")[0] for word in rest if word.startswith("-") and word != "-"]
    command = commands_of(parser)[arguments.command]
    arguments.parser, arguments.words = parser, list(sys.argv[1:] if argv is None else argv)[1:]
    if unknown:
        known = [flag for action in command._actions for flag in action.option_strings if action.help != SUPPRESS]
        raise InvalidField(f"There is no option {unknown[0]}.", remedy=command.remedy_for(unknown[0], known))
    if arguments.command == "apply":
        if rest and arguments.snippet is None:
            arguments.snippet = rest.pop(0)  # argparse wants the names side by side; we allow options in between
        if arguments.snippet is not None and arguments.update is not None:
            message = f"Two snippets are named: {arguments.snippet} and {arguments.update}."
            raise InvalidField(message, remedy="Name only one.")
        arguments.update = arguments.update if arguments.snippet is None else arguments.snippet
    if rest:
        raise InvalidField(f"There is one word too many: {rest[0]}.", remedy=command.remedy)
    return arguments


def commands_of(parser: ArgumentParser) -> Mapping[str, Parser]:
    """Return the parsers of all commands by their names."""
    choices: Any = next(action.choices for action in parser._actions if action.dest == "command")
    return cast("Mapping[str, Parser]", choices)


def build_parser() -> ArgumentParser:
    """Return the parser of all commands."""
    parser = Parser(prog="apply-service", usage="apply-service COMMAND ...", description=TEXT)
    parser.add_argument("-V", "--version", action=PrintVersion, nargs=0, help="print the version")
    commands = parser.add_subparsers(
        prog="apply-service", dest="command", required=True, metavar="COMMAND", help=SUPPRESS
    )
    listed = ""

    def add_command(name: str, runs: str, words: str) -> Parser:
        """Add a command.  `runs`: the function in `commands` to call.  `words`: what follows the name in its usage."""
        nonlocal listed
        text, _, rest = HELP[name].partition("\n\n")
        description, _, examples = rest.rpartition("\n\n")
        usage = f"apply-service {name} {words}"
        command: Parser = commands.add_parser(name, usage=usage, help=text, description=description, examples=examples)
        command.epilog = f"{EXIT_CODES}\n\nexamples:\n{examples}"
        command.set_defaults(runs=runs)
        listed += f"  {name:<12}{text}\n"
        return command

    listed += "edit files:\n"
    command = add_command("apply", "apply.run", "[options] FILE SNIPPET")
    _add_apply_options(command)
    _add_settings(command, ("engine", "command", "backups"))

    command = add_command("undo", "undo.run", "[options] FILE")
    command.add_argument("file", metavar="FILE", help="file to bring back")
    text = "bring back all files that were written with it too, as by a --patch: where one cannot be, none is"
    command.add_argument("-a", "--all", action="store_true", help=text)
    text = "folder in which --all may change files (default: the current one); may be repeated"
    command.add_argument("--root", action="append", metavar="FOLDER", help=text)
    command.add_argument("--force", action="store_true", help="bring it back even if it is read-only")
    _add_settings(command, (), ("state_dir", "max_file_bytes"))

    command = add_command("recover", "undo.recover", "[options]")
    command.add_argument("--forget", action="store_true", help="give up on it instead and leave its files as they are")
    command.add_argument("-j", "--json", action="store_true", help="print JSON")
    _add_settings(command, (), ("state_dir",))

    listed += "\nserve others:\n"
    command = add_command("serve", "serve.run", "[options]")
    _add_settings(command, ("http", "engine"), ("state_dir",))
    command.add_argument("--background", action="store_true", help=SUPPRESS)

    command = add_command("start", "background.start", "[options]")
    _add_settings(command, ("engine",), ("port", "log_level", "playground", "state_dir"))
    command = add_command("stop", "background.stop", "[options]")
    _add_settings(command, (), ("state_dir", "drain_timeout_s"))
    command = add_command("status", "background.status", "[options]")
    command.add_argument("-j", "--json", action="store_true", help="print JSON")
    _add_settings(command, (), ("state_dir",))

    command = add_command("mcp", "mcp.run", "[options]")
    text = "folder that agents may edit files in (default: the current one); may be repeated"
    command.add_argument("--root", action="append", metavar="FOLDER", help=text)
    text = "serve streamable HTTP at this address, below /mcp, instead of stdio; callers need a key"
    command.add_argument("--listen", metavar="HOST:PORT", help=text)
    text = "offer edits under this name too, which agents know from their vendors; may be given twice"
    command.add_argument("--tool", action="append", choices=["str_replace_based_edit_tool", "apply_patch"], help=text)
    text = "who decides: auto (default), model, or exact, which never loads a model"
    command.add_argument("--strategy", choices=("auto", "model", "exact"), metavar="NAME", help=text)
    _add_settings(command, ("engine", "command", "backups"), ("keys_file", "allow_open"))

    command = add_command("connect", "connect.run", "[options] CLIENT")
    command.add_argument("client", metavar="CLIENT", help=CONNECT_CLIENTS)
    command.add_argument("--write", action="store_true", help="add it to the client's file, and show the diff")
    command.add_argument("--root", metavar="FOLDER", default=".", help="the project (default: the current folder)")
    command.add_argument("--file", metavar="FILE", help="the client's file, where it is another one")
    _add_settings(command, ("backups",), ("server", "color"))

    command = add_command("key", "key.run", "[options] NAME")
    command.add_argument("name", metavar="NAME", help="who will use it; stands in logs and limits")
    command.add_argument("--file", metavar="FILE", help="file of keys to add the entry to (setting keys_file)")
    command.add_argument("--stdin", action="store_true", help="hash the key on standard input instead of making one")
    _add_settings(command, ())

    listed += "\nthis installation:\n"
    command = add_command("models", "models.run", "[options] [list | pull NAME | rm NAME]")
    actions, text = ("list", "pull", "rm"), "list (default), pull or rm"
    command.add_argument("action", nargs="?", choices=actions, default="list", metavar="ACTION", help=text)
    command.add_argument("name", nargs="?", metavar="NAME", help="short name, Hugging Face id, or unpacked folder")
    command.add_argument("-j", "--json", action="store_true", help="print the list as JSON")
    _add_settings(command, (), ("engine", "vllm_url", "model", "models", "remote_url", "state_dir"))

    command = add_command("doctor", "doctor.run", "[options]")
    command.add_argument("-j", "--json", action="store_true", help="print JSON")
    _add_settings(command, ("engine", "backups"))

    command = add_command("engine", "engine.run", "[options] NAME --model MODEL")
    names = ("vllm", "sglang", "llama.cpp", "tensorrt-llm")
    command.add_argument("name", choices=names, metavar="NAME", help=", ".join(names))
    text = "folder, GGUF file or Hugging Face id of the model"
    command.add_argument("-m", "--model", dest="of_model", required=True, metavar="MODEL", help=text)
    text = "who drafts (default: the first in docs/engines.md)"
    command.add_argument("--drafter", dest="by_drafter", metavar="DRAFTER", help=text)
    command.add_argument("--draft", metavar="FOLDER", help="draft model or head, for drafters that need one")
    command.add_argument("--context", type=int, metavar="N", help="tokens of one sequence, for the memory")
    command.add_argument("-j", "--json", action="store_true", help="print JSON")
    _add_settings(command, ())

    command = add_command("completion", "completion.run", "SHELL")
    command.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")
    _add_settings(command, ())

    parser.epilog = f"{listed}\nEach has its own help: apply-service apply --help"
    return parser


def _add_apply_options(command: Parser) -> None:
    """Add the options of `apply`.  This function is long, because each option takes a line or two."""
    add = command.add_argument
    text = "file to edit; one that does not exist is a new file; - edits what comes through standard input"
    add("file", nargs="?", metavar="FILE", help=text)
    text = "file with the edit; - reads it from standard input; may also be written --update SNIPPET"
    add("snippet", nargs="?", metavar="SNIPPET", help=text)
    add("--update", metavar="SNIPPET", help=SUPPRESS)

    add = command.add_argument_group("what comes out").add_argument
    text = "write the file (atomically, with a backup for undo) instead of printing it; not if the answer is in doubt"
    add("-i", "--in-place", action="store_true", help=text)
    text = "accept an answer that may be wrong: write it, and exit with 0"
    add("-y", "--allow-doubt", action="store_true", help=text)
    add("--force", action="store_true", help="write, rename or delete files even if they are read-only")
    add("-d", "--diff", action="store_true", help="print what changes, as a unified diff, instead of the merged file")
    add("-j", "--json", action="store_true", help="print the whole answer as JSON")
    add("-q", "--quiet", action="store_true", help="no word on standard error where all is well (exit code 0)")
    add("-v", "--verbose", action="store_true", help="also tell who decided, what was checked, and how fast it was")

    add = command.add_argument_group("the edit").add_argument
    add("-t", "--instruction", metavar="TEXT", help="what the edit is to do, in words")
    text = f"format of the edit ({', '.join(EDIT_FORMATS)}); detected where it is left out"
    add("-f", "--format", metavar="NAME", help=text)
    text = "who decides: auto (default), model, or exact, which never loads a model"
    add("--strategy", metavar="NAME", help=text)
    text = "where FILE is -: its name, which tells the language; nothing is opened"
    add("--stdin-path", metavar="NAME", help=text)
    add("--encoding", metavar="NAME", help="encoding of FILE (default: UTF-8; where it is not, a guess)")
    add("--language", metavar="NAME", help="language of FILE, where its name does not tell")
    text = "accept or refuse what a check finds; so for fallback, doubt, instruction, reply and other_files"
    add("--on-verdict", action="append", type=_verdict_rule, metavar="CHECK=warn|fail", help=text)
    text = "of an edit in doubt, take this reading: 1 is the likeliest, 2 the next; or an id of an answer in JSON"
    add("--reading", type=_reading, metavar="N|ID", help=text)
    text = "deadline of the edit in seconds; loading a model here does not count"
    add("--timeout", type=float, metavar="S", help=text)
    add("--max-tokens", type=int, metavar="N", help="most tokens to generate; reaching it is an error")
    add("--temperature", type=float, metavar="T", help="0 is greedy (default)")
    add("--seed", type=int, metavar="N", help="seed of the sampling")

    add = command.add_argument_group("several files, and JSON").add_argument
    text = "apply one diff, patch or reply over several files; - reads it from standard input"
    add("-p", "--patch", metavar="FILE", help=text)
    text = "edit several files: JSON as POST /v1/apply/batch takes it, without the files; - is standard input"
    add("--batch", metavar="FILE", help=text)
    add("--independent", action="store_true", help="of a --patch, write the files that fit even if others do not")
    text = "folder that a --batch or --patch may change files in (default: the current one); may be repeated"
    add("--root", action="append", metavar="FOLDER", help=text)
    text = "read one JSON request, as POST /v1/apply takes it; - is standard input"
    add("--request", metavar="FILE", help=text)


def _add_settings(command: Parser, groups: Iterable[str], names: Iterable[str] = ()) -> None:
    """Add the options for the settings of these groups and names."""
    usual = command.add_argument_group("settings")
    usual.add_argument("--config", metavar="FILE", help="configuration file (TOML)")
    specs = [spec for spec in setting_specs() if spec.group in groups or spec.name in names]
    for spec in specs:
        if spec.name in USUAL:
            _add_setting(usual, spec)
    if rare := [spec for spec in specs if spec.name not in USUAL]:
        others = "the other setting" if len(rare) == 1 else f"the other {len(rare)} settings"
        usual.add_argument("--help-all", action=PrintHelp, nargs=0, help=f"also name {others}")
        group = command.add_argument_group("other settings")
        for spec in rare:
            _add_setting(group, spec).is_rare = True  # type: ignore[attr-defined]


def _add_setting(options: _ArgumentGroup, spec: SettingSpec) -> Action:
    text = f"{spec.help} ({spec.range}; default: {spec.default_text})".replace("%", "%%")
    if spec.kind is bool:
        return options.add_argument(spec.flag, action=BooleanOptionalAction, default=None, help=text)
    metavar = {int: "N", float: "S"}.get(spec.kind, "NAME")
    if spec.is_list:
        metavar = "NAME,..."
    elif spec.choices:
        metavar = "|".join(spec.choices)

    def parse(text: str) -> object:
        value = parse_setting(spec, text, source=spec.flag)
        return NO_VALUE if value is None else value

    flags = [SHORT_FLAGS[spec.name]] if spec.name in SHORT_FLAGS else []
    return options.add_argument(*flags, spec.flag, type=parse, metavar=metavar, default=None, help=text)


def _reading(text: str) -> str:
    if re.fullmatch("[1-9]|[0-9a-f]{12}", text) is None:
        raise ArgumentTypeError(f"{text!r} is neither a number from 1 to 9 nor an id of twelve hexadecimal digits")
    return text


def _verdict_rule(text: str) -> tuple[str, str]:
    check, _, action = text.partition("=")
    known = tuple(CHECKS)
    if check not in known:
        from apply_service.strategies import STRATEGY_VERDICTS  # slow to import and seldom needed

        known += tuple(STRATEGY_VERDICTS)
    if check not in known or action not in ("warn", "fail"):
        raise ArgumentTypeError(f"{text!r} is not CHECK=warn or CHECK=fail with CHECK one of {', '.join(known)}")
    return check, action


TEXT = """\
Apply code edits: original file + edit -> the whole merged file.

  apply-service apply src/app.py snippet.py            # print the merged file
  apply-service apply -i src/app.py snippet.py         # write it; undo with: apply-service undo src/app.py
  apply-service serve                                  # a page to try it in the browser, and the API"""

CONNECT_CLIENTS = "claude-code, cursor, codex, opencode, zed, continue, avante, codecompanion or aider"

HELP = {  # the line in the list of commands, what the command does, and examples
    "apply": """\
apply an edit to a file, or a patch to several

Apply the edit in SNIPPET to FILE and print the merged file, byte for byte; how sure it is, and why not surer, goes to
standard error.  The edit is what a model writes: a lazy snippet, search/replace blocks, a diff, a patch, a whole file.

As FILE, - is standard input: a filter for editors.

With --batch or --patch several files are edited: all of them, or none where one fails.

With --server the running service answers and no model is loaded here.

  apply-service apply src/app.py snippet.py -d         # show what would change
  apply-service apply src/app.py snippet.py -i         # write it, unless it is in doubt
  apply-service apply -p change.diff -i                # several files: all of them, or none
""",
    "undo": """\
take back the newest edit of a file

Bring back what FILE held before the newest `apply --in-place`; a file that the edit had created is removed.  Refused
where the file was changed since.  With --all the whole of that edit is taken back, in all of its files.

  apply-service undo src/app.py
  apply-service undo src/app.py                        # again: the edit before that one
  apply-service undo --all src/app.py                  # the whole patch that changed it
""",
    "recover": """\
roll back a batch that was killed while writing

Roll back what `apply --in-place` of several files had begun to write when it was killed, so that all of its files are
as they were.  Every command that writes files does so first.  Where a file was changed since, nothing is touched.

  apply-service recover
  apply-service recover --json
  apply-service recover --forget                       # leave the files as they are
""",
    "serve": """\
serve edits over HTTP, with a page to try them

Load the model and serve edits over HTTP, until Ctrl-C; at / is a page to try edits on, at /docs the API.

  apply-service serve
  apply-service serve -p 9000 --log-level info         # a line for each request
  apply-service serve --host 0.0.0.0 --keys-file keys.toml
""",
    "start": """\
keep a server of your own in the background, which apply asks

Start a server of your own in the background; `apply` asks it from then on and answers at once.  It listens on loopback
alone, on a free port unless --port names one, and wants a key that only you can read.  Models stay loaded.

  apply-service start
  apply-service start -m fastapply-1.5b                # asked by: apply -m fastapply-1.5b
  apply-service stop
""",
    "stop": """\
stop that server

Stop the server of `apply-service start`: what it has accepted may finish.

  apply-service stop
  apply-service stop --state-dir ~/.apply              # the one that was started so
  apply-service stop --drain-timeout-s 300             # be patient: long edits may finish
""",
    "status": """\
tell whether it runs

Tell whether the server of `apply-service start` runs, where, and where its key is; the exit code is 0 if it answers.

  apply-service status
  apply-service status --json
  apply-service status --state-dir ~/.apply
""",
    "mcp": """\
serve the tool edit_file to coding agents (MCP)

Serve MCP with one tool, edit_file: agents send the lines that change, the file is merged, checked and written, and the
answer is the diff.  Only files below the roots are touched; links and .. are followed first.

With --server the running service applies the edits and no model is loaded here.  Over HTTP callers need a key: that of
--keys-file, or one that is made for this run and printed.

  apply-service mcp                                    # over stdio, for files below the current folder
  apply-service mcp --root ~/src/project -s http://127.0.0.1:8765
  apply-service mcp --listen 127.0.0.1:8766            # over HTTP, at /mcp
""",
    "connect": """\
point a coding agent or editor here

Print the configuration that lets CLIENT edit by this service, or add it to the client's file in the project (--write):
all else there stays as it is, comments too, and `undo FILE` takes it back.  A file to which it cannot be added so is
left alone.

With --server the running service applies the edits and no model is loaded by the client.

  apply-service connect cursor
  apply-service connect claude-code --write
  apply-service connect continue -s http://127.0.0.1:8765
""",
    "key": """\
make an API key for the server

Make an API key and the entry for the file of keys, which holds its hash alone.  The key is shown once.

  apply-service key ci                                 # show the key, and the entry to put in a file
  apply-service key ci --file keys.toml
  apply-service serve --keys-file keys.toml
""",
    "models": """\
list, download or delete models

List the models that a request may name, the short names, and what was downloaded or unpacked; loads none.  `pull` shows
size and licence and downloads a model from the Hugging Face hub (stopped, it goes on); `rm` deletes its files.

  apply-service models
  apply-service models pull fastapply-1.5b
  apply-service apply src/app.py snippet.py -m fastapply-1.5b
""",
    "doctor": """\
check that it works

Check versions, device and model: load it, and pass its self-test.

  apply-service doctor
  apply-service doctor -m fastapply-1.5b
  apply-service doctor --json
""",
    "engine": """\
print how another engine serves a model with drafts

Print the line that starts another engine with a model and a drafter, and the memory that the model takes.  Nothing is
started.  Without --drafter it is the engine's first in docs/engines.md.

  apply-service engine vllm -m Qwen/Qwen2.5-Coder-7B-Instruct
  apply-service engine sglang -m models/coder --drafter eagle3 --draft models/coder-eagle3
  apply-service engine llama.cpp -m coder.gguf --json
""",
    "completion": """\
complete commands, options and files in your shell

Print the script by which your shell completes commands, options, their values and files.

  eval "$(apply-service completion bash)"              # in ~/.bashrc; so with zsh, behind compinit, in ~/.zshrc
  apply-service completion zsh > ~/.zfunc/_apply-service
  apply-service completion fish > ~/.config/fish/completions/apply-service.fish
""",
}


if __name__ == "__main__":
    sys.exit(main())
