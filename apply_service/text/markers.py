"""Tells the role of each line of a lazy snippet: content, blank, or something that is not part of the file.

Lines of the last kind are markers ("... existing code ..."), fences, a line naming the file, placement hints ("add
below load()") and deletion notes ("removed: load()").  A line is judged by its own text and its neighbours; a line that
looks like a marker is looked up in the file.  Nothing is placed here.  This is the first step of the merge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from apply_service.text.english import is_order, reads_as_english
from apply_service.text.fences import find_fences
from apply_service.text.lines import header_name, indent_of, is_closer

MAX_NOTE_LENGTH = 240
"""A marker, a hint or another comment about the edit has at most this many characters."""
MAX_PLACES = 200
"""At most this many places in the file of a marker-like line are looked at."""

# The wordings.  Except for the first three, each pattern sees the text of a line without its comment signs.
RUN_OF_DOTS = re.compile(r"\.{4,}")
LEAD = re.compile(
    r"^\s*(?:\{\s*/\*+|/\*+|<!--+|\{#|\{\{!--|//+!?|#+(?!\[)!?|--+\[*|;+|%+|\"\"\"|'''|\*(?=\s|$)|REM\b|'(?=\s*\.{3}))\s*"
)
TAIL = re.compile(r"\s*(?:\*+/\s*\}?|--+>|#\}|\"\"\"|'''|--\]\]|--\}\})\s*$")
ELLIPSIS = r"(?:\.{2,}|…)"
ONLY_ELLIPSIS = re.compile(rf"^[\(\[<{{]*\s*{ELLIPSIS}\s*[\)\]>}}]*$")
LEADING = re.compile(rf"^[\(\[<]*\s*{ELLIPSIS}(?=[\s\(\[]|$)")
GLUED = re.compile(rf"^{ELLIPSIS}(?:other |the )?[a-z]+$")
TRAILING = re.compile(rf"{ELLIPSIS}\s*[\)\]>]*$")
NOUN = (
    r"(?:code|codes|imports?|"
    r"methods?|functions?|implementations?|contents?|fields?|tests?|test cases?|cases?|config\w*|"
    r"parameters?|params|arguments?|args|logic|body|bodies|routes?|lines?|entries|examples?|properties|attributes?|"
    r"definitions?|declarations?|statements?|members?|class(?:es)?|file|setup|code blocks?|items?|rules?|keys?|values?|"
    r"options?|settings?|styles?|types?|variables?|constants?|exports?|handlers?|helpers?|steps?|jobs?|sections?|text|"
    r"docs?|docstrings?|comments?|specs?|contexts?|elements?|markup|stuff|parts?|things?|dependencies|samplers|branches)"
)
PHRASE = re.compile(
    r"\b(?:existing|rest of|the rest|remaining|remainder|unchanged|unmodified|untouched|same as|stays?|remains?|"
    r"previous|other|others|omitted|keep|kept|as before|as is|no changes?|snip(?:ped)?|above|below|original|"
    r"and so on|etc)\b",
    re.IGNORECASE,
)
_NO_VERB = (
    r"(?!(?:is|are|was|were|will|must|should|can|may|have|has|needs?|gets?|goes|go|stays?|remains?|here|below)\b)"
)
_PLACE = (
    rf"(?: (?:here|above|below|for now|from here|(?:as in|in|from) (?:the |this |your )?(?:\w+ )?(?:{NOUN}|original)))*"
    r"(?:[,;(].*)?"
)
"""Words that may follow a note that something stays: a place, or another clause."""
_STATUS = (
    r"(?: (?:is|are|goes?|stays?|remains?|left|kept|continues?|follows?|exactly|can|should|must))*"
    rf"(?: (?:(?:the )?same|unchanged|unmodified|untouched|intact|as (?:is|before|(?:it|they) (?:is|was|are|were))))?"
    rf"{_PLACE}"
)
"""Words that a note says about the code that stays."""
STRONG = re.compile(
    rf"^[\(\[<]*\s*(?:"
    rf"(?:all |the )*(?:rest|remainder)(?: of(?: {_NO_VERB}[^\s,;(]+){{1,6}})?{_STATUS}"
    rf"|(?:all |the |any |my |your )*(?:existing|previous|other|remaining|original|unchanged|same)"
    rf"(?: \w+){{0,2}} {NOUN}"
    rf"(?: (?:here|above|below|go(?:es)? here|unchanged|as before|as is|"
    rf"(?:stays?|remains?) (?:the same|unchanged|as is)|(?:are|is) unchanged))*"
    rf"|(?:(?!leaves? )\S+ ){{0,6}}(?:is |are )?(?:left |kept |remains? |stays? )?(?:unchanged|unmodified|untouched)"
    rf"(?: (?:here|below|above|from here))?"
    rf"|(?:\S+ ){{0,6}}(?:remains?|stays?) (?:the same|unchanged|as (?:is|before|it was)){_PLACE}"
    rf"|same as (?:before|above|(?:in |the )*original(?: \w+)?|existing(?: \w+){{0,2}}){_PLACE}"
    rf"|no (?:other )?changes?(?: (?:here|below|above|needed|from here|to .*|in .*))?"
    rf"|keep (?:the )?(?:rest|everything(?: else)?|(?:all|existing|other|remaining|the)(?: \w+){{0,3}} {NOUN})"
    rf"(?: of (?:the |this |your )?(?:\w+ )?{NOUN})?{_STATUS}|keep (?:this |it )?as is"
    rf"|(?:\S+ ){{0,3}}omitted(?: for brevity)?"
    rf"|snip(?:ped)?"
    rf")\s*[\)\]>\.:;,]*$",
    re.IGNORECASE,
)
ENCLOSED = re.compile(r"^(?:\(.*\)|\[.*\]|<.*>)[.;]?$")
TOLD = re.compile(
    r"\b(?:existing|rest|remaining|unchanged|unmodified|untouched|(?:not|never) (?:changed|touched|modified)|same|"
    r"stays?|remains?|omitted|kept|as (?:before|is|it (?:is|was)|they (?:are|were))|no changes?|unaffected|"
    r"like before|etc)\b|"
    r"\.{2,}|…",
    re.IGNORECASE,
)
_PART_OF_CODE = (
    r"(?:the |this |that )?(?:whole |entire |old )*(?:\w+ )?"
    r"(?:loop|branch|block|function|method|class|import|if|else|try|statement|body|code|lines?)s?"
)
DELETED = re.compile(
    r"^[\(\[<]*\s*(?:\.{2,}|…)?\s*(?:(?:removed|deleted|dropped)\b(?:[:\s]|$)|(?:remove|delete|drop)\s*:)|"
    r"^.{1,80}?\s(?:(?:is|was|were|are|has been|have been)\s)?(?:removed|deleted|dropped)\s*"
    r"(?:[,;:(].*|here|in favou?r of .*|\.{2,}|…)?[\.\)\]]*$|"
    rf"^(?:remove|delete|drop) {_PART_OF_CODE}\s*[,;(–—-]+ ?(?:(?:now |it (?:is|was) )?replaced (?:by|with)|"
    r"(?:it (?:is|was) |is )?(?:no longer|not) (?:needed|used)|superseded by|in favou?r of)\b",
    re.IGNORECASE,
)
CONDITION = re.compile(
    r"^(?:if|when|whenever|once|after|before|because|since|unless|until|while|whether|as soon as)\b", re.IGNORECASE
)
DELETED_BEFORE = re.compile(r"^(?:removed?|deleted?|dropped|removing|deleting)\b\s*:?\s*", re.IGNORECASE)
DELETED_AFTER = re.compile(
    r"\s(?:is |was |were |are |has been |have been )?(?:removed|deleted|dropped)\b.*$", re.IGNORECASE
)
PLAIN_NOTE = re.compile(
    r"^(?:\(\s*removed\b.*\)|\[\s*removed\b.*\]|removed\s*:.*|deleted\s*:.*|"
    r"(?:removed|deleted) (?:these|this|the (?:old|following)|old|unused)\b.*|"
    r"\S+(?: \S+)? removed|(?:removed|deleted) \S+)$",
    re.IGNORECASE,
)
HINT = re.compile(
    r"^[\(\[<]*\s*(?:\.{2,}|…)?\s*(?:.{0,60}?[,;:]\s*)?(?:please )?"
    r"(?:add|insert|place|put|append|prepend|new|goes|this goes|belongs|comes)\b.{0,60}?\b"
    r"(?P<where>after|before|below|above|under|following|inside|within|into|in|at|to)\b\s*(?P<target>.*?)\s*(?:\.{2,}|…)?[\)\]>]*:?$",
    re.IGNORECASE,
)
EDGE = re.compile(
    r"^(?:the )?(?:very )?(?P<edge>end|bottom|start|top|beginning)(?: of (?:the )?(?P<target>.*?))?\s*$", re.IGNORECASE
)
FILE = re.compile(
    r"^(?:(?:file(?:name)?|path)\s*[:=]\s*|[*#`\s]+)?`?(?P<path>[\w@.+~-]+(?:[/\\][\w@.+~\[\]()-]+)*\.[A-Za-z]\w{0,9}|(?:[\w.-]+/)+[\w.-]+|(?:\w+/)*(?:Dockerfile|Makefile|Gemfile|Rakefile))`?[*`:]*$"
)
_LOOSE = ("in", "to", "at", "into", "inside", "within")
"""Words of a hint that are so vague that the comment may as well belong to the program."""
FENCE = re.compile(r"^\s*(?P<sign>`{3,}|~{3,})\s*(?P<info>[^`]*)$")
IMPERATIVE = re.compile(
    r"^[\(\[<]*\s*(?:\.{2,}|…)?\s*(?:new,?\s+goes|add|insert|place|put|append|prepend|this goes|goes)\b", re.IGNORECASE
)
MAX_SIGNATURE = 20
"""A header that has dots as its body has at most this many lines."""
_BODY = re.compile(r"^(?P<head>.*\S)?\s*(?<![.\w])(?:\.{3}|…)$")
_PYTHON = re.compile(r"^\s*(?:async\s+)?(?:def|class)\s")


class Role(StrEnum):
    CONTENT = "content"
    BLANK = "blank"
    MARKER = "marker"
    FENCE = "fence"
    FILE_NAME = "file_name"
    HINT = "hint"
    DELETION = "deletion"
    ELSEWHERE = "elsewhere"
    """The line belongs to no block: it is part of a directive, or a blank line between parts for different places."""
    ASIDE = "aside"
    """A hint or remark on its own line inside a block.  It is not a part of the file, and does not stand for left-out
    lines either."""


class Comment(NamedTuple):
    """A line's text without its comment signs; `is_comment` tells whether there were such signs."""

    core: str
    is_comment: bool


class Hint(NamedTuple):
    """A placement hint: the side of `target` (`where`) on which code goes."""

    where: str
    target: str


# -- one line by itself --------------------------------------------------------------------------------------------
@lru_cache(maxsize=65536)
def strip_comment(line: str) -> Comment:
    """Return the line without its comment signs."""
    lead = LEAD.match(line)
    if lead is None:
        return Comment(_collapsed(line), False)
    return Comment(_collapsed(TAIL.sub("", _collapsed(line[lead.end() :]))), True)


def _collapsed(text: str) -> str:
    """Return the text with single blanks and at most three dots in a row, because a pattern would try every way to
    divide a longer run."""
    return RUN_OF_DOTS.sub("...", " ".join(text.split()))


def is_marker(line: str) -> bool:
    """Tell whether the line, by itself, reads as "unchanged lines are left out here"."""
    if len(line) > MAX_NOTE_LENGTH:
        return False
    core, is_comment = strip_comment(line)
    if not core:
        return False
    if ONLY_ELLIPSIS.match(core):
        return True
    leading, trailing = LEADING.match(core) is not None, TRAILING.search(core) is not None
    if not is_comment:
        return leading and PHRASE.search(core) is not None
    if leading or GLUED.match(core) or (trailing and PHRASE.search(core)):
        return True
    if line.lstrip().startswith("*") and not trailing:
        return False
    if ENCLOSED.match(core) and TOLD.search(core):
        return True
    return STRONG.match(TRAILING.sub("", core).strip()) is not None


def _note_core(line: str) -> str | None:
    """Return the text of a comment that may be a note; None for a docstring, because a docstring is about the
    program."""
    if len(line) > MAX_NOTE_LENGTH or line.lstrip()[:3] in ('"""', "'''"):
        return None
    core, is_comment = strip_comment(line)
    return core if is_comment else None


def is_deletion_note(line: str) -> bool:
    """Tell whether the line is a comment saying that something was removed, and not what happens if it is removed."""
    core = _note_core(line)
    return core is not None and DELETED.match(core) is not None and CONDITION.match(core) is None


def deletion_target(line: str) -> str:
    """Return what was removed, in the words of the deletion note."""
    core = strip_comment(line).core.strip("()[]<> .…")
    return DELETED_AFTER.sub("", DELETED_BEFORE.sub("", core))


def parse_hint(line: str) -> Hint | None:
    """Return the placement hint in a comment; None if it has none."""
    core = _note_core(line)
    match = HINT.match(core) if core is not None else None
    if match is None:
        return None
    edge = EDGE.match(match["target"])
    if edge is not None:
        return Hint("end" if edge["edge"].lower() in ("end", "bottom") else "start", (edge["target"] or "").strip())
    return Hint(match["where"].lower(), match["target"].strip())


def names_file(line: str, path: str | None) -> bool:
    """Tell whether the line only names a file.  If `path` is known, it must name that file."""
    if len(line) > MAX_NOTE_LENGTH:
        return False
    core, is_comment = strip_comment(line)
    match = FILE.match(core)
    if match is None:
        return False
    found = match["path"].replace("\\", "/").lstrip("./")
    if path is None:
        return is_comment or "/" in found
    known = path.replace("\\", "/").lstrip("./")
    return known.endswith(found) or found.endswith(known) or known.rsplit("/", 1)[-1] == found.rsplit("/", 1)[-1]


# -- all lines -----------------------------------------------------------------------------------------------------
def classify(
    lines: Sequence[str], original: Sequence[str], *, language: str | None = None, path: str | None = None
) -> list[Role]:
    """Return the role of each line of the update."""
    roles = [Role.CONTENT if line.strip() else Role.BLANK for line in lines]
    places: dict[str, list[int]] = {}
    for j, line in enumerate(original):
        places.setdefault(line.strip(), []).append(j)
    _mark_fences(lines, roles, places, language)
    first = next((i for i, role in enumerate(roles) if role is Role.CONTENT), None)
    if first is not None and lines[first].strip() not in places and names_file(lines[first], path):
        roles[first] = Role.FILE_NAME
    lowered = "\n".join(original).lower()
    above: Role | None = None
    """The role of the last line above that is not blank."""
    for i, line in enumerate(lines):
        above = roles[i - 1] if i and roles[i - 1] is not Role.BLANK else above
        if roles[i] is not Role.CONTENT:
            continue
        known = places.get(line.strip())
        if is_body_of_dots(lines, i, original):
            continue
        if known is None or (is_marker(line) and not _stands_there(lines, i, original, known)):
            roles[i] = _note_role(lines, roles, i, above, lowered)
    return roles


def _stands_there(lines: Sequence[str], i: int, original: Sequence[str], places: Sequence[int]) -> bool:
    """Tell whether line i is the file's line at one of the places, because a neighbour agrees with the file too."""
    before, after = _first_text(lines, range(i - 1, -1, -1)), _first_text(lines, range(i + 1, len(lines)))
    for j in places[:MAX_PLACES]:
        above = _first_text(original, range(j - 1, max(-1, j - 4), -1))
        below = _first_text(original, range(j + 1, min(len(original), j + 4)))
        if (above is not None and above == before) or (below is not None and below == after):
            return True
    return False


def is_body_of_dots(lines: Sequence[str], i: int, original: Sequence[str]) -> bool:
    """Tell whether the dots of line i are the whole body of a Python definition, as in stubs and protocols.

    If the file has no definition of that name, or has one with such a body, the dots are not a marker, because they
    can't stand for any lines.
    """
    name = _name_of_body(lines, i)
    if name is None:
        return False
    heads = [j for j, line in enumerate(original) if name in line and header_name(line) == name]
    shown = {line.strip() for line in lines[max(0, i - MAX_SIGNATURE) : i + 1]}
    alike = [j for j in heads if original[j].strip() in shown] or heads
    bodies = (k for j in alike for k in range(j, min(len(original), j + MAX_SIGNATURE)))
    return not heads or any(_name_of_body(original, k) == name for k in bodies)


def _name_of_body(lines: Sequence[str], i: int) -> str | None:
    """Return the name of the definition with the dots of line i as its whole body; None if there is none."""
    match = _BODY.match(lines[i].rstrip()) if len(lines[i]) <= MAX_NOTE_LENGTH else None
    if match is None:
        return None
    level = indent_of(lines[i])
    above = i
    if match["head"] is None:
        below = next((line for line in lines[i + 1 :] if line.strip()), "")
        above = next((k for k in range(i - 1, -1, -1) if lines[k].strip()), i)
        if indent_of(below) >= level > 0 or not lines[above].rstrip().endswith((":", '"""')):
            return None
        level -= 1
    heads = (line for line in lines[max(0, above - MAX_SIGNATURE) : above + 1][::-1] if indent_of(line) <= level)
    head = next((line for line in heads if line.strip() and not is_closer(line)), "")
    return header_name(head) if _PYTHON.match(head) else None


def _first_text(lines: Sequence[str], places: Iterable[int]) -> str | None:
    return next((text for k in places if (text := lines[k].strip())), None)


def _note_role(lines: Sequence[str], roles: Sequence[Role], i: int, above: Role | None, lowered: str) -> Role:
    """Return the role of a line that the file does not have.  `lowered`: the file's text in lower case."""
    if len(lines[i]) > MAX_NOTE_LENGTH:
        return Role.CONTENT
    line, hint, core = lines[i], parse_hint(lines[i]), strip_comment(lines[i]).core
    beside = {k: strip_comment(lines[k]).is_comment for k in (i - 1, i + 1) if 0 <= k < len(lines)}
    if is_marker(line):
        return Role.HINT if hint is not None and (hint.target or hint.where in ("end", "start")) else Role.MARKER
    if is_deletion_note(line):
        # A part of a longer comment is not a note of its own.
        longer = {k for k, is_comment in beside.items() if is_comment and lines[k].strip()[:2] == line.strip()[:2]}
        follows = i - 1 in longer and roles[i - 1] is Role.CONTENT
        leads = i + 1 in longer and not (is_marker(lines[i + 1]) or is_deletion_note(lines[i + 1]))
        return Role.CONTENT if (follows or leads) and not PLAIN_NOTE.match(core) else Role.DELETION
    if hint is not None:
        # A hint's target is in the file or on the next lines.  Other comments only sound like a hint.
        target = hint.target.strip("`'\"() .:").removesuffix("()").lower()
        is_beside = re.fullmatch(r"(?:this|these|those|the|that)(?: \w+){0,2}", target) is not None
        is_asked = IMPERATIVE.match(core) is not None and hint.where not in _LOOSE
        if not is_asked or not (is_beside or (target and target in lowered)):
            return Role.CONTENT
        return Role.ASIDE if above is Role.CONTENT else Role.HINT
    # A comment that ends in dots names the code that is left out.
    trails_off = line.rstrip(" )]*/->}").endswith(("...", "…")) and _note_core(line) is not None
    is_alone = not any(is_comment and not is_marker(lines[k]) for k, is_comment in beside.items())
    is_last = i + 1 == len(lines) or not lines[i + 1].strip()
    return Role.MARKER if trails_off and is_alone and is_last else Role.CONTENT


def _mark_fences(lines: Sequence[str], roles: list[Role], known: Mapping[str, list[int]], language: str | None) -> None:
    """Mark the fences around the snippet and the chat text outside them."""
    solid = [i for i, role in enumerate(roles) if role is Role.CONTENT]
    pairs = find_fences(lines) if any(lines[i].startswith("```") for i in solid) else []
    if language == "markdown" and not any(fence.closing == fence.opening + 1 for fence in pairs):
        pairs = []  # An empty fence below an order to remove something is not part of a page.
    inside = {i for fence in pairs for i in range(fence.opening, fence.closing + 1)}
    outside = {i: lines[i].strip() for i in solid if i not in inside}
    is_whole = bool(pairs) and pairs[-1].closing < len(lines)
    if outside and is_whole and all(t not in known and reads_as_english(t) and is_order(t) for t in outside.values()):
        # Each line outside orders a change with the code in the fence below it.
        for i in {i for fence in pairs for i in (fence.opening, fence.closing)}:
            roles[i] = Role.FENCE
        for i in outside:
            roles[i] = Role.ELSEWHERE
        return
    fences = [i for i in solid if FENCE.match(lines[i][:MAX_NOTE_LENGTH])]
    if not fences:
        return
    is_even, opening = len(fences) % 2 == 0, lines[fences[0]].strip()
    wraps = fences[0] == solid[0] and (len(fences) == 1 or (fences[-1] == solid[-1] and is_even))
    if language == "markdown":
        # In Markdown a fence is ordinary text, unless its title says Markdown or no other fence stands inside.
        says_so = opening.strip("`~").strip().lower() in {"markdown", "md", "mdx"}
        if not wraps or not (says_so or (len(fences) == 2 and opening not in known)):
            return
        fences = [fences[0], fences[-1]]
    if not wraps:
        return
    for i in fences:
        roles[i] = Role.FENCE
