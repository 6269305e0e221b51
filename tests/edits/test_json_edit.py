"""JSON edits: pieces of the file and what takes their place."""

from __future__ import annotations

import json
import random

import pytest

from apply_service.errors import ApplyError, MalformedEdit, NeedsMoreContext, TooLarge
from apply_service.formats import json_edit
from apply_service.formats.json_edit import Replacement, read_replacements
from apply_service.protocols import EditContext
from apply_service.reply.reader import detect_format
from apply_service.types import Certainty, Prediction
from tests.edits.scripts import draw_script
from tests.seeds import draw_seed


def predict(original: str, update: object, path: str | None = None) -> Prediction:
    text = update if isinstance(update, str) else json.dumps(update)
    prediction = json_edit.predict(original, text, EditContext(path))
    lines = text.split("\n")
    assert list(prediction.update_lines[: len(lines)]) == lines
    for op in prediction.ops:
        assert op.kind != "take" or (op.update_line is not None and prediction.update_lines[op.update_line] == op.text)
    return prediction


def pair(old: str, new: str, **more: object) -> dict[str, object]:
    return {"old_string": old, "new_string": new, **more}


def test_random_replacements_of_whole_stretches_give_the_wanted_text() -> None:
    rng = random.Random(draw_seed())
    for _ in range(100):
        script = draw_script(rng)
        prediction = predict(script.before, pair(script.before, script.after))
        assert prediction.text == script.after
        assert prediction.determined


def test_a_piece_of_a_line_is_enough() -> None:
    prediction = predict("a = one(two)\n", pair("two", "three"))
    assert (prediction.text, prediction.certainty) == ("a = one(three)\n", Certainty.CERTAIN)


def test_edits_are_made_one_after_the_other() -> None:
    assert predict("a\nb\n", [pair("a", "c"), pair("c\nb", "d")]).text == "d\n"


def test_content_that_looks_like_markers_is_content() -> None:
    new = "<<<<<<< SEARCH\nx\n=======\n```\n*** End Patch"
    assert predict("a\n", pair("a", new)).text == new + "\n"


def test_a_value_in_a_program_is_content() -> None:
    original = "def test():\n    check(1)\n"
    update = (
        'def test():\n    edits = [\n        {"old_string": "check", "new_string": "b"},\n    ]\n    check(edits)\n'
    )
    assert detect_format(update, named=None, original=original) == "lazy_snippet"


def test_the_text_of_a_new_file() -> None:
    create = {"command": "create", "path": "n.py", "file_text": "x = 1\n"}
    assert predict("", create, "n.py").text == "x = 1\n"
    with pytest.raises(NeedsMoreContext):
        predict("y = 1\n", create, "n.py")


def test_calls_that_are_no_edits_are_refused_by_name() -> None:
    view = json.dumps({"command": "view", "path": "n.py"})
    assert detect_format(view, named=None) == "json_edit"
    with pytest.raises(MalformedEdit, match="view"):
        predict("a\n", view)


def test_an_empty_old_text_means_a_new_file() -> None:
    assert predict("", pair("", "x\n")).text == "x\n"
    with pytest.raises(NeedsMoreContext):
        predict("a\n", pair("", "x\n"))


def test_a_misquoted_text_is_sought_by_its_lines() -> None:
    prediction = predict("if x:\n    one()\n    two()\n", pair("one()\ntwo()", "one()\nthree()"))
    assert prediction.text == "if x:\n    one()\n    three()\n"
    assert prediction.certainty is Certainty.LIKELY


def test_a_text_that_is_nowhere_is_refused_with_the_nearest_lines() -> None:
    with pytest.raises(NeedsMoreContext):
        predict("alpha\nbeta\n", pair("%%%%%%%%%%%%%%", "x"))


def test_files_are_told_apart_by_their_paths() -> None:
    update = {"edits": [pair("x", "y", path="a.py"), pair("x", "z", file_path="src/b.py")]}
    assert predict("x\n", update, "a.py").text == "y\n"
    assert predict("x\n", update, "b.py").text == "z\n"
    for path in (None, "c.py"):
        with pytest.raises(MalformedEdit):
            predict("x\n", update, path)


def test_another_name_is_a_doubt() -> None:
    prediction = predict("x\n", pair("x", "y", path="other.py"), "a.py")
    assert (prediction.text, prediction.certainty) == ("y\n", Certainty.LIKELY)


def test_an_edit_that_says_nothing_new_is_noted() -> None:
    prediction = predict("x\n", pair("x", "x"))
    assert (prediction.text, prediction.reasons) == ("x\n", ("edit 1 changes nothing",))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "[" * 100_000, '{"old_string": 1, "new_string": 2}', '{"old_string": "a"']
)
def test_no_edit_at_all(text: str) -> None:
    assert read_replacements(text) == ((), False)
    with pytest.raises(MalformedEdit):
        predict("x\n", text)


def test_line_ends_in_strings_are_made_plain() -> None:
    assert read_replacements(json.dumps(pair("a\r\nb", "c\r\n"))) == ((Replacement("a\nb", "c\n"),), False)


def test_objects_one_a_line_are_all_carried_out() -> None:
    original = "".join(f"x{i} = 0\n" for i in range(100))
    update = "".join(json.dumps(pair(f"x{i} = 0\n", f"x{i} = 1\n")) + "\n" for i in range(100))
    assert predict(original, update).text == original.replace("= 0", "= 1")


def outcome(original: str, update: str) -> str:
    try:
        return json_edit.predict(original, update, EditContext()).text
    except ApplyError as error:
        return error.message


@pytest.mark.parametrize("seed", range(300))
def test_many_edits_are_made_as_one_after_the_other(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of the text as it is by then: in one line, beside each other, across lines, twice, in what was new."""
    dice = random.Random(seed)

    def words(n: int) -> str:
        return "".join(dice.choice("abcdefgh") + dice.choice(["", " ", "(", "\n", "\n"]) for _ in range(n))

    original = text = words(120) + dice.choice(["", "\n"])
    pairs = []
    for _ in range(dice.choice([1, 3, 6, 12])):
        start = dice.randrange(len(text))
        old, new = text[start : start + dice.randint(4, 16)], words(dice.randint(0, 6)) + dice.choice(["", "\n"])
        if text.count(old) > 1 and dice.random() < 0.9:
            continue
        pairs.append({"old_string": old, "new_string": new})
        text = text.replace(old, new, 1)
    update = json.dumps({"edits": pairs})
    monkeypatch.setattr(json_edit, "MANY", len(pairs) + 1)
    expected = outcome(original, update)
    monkeypatch.setattr(json_edit, "MANY", 1)
    assert outcome(original, update) == expected


@pytest.mark.parametrize(
    ("original", "old", "new", "merged"),
    [
        ("a\n\ufeffb\n", "\ufeffb", "c", "a\nc\n"),
        ("a\n\ufeffb\n", "\ufeffb", "\ufeffc", "a\n\ufeffc\n"),
        ("a\n\ufeffb\n", "b", "c", "a\n\ufeffc\n"),
        ("a\nb\n", "\ufeffa", "\ufeffc", "c\nb\n"),
        ("a\nb\n", "\ufeffa", "c", "c\nb\n"),
    ],
)
def test_a_mark_inside_the_file_is_text(original: str, old: str, new: str, merged: str) -> None:
    """`original` has no byte-order mark of its own: one that the file begins with is taken off before."""
    update = json.dumps({"old_string": old, "new_string": new}, ensure_ascii=False)
    assert json_edit.predict(original, update, EditContext()).text == merged


def test_too_many_edits_of_one_file_are_refused() -> None:
    edits = [{"old_string": "a", "new_string": "b"}] * (json_edit.MAX_EDITS + 1)
    with pytest.raises(TooLarge) as refused:
        json_edit.predict("a\n", json.dumps(edits), EditContext())
    assert refused.value.limit == json_edit.MAX_EDITS
