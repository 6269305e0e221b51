"""The cases of the contract: files, edits and answers that an editor must cope with, made from the service's own types.

Says what the answers are; how they look on the wire is `generate`'s part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from apply_service import errors
from apply_service.errors import ApplyError
from apply_service.formats.carry_over import carry_over
from apply_service.formats.hunks import Trust
from apply_service.pipeline import attribute_ops, origin_spans
from apply_service.text.diff import text_hunks
from apply_service.types import (
    ApplyResult,
    Certainty,
    DecodeStats,
    FinishReason,
    Hunk,
    Prediction,
    Verdict,
)

PASSED = (Verdict("no_op", "pass"), Verdict("syntax", "pass"))
ODD = (Verdict("no_op", "pass"), Verdict("syntax", "warning", "line 2 is odd", (2, 2)))


@dataclass(frozen=True)
class EditCase:
    """An edit that is answered."""

    name: str
    about: str
    original: str
    update: str
    merged: str
    path: str | None = "sample.py"
    base: str | None = None
    """The text that the edit was made for, where the file was changed since."""
    format: str | None = None
    strategy: str = "auto"
    confidences: tuple[float, ...] = ()
    """Of the hunks; with none, the program decided."""
    verdicts: tuple[Verdict, ...] = PASSED


ERROR_REQUEST: Mapping[str, str] = {"original": "old\n", "update": "new\n", "path": "sample.py"}


@dataclass(frozen=True)
class ErrorCase:
    """A request that ends in an error: before the first byte, or (`tokens`) after it."""

    name: str
    about: str
    error: ApplyError
    tokens: tuple[str, ...] = field(default=())
    request: Mapping[str, str] = field(default_factory=lambda: ERROR_REQUEST)


THREE = "import os\n\n\ndef first():\n    return 1\n\n\ndef second():\n    return 2\n\n\ndef third():\n    return 3\n"
THREE_MERGED = (
    "import os\nimport sys\n\n\ndef first():\n    return 10\n\n\ndef second():\n    return 2\n\n\n"
    "def third():\n    # checked\n    return 30\n"
)
THREE_UPDATE = "import sys\n# ... existing code ...\n    return 10\n# ... existing code ...\n    return 30\n"

THREE_TYPED = THREE.replace("    return 2\n", "    return 2  # typed\n")
"""The file of three hunks, changed by its user since the request."""

CRLF, CRLF_UPDATE = "a = 1\r\nb = 2\r\nc = 3\r\n", "b = 20\n"


def text_edit(before: str, after: str) -> str:
    """Return the edit that makes the one text of the other: a model's text, or what is left of a proposal."""
    return json.dumps({"old_string": before, "new_string": after}, ensure_ascii=False, separators=(",", ":"))


EDITS = (
    EditCase(
        "three_hunks",
        "Three hunks; lines from the update and one of the model's own.",
        THREE,
        THREE_UPDATE,
        THREE_MERGED,
        confidences=(0.99, 0.75, 0.5),
        verdicts=ODD,
    ),
    EditCase("crlf", "Windows line ends.", CRLF, CRLF_UPDATE, "a = 1\r\nb = 20\r\nc = 3\r\n"),
    EditCase(
        "byte_order_mark",
        "A byte-order mark before the first line, which is edited.",
        "\ufeffa = 1\nb = 2\n",
        "a = 10\n",
        "\ufeffa = 10\nb = 2\n",
    ),
    EditCase("final_newline_lost", "The last line end goes.", "a = 1\nb = 2\n", "b = 2", "a = 1\nb = 2"),
    EditCase("final_newline_gained", "The last line gets its end.", "a = 1\nb = 2", "b = 2\n", "a = 1\nb = 2\n"),
    EditCase(
        "astral",
        "Characters of two UTF-16 units and of two to four bytes before the places that change.",
        "s = '😀é' + one\nt = '𝔘' + two\n",
        "s = '😀é' + eins\nt = '𝔘' + zwei\n",
        "s = '😀é' + eins\nt = '𝔘' + zwei\n",
        confidences=(0.9,),
    ),
    EditCase("new_file", "An empty file is filled.", "", "a = 1\nb = 2\n", "a = 1\nb = 2\n", path=None),
    EditCase("emptied", "Nothing is left.", "a = 1\nb = 2\n", "", ""),
    EditCase("no_change", "The edit was applied before.", "a = 1\n", "a = 1\n", "a = 1\n"),
    EditCase(
        "mixed_line_ends", "Both kinds of line end in one file.", "a\r\nb\nc\r\nd\n", "b2\n", "a\r\nb2\nc\r\nd2\n"
    ),
    EditCase("line_end_changed", "One Windows line end becomes a line feed.", "a\r\nb\r\n", "a\nb\r\n", "a\nb\r\n"),
    EditCase(
        "carried_over",
        "The file of crlf was changed since the request: the same edit with its base, merged with the change.",
        CRLF + "d = 4\r\n",
        CRLF_UPDATE,
        "a = 1\r\nb = 20\r\nc = 3\r\nd = 4\r\n",
        base=CRLF,
    ),
    EditCase(
        "carried_text",
        "The file of three_hunks was changed since the request: what the model wrote, merged with the change.",
        THREE_TYPED,
        text_edit(THREE, THREE_MERGED),
        THREE_MERGED.replace("    return 2\n", "    return 2  # typed\n"),
        base=THREE,
        format="json_edit",
        strategy="exact",
    ),
)


def conflict(base: str, edited: str, newer: str) -> ApplyError:
    """Return the error of an edit that changes what the file has changed as well."""
    prediction = Trust().prediction_of(base, edited, edited.split("\n"))
    try:
        carry_over(base, prediction, newer)
    except errors.EditConflict as error:
        return error
    raise AssertionError("the two texts can be merged")


ERRORS = (
    ErrorCase(
        "wrong_key",
        "The key is none of the service's.",
        errors.Unauthorized("The API key is not known.", remedy="Send a key of this service."),
    ),
    ErrorCase(
        "stale_base",
        "The file is not the one the edit was made for.",
        errors.StaleBase(
            "The original is another file.", value="a" * 64, limit="b" * 64, remedy="Read the file again."
        ),
    ),
    ErrorCase(
        "needs_more_context",
        "The edit does not say where it belongs.",
        errors.NeedsMoreContext(
            "No place found.", value="def lost", limit="one place", remedy="Show the lines around the edit."
        ),
    ),
    ErrorCase(
        "overloaded",
        "The queue is full; waiting helps.",
        errors.Overloaded("The queue is full.", value=64, limit=64, remedy="Try again soon."),
    ),
    ErrorCase(
        "failing_stream",
        "The engine fails after the first provisional text.",
        errors.EngineFailure("The engine crashed on this request.", remedy="See the service's log."),
        tokens=("import os\n",),
    ),
    ErrorCase(
        "edit_conflict",
        "The file was changed since the request in the lines that the edit changes, at two places.",
        conflict(THREE, THREE_MERGED, THREE.replace("return 1", "return 11").replace("    return 3\n", "")),
        request={
            "original": THREE.replace("return 1", "return 11").replace("    return 3\n", ""),
            "base": THREE,
            "update": text_edit(THREE, THREE_MERGED),
            "path": "sample.py",
            "format": "json_edit",
            "strategy": "exact",
        },
    ),
)


def result_of(case: EditCase) -> ApplyResult:
    """The answer, as the service would put it together; times and counts are made up."""
    found = text_hunks(case.original, case.merged)
    is_from_model = bool(case.confidences)
    return ApplyResult(
        merged_code=case.merged,
        strategy="model" if is_from_model else "exact",
        finish_reason=FinishReason.STOP,
        format="lazy_snippet",
        language="python",
        model="embedded" if is_from_model else None,
        drafter="merged_edit" if is_from_model else None,
        certainty=Certainty.CERTAIN,
        reasons=(),
        agreement=True if is_from_model else None,
        determinism="bitwise" if is_from_model else None,
        verdicts=case.verdicts,
        edits=tuple(edit for hunk in found for edit in hunk.edits),
        hunks=_hunks(case),
        spans=origin_spans(attribute_ops(case.original, case.merged, _prediction(case)), is_from_model=is_from_model),
        confidence=min(case.confidences, default=None),
        confidence_kind="calibrated" if is_from_model else None,
        source_sha256=_sha256(case.original),
        result_sha256=_sha256(case.merged),
        encoding="utf-8",
        seed=0,
        stats=_stats() if is_from_model else DecodeStats(),
        timings_s={"predict": 0.001},
    )


def _hunks(case: EditCase) -> tuple[Hunk, ...]:
    hunks, n_edits = [], 0
    found = text_hunks(case.original, case.merged)
    assert not case.confidences or len(case.confidences) == len(found), case.name
    for i, (lines, edits) in enumerate(found):
        confidence = case.confidences[i] if case.confidences else None
        hunks.append(Hunk(*lines, n_edits, n_edits + len(edits), confidence))
        n_edits += len(edits)
    return tuple(hunks)


def _prediction(case: EditCase) -> Prediction:
    return Prediction(ops=(), update_lines=tuple(case.update.splitlines()), certainty=Certainty.CERTAIN)


def _stats() -> DecodeStats:
    return DecodeStats(
        prompt_tokens=60,
        completion_tokens=40,
        passes=4,
        drafted_tokens=38,
        accepted_tokens=36,
        rejections=1,
        accepted_by_source={"predicted": 36},
        prefill_s=0.25,
        decode_s=0.5,
    )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
