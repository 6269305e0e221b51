"""The wordings by which a line says "existing code stands here".  Stricter than what the merger accepts in a snippet,
because here a line of a real file must never be taken for one."""

from __future__ import annotations

import re

MAX_MARKER_CHARS = 200

COMMENT = re.compile(
    r"^(?:\{?/\*+|<!--|\{#|//+!?|#+!?|--+|;+|%+|\*|\"\"\"|''')\s*(?P<core>.*?)\s*(?:\*+/\}?|-->|#\}|\"\"\"|''')?$"
)
DOTS = r"(?:\.{3,}|…)"
SUBJECT = (
    r"(?:existing|(?:the )?rest of|remaining|unchanged|unmodified|same as|as before|omitted|previous (?:code|content)"
    r"|other (?:code|methods|functions|imports|fields|props|tests|cases|routes)|original code"
    r"|keep (?:the )?(?:rest|existing|same))"
)
WITH_DOTS = re.compile(rf"^[\[(<]?\s*{DOTS}.*\b{SUBJECT}\b|\b{SUBJECT}\b[^.]*{DOTS}\s*[\])>]?$", re.IGNORECASE)
BARE = re.compile(rf"^[\[(<]?{DOTS}(?:\s+\w|.*\w\s*{DOTS}[\])>]?$)")
"""Dots without a comment sign: `...existing,` is a spread, `... existing code` and `...existing code...` are not."""

WHOLE = r"(?:code|file|function|method|class|implementation|module|component|config\w*)"
PARTS = r"(?:code|content|imports?|methods?|functions?|logic|implementation|tests?)"
STAYS = r"(?: (?:remains?|stays?|is|are|goes?|left|here|above|below|unchanged|the same|as before))"
WITHOUT_DOTS = re.compile(
    rf"^[\[(<]?(?:(?:the )?rest of (?:the |this |your )?{WHOLE}{STAYS}*"
    rf"|(?:all |the )*existing {PARTS}{STAYS}*"
    rf"|(?:remaining|other|previous) {PARTS}{STAYS}+"
    rf"|(?:code|everything(?: else)?|implementation|rest){STAYS}+)[\])>.]*$",
    re.IGNORECASE,
)


REMOVAL = re.compile(r"\b(?:remov|delet|dropp?|renam|replac|mov)(?:e|ed|ing|es|s)?\b|\bno longer\b", re.IGNORECASE)


def speaks_of_removal(line: str) -> bool:
    """Whether a note of the update ("REMOVED: foo") says that something goes."""
    return REMOVAL.search(line) is not None


def is_marker(line: str) -> bool:
    """Whether a line, by itself, can only be a lazy marker: a comment that says so, or bare dots with such words."""
    text = line.strip()
    if not text or len(text) > MAX_MARKER_CHARS:
        return False
    comment = COMMENT.match(text)
    if comment is None:
        return BARE.match(text) is not None and WITH_DOTS.search(text) is not None
    core = comment["core"]
    return WITH_DOTS.search(core) is not None or WITHOUT_DOTS.match(core) is not None


def is_bare_dots(line: str) -> bool:
    """Whether a comment holds dots and nothing else: a marker in most snippets, but also written by people."""
    comment = COMMENT.match(line.strip())
    return comment is not None and re.fullmatch(DOTS, comment["core"]) is not None
