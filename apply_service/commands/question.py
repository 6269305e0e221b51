"""One edit of one file, and the question of which of its readings is meant, where it is in doubt.

On a terminal the user answers it.  Elsewhere nobody is asked: the answer comes with its doubt, and a message names the
option `--reading`.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from apply_service.commands import output
from apply_service.commands.request import Answerer, refused_verdicts
from apply_service.errors import CheckFailed, NeedsMoreContext
from apply_service.merge.rank.question import in_words, short_diff, shown_readings
from apply_service.settings import is_color_wanted
from apply_service.types import DOUBT, OtherReading

Json = dict[str, Any]


def may_ask(arguments: Namespace) -> bool:
    """Whether somebody reads the question and can answer it, and no option has answered it before."""
    is_settled = arguments.quiet or arguments.json or arguments.allow_doubt or arguments.reading is not None
    return not is_settled and all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def answer_edit(arguments: Namespace, answerer: Answerer, request: Json, *, is_asking: bool) -> Json:
    """The answer to a request; with `is_asking` that of the reading that the user takes, where it is in doubt.  Raises
    CheckFailed: the user takes none; ApplyError."""

    def ask_for(asked: Json) -> Json:
        return answerer.edit(json.dumps(asked).encode(), arguments.timeout)

    unclear: NeedsMoreContext | None = None
    try:
        answer = ask_for(request | {"diff": True} if is_asking else request)
    except NeedsMoreContext as error:
        if not error.readings:
            raise
        if not is_asking:
            error.remedy += "; --reading 1 takes the likeliest reading, and --diff shows it"
            raise
        unclear, why = error, error.message
        readings = [OtherReading(**one) for one in error.readings]  # type: ignore[arg-type]
    else:
        doubts = [verdict["message"] for verdict in refused_verdicts(answer, request) if verdict["check"] == DOUBT]
        if not is_asking or not doubts:
            return answer
        why = doubts[0]
        first = OtherReading(answer["reading"] or "", answer["confidence"] or 0.0, "", answer["diff"])
        readings = [first, *(OtherReading(**one) for one in answer["readings"])]
    original = str(request.get("original") or "")
    taken = _ask(arguments.file, why, readings, original, is_colored=is_color_wanted(answerer.settings, True))
    if taken is None:
        remedy = "Show more unchanged lines of the file in the edit."
        raise unclear or CheckFailed(f"{arguments.file}: no reading was taken.", remedy=remedy)
    if unclear is None and taken is readings[0]:  # whoever takes it doubts it no more
        return {**answer, "verdicts": [verdict for verdict in answer["verdicts"] if verdict["check"] != DOUBT]}
    return ask_for(request | {"reading": taken.id, "strategy": "exact"})


def option_for_next(answer: Mapping[str, Any]) -> str:
    """The option that takes the next reading of an answer; empty where there is none."""
    if not answer["readings"]:
        return ""
    # Numbers count from what the merger takes for the likeliest.  A model may have decided against it.
    return "--reading 2" if answer["agreement"] is not False else f"--reading {answer['readings'][0]['id']}"


def _ask(
    name: str, why: str, readings: Sequence[OtherReading], original: str, *, is_colored: bool
) -> OtherReading | None:
    """The reading that the user takes; None where it is none of those shown."""
    numbered = {str(n): one for n, one in enumerate(shown_readings(readings), 1)}
    output.write_note(f"{name}: {'which of these is meant?' if readings[1:] else 'is this meant?'}")
    for reason in output.BETWEEN_REASONS.split(why):
        output.write_note(output.indented(output.visible(reason)))
    for number, one in numbered.items():
        output.write_note(f"Reading {number}{f' ({in_words(one.probability)})' if one.probability else ''}:")
        for line in short_diff(one.diff or "", original) or [one.difference or "Nothing changes."]:
            shown = output.visible(line)
            output.write_note("  " + (output.in_color(shown) if is_colored else shown))
    while True:
        print(f"Take {', '.join(numbered)}, or none (n)? ", end="", file=sys.stderr, flush=True)
        typed = sys.stdin.buffer.readline()
        said = typed.decode("ascii", "replace").strip().lower()
        if said in numbered:
            return numbered[said]
        if not typed or said in ("n", "no", "none"):
            return None
