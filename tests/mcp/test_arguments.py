"""What agents send, by whichever names."""

from typing import Any

import pytest

from apply_service.errors import ApplyError, EmptyUpdate, InvalidField, UnknownField
from apply_service.mcp.tool import ALIASES, PROPERTIES, EditCall, read_arguments

PLAIN = {"path": "a.py", "code_edit": "x"}


@pytest.mark.parametrize("path", ["path", "target_filepath", "target_file", "file_path"])
@pytest.mark.parametrize("instruction", ["instruction", "instructions"])
@pytest.mark.parametrize("dry_run", ["dryRun", "dry_run"])
def test_every_name_is_read(path: str, instruction: str, dry_run: str) -> None:
    call = read_arguments({path: "a.py", "code_edit": "x", instruction: "I do", dry_run: True})
    assert call == EditCall("a.py", "x", instruction="I do", is_dry_run=True)


@pytest.mark.parametrize(("given", "reading"), [(2, "2"), ("2", "2"), ("0123456789ab", "0123456789ab"), (None, None)])
def test_a_reading_is_a_number_or_an_id(given: object, reading: str | None) -> None:
    assert read_arguments(PLAIN | {"reading": given}) == EditCall("a.py", "x", reading=reading)


def test_what_is_left_out_or_null_has_its_default() -> None:
    nulls = dict.fromkeys(("instruction", "dryRun", "on_verdict", "base_sha256", "encoding", "target_file"))
    assert read_arguments(PLAIN) == read_arguments(PLAIN | nulls) == EditCall("a.py", "x")


def test_the_same_value_twice_is_no_contradiction() -> None:
    assert read_arguments(PLAIN | {"target_file": "a.py"}).path == "a.py"


def test_everything_at_once() -> None:
    rules = {"syntax": "warn"}
    call = read_arguments(PLAIN | {"on_verdict": rules, "base_sha256": "0" * 64, "encoding": "latin-1"})
    assert call == EditCall("a.py", "x", on_verdict=rules, base_sha256="0" * 64, encoding="latin-1")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "error", "value"),
    [
        ({}, InvalidField, "path"),
        ({"code_edit": "x"}, InvalidField, "path"),
        ({"path": None, "code_edit": "x"}, InvalidField, "path"),
        ({"path": "a.py"}, EmptyUpdate, "code_edit"),
        ({"path": "a.py", "code_edit": " \n"}, EmptyUpdate, "code_edit"),
        ({"path": "a.py", "instruction": "do it all"}, EmptyUpdate, "code_edit"),
        (PLAIN | {"colour": 1}, UnknownField, None),
        (PLAIN | {"target_file": "b.py"}, InvalidField, "target_file"),
        (PLAIN | {"path": 1}, InvalidField, 1),
        (PLAIN | {"code_edit": ["x"]}, InvalidField, ["x"]),
        (PLAIN | {"dryRun": "yes"}, InvalidField, "yes"),
        (PLAIN | {"on_verdict": {"syntax": "off"}}, InvalidField, {"syntax": "off"}),
        (PLAIN | {"on_verdict": "syntax"}, InvalidField, "syntax"),
        (PLAIN | {"reading": True}, InvalidField, True),
        (PLAIN | {"reading": [1]}, InvalidField, [1]),
    ],
)
def test_what_is_refused_and_by_which_name(arguments: dict[str, Any], error: type[ApplyError], value: object) -> None:
    with pytest.raises(error) as caught:
        read_arguments(arguments)
    assert caught.value.remedy
    if value is not None:
        assert caught.value.value == value


def test_the_schema_shows_every_argument_once() -> None:
    assert set(PROPERTIES) == set(ALIASES)
