"""Commands that only tell: help, and the models."""

import json
import re
import shlex
from pathlib import Path

import pytest

from apply_service.cli import build_parser, commands_of, main, parse
from apply_service.commands.output import MEANINGS
from apply_service.strategies import STRATEGY_VERDICTS


def test_help_names_options_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    for name, command in commands_of(build_parser()).items():
        with pytest.raises(SystemExit) as caught:
            main([name, "-h"])
        assert caught.value.code == 0
        text = capsys.readouterr().out
        assert all(meaning in text for meaning in MEANINGS.values())
        assert text.endswith("\nexamples:\n" + command.examples)
        assert command.examples.count("\n") == 3


def test_seldom_used_settings_stand_in_the_long_help(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for flag in ("--help", "--help-all"):
        with pytest.raises(SystemExit):
            main(["serve", flag])
        texts.append(capsys.readouterr().out)
    assert ["--queue-limit" in text for text in texts] == [False, True]
    assert ["--model" in text for text in texts] == [True, True]


def test_without_a_command_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert all(f"\n  {name} " in err for name in commands_of(build_parser()))


def test_examples_are_commands_that_exist(folder: Path) -> None:
    """Every option in them, too."""
    parser = build_parser()
    for name, command in commands_of(parser).items():
        for line in command.examples.splitlines():
            words = shlex.split(re.sub(r'eval "\$\((.*)\)"|>.*', r"\1", line), comments=True)
            assert words[0] == "apply-service"
            assert parse(parser, words[1:]).command in (name, "apply", "serve", "stop")


def test_help_names_every_verdict_that_is_no_check(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["apply", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert all(name in text for name in STRATEGY_VERDICTS)


def test_models_lists_the_embedded_one_without_loading_it(
    folder: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["models", "--json", "--model", "some/other"]) == 0
    listings = json.loads(capsysbinary.readouterr().out)
    assert [listing["name"] for listing in listings if listing["is_named"]] == ["some/other", "embedded"]
    assert listings[0]["is_default"] is True
    assert listings[0]["is_present"] is False
    assert main(["models"]) == 0
    assert capsysbinary.readouterr().out.startswith(b"* embedded")
