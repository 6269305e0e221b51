"""Remarks that models write behind a line of code ("// <- changed", "# new") and that are no part of the file.

Only the text of a line is looked at.  Part of reading a snippet, after `markers` and before the alignment.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from apply_service.edits.markers import MAX_NOTE_LENGTH

_HASH = r"#"
_SLASH = r"//"
_DASH = r"--"
_SIGNS = {
    "python": _HASH, "ruby": _HASH, "yaml": _HASH, "toml": _HASH, "bash": _HASH, "shell": _HASH,
    "sql": _DASH, "lua": _DASH, "haskell": _DASH,
    "php": rf"{_SLASH}|{_HASH}", "html": "<!--", "markdown": "<!--", "css": rf"/\*|{_SLASH}",
}  # fmt: skip
_C_LIKE = rf"{_SLASH}|/\*|\{{/\*"
_ANY = rf"{_SLASH}|/\*|\{{/\*|{_HASH}|{_DASH}|<!--"
# fmt: off
_C_LANGUAGES = frozenset(
    [
        "javascript", "typescript", "tsx", "go", "rust", "java", "c", "cpp",
        "csharp", "kotlin", "swift", "scala", "dart", "vue", "svelte", "json",
    ]
)
# fmt: on

_ARROW = r"(?:<[-=]+|←|⬅|⟵|\^{2,})\s?.{0,80}"
_PLAIN = (
    r"(?:new|changed|updated|modified|added|fixed|edited|replaced|renamed|moved)"
    r"(?:\s(?:line|here|this|this line|code|import|field|param|parameter|arg|argument))?\s*[!.:]?"
)
_TOLD = (
    r"(?:was|previously|formerly|used to be|changed from|updated from|renamed from|moved from|changed to|now uses|"
    r"updated to|modified to|replaces|instead of|new:|added:|changed:|updated:|fixed:|modified:)\s?.{1,80}"
)


_POINTED = re.compile(rf"^\W*(?:{_PLAIN})?\W*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Remark:
    """A line without its remark.  `is_sure`: pointed at with an arrow; a plain word might be the author's own."""

    code: str
    is_sure: bool
    is_told: bool = False
    """An arrow that says more than that the line is new."""


def _pattern(signs: str) -> re.Pattern[str]:
    return re.compile(
        rf"^(?P<code>.*?\S)\s+(?:{signs})\s*(?:(?P<arrow>{_ARROW})|(?P<plain>{_PLAIN}|{_TOLD}))\s*(?:\*/\s*\}}?|-->)?\s*$",
        re.IGNORECASE,
    )


_PATTERNS = {signs: _pattern(signs) for signs in {*_SIGNS.values(), _C_LIKE, _ANY}}


def split_remark(line: str, language: str | None, known: Collection[str]) -> Remark | None:
    """The line's code without the remark behind it; None where there is no remark, or the file itself has it."""
    if len(line) > 4 * MAX_NOTE_LENGTH or line.strip() in known:
        return None
    signs = _SIGNS.get(language or "", _C_LIKE if language in _C_LANGUAGES else _ANY)
    match = _PATTERNS[signs].match(line)
    if match is None or not any(map(str.isprintable, match["code"])):
        return None
    code = match["code"].rstrip()
    arrow = match["arrow"]
    is_known = code.strip() in known
    is_plain = arrow is not None and _POINTED.match(arrow) is not None
    return Remark(code, is_plain or is_known, arrow is not None and not (is_plain or is_known))
