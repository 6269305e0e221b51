"""Comments of a snippet that speak about the edit: where the code below goes, what it replaces, what is removed.

Finds them, tells them from comments that belong into the file, and reads what they say: which things they name (names,
quoted text, sorts of code, edges) and how the code stands to each.  Whether a phrase stands in the file is looked up;
where it stands is found by `place`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from apply_service.edits.code_lines import header_name, indent_of
from apply_service.edits.markers import Role, classify

MAX_TEXT = 400
MAX_LINES = 6
MAX_WORDS = 160
MAX_PHRASE = 6
MIN_SCORE = 2.45
MIN_AMONG_OTHERS = 1.7
"""For a comment in a snippet that has a directive without doubt."""
MAX_SOUGHT = 300_000
"""Directives times lines of the file: with more, none is carried out, as each is sought in the whole file."""

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
_DOCUMENTS = re.compile(r"^\s*(?:///|//!|/\*\*|\*)")
_PERSONAL = re.compile(r"^(?:to-?do|fixme|xxx|hack|note|see)\b|\b(?:we|we've|our|us|you|i'm)\b", re.IGNORECASE)
_HEAD = re.compile(r"^(?:in |on |under |inside )?(?:the )?[^\s:—]+(?: [^\s:—]+){0,3}?(?::| —| –) ", re.IGNORECASE)
_DOTS = re.compile(r"^(?:\.{3}|…)\s*(?:(?:existing|other|rest of(?: the)?) \w+|unchanged)?[\s,;:(–—-]*", re.IGNORECASE)
_NOTES = (Role.FENCE, Role.CHAT, Role.FILE_NAME, Role.BLANK)


class Directive(NamedTuple):
    """A comment that speaks about the edit, with the code it speaks of."""

    lines: tuple[int, ...]
    """Update line numbers of the comment."""
    text: str
    """Its words, comment signs off."""
    block: tuple[int, ...]
    """Update line numbers of the code, from its first to its last visible line; may be empty."""


def comment_text(line: str, language: str | None) -> str | None:
    """The words of a line that is nothing but a comment; None for another line."""
    if len(line) > MAX_TEXT:
        return None
    kinds = ("slash",) if language in _C_LIKE else _OF.get(language or "", tuple(_SIGNS))
    matches = (_SIGNS[kind].match(line) for kind in kinds)
    return next((match["text"] for match in matches if match is not None), None)


def find_directives(
    original: Sequence[str], update: Sequence[str], *, language: str | None, path: str | None
) -> list[Directive]:
    """The directives of a snippet, in order, each with the code up to the next one (or the next marker)."""
    roles = classify(update, original, language=language, path=path)
    texts = _comment_texts(update, language)
    known = {line.strip() for line in original}
    lower = "\n".join(original).lower()
    is_free = [i == 0 or roles[i - 1] is not Role.CONTENT for i in range(len(update))]
    """Whether no line of code stands right above."""
    scores = [0.0] * len(update)
    for i, text in enumerate(texts):
        if text and roles[i] not in _NOTES and update[i].strip() not in known and not _DOCUMENTS.match(update[i]):
            scores[i] = judge(text, lower, stands_free=is_free[i])
            # Documentation begins with the name that the next line declares.
            below = (line for line in update[i + 1 : i + 12] if line.strip() and not _SIGNS["slash"].match(line))
            name = header_name(next(below, ""))
            scores[i] -= 2.0 * (name == text.split(" ", 1)[0] and not text.startswith(f"{name}:"))
    others = [scores[i] for i, role in enumerate(roles) if role not in (*_NOTES, Role.DELETION)]
    if others and max(others) < MIN_SCORE:
        # Notes of deletion between code: they speak of the lines around them.
        return []
    enough = MIN_SCORE if max(scores, default=0.0) < MIN_SCORE else MIN_AMONG_OTHERS
    found: list[range] = []
    for i, score in enumerate(scores):
        if found and i in found[-1]:
            continue
        follows = bool(found) and i == found[-1].stop
        if score >= (enough if is_free[i] or follows else MIN_SCORE):
            found.append(range(i, _directive_end(update, texts, i, known)))
    if len(found) * len(original) > MAX_SOUGHT:
        return []
    directives = []
    for lines, stop in zip(found, [*(lines.start for lines in found[1:]), len(update)], strict=True):
        start = next((i for i in range(lines.stop, stop) if roles[i] not in (Role.BLANK, Role.MARKER)), stop)
        for i in range(start, stop):
            # Lines are left out; but dots as the only statement of a body are code.
            is_body = texts[i] is None and update[i - 1].rstrip().endswith(":")
            if roles[i] in (Role.FENCE, Role.CHAT) or (roles[i] is Role.MARKER and not is_body):
                stop = i
                break
        code = [i for i in range(start, stop) if update[i].strip()]
        block = tuple(range(code[0], code[-1] + 1)) if code else ()
        directives.append(Directive(tuple(lines), _joined([texts[i] or "" for i in lines]), block))
    return _completed(directives)


def _comment_texts(update: Sequence[str], language: str | None) -> list[str | None]:
    """The words of each line that is a comment, or stands in one that goes over several lines."""
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
    """One past the last line of the directive: it goes on while its sentence does."""
    end = start + 1
    while end < len(update) and end - start < MAX_LINES:
        above, text = texts[end - 1] or "", texts[end]
        if not text or update[end].strip() in known or above.rstrip().endswith(":") or _STRONG.match(text):
            break
        whole = " ".join(texts[i] or "" for i in range(start, end))
        is_open = above.rstrip().endswith((",", ";", "—", "-")) or whole.count("(") > whole.count(")")
        goes_on = text.startswith(("(", "and ", "i.e.")) or (
            text[:1].islower() and text.split(" ", 1)[0].isalpha() and len(text) > 12
        )
        in_block = update[start].lstrip()[:2] in ("/*", "<!", "{/")
        if not (is_open or goes_on) or not (in_block or indent_of(update[end]) == indent_of(update[start])):
            break
        end += 1
    return end


def _joined(texts: Sequence[str]) -> str:
    """The text as one line, without the dots (and brackets) of a marker around it."""
    text = " ".join(texts).strip()
    match = _DOTS.match(text)
    if match is not None:
        text = text[match.end() :].rstrip(" .…")
        return text.removesuffix(")") if text.count(")") > text.count("(") else text
    return text[1:-1] if text[:1] + text[-1:] in ("()", "[]") else text


def _completed(directives: Sequence[Directive]) -> list[Directive]:
    """The directives with what they take from those above: "same in save()", and a scope told once for all."""
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


def judge(text: str, lower: str, *, stands_free: bool) -> float:
    """How much a comment's words speak of the edit and of what stands in the file (its text in small letters)."""
    text = _joined([text])
    words = read_words(text, lambda phrase: phrase.lower() in lower)
    does = words.replaces or words.deletes or words.inserts
    named = []
    """What may stand in the file: as it is written, up to dots or brackets, or part by part (`jobs.test.steps`)."""
    for mention in words.mentions:
        first = re.split(r"\.{3}|…|\(", mention.text.lower())[0].strip()
        parts = [part for part in re.split(r"\.|->|::|>|/", first) if part]
        stands = (first != "" and first in lower) or all(part in lower for part in parts)
        if mention.relation in _SPEAKING and (mention.kind == "sort" or (mention.kind in _NAMING and stands)):
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
    if not is_again:
        has_code = any(m.kind == "code" for m in named)
        score -= 1.6 * (text.endswith(".") and is_capital) + 0.6 * (is_capital and not has_code)
    score -= 0.8 * (". " in text)
    unknown = words.unknown + sum(m.relation is Relation.SUBJECT and m.kind == "words" for m in words.mentions)
    if named or words.meta >= 2:
        score += 1.2 if not unknown else 0.5 if unknown == 1 else 0.0
    score -= 1.0 * bool(_PERSONAL.search(text)) + 0.6 * (named_worth == 0.5 and not is_edge)
    return score + (0.5 if stands_free else -1.2)


# -- what the words say --------------------------------------------------------------------------------------------


class Relation(StrEnum):
    """How the code stands to a thing that its directive names."""

    SUBJECT = "subject"
    """It is the thing, or nothing is known."""
    TARGET = "target"
    GONE = "gone"
    KEPT = "kept"
    AFTER = "after"
    BEFORE = "before"
    WITHIN = "within"
    UNTIL = "until"
    """The thing ends a stretch that begins with the one named before it."""


class Mention(NamedTuple):
    """One thing named.  `kind`: code, words, sort, edge or line; `sort`: of which sort it is said to be."""

    text: str
    relation: Relation
    kind: str
    sort: str = ""
    ordinal: int = 0
    """1 for the first, -1 for the last; 0 where none is said."""
    number: int = 0


@dataclass(slots=True)
class Words:
    """A directive's words, understood one by one."""

    mentions: list[Mention] = field(default_factory=list)
    replaces: bool = False
    inserts: bool = False
    deletes: bool = False
    head_only: bool = False
    """Only a signature, header or opening tag is shown."""
    keeps_rest: bool = False
    one_line: bool = False
    """It speaks of one line that is replaced."""
    whole: bool = False
    blank: bool | None = None
    """Whether it asks for a blank line around the block, or for none."""
    meta: int = 0
    """How many words speak of the edit rather than of the program."""
    unknown: int = 0
    """How many words are neither understood nor small words of the language."""


_SPEAKING = (Relation.TARGET, Relation.GONE, Relation.AFTER, Relation.BEFORE, Relation.WITHIN)
_TOKEN = re.compile(
    r"`(?P<tick>[^`]{1,200})`|(?P<attr>[\w-]+=(?:\"[^\"]{0,100}\"|'[^']{0,100}'))"
    r"|(?P<section>(?<!\w)\[\[?[\w\"'][^\]\n]{0,100}\]{1,2})|\"(?P<quote>[^\"]{1,200})\"|“(?P<curly>[^”]{1,200})”"
    r"|(?<!\w)'(?P<single>[^']{1,120})'(?!\w)|(?P<tag></?[A-Za-z][\w.-]*[^<>]{0,120}>)"
    r"|(?P<call>[\w$@.:]{1,80}\([^()]{0,80}\))"
    r"|(?P<name>[@$#.]?[\w$]+(?:(?:[./:-]|::|->)[\w$-]+)*\??(?:\.\*)?)|(?P<sign>[,;:()—–→]|\.(?=\s|$)| - )"
)
_NUMBERS = re.compile(r"\d{1,7}(?:-\d{1,7})?$", re.ASCII)
_CODE_SHAPE = re.compile(r"[a-z0-9][A-Z]|[_@$/]|\w[.:]\w|\d.*[a-z]|^[A-Z]{2,}\w*$", re.ASCII)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_NAMING = ("code", "words", "sort")
"""The kinds of mentions that name a thing of the file."""
_ADDED = _set("a an another one two three more new")
_DETERMINERS = _set("the a an this that these those it its them all any both each every")
_EDGES = {"top": 1, "start": 1, "beginning": 1, "bottom": -1, "end": -1}
_AFTER = _set("after below beneath under underneath behind following follows past succeeding")
_BEFORE = _set("before above precedes preceding over")
_NO_OBJECT = _set("it this these that them with ) , ; :")
_CONNECTIVES = _set("in ahead instead place down up through until till from next")
_WITHIN = _set("in inside within into on at of for to onto")
_REPLACE = _set(
    "replace replaces replacing swap swaps overwrite overwrites supersedes rewrite change changes update bump bumps"
)
_INSERT = _set("add adds insert inserts append appends prepend prepends put place goes go belongs belong")
_DELETE = _set("remove removes delete deletes drop drops removing deleting dropping without")
_VERBS = _REPLACE | _INSERT | _DELETE
_GONE = _set("gone removed deleted dropped away unneeded")
_KEPT = _set("stays stay unchanged remains remain untouched kept")
_BECOMES = _set("becomes become replaced gets bumped changed")
_ORDINALS = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "last": -1, "final": -1}
_COUNTS = {"both": 2, "two": 2, "three": 3, "four": 4, "five": 5}
_ITEMS = _set(
    "row entry item property key field step option line element thing method function member statement "
    "attribute case test parameter argument child import section"
)
_SORTS = {
    "import": "import", "imports": "import", "requires": "import", "include": "import", "includes": "import",
    "decorator": "decorator", "decorators": "decorator", "annotation": "decorator", "docstring": "docstring",
    "comment": "comment", "raise": "raise", "return": "return", "assert": "assert", "throw": "throw",
    "constructor": "constructor",
}  # fmt: skip
_STATEMENTS = _set("if else elif try except catch finally for while with switch case return raise throw match")
_BEFORE_STATEMENT = _set("the last first second that old whole this bare")
_BEHIND_STATEMENT = _set("block loop statement branch clause check")
_PARTS = _set("line lines body part value end top signature header")
_META = _set(
    "line lines import imports block signature decorator decorators docstring method function entry "
    "entries section body file module heading paragraph old existing whole entire current rest definition "
    "blank class below these property stays unchanged bottom top script list job step steps comment call "
    "statement directly right just handler attribute tag args paragraph test tests include field constant "
    "constants between above replaces"
)
_STOP = _set(
    "a an the this that these those and or but not no with from by as is are was were be been it its "
    "itself all any each every same new old just right directly very also too now then here there only "
    "whole entire existing current previous both so such where which who when while if else else's "
    "there's one ones two three four five first second third last final other others another more again "
    "ever instead place goes go gets get set use used using make made line lines block blocks code file "
    "files module method methods function functions class classes body header definition definitions "
    "section sections entry entries item items key keys value list lists step steps job field property "
    "properties heading paragraph sentence text part parts thing call calls statement statements branch "
    "loop check blank between needed longer isn't doesn't does do did has have had will would should can "
    "up down out off separate page misspelled script handler link tag opening closing below above before "
    "after old-style it's def func fn argument arguments parameter parameters rest everything anything "
    "nothing i.e e.g note way below. immediately well least most next them they their into onto such than "
    "gone away stay stays left keep"
)


class _Reader:
    """Reads the words from left to right; a connective ("before", "in", "replaces") gives what follows its relation."""

    def __init__(self, text: str, stands: Callable[[str], bool]) -> None:
        self.text, self.stands = text, stands
        self.tokens = list(islice(_TOKEN.finditer(text), MAX_WORDS))
        self.words = Words()
        self.relation = Relation.SUBJECT
        self.between = False
        """"between" was said, its "and" is to come."""
        self.is_stretch = False
        """"from" was said, "to" is to come."""
        self.ordinal = self.count = 0
        self.clause = self.sentence = 0
        """Where the mentions of this clause, and of this sentence, begin."""
        self.verb = 0
        """Index after the token of the last verb."""
        self.stack: list[tuple[Relation, int]] = []
        self.last_end = -1
        """Index after the token of the last mention."""

    def low(self, i: int) -> str:
        """A name or sign in small letters; "" for code and quotes."""
        if not 0 <= i < len(self.tokens) or self.tokens[i].lastgroup not in ("name", "sign"):
            return ""
        return self.tokens[i][0].strip().lower()

    def add(self, kind: str, text: str, end: int, *, sort: str = "", ordinal: int = 0) -> int:
        """Adds a mention; `end`: index after its last token."""
        counted = (0, 0) if kind == "edge" else (self.ordinal, self.count)
        self.words.mentions.append(Mention(text, self.relation, kind, sort, ordinal or counted[0], counted[1]))
        self.ordinal = self.count = 0
        self.last_end = end
        return end

    def turn(self, relation: Relation, start: int) -> bool:
        """Gives the subjects from `start` on another relation."""
        mentions, turned = self.words.mentions, False
        for k in range(start, len(mentions)):
            is_second_sort = turned and mentions[k].kind == "sort" and relation is Relation.GONE
            if mentions[k].relation is Relation.SUBJECT and mentions[k].kind in _NAMING and not is_second_sort:
                mentions[k] = mentions[k]._replace(relation=relation)
                turned = True
        return turned

    def start_clause(self, relation: Relation = Relation.SUBJECT) -> None:
        self.relation, self.clause = relation, len(self.words.mentions)

    def step(self, i: int) -> int:
        """Reads the token, and those that go with it; gives the index after them."""
        token, low, above, words = self.tokens[i], self.low(i), self.low(i - 1), self.words
        if token.lastgroup == "sign":
            self.sign(i, low)
            return i + 1
        words.meta += low in _META
        text = token[token.lastgroup or 0].strip()
        branches = low.split("/")
        if len(branches) > 1 and _STATEMENTS.issuperset(branches):
            return self.add("sort", low, i + 1, sort=branches[0])
        if token.lastgroup == "tick" and text in _STATEMENTS:
            return self.add("sort", text, i + 1, sort=text)
        if token.lastgroup != "name" or (_CODE_SHAPE.search(text) and not low.startswith(("i.e", "e.g"))):
            return self.add("code", text, i + 1)
        if low in _CONNECTIVES and (used := self.connective(i, low)):
            return i + used
        if low in _VERBS:
            is_object = above in _AFTER | _BEFORE | {"between"} or (above == "and" and self.relation is Relation.BEFORE)
            if is_object and self.stands(text):
                return self.add("words", text, i + 1)
            if above in ("the", "a", "an", "its"):
                return self.phrase(i)
        if low in ("blank", "empty"):
            if above not in ("before", "after", "the", "first"):
                words.blank = above not in ("no", "without")
            if words.blank is False:
                self.relation = Relation.SUBJECT
            return i + 2
        words.one_line = words.one_line or (low == "line" and self.relation is Relation.TARGET)
        if low in ("line", "lines") and _NUMBERS.match(self.low(i + 1)):
            return self.add("line", self.low(i + 1), i + 2)
        return i + 1 if self.small_word(i, low) else self.phrase(i)

    def sign(self, i: int, low: str) -> None:
        if low == "(":
            self.stack.append((self.relation, self.clause))
            if i + 1 < len(self.tokens) and self.tokens[i + 1].lastgroup in ("tick", "quote", "call", "tag"):
                return
            self.start_clause()
        elif low == ")" and self.stack:
            self.relation, self.clause = self.stack.pop()
        elif low == ")":
            self.start_clause()
        elif low in (":", "—", "–", "-") and not self.stack:
            for k in range(self.clause, len(self.words.mentions)):
                if self.words.mentions[k].relation is Relation.SUBJECT:
                    self.words.mentions[k] = self.words.mentions[k]._replace(relation=Relation.WITHIN)
            self.start_clause()
        elif low in (";", "."):
            self.start_clause()
            self.sentence = self.clause
        elif low == "," and self.relation in (Relation.AFTER, Relation.BEFORE) and not self.between:
            self.relation = Relation.SUBJECT
        self.ordinal = self.count = 0

    def connective(self, i: int, low: str) -> int:
        """How many tokens a connective of several words takes; 0 where there is none."""
        one, two = self.low(i + 1), self.low(i + 2)
        if (low, one, two) == ("in", "front", "of"):
            self.relation = Relation.BEFORE
            return 3
        if (low, one) == ("ahead", "of"):
            self.relation = Relation.BEFORE
            return 2
        if (low, one) == ("next", "to"):
            self.relation = Relation.AFTER
            return 2
        if (low, one) in (("instead", "of"), ("place", "of")) or (low, one, two) == ("in", "place", "of"):
            self.relation, self.words.replaces = Relation.TARGET, True
            self.verb = i + 2
            return 2 + (low == "in")
        if self.relation is Relation.TARGET and (low in ("through", "until", "till") or one == "to"):
            self.relation = Relation.UNTIL
            return 1 + (one == "to")
        if low == "from" and self.relation is Relation.GONE and self.last_end >= 0:
            self.relation = Relation.WITHIN
            return 1
        if low == "from" and self.relation is Relation.TARGET:
            self.is_stretch = True
            return 1
        return 0

    def small_word(self, i: int, low: str) -> bool:
        """What a word of the language changes; False: it is none.

        Over 60 lines: a list of decisions whose order is what it says.
        """
        words, above, below = self.words, self.low(i - 1), self.low(i + 1)
        if low == "between":
            self.relation, self.between = Relation.AFTER, True
        elif low == "and" and self.between and self.relation is Relation.AFTER:
            self.relation, self.between = Relation.BEFORE, False
        elif low in _AFTER or low in _BEFORE:
            if i + 1 < len(self.tokens) and below not in _NO_OBJECT:
                self.relation = Relation.AFTER if low in _AFTER else Relation.BEFORE
        elif low in ("change", "changes") and above in ("not", "no", "doesn't", "don't", "other"):
            words.keeps_rest = True
        elif low in _VERBS:
            if low != "place" or above not in ("the", "its", "in"):
                self.verb_at(i, low)
        elif low in ("loses", "lose"):
            self.turn(Relation.WITHIN, self.clause)
            words.deletes, self.relation = True, Relation.GONE
        elif low in _BECOMES or (low == "now" and below not in ("", ")", ",", ".", ";")):
            if low == "replaced" and below not in ("by", "with"):
                return True
            if low == "gets" and below in _ADDED:
                words.inserts = True
                self.turn(Relation.WITHIN, self.clause)
            else:
                words.replaces = True
                self.turn(Relation.TARGET, self.clause)
            words.meta += 1
            self.start_clause()
        elif low in _GONE or low in _KEPT:
            relation = Relation.GONE if low in _GONE else Relation.KEPT
            turned = self.turn(relation, self.clause)
            words.deletes |= low in _GONE
            words.keeps_rest |= low in _KEPT
            words.meta += 1
            self.start_clause(relation if low in _GONE and not turned else self.relation)
        elif low in _EDGES:
            self.add("edge", low, i + 1, ordinal=_EDGES[low])
        elif low in _COUNTS:
            self.count = _COUNTS[low]
        elif low in _ORDINALS:
            is_item = below in _ITEMS or (i == 0 and not self.stands(below))
            if is_item and self.relation is Relation.SUBJECT:
                words.inserts = True
                self.add("edge", low, i + 1, ordinal=_ORDINALS[low])
            else:
                self.ordinal = _ORDINALS[low]
        elif low in ("signature", "header") or (low in ("tag", "line") and above in ("opening", "def", "signature")):
            words.head_only = True
        elif low == "only" and self.relation is not Relation.SUBJECT:
            words.head_only = words.head_only or self.low(i + 2) == "line"
        elif low in ("whole", "entire", "everything"):
            words.whole = True
        elif low in ("rest", "otherwise"):
            words.keeps_rest = True
        elif low == "with" and self.relation is Relation.TARGET and self.last_end >= self.verb:
            self.relation = Relation.SUBJECT
        elif low in _SORTS or (low in _STATEMENTS and (above in _BEFORE_STATEMENT or below in _BEHIND_STATEMENT)):
            self.sort(i, low)
        elif low == "to" and self.is_stretch and self.relation is Relation.TARGET:
            self.relation = Relation.UNTIL
        elif low in _WITHIN:
            is_part = low in ("of", "in") and above in _PARTS | _ITEMS
            is_verbs = low in ("of", "for", "to") and self.relation is not Relation.SUBJECT and self.last_end < 0
            if is_part or not (is_verbs or (low == "of" and self.relation in (Relation.AFTER, Relation.BEFORE))):
                self.relation = Relation.WITHIN
        else:
            return False
        return True

    def verb_at(self, i: int, low: str) -> None:
        words, below = self.words, self.low(i + 1)
        words.meta += 1
        self.verb = i + 1
        if low in _REPLACE:
            words.replaces = True
            self.start_clause(Relation.TARGET)
        elif low in _DELETE:
            words.deletes = True
            self.start_clause(Relation.GONE)
            if below in ("it", "them", "both"):
                self.turn(Relation.GONE, self.sentence)
        elif (low, below) not in (("go", "away"), ("goes", "away")):
            words.inserts = True
            self.start_clause()
            if low.startswith(("append", "prepend")):
                ordinal = -1 if low.startswith("append") else 1
                words.mentions.append(Mention(low, Relation.SUBJECT, "edge", ordinal=ordinal))

    def sort(self, i: int, low: str) -> None:
        """A word for a sort of code: said of the thing named right before it, or itself what is named."""
        sort = _SORTS.get(low, low)
        if sort == "docstring" and self.low(i - 1) != "with" and self.relation is Relation.SUBJECT:
            self.relation, self.words.replaces = Relation.TARGET, True
        if self.last_end == i and self.words.mentions:
            self.words.mentions[-1] = self.words.mentions[-1]._replace(sort=sort)
            return
        is_all = sort == "import" and low.endswith("s") and self.relation in (Relation.AFTER, Relation.BEFORE)
        ordinal = 0 if not is_all else -1 if self.relation is Relation.AFTER else 1
        self.add("sort", low, i + 1, sort=sort, ordinal=ordinal)

    def phrase(self, i: int) -> int:
        """The longest run of words that stands in the file."""
        first, low, above = self.tokens[i], self.low(i), self.low(i - 1)
        is_beside = self.relation in (Relation.AFTER, Relation.BEFORE)
        follows_name = i > 0 and self.tokens[i - 1].lastgroup == "name" and above not in _STOP - _AFTER - _BEFORE
        is_name = first[0][:1].isupper() and follows_name
        is_said = is_beside and above in _AFTER | _BEFORE | {"and", "between"} and low not in _DETERMINERS
        if low in _STOP and not is_name and not is_said:
            return i + 1
        is_meant = is_beside or self.relation is Relation.TARGET or above in _ITEMS | {"class", "struct"}
        for j in range(min(i + MAX_PHRASE, len(self.tokens)) - 1, i - 1, -1):
            is_small = self.low(j) in _STOP and self.low(j) not in _SORTS
            may_be_small = (is_name and j == i) or (is_said and j == i + 1)
            if self.tokens[j].lastgroup not in ("name", "quote", "tick") or (is_small and not may_be_small):
                continue
            phrase = self.text[first.start() : self.tokens[j].end()]
            if (len(phrase) > 1 or is_meant) and phrase.lower() != "i" and self.stands(phrase):
                return self.add("words", phrase, j + 1)
        self.words.unknown += low not in _STOP
        return i + 1


def read_words(text: str, stands: Callable[[str], bool]) -> Words:
    """What a directive's text says; `stands` tells whether a phrase is in the file."""
    reader = _Reader(text, stands)
    i = 0
    while i < len(reader.tokens):
        i = reader.step(i)
    return reader.words
