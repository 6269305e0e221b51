"""What is said of an answer that may be wrong, and of none that is sure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apply_service.merge.merge import merge
from apply_service.merge.rank.chooser import load
from apply_service.merge.rank.doubt import chance_of, chances_of_hunks, find_doubt, other_readings, tell_difference
from apply_service.merge.rank.question import in_words
from apply_service.protocols import EditJob
from apply_service.types import Certainty, LineKind, LineOp, Prediction, Reading, Way

FIRST = (LineOp("keep", 0, None, "a = 1"), LineOp("take", None, 0, "b = 2"))
OTHER = (LineOp("drop", 0, None, "a = 1"), LineOp("take", None, 0, "b = 2"))


def job(chance: float | None, certainty: Certainty = Certainty.LIKELY) -> EditJob:
    readings = (Reading(FIRST, {}, chance or 0.0), Reading(OTHER, {}, 0.01))
    prediction = Prediction(FIRST, ("b = 2",), certainty, ("no anchor",), probability=chance, readings=readings)
    return EditJob("a = 1", "b = 2", "", "a.py", "python", prediction)


def test_a_sure_answer_is_not_doubted() -> None:
    sure = job(max(0.999, load().thresholds.apply))
    assert find_doubt(sure, sure.prediction.text) is None


def test_a_doubt_says_why_where_and_how_sure_another_reading_differs() -> None:
    doubted = job(0.6)
    found = find_doubt(doubted, doubted.prediction.text)
    assert found is not None
    assert (found.check, found.severity) == ("doubt", "warning")
    assert found.message == (
        "no anchor; another reading would remove line 1 (`a = 1`); "
        "to be sure of this one, show line 1 (`a = 1`) above `b = 2`; 60% sure"
    )
    assert found.question == "Did you mean to remove line 1 (`a = 1`)?"


def test_a_doubt_without_a_reason_says_what_the_answer_does() -> None:
    known = job(0.6)
    doubted = replace(known, prediction=replace(known.prediction, reasons=(), readings=()))
    found = find_doubt(doubted, doubted.prediction.text)
    assert found is not None
    assert found.message == (
        "this one would add `b = 2`; to be sure of this one, show line 1 (`a = 1`) above `b = 2`; 60% sure"
    )
    assert found.question == "Is this what you meant?"


def test_what_is_more_likely_wrong_than_right_is_an_error() -> None:
    doubted = job(0.2)
    found = find_doubt(doubted, doubted.prediction.text)
    assert found is not None
    assert found.severity == "error"


def test_a_model_that_takes_another_reading_has_the_chance_of_that_reading() -> None:
    doubted = job(0.9)
    assert chance_of(doubted.prediction, "b = 2") == 0.01
    found = find_doubt(doubted, "b = 2")
    assert found is not None
    assert found.severity == "error"


def test_what_a_model_wrote_that_is_no_reading_is_told() -> None:
    doubted = job(0.9)
    assert chance_of(doubted.prediction, "c = 3") is None
    found = find_doubt(doubted, "c = 3")
    assert found is not None
    assert "in another way" in found.message


@pytest.mark.parametrize(
    "known",
    [
        replace(job(0.3), prediction=replace(job(0.3).prediction, determined=True)),
        job(None, Certainty.CERTAIN),
    ],
    ids=["the format determines it", "a format that is certain"],
)
def test_what_nobody_can_doubt_is_not_doubted(known: EditJob) -> None:
    assert find_doubt(known, known.prediction.text) is None


def test_a_format_that_counts_nothing_tells_its_reasons() -> None:
    known = job(None)
    found = find_doubt(known, known.prediction.text)
    assert found is not None
    assert found.message == "the place of the edit is likely, but not certain: no anchor"


def test_chances_in_words_are_never_nothing_and_never_all() -> None:
    assert [in_words(chance) for chance in (0.0, 0.29, 0.9697, 0.9999)] == [
        "1% sure",
        "29% sure",
        "96% sure",
        "99% sure",
    ]


def reading(*steps: str) -> tuple[LineOp, ...]:
    """Operations as a diff writes them: "+" new, "-" gone, " " kept."""
    kinds: dict[str, LineKind] = {"+": "take", "-": "drop", " ": "keep"}
    ops, at = [], 0
    for step in steps:
        is_old = step[0] != "+"
        ops.append(LineOp(kinds[step[0]], at if is_old else None, None if is_old else 0, step[1:]))
        at += is_old
    return tuple(ops)


def test_other_readings_are_told_likeliest_first_and_only_those_with_a_chance() -> None:
    further = (*FIRST, LineOp("take", None, 1, "c = 3"))
    alike = (*further, LineOp("take", None, 2, ""))  # told in the same words
    chances = {FIRST: 0.7, OTHER: 0.05, further: 0.2, alike: 0.04, FIRST[:1]: 0.009}
    readings = [Reading(ops, {}, chance) for ops, chance in chances.items()]
    prediction = replace(job(0.7).prediction, readings=tuple(readings))
    told = other_readings(prediction, "a = 1\nb = 2")
    assert [(one.probability, one.difference) for one in told] == [
        (0.2, "add `c = 3`"),
        (0.05, "remove line 1 (`a = 1`)"),
    ]
    assert [one.probability for one in other_readings(prediction, "b = 2")] == [0.7, 0.2]
    assert other_readings(prediction, "a text of the model's own") == ()


@pytest.mark.parametrize(
    ("this", "other", "said"),
    [
        (("-a", "-b", "+c", " d"), (" a", " b", "+c", " d"), "keep lines 1-2 (`a` and 1 more)"),
        ((" a", "+c", " d"), ("-a", "+c", " d"), "remove line 1 (`a`)"),
        ((" a", " d"), ("-a", "+c", " d"), "replace line 1 (`a`) by `c`"),
        (("-a", "+c"), (" a",), "keep line 1 (`a`) and leave out `c`"),
        (("+c", " a", " b"), (" a", " b", "+c"), "put `c` below line 2"),
        ((" a", "+c", " b"), ("+c", " a", " b"), "put `c` at the start of the file"),
        ((" a", "+c", " b"), (" a", "+c", "+", " b"), "have other blank lines"),
        (("-a", " ", "-b"), (" a", " ", " b"), "keep lines 1-3 (`a` and 1 more)"),
        ((" a",), (" a",), ""),
    ],
)
def test_a_reading_is_told_from_another_by_what_it_does(this: list[str], other: list[str], said: str) -> None:
    assert tell_difference(reading(*this), reading(*other)) == said


def test_a_reading_that_takes_the_snippet_for_the_whole_file_is_told_in_words() -> None:
    doubted = job(0.6)
    other = doubted.prediction.readings[1]._replace(way=Way("line", policy="literal", extras=("cut",)))
    prediction = replace(doubted.prediction, readings=(doubted.prediction.readings[0], other))
    found = find_doubt(replace(doubted, prediction=prediction), doubted.prediction.text)
    assert found is not None
    assert "another reading would take the snippet for the whole file and remove line 1 (`a = 1`)" in found.message


# -- the chance of a hunk ----------------------------------------------------------------------------------------------
def ops_of(*lines: str) -> tuple[LineOp, ...]:
    """Operations on a file of the lines a, b, c: `a` keeps one, `-a` drops it, `+x` takes a new one."""
    found, n = [], 0
    for line in lines:
        if line.startswith("+"):
            found.append(LineOp("take", None, 0, line[1:]))
        else:
            found.append(LineOp("drop" if line.startswith("-") else "keep", n, None, line.lstrip("-")))
            n += 1
    return tuple(found)


THIS = ops_of("a", "-b", "+B", "c", "+d")
READINGS = [
    (THIS, 0.5),
    (ops_of("a", "-b", "+B", "c"), 0.2),
    (ops_of("a", "b", "+B", "c", "+d"), 0.1),
    (ops_of("-a", "-b", "+B", "c", "+d"), 0.05),
    (ops_of("a", "-b", "+B", "-c", "+d"), 0.04),
    (ops_of("a", "-b", "+B", "c", "+e"), 0.03),
    (ops_of("a", "-b", "+B", "c", "+d", "+f"), 0.001),
]


def test_a_hunk_is_as_likely_as_all_readings_that_change_its_lines_so() -> None:
    readings = tuple(Reading(ops, {}, chance) for ops, chance in READINGS)
    prediction = Prediction(THIS, ("B", "d"), Certainty.LIKELY, (), probability=0.5, readings=readings)
    middle, end = chances_of_hunks(prediction, prediction.text, [(1, 2, 1, 2), (3, 3, 3, 4)])
    assert middle == pytest.approx(0.5 + 0.2 + 0.03), "neither where a is dropped, nor where c is"
    assert end == pytest.approx(0.5 + 0.1 + 0.05)
    assert chances_of_hunks(prediction, prediction.text, []) == []


# -- blank lines -------------------------------------------------------------------------------------------------------
BLANK = (*FIRST, LineOp("take", None, 1, ""))


def job_with_blanks(chance: float, of_blanks: float, **features: float) -> EditJob:
    readings = (Reading(FIRST, features, chance), Reading(BLANK, features, of_blanks))
    known = job(chance)
    return replace(known, prediction=replace(known.prediction, readings=readings))


def test_an_answer_that_is_sure_but_for_its_blank_lines_is_told_and_not_doubted() -> None:
    known = job_with_blanks(0.95, 0.045)
    found = find_doubt(known, known.prediction.text)
    assert found is not None
    assert (found.severity, found.message) == ("pass", "blank lines may differ; 95% sure")


@pytest.mark.parametrize(
    "known", [job_with_blanks(0.8, 0.1), job_with_blanks(0.95, 0.045, may_leave=1.0)], ids=["not enough", "a risk"]
)
def test_other_doubts_stay_beside_blank_lines(known: EditJob) -> None:
    found = find_doubt(known, known.prediction.text)
    assert found is not None
    assert found.severity == "warning"


def test_a_reading_with_other_lines_makes_no_answer_surer() -> None:
    known = job(0.95)
    readings = (known.prediction.readings[0], known.prediction.readings[1]._replace(probability=0.045))
    found = find_doubt(
        replace(known, prediction=replace(known.prediction, readings=readings)), FIRST[0].text + "\nb = 2"
    )
    assert found is not None
    assert found.severity == "warning"


def test_the_percentage_of_a_models_text_is_the_answers_confidence() -> None:
    known = job(0.6)
    found = find_doubt(known, known.prediction.text, is_by_model=True, confidence=0.87)
    assert found is not None
    assert found.message.endswith("; 87% sure")
    uncounted = find_doubt(known, known.prediction.text, is_by_model=True)
    assert uncounted is not None
    assert "%" not in uncounted.message


# -- a snippet with a marker -------------------------------------------------------------------------------------------
NAMES = 'fn name(op: &Op) -> &str {\n    "op"\n}\n\n'
EVAL = (
    "fn eval(op: &Op, a: i64, b: i64) -> i64 {\n    match op {\n        // ...\n        Op::Mul => a * b,\n    }\n}\n"
)
OPS = f"{NAMES}{EVAL}".replace("// ...\n        Op::Mul => a * b", "Op::Add => a + b,\n        Op::Sub => a - b")


@pytest.mark.parametrize("marker", ["// ...", "// ... existing arms ..."])
def test_a_snippet_with_a_marker_is_not_taken_for_the_whole_file(marker: str) -> None:
    found = merge(OPS, EVAL.replace("// ...", marker), language="rust")
    assert found.text == OPS.replace("a - b,\n", "a - b,\n        Op::Mul => a * b,\n")
    assert not any("whole file" in other.difference for other in other_readings(found, found.text))
    assert sum(reading.probability for reading in found.readings) <= 1
