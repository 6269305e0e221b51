"""Commands that only tell: help, and the models."""

import json
from pathlib import Path

import pytest

from apply_service.cli import main
from apply_service.commands.output import MEANINGS
from apply_service.strategies import STRATEGY_VERDICTS


def test_help_names_options_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ([], ["apply"], ["serve"], ["models"], ["doctor"], ["undo"]):
        with pytest.raises(SystemExit) as caught:
            main([*command, "--help"])
        assert caught.value.code == 0
        text = capsys.readouterr().out
        assert all(meaning in text for meaning in MEANINGS.values())
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    assert "--queue-limit" in capsys.readouterr().out


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
