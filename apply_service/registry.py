"""Lists implementations by name, in the form "module:attribute".  They are imported on first use, so that exact formats
never load torch.

To add a drafter, write its class; to add a check, write its function; to add an edit format, write a file with
`predict` and `recognise`.  Then add a line here.  Prompt formats are in `prompts.by_model`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

EDIT_FORMATS = {
    "search_replace": "apply_service.formats.search_replace:predict",
    "v4a_patch": "apply_service.formats.v4a:predict",
    "unified_diff": "apply_service.formats.unified_diff:predict",
    "hashline": "apply_service.formats.hashline:predict",
    "json_edit": "apply_service.formats.json_edit:predict",
    "conflict_markers": "apply_service.formats.conflict_markers:predict",
    "whole_file": "apply_service.formats.whole_file:predict",
    "lazy_snippet": "apply_service.formats.lazy_snippet:predict",
}
"""If a reply has the marks of several formats, `reply.reader` takes the first in this order.  The last format has no
marks."""

CHECKS = {
    "marker_leak": "apply_service.checks.leaks:find_marker_leak",
    "truncation": "apply_service.checks.changes:find_truncation",
    "no_op": "apply_service.checks.changes:find_no_op",
    "outside_edit": "apply_service.checks.changes:find_outside_edit",
    "symbols": "apply_service.checks.code:find_symbol_changes",
    "syntax": "apply_service.checks.code:find_broken_syntax",
    "chat_text": "apply_service.checks.leaks:find_chat_text",
    "indentation": "apply_service.checks.code:find_odd_indentation",
    "edit_markup": "apply_service.checks.leaks:find_edit_markup",
}

COPY_DRAFTERS = {
    "original": "apply_service.drafting.copy:Original",
    "original_snippet": "apply_service.drafting.copy:OriginalSnippet",
    "merged_edit": "apply_service.drafting.copy:MergedEdit",
}
LOOKUP_DRAFTERS = {
    "prompt_lookup": "apply_service.drafting.lookup:PromptLookup",
    "suffix": "apply_service.drafting.lookup:Suffix",
}
HEADS = {
    "self_speculation": "apply_service.engine.heads.self_speculation:SelfSpeculation",
    "medusa": "apply_service.engine.heads.medusa:Medusa",
    "eagle3": "apply_service.engine.heads.eagle3:Eagle3",
    "mtp": "apply_service.engine.heads.mtp:Mtp",
}
"""Draft heads, which draft inside the target's engine.  `drafting.written:HeadDrafter` uses them."""
NOVEL_DRAFTERS = {
    "lookahead": "apply_service.drafting.lookahead:Lookahead",
    "draft_model": "apply_service.drafting.model:DraftModel",
    **dict.fromkeys(HEADS, "apply_service.drafting.written:HeadDrafter"),
}
OWN_FILES = ("medusa", "eagle3")
"""The heads that come in a folder of their own (`draft_head`)."""
NO_DRAFTS = "none"
DRAFTERS = {
    NO_DRAFTS: "apply_service.drafting.drafter:NoDraft",
    **COPY_DRAFTERS,
    **LOOKUP_DRAFTERS,
    **NOVEL_DRAFTERS,
}
"""`drafting.drafter` chains one drafter of each kind, in this order: `merged_edit+suffix`,
`merged_edit+suffix+draft_model`."""


def head_of(drafter: str) -> str | None:
    """Return the part of a drafter's name that names a draft head; None if it names none."""
    return next((part for part in drafter.split("+") if part in HEADS), None)


def resolve(table: dict[str, str], name: str) -> Any:
    """Return the object with this name.  Raises KeyError for an unknown name."""
    module, _, attribute = table[name].partition(":")
    return getattr(import_module(module), attribute)


def beside(table: dict[str, str], name: str, attribute: str, default: Any) -> Any:
    """Return another attribute of the object's module, or the default if the module lacks it."""
    return getattr(import_module(table[name].partition(":")[0]), attribute, default)
