"""Reads the words of a directive: which things the words name, and how the code relates to each thing.

Things are names, quoted text, sorts of code, and edges.  The caller tells whether the file has a phrase; `outline`
finds the phrase's place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

MAX_WORDS = 160
MAX_PHRASE = 6


class Relation(StrEnum):
    """How the code relates to a thing that its directive names."""

    SUBJECT = "subject"
    """The code is the thing, or its relation is unknown."""
    TARGET = "target"
    GONE = "gone"
    KEPT = "kept"
    AFTER = "after"
    BEFORE = "before"
    WITHIN = "within"
    UNTIL = "until"
    """The thing ends a stretch that begins with the thing named before it."""
    SHORT_OF = "short of"
    """The thing is the first one after such a stretch."""


class Mention(NamedTuple):
    """One thing that is named.  `kind`: code, words, sort, edge or line.  `sort`: the sort of code that the words call
    it."""

    text: str
    relation: Relation
    kind: str
    sort: str = ""
    ordinal: int = 0
    """1 for the first, -1 for the last; 0 if the words give no number."""
    number: int = 0


@dataclass(slots=True)
class Words:
    """The meaning of a directive's words."""

    mentions: list[Mention] = field(default_factory=list)
    replaces: bool = False
    inserts: bool = False
    deletes: bool = False
    head_only: bool = False
    """Whether only a signature, header or opening tag is shown."""
    keeps_rest: bool = False
    one_line: bool = False
    """Whether the directive is about one line that is replaced."""
    whole: bool = False
    body: bool = False
    """Whether the code replaces the body of the thing named."""
    blank: bool | None = None
    """Whether the words ask for a blank line around the block (True) or for none (False); None if they say neither."""
    meta: int = 0
    """The number of words about the edit, not about the program."""
    unknown: int = 0
    """The number of words that are neither understood nor common."""


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


NAMING = ("code", "words", "sort")
"""The kinds of mentions that name a thing of the file."""
_ADDED = _set("a an another one two three more new")
_DETERMINERS = _set("the a an this that these those it its them all any both each every")
_EDGES = {"top": 1, "start": 1, "beginning": 1, "bottom": -1, "end": -1}
_AFTER = _set("after below beneath under underneath behind following follows past succeeding")
_BEFORE = _set("before above precedes preceding over")
_NO_OBJECT = _set("it this these that them with ) , ; :")
_JOINED = (
    (Relation.BEFORE, ["in", "front", "of"]),
    (Relation.BEFORE, ["ahead", "of"]),
    (Relation.AFTER, ["next", "to"]),
    (Relation.TARGET, ["instead", "of"]),
    (Relation.TARGET, ["place", "of"]),
    (Relation.TARGET, ["in", "place", "of"]),
)
_CONNECTIVES = _set("in ahead instead place down up through until till from next")
_WITHIN = _set("in inside within into on at of for to onto")
_REPLACE = _set(
    "replace replaces replacing swap swaps overwrite overwrites supersedes rewrite change changes update bump bumps"
)
_INSERT = _set(
    "add adds adding insert inserts inserting append appends prepend prepends put place goes go belongs belong"
)
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
_KINDS = _set("class struct interface trait enum module function method")
"""Words that a name follows."""
_SORTS = {
    "import": "import", "imports": "import", "requires": "import", "include": "import", "includes": "import",
    "decorator": "decorator", "decorators": "decorator", "annotation": "decorator", "docstring": "docstring",
    "comment": "comment", "raise": "raise", "return": "return", "assert": "assert", "throw": "throw",
    "constructor": "constructor", "loop": "loop",
}  # fmt: skip
_STATEMENTS = _set("if else elif try except catch finally for while with switch case return raise throw match")
_BEFORE_STATEMENT = _set("the last first second that old whole this bare")
_BEHIND_STATEMENT = _set("block loop statement branch clause check")
_PARTS = _set("line lines body implementation contents part value end top signature header")
_BODIES = _set("body implementation contents")
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
    "gone away stay stays left keep please finally"
)
GENERAL = _STOP | _META | _ITEMS | _KINDS
"""Words that name nothing: common words, and words for parts that any program has."""
SORTS = _set(
    "route endpoint command rule job option dependency package target const variable service button link column index "
    "helper util require include unused deprecated legacy obsolete"
)
"""Words for the kind of a thing, unless they are its name."""


class _WordReader:
    """Reads the words from left to right.  A connective ("before", "in", "replaces") sets the relation of what
    follows."""

    def __init__(self, text: str, stands: Callable[[str], bool]) -> None:
        self.text, self.stands = text, stands
        self.tokens = list(islice(_TOKEN.finditer(text), MAX_WORDS))
        self.words = Words()
        self.relation = Relation.SUBJECT
        self.between = False
        """Whether "between" was read, but not yet its "and"."""
        self.is_stretch = False
        """Whether "from" was read, but not yet "to"."""
        self.ordinal = self.count = 0
        self.clause = self.sentence = 0
        """The number of the first mention in this clause, and of the first mention in this sentence."""
        self.verb = 0
        """Index after the token of the last verb."""
        self.stack: list[tuple[Relation, int]] = []
        self.last_end = -1
        """Index after the token of the last mention."""

    def low(self, i: int) -> str:
        """Return a name or sign in lower case; empty for code and quotes."""
        if not 0 <= i < len(self.tokens) or self.tokens[i].lastgroup not in ("name", "sign"):
            return ""
        return self.tokens[i][0].strip().lower()

    def add(self, kind: str, text: str, end: int, *, sort: str = "", ordinal: int = 0) -> int:
        """Add a mention and return `end`, the index after its last token."""
        counted = (0, 0) if kind == "edge" else (self.ordinal, self.count)
        self.words.mentions.append(Mention(text, self.relation, kind, sort, ordinal or counted[0], counted[1]))
        self.ordinal = self.count = 0
        self.last_end = end
        return end

    def turn(self, relation: Relation, start: int) -> bool:
        """Change the relation of the subjects from mention `start` on, and tell whether there were any."""
        mentions, turned = self.words.mentions, False
        for k in range(start, len(mentions)):
            is_second_sort = turned and mentions[k].kind == "sort" and relation is Relation.GONE
            if mentions[k].relation is Relation.SUBJECT and mentions[k].kind in NAMING and not is_second_sort:
                mentions[k] = mentions[k]._replace(relation=relation)
                turned = True
        return turned

    def start_clause(self, relation: Relation = Relation.SUBJECT) -> None:
        self.relation, self.clause = relation, len(self.words.mentions)

    def step(self, i: int) -> int:
        """Read token `i` and the tokens that belong to it, and return the index after them."""
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
        if low == "line" and self.ordinal and self.relation in (Relation.AFTER, Relation.BEFORE):
            return self.add("line", f"{above} line", i + 1)
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
        """Return how many tokens a connective of several words at token `i` takes; 0 if there is none."""
        one = self.low(i + 1)
        for relation, said in _JOINED:
            if [self.low(k) for k in range(i, i + len(said))] == said:
                self.relation = relation
                if relation is Relation.TARGET:
                    self.words.replaces, self.verb = True, i + 2
                return len(said)
        above = self.stack[-1][0] if self.stack else None
        if Relation.TARGET in (self.relation, above) and (low in ("through", "until", "till") or one == "to"):
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
        """Apply a common word's meaning, and tell whether the word is a common word.

        This function is longer than 60 lines because it is a list of decisions in a fixed order.
        """
        words, above, below = self.words, self.low(i - 1), self.low(i + 1)
        if low == "between":
            self.relation, self.between = Relation.AFTER, True
        elif low == "and" and self.between and self.relation is Relation.AFTER:
            self.relation, self.between = Relation.BEFORE, False
        elif low in _AFTER or low in _BEFORE:
            if i + 1 < len(self.tokens) and below not in _NO_OBJECT:
                self.relation = Relation.AFTER if low in _AFTER else Relation.BEFORE
        elif low in ("including", "excluding") and (low == "excluding" or above == "not"):
            if self.relation is Relation.UNTIL:
                self.relation = Relation.SHORT_OF
            elif self.stack and self.stack[-1][0] is Relation.UNTIL:
                self.stack[-1] = (Relation.SHORT_OF, self.stack[-1][1])
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
            self.add("edge", low, i + 1, ordinal=_EDGES[low], sort="file" * self.is_of_file(i + 1))
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
        elif low in _BODIES and self.relation is Relation.TARGET and below in ("of", "in"):
            words.body = True
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

    def is_of_file(self, i: int) -> bool:
        """Tell whether the words from token `i` on are "of the file", but not as in "near the end of the file"."""
        said = [self.low(k) for k in range(i, i + 3)]
        if {"near", "toward", "towards"} & {self.low(k) for k in range(max(0, i - 4), i)}:
            return False
        return said[0] == "of" and bool({"file", "module", "page", "document"} & {*said[1:]})

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
        """Read a word for a sort of code: it describes the thing named right before it, or is itself the thing
        named."""
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
        """Read the longest run of words from token `i` on that the file has, and return the index after it."""
        first, low, above = self.tokens[i], self.low(i), self.low(i - 1)
        is_beside = self.relation in (Relation.AFTER, Relation.BEFORE)
        may_stand_above = _AFTER | _BEFORE | _KINDS
        follows_name = i > 0 and self.tokens[i - 1].lastgroup == "name" and above not in _STOP - may_stand_above
        is_name = first[0][:1].isupper() and follows_name
        is_said = is_beside and above in _AFTER | _BEFORE | {"and", "between"} and low not in _DETERMINERS
        if low in _STOP and not is_name and not is_said:
            return i + 1
        if above in _KINDS and (low not in _STOP or is_name) and self.stands(first[0]):
            return self.add("code", first[0], i + 1)
        is_meant = is_beside or self.relation is Relation.TARGET or above in _ITEMS
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
    """Return the meaning of a directive's text; `stands` tells whether the file has a phrase."""
    reader = _WordReader(text, stands)
    i = 0
    while i < len(reader.tokens):
        i = reader.step(i)
    return reader.words
