"""Progress in a log: few lines, and an honest guess of the time left."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from apply_eval.commands.progress import Lines, progress


def test_a_log_gets_a_line_a_minute() -> None:
    out, now = StringIO(), [0.0]
    lines = Lines(Console(file=out), total=100, done=10, clock=lambda: now[0])
    for _ in range(40):
        now[0] += 6.0
        lines("plain")
    said = out.getvalue().splitlines()
    assert len(said) == 4
    assert said[0] == "20 of 100, about 8 minutes left"  # 10 in a minute, 80 to go
    assert said[-1] == "50 of 100, about 5 minutes left"


def test_a_terminal_gets_a_bar() -> None:
    out = StringIO()
    with progress(4, 1, console=Console(file=out, force_terminal=True, width=100)) as advance:
        advance("plain")
    assert "2/4" in out.getvalue()
