"""Text that is no code stands in the merged file: lazy markers, chat around the code, signs of an edit format.

All three checks look only at arrivals: lines that neither the original nor what the update places accounts for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from apply_service.checks.changes import MAX_FINDINGS, EditLines, find_changes, verdicts_at
from apply_service.protocols import CheckInput
from apply_service.types import Verdict


def find_arrivals(answer: CheckInput, expected: Iterable[str]) -> list[tuple[int, str]]:
    """Lines of the merged text (blank ones aside) beyond the original's and the `expected`, indentation aside, each
    with its 0-based number."""
    original, merged = answer.original.split("\n"), answer.merged.split("\n")
    changes = find_changes(answer.original, answer.merged)
    spare = Counter(original[number].strip() for number in changes.removed)
    spare.update(text.strip() for text in expected)
    arrivals = []
    for number in changes.added:
        text = merged[number].strip()
        if text and spare[text] > 0:
            spare[text] -= 1
        elif text:
            arrivals.append((number, merged[number]))
    return arrivals


# -- lazy markers ------------------------------------------------------------------------------------------------------
MAX_MARKER_CHARS = 200
MIN_NOTE_CHARS = 6

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


def is_lazy_marker(line: str) -> bool:
    """Whether a line, by itself, can only be a lazy marker: a comment that says so, or bare dots with such words.

    Stricter than the merger is with a snippet: here a line of a real file must never be taken for a marker.
    """
    text = line.strip()
    if not text or len(text) > MAX_MARKER_CHARS:
        return False
    comment = COMMENT.match(text)
    if comment is None:
        return BARE.match(text) is not None and WITH_DOTS.search(text) is not None
    core = comment["core"]
    return WITH_DOTS.search(core) is not None or WITHOUT_DOTS.match(core) is not None


def find_marker_leak(answer: CheckInput) -> list[Verdict]:
    """A lazy marker of the update, or one that the target made up.  Error: code is missing.

    A note of the update that is no marker (a hint, a file name) is a warning.  Counted against the original, so a file
    that speaks of "existing code" may go on doing so.
    """
    edit = EditLines(answer)
    markers, notes = [], []
    # What the update gives as content is content, whatever it says.
    for number, line in find_arrivals(answer, [text for text in edit.taken if not is_lazy_marker(text)]):
        text = line.strip()
        is_note = text in edit.unplaced
        # Dots and nothing else are a marker in most snippets, but also written by people.
        comment = COMMENT.match(text)
        is_dots = comment is not None and re.fullmatch(DOTS, comment["core"]) is not None
        if is_lazy_marker(text) or (is_note and is_dots):
            markers.append(number)
        elif is_note and len(text) >= MIN_NOTE_CHARS:
            notes.append(number)
    found = verdicts_at("marker_leak", "error", "a lazy marker was written into the file", markers)
    found += verdicts_at("marker_leak", "warning", "a note of the update was written into the file", notes)
    return found[:MAX_FINDINGS]


# -- chat --------------------------------------------------------------------------------------------------------------
FENCE = re.compile(r"^\s{0,3}(?:`{3,}|~{3,})[\w+#.:/ -]*$")
TAG = re.compile(
    r"</?(?:updated[-_]code|update|updated_file|code|edit|instructions?|file|answer|output|merged[-_]code|original[-_]code)>"
    r"|<\|[\w/!@#-]{2,40}\|>|<[｜|][^<>]{1,40}[｜|]>|\[/?INST\]|</?think>"
)
PHRASE = re.compile(
    r"^(?:(?:sure|certainly|of course|okay|absolutely)\b[!,.].*"
    r"|(?:here(?:'s| is| are)|below is|this is) (?:the|your|an?) (?:complete |full |final |entire |new )?"
    r"(?:updated|merged|modified|revised|corrected|edited|refactored|resulting)\b.*"
    r"|i(?:'ve| have) (?:updated|merged|modified|applied|added|made|changed|removed)\b.*"
    r"|(?:the )?(?:updated|merged|complete) (?:code|file)(?: is)?(?: (?:below|above|as follows))?\s*:"
    r"|let me know if\b.*|(?:these|the above) changes\b.*|note that i\b.*)$",
    re.IGNORECASE,
)
EDGE_LINES = 3
"""Phrases are looked for in this many lines of text at either end."""


def find_chat_text(answer: CheckInput) -> list[Verdict]:
    """What a chat model says around code: fences and tags of a prompt format (errors), "Here is the updated code"
    (warning).

    Fences count in a Markdown file only as its first line, tags only where neither the original nor the update holds
    them: a file may be about such tags.
    """
    solid = [number for number, line in enumerate(answer.merged.split("\n")) if line.strip()]
    edges = {*solid[:EDGE_LINES], *solid[-EDGE_LINES:]}
    is_prose = answer.language in ("markdown", "html", None)
    fences, tags, phrases = [], [], []
    for number, line in find_arrivals(answer, EditLines(answer).taken):
        if FENCE.match(line) and (answer.language != "markdown" or number == solid[0]):
            fences.append(number)
        if any(tag not in answer.original and tag not in answer.update for tag in TAG.findall(line)):
            tags.append(number)
        if not is_prose and number in edges and PHRASE.match(line.strip()):
            phrases.append(number)
    found = verdicts_at("chat_text", "error", "a code fence was written into the file", fences)
    found += verdicts_at("chat_text", "error", "a tag of the prompt was written into the file", tags)
    found += verdicts_at("chat_text", "warning", "chat text was written into the file", phrases)
    return found[:MAX_FINDINGS]


# -- edit formats ------------------------------------------------------------------------------------------------------
LIST_LANGUAGES = frozenset({"markdown", "yaml", "diff", "rst", "text"})
PROSE_LANGUAGES = frozenset({"markdown", "rst", "text", None})
DIRECTIVES = ("*** Begin Patch", "*** End Patch", "*** Update File:", "*** Add File:", "*** Delete File:")
BLOCK_WORDS = ("SEARCH", "REPLACE", "ORIGINAL", "UPDATED")
MIN_RUN = 5
MAX_MARKUP_CHARS = 300


def find_edit_markup(answer: CheckInput) -> list[Verdict]:
    """Signs of an edit format: block markers, a patch's directives, hunk headers, `+` and `-` prefixes, a fence around
    a snippet.  Error; a warning where the same line was in the original before.

    Asked of new lines that are in the update as they are written.  A format that reads markers of its own leaves them
    unplaced, and has looked at what it takes in spite of that; one that gives every line a sign, or puts its text in
    strings, writes none as it is.  Fences in Markdown are text, and so are `+` and `-` in the languages of lists.
    """
    edit = EditLines(answer)
    if not edit.is_given:
        return []
    accepted = {text.strip() for text in edit.taken} if any(map(_is_markup, edit.unplaced)) else set()
    written = {line.rstrip() for line in answer.update.split("\n")}
    rows = {line.strip() for line in answer.original.split("\n")}
    has_plus = "\n+" in f"\n{answer.original}"
    new: list[int] = []
    again: list[int] = []
    for number, line in find_arrivals(answer, ()):
        text = line.strip()
        if text in accepted or (line.rstrip() not in written and text not in written):
            continue
        is_sign = False  # of a diff rather than of the file
        if answer.language not in LIST_LANGUAGES and line[:2] not in ("++", "--"):
            is_plus = line[:1] == "+" and not has_plus and len(text) > 1
            is_minus = line[:1] == "-" and sum(char.isalnum() for char in line) > 3 and line[1:].strip() in rows
            is_sign = is_plus or is_minus
        is_fence = line.startswith(("```", "~~~")) and answer.language not in PROSE_LANGUAGES
        if is_sign or is_fence or _is_markup(line):
            (again if text in rows else new).append(number)
    message = "signs of an edit format were written into the file as text"
    found = verdicts_at("edit_markup", "error", message, new) + verdicts_at("edit_markup", "warning", message, again)
    return found[:MAX_FINDINGS]


def _is_markup(line: str) -> bool:
    """Whether a line can only be a marker, a directive or a header of an edit."""
    text = line.strip()
    if not text or len(text) > MAX_MARKUP_CHARS:
        return False
    if text.startswith(DIRECTIVES):
        return True
    if text.startswith("@@ -"):
        old, _, new = text[4:].partition(" +")
        return old[:1].isdigit() and new[:1].isdigit()
    run = text[0]
    length = len(text) - len(text.lstrip(run))
    if run in "<>" and length >= MIN_RUN:
        return text[length : length + 1] == " "
    return run in "-+" and length >= MIN_RUN and text[length:].strip() in BLOCK_WORDS
