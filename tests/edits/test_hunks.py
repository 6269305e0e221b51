"""Operations after operations, and large inputs."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from apply_service.edits.fidelity import ops_from_texts
from apply_service.edits.hunks import compose
from apply_service.edits.reply import detect_format
from apply_service.edits.search_replace import SearchReplace
from apply_service.edits.unified_diff import UnifiedDiff
from apply_service.errors import ApplyError
from tests.effort import no_hang


def written(ops: list[tuple[str, int | None, str]]) -> str:
    return "\n".join(text for kind, _, text in ops if kind != "drop")


@pytest.mark.parametrize("seed", range(40))
def test_composed_operations_do_both(seed: int) -> None:
    rng = random.Random(seed)
    first, second, third = ("\n".join(rng.choices("abcd", k=rng.randrange(1, 12))) for _ in range(3))
    ops = compose(ops_from_texts(first, second), ops_from_texts(second, third))
    assert written([(op.kind, op.original_line, op.text) for op in ops]) == third
    kept = [op.original_line for op in ops if op.kind != "take"]
    assert kept == list(range(len(first.split("\n"))))


def block(old: str, new: str) -> str:
    return f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"


LINES = [f"{'    ' * (i % 3)}value_{i % 3000} = compute({i})" for i in range(20_000)]
BIG = "\n".join([*LINES, ""])
LONG = "a" * 5_000_000
SAME = "x\n" * 20_000


@pytest.mark.parametrize(
    "work",
    [
        lambda: SearchReplace().predict(
            BIG, "".join(block("\n".join(LINES[i : i + 6]), "y") for i in range(0, 9000, 900)), language=None, path=None
        ),
        lambda: SearchReplace().predict(
            BIG, block("\n".join(LINES[9000:9300]).replace("= c", "=c ("), "y"), language=None, path=None
        ),
        lambda: SearchReplace().predict(SAME, block("x\n" * 4000 + "x", "y"), language=None, path=None),
        lambda: UnifiedDiff().predict(
            SAME, "".join(f"@@ -{i} +{i} @@\n-x\n+y\n" for i in range(1, 500)), language=None, path=None
        ),
        lambda: SearchReplace().predict(LONG, block("aaa", "b"), language=None, path=None),
        lambda: UnifiedDiff().predict(LONG, f"@@ -1 +1 @@\n-{LONG}\n+b\n", language=None, path=None),
        lambda: detect_format(LONG, named=None),
        lambda: detect_format("@@ @@\n" + "-- \n" * 20_000, named=None),
        lambda: detect_format("<<<<<<< SEARCH\n" * 20_000, named=None),
    ],
    ids=["blocks", "misquote", "same", "hunks", "long", "long diff", "detect long", "detect signs", "detect fences"],
)
def test_large_inputs_neither_hang_nor_crash(work: Callable[[], object]) -> None:
    with no_hang():
        try:
            result = work()
        except ApplyError as error:
            result = error.code
    assert result
