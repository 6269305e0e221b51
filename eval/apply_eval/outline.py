"""The outline of a file by indentation: which line heads which, and where a scope ends.

No parser: it must work on windows cut out of files, in any language, in microseconds.  It decides only how a sketch
looks and how narrow a search may be, never what is true.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_DEFINITION = re.compile(
    r"^\s*(?:@\w+\s+)?(?:(?:export|default|pub(?:\([^)]*\))?|public|private|protected|internal|static|final|abstract|"
    r"async|override|virtual|inline|const|unsafe|extern|open|suspend|data|sealed|readonly|declare|local)\s+)*"
    r"(?:def|class|func|fn|fun|function\*?|interface|struct|enum|impl|trait|module|mod|namespace|object|record|type|"
    r"describe|it|test|context|resource|union|template)\b"
)
_METHOD = re.compile(r"^\s*[\w<>\[\],.&*?:~\s]*\w\s*\([^;]*\)?\s*(?:const|noexcept|throws [\w., ]+|->.*|:.*)?\s*\{\s*$")
_CONTROL = re.compile(
    r"^\s*(?:\}?\s*(?:else|elif|catch|except|finally|rescue|ensure)\b|if\b|for\b|while\b|switch\b|match\b|try\b|with\b|do\b|return\b|case\b)"
)
_CLOSER = re.compile(r"^\s*(?:[})\]]|end\b|</|fi\b|done\b|esac\b)")
_DECORATOR = re.compile(r"^\s*(?:@\w|#\[|\[\w)")
_FLAT_HEADER = {"markdown": "#", "toml": "["}
_NESTED_DATA = frozenset({"yaml", "json", "html", "css", "vue", "svelte", "markdown", "toml"})


def indent_of(line: str) -> int:
    """Leading white-space characters, -1 for a blank line."""
    stripped = line.lstrip()
    return len(line) - len(stripped) if stripped else -1


def is_definition(line: str) -> bool:
    """Whether the line looks like the head of a function, class or the like."""
    if _CONTROL.match(line):
        return False
    return _DEFINITION.match(line) is not None or (line.rstrip().endswith("{") and _METHOD.match(line) is not None)


class Outline:
    """Scopes of one text, asked by line number (0-based)."""

    def __init__(self, lines: Sequence[str], language: str | None) -> None:
        self.lines = lines
        self.indents = [indent_of(line) for line in lines]
        self.language = language or ""

    def headers(self, line: int, indent: int) -> list[int]:
        """The lines that head what stands at `line` with `indent`, outermost first.  For code only definitions."""
        flat = _FLAT_HEADER.get(self.language)
        if flat is not None:
            return self._flat_header(line, flat)
        found: list[int] = []
        for at in range(min(line, len(self.lines)) - 1, -1, -1):
            if indent <= 0:
                break
            if 0 <= self.indents[at] < indent:
                indent = self.indents[at]
                found.append(self._opening_of(at))
        wanted = found if self.language in _NESTED_DATA else [at for at in found if is_definition(self.lines[at])]
        return wanted[::-1]

    def _flat_header(self, line: int, sign: str) -> list[int]:
        for at in range(line - 1, -1, -1):
            if self.lines[at].startswith(sign):
                return [at]
        return []

    def _opening_of(self, line: int) -> int:
        """Where a head over several lines begins: `def f(` for `) -> int:`."""
        if not _CLOSER.match(self.lines[line]):
            return line
        for at in range(line - 1, max(line - 13, -1), -1):
            if self.indents[at] == self.indents[line]:
                return at if not _CLOSER.match(self.lines[at]) else self._opening_of(at)
        return line

    def head_end(self, header: int) -> int:
        """The last line of a head over several lines."""
        if self.lines[header].rstrip()[-1:] not in {"(", "["}:
            return header
        for at in range(header + 1, min(header + 13, len(self.lines))):
            if self.indents[at] == self.indents[header]:
                return at if _CLOSER.match(self.lines[at]) else header
        return header

    def scope_end(self, header: int) -> int:
        """The last line of the scope that `header` opens, its closing line included."""
        if self.language in _FLAT_HEADER:
            return self._flat_end(header)
        level = self.indents[header]
        last = header
        for at in range(header + 1, len(self.lines)):
            if self.indents[at] > level:
                last = at
            elif self.indents[at] >= 0:
                if self.indents[at] != level or not _CLOSER.match(self.lines[at]):
                    break
                last = at
                if self.lines[at].rstrip()[-1:] not in {"{", ":", "(", "["}:
                    break
        return last

    def _flat_end(self, header: int) -> int:
        sign = _FLAT_HEADER[self.language]
        for at in range(header + 1, len(self.lines)):
            if self.lines[at].startswith(sign):
                return at - 1
        return len(self.lines) - 1

    def decorated_start(self, header: int) -> int:
        """Where the decorators or attributes right above a head begin."""
        at = header
        while at > 0 and self.indents[at - 1] == self.indents[header] and _DECORATOR.match(self.lines[at - 1]):
            at -= 1
        return at
