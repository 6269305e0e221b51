"""All checks together: one verdict at least for each, pure, and quiet about a plain edit in every language."""

from __future__ import annotations

import random

import pytest

from apply_service.checks import run_checks
from apply_service.protocols import CheckInput
from apply_service.registry import CHECKS
from apply_service.types import Certainty, Prediction
from tests.checks.answers import answer
from tests.syntax.samples import SAMPLES

NEW_LINES = {
    "python": "Z = 3",
    "json": '  "z": 3,',
    "html": "<!-- z -->",
    "css": ".z { color: blue; }",
    "markdown": "A new paragraph.",
    "yaml": "z: 3",
    "toml": "z = 3",
    "shell": "Z=3",
    "ruby": "Z = 3",
    "sql": "SELECT 3;",
}
PLACES = {
    "json": 1,
    "html": 1,
    "php": 7,
    "go": 1,
    "c": 2,
    "cpp": 1,
    "csharp": 1,
    "kotlin": 1,
    "java": 1,
    "shell": 1,
    "toml": 0,
}


def test_each_check_passes_or_finds() -> None:
    verdicts = run_checks(answer("a = 1\n", "a = 2\n", update="a = 2"))
    assert [verdict.check for verdict in verdicts] == list(CHECKS)
    assert all(verdict.is_pass for verdict in verdicts)


def test_checks_by_name() -> None:
    verdicts = run_checks(answer("a = 1\n", "a = 1\n", update="a = 1"), ["no_op", "syntax"])
    assert [(verdict.check, verdict.severity) for verdict in verdicts] == [("no_op", "warning"), ("syntax", "pass")]
    with pytest.raises(KeyError):
        run_checks(answer("a", "b"), ["nonsense"])


@pytest.mark.parametrize("language", sorted(SAMPLES))
@pytest.mark.parametrize("certainty", list(Certainty))
def test_a_plain_edit_is_left_alone(language: str, certainty: Certainty) -> None:
    original = SAMPLES[language]
    line = NEW_LINES.get(language, "// z")
    lines = original.split("\n")
    at = PLACES.get(language, 0)
    merged = "\n".join([*lines[:at], line, *lines[at:]])
    update = "\n".join([line, lines[at], "... existing code ..."])
    verdicts = run_checks(answer(original, merged, update=update, language=language, certainty=certainty))
    assert [verdict for verdict in verdicts if not verdict.is_pass] == []


@pytest.mark.parametrize("language", [None, "klingon", "lua"])
def test_without_a_grammar_the_tree_checks_find_nothing(language: str | None) -> None:
    original = "def a():\n    pass\n\n\ndef b():\n    pass\n"
    item = answer(original, "def a((:\n", update="def a((:", language=language)
    assert all(verdict.is_pass for verdict in run_checks(item, ["symbols", "syntax"]))


def test_a_new_file_is_fine() -> None:
    text = "import os\n\n\ndef f():\n    return os.sep\n"
    assert all(verdict.is_pass for verdict in run_checks(answer("", text, update=text)))


def test_an_instruction_without_update_may_write_freely() -> None:
    item = answer("def f():\n    return 1\n", "def f():\n    return 2\n", update="")
    assert all(verdict.is_pass for verdict in run_checks(item))


def test_anything_at_all_gives_verdicts_within_the_texts() -> None:
    """Random texts, predictions that fit nothing: no exception, and every range lies in its text."""
    seed = 20261121
    rng = random.Random(seed)
    pieces = [*SAMPLES["python"].split("\n"), "", "# ...", "```", "</updated-code>", "\t x", "𝒳é\x0c", "{", "'"]
    for case in range(200):
        original, merged, update = ("\n".join(rng.choices(pieces, k=rng.randrange(12))) for _ in range(3))
        prediction = (
            answer(original, merged, update=update).prediction
            if rng.random() < 0.5
            else Prediction((), (), Certainty.GUESS)
        )
        item = CheckInput(original, merged, update, prediction, rng.choice([*SAMPLES, None]))
        for verdict in run_checks(item):
            if verdict.lines is not None:
                n_lines = (merged if verdict.side == "merged" else original).count("\n") + 1
                first, last = verdict.lines
                assert 1 <= first <= last <= n_lines, f"seed {seed}, case {case}: {verdict}"
