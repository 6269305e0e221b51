"""Markers inside a line of code: `port: // ... existing ...`, `def load(xs): ...`, `func f() { /* ... */ }`.

The line stands for a line of the file, or for a whole definition whose header it begins.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from apply_service.edits.markers import MAX_NOTE_LENGTH, Role, is_marker, strip_comment

_COMMENT = re.compile(r"(?:#|//|/\*|<!--|--)")
_DOTS = re.compile(r"(?:\.{3}|…)$|/\*\s*(?:\.{3}|…)[^*]{0,80}\*/$")
_OPENERS = {"{": "}", "(": ")", "[": "]"}


def read_inline(line: str, known: Collection[str]) -> str | None:
    """The line without the marker inside it; None where it has none, or the file has the line as it is."""
    if len(line) > 4 * MAX_NOTE_LENGTH or not any(sign in line for sign in ("...", "…", "/*")) or line.strip() in known:
        return None
    if strip_comment(line).is_comment:
        return None
    return _inside(line) or _behind(line, known)


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


def _inside(line: str) -> str | None:
    """`header { ... }`, `header(/* ... */) {`, `def header(): ...`."""
    text = line.rstrip()
    if text.endswith((": ...", ": …")) and text.lstrip().startswith(("def ", "class ", "async def ")):
        return text[: text.rindex(":") + 1]
    if text.endswith(("; ...; end", "; …; end")):
        return text[: text.rindex(";", 0, -5)]
    for opener, closer in _OPENERS.items():
        end = text.rfind(closer)
        start = text.rfind(opener, 0, end) if end > 0 else -1
        inner = text[start + 1 : end].strip() if start >= 0 else ""
        if not _DOTS.match(inner) and not (inner.startswith("/*") and is_marker(inner)):
            continue
        if opener == "{" and not text[end + 1 :].strip(" ;,)"):
            return text[: start + 1]
        return text[: start + 1] + "..." + text[end:]
    return None


def read_inline_markers(lines: Sequence[str], roles: Sequence[Role], known: Collection[str]) -> dict[int, str]:
    """The lines with a marker inside, by number."""
    found = {}
    for i, line in enumerate(lines):
        inline = read_inline(line, known) if roles[i] is Role.CONTENT else None
        if inline is not None:
            found[i] = inline
    return found
