"""The options of `apply-eval run` as values."""

from __future__ import annotations

import pytest

from apply_eval.cli import build_parser
from apply_eval.run import options_of


@pytest.mark.parametrize(
    ("line", "strategy"),
    [
        ([], "model"),
        (["--strategy", "auto"], "auto"),
        (["--server", "http://127.0.0.1:1"], "auto"),
        (["--server", "http://127.0.0.1:1", "--strategy", "exact"], "exact"),
    ],
)
def test_drafters_are_compared_token_by_token_and_servers_as_they_come(line: list[str], strategy: str) -> None:
    assert options_of(build_parser().parse_args(["run", *line, "--out", "runs/x"])).request.strategy == strategy
