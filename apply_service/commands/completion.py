"""Runs `apply-service completion SHELL`: prints the script that completes commands, options, values and files."""

from __future__ import annotations

from argparse import Action, Namespace

from apply_service.commands.output import OK, write_line
from apply_service.settings import Settings, setting_specs

FILES = ("FILE", "SNIPPET")


def run(arguments: Namespace, _: Settings) -> int:
    """Run the command and return the exit code."""
    import shtab

    choices = {spec.flag: spec.choices for spec in setting_specs() if spec.choices}
    commands = next(action for action in arguments.parser._actions if action.dest == "command")
    commands.help = "command"  # the help lists the commands in its own way; shtab would take them for hidden
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
    action.complete = files  # type: ignore[attr-defined]  # shtab looks for this attribute
