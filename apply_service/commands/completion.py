"""`apply-service completion SHELL`: the script by which a shell completes commands, options, their values and files."""

from __future__ import annotations

from argparse import Action, Namespace

from apply_service.commands.output import OK, write_line
from apply_service.settings import Settings, setting_specs

FILES = ("FILE", "SNIPPET")


def run(arguments: Namespace, _: Settings) -> int:
    """Run the command; the exit code."""
    import shtab

    choices = {spec.flag: spec.choices for spec in setting_specs() if spec.choices}
    commands = next(action for action in arguments.parser._actions if action.dest == "command")
    commands.help = "command"  # what the help lists in its own way, the library takes for hidden
    for listed in commands._choices_actions:
        commands.choices[listed.dest].description = listed.help
    for command in commands.choices.values():
        for action in command._actions:
            if action.metavar in FILES:
                _complete(action, shtab.FILE)
            elif action.metavar == "FOLDER" or action.dest == "state_dir":
                _complete(action, shtab.DIRECTORY)
            for flag in action.option_strings:
                action.choices = action.choices or choices.get(flag)
    write_line(shtab.complete(arguments.parser, shell=arguments.shell))
    return OK


def _complete(action: Action, files: dict[str, str]) -> None:
    action.complete = files  # type: ignore[attr-defined]  # where the library looks for it
