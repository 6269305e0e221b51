"""One voice: what the command line says is a sentence, as `CONTRIBUTING.md` has it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import apply_service
from apply_service.commands.output import print_error, sentence
from apply_service.errors import InvalidField

COMMANDS = Path(apply_service.__file__).parent / "commands"
SAYS = ("write_note", "write_line")


def said() -> list[tuple[str, str]]:
    """Every literal text that a command says, with `{}` for values, and where."""
    found = []
    for path in (*COMMANDS.glob("*.py"), COMMANDS.parent / "cli.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and str(ast.unparse(node.func)).rpartition(".")[2] in SAYS and node.args:
                text = node.args[0]
                if isinstance(text, ast.JoinedStr):
                    parts = [one.value if isinstance(one, ast.Constant) else "{}" for one in text.values]
                    found.append((f"{path.name}:{node.lineno}", "".join(map(str, parts))))
                elif isinstance(text, ast.Constant):
                    found.append((f"{path.name}:{node.lineno}", str(text.value)))
    return found


def is_in_voice(text: str) -> bool:
    """Below another line (indented), begun by a name, or a sentence.  One may end with a value or with what follows
    it (a colon)."""
    if text.startswith("  ") or re.match(r"\{\}(: | |$)|apply-service\b|\W", text):
        return True
    return text[:1].isupper() and re.search(r"[.:?]$|\{\}\)?$|: [^.]*$|[A-Z]$", text) is not None


def test_what_commands_say() -> None:
    texts = said()
    assert len(texts) > 30
    assert [one for one in texts if not is_in_voice(one[1])] == []


@pytest.mark.parametrize("text", ["your server has stopped", "Your server has stopped", "nothing was interrupted."])
def test_another_voice_is_found_out(text: str) -> None:
    assert not is_in_voice(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no such drafter", "No such drafter."),
        ("There is no edit.", "There is no edit."),
        ("store.go: no place", "store.go: no place."),
        ("a.py is empty", "a.py is empty."),
        ("max_lines is out of range (above 0)", "max_lines is out of range (above 0)"),
        ("unknown setting 'prot' (environment)", "Unknown setting 'prot' (environment)."),
        ("run `apply-service models`", "Run `apply-service models`"),
        (
            "Run: /bin/python -m pip install 'apply-service[mcp]'",
            "Run: /bin/python -m pip install 'apply-service[mcp]'",
        ),
        ("The model is at /models/big", "The model is at /models/big"),
        ("two\nlines", "two\nlines"),
    ],
)
def test_a_clause_becomes_a_sentence(text: str, shown: str) -> None:
    assert sentence(text) == shown


def test_errors_are_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(InvalidField("`x` is out of range", value=7, limit=[1, 2], remedy="leave it out, or set it"))
    assert capsys.readouterr().err == (
        "apply-service: `x` is out of range: 7\n  Allowed: 1, 2\n  Leave it out, or set it.\n"
    )
