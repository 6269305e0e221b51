"""What a chat model says around code stands in the file: fences, tags of a prompt format, "Here is the updated code".
Error for fences and tags, warning for phrases.

Fences count only beyond those of the original and of the update's placed lines, and in a Markdown file only as its
first line; tags only where neither the original nor the update holds them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from apply_service.checks.arrivals import find_arrivals
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
        arrivals = find_arrivals(answer, EditScope(answer).taken)
        first, edges = _edges(answer.merged)
        is_markdown = answer.language == "markdown"
        fences = [n for n, line in arrivals if FENCE.match(line) and (n == first or not is_markdown)]
        phrases = [n for n, line in arrivals if n in edges and PHRASE.match(line.strip())]
        tags = [n for n, line in arrivals if TAG.search(line) and _has_new_tag(line, answer)]
        found = [
            *self._report(fences, "error", "a code fence was written into the file"),
            *self._report(tags, "error", "a tag of the prompt was written into the file"),
            *self._report(
                [] if answer.language in PROSE else phrases, "warning", "chat text was written into the file"
            ),
        ]
        return found[:MAX_FINDINGS]

    def _report(self, numbers: Sequence[int], severity: str, message: str) -> list[Verdict]:
        return [Verdict(self.name, severity, message, span) for span in group_lines(numbers)]  # type: ignore[arg-type]


def _edges(text: str) -> tuple[int, frozenset[int]]:
    """The first line that is not blank (-1: none), and the first and last few of them."""
    solid = [number for number, line in enumerate(text.split("\n")) if line.strip()]
    return (solid[0] if solid else -1), frozenset((*solid[:EDGE_LINES], *solid[-EDGE_LINES:]))


def _has_new_tag(line: str, answer: CheckInput) -> bool:
    """Whether the line holds a tag that neither the original nor the update holds: a file may be about such tags."""
    return any(tag not in answer.original and tag not in answer.update for tag in TAG.findall(line))
