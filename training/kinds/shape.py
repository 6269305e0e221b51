"""The shape of a file as far as edits need it: definitions, statements, blocks and rows, by lines and indentation.

No parser: what a file in an unusual layout has is not found, or not offered, as every finding is checked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from rapidfuzz import fuzz

from training.kinds.sources import LANGUAGES, Source


def comment_line(language: str, text: str) -> str:
    """A text as a comment of this language."""
    return str(LANGUAGES.get(language, {}).get("comment", "// {}")).replace("{}", text)


BRACES = frozenset(name for name, facts in LANGUAGES.items() if facts.get("blocks") == "braces")
ENDS = frozenset(name for name, facts in LANGUAGES.items() if facts.get("blocks") == "end")
SEMICOLONS = frozenset(name for name, facts in LANGUAGES.items() if facts.get("semicolons"))
HASHES = frozenset(name for name in LANGUAGES if comment_line(name, "").startswith("#"))
CODE = BRACES | ENDS | {"python", "shell"}

_QUOTED = r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'"
_TEXT = re.compile(_QUOTED)
_TEXT_OR_TICKS = re.compile(rf"{_QUOTED}|`[^`]*`")

_CONTROL = (
    r"(?!\s*(?:\}|if|else|elif|for|foreach|while|switch|catch|do|try|return|using|lock|when|match|loop|unsafe|with|case"
    r"|new|throw|await)\b)"
)
_HEADERS = {
    "python": r"^\s*(?:async\s+)?(?:def|class)\s+(\w+)",
    "ruby": r"^\s*(?:def|class|module)\s+(?:self\.)?(\w+[?!]?)",
    "lua": r"^\s*(?:local\s+)?function\s+(?:\w+[.:])*(\w+)\s*\(",
    "shell": r"^\s*(?:function\s+)?([\w-]+)\s*\(\)\s*\{$|^\s*function\s+([\w-]+)\s*\{$",
    "go": r"^func\s+(?:\([^)]*\)\s*)?(\w+)\s*[\[(]|^type\s+(\w+)\s+(?:struct|interface)\s*\{$",
    "rust": r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:async\s+|const\s+|unsafe\s+)*(?:fn|struct|enum|trait|mod)\s+(\w+)",
    "css": r"^\s*([.#]?[\w-][^{};]*?)\s*\{$",
}
_JS = (
    r"^\s*(?:export\s+)?(?:default\s+)?(?:async\s+)?function\s*\*?\s*(\w+)\s*[<(]"
    r"|^\s*(?:export\s+)?(?:const|let)\s+(\w+)\s*=\s*(?:async\s*)?(?:function\b|\([^)]*\)(?::[^=]+)?\s*=>\s*\{$)"
    r"|^\s*(?:export\s+)?(?:default\s+)?(?:abstract\s+)?(?:class|interface|enum|namespace)\s+(\w+)"
    rf"|^{_CONTROL}\s+(?:(?:public|private|protected|static|async|override|readonly)\s+)*(\w+)\s*\([^;'\"=]*\)(?::[^=;]+)?\s*\{{$"
)
_TYPED = (
    r"^\s*(?:[\w@]+\s+)*(?:class|interface|enum|struct|namespace|object|record|trait|protocol|extension)\s+(\w+)[^;]*$"
    r"|^\s*(?:[\w@<>]+\s+)*(?:fun|func|function)\s+(?:<[^>]*>\s*)?(?:\w+\.)?(\w+)\s*\("
    rf"|^{_CONTROL}\s*(?:[\w:<>\[\],.*&?~@]+\s+)+[*&]*(?:\w+::)*~?(\w+)\s*\([^;={{}}\"]*(?:\)[^;={{}}\"]*\{{?)?$"
)


@dataclass(frozen=True, slots=True)
class Definition:
    """A function, class or CSS rule: lines `top:end`, its own header `start:body`, the inside `body:close`.

    `top` is above `start` where decorators or comments stand on it; `close` is `end` where nothing closes it.
    """

    name: str
    top: int
    start: int
    body: int
    close: int
    end: int

    @property
    def is_closed(self) -> bool:
        return self.close < self.end


def indent(line: str) -> int:
    """Columns of white space before the first character."""
    return (
        len(line) - len(line.lstrip())
        if "\t" not in line
        else len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())
    )


def margin(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


@lru_cache(maxsize=4_096)
def brackets_around(source: Source) -> tuple[str, ...]:
    """For each line the innermost bracket that is open where it starts, or "" or, inside a long text, "text"."""
    found: list[str] = []
    stack: list[str] = []
    until = ""
    triple = source.language in {"python", "toml"}
    slashes = source.language in BRACES | {"css"}
    ticks = source.language in {"typescript", "javascript", "go"}
    hashes = source.language in HASHES
    for line in source.lines:
        found.append("text" if until else stack[-1] if stack else "")
        at = 0
        while at < len(line):
            if until:
                end = line.find(until, at)
                if end < 0:
                    break
                at, until = end + len(until), ""
                continue
            char = line[at]
            if triple and line[at : at + 3] in {'"""', "'''"}:
                until = line[at : at + 3]
                at += 3
                continue
            if slashes and line.startswith("/*", at):
                until = "*/"
                at += 2
                continue
            if source.language in {"html", "markdown", "vue", "svelte"} and line.startswith("<!--", at):
                until = "-->"
            elif ticks and char == "`":
                until = "`"
            elif (slashes and source.language != "css" and line.startswith("//", at)) or (hashes and char == "#"):
                break
            elif char in "\"'" and source.language not in {"markdown", "html", "yaml", "vue", "svelte"}:
                quoted = _TEXT.match(line, at)
                at = quoted.end() if quoted else at + 1
                continue
            elif char in "([{":
                stack.append(char)
            elif char in ")]}" and stack:
                stack.pop()
            at += 1
    return tuple(found)


def is_blank(line: str) -> bool:
    return not line.strip()


def is_closer(line: str) -> bool:
    """Whether a line only closes what other lines opened."""
    return re.fullmatch(r"\s*(?:[)\]}>;,]+|end|fi|done|esac|;;|</\w+>)[\s;,)]*", line) is not None


def is_comment(source: Source, line: str) -> bool:
    start, sign = line.lstrip(), comment_line(source.language, "").split(" ")[0]
    if sign in ("//", "/*"):
        return start.startswith(("//", "/*", "*/", "* ")) or start == "*"
    return start.startswith(sign)


_NOT_FIRST = re.compile(
    r"\s*(?:else|elif|elsif|case|default|except|finally|catch|when|rescue|ensure|end|fi|done|esac|then|do|in|and|or|return"
    r"|raise|throw|break|continue|pass|from|import|use|package|private|public|protected|static|@|#|\.|\?|:|&&|\|\||\+|=|\)|\]|\}|<)"
    r"(?![\w$])|\s*[@#.?:&|+=)\]}<,*]"
)
_OPEN_END = re.compile(r"(?:[\[({,:\\+\-*/%=<>&|?.]|=>|->|\b(?:and|or|not|in|do|then|else|begin))\s*$")


def is_statement(source: Source, at: int) -> bool:
    """Whether a line is a whole plain statement, one that another can stand before or after."""
    lines = source.lines
    line = lines[at]
    if is_blank(line) or is_comment(source, line) or source.language not in CODE:
        return False
    if brackets_around(source)[at] not in {"", "{"} or (
        at + 1 < len(lines) and brackets_around(source)[at + 1] == "text"
    ):
        return False
    if (source.language in {"python", "ruby", "lua"}) and brackets_around(source)[at]:
        return False
    code = _TEXT_OR_TICKS.sub("''", line)
    if any(code.count(opening) != code.count(closing) for opening, closing in ("()", "[]", "{}")):
        return False
    if source.language in SEMICOLONS and not code.rstrip().endswith(";"):
        return False
    if _NOT_FIRST.match(line) or _OPEN_END.search(code) or re.match(r"\s*[\w$\"'`-]+\s*:(?!=|:)", code):
        return False
    if re.match(
        r"\s*(?:if|for|while|switch|match|with|try|def|class|func|function|fn|unless|until|begin|struct|enum)\b", line
    ):
        return False
    following = lines[at + 1] if at + 1 < len(lines) else ""
    before = next((lines[i] for i in range(at - 1, -1, -1) if lines[i].strip()), "")
    if re.match(r"\s*(?:\.|\?|&&|\|\||[+\-*/|&:=]\s|and\b|or\b)", following) or (
        following.strip() and indent(following) > indent(line)
    ):
        return False
    before_code = _TEXT_OR_TICKS.sub("''", before)
    if before_code.rstrip().endswith(("\\", "=", ",", "+", "||", "&&", "(", "?", "return", "|")):
        return False
    if source.language in BRACES and re.match(r"\s*(?:if|for|while)\b.*\)\s*$|.*\belse$", before):
        return False
    return re.search(r"[A-Za-z_]{2}", line) is not None


@lru_cache(maxsize=4_096)
def definitions(source: Source) -> tuple[Definition, ...]:
    """Functions, classes and rules that stand whole in this file, outer ones before inner ones."""
    return tuple(_definitions(source))


def functions(source: Source) -> list[Definition]:
    """Definitions of functions alone."""
    kind = re.compile(
        r"\b(?:class|interface|enum|struct|namespace|object|record|trait|impl|module|mod|type|protocol|extension)\b[^(]*$"
    )
    return [
        one
        for one in definitions(source)
        if source.language != "css" and not kind.search(source.lines[one.start].split("(")[0])
    ]


def _pattern(language: str) -> re.Pattern[str] | None:
    if language in {"typescript", "javascript"}:
        return re.compile(_JS)
    if language in _HEADERS:
        return re.compile(_HEADERS[language])
    return re.compile(_TYPED) if language in BRACES else None


def _definitions(source: Source) -> Iterator[Definition]:
    pattern = _pattern(source.language)
    if pattern is None:
        return
    lines = source.lines
    around = brackets_around(source)
    for start, line in enumerate(lines):
        match = pattern.match(line) if len(line) < 200 else None
        if match is None or around[start] not in {"", "{"} or is_comment(source, line):
            continue
        if source.language == "css" and start > 0 and lines[start - 1].rstrip().endswith(","):
            continue
        name = next(filter(None, match.groups()), "")
        body = _body(source, start)
        if not name or body is None:
            continue
        end = _end(source, start, body)
        if end is None or all(is_blank(lines[i]) for i in range(body, end)):
            continue
        closed = source.language != "python"
        yield Definition(name, _top(source, start), start, body, end - closed, end)


def _body(source: Source, start: int) -> int | None:
    """The line after the header that starts here: headers of several lines end where their brackets do."""
    lines = source.lines
    if source.language in ENDS or source.language in {"css", "shell"}:
        return start + 1
    for at in range(start, min(start + 16, len(lines))):
        line = lines[at].rstrip()
        if at > start and (is_blank(line) or (indent(line) < indent(lines[start]))):
            return None
        code = re.sub(r"\s+(?:#|//).*$", "", line)
        if source.language == "python":
            depth = _depth(lines[start : at + 1])
            if depth == 0:
                return at + 1 if code.endswith(":") else None
        elif code.endswith("{"):
            return at + 1 if _depth(lines[start : at + 1]) == 0 else None
        elif code.endswith((";", "}")):
            return None
    return None


def _depth(lines: tuple[str, ...]) -> int:
    code = _TEXT.sub("''", "\n".join(lines))
    return sum(code.count(char) for char in "([") - sum(code.count(char) for char in ")]")


def _end(source: Source, start: int, body: int) -> int | None:
    """The line after a definition, or None where its end is not in this file, or is laid out in an unusual way."""
    lines = source.lines
    depth = indent(lines[start])
    around = brackets_around(source)
    for at in range(body, len(lines)):
        line = lines[at]
        if is_blank(line) or around[at] == "text" or indent(line) > depth:
            continue
        if source.language == "python":
            if is_comment(source, line) and indent(line) > 0:
                return None
            end = at
            while is_blank(lines[end - 1]):
                end -= 1
            return end if end > body else None
        closing = "end" if source.language in ENDS else "}"
        if indent(line) == depth and re.fullmatch(re.escape(closing) + r"[;,]?", line.strip()):
            return at + 1
        return None
    if source.language == "python" and source.text.endswith("\n") and len(lines) > body:
        return len(lines)
    return None


def _top(source: Source, start: int) -> int:
    lines = source.lines
    top = start
    around = brackets_around(source)
    while top > 0 and indent(lines[top - 1]) - indent(lines[start]) in {0, 1} and around[top - 1] in {"", "{", "text"}:
        above = lines[top - 1].strip()
        starts = ("@", "#") if source.language in HASHES else ("@", "#[", "//", "/*", "*", "--")
        if not above.startswith(starts) and not (source.language == "csharp" and above.startswith("[")):
            break
        top -= 1
    return top


def enclosing(source: Source, at: int) -> list[Definition]:
    """The definitions that a line stands inside, outermost first."""
    return [one for one in definitions(source) if one.body <= at < one.close]


def owners(source: Source, at: int) -> list[tuple[int, int]]:
    """Header lines above a line, as ranges, outermost first: definitions, keys of YAML, sections, headings."""
    lines = source.lines
    if source.language == "toml":
        heads = [i for i in range(at) if re.match(r"\s*\[", lines[i]) and brackets_around(source)[i] == ""]
        return [(heads[-1], heads[-1] + 1)] if heads else []
    if source.language == "markdown":
        heads = [i for i in range(at) if re.match(r"#{1,6} ", lines[i])]
        return [(heads[-1], heads[-1] + 1)] if heads else []
    if source.language in {"yaml", "json"}:
        found: list[tuple[int, int]] = []
        depth = indent(lines[at]) if at < len(lines) else 0
        for i in range(min(at, len(lines)) - 1, -1, -1):
            is_key = re.match(r"\s*(?:- )?[\w\"'./-]+\s*:\s*[{\[]?$", lines[i]) is not None
            if not is_blank(lines[i]) and indent(lines[i]) < depth and not is_comment(source, lines[i]):
                depth = indent(lines[i])
                if is_key:
                    found.insert(0, (i, i + 1))
        return found
    return [(one.start, one.body) for one in enclosing(source, at)]


@dataclass(frozen=True, slots=True)
class Block:
    """A header line with its indented lines, and its closing line where it has one: lines `start:end`."""

    start: int
    close: int
    end: int


_OPENS = {"python": r":$", "shell": r"(?:then|do)$", "lua": r"(?:then|do)$", **dict.fromkeys(BRACES, r"\{$")}
_CLOSES = {"ruby": "end", "lua": "end", "shell": "fi|done"}


def blocks(source: Source, low: int, high: int, *, words: str = "if") -> list[Block]:
    """Blocks that begin with one of these words and that no `else` follows, wholly between two lines."""
    around, opens = brackets_around(source), _OPENS.get(source.language, "")
    block_at = _indented if source.language == "python" else _closed
    found: list[Block] = []
    for start in range(low, high):
        line = source.lines[start]
        is_head = around[start] in {"", "{"} and re.match(rf"\s*(?:{words})\b", line) is not None
        if is_head and re.search(opens, line.rstrip()) and _depth((line,)) == 0:
            block = block_at(source, start, high)
            found += [] if block is None else [block]
    return found


def _inside_end(source: Source, start: int, high: int) -> int:
    """The first line below a header that is not inside it."""
    lines, around = source.lines, brackets_around(source)
    at = start + 1
    while at < high and (is_blank(lines[at]) or around[at] == "text" or indent(lines[at]) > indent(lines[start])):
        at += 1
    return at


def _indented(source: Source, start: int, high: int) -> Block | None:
    lines, at = source.lines, _inside_end(source, start, high)
    end = at
    while end > start and is_blank(lines[end - 1]):
        end -= 1
    follows = lines[at].strip() if at < len(lines) else ""
    is_whole = end > start + 1 and at < high + 1
    return Block(start, end, end) if is_whole and not re.match(r"(?:else|elif|except|finally)\b", follows) else None


def _closed(source: Source, start: int, high: int) -> Block | None:
    lines, at = source.lines, _inside_end(source, start, high)
    closing = rf"\s*(?:{_CLOSES.get(source.language, r'}')})\s*"
    if not start + 1 < at < high or not re.fullmatch(closing, lines[at]) or indent(lines[at]) != indent(lines[start]):
        return None
    follows = lines[at + 1].strip() if at + 1 < len(lines) else ""
    return None if re.match(r"(?:else|elif|catch|finally|while)\b", follows) else Block(start, at, at + 1)


ROW = re.compile(
    r"^\s*(?:(?:[\"'][\w ./:-]+[\"']|[\w.-]+)\s*(?::|=>|=)\s*\S.*[,;]?|[-*] \S.*|[\"'][^\"']+[\"'],|[\w.]+,|\| ?.+\|)$"
)


def row_runs(source: Source, *, at_least: int) -> list[range]:
    """Stretches of consecutive rows of one shape, at one indentation and in one line each: entries, items, cells."""
    lines = source.lines
    around = brackets_around(source)
    found: list[range] = []
    start = 0
    while start < len(lines):
        end = start
        while (
            end < len(lines)
            and ROW.match(lines[end])
            and not _OPEN_ROW.search(lines[end])
            and around[end] != "text"
            and not is_comment(source, lines[end])
            and indent(lines[end]) == indent(lines[start])
            and around[end] == around[start]
            and _shape(lines[end]) == _shape(lines[start])
        ):
            end += 1
        if end - start >= at_least:
            found.append(range(start, end))
        start = max(end, start + 1)
    return found


_OPEN_ROW = re.compile(r"(?:[\[({|>&+\\:]|=>|\|\||&&)\s*$")


def _shape(line: str) -> str:
    text = line.strip()
    if text.startswith("|"):
        return f"|{text.count('|')}"
    if text[:2] in {"- ", "* "}:
        return text[0]
    separator = re.search(r"\s(?:=>|=)\s|:\s|=", text)
    return (separator.group().strip() if separator else "item") + text[-1:].replace('"', "").replace("'", "")[:1].strip(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789)]}_"
    )


def balanced(*lines: str) -> bool:
    """Whether all brackets that these lines open are closed in them, texts in quotes aside."""
    code = _TEXT.sub("''", "\n".join(lines))
    return all(code.count(opening) == code.count(closing) for opening, closing in ("()", "[]", "{}"))


def statements(source: Source, one: Definition) -> list[int]:
    """Whole statements inside a definition, at any depth."""
    return [i for i in range(one.body, one.close) if is_statement(source, i)]


_LINES = {
    "dockerfile": r"[A-Z]+ .*[^\\]",
    "makefile": r"\t[^#].*[^\\]",
    "css": r"\s+[\w-]+: [^{}]*;",
    "html": r"\s*<(\w+)[^<>]*>[^<>]+</\1>",
    "sql": r"\s+[\w.]+(?: [^()]*(?:\(\d+\))?[^()]*)?,",
}
"""Lines of languages without functions that can come and go alone."""


def statements_of(source: Source) -> list[int]:
    """Whole statements inside functions of a file, each once; elsewhere lines that stand for themselves."""
    pattern = _LINES.get(source.language)
    if pattern is not None:
        lines = source.lines
        around = brackets_around(source)
        found = [i for i, line in enumerate(lines) if re.fullmatch(pattern, line) and around[i] != "text"]
        return [i for i in found if i == 0 or not lines[i - 1].endswith("\\")]
    return sorted({i for one in functions(source) for i in statements(source, one)})


def is_call(line: str) -> bool:
    """Whether a statement only calls something."""
    return re.match(r"\s*(?:await |this\.|self\.|\$this->)?[\w.$:>-]+[!?]?\(.*\)\??;?$", line) is not None


def call_parts(line: str) -> tuple[str, list[str], str] | None:
    """A statement that ends in a call of two or more arguments: up to its bracket, the arguments, and from there on."""
    match = re.match(r"(\s*[\w$][^()\"'`#]*\w\()(.+)(\)[;?]*)$", line)
    if (
        match is None
        or re.search(r"//|#|=>|\blambda\b|\|", line)
        or re.match(r"\s*(?:if|for|while|with|assert)\b", line)
    ):
        return None
    arguments, depth, quote = [""], 0, ""
    for char in match.group(2):
        if quote or char in "\"'`":
            quote = "" if char == quote else quote or char
        depth += (char in "([{") - (char in ")]}") if not quote else 0
        if depth < 0:
            return None
        if char == "," and depth == 0 and not quote:
            arguments.append("")
        else:
            arguments[-1] += char
    if (
        len(arguments) < 2
        or depth
        or quote
        or "<" in match.group(2)
        or "\\" in line
        or not all(map(str.strip, arguments))
    ):
        return None
    return match.group(1), [one.strip() for one in arguments], match.group(3)


def step(source: Source) -> str:
    """What one level of indentation is in this file."""
    filled = [line for line in source.lines if line.strip() and not line.lstrip().startswith("*")]
    if sum(line.startswith("\t") for line in filled) > sum(line.startswith(" ") for line in filled):
        return "\t"
    widths = Counter(indent(below) - indent(above) for above, below in pairwise(filled))
    likely = (2, 4) if source.language != "python" or not any(widths[n] for n in (4, 8)) else (4,)
    return " " * max(likely, key=lambda width: (widths[width], -abs(width - 4)))


def first_filled(source: Source, at: int) -> int | None:
    """The first line from here on that is not blank."""
    return next((i for i in range(at, len(source.lines)) if not is_blank(source.lines[i])), None)


def last_filled(source: Source, before: int) -> int | None:
    """The last line above this one that is not blank."""
    return next((i for i in range(before - 1, -1, -1) if not is_blank(source.lines[i])), None)


def gap_below(source: Source, one: Definition) -> int | None:
    """How many blank lines part a definition from its next sibling, or from the one before where it is the last."""
    below, above = first_filled(source, one.end), last_filled(source, one.top)
    if below is not None and not is_closer(source.lines[below]):
        return below - one.end or None
    if above is not None and is_closer(source.lines[above]):
        return one.top - above - 1 or None
    return None


def is_near(line: str, other: str) -> bool:
    """Whether one line may well be the other one changed."""
    return fuzz.ratio(line.strip(), other.strip()) > 60


def row_key(line: str) -> str | None:
    """How a row begins that has a key: up to and with what parts it from its value."""
    match = re.match(
        r"\s*((?:[\"'][\w ./:-]+[\"']|(?:- )?[\w.-]+)\s*(?::|=>|=(?!=))\s*(?=[^\s:=])|\| *[\w`. -]{2,}? *\|)", line
    )
    return match.group(1) if match else None
