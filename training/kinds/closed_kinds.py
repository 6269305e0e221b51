"""The kinds that rules are only checked on: who writes rules does not read them.  Each function makes one plan of a
file, or None where it finds nothing in it; its name is the kind's."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from itertools import pairwise

from training.kinds.plans import Op, Plan
from training.kinds.shape import (
    BRACES,
    CODE,
    HASHES,
    balanced,
    blocks,
    brackets_around,
    comment_line,
    definitions,
    first_filled,
    functions,
    indent,
    is_blank,
    is_closer,
    is_comment,
    is_near,
    is_statement,
    last_filled,
    margin,
    row_key,
    row_runs,
    statements,
    statements_of,
    step,
)
from training.kinds.sources import Source
from training.kinds.wording import identifiers, new_name, renamed, shuffled, varied

_ARM = re.compile(
    r"\s*(?:(?P<word>case|when|elif|elsif)\b(?P<label>.*)|(?P<text>[\w\"':.|() -]+?)(?P<arrow> (?:=>|->) ?.*|\)))$"
)


def case_arm_added(source: Source, rng: random.Random) -> Plan | None:
    """One more arm between two arms of the same shape."""
    lines = source.lines
    heads = [i for i, line in enumerate(lines) if _is_arm(source, line) and brackets_around(source)[i] in {"", "{"}]
    for first, second in shuffled(list(pairwise(heads)), rng):
        arm = lines[first:second]
        if second - first > 9 or indent(lines[first]) != indent(lines[second]) or any(map(is_blank, arm)):
            continue
        if any(indent(line) <= indent(lines[first]) and not is_closer(line) for line in arm[1:]):
            continue
        if source.language in BRACES and not balanced("\n".join(arm)):
            continue
        label = _other_label(source, lines[first], rng)
        if label is None:
            continue
        body = list(arm[1:])
        for i in shuffled(range(len(body)), rng):
            made = varied(source, body[i], rng) if is_statement(source, first + 1 + i) else None
            if made is not None:
                body[i] = made
                break
        return Plan((Op(second, second, (label, *body)),), frozenset({second - 1, second}))
    return None


def _is_arm(source: Source, line: str) -> bool:
    if source.language == "rust":
        return re.match(r"\s*[\w\"':(), |.]+ => .*$", line) is not None and "(" not in line.split("=>")[0]
    if source.language == "kotlin":
        return re.match(r"\s*[\w\"'.]+ -> .*$", line) is not None
    if source.language == "shell":
        return re.match(r"\s*[\w\"|-]+\)$", line) is not None
    if source.language in {
        "python",
        "ruby",
        "typescript",
        "javascript",
        "go",
        "java",
        "c",
        "cpp",
        "csharp",
        "php",
        "swift",
    }:
        return re.match(r"\s*(?:case\b.*:(?: *\{)?|when\b.*|elif\b.*:|elsif\b.*)$", line) is not None
    return False


def _other_label(source: Source, line: str, rng: random.Random) -> str | None:
    quoted = re.search(r"([\"'])([\w./ -]+)\1", line)
    if quoted is not None:
        end = quoted.end() - 1
        return line[:end] + rng.choice(("-v2", "_all", "2", "-extra")) + line[end:]
    if source.language == "shell":
        word = re.match(r"(\s*)([\w-]+)", line)
        return line.replace(word.group(2), word.group(2) + "-all", 1) if word else None
    number = re.search(r"(?<=case )\d+(?=:)", line)
    if number is not None:
        return line[: number.start()] + str(int(number.group()) + 100) + line[number.end() :]
    found = [
        one
        for one in re.findall(r"[A-Za-z_]\w{2,}", re.split(r"=>|->", line)[0])
        if one not in {"case", "when", "elif", "elsif", "let"}
    ]
    fresh = new_name(found[-1], rng, source.text) if found else None
    return renamed(line, found[-1], fresh) if fresh is not None else None


def section_added(source: Source, rng: random.Random) -> Plan | None:
    """A section, job, entry, target or rule of the same shape as its neighbours between two of them."""
    lines = source.lines
    heads = [i for i in range(len(lines)) if _section_name(source, i) is not None]
    for first in shuffled(heads, rng):
        name = _section_name(source, first)
        second = next((i for i in heads if i > first and indent(lines[i]) <= indent(lines[first])), None)
        if (
            name is None
            or second is None
            or not 2 <= second - first <= 14
            or indent(lines[second]) != indent(lines[first])
        ):
            continue
        if any(not is_blank(line) and indent(line) < indent(lines[first]) for line in lines[first:second]):
            continue
        fresh = new_name(name, rng, source.text)
        if fresh is None or any(
            is_comment(source, line) for line in lines[last_filled(source, second) or first : second]
        ):
            continue
        if any(_opens_other(source, line, lines[first]) for line in lines[first + 1 : second]):
            continue
        copied = [lines[first].replace(name, fresh, 1), *lines[first + 1 : second]]
        if copied[0] == lines[first] or not any(copied[1:]):
            continue
        for i in shuffled(range(1, len(copied)), rng):
            made = varied(source, copied[i], rng) if copied[i].strip() else None
            if made is not None:
                copied[i] = made
                break
        return Plan((Op(second, second, tuple(copied)),), frozenset({second}))
    return None


def _opens_other(source: Source, line: str, head: str) -> bool:
    """Whether a line inside a section begins something that is not part of it."""
    if source.language == "toml":
        return line.startswith("[")
    if source.language == "markdown":
        return line.startswith("#")
    return not is_blank(line) and indent(line) <= indent(head) and not is_closer(line)


def _section_name(source: Source, at: int) -> str | None:
    line = source.lines[at]
    if brackets_around(source)[at] == "text":
        return None
    pattern = {
        "toml": r"\[{1,2}(?:[\w\"-]+\.)*([\w-]{3,})\]",
        "yaml": r"\s*([\w-]{3,}):$",
        "json": r"\s*\"([\w-]{3,})\": [{\[]$",
        "css": r"\s*[.#]([\w-]{3,})(?: [^,]*)?\{$",
        "markdown": r"##+ (?:.* )?(\w{3,})$",
        "makefile": r"([\w-]{3,}):(?:\s.*)?$",
        "sql": r"(?i)create (?:table|view|index) (?:if not exists )?(?:\w+\.)?(\w{3,})\b.*\($",
    }.get(source.language)
    match = re.match(pattern, line) if pattern else None
    return match.group(1) if match else None


def between_equal_blocks(source: Source, rng: random.Random) -> Plan | None:
    """A statement between two stretches of the same lines in one function, whose header is shown."""
    lines = source.lines
    for one in shuffled(functions(source), rng):
        inside = set(statements(source, one))
        for n_lines in rng.sample((2, 3), 2):
            pairs = [
                (i, j)
                for i in range(one.body, one.close - 2 * n_lines)
                for j in range(i + n_lines, min(i + n_lines + 6, one.close - n_lines + 1))
                if lines[i : i + n_lines] == lines[j : j + n_lines] and not any(map(is_blank, lines[i : i + n_lines]))
            ]
            for i, _ in shuffled(pairs, rng):
                at = i + n_lines
                if at - 1 not in inside or is_closer(lines[at]) or not re.search(r"\w{3}", lines[at - 1]):
                    continue
                copied = [
                    k
                    for k in sorted(inside)
                    if k not in range(i, at + n_lines) and indent(lines[k]) == indent(lines[at - 1])
                ]
                new = varied(source, lines[rng.choice(copied)], rng) if copied else None
                if new is not None and not any(is_near(new, lines[k]) for k in (at - 1, at)):
                    return Plan((Op(at, at, (new,)),), header="must")
    return None


def else_branch_added(source: Source, rng: random.Random) -> Plan | None:
    """An `else` with one statement at the end of a condition."""
    lines = source.lines
    for block in shuffled(blocks(source, 1, len(lines) - 1), rng):
        inside = [i for i in range(block.start + 1, block.close) if is_statement(source, i)]
        if not inside or block.close - block.start > 7 or source.language == "go":
            continue
        new = varied(source, lines[inside[0]], rng)
        if (
            new is None
            or indent(new) <= indent(lines[block.start])
            or "{" in new
            or not is_statement(source, inside[0])
        ):
            continue
        pad = margin(lines[block.start])
        line = pad + step(source) + new.lstrip()
        shown = frozenset(range(block.start, block.close))
        if source.language == "python":
            return Plan((Op(block.end, block.end, (f"{pad}else:", line)),), shown)
        if source.language in BRACES:
            op = Op(block.close, block.end, (f"{pad}}} else {{", line, f"{pad}}}"), is_exact=True)
            return Plan((op,), shown)
        return Plan((Op(block.close, block.close, (f"{pad}else", line)),), shown | {block.close})
    return None


_IMPORT = re.compile(
    r"(?:from [\w.]+ import [\w, ]+"
    r"|import [\w.{}* ,]+(?: from .*)?;?|use [\w:]+(?:::\{.*\})?;|using [\w.]+;|use [\w\\]+;"
    r"|#include [<\"].*[>\"]|require [\"'].*[\"']|local \w+ = require.*|@import .*;|\t\"[\w./-]+\")$"
)


def import_added(source: Source, rng: random.Random) -> Plan | None:
    """An import put between two others of a group."""
    lines = source.lines
    found = [i for i, line in enumerate(lines) if _IMPORT.match(line)]
    places = [i for i in found if i - 1 in found and ("\t" not in lines[i] or source.language == "go")]
    for at in shuffled(places, rng):
        copied = lines[rng.choice((at - 1, at))]
        names = [
            one
            for one in re.findall(r"[A-Za-z]\w{3,}", copied)
            if one not in {"from", "import", "using", "include", "require", "local"}
        ]
        fresh = new_name(names[-1], rng, source.text) if names else None
        if fresh is not None and names[-1] not in {"vue", "node"}:
            head, _, tail = copied.rpartition(names[-1])
            return Plan((Op(at, at, (head + fresh + tail,)),))
    return None


def last_item_without_comma(source: Source, rng: random.Random) -> Plan | None:
    """A row after the last one of a list, which so far ended without a comma."""
    lines = source.lines
    for at in shuffled(range(1, len(lines) - 1), rng):
        line, above = lines[at], lines[at - 1]
        if not above.rstrip().endswith(",") or re.search(r"[,;{(\[:]\s*$", line) or indent(above) != indent(line):
            continue
        if (
            not re.match(r"\s*[}\])]", lines[at + 1])
            or brackets_around(source)[at] not in {"(", "[", "{"}
            or not balanced(line)
        ):
            continue
        if is_comment(source, line) or is_comment(source, above) or re.search(r"\s(?:#|//|--)|\.\.\.|\*", line + above):
            continue
        if not re.match(r"\s*(?:[\w\"'.:&$-]+)\s*", line) or (source.language in BRACES and ";" in line):
            continue
        key = row_key(line)
        name = re.search(r"\w{3,}", key or line)
        fresh = new_name(name.group(), rng, source.text) if name else None
        if name is None or fresh is None:
            continue
        new = line[: name.start()] + fresh + line[name.end() :] if key is None else line.replace(name.group(), fresh, 1)
        if new.strip() != line.strip() and "`" not in line:
            return Plan((Op(at, at + 1, (line.rstrip() + ",", new), is_exact=True),), frozenset({at - 1, at + 1}))
    return None


def deletion_note(source: Source, rng: random.Random) -> Plan | None:
    """A function or a statement gone; a remark says so in its place, and is not to be kept."""
    lines = source.lines
    found = [
        ("function", one.top, one.end, one.name) for one in functions(source) if one.top > 0 and one.end - one.top <= 30
    ]
    statement_lines = set(statements_of(source))
    found += [("line", i, i + 1, "") for i in sorted(statement_lines)]
    rng.shuffle(found)
    for what, start, end, name in sorted(found, key=lambda one: one[0], reverse=rng.random() < 0.5)[:40]:
        if what == "function":
            below, above = first_filled(source, end), last_filled(source, start)
            if below is None or above is None or below == end or above == start - 1 or is_closer(lines[below]):
                continue
            text = rng.choice(
                (f"removed: {name}", f"{name} removed", f"deleted {name}()", f"REMOVED: {name} is no longer needed")
            )
            note = (margin(lines[start]) + comment_line(source.language, text), *("",) * (below - end))
            return Plan((Op(start, below, note=note),))
        names = identifiers(lines[start])
        if not {start - 1, end} & statement_lines:
            continue
        if not names or is_blank(lines[start - 1]) or is_blank(lines[end] if end < len(lines) else ""):
            continue
        text = rng.choice((f"removed: {lines[start].strip()}", f"(removed {names[0]} here)", "line removed"))
        note = (margin(lines[start]) + comment_line(source.language, text),)
        return Plan((Op(start, end, note=note),), above=2, below=2)
    return None


def body_emptied(source: Source, rng: random.Random) -> Plan | None:
    """A body of which nothing is left."""
    lines = source.lines
    for one in shuffled(list(definitions(source)), rng):
        if one.close - one.body < 2 or one.close - one.body > 40 or one.end >= len(lines) or one.body != one.start + 1:
            continue
        if source.language == "python":
            if not is_blank(lines[one.end]) or re.match(r"\s*class", lines[one.start]) is not None:
                continue
            new: tuple[str, ...] = (margin(lines[one.body]) + rng.choice(("pass", "pass", "return None")),)
        else:
            new = ()
        is_brace = source.language in BRACES | {"css"}
        if is_brace and not lines[one.start].rstrip().endswith("{"):
            continue
        below = first_filled(source, one.end)
        if below is None:
            continue
        shown = frozenset({*range(one.start, one.body), *range(one.close, below + 1)})
        return Plan((Op(one.body, one.close, new, is_exact=True),), shown, above=1, below=1)
    return None


def list_emptied(source: Source, rng: random.Random) -> Plan | None:
    """A list or mapping of several lines that becomes an empty one."""
    lines = source.lines
    for at in shuffled(range(1, len(lines) - 3), rng):
        line = lines[at].rstrip()
        match = re.search(r"(?:= ?|: ?|return )([\[{])$", line)
        if (
            match is None
            or brackets_around(source)[at] == "text"
            or is_comment(source, line)
            or source.language == "css"
        ):
            continue
        if re.match(
            r"\s*(?:def|class|func|function|fn|if|for|while|else|export default|interface|type|struct|enum)\b",
            line,
        ):
            continue
        if source.language in {"rust", "go", "c", "cpp", "kotlin", "swift", "java", "csharp"} and match.group(1) == "{":
            continue
        end = next((i for i in range(at + 1, min(at + 20, len(lines))) if indent(lines[i]) <= indent(line)), None)
        if end is None or end - at < 3 or not re.fullmatch(r"\s*[\]}][,;]?", lines[end].rstrip()):
            continue
        if indent(lines[end]) != indent(line) or not balanced("\n".join(lines[at : end + 1])):
            continue
        if match.group(1) == "{" and re.search(r"\b(?:return|if|const)\b|;$", "\n".join(lines[at + 1 : end])):
            continue
        return Plan((Op(at, end + 1, (line + lines[end].strip(),)),))
    return None


def commented_out(source: Source, rng: random.Random) -> Plan | None:
    """Statements that become comments: they stay in the file."""
    lines = source.lines
    sign = {"lua": "-- "}.get(source.language, "# " if source.language in HASHES else "// ")
    found = statements_of(source) if source.language in CODE | HASHES else []
    for at in shuffled(found, rng):
        span = range(at, at + rng.choice((1, 1, 2, 3)))
        if not set(span).issubset(found) or any(indent(lines[i]) != indent(lines[at]) for i in span):
            continue
        if source.language == "python" and (at - 1 not in found and span.stop not in found):
            continue
        new = tuple(margin(lines[i]) + sign + lines[i].lstrip() for i in span)
        return Plan((Op(at, span.stop, new),))
    return None


def definition_renamed(source: Source, rng: random.Random) -> Plan | None:
    """A function or class under another name: the old name goes, a marker stands for the rest of the body."""
    lines = source.lines
    for one in shuffled(list(definitions(source)), rng):
        if source.language == "css" or one.close - one.body < 4 or is_blank(lines[one.body]) or one.start == 0:
            continue
        if len(re.findall(rf"\b{re.escape(one.name)}\b", source.text)) > 2 or one.name.startswith("__"):
            continue
        fresh = new_name(one.name, rng, source.text)
        new = tuple(renamed(line, one.name, fresh or "") for line in lines[one.start : one.body])
        if fresh is None or new == lines[one.start : one.body]:
            continue
        shown = frozenset({one.body, *([one.body + 1] if not is_blank(lines[one.body + 1]) else [])})
        return Plan((Op(one.start, one.body, new),), shown)
    return None


def key_renamed(source: Source, rng: random.Random) -> Plan | None:
    """A row whose key changes and whose value stays, between rows of the same shape."""
    lines = source.lines
    for run in shuffled(row_runs(source, at_least=3), rng):
        for at in shuffled(run[1:-1], rng):
            key = row_key(lines[at])
            name = re.search(r"\w[\w-]{2,}", key) if key else None
            fresh = new_name(name.group(), rng, source.text) if name else None
            if key is None or name is None or fresh is None or "." in key:
                continue
            new = margin(lines[at]) + key.replace(name.group(), fresh, 1) + lines[at].lstrip()[len(key) :]
            return Plan((Op(at, at + 1, (new,)),), header=rng.choice(("may", "must")))
    return None


def whole_function(source: Source, rng: random.Random) -> Plan | None:
    """A whole function shown, with one line of it different and nothing around it."""
    lines = source.lines
    for one in shuffled(functions(source), rng):
        inside = statements(source, one)
        if not 5 <= one.end - one.start <= 45 or not inside:
            continue
        at = rng.choice(inside)
        repeated = [i for i in inside if lines.count(lines[i]) > 1]
        at = rng.choice(repeated) if repeated else at
        new = varied(source, lines[at], rng)
        if new is not None:
            shown = frozenset(range(one.start, one.end)) - {at}
            return Plan((Op(at, at + 1, (new,)),), shown, above=0, below=0, header=rng.choice(("may", "never")))
    return None


def name_changed_throughout(source: Source, rng: random.Random) -> Plan | None:
    """A local name changed wherever a function has it; the function is shown whole."""
    lines = source.lines
    for one in shuffled(functions(source), rng):
        if not 5 <= one.end - one.start <= 40:
            continue
        span = range(one.body, one.close)
        assigned = [
            re.match(
                r"\s*(?:let |const |var |val |auto |final |local |my |mut |int )*([a-z_]\w{2,})(?::[^=]+)? :?= ",
                lines[i],
            )
            for i in span
        ]
        names = [match.group(1) for match in assigned if match is not None]
        for name in shuffled(list(dict.fromkeys(names)), rng):
            fresh = new_name(name, rng, source.text)
            texts = "\n".join(lines[one.start : one.end])
            if fresh is None or re.search(
                rf"[.\"'`>/-]{name}\b|\b{name}[\"'`:]|#.*\b{name}\b|\b{name}=[^=]|//.*\b{name}\b", texts
            ):
                continue
            changed = [i for i in span if re.search(rf"\b{name}\b", lines[i])]
            if 3 <= len(changed) <= 10:
                ops = tuple(Op(i, i + 1, (renamed(lines[i], name, fresh),), is_exact=True) for i in changed)
                shown = frozenset(range(one.start, one.end)) - set(changed)
                return Plan(ops, shown, above=0, below=0, header="may")
    return None


def first_line_changed(source: Source, rng: random.Random) -> Plan | None:
    """The first line of a file changed, or one put above it; nothing stands above."""
    lines = source.lines
    if is_blank(lines[0]) or is_blank(lines[1]) or source.language == "json" or brackets_around(source)[1] == "text":
        return None
    if rng.random() < 0.5:
        new = varied(source, lines[0], rng)
        return Plan((Op(0, 1, (new,)),), frozenset({1}), above=0) if new is not None else None
    if source.language not in CODE or lines[0].startswith(("#!", "<?", " ", "\t")):
        return None
    text = rng.choice(
        ("Keep this file in step with the documentation.", "Loaded at start.", "Internal: no stable interface.")
    )
    return Plan((Op(0, 0, (comment_line(source.language, text),)),), frozenset({0}), above=0)


def last_line_changed(source: Source, rng: random.Random) -> Plan | None:
    """The last line of a file changed, or a row or statement put below it; nothing stands below."""
    lines = source.lines
    last = len(lines) - 1
    if is_closer(lines[last]) or is_blank(lines[last - 1]) or brackets_around(source)[last] == "text":
        return None
    new = varied(source, lines[last], rng)
    if new is None:
        return None
    is_changed = rng.random() < 0.5
    if not is_changed and not (
        is_statement(source, last) or row_key(lines[last]) or lines[last].startswith(("- ", "* "))
    ):
        return None
    if not is_changed:
        name = re.search(r"(?!assert|echo|SELECT|INSERT)[A-Za-z]\w{3,}", lines[last])
        fresh = new_name(name.group(), rng, source.text) if name else None
        if name is None or fresh is None or lines[last].rstrip().endswith((",", ":", "{", "(")):
            return None
        new = lines[last][: name.start()] + fresh + lines[last][name.end() :]
        return Plan((Op(last + 1, last + 1, (new,)),), frozenset({last}), below=0)
    return Plan((Op(last, last + 1, (new,)),), frozenset({last - 1}), below=0)


_TAILS = (" (see above)", " (since 2.0)", " (not thread-safe)", " (for now)")
_REMARKS = (
    "Kept for older callers.",
    "Not safe to call twice.",
    "See the notes on ordering.",
    "Callers hold the lock.",
)


def comment_above_changed(source: Source, rng: random.Random) -> Plan | None:
    """A comment, doc comment or docstring of a definition changed, and nothing else."""
    lines = source.lines
    for one in shuffled(list(definitions(source)), rng):
        span = [i for i in range(one.top, one.start) if is_comment(source, lines[i])]
        if source.language == "python":
            quoted = re.fullmatch(r"(\s*)(\"{3})(.+)\.?(\"{3})", lines[one.body])
            if quoted is not None:
                new = f'{quoted.group(1)}"""{quoted.group(3).rstrip(".")}, or nothing."""'
                shown = frozenset(range(one.start, one.body))
                return Plan((Op(one.body, one.body + 1, (new,)),), shown)
        for at in shuffled(span, rng):
            match = re.match(r"\s*(?://[/!]?|#|\*|--+) (?=[A-Z`a-z])(?!@)", lines[at])
            if match is None or re.search(r"(?:eslint|noqa|ts-|type:|\*/|pragma|@)", lines[at]):
                continue
            text = lines[at][match.end() :]
            is_alone = text.endswith(".") and len(span) == 1
            new = match.group() + (
                rng.choice(_REMARKS) if is_alone and rng.random() < 0.4 else text + rng.choice(_TAILS)
            )
            shown = frozenset({*range(at + 1, one.body)})
            if len(shown) < 14:
                return Plan((Op(at, at + 1, (new,)),), shown)
    return None


def neighbours_swapped(source: Source, rng: random.Random) -> Plan | None:
    """Two functions that change places, both shown whole."""
    lines = source.lines
    found = functions(source)
    for first in shuffled(found, rng):
        second = next((one for one in found if one.top == first_filled(source, first.end)), None)
        if second is None or second.top == first.end or first.top == 0 or second.end >= len(lines):
            continue
        if not (first.end - first.top <= 18 and second.end - second.top <= 18):
            continue
        gap = ("",) * (second.top - first.end)
        moved = (*lines[second.top : second.end], *gap)
        below = first_filled(source, second.end)
        if below is None or lines[first.end : second.top] != gap:
            continue
        ops = (Op(first.top, first.top, moved), Op(first.end, second.end))
        return Plan(ops, frozenset(range(first.top, first.end)))
    return None


def bare_closer_ambiguous(source: Source, rng: random.Random) -> Plan | None:
    """A statement before a closing line that the file has several times, without a header."""
    lines = source.lines
    found: dict[str, list[int]] = {}
    for one in functions(source):
        if one.is_closed and is_statement(source, one.close - 1):
            found.setdefault(lines[one.close], []).append(one.close)
    for places in shuffled([places for places in found.values() if 2 <= len(places) <= 8], rng):
        at = rng.choice(places)
        inside = [i for i in statements_of(source) if indent(lines[i]) == indent(lines[at - 1]) and "(" in lines[i]]
        new = varied(source, lines[rng.choice(inside)], rng) if inside else None
        if new is None or len({indent(lines[place - 1]) for place in places}) > 1:
            continue
        if not any(is_near(new, lines[place - 1]) for place in places):
            return Plan(
                (Op(at, at, (new,)),), frozenset({at}), above=0, below=0, header="never", places=tuple(sorted(places))
            )
    return None


def twin_insertion_ambiguous(source: Source, rng: random.Random) -> Plan | None:
    """A line between two lines that stand together in several places."""
    lines = source.lines
    inside = set(statements_of(source))
    where: dict[tuple[str, str], list[int]] = {}
    for at in sorted(inside):
        if at - 1 in inside and lines[at] != lines[at - 1]:
            where.setdefault((lines[at - 1], lines[at]), []).append(at)
    for places in shuffled([places for places in where.values() if 2 <= len(places) <= 6], rng):
        at = rng.choice(places)
        copied = [
            i for i in inside if indent(lines[i]) == indent(lines[at]) and lines[i] not in (lines[at], lines[at - 1])
        ]
        new = varied(source, lines[rng.choice(sorted(copied))], rng) if copied else None
        if new is not None and not any(is_near(new, lines[i]) for i in (at - 1, at)):
            shown = frozenset({at - 1, at})
            return Plan((Op(at, at, (new,)),), shown, above=0, below=0, header="never", places=tuple(places))
    return None


KINDS: tuple[Callable[[Source, random.Random], Plan | None], ...] = (
    case_arm_added,
    section_added,
    between_equal_blocks,
    else_branch_added,
    import_added,
    last_item_without_comma,
    deletion_note,
    body_emptied,
    list_emptied,
    commented_out,
    definition_renamed,
    key_renamed,
    whole_function,
    name_changed_throughout,
    first_line_changed,
    last_line_changed,
    comment_above_changed,
    neighbours_swapped,
    bare_closer_ambiguous,
    twin_insertion_ambiguous,
)
