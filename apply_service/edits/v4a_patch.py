"""V4A patches (`*** Begin Patch`) as an edit format.

What they say is `v4a_parser`'s work, where their hunks belong `hunk_places`'s.  They carry no line numbers: a hunk is
found by its context, below the scopes that its `@@` lines name.
"""

from __future__ import annotations

from apply_service.edits.file_change import pick_change, predict_change
from apply_service.edits.trust import Trust
from apply_service.edits.unified_diff import with_found_context
from apply_service.edits.v4a_parser import parse_v4a
from apply_service.types import Prediction


class V4APatch:
    """The `EditFormat` of V4A patches."""

    name = "v4a_patch"

    def predict(
        self,
        original: str,
        update: str,
        *,
        language: str | None,  # noqa: ARG002
        path: str | None,
        instruction: str = "",  # noqa: ARG002
    ) -> Prediction:
        """The original with the patch's hunks for this file applied; what stands around the patch is left out.

        Raises:
            MalformedEdit: no patch, or not for this file.
            NeedsMoreContext: a hunk has no place in the file.
        """
        trust = Trust()
        change = pick_change(parse_v4a(update).changes, path, trust)
        return predict_change(original, update, with_found_context(change, original, update), trust)
