"""New text made of a file's own: other names, other values, copies."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import TypeVar

from training.kinds.shape import CODE, Definition, is_comment, is_statement
from training.kinds.sources import LANGUAGES, Source

T = TypeVar("T")

_WORD = re.compile(r"(?<![\w$@.\"'/-])[A-Za-z_]\w{3,}(?![\w\"'/-])")
_KEYWORDS = """
    False None Option Result Self String True abstract assert async await bool boolean break case
    catch char class const continue crate default defer delete done double echo elif else elsif enum
    error esac except expect export extends extern false fi final finally float for foreach from
    func function global goto implements import include inline instanceof int int32 int64 interface
    internal lambda local long loop match module namespace none nonlocal null object open operator
    override package pass print printf println private protected public raise readonly require
    rescue return sealed select self short signed size_t sizeof static string struct super switch
    template then this throw throws trait true type typedef typeof uint32_t uint8_t undefined union
    unit unless unsafe unsigned until using usize virtual void volatile when where while with yield
"""


def new_name(name: str, rng: random.Random, taken: str) -> str | None:
    """A name near this one, in its own case, that a text does not have yet."""
    if re.fullmatch(r"[A-Z][A-Z0-9_]+", name):
        made = [name + tail for tail in ("_V2", "_ALL", "_LIMIT", "_EXTRA")]
    elif "-" in name:
        made = [name + tail for tail in ("-all", "-extra", "-v2")]
    elif "_" in name.strip("_") or (name.islower() and rng.random() < 0.9 and len(name) > 2):
        made = [name + tail for tail in ("_all", "_by_id", "_once", "_v2", "_from_list")]
    else:
        made = [name + tail for tail in ("All", "ById", "Once", "V2", "WithLimit")]
    rng.shuffle(made)
    tail_mark = name[-1:] if name.endswith(("?", "!")) else ""
    for one in made:
        fresh = one.replace("?", "").replace("!", "") + tail_mark
        if not re.search(rf"(?<!\w){re.escape(fresh)}(?!\w)", taken):
            return fresh
    return None


def renamed(text: str, old: str, new: str) -> str:
    """The text with a whole name replaced."""
    return re.sub(rf"(?<![\w$]){re.escape(old)}(?![\w?!]|-\w)", lambda _: new, text)


def identifiers(line: str) -> list[str]:
    """Names in a line of code that could be other names."""
    code = re.sub(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`|(?:#|//).*$", " ", line)
    return [word for word in dict.fromkeys(_WORD.findall(code)) if word not in _KEYWORDS.split()]


def varied(source: Source, line: str, rng: random.Random) -> str | None:
    """The line with one value, sign or name changed, or None where nothing in it can be."""
    if is_comment(source, line) and source.language != "markdown":
        return None
    ways = [_other_number, _other_text, _other_flag, _other_sign]
    rng.shuffle(ways)
    for way in ways:
        made = way(line, rng)
        if made is not None and made != line:
            return made
    if source.language in CODE:
        names = identifiers(line)
        rng.shuffle(names)
        for name in names:
            fresh = new_name(name, rng, source.text)
            if fresh is not None and renamed(line, name, fresh) != line:
                return renamed(line, name, fresh)
    return None


def _other_number(line: str, rng: random.Random) -> str | None:
    found = list(re.finditer(r"(?<![\w.\-#\"'x:/])\d{1,5}(?![\w.:/-])", line))
    if not found:
        return None
    one = rng.choice(found)
    number = int(one.group())
    other = str(rng.choice((number + 1, number * 2 + 1, number + 10)))
    return line[: one.start()] + other + line[one.end() :]


def _other_text(line: str, rng: random.Random) -> str | None:
    found = list(re.finditer(r"(?<=[\"'])[A-Za-z][\w ./-]{2,40}(?=[\"'])", line))
    found = [
        one
        for one in found
        if line[one.start() - 1] == line[one.end()] and not line[: one.start() - 1].count(line[one.end()]) % 2
    ]
    if not found:
        return None
    one = rng.choice(found)
    tail = rng.choice((" (new)", " again", " or later")) if " " in one.group() else rng.choice(("-v2", "_next", "2"))
    return line[: one.end()] + tail + line[one.end() :]


def _other_flag(line: str, _rng: random.Random) -> str | None:
    for old, new in (("True", "False"), ("False", "True"), ("true", "false"), ("false", "true")):
        if re.search(rf"(?<![\w\"'-]){old}(?![\w\"'-])", line):
            return re.sub(rf"(?<![\w\"'-]){old}(?![\w\"'-])", new, line, count=1)
    return None


def _other_sign(line: str, _rng: random.Random) -> str | None:
    for old, new in (
        (" == ", " != "),
        (" != ", " == "),
        (" >= ", " > "),
        (" <= ", " < "),
        (" && ", " || "),
        (" and ", " or "),
    ):
        if line.count(old) == 1 and "'" not in line and '"' not in line and "[" not in line.split(old)[0][:6]:
            return line.replace(old, new)
    return None


def new_argument(language: str) -> str:
    """A parameter that a function of this language may take more."""
    return str(LANGUAGES.get(language, {}).get("argument", "limit"))


def condition(language: str, name: str) -> tuple[str, str] | None:
    """The lines that open and close a condition on a name; the second is "" where nothing closes it."""
    lines = LANGUAGES.get(language, {}).get("condition")
    return None if lines is None else (lines[0].replace("{}", name), lines[1])


def twin_of(source: Source, one: Definition, rng: random.Random) -> tuple[str, ...] | None:
    """A copy of a short function under another name, with one of its lines changed."""
    text = source.lines[one.top : one.end]
    fresh = new_name(one.name, rng, source.text)
    if fresh is None or not 3 <= len(text) <= 16 or any("<<" in line for line in text):
        return None
    inside = shuffled([i for i in range(one.body, one.close) if is_statement(source, i)], rng)
    for at in inside:
        new = varied(source, source.lines[at], rng)
        if new is not None:
            copied = [*text[: at - one.top], new, *text[at - one.top + 1 :]]
            head = range(one.start - one.top, one.body - one.top)
            made = tuple(renamed(line, one.name, fresh) if i in head else line for i, line in enumerate(copied))
            return made if made != tuple(copied) else None
    return None


def shuffled(found: Sequence[T], rng: random.Random) -> list[T]:
    """The same in an order drawn at random."""
    return rng.sample(list(found), len(found))
