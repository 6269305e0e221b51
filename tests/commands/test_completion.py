"""Completion scripts: what a shell offers, asked of real shells where they are installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from apply_service.cli import build_parser, commands_of, main

OFFERS = [
    ("apply-service ap", "apply"),
    ("apply-service apply --in-p", "--in-place"),
    ("apply-service apply --color ne", "never"),
    ("apply-service models pu", "pull"),
    ("apply-service completion fi", "fish"),
]
FILES = [("apply-service apply a.p", "a.py"), ("apply-service apply a.py edi", "edit.txt")]

BASH = r"""
source ./script
words=($LINE); [[ $LINE == *" " ]] && words+=("")
COMP_WORDS=("${words[@]}"); COMP_CWORD=$((${#words[@]} - 1)); COMP_LINE=$LINE; COMP_POINT=${#LINE}
name=$(complete -p apply-service | sed 's/.*-F \([^ ]*\).*/\1/')
$name apply-service "${COMP_WORDS[$COMP_CWORD]}" "${COMP_WORDS[$((COMP_CWORD - 1))]}"
printf '%s\n' "${COMPREPLY[@]}"
"""
ZSH = "autoload -Uz compinit; compinit -u -D; source ./script; print $_comps[apply-service]"


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    Path("script").write_text(text)
    return text


def run(*command: str, **environment: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_names_all_commands_and_no_hidden_option(
    folder: Path, capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    text = script(shell, capsys)
    assert all(name in text for name in commands_of(build_parser()))
    assert all(word in text for word in ("queue-limit", "in-place", "fallback", "warning"))
    assert "--background" not in text


@pytest.mark.skipif(os.name == "nt" or shutil.which("bash") is None, reason="no bash")
def test_bash(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script("bash", capsys)
    for line, offer in (*OFFERS, *FILES):
        assert run("bash", "-c", BASH, LINE=line, PATH="/usr/bin:/bin").splitlines() == [offer], line


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh")
def test_zsh(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script("zsh", capsys)
    assert run("zsh", "-f", "-c", ZSH, PATH=os.environ["PATH"]).strip().startswith("_shtab")


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish")
def test_fish(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script("fish", capsys)
    for line, offer in (*OFFERS, *FILES):
        found = run(
            "fish", "-c", "source ./script; complete -C $LINE", LINE=line, HOME=str(folder), PATH=os.environ["PATH"]
        )
        assert [one.split("\t")[0] for one in found.splitlines()] == [offer], line


def test_nobody_else_waits_for_the_library() -> None:
    code = (
        "import sys; from apply_service.cli import build_parser; build_parser();"
        "print({'shtab', 'rapidfuzz', 'asyncio', 'subprocess'} & set(sys.modules))"
    )
    assert run(sys.executable, "-c", code, **os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}).strip() == "set()"
