"""Options that could have no effect beside others are refused by name, before anything is read or asked."""

import sys

import pytest

from apply_service.cli import main
from apply_service.settings import setting_specs
from tests.commands.conftest import Stdin, last_code

NOWHERE = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    "options",
    [
        ("FILE", "a.py"),
        *(("--update", "edit.txt"), ("--instruction", "do"), ("--in-place",), ("--diff",), ("--encoding", "utf-8")),
        *(("--format", "lazy_snippet"), ("--language", "python"), ("--strategy", "auto"), ("--drafter", "none")),
        *(("--temperature", "0"), ("--seed", "0"), ("--max-tokens", "9"), ("--timeout", "7")),
        ("--on-verdict", "syntax=fail"),
    ],
    ids=lambda options: options[0],
)
@pytest.mark.parametrize("way", [(), ("--server", NOWHERE)], ids=["here", "server"])
def test_a_json_request_takes_no_option_that_shapes_the_request(
    folder: object, options: tuple[str, ...], way: tuple[str, ...], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    given = options[1:] if options[0] == "FILE" else options
    assert main(["apply", "--request", "-", *given, *way]) == 2
    out, err = capsysbinary.readouterr()
    assert last_code() == "unsupported_parameter"
    assert f": {options[0].replace('--update', 'SNIPPET')} would have no effect".encode() in err
    assert out == b""


def of_the_engine() -> list[str]:
    """Every setting of an engine as an option, with a value that it may have; left out is what a request names itself,
    and the URL that is refused without its engine anyway."""
    others = ("model", "drafter", "vllm_url", "adapter", "draft_head")  # the last three need what they go with
    specs = [spec for spec in setting_specs() if spec.group == "engine" and spec.name not in others]
    values = {spec.flag: spec.choices[0] if spec.choices else ("some", *spec.allowed)[-1] for spec in specs}
    return [spec.flag if spec.kind is bool else f"{spec.flag} {values[spec.flag]}" for spec in specs]


def test_there_are_settings_of_an_engine() -> None:
    assert {"--windows auto", "--attention auto", "--max-active 4096", "--allow-remote-code"} <= set(of_the_engine())


@pytest.mark.parametrize("option", of_the_engine())
@pytest.mark.parametrize("way", [("a.py", "--update", "edit.txt"), ("--request", "-")], ids=["file", "request"])
def test_a_server_takes_no_options_of_an_engine(
    folder: object, option: str, way: tuple[str, ...], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["apply", *way, "--server", NOWHERE, *option.split()]) == 2
    err = capsysbinary.readouterr().err
    assert last_code() == "unsupported_parameter"
    assert f": {option.split()[0]} would have no effect".encode() in err


@pytest.mark.parametrize(
    "command",
    [["models", "list", "--window", "3"], ["undo", "a.py", "--backups-kept", "3"], ["recover", "--backups-kept", "3"]],
)
def test_a_command_has_no_options_that_it_never_reads(
    folder: object, command: list[str], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(command) == 2
    assert b"There is no option" in capsysbinary.readouterr().err


@pytest.mark.parametrize("command", ["apply", "mcp", "serve"])
def test_an_option_is_never_abbreviated(command: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main([command, "--remote-k", "SECRET"]) == 2
    assert b"There is no option" in capsysbinary.readouterr().err


def test_a_server_from_the_environment_takes_none_either(
    folder: object, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setenv("APPLY_SERVICE_SERVER", NOWHERE)
    assert main(["apply", "a.py", "--update", "edit.txt", "--no-allow-remote-code", "--device", "cpu"]) == 2
    assert b": --device, --allow-remote-code would have no effect" in capsysbinary.readouterr().err


def test_the_model_belongs_into_a_request_to_a_server(
    folder: object, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["apply", "--request", "-", "--server", NOWHERE, "--model", "m"]) == 2
    assert b": --model would have no effect" in capsysbinary.readouterr().err


def test_engine_settings_of_the_environment_are_no_options(
    folder: object, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be meant for `serve` on the same machine."""
    monkeypatch.setenv("APPLY_SERVICE_DEVICE", "cpu")
    monkeypatch.setenv("APPLY_SERVICE_MODEL", "m")
    monkeypatch.setattr(sys, "stdin", Stdin(b'{"original": "a", "update": "b"}'))
    assert main(["apply", "--request", "-", "--server", url, "-q", "--json"]) == 0
