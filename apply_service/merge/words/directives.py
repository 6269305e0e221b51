"""Finds directives: comments of a snippet about where the code below goes, what it replaces, or what is removed.

It tells directives from comments that belong in the file.  For this it looks up whether the file has the things that
the comments name; `sites` finds the place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from apply_service.merge.words.mentions import NAMING, Relation, read_words
from apply_service.text.english import changes_in_place
from apply_service.text.lines import header_name, indent_of
from apply_service.text.markers import Role, classify

MAX_TEXT = 400
MAX_LINES = 6
MIN_SCORE = 2.45
MIN_AMONG_OTHERS = 1.7
"""In a snippet with a sure directive, another comment counts as a directive from this score on."""
MIN_TOLD = 1.5
"""The minimum score of a sentence of the instruction, if all code of the snippet is new to the file."""
MAX_SOUGHT = 300_000
"""Directives are carried out only if their number times the file's number of lines is at most this.  Otherwise the
search would take too long."""

_SIGNS = {
    "hash": re.compile(r"^\s*#+(?![!\[])\s*(?P<text>.*)$"),
    "slash": re.compile(r"^\s*(?://+!?|\{?/\*+|\*(?=\s))\s*(?P<text>.*?)\s*(?:\*+/\}?)?\s*$"),
    "markup": re.compile(r"^\s*<!--+\s*(?P<text>.*?)\s*(?:--+>)?\s*$"),
    "dash": re.compile(r"^\s*--+\s*(?P<text>.*)$"),
    "semicolon": re.compile(r"^\s*;+\s*(?P<text>.*)$"),
}
_BLOCKS = {"/*": "*/", "{/*": "*/", "<!--": "-->"}
_HASH = ("python", "ruby", "yaml", "toml", "bash", "shell", "dockerfile", "makefile", "perl", "r", "elixir", "hcl")
_OF = dict.fromkeys(_HASH, ("hash",)) | {
    "markdown": ("markup",), "html": ("markup", "slash"), "xml": ("markup",), "vue": ("markup", "slash"),
    "svelte": ("markup", "slash"), "sql": ("dash", "slash"), "lua": ("dash",), "haskell": ("dash",),
    "php": ("slash", "hash", "markup"), "ini": ("semicolon", "hash"),
}  # fmt: skip
_C_LIKE = ("javascript", "typescript", "tsx", "go", "rust", "java", "c", "cpp", "csharp", "kotlin", "swift", "css",
           "scss", "scala", "dart", "json", "jsonc", "zig", "proto")  # fmt: skip
_OPENING = re.compile(
    r"^(?:please )?(?:replac(?:es?|ing)|swap|goes|belongs|insert|adds?|append|"
    r"prepend|put|place|removes?|deletes?|drops?|"
    r"this (?:goes|replaces|takes)|takes the place|new \w+|these|both|with the|same for|same|in|inside|at|right|"
    r"directly|just|immediately|under|below|above|after|before|between|first|second|third|last|next to|top|bottom|"
    r"very)\b",
    re.IGNORECASE,
)
_STRONG = re.compile(
    r"^(?:replaces|removes|deletes|drops|goes|belongs|append to|prepend to|this (?:goes|replaces|takes)|"
    r"these \w+ (?:replace|go)|takes the place|(?:put|place) (?:this|these|it)|"
    r"(?:insert|add) (?:to|as|at|between|before|after|right|just|directly|this|these|the))\b",
    re.IGNORECASE,
)
_LATER = re.compile(r"[,;:(—–] (?:replaces|goes|insert|add|append|put|delete|drop|remove|removes|takes the place)\b")
_AGAIN = re.compile(
    r"^(?:[\w.()]+: )?(?:(?:and )?(?:the )?same\b|all (?:of )?this\b|everything (?:below|here)\b|"
    r"and (?:again|once more)\b|likewise\b)",
    re.IGNORECASE,
)
_SAME = re.compile(r"^(?:the )?same as\b", re.IGNORECASE)
"""Words that refer to the directive above; without such a directive they mean nothing."""
_DOCUMENTS = re.compile(r"^\s*(?:///|//!|/\*\*|\*)")
_PERSONAL = re.compile(r"^(?:to-?do|fixme|xxx|hack|note|see)\b|\b(?:we|we've|our|us|you|i'm)\b", re.IGNORECASE)
_HEAD = re.compile(r"^(?:in |on |under |inside )?(?:the )?[^\s:—]+(?: [^\s:—]+){0,3}?(?::| —| –) ", re.IGNORECASE)
_LEAD_IN = re.compile(
    r"(?:\(?\d{1,2}[.)] +|step \d{1,2}[:.)] +)?"
    r"(?:(?:(?:and |then |next |finally |also |now )+(?!again\b|once more\b|the same\b|same\b)|"
    r"(?:then|next|finally|also|first|now|second|last), )*(?=[A-Za-z`\"']))",
    re.IGNORECASE,
)
"""Words that join a directive to others: a number, "then"."""
_OPEN_END = re.compile(
    r"(?:^|\s)(?:the|an?|this|its?|after|before|of|in|with|and|or|to|from|by|between|for|on|at|into)$", re.I
)
"""A word that can't end a sentence."""
_DELETES_FIRST = re.compile(
    r"(?P<deletion>(?:remove|delete|drop) .+?),? (?:and|then|and then) (?=(?:replace|change|update) )", re.IGNORECASE
)
"""Two directives in one sentence: a removal, then a change."""
_DOTS = re.compile(r"^(?:\.{3}|…)\s*(?:(?:existing|other|rest of(?: the)?) \w+|unchanged)?[\s,;:(–—-]*", re.IGNORECASE)
_SPEAKING = (Relation.TARGET, Relation.GONE, Relation.AFTER, Relation.BEFORE, Relation.WITHIN)
_NOTES = (Role.FENCE, Role.ELSEWHERE, Role.FILE_NAME, Role.BLANK)


class Directive(NamedTuple):
    """A comment about the edit, and the code that it is about."""

    lines: tuple[int, ...]
    """Update line numbers of the comment."""
    text: str
    """The comment's words, without comment signs."""
    block: tuple[int, ...]
    """Update line numbers of the code, from its first to its last visible line.  It may be empty."""


def comment_text(line: str, language: str | None) -> str | None:
    """Return the words of a line that is only a comment; None for any other line."""
    if len(line) > MAX_TEXT:
        return None
    kinds = ("slash",) if language in _C_LIKE else _OF.get(language or "", tuple(_SIGNS))
    matches = (_SIGNS[kind].match(line) for kind in kinds)
    return next((match["text"] for match in matches if match is not None), None)


def find_directives(
    original: Sequence[str], update: Sequence[str], *, language: str | None, path: str | None
) -> list[Directive]:
    """Return the directives of a snippet, in order, each with the code up to the next directive or marker."""
    roles = classify(update, original, language=language, path=path)
    texts = _comment_texts(update, language)
    known = {line.strip() for line in original}
    lower = "\n".join(original).lower()
    is_free = [i == 0 or roles[i - 1] is not Role.CONTENT for i in range(len(update))]
    """Whether no code stands right above each line."""
    scores = [0.0] * len(update)
    for i, text in enumerate(texts):
        if text and roles[i] not in _NOTES and update[i].strip() not in known and not _DOCUMENTS.match(update[i]):
            is_apart = i + 1 == len(update) or roles[i + 1] is Role.BLANK
            scores[i] = judge(text, lower, stands_free=is_free[i], is_apart=is_apart)
            # A documentation comment begins with the name that is declared below.
            below = (line for line in update[i + 1 : i + 12] if line.strip() and not _SIGNS["slash"].match(line))
            name = header_name(next(below, ""))
            scores[i] -= 2.0 * (name == text.split(" ", 1)[0] and not text.startswith(f"{name}:"))
    orders = _orders(update, roles)
    others = [scores[i] for i, role in enumerate(roles) if role not in (*_NOTES, Role.DELETION)]
    if not orders and others and max(others) < MIN_SCORE:
        # At most deletion notes between code are left; these concern the lines around them.
        return []
    enough = MIN_SCORE if max(scores, default=0.0) < MIN_SCORE else MIN_AMONG_OTHERS
    found: list[range] = []
    for i, score in enumerate(scores):
        if found and i in found[-1]:
            continue
        if i in orders:
            found.append(range(i, i + 1))
            texts[i] = orders[i]
            continue
        follows = bool(found) and i == found[-1].stop
        if not found and _SAME.match(texts[i] or ""):
            continue
        if score >= (enough if is_free[i] or follows else MIN_SCORE):
            found.append(range(i, _directive_end(update, texts, i, known)))
    if not found or len(found) * len(original) > MAX_SOUGHT:
        return []
    directives = []
    for lines, stop in zip(found, [*(lines.start for lines in found[1:]), len(update)], strict=True):
        skipped = (Role.BLANK, Role.FENCE) if lines.start in orders else (Role.BLANK, Role.MARKER)
        # A sentence above an empty fence has no code.
        is_bare = lines.start in orders and list(roles[lines.stop : lines.stop + 2]) == [Role.FENCE] * 2
        start = stop if is_bare else next((i for i in range(lines.stop, stop) if roles[i] not in skipped), stop)
        for i in range(start, stop):
            # A marker ends the code, unless its dots are the only statement of a body.
            is_body = texts[i] is None and update[i - 1].rstrip().endswith(":")
            if roles[i] in (Role.FENCE, Role.ELSEWHERE) or (roles[i] is Role.MARKER and not is_body):
                stop = i
                break
        code = [i for i in range(start, stop) if update[i].strip()]
        block = tuple(range(code[0], code[-1] + 1)) if code else ()
        text = _joined([texts[i] or "" for i in lines])
        if block and (first := _DELETES_FIRST.match(text)) is not None:
            directives.append(Directive(tuple(lines), first["deletion"], ()))
            text = text[first.end() :]
        directives.append(Directive(tuple(lines), text, block))
    return _completed(directives)


def _orders(update: Sequence[str], roles: Sequence[Role]) -> dict[int, str]:
    """Return the sentences between fences that order a change, by line number.  A sentence above code with a marker
    only describes that code, so it is left out."""
    found = {i: update[i].strip().rstrip(":*_") for i, role in enumerate(roles) if role is Role.ELSEWHERE}
    stops = [*found, len(update)][1:]
    return {i: text for (i, text), stop in zip(found.items(), stops, strict=True) if Role.MARKER not in roles[i:stop]}


def _comment_texts(update: Sequence[str], language: str | None) -> list[str | None]:
    """Return the words of each line that is a comment or part of a comment; None for all other lines."""
    texts: list[str | None] = []
    closing = ""
    for line in update:
        if closing and len(line) <= MAX_TEXT:
            texts.append(line.split(closing, 1)[0].strip().lstrip("*").strip())
            closing = "" if closing in line else closing
            continue
        texts.append(comment_text(line, language))
        opened = (end for sign, end in _BLOCKS.items() if texts[-1] is not None and line.lstrip().startswith(sign))
        closing = next(opened, "")
        closing = "" if closing in line else closing
    return texts


def _directive_end(update: Sequence[str], texts: Sequence[str | None], start: int, known: set[str]) -> int:
    """Return one past the last line of the directive, which ends with its sentence."""
    end = start + 1
    while end < len(update) and end - start < MAX_LINES:
        above, text = texts[end - 1] or "", texts[end]
        if not text or update[end].strip() in known or above.rstrip().endswith(":") or _STRONG.match(text):
            break
        whole = " ".join(texts[i] or "" for i in range(start, end))
        is_open = above.rstrip().endswith((",", ";", "—", "-")) or whole.count("(") > whole.count(")")
        is_open = is_open or _OPEN_END.search(above.rstrip()) is not None
        goes_on = text.startswith(("(", "and ", "i.e.")) or (
            text[:1].islower() and text.split(" ", 1)[0].isalpha() and len(text) > 12
        )
        in_block = update[start].lstrip()[:2] in ("/*", "<!", "{/")
        if not (is_open or goes_on) or not (in_block or indent_of(update[end]) == indent_of(update[start])):
            break
        end += 1
    return end


def _joined(texts: Sequence[str]) -> str:
    """Return the text as one line, without the dots and brackets of a marker around it."""
    text = " ".join(texts).strip()
    match = _DOTS.match(text)
    if match is not None:
        text = text[match.end() :].rstrip(" .…")
        return text.removesuffix(")") if text.count(")") > text.count("(") else text
    text = _LEAD_IN.sub("", text, count=1)
    return text[1:-1] if text[:1] + text[-1:] in ("()", "[]") else text


def _completed(directives: Sequence[Directive]) -> list[Directive]:
    """Return the directives, each completed from those above it: "same in save()" gets the task of the one above, and a
    scope that is named once goes to all below."""
    found: list[Directive] = []
    scope: Directive | None = None
    is_used = False
    task = ""
    for lines, text, block in directives:
        if not block and not read_words(text, bool).deletes:
            scope, is_used = Directive(lines, text, block), False
            continue
        if _AGAIN.match(text) and task:
            text = f"{text}; {task}"
        else:
            head = _HEAD.match(text)
            task = text[head.end() :] if head is not None else text
        if scope is not None:
            text = f"{scope.text.rstrip(' .:')}: {text}"
            lines = lines if is_used else (*scope.lines, *lines)
            is_used = True
        found.append(Directive(lines, text, block))
    return found


def judge(text: str, lower: str, *, stands_free: bool, is_apart: bool = False, is_told: bool = False) -> float:
    """Return a score of how much a comment's words speak about the edit and about things in the file.

    `lower`: the file's text in lower case.  `stands_free`: no code stands right above.  `is_apart`: no line stands
    right below.  `is_told`: the text is not a comment, but a sentence that is addressed to the merger.
    """
    text = _joined([text])
    words = read_words(text, lambda phrase: phrase.lower() in lower)
    does = words.replaces or words.deletes or words.inserts
    named = []
    """The sorts of code named, and the things named that the file has: up to dots or a bracket, or by parts
    (`jobs.test.steps`)."""
    for mention in words.mentions:
        first = re.split(r"\.{3}|…|\(", mention.text.lower())[0].strip()
        parts = [part for part in re.split(r"\.|->|::|>|/", first) if part]
        stands = (first != "" and first in lower) or all(part in lower for part in parts)
        if mention.relation in _SPEAKING and (mention.kind == "sort" or (mention.kind in NAMING and stands)):
            named.append(mention)
    if words.keeps_rest and not (does or (words.head_only and named)):
        return 0.0
    named_worth = sum(1.0 if m.kind == "code" or " " in m.text else 0.5 for m in named)
    is_edge = any(m.kind in ("edge", "line") for m in words.mentions)
    is_again = _AGAIN.match(text) is not None
    if not named and not is_edge and not words.head_only and not is_again:
        return 0.0
    score = 1.0 * bool(_STRONG.match(text)) + 0.5 * bool(_OPENING.match(text)) + min(words.meta, 4) * 0.4
    score += 1.0 * (_LATER.search(text) is not None)
    score += 0.8 * min(named_worth, 2.0) + 0.4 * is_edge + 0.5 * does + 0.5 * words.head_only + 1.2 * is_again
    is_beside = any(m.relation in (Relation.AFTER, Relation.BEFORE) for m in named)
    score += 0.6 * is_beside + 0.3 * (words.keeps_rest and does)
    head = _HEAD.match(text) if any(m.relation is Relation.WITHIN for m in named) else None
    if head is not None:
        score += 1.4 if text.startswith("new ", head.end()) else 0.8
    score -= 0.5 * words.unknown * all(m.kind == "words" for m in named)
    is_capital = text[:1].isupper()
    if not is_again and not is_told:
        has_code = any(m.kind == "code" for m in named)
        score -= 1.6 * (text.endswith(".") and is_capital) + 0.6 * (is_capital and not has_code)
    score -= 0.8 * (". " in text and not is_told)
    unknown = words.unknown + sum(m.relation is Relation.SUBJECT and m.kind == "words" for m in words.mentions)
    if named or words.meta >= 2:
        score += 1.2 if not unknown else 0.5 if unknown == 1 else 0.0
    score -= 2.0 * (is_told and changes_in_place(text))
    score += 1.0 * (is_apart and words.deletes) - 1.0 * (bool(_PERSONAL.search(text)) and not is_told)
    score -= 0.6 * (named_worth == 0.5 and not is_edge)
    return score + (0.5 if stands_free else -1.2)
