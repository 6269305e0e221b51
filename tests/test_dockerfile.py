"""The Dockerfile names what there is: files, extras, settings, a command.  No image is built here."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from apply_service.cli import build_parser
from apply_service.settings import setting_specs

ROOT = Path(__file__).parent.parent
TEXT = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
COPIED = [source for found in re.findall(r"^COPY (?!--)(.+) \S+$", TEXT, re.MULTILINE) for source in found.split()]


@pytest.mark.parametrize("source", COPIED)
def test_what_is_copied_is_there_and_not_ignored(source: str) -> None:
    assert (ROOT / source).exists()
    assert f"!{source}" in (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")


def test_what_the_wheel_is_made_of_is_copied() -> None:
    wanted = {"pyproject.toml", "constraints.txt", PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]}
    for where in PROJECT["tool"]["setuptools"]["packages"]["find"]["where"]:
        wanted.add("apply_service" if where == "." else where)
    assert wanted == set(COPIED)


def test_its_extras_exist() -> None:
    named = {extra for found in re.findall(r"\.whl\)\[([\w,]+)\]", TEXT) for extra in found.split(",")}
    assert {"gpu"} <= named <= set(PROJECT["project"]["optional-dependencies"])


def test_its_variables_are_settings() -> None:
    variables = set(re.findall(r"\bAPPLY_[A-Z_]+", TEXT))
    assert variables
    assert variables <= {spec.variable for spec in setting_specs()}


def test_its_command_is_understood() -> None:
    (command,) = re.findall(r"^CMD (\[.+\])$", TEXT, re.MULTILINE)
    arguments = build_parser().parse_args(json.loads(command))
    assert (arguments.command, arguments.host) == ("serve", "0.0.0.0")


def test_both_images_run_as_a_numbered_user_that_exists() -> None:
    assert re.findall(r"^USER (.+)$", TEXT, re.MULTILINE) == ["10001", "10001"]
    assert "--uid 10001" in TEXT
