"""Tells what a line of code shows by itself: its indentation and brackets, and what it defines, closes or continues.

It uses patterns, so that it works on fragments and in any language.  If tree-sitter knows a file's scopes, use those
instead.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from apply_service.syntax.scopes import Scope

TAB_COLUMNS = 4
SEPARATED = ("function", "method", "class", "module", "section")
"""The kinds of scopes that files separate with blank lines."""
MAX_HEADER_LENGTH = 400
MAX_COUNTED = 2000
"""A line of at least this length counts as data, and its brackets are not counted."""
MAX_QUOTED = 60
"""A message quotes at most this many characters of a line."""
_BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"))
_WORD = r"[A-Za-z_$][\w$]*"
_HEADER = re.compile(
    r"^(?!\s*(?:\}\s*)?(?:if|for|while|switch|catch|return|else|elif|elsif|with|match|when|until|unless|foreach|new|await|"
    r"throw|raise|assert|yield|case|try|except|finally|do|select|go|defer|not|in|and|or|print|loop|using)\b"
    r"|delete\b(?!\s*\([^()]*\)[^;=]*\{\s*$))"
    rf"\s*(?:(?:export|default|public|private|protected|internal|static|async|abstract|final|override|virtual|inline|"
    rf"open|data|sealed|pub(?:\([\w ]+\))?|unsafe|extern(?:\s+\"C\")?|const|declare|suspend|friend|constexpr|"
    rf"readonly|get|set|local|partial)\s+)*"
    rf"(?:"
    rf"(?:def|class|func|fn|fun|function\*?|interface|enum|trait|type|module|namespace|mod|macro_rules!|object|protocol|extension|sub|proc|(?i:create\s+(?:or\s+replace\s+)?(?:\w+\s+)?(?:table|view|trigger|function|procedure|index|type))(?:\s+(?i:if\s+not\s+exists))?)\s+(?:\([^)]*\)\s*|<[^<>]*>\s*)?(?P<defined>[\w$.:]*[\w$])"
    rf"|(?:struct|record|union|typedef\s+struct)\s+(?P<typed>[\w$.:<>]*[\w$])"
    rf"|impl\b(?:<[^<>]*>)?\s+(?P<implemented>[\w$][^{{;=]*?)\s*(?:\{{.*|where\b.*)?$"
    rf"|(?:[\w.]+\.(?P<verb>get|post|put|patch|delete|head|options)|[\w.]+)\s*\(?\s*(?P<quote>['\"`])(?P<spoken>.{{1,200}}?)(?P=quote).*(?:\bdo\b(?:\s*\|.*\|)?|\{{|=>|->|\(\))\s*$"
    rf"|(?:let|var|const)?\s*(?:[\w$]{{1,80}}\.){{0,6}}(?P<assigned>{_WORD})\s*(?::[^=]{{1,80}})?=\s*(?:async\s*)?(?:function\b|\(.*\)\s*(?::[^=]+)?=>|{_WORD}\s*=>|class\b|(?:[\w$.]{{1,80}}\()?\{{$|\($|\[$)"
    rf"|(?:[\w<>\[\],.*&:?]+\s+)*[*&]*(?P<called>(?!if\b|for\b|while\b|switch\b|catch\b|return\b|else\b|elif\b|with\b|match\b|when\b|until\b|unless\b|foreach\b|function\b|new\b|await\b|throw\b|assert\b)(?:[\w$:]*operator\s*[^\s\w(]{{1,3}}|[\w$:~]+))\s*\([^;]*\)?\s*[^;=]*[{{(,]\s*$"
    rf"|(?P<section>\[\[?[^\]]+\]\]?)\s*$"
    rf"|#{{1,6}}\s+(?P<heading>.+?)\s*#*$"
    rf"|(?:-\s+)?(?:\"(?P<quoted>[^\"]+)\"|(?P<key>[\w./$-]+))\s*:(?:\s*[\[{{|>][-+]?\s*)?$"
    rf")"
)
_HEADER_GROUPS = tuple(group for group in _HEADER.groupindex if group not in ("verb", "quote"))
_ATTACHED = re.compile(r"^\s*(?:@|#\[|#!\[|\[[A-Z]|//|#(?![a-z]+\b\s)|/\*|\*|--|\"\"\"|<!--)")
_CLOSER = re.compile(r"^\s*(?:[\]\)}]+[\]\)};,.\w\s]*$|[\]\)}]|end\b|\{\s*$|</|fi\b|done\b|esac\b)")
_BRANCH = re.compile(
    r"^\s*(?:\}\s*)?(?:else|elif|elsif|except|finally|catch|rescue|ensure|case|default|when)\b|^\s*\{\s*$"
)
_IMPORT = re.compile(
    r"\s*(?:import\b|from\s+\S+\s+import\b|use\s|using\s|#\s*include\b|require(?:_relative)?\b|package\b|@import\b|"
    r"(?:const|let|var)\s[^=\n]{1,200}=\s*require\(|export\s.*\bfrom\b|<link\b|<script\b)"
)
_ARM = re.compile(
    r"^\s*(?:(?:\}\s*)?(?:else\s+if|elif|elsif|elseif)\b\s*(?P<condition>.+?)\s*(?:[:{]|\bthen)?$|"
    r"case\s+(?P<case>.+?)\s*(?<!:):(?!:)|when\s+(?P<when>.+?)\s*(?:\bthen\b.*)?$|(?P<arm>[^=]+?)\s*=>|"
    r"(?P<pattern>[^\s()]+)\)$|(?P<element><(?:a|dd|dt|img|input|li|link|meta|option|script|td|th|tr)\b.*>)$|"
    r"-\s+(?:[\w.-]+:\s+)?(?P<item>[^@=<>~^:]+))"
)
"""Matches a branch of a choice, an element that often has siblings, or a list entry.  A group tells it from others."""
MAX_SHARED = 2 / 3
"""Two different branches have at most this share of the shorter one's words in common."""
_ARM_WORD = re.compile(r"\w+")
_SIGN = re.compile(r"""(["'])\\?\W+\1|\*""")
"""A branch for a sign instead of a word: `case '+':`, `*)`."""


# -- indentation and brackets --------------------------------------------------------------------------------------
def leading(line: str) -> str:
    """Return the line's leading blanks."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def columns(blanks: str) -> int:
    """Return the width of leading blanks; a tab counts as four columns."""
    return len(blanks) + blanks.count("\t") * (TAB_COLUMNS - 1)


@lru_cache(maxsize=65536)
def indent_of(line: str) -> int:
    """Return the number of columns before the line's first visible character."""
    return columns(leading(line))


class Unit(NamedTuple):
    """One level of a text's indentation: a tab, or a number of spaces."""

    text: str

    @property
    def columns(self) -> int:
        return columns(self.text)


def find_unit(lines: Sequence[str]) -> Unit | None:
    """Return the indentation unit of a text; None if nothing is indented."""
    return _measure_unit(tuple(lines))


@lru_cache(maxsize=16)
def _measure_unit(lines: tuple[str, ...]) -> Unit | None:
    # The result is cached, because one edit asks many times for the same file, and 1,500 lines take 0.7 ms.
    blanks = [leading(line) for line in lines if line.strip()]
    tabs = sum(1 for blank in blanks if blank.startswith("\t"))
    spaces = [len(blank) for blank in blanks if blank.startswith(" ")]
    if tabs > len(spaces):
        return Unit("\t")
    steps = [len(below) - len(above) for above, below in pairwise(blanks) if "\t" not in below]
    usual = Counter(step for step in steps if step in (2, 3, 4, 8)).most_common(1)
    if usual:
        return Unit(" " * usual[0][0])
    return Unit(" " * min(spaces)) if spaces else None


def surplus(lines: Sequence[str]) -> tuple[int, ...]:
    """Return the number of opened minus closed brackets of each kind.  Brackets in strings and comments count too."""
    text = "\n".join(line for line in lines if len(line) < MAX_COUNTED)
    return tuple(text.count(opening) - text.count(closing) for opening, closing in _BRACKETS)


def balance(lines: Sequence[str]) -> int:
    """Return the number of opened minus closed brackets of all kinds."""
    return sum(surplus(lines))


# -- definitions ---------------------------------------------------------------------------------------------------
def _match_header(line: str) -> re.Match[str] | None:
    # Runs of blanks become one blank, because the pattern would try every way to divide a long run.
    return _HEADER.match(" ".join(line.split())) if len(line) <= MAX_HEADER_LENGTH else None


@lru_cache(maxsize=65536)
def header_name(line: str) -> str | None:
    """Return what the line defines (function, class, test, key, section), if it opens a definition."""
    match = _match_header(line)
    if match is None:
        return None
    name = next((match[group] for group in _HEADER_GROUPS if match[group]), None)
    return f"{match['verb']} {name}" if match["verb"] and name else name  # A route has one handler for each verb.


def name_at(lines: Sequence[str], k: int) -> str | None:
    """Return the name that line k of some code defines, if the line opens a definition.  The brace may stand alone on
    the next line."""
    is_open = k + 1 < len(lines) and lines[k + 1].strip() == "{"
    return header_name(lines[k] + " {" if is_open else lines[k])


def is_definition(line: str) -> bool:
    """Tell whether the line opens, or is attached to, a function, class, test or section.

    Files separate these with blank lines.
    """
    if is_attached(line):
        return True
    match = _match_header(line)
    if match is None or arm_words(line):
        return False
    is_function = bool(match["assigned"]) and ("=>" in line or "function" in line or "class" in line)
    return is_function or any(
        match[group] for group in ("defined", "typed", "implemented", "spoken", "called", "section", "heading")
    )


def definition_header(lines: Iterable[str]) -> str | None:
    """Return the header of the definition at the start of the lines, after its decorators and comments."""
    first = next((line for line in lines if line.strip() and not is_attached(line)), None)
    return first if first is not None and is_definition(first) else None


def new_definitions(lines: Sequence[str], known: Container[str | None]) -> list[range]:
    """Return the lines of each outermost definition whose name is not `known`, with its decorators and comments."""
    found: list[range] = []
    k = 0
    while k < len(lines):
        end = k + 1
        if not is_attached(lines[k]) and is_definition(lines[k]) and header_name(lines[k]) not in known:
            end = definition_end(lines, k, len(lines))
            found.append(range(attached_start(lines, k, 0), end))
        k = end
    return found


def gaps_between(lines: Sequence[str], scopes: Iterable[Scope]) -> dict[int, int]:
    """Return the commonest number of blank lines above definitions, by indentation; of equally common numbers, the
    largest.  Definitions at the start of a scope do not count."""
    found: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for scope in scopes:
        top, level = scope.lead_line, indent_of(lines[scope.header_line])
        while top and not lines[top - 1].strip():
            top -= 1
        gap = scope.lead_line - top
        if top and scope.kind in SEPARATED and (gap or indent_of(lines[top - 1]) >= level):
            found[level][gap] += 1
    return {level: max(gaps, key=lambda gap: (gaps[gap], gap)) for level, gaps in found.items()}


@lru_cache(maxsize=65536)
def arm_words(line: str) -> frozenset[str]:
    """Return the words that distinguish a branch (`case X:`, `when X`, `X =>`) or a list entry (`- X`) from its
    neighbours.  The result is empty for any other line."""
    match = _ARM.match(line) if len(line) <= MAX_HEADER_LENGTH else None
    name = next((text for text in match.groups() if text), "") if match is not None else ""
    if _SIGN.fullmatch(name):
        return frozenset((name,))
    return frozenset(_ARM_WORD.findall(name)) if balance([name]) == 0 else frozenset()


def are_other_arms(one: frozenset[str], other: frozenset[str]) -> bool:
    """Tell whether the words belong to two different branches or entries, and not to one before and after a change."""
    return bool(one) and bool(other) and len(one & other) <= MAX_SHARED * min(len(one), len(other))


_SAYS_WHICH = re.compile(r"""["'`][^"'`]*["'`]|[\w$-]+""")
_LOOP = re.compile(r"\s*for\b.*?\s(?:in|of)\s+(?P<over>.*)")
_SHELL_TAIL = re.compile(r"\s*[12&]?>\s*(?:/dev/null|&[12])|;\s*(?:then|do)$")
_SETS = re.compile(
    r"\s*(?:(?:const|let|var|export|final|static|pub)\s+)*"
    r"(?P<key>[\w$.-]{1,80}|\"[^\"]{1,80}\"|'[^']{1,80}'|\[[^\]]{1,80}\]|\{[^}]{1,80}\})\s*(?:=(?![=>])|:(?=\s|$))\s*(?P<value>.*)"
)
_NAMES = frozenset({"name", "id", "key", "title", "path", "label"})
"""Keys with a value that identifies an entry."""
_CALLED = re.compile(r"""([\w$]+)\(\s*(["'][^"']*["']|[\w$.]*)""")
"""A call, and its first argument."""
_ONLY_ONE = frozenset({"return", "raise", "throw", "break", "continue", "yield", "pass", "end"})


def names_entry(line: str) -> bool:
    """Tell whether the line identifies one of several entries, such as `"name": "x"`."""
    match = _SETS.match(line) if len(line) <= MAX_HEADER_LENGTH else None
    return match is not None and match["key"].strip("\"'") in _NAMES


def are_other_entries(one: str, other: str) -> bool:
    """Tell whether two lines of the same form may be about different things, and not about one thing before and after
    an edit.

    Examples are entries with other keys, calls with other names, and other conditions.
    """
    if max(len(one), len(other)) > MAX_HEADER_LENGTH:
        return False
    loops = [_LOOP.match(line) for line in (one, other)]
    if loops[0] is not None and loops[1] is not None and loops[0]["over"] == loops[1]["over"]:
        return False
    words = [_SAYS_WHICH.findall(_SHELL_TAIL.sub("", line.strip())) for line in (one, other)]
    if not all(words) or not _ONLY_ONE.isdisjoint((words[0][0], words[1][0])):
        return False
    sets = [_SETS.match(line) for line in (one, other)]
    if sets[0] is not None and sets[1] is not None:
        keys = [match["key"].strip("\"'") for match in sets if match is not None]
        is_named = keys[0] == keys[1] and keys[0] in _NAMES
        return keys[0] != keys[1] or (is_named and sets[0]["value"] != sets[1]["value"])
    if words[0][0] != words[1][0]:
        return False
    calls = [dict(_CALLED.findall(line)) for line in (one, other)]
    if any(calls[0][name] == calls[1].get(name) != "" for name in calls[0]):
        return False
    return are_other_arms(*(frozenset(found[1:]) for found in words)) or (
        all(calls) and calls[0].keys().isdisjoint(calls[1])
    )


_ELEMENT = re.compile(r"""\s*[\[{(]\s*(?:[\w$]+\s*:\s*)?(["'`])(?P<name>[^"'`]{2,80})\1""")
"""A list element that begins with its name."""


def is_one_more(line: str, lines: Sequence[str], k: int) -> bool:
    """Tell whether `line` continues a series of calls or of list elements that line k and a neighbour belong to.

    The calls must call the same function for different things.  The elements must have different names.
    """
    beside = [lines[j] for j in (k - 1, k + 1) if 0 <= j < len(lines)]
    if (element := _ELEMENT.match(line[:MAX_HEADER_LENGTH])) is not None:
        head = line[: element.start("name")]
        others = [_ELEMENT.match(other[:MAX_HEADER_LENGTH]) for other in (lines[k], *beside) if other.startswith(head)]
        names = [frozenset(_ARM_WORD.findall(found["name"])) for found in (element, *others) if found is not None]
        return (
            lines[k].startswith(head) and len(names) > 2 and all(are_other_arms(names[0], name) for name in names[1:])
        )
    callee, sign, _ = line.strip().partition("(")
    same = [other for other in (lines[k], *beside) if sign and other.strip().startswith(callee + sign)]
    return lines[k] in same and len(same) > 1 and all(are_other_entries(line, other) for other in same)


def is_closer(line: str) -> bool:
    """Tell whether the line closes what a line above with the same indentation opened.  The line may do more than
    that."""
    return len(line) <= MAX_HEADER_LENGTH and _CLOSER.match(line) is not None


def is_branch(line: str) -> bool:
    """Tell whether the line continues the statement above it, like else, except and catch."""
    return _BRANCH.match(line) is not None


def is_import(line: str) -> bool:
    """Tell whether the line opens an import statement."""
    return _IMPORT.match(line[:MAX_COUNTED]) is not None


def is_attached(line: str) -> bool:
    """Tell whether the line is a decorator, attribute or comment, which belongs to the definition right below."""
    return len(line) <= MAX_HEADER_LENGTH and _ATTACHED.match(line) is not None


def definition_end(lines: Sequence[str], start: int, stop: int) -> int:
    """Return one past the last line of the definition that `lines[start]` opens, but at most `stop`.  Indentation
    decides."""
    indent = indent_of(lines[start])
    if lines[start].rstrip().endswith("{") or (start + 1 < stop and lines[start + 1].strip() == "{"):
        # A definition in braces ends at the closing brace with the indentation of its header.
        for i in range(start + 1, stop):
            if lines[i].lstrip()[:1] == "}" and indent_of(lines[i]) == indent:
                return i + 1
    end = start + 1
    for i in range(start + 1, stop):
        line = lines[i].strip()
        if not line:
            continue
        level = indent_of(lines[i])
        if level < indent or (level == indent and not is_closer(lines[i])):
            break
        end = i + 1
        if level == indent and line[-1] not in "{:([,":
            break
    return end


def attached_start(lines: Sequence[str], start: int, stop: int) -> int:
    """Return the first of the decorators and comments right above `lines[start]`, but no line before `stop`."""
    indent, first = indent_of(lines[start]), start
    while first > stop:
        above = first - 1
        if is_closer(lines[above]) and indent_of(lines[above]) == indent:
            # This is a decorator of several lines.
            while above > stop and (indent_of(lines[above]) > indent or is_closer(lines[above])):
                above -= 1
            if not lines[above].lstrip().startswith(("@", "#[")):
                break
        elif not (is_attached(lines[above]) and indent_of(lines[above]) >= indent):
            break
        first = above
    return first


def quote_lines(lines: Sequence[str]) -> str:
    """Return the first of the lines for a message, and how many more there are."""
    text = lines[0].strip()
    text = text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."
    return f"`{text}`" + (f" and {len(lines) - 1} more" if lines[1:] else "")
