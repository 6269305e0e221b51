"""What models put around an edit that is no part of it: code fences, sentences, lines that name the file.

Lines alone are judged here; `reply` puts them together.  Every scan is one pass over its line: a line of a reply may
be as long and as odd as it likes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import PurePosixPath
from typing import NamedTuple

from apply_service.syntax.languages import language_of_path

MAX_LENGTH = 400
"""A longer line is never taken for anything around an edit."""
MAX_PROSE = 600
"""Characters of a longer paragraph that are never prose around code."""
MIN_WORDS = 3
MIN_SHARE = 0.6
"""The share of plain words among all words of a sentence, quoted code aside."""
FENCE_TAGS = ("source", "sourcecode", "codename", "code", "pre")
"""Tags that stand for a fence where a fence would break the text around it."""
NAMES_WITHOUT_SUFFIX = ("Dockerfile", "Makefile", "Gemfile", "Rakefile", "CMakeLists.txt", "Justfile", "Procfile")
SHELLS = ("bash", "sh", "shell", "zsh", "console", "terminal", "powershell", "cmd", "shellsession")
PROSE_TITLES = ("md", "mdx", "markdown", "rst", "text", "txt", "adoc")
PAGE_TITLES = ("md", "mdx", "markdown")
_WORD = re.compile(r"[\w.@+~()\[\]/\\-]+")
_SENTENCE = re.compile(r"^(?:\d+[.)] |[-*] )?[A-Z][^{}<>=;|\\]*[.:!?]$")
_QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”|(?<!\w)'[^']*'(?!\w)|[\w.$@:]+\([^()]*\)")
_PLAIN_WORD = re.compile(r"[(*_]*[A-Za-z][a-z]*(?:['’-][A-Za-z]+)*[),;:.!*_]*")
_CODE_SIGNS = re.compile(r"[{}<>=|\\$#\[\]]|;$|::|->")
_SMALL_WORDS = re.compile(
    r"(?<!\w)(?:the|an?|of|to|in|with|this|that|these|those|its?|and|or|before|after|from|into|by|is|are|as|on|for|at|"
    r"below|above|right|so|then|both|same|one|two|here's)(?!\w)",
    re.IGNORECASE,
)
_PROSE_START = re.compile(r"(?:(?:\d+[.)]|[-*]) )?[*_\"'(]*(?:[A-Z`§]|(?:and|then|also|next|finally|plus)\b)")
_VERBS = "replace|swap|overwrite|add|insert|append|prepend|put|place|remove|delete|drop"
_SIDE = r"(?:after|before|below|above|beneath|under|underneath|between)"
_AT_ONCE = r"(?:right|just|directly|immediately)"
_BRIEF = re.compile(
    rf"(?:(?:also|then|and|finally|next|please),? )*(?:(?:{_VERBS})(?: the)? +§(?:[ ,.:]|$)|"
    rf"(?:(?:in|inside) +§ *,? *)?(?:{_AT_ONCE} )?(?:{_SIDE}|in|inside) +§ *(?::|,? (?:and )?{_SIDE}))",
    re.IGNORECASE,
)
"""An order that names its object as code needs no other words, nor do words for a place."""
_CHANGES = re.compile(
    r"(?:fix|correct|update|modify|adjust|edit|rename|tweak|improve|refactor|rewrite)\b", re.IGNORECASE
)
"""What such a word speaks of changes where it stands."""
_ORDER = re.compile(
    rf"(?:^|[.,;:] |\b(?:and|then|also|please|next|finally)[,:]? )(?:\d+[.)] |[-*] )?[*_]*(?:{_VERBS})\b", re.IGNORECASE
)
_DELETION = re.compile(
    r"(?:^|[.,;] |\b(?:and|then|also|please|finally|next|now),? )(?:remove|delete|drop)\b", re.IGNORECASE
)
_CHANGE_TO = re.compile(
    r"(?:^|[,;:] |\b(?:and|then|also),? )(?:change|update|modify)\b.* to(?: this| be)?:$", re.IGNORECASE
)
_PLACE = re.compile(
    rf"(?:(?:^|[.,;:] |\b(?:and|then|next|also) )(?:\d+[.)] )?[*_]*|\b{_AT_ONCE} ){_SIDE} "
    r"(?:[a-z]+ ){0,4}§"
    rf"|\b{_AT_ONCE} {_SIDE} the \w"
    rf"|\b{_SIDE} the (?:\S+ ){{0,3}}"
    r"(?:import|line|function|method|class|block|loop|call|check|handler|route|test|entry)s?\b"
    r"|\b(?:at|to|near) (?:the )?(?:very )?(?:top|start|beginning|end|bottom)(?: of\b|:|, )",
    re.IGNORECASE,
)
"""Words that say where code goes: beside a thing that they quote, or at an edge."""
_HEADING = re.compile(
    r"#{1,6} (?:step )?(?:\d+[.:)] )?(?P<heading>.+)|\*\*(?:step )?(?:\d+[.:)] )?(?P<bold>[^*]+)\*\*|"
    r"\d+[.)] (?P<item>[A-Z].+)",
    re.IGNORECASE,
)
_TRYING = re.compile(
    r"(?:.*[.!] )?(?:(?:now|then|and|finally|to|you can(?: now| then)?|let's|or) )*"
    r"(?:(?:try|test|use|call|verify|check) (?:it|them)\b.*|"
    r"(?:run|execute|invoke|start|launch)(?: (?:it|them|this|that|the (?:\w+ )?"
    r"(?:script|program|file|server|tests?|example|commands?))\b.*)?|"
    r"(?:example |sample )?(?:usage|output|result|example)s?(?: usage)?):$",
    re.IGNORECASE,
)
_SUFFIX = re.compile(r"\.[A-Za-z]\w{0,9}$")
_NUMBER = re.compile(r"^\d{1,3}[.)]\s")


class FenceLine(NamedTuple):
    """A line that opens or closes a fence; only one without a title closes."""

    indent: int
    char: str
    length: int
    title: str


def read_fence(line: str) -> FenceLine | None:
    """The fence that the line is, if it is one."""
    text = line.strip() if len(line) <= MAX_LENGTH else ""
    char = text[:1]
    if char not in ("`", "~"):
        return None
    length = len(text) - len(text.lstrip(char))
    title = text[length:].strip()
    if length < 3 or "`" in title or (char == "~" and "~" in title) or title.endswith("!"):
        return None
    return FenceLine(len(line) - len(line.lstrip()), char, length, title)


def is_fence(line: str) -> bool:
    return read_fence(line) is not None


def fence_tag(line: str) -> tuple[str, str] | None:
    """`<source>python` as ("source", "python"), `</source>` as ("/source", "")."""
    text = line.strip()
    if len(text) > 40 or not text.startswith("<"):
        return None
    name, sign, title = text[1:].partition(">")
    if not sign or name.removeprefix("/") not in FENCE_TAGS or not (title.isalnum() or not title):
        return None
    return None if title and name.startswith("/") else (name, title)


def is_sentence(line: str) -> bool:
    """Whether the line reads as prose around an edit ("Here is the change:")."""
    if len(line) > MAX_LENGTH or line[:1] in " \t":
        return False
    text = line.strip()
    return " " in text[3:] and _SENTENCE.match(text) is not None


def reads_as_english(paragraph: str) -> bool:
    """Whether the paragraph, on one line, reads as English sentences about code: it ends with ":" or "."."""
    text = paragraph.strip().rstrip("*_")
    if text.startswith("(") and text.endswith(")") and "(" not in text[1:]:
        text = f"{text[1:2].upper()}{text[2:-1].rstrip('.')}."
    if len(text) > MAX_PROSE or not text.endswith((":", ".")) or _PROSE_START.match(text) is None:
        return False
    bare = _QUOTED.sub(" § ", text)
    parts = [word for word in bare.split() if word.strip("(),.:;*_-–—")]
    words = [word for word in parts if word.strip("(),.:;*_-–—") != "§"]
    is_brief = _BRIEF.match(bare) is not None
    if _CODE_SIGNS.search(bare) is not None or not (
        is_brief or (len(parts) >= MIN_WORDS and _SMALL_WORDS.search(bare))
    ):
        return False
    return sum(_PLAIN_WORD.fullmatch(word) is not None for word in words) >= MIN_SHARE * len(words)


def is_order(paragraph: str) -> bool:
    """Whether the paragraph tells what to do with the code that follows, or what to delete."""
    text = paragraph.strip().rstrip("*_")
    if len(text) > MAX_PROSE:
        return False
    bare = _QUOTED.sub("§", text)
    if _ORDER.search(bare) is None:
        is_place = _PLACE.search(bare) is not None and not changes_in_place(text)
        return text.endswith(":") and (is_place or _CHANGE_TO.search(bare) is not None)
    return text.endswith(":") or asks_to_delete(text)


def changes_in_place(sentence: str) -> bool:
    """Whether the sentence begins with a word that says to change something where it stands."""
    return _CHANGES.match(sentence.lstrip("*_ ")) is not None


def as_lead(paragraph: str) -> str:
    """A heading or a bold line above code as the sentence that it stands for; any other paragraph as it is."""
    match = _HEADING.fullmatch(paragraph.strip()) if len(paragraph) <= MAX_LENGTH else None
    text = next(filter(None, match.groups()), "").strip(" *_") if match is not None else ""
    return f"{text}:" if text and not text.endswith((":", ".")) else paragraph


def asks_to_delete(paragraph: str) -> bool:
    """Whether the paragraph tells to delete something, with or without code that follows."""
    return _DELETION.search(_QUOTED.sub("§", paragraph.strip())) is not None


def leads_to_usage(paragraph: str) -> bool:
    """Whether the paragraph announces how to try the code or what it prints, and no code of a file."""
    text = paragraph.strip().strip("*_# ")
    text = text if text.endswith(":") else f"{text}:"
    return len(text) <= MAX_PROSE and _TRYING.match(text) is not None and not is_order(text)


def is_prose(path: str | None) -> bool:
    """Whether the file at `path` is text for people."""
    return (path or "").lower().endswith((".md", ".mdx", ".markdown", ".rst", ".txt", ".adoc"))


_STATE = re.compile(r" \([A-Za-z][A-Za-z ,'-]{0,39}\)$")
"""What is said of a file behind its name."""


def is_path(word: str) -> bool:
    """Whether the word can only be meant as the name of a file."""
    if not _WORD.fullmatch(word) or word.startswith("//") or word.endswith(("/", "\\", "()")):
        return False
    name = re.split(r"[/\\]", word)[-1]
    is_named = name in NAMES_WITHOUT_SUFFIX or _SUFFIX.search(word) is not None
    return is_named or "/" in word or "\\" in word


def named_path(line: str) -> str | None:
    """The path, where the line does nothing but name a file."""
    if len(line) > MAX_LENGTH:
        return None
    text = _STATE.sub("", line.strip().rstrip(":").strip()).lstrip("#*>;/- \t").removesuffix("-->").strip(" \t*`#\"'")
    label, sign, rest = text.partition(":")
    if sign and label.strip(" *`").lower() in ("file", "filename", "file name", "path", "filepath"):
        text = rest.strip(" \t*`\"'")
    elif text[:5].lower() == "file ":
        text = text[5:].strip(" \t*`\"'")
    text = text.rstrip(":").rstrip("*`")
    if line.lstrip().startswith("/") and not line.lstrip().startswith(("//", "/*")):
        text = "/" + text
    return text if text and is_path(text) else None


def mentioned_path(line: str) -> str | None:
    """The one path that a lead-in or heading mentions in backticks or bold ("In `src/a.py`:", "### 1. `a.py`")."""
    text = line.strip()
    if len(text) > MAX_LENGTH or not text:
        return None
    pieces = [word for word in text.split("`")[1::2] if is_path(word) and _is_surely_path(word)]
    if not pieces:
        words = (word.strip("*`\"'():,.") for word in text.split())
        is_lead = text.endswith(":") or text.startswith(("#", "**")) or _NUMBER.match(text) is not None
        pieces = [word for word in words if is_path(word) and _is_surely_path(word) and _SUFFIX.search(word)]
        pieces = pieces if is_lead else []
    return pieces[0] if len(set(pieces)) == 1 else None


def _is_surely_path(word: str) -> bool:
    """Whether the word has a folder or a known suffix: `Cart.add` may be a method."""
    return "/" in word or word.lower().endswith((".cfg", ".env", ".txt")) or language_of_path(word) is not None


def titled_path(title: str) -> str | None:
    """The path in a fence's title: `python src/a.py`, `python:src/a.py`, `12:15:src/a.py`, `py title="a.py"`."""
    for word in title.replace("=", " ").replace(",", " ").split():
        bare = word.strip("\"'{}`")
        for part in (bare, bare.rpartition(":")[2]):
            if is_path(part) and (_SUFFIX.search(part) or "/" in part or part in NAMES_WITHOUT_SUFFIX):
                return part
    return None


def is_around(line: str) -> bool:
    """Whether the line can stand around an edit without being part of it."""
    if not line.strip() or is_fence(line) or is_sentence(line):
        return True
    return fence_tag(line) is not None or named_path(line) is not None


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced stretch: lines `opening` and `closing` of the text are the fence.  One without end closes behind the
    last line."""

    opening: int
    closing: int
    title: str
    path: str | None = None
    """The file that it is said to be of."""
    is_surely_named: bool = False
    """The path stands alone in its line or in the title, not in a sentence."""

    @property
    def language(self) -> str:
        words = self.title.replace(":", " ").split()
        return words[0].lower() if words else ""

    @property
    def body(self) -> range:
        """The lines inside."""
        return range(self.opening + 1, self.closing)


def find_fences(lines: Sequence[str], taken: Container[int] = ()) -> list[Fence]:
    """The outermost fences.  A fence with a title inside another opens one of its own; `taken` lines are no fences."""
    found: list[Fence] = []
    last_tags = {tag[0]: at for at, line in enumerate(lines) if (tag := fence_tag(line)) and tag[0].startswith("/")}
    at, names_from = 0, 0
    while at < len(lines):
        fence = None if at in taken else read_fence(lines[at])
        tag = None if fence or at in taken else fence_tag(lines[at])
        if fence is not None:
            closing, title, depth = len(lines), fence.title, 1
            for row in range(at + 1, len(lines)):
                other = None if row in taken else read_fence(lines[row])
                if other is None or other.char != fence.char or other.indent > fence.indent:
                    continue
                depth += 1 if other.title else -(other.length >= fence.length or depth > 1)
                if depth == 0:
                    closing = row
                    break
        elif tag is not None and last_tags.get("/" + tag[0], -1) > at:
            title = tag[1]
            closing = next(k for k in range(at + 1, len(lines)) if fence_tag(lines[k]) == ("/" + tag[0], ""))
        else:
            at += 1
            continue
        path, is_sure = titled_path(title), True
        if path is None:
            above = [lines[k] for k in range(at - 1, max(names_from, at - 12) - 1, -1) if lines[k].strip()]
            path = next(filter(None, map(named_path, above[:2])), None)
        if path is None:
            path = next(filter(None, (named_path(line) or mentioned_path(line) for line in above[:4])), None)
            is_sure = False
        found.append(Fence(at, closing, title, path, is_sure))
        at = names_from = closing + 1
    return found


def page_fence(lines: Sequence[str], fences: Sequence[Fence]) -> Fence | None:
    """The fence around a page of Markdown whose own fences, which have no title, seem to end it; None of any other."""
    if len(fences) < 2 or any(fence.title or fence.path for fence in fences[1:]):
        return None
    first, closing = fences[0], fences[-1].closing
    n_inside = closing - first.opening - 1
    is_whole = all(fence.closing < n_inside for fence in find_fences(lines[first.opening + 1 : closing]))
    is_page = first.language in PAGE_TITLES or (first.is_surely_named and not first.language)
    return replace(first, closing=closing) if is_whole and is_page else None


def is_same_file(named: str, path: str | None) -> bool:
    """Whether a path in an edit means the file at `path`: the shorter one is the other's tail."""
    if path is None:
        return True
    a, b = path_parts(named), path_parts(path)
    n = min(len(a), len(b))
    return n > 0 and a[-n:] == b[-n:]


def has_same_name(named: str, path: str | None) -> bool:
    """Whether the two paths end in the same name, in whatever folders."""
    return path is not None and path_parts(named)[-1:] == path_parts(path)[-1:]


def match_files(named: Iterable[str], known: Iterable[str]) -> dict[str, list[str]]:
    """For each path in an edit, the known files that it may mean."""
    by_name: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for path in known:
        by_name[path_parts(path)[-1:]].append(path)
    return {name: [path for path in by_name[path_parts(name)[-1:]] if is_same_file(name, path)] for name in named}


@lru_cache(maxsize=16384)
def path_parts(path: str) -> tuple[str, ...]:
    """The folders and the name of a path, of any system."""
    return tuple(part for part in PurePosixPath(path.replace("\\", "/")).parts if part not in ("/", "."))
