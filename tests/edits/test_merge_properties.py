"""What holds for every predicted merge, on random texts: no exception, whole operations, nothing invented."""

from __future__ import annotations

import os
import random
import string

import pytest

from apply_service.formats import lazy_snippet
from apply_service.merge.merge import merge
from apply_service.protocols import EditContext
from apply_service.types import Prediction
from tests.effort import count_lines, no_hang

SEED = int(os.environ.get("TEST_SEED", "20261"))
WORDS = (
    "if x:",
    "return x",
    "}",
    "{",
    "def f(a):",
    "class A:",
    "a = 1",
    "foo(bar)",
    "end",
    "else:",
    "});",
    "/**",
    " */",
    "import os",
)
MARKERS = ("# ... existing code ...", "...", "// ...", "    # rest unchanged", "<!-- ... -->", "/* ... */")
ODD = (
    "",
    "   ",
    "\t",
    "```",
    "```python",
    "# removed f",
    "// add after f",
    "# f.py",
    "é ü",
    "\f",
    "x" * 300,
    "\u2028",
    "𝛼 = 1",
)


def random_lines(rng: random.Random, n: int) -> list[str]:
    return [" " * rng.choice((0, 0, 2, 4, 8)) + rng.choice((*WORDS, *ODD)) for _ in range(n)]


def random_update(rng: random.Random, original: list[str]) -> list[str]:
    """Pieces of the original, some changed, with markers and new lines between."""
    update: list[str] = []
    at = 0
    while at < len(original) and rng.random() < 0.8:
        start = at + rng.randrange(3)
        stop = start + rng.randrange(1, 6)
        update += original[start:stop]
        update += random_lines(rng, rng.randrange(3))
        if rng.random() < 0.6:
            update.append(rng.choice(MARKERS))
        at = stop
    return update or ["a = 2"]


def assert_whole(original: str, update: str, prediction: Prediction) -> None:
    """Every original line once and in order, texts as the contract says, no update line twice."""
    lines = original.split("\n")
    assert [op.original_line for op in prediction.ops if op.kind != "take"] == list(range(len(lines)))
    assert len(prediction.update_lines) == len(update.split("\n"))
    shown: set[int] = set()
    known = {line.strip() for line in lines} | {""}
    for op in prediction.ops:
        if op.kind == "take":
            assert op.original_line is None
            if op.update_line is None:  # a blank line that parts what is put in, or a line at another indentation
                assert op.text.strip() in known
            else:
                assert op.text == prediction.update_lines[op.update_line]
        else:
            assert op.original_line is not None
            assert op.text == lines[op.original_line]
            assert (op.update_line is not None) == (op.kind == "both")
        if op.update_line is not None:
            assert op.update_line not in shown
            shown.add(op.update_line)


@pytest.mark.parametrize("round_number", range(8))
def test_random_edits_keep_the_contract(round_number: int) -> None:
    seed = SEED + round_number
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(60):
        lines = random_lines(rng, rng.randrange(0, 40))
        original = "\n".join(lines) + rng.choice(("", "\n"))
        update = "\n".join(random_update(rng, lines)) + rng.choice(("", "\n"))
        language = rng.choice(("python", "typescript", "go", "markdown", None, "unheard-of"))
        assert_whole(original, update, merge(original, update, language=language, path="f.py"))


def test_random_characters_raise_nothing() -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    letters = string.printable + "…“”é\u2028"
    for _ in range(300):
        original = "".join(rng.choices(letters, k=rng.randrange(200)))
        update = "".join(rng.choices(letters, k=rng.randrange(1, 200)))
        assert_whole(original, update, merge(original, update))


def test_lines_beyond_the_snippet_are_untouched() -> None:
    """A change between unique lines leaves all the rest byte for byte."""
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    for _ in range(60):
        lines = [f"line {n} of {rng.randrange(10**9)}{' ' * rng.randrange(2)}" for n in range(rng.randrange(5, 80))]
        at = rng.randrange(1, len(lines) - 1)
        update = ["# ... existing code ...", lines[at - 1], "something else", lines[at + 1], "# ... existing code ..."]
        wanted = [*lines[:at], "something else", *lines[at + 1 :]]
        assert merge("\n".join(lines), "\n".join(update)).text == "\n".join(wanted)


def test_original_shown_whole_comes_back() -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    for _ in range(60):
        original = "\n".join([f"{word} {n}" for n, word in enumerate(rng.choices(WORDS, k=30))]) + "\n"
        assert merge(original, original).text == original


def test_a_line_of_five_megabytes_does_not_hang() -> None:
    long = "x" * 5_000_000
    with no_hang():
        prediction = lazy_snippet.predict(f"a = 1\n{long}\nb = 2\n", "# ...\nb = 3\n", EditContext(None, "python"))
    assert long in prediction.text


def eight_hunks(n_lines: int) -> tuple[str, str]:
    """A file and a snippet that adds a line in eight places."""
    lines = [f"    value_{n % 977} = compute({n})" if n % 7 else f"def function_{n}():" for n in range(n_lines)]
    update = ["# ... existing code ..."]
    for hunk in range(8):
        at = (hunk + 1) * n_lines // 10
        update += [*lines[at : at + 3], f"    added_{hunk} = True", *lines[at + 3 : at + 6], "# ... existing code ..."]
    return "\n".join(lines), "\n".join(update)


@pytest.mark.parametrize("n_lines", [1_500, 20_000])
def test_many_lines_are_merged(n_lines: int) -> None:
    with no_hang():
        prediction = merge(*eight_hunks(n_lines), language="python")
    assert sum(op.kind == "take" for op in prediction.ops) == 8
    assert sum(op.kind == "drop" for op in prediction.ops) == 0


def test_four_times_the_lines_take_no_sixteen_times_the_work() -> None:
    small, large = (count_lines(lambda n=n: merge(*eight_hunks(n), language="python")) for n in (1_000, 4_000))
    assert large < 6 * small
