"""Finds text in the merged file that is not code: lazy markers, chat around the code, signs of an edit format.

All three checks look only at arrivals: added lines that are neither from the original nor among the lines expected from
the update.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Set

from apply_service.checks.changes import MAX_FINDINGS, EditLines, find_changes, verdicts_at
from apply_service.protocols import CheckInput
from apply_service.text.fences import is_fence
from apply_service.text.markers import is_marker, strip_comment
from apply_service.types import Verdict


def find_arrivals(answer: CheckInput, expected: Iterable[str]) -> list[tuple[int, str]]:
    """Return each added line that equals no removed line and no `expected` line, with its 0-based number.

    Indentation is ignored, and blank lines are left out.
    """
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
DOTS = r"(?:\.{3,}|…)"
SUBJECT = (
    r"(?:existing|(?:the )?rest of|remaining|unchanged|unmodified|same as|as before|omitted|previous (?:code|content)"
    r"|other (?:code|methods|functions|imports|fields|props|tests|cases|routes)|original code"
    r"|keep (?:the )?(?:rest|existing|same))"
)
WITH_DOTS = re.compile(rf"^[\[(<]?\s*{DOTS}.*\b{SUBJECT}\b|\b{SUBJECT}\b[^.]*{DOTS}\s*[\])>]?$", re.IGNORECASE)
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
    """Tell whether the line, by itself, must be a lazy marker: a comment that speaks of code left out, or bare dots
    with such words.

    This is stricter than the merger, because it must never take a line of a real file for a marker.
    """
    core, is_comment = strip_comment(line) if len(line) <= MAX_MARKER_CHARS else ("", False)
    if not is_comment:
        return is_marker(line) and WITH_DOTS.search(core) is not None
    return WITH_DOTS.search(core) is not None or WITHOUT_DOTS.match(core) is not None


def find_marker_leak(answer: CheckInput) -> list[Verdict]:
    """Find a lazy marker that comes from the update, or one that the target model made up.  A finding is an error,
    because code is missing.

    A note of the update that is not a marker (a hint, a file name) is a warning.  Only added lines count, so a file
    that already speaks of "existing code" may keep that text.
    """
    edit = EditLines(answer)
    markers, notes = [], []
    # Lines that the format read as content are expected, unless they are lazy markers.
    for number, line in find_arrivals(answer, [text for text in edit.taken if not is_lazy_marker(text)]):
        is_note = line.strip() in edit.unplaced
        # A comment of only dots is a marker in most snippets, but people also write such comments themselves.
        if is_lazy_marker(line) or (is_note and re.fullmatch(DOTS, strip_comment(line).core)):
            markers.append(number)
        elif is_note and len(line.strip()) >= MIN_NOTE_CHARS:
            notes.append(number)
    found = verdicts_at("marker_leak", "error", "a marker for omitted code was written into the file", markers)
    found += verdicts_at("marker_leak", "warning", "a comment about the edit was written into the file", notes)
    return found[:MAX_FINDINGS]


# -- chat --------------------------------------------------------------------------------------------------------------
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
"""Phrases are searched in this many non-blank lines at each end of the file."""


def find_chat_text(answer: CheckInput) -> list[Verdict]:
    """Find what a chat model writes around code.

    Fences and tags of a prompt format are errors; phrases such as "Here is the updated code" are warnings.

    In a Markdown file a fence counts only as the first line.  A tag counts only if neither the original nor the update
    contains it, because a file may be about such tags.
    """
    solid = [number for number, line in enumerate(answer.merged.split("\n")) if line.strip()]
    edges = {*solid[:EDGE_LINES], *solid[-EDGE_LINES:]}
    is_prose = answer.language in ("markdown", "html", None)
    fences, tags, phrases = [], [], []
    for number, line in find_arrivals(answer, EditLines(answer).taken):
        if is_fence(line) and (answer.language != "markdown" or number == solid[0]):
            fences.append(number)
        if any(tag not in answer.original and tag not in answer.update for tag in TAG.findall(line)):
            tags.append(number)
        if not is_prose and number in edges and PHRASE.match(line.strip()):
            phrases.append(number)
    found = verdicts_at("chat_text", "error", "a code fence was written into the file", fences)
    found += verdicts_at("chat_text", "error", "a tag of the model's prompt was written into the file", tags)
    found += verdicts_at("chat_text", "warning", "chat text was written into the file", phrases)
    return found[:MAX_FINDINGS]


# -- edit formats ------------------------------------------------------------------------------------------------------
LIST_LANGUAGES = frozenset({"markdown", "yaml", "diff", "rst", "text"})
PROSE_LANGUAGES = frozenset({"markdown", "rst", "text", None})
MARKUP = re.compile(
    r"\*\*\* (?:(?:Begin|End) Patch|(?:Update|Add|Delete) File:)|@@ -\d.{0,80}? \+\d|(?:<{5,}|>{5,}) "
    r"|(?:-{5,}|\+{5,})\s*(?:SEARCH|REPLACE|ORIGINAL|UPDATED)$"
)
"""Text that can only be a marker, a directive or a header of an edit."""


def _is_diff_line(line: str, rows: Set[str], *, has_plus: bool) -> bool:
    """Tell whether the `+` or `-` before a line is a diff's sign, not text of the file.  `rows`: the file's lines,
    stripped.  `has_plus`: whether one of these lines begins with `+`."""
    if line[:2] in ("++", "--"):
        return False
    if line[:1] == "+":
        return not has_plus and len(line.strip()) > 1
    return line[:1] == "-" and sum(char.isalnum() for char in line) > 3 and line[1:].strip() in rows


def find_edit_markup(answer: CheckInput) -> list[Verdict]:
    """Find signs of an edit format.  A finding is an error, or a warning if the original has the same line.

    The signs are block markers, a patch's directives, hunk headers, `+` and `-` prefixes, and a fence around a
    snippet.  Only new lines that occur verbatim in the update are examined.  If a format has markers of its own, its
    reader has removed the markers and examined the lines that it takes.  These lines are accepted.  A format with a
    sign before every line, or with its text in strings, has no verbatim lines, so none are examined.  Fences are text
    in Markdown; `+` and `-` are text in languages with lists.
    """
    edit = EditLines(answer)
    if not edit.is_given:
        return []
    accepted = {text.strip() for text in edit.taken} if any(map(MARKUP.match, edit.unplaced)) else set()
    written = {line.rstrip() for line in answer.update.split("\n")}
    rows = {line.strip() for line in answer.original.split("\n")}
    has_plus = "\n+" in f"\n{answer.original}"
    new: list[int] = []
    again: list[int] = []
    for number, line in find_arrivals(answer, ()):
        text = line.strip()
        if text in accepted or (line.rstrip() not in written and text not in written):
            continue
        is_sign = answer.language not in LIST_LANGUAGES and _is_diff_line(line, rows, has_plus=has_plus)
        is_fence = line.startswith(("```", "~~~")) and answer.language not in PROSE_LANGUAGES
        if is_sign or is_fence or MARKUP.match(text):
            (again if text in rows else new).append(number)
    message = "signs of an edit format, such as + or <<<<<<<, were written into the file"
    found = verdicts_at("edit_markup", "error", message, new) + verdicts_at("edit_markup", "warning", message, again)
    return found[:MAX_FINDINGS]
