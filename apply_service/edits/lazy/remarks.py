"""What a line of a snippet carries beside its code: a marker inside it, a remark behind it.

`port: // ... existing ...`, `def load(xs): ...`, `func f() { /* ... */ }`: the line stands for a line of the file, or
for a definition whose header it begins.  "// <- changed", "# new": models write such remarks; the file has none.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from apply_service.edits.markers import MAX_NOTE_LENGTH, is_marker, strip_comment

# -- markers inside a line -----------------------------------------------------------------------------------------

_COMMENT = re.compile(r"(?:#|//|/\*|<!--|--)")
_DOTS = re.compile(r"(?:\.{3}|…)$|/\*\s*(?:\.{3}|…)[^*]{0,80}\*/$")


def read_inline_marker(line: str, known: Collection[str]) -> str | None:
    """The line without the marker inside it; None where it has none, or the file has the line as it is."""
    if len(line) > 4 * MAX_NOTE_LENGTH or not any(sign in line for sign in ("...", "…", "/*")) or line.strip() in known:
        return None
    if strip_comment(line).is_comment:
        return None
    return _inside(line) or _behind(line, known)


def _inside(line: str) -> str | None:
    """`header { ... }`, `header(/* ... */) {`, `def header(): ...`."""
    text = line.rstrip()
    if text.endswith((": ...", ": …")) and text.lstrip().startswith(("def ", "class ", "async def ")):
        return text[: text.rindex(":") + 1]
    if text.endswith(("; ...; end", "; …; end")):
        return text[: text.rindex(";", 0, -5)]
    for opener, closer in ("{}", "()", "[]"):
        end = text.rfind(closer)
        start = text.rfind(opener, 0, end) if end > 0 else -1
        inner = text[start + 1 : end].strip() if start >= 0 else ""
        if not _DOTS.match(inner) and not (inner.startswith("/*") and is_marker(inner)):
            continue
        if opener == "{" and not text[end + 1 :].strip(" ;,)"):
            return text[: start + 1]
        return text[: start + 1] + "..." + text[end:]
    return None


def _behind(line: str, known: Collection[str]) -> str | None:
    """`code  # ... unchanged` and `code { // ...`."""
    for sign in _COMMENT.finditer(line):
        head, note = line[: sign.start()].rstrip(), line[sign.start() :]
        is_text = any(head.count(quote) % 2 for quote in "\"'`")
        has_dots = note[len(sign.group()) :].lstrip().startswith(("...", "…"))
        if not head.strip() or is_text or not has_dots or not is_marker(note):
            continue
        if head.strip() in ("...", "…"):
            return head
        has_value = head.strip() not in known and any(line.startswith(head.strip()) for line in known)
        is_opener = head.endswith(("{", ":", "(", "[", "=>")) and not has_value
        return head if is_opener or head.strip() in known else head + " ..."
    return None


# -- remarks behind a line -----------------------------------------------------------------------------------------

_C_SIGNS = r"//|/\*|\{/\*"
_ANY_SIGNS = rf"{_C_SIGNS}|#|--|<!--"
_C_LIKE = "javascript typescript tsx go rust java c cpp csharp kotlin swift scala dart vue svelte json"
_SIGNS = {
    **dict.fromkeys(_C_LIKE.split(), _C_SIGNS),
    **dict.fromkeys(("python", "ruby", "yaml", "toml", "bash", "shell"), "#"),
    **dict.fromkeys(("sql", "lua", "haskell"), "--"),
    **dict.fromkeys(("html", "markdown"), "<!--"),
    "php": "//|#",
    "css": r"/\*|//",
}
_PLAIN = (
    r"(?:new|changed|updated|modified|added|fixed|edited|replaced|renamed|moved)"
    r"(?:\s(?:line|here|this|this line|code|import|field|param|parameter|arg|argument))?\s*[!.:]?"
)
_TOLD = (
    r"(?:was|previously|formerly|used to be|changed from|updated from|renamed from|moved from|changed to|now uses|"
    r"updated to|modified to|replaces|instead of|new:|added:|changed:|updated:|fixed:|modified:)\s?.{1,80}"
)
_PATTERNS = {
    signs: re.compile(
        rf"^(?P<code>.*?\S)\s+(?:{signs})\s*(?:(?P<arrow>(?:<[-=]+|←|⬅|⟵|\^{{2,}})\s?.{{0,80}})|(?:{_PLAIN}|{_TOLD}))"
        r"\s*(?:\*/\s*\}?|-->)?\s*$",
        re.IGNORECASE,
    )
    for signs in {*_SIGNS.values(), _ANY_SIGNS}
}
_BARE_ARROW = re.compile(rf"^\W*(?:{_PLAIN})?\W*$", re.IGNORECASE)


class Remark(NamedTuple):
    """A line without its remark.  `is_sure`: pointed at with an arrow; a plain word might be the author's own."""

    code: str
    is_sure: bool
    is_told: bool
    """An arrow that says more than that the line is new."""


def split_remark(line: str, language: str | None, known: Collection[str]) -> Remark | None:
    """The line's code without the remark behind it; None where there is no remark, or the file itself has it."""
    if len(line) > 4 * MAX_NOTE_LENGTH or line.strip() in known:
        return None
    match = _PATTERNS[_SIGNS.get(language or "", _ANY_SIGNS)].match(line)
    if match is None or not any(map(str.isprintable, match["code"])):
        return None
    code, arrow = match["code"].rstrip(), match["arrow"]
    is_sure = code.strip() in known or (arrow is not None and _BARE_ARROW.match(arrow) is not None)
    return Remark(code, is_sure, is_told=arrow is not None and not is_sure)
