"""The generated parts of the page on edits: the tool calls that are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from docs.tables import table
from tests.edits.call_forms import FORMS, Form


def call_forms() -> str:
    """Every form of tool call that the tests hold: who sends it, and what becomes of it."""
    return table(("call", "sent by", "read as"), ((form.name, form.sent_by, _outcome(form)) for form in FORMS))


def _outcome(form: Form) -> str:
    if form.wanted is None:
        return f"refused: `{form.error}`"
    return f"`{form.format}`, in doubt" if form.is_doubted else f"`{form.format}`"


EDIT_PARTS: Mapping[str, Callable[[], str]] = {"call-forms": call_forms}
