"""Other places that a block fits: each case beside one that differs in what decides."""

from __future__ import annotations

import pytest

from apply_service.merge.merge import TWIN, _combinations, merge
from apply_service.merge.readings import readings
from apply_service.merge.twins import MAX_PLACES, find_twins
from apply_service.types import Certainty, LineOp, Reading

SCALES = """\
def first(x):
    y = scale(x)
    return y


def second(x):
    y = scale(x)
    return y
"""
TWINS = "begin()\nload_all(1)\nsave_all(1)\nfinish()\nbegin()\nload_all(1)\nsweep_all(2)\nfinish()\nstop()\n"
STAGES = "FROM node AS build\nWORKDIR /app\nRUN make\n\nFROM node-slim\nWORKDIR /app\nCMD run\n"
CHANGED = "    y = scale(x)\n    z = check(y)\n    return y\n"
FIRST_LINE = "top()\nrun(1)\ngo(1)\nend(1)\n\nlow()\nrun(9)\ngo(5)\nend(1)\n"
ROWS = "a:\n  log_size_limit: 10\nb:\n  log_size_limit: 10\n"


@pytest.mark.parametrize(
    ("original", "update", "wanted"),
    [
        (SCALES, f"# ...\n{CHANGED}# ...\n", [5]),
        (SCALES, f"# ...\ndef second(x):\n{CHANGED}# ...\n", []),
        (SCALES, f"# ...\ndef second(x):\n    # ...\n{CHANGED}", []),
        (SCALES, f"# ... first() stays ...\n{CHANGED}# ...\n", []),
        (SCALES.replace("scale(x)\n    return y\n\n\n", "scale(x)\n    yield y\n\n\n"), f"# ...\n{CHANGED}# ...\n", []),
        (TWINS, "# ...\nbegin()\nload_all(10)\nsave_all(1)\nfinish()\n# ...\n", []),
        (TWINS, "# ...\nbegin()\nload_all(10)\n# ...\n", [4]),
        (TWINS, "# ...\nsave_all(1)\nfinish()\nbegin()\nload_all(10)\n# ...\n", []),
        (STAGES, "# ...\nWORKDIR /app\nENV MODE=fast\n# ...\n", [1]),
        (STAGES, "FROM node AS build\nWORKDIR /app\nENV MODE=fast\n# ...\n", []),
        (ROWS, "# ...\n  log_size_limit: 30\n# ...\n", [1]),
        (FIRST_LINE, "top()\nrun(9)\ngo(9)\nend(1)\n# ...\n", []),
        (ROWS, "# ...\nb:\n  log_size_limit: 30\n# ...\n", []),
        ("{\n}\n{\n}\n", "# ...\n}\nx\n# ...\n", [1]),
        ("{\n}\n  {\n  }\n", "# ...\n}\nx\n# ...\n", []),
    ],
)
def test_places_that_fit_as_well(original: str, update: str, wanted: list[int]) -> None:
    first = readings(original, update, language="python")[0]
    found = [twin.line for twin in find_twins(first.snippet, first.ops)]
    assert len(found) == len(wanted)
    assert not set(found).intersection(op.original_line for op in first.ops if op.kind != "keep")


def test_an_equal_place_is_a_reading_and_nothing_is_sure() -> None:
    found = merge(SCALES, f"# ...\n{CHANGED}# ...\n", language="python")
    there = SCALES.replace("    return y\n", "    z = check(y)\n    return y\n")
    here = there.replace("    z = check(y)\n", "", 1), there[::-1].replace("    z = check(y)\n"[::-1], "", 1)[::-1]
    assert found.certainty is not Certainty.CERTAIN
    assert "as well" in found.reasons[0]
    assert {one.text for one in found.readings[:2]} == set(here)
    assert found.readings[0].probability == found.readings[1].probability <= 0.5


@pytest.mark.parametrize(("words", "place"), [("Check y in `second`.", 1), ("Check y in first()", 0)])
def test_words_name_one_of_them(words: str, place: int) -> None:
    found = merge(SCALES, f"# ...\n{CHANGED}# ...\n", language="python", instruction=words)
    head, _, tail = found.text.partition("def second")
    assert [("check" in head), ("check" in tail)] == [place == 0, place == 1]
    assert all(one.way != TWIN for one in found.readings)


def test_many_equal_places_are_told_by_line() -> None:
    original = "".join(f"def f{n}(x):\n    y = scale(x)\n    return y\n\n\n" for n in range(MAX_PLACES + 1))
    found = merge(original, f"# ...\n{CHANGED}# ...\n", language="python")
    told = found.reasons[0]
    assert found.certainty is Certainty.GUESS
    assert all(one.way != TWIN for one in found.readings)
    assert sum(f"{5 * n + 2}" in told for n in range(MAX_PLACES + 1)) == MAX_PLACES
    assert "show one more line" in told


def test_a_moved_block_gets_the_margin_of_its_place() -> None:
    original = "if ready:\n    load(1)\n    save(1)\n    sweep(1)\nelse:\n  load(1)\n  save(1)\n  sweep(1)\n"
    found = merge(original, "# ...\n    load(1)\n    save(2)\n    sweep(1)\n# ...\n", language="python")
    texts = [one.text for one in found.readings if one.way == TWIN or one is found.readings[0]]
    assert any("    save(2)\n    sweep(1)\nelse" in text for text in texts)
    assert any("\n  save(2)\n  sweep(1)\n" in text for text in texts)


def test_readings_at_two_places_are_combined() -> None:
    first, one, other = (
        [LineOp("keep", 0, None, "a"), *one, LineOp("keep", 1, None, "b"), LineOp("keep", 2, None, "c"), *two]
        for one, two in (((), ()), ((LineOp("take", None, 0, "x"),), ()), ((), (LineOp("take", None, 1, "y"),)))
    )
    ranked = [Reading(tuple(ops), {}, chance) for ops, chance in ((first, 0.6), (one, 0.2), (other, 0.1))]
    (both,) = _combinations(ranked)
    assert both.text == "a\nx\nb\nc\ny"
    assert both.probability == pytest.approx(0.2 * 0.1 / 0.6)
    assert _combinations([ranked[0], ranked[1], ranked[1]._replace(ops=ranked[1].ops[:1] + ranked[1].ops[2:])]) == []
