"""The first example of the README: its file, its snippet, what comes out, and the picture of that.  And the curve of
what one question is worth, from committed results.

The program alone decides it here, so no model is loaded; a test runs the README's own command.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from html import escape
from pathlib import Path

from apply_service.errors import ModelError
from apply_service.pipeline import apply
from apply_service.target import Decider, Runtime
from apply_service.types import ApplyRequest, ApplyResult

FILE = '''\
def total(items):
    """What all items cost, with two decimals."""
    cost = sum(item.price * item.quantity for item in items)
    return round(cost, 2)


def receipt(items):
    lines = [f"{item.quantity} x {item.name}" for item in items]
    lines.append(f"Total: {total(items)}")
    return "\\n".join(lines)
'''
SNIPPET = """\
def total(items, discount=0):
    \"\"\"What all items cost, with two decimals.\"\"\"
    # ... existing code ...
    return round(cost * (1 - discount), 2)


def receipt(items):
    if not items:
        return "Nothing to pay."
    lines = [f"{item.quantity} x {item.name}" for item in items]
    # ... existing code ...
"""
NAMES = ("shop.py", "snippet.txt")
COMMAND = f"apply-service apply {NAMES[0]} {NAMES[1]} --diff"


@cache
def answer() -> ApplyResult:
    """The service's answer to the example, by the program alone."""

    def no_model(name: str) -> Decider:
        raise ModelError("no model takes part", value=name)

    request = ApplyRequest(FILE, SNIPPET, path=NAMES[0], strategy="exact", diff=True)
    return apply(request, Runtime(load=no_model))


def first_edit() -> str:
    """File, snippet and command as one shell script, and its output."""
    files = "".join(f"cat > {name} <<'END'\n{text}END\n" for name, text in zip(NAMES, (FILE, SNIPPET), strict=True))
    return f"```sh\n{files}{COMMAND}\n```\n\n```diff\n{answer().diff}```\n"


# -- the picture -------------------------------------------------------------------------------------------------------
WIDTH, LINE, FONT, TOP, LEFT, PANE = 1150, 20, 13.5, 66, 20, 580
COLOURS = {"paper": "#14171a", "card": "#1c2126", "ink": "#e6e9ec", "muted": "#9aa5b1", "+": "#16331f", "-": "#3f1a22"}


def picture() -> str:
    """The snippet on the left, what becomes of the file on the right, and how sure that is, as SVG."""
    result = answer()
    snippet, changed = SNIPPET.splitlines(), _changed_lines(result)
    height = TOP + LINE * (max(len(snippet), len(changed)) + 3)
    sure = "" if result.confidence is None else f"{result.confidence:.0%} sure · "
    n_checks = sum(verdict.is_pass for verdict in result.verdicts)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{FONT}" role="img">',
        f"<title>{escape(COMMAND)}: the snippet, and the file with what goes in red and what comes in green</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{COLOURS["paper"]}"/>',
        _text(LEFT, 28, f"$ {COMMAND}", "ink"),
        _text(LEFT, TOP - 10, "what the model wrote", "muted"),
        _text(PANE, TOP - 10, "what becomes of shop.py", "muted"),
        f'<rect x="8" y="{TOP}" width="{PANE - 28}" height="{height - TOP - 2 * LINE}" fill="{COLOURS["card"]}"/>',
        *(_text(LEFT, _base(at), line, "muted" if "..." in line else "ink") for at, line in enumerate(snippet)),
    ]
    for at, (sign, line) in enumerate(changed):
        if sign != " ":
            y = TOP + LINE * at
            parts.append(
                f'<rect x="{PANE - 8}" y="{y}" width="{WIDTH - PANE}" height="{LINE}" fill="{COLOURS[sign]}"/>'
            )
        parts.append(_text(PANE, _base(at), f"{sign} {line}", "muted" if sign == " " else "ink"))
    parts.append(_text(LEFT, height - 14, f"{sure}{n_checks} checks passed · every other byte as it was", "muted"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _changed_lines(result: ApplyResult) -> list[tuple[str, str]]:
    """Sign and text of each line of the diff, without its headers."""
    lines = (result.diff or "").splitlines()
    return [(line[0], line[1:]) for line in lines if line[:1] in (" ", "+", "-") and line[:3] not in ("+++", "---")]


def _base(at: int) -> int:
    return TOP + LINE * at + 15


def _text(x: int, y: int, text: str, colour: str) -> str:
    return f'<text x="{x}" y="{y}" fill="{COLOURS[colour]}" xml:space="preserve">{escape(text)}</text>'


# -- the curve ---------------------------------------------------------------------------------------------------------
RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
CURVE_OF = ("merge_check.json", "merge-dev-model-written.json", "merge-dev-sketched.json")
LEFT_AXIS, TOP_AXIS, PLOT_WIDTH, PLOT_HEIGHT = 70, 40, 560, 280
LOWEST = 0.9
"""The share at which the vertical axis begins."""


def question_curve() -> str:
    """Of the committed merges together: the share of right answers against the share of edits that a question is asked
    about, with a question and without one, as SVG."""
    results = [json.loads((RESULTS / name).read_text(encoding="utf-8")) for name in CURVE_OF]
    n = sum(one["n_total"] for one in results)
    points = [
        [sum(one["one_question"]["curve"][at][column] * one["n_total"] for one in results) / n for column in (1, 2, 3)]
        for at in range(len(results[0]["one_question"]["curve"]))
    ]
    lines = {
        "right within one question": ("#2e9e5b", [(asked, right) for asked, right, _ in points]),
        "not wrong without a question": ("#c96f2b", [(asked, 1 - wrong) for asked, _, wrong in points]),
    }
    height = TOP_AXIS + PLOT_HEIGHT + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT_AXIS + PLOT_WIDTH + 30} {height}" '
        f'font-family="DejaVu Sans, Arial, sans-serif" font-size="13" role="img">',
        "<title>How many edits are right if a question is asked about the doubted ones</title>",
        f'<rect width="{LEFT_AXIS + PLOT_WIDTH + 30}" height="{height}" fill="#ffffff"/>',
    ]
    for tenth in range(round(LOWEST * 20), 21):
        y = _up(tenth / 20)
        parts.append(f'<path d="M{LEFT_AXIS} {y}H{LEFT_AXIS + PLOT_WIDTH}" stroke="#d5dae0"/>')
        parts.append(f'<text x="{LEFT_AXIS - 8}" y="{y + 4}" text-anchor="end" fill="#444">{tenth * 5}%</text>')
    for tenth in range(0, 11, 2):
        x = _along(tenth / 10)
        parts.append(f'<text x="{x}" y="{height - 38}" text-anchor="middle" fill="#444">{tenth * 10}%</text>')
    parts.append(
        f'<text x="{_along(0.5)}" y="{height - 14}" text-anchor="middle" fill="#222">asked, of {n} edits</text>'
    )
    for at, (name, (colour, line)) in enumerate(lines.items()):
        path = " ".join(f"{_along(x)},{_up(y)}" for x, y in sorted(line))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(f'<text x="{LEFT_AXIS + 12 + 260 * at}" y="22" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _along(share: float) -> float:
    return round(LEFT_AXIS + share * PLOT_WIDTH, 1)


def _up(share: float) -> float:
    return round(TOP_AXIS + (1 - max(share, LOWEST)) / (1 - LOWEST) * PLOT_HEIGHT, 1)


README_PARTS: Mapping[str, Callable[[], str]] = {"first-edit": first_edit}
PICTURES: Mapping[str, Callable[[], str]] = {"preview.svg": picture, "one-question.svg": question_curve}
