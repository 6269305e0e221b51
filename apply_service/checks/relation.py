"""Checks whether an edit, its file and its instruction belong together.

An edit of another file is refused, and so is a request in which edit and file were swapped.  The evidence must be
strict, because a wrong refusal is worse than a doubt.  An instruction beside an update mostly summarises it.  Only
three orders can be checked without understanding a text: to remove a name that stays, to rename one that stays, and to
add one that is not there.  A name must be quoted.  A name to remove may instead look like code, if no other word
follows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from apply_service.errors import Unrelated
from apply_service.protocols import EditJob
from apply_service.reply.reader import detect_format
from apply_service.syntax.languages import find_language
from apply_service.text.lines import header_name
from apply_service.text.markers import PHRASE, Role, classify, is_marker, strip_comment
from apply_service.types import Certainty, Verdict

BARE_DOTS = ("...", "\u2026")
WORD = re.compile(r"[A-Za-z_]\w{2,}")
COMMON = """
and are async await bool break case catch class const continue def default else end enum except export extends false
final finally fn for from func function has if impl import in int interface is let match mod module new nil none not
null package print private protected pub public raise return self static str string struct super switch the then
this throw throws true try type use var void while with yield
"""
COMMON_WORDS = frozenset(COMMON.split())
"""Frequent words of languages, and of English, that say nothing about a text's subject."""
MIN_LINES = 5
"""A file needs at least this many different lines to show that an edit is not for it."""
MIN_WORDS, MAX_SHARE = 6, 0.25
"""A snippet is refused only if it has at least this many different words, and the file has at most this share of
them."""
MIN_WORDS_IF_PARSED, MAX_SHARE_IF_PARSED = 12, 0.1
"""The same two limits for the case that the file would still parse with the snippet in it."""
NO_CODE = frozenset({"css", "html", "json", "markdown", "toml", "yaml"})
"""Languages in which a new part often shares no word with the rest of the file."""
PLACES = frozenset(
    {"after", "append", "before", "beginning", "below", "above", "bottom", "end", "first", "last", "start", "top"}
)
SAYS_WHERE = frozenset({Role.HINT, Role.DELETION, Role.ELSEWHERE, Role.ASIDE, Role.FILE_NAME})


def _has_part_of(file: Sequence[str], snippet: Sequence[str], lines: Sequence[str], reply: str) -> bool:
    """Tell whether the `lines` of a snippet share a line or a definition with the file, or whether words around the
    lines refer to the file.

    The words around the lines are the prose of the reply and the snippet's comments.  The result is also True if the
    file is too short to tell.
    """
    known = {line.strip() for line in file if WORD.search(line)}
    if len(known) < MIN_LINES or any(line.strip() in known for line in lines):
        return True
    told = [line for line in reply.split("\n") if line not in snippet or strip_comment(line).is_comment]
    if words_in(told) & words_in(file) or PLACES.intersection(WORD.findall("\n".join(told).casefold())):
        return True
    names = {header_name(line) for line in lines} - {None}
    return not names.isdisjoint(map(header_name, file))


def refuse_unrelated(job: EditJob, reply: str, found: Sequence[Verdict]) -> None:
    """Raise Unrelated if a snippet has hardly anything in common with the file, and its place is a guess.

    Such a snippet shares no line, no definition and hardly a word with the file, and nothing says where it goes.
    `reply`: the whole update with its prose.  `found`: the findings of the checks about the guess.
    """
    prediction, language = job.prediction, find_language(job.language)
    is_guess = prediction.certainty is Certainty.GUESS and not prediction.determined
    is_snippet = job.format == "lazy_snippet" and not job.instruction.strip()  # an instruction may name the place
    if not (is_guess and is_snippet) or language is None or language.name in NO_CODE:
        return
    file, snippet = job.original.split("\n"), job.update.split("\n")
    roles = classify(snippet, file, language=job.language, path=job.path)
    lines = [line for line, role in zip(snippet, roles, strict=True) if role is Role.CONTENT]
    if SAYS_WHERE.intersection(roles) or _has_part_of(file, snippet, lines, reply):
        return
    words_of_file, words = words_in(file), words_in(lines)
    is_broken = any(verdict.check == "syntax" for verdict in found)
    limits = (MIN_WORDS, MAX_SHARE) if is_broken else (MIN_WORDS_IF_PARSED, MAX_SHARE_IF_PARSED)
    if len(words) >= limits[0] and len(words & words_of_file) <= limits[1] * len(words):
        raise Unrelated(
            "The edit has nothing in common with the file.",
            value=next(line.strip() for line in lines if line.strip())[:200],
            remedy="Send the file that it is for, or show a line of the file beside each change.",
        )


def words_in(lines: Sequence[str]) -> set[str]:
    return {word.casefold() for word in WORD.findall("\n".join(lines))} - COMMON_WORDS


def is_edit(text: str) -> bool:
    """Tell whether the text looks like an edit, not like a file.  It has signs of an edit format, or a comment or a
    line of dots that stands for code left out."""
    lines = [line for line in text.split("\n") if line.strip()]
    stands = any(_stands_for_code(line, above) for above, line in pairwise(["", *lines]))
    return stands or detect_format(text, named=None) != "lazy_snippet"


def _stands_for_code(line: str, above: str) -> bool:
    """Tell whether a comment or dots stand for code.  `above`: the line above; in Python, dots may be a body."""
    if line.strip() in BARE_DOTS:
        return not above.rstrip().endswith((":", '"', "'"))
    core, is_comment = strip_comment(line)
    return is_comment and is_marker(line) and PHRASE.search(core) is not None


# -- orders of an instruction that the result contradicts --------------------------------------------------------------
MAX_READ = 4000
"""At most this many characters of an instruction are read."""
_ORDER = re.compile(
    r"(?:^|[.;:,]\s+|\b(?:and|then|also|please|now|must|should|i|i'll|i'm|am|will) )"
    r"(?:(?P<gone>remov|delet|dropp?)|(?P<renamed>renam)|(?P<added>add))(?:e|es|s|ed|ing)? "
    r"(?:(?:the|an?|this|that|my|our|its|old|new|unused|now|obsolete|dead|deprecated) )*",
    re.IGNORECASE | re.MULTILINE,
)
_QUOTED = r"`(?P<tick>[^`\s]{1,100})`|\"(?P<double>[^\"\s]{1,100})\"|'(?P<single>[^'\s]{1,100})'"
_QUOTED_NAME = re.compile(_QUOTED)
_NAME = re.compile(
    rf"{_QUOTED}|(?P<bare>(?=[\w$.]*(?:[a-z0-9][A-Z]|\w[_.]\w|\w\(\)))[\w$]+(?:\.[\w$]+)*)"
    r"(?=(?:\(\))?(?:$|[.,;:!](?:\s|$)| (?:from|in|and|to|as|since|which)\b))"
)
_ANOTHER = re.compile(r"(?:\(\))? (?:to|as|into) ")


def unmet_order(instruction: str, original: str, merged: str) -> str | None:
    """Return the first order that `merged` contradicts, in words; None if it contradicts no order."""
    text = instruction[:MAX_READ]
    for order in _ORDER.finditer(text):
        found = (_QUOTED_NAME if order["added"] else _NAME).match(text, order.end())
        if found is None:
            continue
        name = _bare(found)
        before, after = (_count(name, side) for side in (original, merged))
        if order["added"]:
            # `Cart.clear` is written as `clear` inside its class.
            if not any((before, _count(re.findall(r"\w+|\W+", name)[-1], merged), after)):
                return f"to add `{name}`, which the result does not have"
            continue
        if before and after >= before:
            return f"to {'remove' if order['gone'] else 'rename'} `{name}`, which the result still has"
        joint = _ANOTHER.match(text, found.end())
        new = _NAME.match(text, joint.end()) if before and joint is not None and order["renamed"] else None
        if new is not None and not _count(_bare(new), merged):
            return f"to rename `{name}` to `{_bare(new)}`, which the result does not have"
    return None


def _bare(found: re.Match[str]) -> str:
    """Return the name without its quotes and without the brackets of a call."""
    name: str = next(filter(None, found.groups()))
    return name.partition("(")[0] or name


def _count(name: str, text: str) -> int:
    """Return how often the text has the name as a whole word."""
    return len(re.findall(rf"(?<!\w){re.escape(name)}(?!\w)", text))
