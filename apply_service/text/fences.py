"""Finds code fences, and lines that may stand around an edit."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from apply_service.text.english import is_sentence
from apply_service.text.paths import MAX_LENGTH, mentioned_path, named_path, titled_path

FENCE_TAGS = ("source", "sourcecode", "codename", "code", "pre")
"""Tags that models write instead of a fence where a fence would break the text around it."""
SHELLS = ("bash", "sh", "shell", "zsh", "console", "terminal", "powershell", "cmd", "shellsession")
PROSE_TITLES = ("md", "mdx", "markdown", "rst", "text", "txt", "adoc")
PAGE_TITLES = ("md", "mdx", "markdown")


CALLS = ("apply_patch", "applypatch", "%%bash", "bash -lc", "$ apply_patch", "cat <<", "<<", "EOF", "'EOF'", "PATCH")


class FenceLine(NamedTuple):
    """A line that opens or closes a fence.  A line with a title only opens."""

    indent: int
    char: str
    length: int
    title: str


def read_fence(line: str) -> FenceLine | None:
    """Return the line as a fence line; None if it is not one."""
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
    """Return the tag and the title in a line: `<source>python` gives ("source", "python"), `</source>` ("/source",
    "")."""
    text = line.strip()
    if len(text) > 40 or not text.startswith("<"):
        return None
    name, sign, title = text[1:].partition(">")
    if not sign or name.removeprefix("/") not in FENCE_TAGS or not (title.isalnum() or not title):
        return None
    return None if title and name.startswith("/") else (name, title)


def is_around(line: str) -> bool:
    """Tell whether the line can stand around an edit without being part of it."""
    if not line.strip() or is_fence(line) or is_sentence(line):
        return True
    return fence_tag(line) is not None or named_path(line) is not None


def is_call(line: str) -> bool:
    """Tell whether the line only passes an edit to a program, or ends such a call (`apply_patch <<'EOF'`, `EOF`)."""
    return len(line) < MAX_LENGTH and (line.strip().startswith(CALLS) or line.strip() == "*** Begin Patch")


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced stretch.  `opening` and `closing` are its fence lines.  A fence without an end closes after the last
    line."""

    opening: int
    closing: int
    title: str
    path: str | None = None
    """The file that the words around the fence name."""
    is_surely_named: bool = False
    """Whether the path is the whole title or stands alone in its line, and is not part of a sentence."""

    @property
    def language(self) -> str:
        words = self.title.replace(":", " ").split()
        return words[0].lower() if words else ""

    @property
    def body(self) -> range:
        """The range of the lines inside."""
        return range(self.opening + 1, self.closing)


def find_fences(lines: Sequence[str], taken: Container[int] = ()) -> list[Fence]:
    """Return the outermost fences.  A fence line with a title opens an inner fence.  `taken` lines do not count as
    fences."""
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
    """Return the fence around a page of Markdown, if untitled fences inside seem to end it.  None in any other case."""
    if len(fences) < 2 or any(fence.title or fence.path for fence in fences[1:]):
        return None
    first, closing = fences[0], fences[-1].closing
    n_inside = closing - first.opening - 1
    is_whole = all(fence.closing < n_inside for fence in find_fences(lines[first.opening + 1 : closing]))
    is_page = first.language in PAGE_TITLES or (first.is_surely_named and not first.language)
    return replace(first, closing=closing) if is_whole and is_page else None
