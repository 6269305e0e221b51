"""Large inputs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from apply_service.errors import ApplyError
from apply_service.formats import search_replace, unified_diff
from apply_service.protocols import EditContext
from apply_service.reply.reader import detect_format
from tests.effort import no_hang


def block(old: str, new: str) -> str:
    return f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"


LINES = [f"{'    ' * (i % 3)}value_{i % 3000} = compute({i})" for i in range(20_000)]
BIG = "\n".join([*LINES, ""])
LONG = "a" * 5_000_000
SAME = "x\n" * 20_000


@pytest.mark.parametrize(
    "work",
    [
        lambda: search_replace.predict(
            BIG, "".join(block("\n".join(LINES[i : i + 6]), "y") for i in range(0, 9000, 900)), EditContext()
        ),
        lambda: search_replace.predict(
            BIG, block("\n".join(LINES[9000:9300]).replace("= c", "=c ("), "y"), EditContext()
        ),
        lambda: search_replace.predict(SAME, block("x\n" * 4000 + "x", "y"), EditContext()),
        lambda: unified_diff.predict(SAME, "".join(f"@@ -{i} +{i} @@\n-x\n+y\n" for i in range(1, 500)), EditContext()),
        lambda: search_replace.predict(LONG, block("aaa", "b"), EditContext()),
        lambda: unified_diff.predict(LONG, f"@@ -1 +1 @@\n-{LONG}\n+b\n", EditContext()),
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
