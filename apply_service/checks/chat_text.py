"""What a chat model says around code stands in the file: fences, tags of a prompt format, "Here is the updated code".
Error for fences and tags, warning for phrases.

Fences and tags count only beyond what the original and the placed lines of the update hold, so a Markdown file keeps
its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from apply_service.checks.edit_scope import EditScope
from apply_service.checks.line_changes import group_lines
from apply_service.protocols import CheckInput
from apply_service.types import Verdict

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

PROSE = frozenset({"markdown", "html", None})
MAX_FINDINGS = 5


class ChatText:
    name = "chat_text"

    def find(self, answer: CheckInput) -> list[Verdict]:
        lines = answer.merged.split("\n")
        known = Counter(line.strip() for line in answer.original.split("\n"))
        known.update(text.strip() for text in EditScope(answer).taken)
        found = [
            *self._report(
                _new_fences(lines, known, answer.language), "error", "a code fence was written into the file"
            ),
            *self._report(_new_tags(answer, lines), "error", "a tag of the prompt was written into the file"),
            *self._report(
                _new_phrases(lines, known, answer.language), "warning", "chat text was written into the file"
            ),
        ]
        return found[:MAX_FINDINGS]

    def _report(self, numbers: Sequence[int], severity: str, message: str) -> list[Verdict]:
        return [Verdict(self.name, severity, message, span) for span in group_lines(numbers)]  # type: ignore[arg-type]


def _new_fences(lines: Sequence[str], known: Counter[str], language: str | None) -> list[int]:
    """Fence lines beyond the known ones.  A Markdown file may gain fences inside, but not one around it."""
    spare = Counter(known)
    found = []
    for number, line in enumerate(lines):
        if FENCE.match(line):
            text = line.strip()
            if spare[text] > 0:
                spare[text] -= 1
            else:
                found.append(number)
    if language != "markdown":
        return found
    solid = [number for number, line in enumerate(lines) if line.strip()]
    return [number for number in found if number == solid[0]]


def _new_tags(answer: CheckInput, lines: Sequence[str]) -> list[int]:
    spare = Counter(TAG.findall(answer.original))
    spare.update(tag for text in EditScope(answer).taken for tag in TAG.findall(text))
    found = []
    for number, line in enumerate(lines):
        for tag in TAG.findall(line) if "<" in line or "[" in line else ():
            if spare[tag] > 0:
                spare[tag] -= 1
            else:
                found.append(number)
    return found


def _new_phrases(lines: Sequence[str], known: Counter[str], language: str | None) -> list[int]:
    if language in PROSE:
        return []
    solid = [number for number, line in enumerate(lines) if line.strip()]
    edges = {*solid[:EDGE_LINES], *solid[-EDGE_LINES:]}
    return [
        number
        for number in sorted(edges)
        if PHRASE.match(text := lines[number].strip()) is not None and not known[text]
    ]
