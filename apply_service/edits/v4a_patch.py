"""V4A patches (`*** Begin Patch`) as an edit format.

What they say is `v4a_parser`'s work, where their hunks belong `hunk_places`'s.  They carry no line numbers: a hunk is
found by its context, below the scopes that its `@@` lines name.
"""

from __future__ import annotations

from apply_service.edits.envelope import is_around
from apply_service.edits.file_change import pick_change, predict_change
from apply_service.edits.trust import Trust
from apply_service.edits.unified_diff import with_found_context
from apply_service.edits.v4a_parser import CALL, is_patch_line, parse_v4a
from apply_service.errors import MalformedEdit
from apply_service.types import Certainty, Prediction


class V4APatch:
    """The `EditFormat` of V4A patches."""

    name = "v4a_patch"

    def detect(self, update: str) -> bool:
        """Whether a patch, complete or not, is all there is but blanks, fences and sentences."""
        lines = update.split("\n")
        first = next((line for line in lines if is_patch_line(line) or not (is_around(line) or CALL.match(line))), "")
        if not is_patch_line(first):
            return False
        try:
            return not parse_v4a(update).strays
        except MalformedEdit:
            return True

    def predict(self, original: str, update: str, *, language: str | None, path: str | None) -> Prediction:  # noqa: ARG002
        """The original with the patch's hunks for this file applied.

        Raises:
            MalformedEdit: no patch, or not for this file.
            NeedsMoreContext: a hunk has no place in the file.
        """
        trust = Trust()
        text = parse_v4a(update)
        if text.strays:
            trust.lower(Certainty.LIKELY, f"line {text.strays[0] + 1} lies outside the patch and was left out")
        change = pick_change(text.changes, path, trust)
        return predict_change(original, update, with_found_context(change, original, update), trust)
