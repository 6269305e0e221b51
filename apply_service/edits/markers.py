"""What each line of a lazy snippet is: content, blank, or one of the things that are not part of the file.

Markers ("... existing code ..."), fences, a line naming the file, placement hints and deletion notes, in the
spellings that models use.  A line is judged by its own text and its neighbours only; whether a marker-like line really
stands in the file is decided here by looking it up there.  Does not place anything.  First step of the merge.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import accumulate

from apply_service.edits.note_patterns import (
    CONDITION,
    DELETED,
    EDGE,
    ENCLOSED,
    FENCE,
    FILE,
    HINT,
    IMPERATIVE,
    LEAD,
    LEADING,
    ONLY_ELLIPSIS,
    PHRASE,
    PLAIN_NOTE,
    STRONG,
    TAIL,
    TOLD,
    TRAILING,
)

RUN_OF_DOTS = re.compile(r"\.{4,}")
MAX_NOTE_LENGTH = 240
"""A longer line is never taken for a marker, hint or note."""
MAX_PLACES = 200
"""Places of a marker-like line in the file that are looked at."""


class Role(StrEnum):
    CONTENT = "content"
    BLANK = "blank"
    MARKER = "marker"
    FENCE = "fence"
    FILE_NAME = "file_name"
    HINT = "hint"
    DELETION = "deletion"
    CHAT = "chat"
    ASIDE = "aside"
    """A hint or remark on a line of its own inside a block: no part of the file, but no gap either."""


@dataclass(frozen=True, slots=True)
class Comment:
    """A line's text without its comment signs; `is_comment` tells whether there were any."""

    core: str
    is_comment: bool


@lru_cache(maxsize=65536)
def strip_comment(line: str) -> Comment:
    """The line without its comment signs."""
    lead = LEAD.match(line)
    if lead is None:
        return Comment(_collapsed(line), False)
    return Comment(_collapsed(TAIL.sub("", _collapsed(line[lead.end() :]))), True)


def _collapsed(text: str) -> str:
    """The text with single blanks and at most three dots in a row: a pattern tries every way to share out a run."""
    return RUN_OF_DOTS.sub("...", " ".join(text.split()))


def is_marker(line: str) -> bool:
    """Whether the line, by itself, reads as "a stretch of unchanged lines stands here"."""
    if len(line) > MAX_NOTE_LENGTH:
        return False
    comment = strip_comment(line)
    core = comment.core
    if not core:
        return False
    if ONLY_ELLIPSIS.match(core):
        return True
    leading, trailing = LEADING.match(core) is not None, TRAILING.search(core) is not None
    if not comment.is_comment:
        return leading and PHRASE.search(core) is not None
    if leading:
        return True
    if trailing and PHRASE.search(core) is not None:
        return True
    if line.lstrip().startswith("*") and not trailing:
        return False
    if ENCLOSED.match(core) and TOLD.search(core):
        return True
    return STRONG.match(TRAILING.sub("", core).strip()) is not None


def _is_docstring(line: str) -> bool:
    return line.lstrip()[:3] in ('"""', "'''")


def is_deletion_note(line: str) -> bool:
    """Whether the line is a comment that says that something was removed.  A docstring speaks of the program, and so
    does a comment that says what holds if something is removed."""
    if len(line) > MAX_NOTE_LENGTH or _is_docstring(line):
        return False
    comment = strip_comment(line)
    return comment.is_comment and DELETED.match(comment.core) is not None and CONDITION.match(comment.core) is None


def deletion_target(line: str) -> str:
    """What a deletion note says was removed, in its own words."""
    core = strip_comment(line).core.strip("()[]<> .…")
    core = re.sub(r"^(?:removed?|deleted?|dropped|removing|deleting)\b\s*:?\s*", "", core, flags=re.IGNORECASE)
    return re.sub(
        r"\s(?:is |was |were |are |has been |have been )?(?:removed|deleted|dropped)\b.*$",
        "",
        core,
        flags=re.IGNORECASE,
    )


@dataclass(frozen=True, slots=True)
class Hint:
    """A placement hint: `where` relative to what `target` names."""

    where: str
    target: str


def parse_hint(line: str) -> Hint | None:
    """The placement hint that a comment spells, if it does."""
    if len(line) > MAX_NOTE_LENGTH or _is_docstring(line):
        return None
    comment = strip_comment(line)
    match = HINT.match(comment.core) if comment.is_comment else None
    if match is None:
        return None
    edge = EDGE.match(match["target"])
    if edge is not None:
        return Hint("end" if edge["edge"].lower() in ("end", "bottom") else "start", (edge["target"] or "").strip())
    return Hint(match["where"].lower(), match["target"].strip())


def names_file(line: str, path: str | None) -> bool:
    """Whether the line does nothing but name a file: the edited one where its path is known."""
    if len(line) > MAX_NOTE_LENGTH:
        return False
    match = FILE.match(strip_comment(line).core)
    if match is None:
        return False
    found = match["path"].replace("\\", "/").lstrip("./")
    if path is None:
        return strip_comment(line).is_comment or "/" in found
    known = path.replace("\\", "/").lstrip("./")
    return known.endswith(found) or found.endswith(known) or known.rsplit("/", 1)[-1] == found.rsplit("/", 1)[-1]


def classify(
    lines: Sequence[str], original: Sequence[str], *, language: str | None = None, path: str | None = None
) -> list[Role]:
    """The role of each line of the update."""
    roles = [Role.CONTENT if line.strip() else Role.BLANK for line in lines]
    known = _positions(original)
    _mark_fences(lines, roles, known, language)
    _mark_file_name(lines, roles, known, path)
    beside, lowered = _beside(lines), "\n".join(original).lower()
    above: Role | None = None
    """The role of the last line above that is not blank."""
    for i, line in enumerate(lines):
        above = roles[i - 1] if i and roles[i - 1] is not Role.BLANK else above
        if roles[i] is not Role.CONTENT:
            continue
        if line.strip() in known and not _may_leave_file(line, beside[i], original, known):
            continue
        roles[i] = _note_role(line, first=above is not Role.CONTENT)
        if roles[i] is Role.CONTENT and _trails_off(lines, i):
            roles[i] = Role.MARKER
        is_own_comment = roles[i] is Role.DELETION and _continues_comment(lines, roles, i)
        sounds_like_hint = roles[i] in (Role.HINT, Role.ASIDE) and not is_marker(line)
        if is_own_comment or (sounds_like_hint and not _is_trusted_hint(line, lowered)):
            roles[i] = Role.CONTENT
    return roles


def _is_trusted_hint(line: str, lowered: str) -> bool:
    """A hint is one where its target stands in the file (`lowered`: its text in small letters), or is the lines next to
    it; other comments sound like it."""
    hint = parse_hint(line)
    core = strip_comment(line).core
    if hint is None or IMPERATIVE.match(core) is None or hint.where in ("in", "to", "at", "into", "inside", "within"):
        return False
    target = hint.target.strip("`'\"() .:").removesuffix("()").lower()
    if not target:
        return False
    if re.fullmatch(r"(?:this|these|those|the|that)(?: \w+){0,2}", target):
        return True
    return target in lowered


def _note_role(line: str, *, first: bool) -> Role:
    hint = parse_hint(line)
    if is_marker(line):
        return Role.HINT if hint is not None and (hint.target or hint.where in ("end", "start")) else Role.MARKER
    if is_deletion_note(line):
        return Role.DELETION
    if hint is not None:
        return Role.HINT if first else Role.ASIDE
    return Role.CONTENT


def _trails_off(lines: Sequence[str], i: int) -> bool:
    """Whether the line is a comment of its own that ends in dots: it names what is left out."""
    if len(lines[i]) > MAX_NOTE_LENGTH or not lines[i].rstrip(" )]*/->}").endswith(("...", "…")):
        return False
    beside = (lines[i - 1] if i else "", lines[i + 1] if i + 1 < len(lines) else "")
    is_alone = not any(strip_comment(line).is_comment and not is_marker(line) for line in beside)
    return is_alone and not beside[1].strip() and strip_comment(lines[i]).is_comment and not _is_docstring(lines[i])


def _continues_comment(lines: Sequence[str], roles: Sequence[Role], i: int) -> bool:
    """Whether the line is part of a longer comment, so no note of its own."""
    if PLAIN_NOTE.match(strip_comment(lines[i]).core):
        return False
    above = i > 0 and roles[i - 1] is Role.CONTENT and _same_comment(lines[i - 1], lines[i])
    below = i + 1 < len(lines) and _same_comment(lines[i + 1], lines[i]) and not is_marker(lines[i + 1])
    return above or (below and not is_deletion_note(lines[i + 1]))


def _same_comment(one: str, other: str) -> bool:
    """Whether both lines are comments of one kind."""
    return strip_comment(one).is_comment and one.strip()[:2] == other.strip()[:2]


def _positions(original: Sequence[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for j, line in enumerate(original):
        found.setdefault(line.strip(), []).append(j)
    return found


def _beside(lines: Sequence[str]) -> list[tuple[str | None, str | None]]:
    """For each line the next ones above and below it that are not blank, without their outer blanks."""
    bare = [line.strip() or None for line in lines]
    above = [None, *accumulate(bare, _latest)]
    below = [None, *accumulate(reversed(bare), _latest)]
    return list(zip(above[:-1], below[-2::-1], strict=True))


def _latest(last: str | None, text: str | None) -> str | None:
    return text or last


def _may_leave_file(
    line: str, beside: tuple[str | None, str | None], original: Sequence[str], known: Mapping[str, list[int]]
) -> bool:
    """A marker-like line that also stands in the file is content where its neighbours in the update (`beside`) are its
    neighbours in the file."""
    if not is_marker(line):
        return False
    before, after = beside
    for j in known[line.strip()][:MAX_PLACES]:
        above = next((text.strip() for text in reversed(original[max(0, j - 3) : j]) if text.strip()), None)
        below = next((text.strip() for text in original[j + 1 : j + 4] if text.strip()), None)
        if (above is not None and above == before) or (below is not None and below == after):
            return False
    return True


def _mark_fences(lines: Sequence[str], roles: list[Role], known: Mapping[str, list[int]], language: str | None) -> None:
    """A fence around the whole snippet (or several), with chat text outside it."""
    solid = [i for i, role in enumerate(roles) if role is Role.CONTENT]
    fences = [i for i in solid if FENCE.match(lines[i][:MAX_NOTE_LENGTH])]
    if not fences:
        return
    first, last = solid[0], solid[-1]
    wraps = fences[0] == first and (len(fences) == 1 or (fences[-1] == last and len(fences) % 2 == 0))
    if language == "markdown" and not (wraps and _wraps_markdown(lines, fences, known)):
        return
    if wraps:
        inner = len(fences) == 2 or language == "markdown"
        for i in [fences[0], *fences[-1:]] if inner else fences:
            roles[i] = Role.FENCE
        return
    if len(fences) % 2 == 0 and _has_chat_around(lines, roles, fences, known):
        _mark_chat(lines, roles, fences)


def _wraps_markdown(lines: Sequence[str], fences: Sequence[int], known: Mapping[str, list[int]]) -> bool:
    """In a Markdown file a fence is ordinary text; it wraps the snippet where it says so or has no fellow inside."""
    info = lines[fences[0]].strip().strip("`~").strip().lower()
    if info in {"markdown", "md", "mdx"}:
        return True
    return len(fences) == 2 and lines[fences[0]].strip() not in known


def _has_chat_around(
    lines: Sequence[str], roles: Sequence[Role], fences: Sequence[int], known: Mapping[str, list[int]]
) -> bool:
    """Whether fenced code stands in prose: nothing outside the fences is in the file, and something inside is."""
    outside: list[str] = []
    inside: list[str] = []
    is_fence, within = set(fences), False
    for i, role in enumerate(roles):
        if i in is_fence:
            within = not within
        elif role is Role.CONTENT:
            (inside if within else outside).append(lines[i])
    prose = all(line[:1] not in (" ", "\t") and " " in line.strip() and line.strip() not in known for line in outside)
    flush = all(lines[i][:1] in ("`", "~") and lines[i].strip() not in known for i in fences)
    return flush and prose and bool(outside) and any(line.strip() in known for line in inside)


def _mark_chat(lines: Sequence[str], roles: list[Role], fences: Sequence[int]) -> None:
    is_fence, inside = set(fences), False
    for i in range(len(lines)):
        if i in is_fence:
            roles[i] = Role.FENCE
            inside = not inside
        elif not inside and roles[i] is Role.CONTENT:
            roles[i] = Role.CHAT


def _mark_file_name(lines: Sequence[str], roles: list[Role], known: Mapping[str, list[int]], path: str | None) -> None:
    first = next((i for i, role in enumerate(roles) if role is Role.CONTENT), None)
    if first is not None and lines[first].strip() not in known and names_file(lines[first], path):
        roles[first] = Role.FILE_NAME
