"""What a directive speaks of: the mentions in its words (names, quoted text, sorts of code, edges) and their roles.

Reads the words from left to right; a connective ("before", "in", "replaces") gives what follows its role.  Whether a
phrase stands in the file is asked of the caller; where it stands is found by `place`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

MAX_WORDS = 160
MAX_PHRASE = 6


class Role(StrEnum):
    SUBJECT = "subject"
    """Of the block itself, or nothing known."""
    TARGET = "target"
    GONE = "gone"
    KEPT = "kept"
    AFTER = "after"
    BEFORE = "before"
    WITHIN = "within"
    UNTIL = "until"
    """The last line of a stretch that begins with the mention before it."""


class Mention(NamedTuple):
    """One thing named.  `kind`: code, words, sort, edge or line; `sort`: of which sort it is said to be."""

    text: str
    role: Role
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


_ADDED = _set("a an another one two three more new")
_DETERMINERS = _set("the a an this that these those it its them all any both each every")
_EDGES = {"top": 1, "start": 1, "beginning": 1, "bottom": -1, "end": -1}
_AFTER = _set("after below beneath under underneath behind following follows past succeeding")
_BEFORE = _set("before above precedes preceding over")
_WITHIN = _set("in inside within into on at of for to onto")
_REPLACE = _set(
    "replace replaces replacing swap swaps overwrite overwrites supersedes rewrite change changes update bump bumps"
)
_INSERT = _set("add adds insert inserts append appends prepend prepends put place goes go belongs belong")
_DELETE = _set("remove removes delete deletes drop drops removing deleting dropping without")
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
    "decorator": "decorator",
    "decorators": "decorator", "docstring": "docstring", "comment": "comment", "raise": "raise", "return": "return",
    "assert": "assert", "throw": "throw", "constructor": "constructor", "annotation": "decorator",
}  # fmt: skip
_STATEMENTS = _set("if else elif try except catch finally for while with switch case return raise throw match")
_PARTS = _set("line lines body part value end top signature header")
_HEADS = _set("signature header")
_META = _set(
    "line lines import imports block signature decorator decorators docstring method function entry "
    "entries section body file module heading paragraph old existing whole entire current rest definition "
    "blank class below these property stays unchanged bottom top script list job step steps comment call "
    "statement directly right just handler attribute tag args paragraph test tests include field constant "
    "constants between above replaces"
)
STOP = _set(
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


_VERBS = _REPLACE | _INSERT | _DELETE


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


def _tokens(text: str) -> list[_Token]:
    found = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        found.append(_Token(kind, match.group(kind).strip(), match.start(), match.end()))
        if len(found) == MAX_WORDS:
            break
    return found


class _Reader:
    """One pass over the words."""

    def __init__(self, text: str, stands: Callable[[str], bool]) -> None:
        self.text, self.stands = text, stands
        self.tokens = _tokens(text)
        self.words = Words()
        self.role = Role.SUBJECT
        self.between = False
        self.ordinal = self.count = 0
        self.clause = 0
        """Where the mentions of this clause begin."""
        self.sentence = 0
        self.verb = 0
        """Index after the token of the last verb."""
        self.is_stretch = False
        """"from" was said, "to" is to come."""
        self.stack: list[tuple[Role, int]] = []
        self.last_end = -1
        """Index after the token of the last mention."""

    def read(self) -> Words:
        i = 0
        while i < len(self.tokens):
            i = self._step(i)
        return self.words

    def _low(self, i: int) -> str:
        return (
            self.tokens[i].text.lower() if 0 <= i < len(self.tokens) and self.tokens[i].kind in ("name", "sign") else ""
        )

    def _step(self, i: int) -> int:
        """One list of decisions of over 60 lines: their order is what it says, and parts of it would hide that."""
        token, low, words = self.tokens[i], self._low(i), self.words
        if token.kind == "sign":
            self._sign(low, i)
            return i + 1
        words.meta += low in _META
        branches = low.split("/")
        if len(branches) > 1 and _STATEMENTS.issuperset(branches):
            self._add(Mention(low, self.role, "sort", branches[0]), i + 1)
            return i + 1
        if token.kind != "name" or (_CODE_SHAPE.search(token.text) and not low.startswith(("i.e", "e.g"))):
            return self._code(i)
        if low in ("in", "ahead", "instead", "place", "down", "up", "through", "until", "till", "from", "next"):
            used = self._connective(i, low)
            if used:
                return i + used
        if low in _VERBS and self._is_neighbour(i) and self.stands(token.text):
            self._add(Mention(token.text, self.role, "words"), i + 1)
            return i + 1
        if low in _VERBS and self._low(i - 1) in ("the", "a", "an", "its"):
            return self._phrase(i)
        if low == "blank" or low == "empty":
            if self._low(i - 1) not in ("before", "after", "the", "first"):
                words.blank = self._low(i - 1) not in ("no", "without")
            if words.blank is False:
                self.role = Role.SUBJECT
            return i + 2
        words.one_line = words.one_line or (low == "line" and self.role is Role.TARGET)
        if low in ("line", "lines") and _NUMBERS.match(self._low(i + 1)):
            self._add(Mention(self._low(i + 1), self.role, "line"), i + 2)
            return i + 2
        if low == "between":
            self.role, self.between = Role.AFTER, True
        elif low == "and" and self.between and self.role is Role.AFTER:
            self.role, self.between = Role.BEFORE, False
        elif low in _AFTER or low in _BEFORE:
            self._position(i, low)
        elif low in ("change", "changes") and self._low(i - 1) in ("not", "no", "doesn't", "don't", "other"):
            words.keeps_rest = True
        elif low in _REPLACE or low in _INSERT or low in _DELETE:
            self._verb(i, low)
        elif low in ("loses", "lose"):
            self._turn(Role.WITHIN, self.clause)
            words.deletes, self.role = True, Role.GONE
        elif low in _GONE | _KEPT | _BECOMES or (low == "now" and self._low(i + 1) not in ("", ")", ",", ".", ";")):
            self._passive(i, low)
        elif low in _EDGES:
            self._add(Mention(low, self.role, "edge", ordinal=_EDGES[low]), i + 1)
        elif low in _ORDINALS or low in _COUNTS:
            self._numeral(i, low)
        elif low in _HEADS or (low in ("tag", "line") and self._low(i - 1) in ("opening", "def", "signature")):
            words.head_only = True
        elif low == "only" and self.role is not Role.SUBJECT:
            words.head_only = words.head_only or self._low(i + 2) == "line"
        elif low in ("whole", "entire", "everything"):
            words.whole = True
        elif low in ("rest", "otherwise") or (low == "changes" and self._low(i - 1) in ("no", "other")):
            words.keeps_rest = True
        elif low == "with" and self.role is Role.TARGET and self.last_end >= self.verb:
            self.role = Role.SUBJECT
        elif low in _SORTS or self._is_statement(i, low):
            self._sort(i, low)
        elif low in _WITHIN:
            self._within(i, low)
        else:
            return self._phrase(i)
        return i + 1

    def _is_neighbour(self, i: int) -> bool:
        """Whether the word stands where "before", "after" or "between" has its object."""
        above = self._low(i - 1)
        return above in _AFTER | _BEFORE | {"between"} or (above == "and" and self.role is Role.BEFORE)

    def _sign(self, low: str, i: int) -> None:
        if low == "(":
            self.stack.append((self.role, self.clause))
            if i + 1 < len(self.tokens) and self.tokens[i + 1].kind in ("tick", "quote", "call", "tag"):
                return
            self.role, self.clause = Role.SUBJECT, len(self.words.mentions)
        elif low == ")":
            self.role, self.clause = self.stack.pop() if self.stack else (Role.SUBJECT, len(self.words.mentions))
        elif low in (":", "—", "–", "-") and not self.stack:
            for k in range(self.clause, len(self.words.mentions)):
                if self.words.mentions[k].role is Role.SUBJECT:
                    self.words.mentions[k] = self.words.mentions[k]._replace(role=Role.WITHIN)
            self.role, self.clause = Role.SUBJECT, len(self.words.mentions)
        elif low in (";", "."):
            self.role, self.clause = Role.SUBJECT, len(self.words.mentions)
            self.sentence = self.clause
        elif low == "," and self.role in (Role.AFTER, Role.BEFORE) and not self.between:
            self.role = Role.SUBJECT
        self.ordinal = self.count = 0

    def _connective(self, i: int, low: str) -> int:
        """How many tokens a connective of several words takes; 0 where there is none."""
        one, two = self._low(i + 1), self._low(i + 2)
        if (low, one, two) == ("in", "front", "of"):
            self.role = Role.BEFORE
            return 3
        if (low, one) == ("ahead", "of"):
            self.role = Role.BEFORE
            return 2
        if (low, one) == ("next", "to"):
            self.role = Role.AFTER
            return 2
        if (low, one) in (("instead", "of"), ("place", "of")) or (low, one, two) == ("in", "place", "of"):
            self.role, self.words.replaces = Role.TARGET, True
            self.verb = i + 2
            return 2 + (low == "in")
        if self.role is Role.TARGET and (low in ("through", "until", "till") or one == "to"):
            self.role = Role.UNTIL
            return 1 + (one == "to")
        if low == "from" and self.role is Role.GONE and self.last_end >= 0:
            self.role = Role.WITHIN
            return 1
        if low == "from" and self.role is Role.TARGET:
            self.is_stretch = True
            return 1
        return 0

    def _position(self, i: int, low: str) -> None:
        near = self._low(i + 1)
        if near in ("it", "this", "these", "that", "them") or (
            i + 1 < len(self.tokens) and self._low(i + 1) in (")", ",", ";", ":")
        ):
            return
        if near == "with" or i + 1 == len(self.tokens):
            return
        self.role = Role.AFTER if low in _AFTER else Role.BEFORE

    def _verb(self, i: int, low: str) -> None:
        words = self.words
        if low == "place" and self._low(i - 1) in ("the", "its", "in"):
            return
        words.meta += 1
        self.verb = i + 1
        if low in ("go", "goes") and self._low(i + 1) == "away":
            return
        if low in _REPLACE:
            words.replaces, self.role = True, Role.TARGET
            self.clause = len(words.mentions)
        elif low in _INSERT:
            words.inserts, self.role = True, Role.SUBJECT
            self.clause = len(words.mentions)
            if low.startswith(("append", "prepend")):
                words.mentions.append(Mention(low, Role.SUBJECT, "edge", ordinal=-1 if low[0] == "a" else 1))
        else:
            words.deletes, self.role = True, Role.GONE
            self.clause = len(words.mentions)
            if self._low(i + 1) in ("it", "them", "both"):
                self._turn(Role.GONE, self.sentence)

    def _passive(self, i: int, low: str) -> None:
        words = self.words
        if low in _BECOMES or low == "now":
            if low == "replaced" and self._low(i + 1) not in ("by", "with"):
                return
            if low == "gets" and self._low(i + 1) in _ADDED:
                words.inserts = True
                self._turn(Role.WITHIN, self.clause)
            else:
                words.replaces = True
                self._turn(Role.TARGET, self.clause)
            self.role = Role.SUBJECT
        elif low in _GONE:
            words.deletes = True
            if not self._turn(Role.GONE, self.clause):
                self.role = Role.GONE
        else:
            words.keeps_rest = True
            self._turn(Role.KEPT, self.clause)
        words.meta += 1
        self.clause = len(words.mentions)

    def _turn(self, role: Role, start: int) -> bool:
        """Gives the subjects from `start` on another role."""
        turned = False
        for k in range(max(start, 0), len(self.words.mentions)):
            if self.words.mentions[k].role is Role.SUBJECT and self.words.mentions[k].kind in ("code", "words", "sort"):
                if turned and self.words.mentions[k].kind == "sort" and role is Role.GONE:
                    continue
                self.words.mentions[k] = self.words.mentions[k]._replace(role=role)
                turned = True
        return turned

    def _numeral(self, i: int, low: str) -> None:
        is_item = self._low(i + 1) in _ITEMS or (i == 0 and not self.stands(self._low(i + 1)))
        if low in _COUNTS:
            self.count = _COUNTS[low]
        elif is_item and self.role is Role.SUBJECT:
            self.words.inserts = True
            self._add(Mention(low, Role.SUBJECT, "edge", ordinal=_ORDINALS[low]), i + 1)
        else:
            self.ordinal = _ORDINALS[low]

    def _is_statement(self, i: int, low: str) -> bool:
        if low not in _STATEMENTS:
            return False
        return self._low(i - 1) in ("the", "last", "first", "second", "that", "old", "whole", "this", "bare") or (
            self._low(i + 1) in ("block", "loop", "statement", "branch", "clause", "check")
        )

    def _sort(self, i: int, low: str) -> None:
        sort = _SORTS.get(low, low)
        if sort == "docstring" and self._low(i - 1) != "with" and self.role is Role.SUBJECT:
            self.role, self.words.replaces = Role.TARGET, True
        if self.last_end == i and self.words.mentions:
            self.words.mentions[-1] = self.words.mentions[-1]._replace(sort=sort)
            return
        is_all = sort == "import" and low.endswith("s") and self.role in (Role.AFTER, Role.BEFORE)
        ordinal = 0 if not is_all else -1 if self.role is Role.AFTER else 1
        self._add(Mention(low, self.role, "sort", sort, ordinal), i + 1)

    def _within(self, i: int, low: str) -> None:
        if low == "to" and self.is_stretch and self.role is Role.TARGET:
            self.role = Role.UNTIL
            return
        if low in ("of", "in") and self._low(i - 1) in _PARTS | _ITEMS:
            self.role = Role.WITHIN
            return
        if low in ("of", "for", "to") and self.role is not Role.SUBJECT and self.last_end < 0:
            return
        if low == "of" and self.role in (Role.AFTER, Role.BEFORE):
            return
        self.role = Role.WITHIN

    def _code(self, i: int) -> int:
        token = self.tokens[i]
        if token.kind == "tick" and token.text in _STATEMENTS:
            self._add(Mention(token.text, self.role, "sort", token.text), i + 1)
            return i + 1
        self._add(Mention(token.text, self.role, "code"), i + 1)
        return i + 1

    def _phrase(self, i: int) -> int:
        """The longest run of words that stands in the file."""
        first = self.tokens[i]
        is_name = (
            first.text[:1].isupper()
            and i > 0
            and self.tokens[i - 1].kind == "name"
            and self._low(i - 1) not in STOP - _AFTER - _BEFORE
        )
        is_next = self._low(i - 1) in _AFTER | _BEFORE | {"and", "between"} and self.role in (Role.AFTER, Role.BEFORE)
        is_said = is_next and self._low(i) not in _DETERMINERS
        if self._low(i) in STOP and not is_name and not is_said:
            return i + 1
        for j in range(min(i + MAX_PHRASE, len(self.tokens)) - 1, i - 1, -1):
            last = self.tokens[j]
            is_small = self._low(j) in STOP and self._low(j) not in _SORTS
            if last.kind not in ("name", "quote", "tick") or (
                is_small and not (is_name and j == i) and not (is_said and j == i + 1)
            ):
                continue
            phrase = self.text[first.start : last.end]
            is_meant = self.role in (Role.AFTER, Role.BEFORE, Role.TARGET) or self._low(i - 1) in _ITEMS | {
                "class",
                "struct",
            }
            if (len(phrase) > 1 or is_meant) and phrase.lower() != "i" and self.stands(phrase):
                self._add(Mention(phrase, self.role, "words"), j + 1)
                return j + 1
        self.words.unknown += self._low(i) not in STOP
        return i + 1

    def _add(self, mention: Mention, end: int) -> None:
        if mention.kind != "edge":
            mention = mention._replace(ordinal=mention.ordinal or self.ordinal, number=self.count)
        self.words.mentions.append(mention)
        self.ordinal = self.count = 0
        self.last_end = end


def read_words(text: str, stands: Callable[[str], bool]) -> Words:
    """The mentions in a directive's text; `stands` tells whether a phrase is in the file."""
    return _Reader(text, stands).read()
