"""The edits that are compared: those that the chooser was fitted to, and drawn ones in every format.

Drawn edits change files of the standard library, of the installed packages and of the fit sets.  They are written in
every format by the fuzzer's writers, as lazy snippets by the sketcher, as calls of tools, as chat replies with several
edits and as patches over several files; half of them are then damaged.  Same seed and files, same inputs; what the
files are does not matter, as both trees get the same inputs.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from apply_eval.line_diff import diff_lines
from apply_eval.sketch import draw_sketch
from apply_service.syntax.languages import detect_language
from tests.fuzz.edits import WRITERS, Ambiguous, Change, Draft, draw_changes
from tests.fuzz.files import draw_file, read_lines
from training.fit_sets import ASKED, TRIED, WRITTEN, carry_out, edit_id, join, make_kinds, read, read_own

SEED = 11
N_DRAWN = 3000
MAX_LINES = 400
"""Of a drawn file: a longer one takes seconds, and has no other kinds of edits."""
FROM_SETS = 0.3
"""Share of drawn edits that are changes of fit edits; others are drawn changes of files that this machine has."""
OWN = Path(__file__).parents[2] / "eval" / "apply_eval" / "fixtures" / "own_edits.jsonl"
UPDATES = ("update", "search_replace", "unified_diff")
"""Fields of a row with its edit."""
WINDOWS, EDITS, FIT = "train_windows.jsonl.xz", "real_edits_fit.jsonl.xz", "model_written_fit.jsonl.xz"
TOOLS = ("str_replace", "edit_file", "apply_patch", "write_file")

Input = dict[str, Any]
Row = Mapping[str, Any]


# -- the fit sets ------------------------------------------------------------------------------------------------------
def read_rows(data: Path | None) -> dict[str, list[Row]]:
    """The fit edits by set: the committed ones, and of the folder of public sets what is there."""
    own = [json.loads(line) for line in OWN.read_text(encoding="utf-8").splitlines()]
    sets: dict[str, list[Row]] = {"tried": list(read_own(TRIED)), "own": own}
    if data is None or not data.is_dir():
        return sets
    windows, edits, fit = (read(data / name) if (data / name).is_file() else [] for name in (WINDOWS, EDITS, FIT))
    sets["fit"] = [row for row in fit if row["split"] == "fit"]
    sets["sketch"] = [{**row, "update": row["sketch"]} for row in sets["fit"]]
    sets["real"] = list(edits)
    known = {edit_id(row) for row in (*edits, *windows)}
    sets["written"] = list(join([row for row in read_own(WRITTEN) if row["id"] in known], [*edits, *windows]))
    sets["asked"] = list(carry_out([row for row in read_own(ASKED) if row["id"] in known], windows))
    sets["kinds"] = list(make_kinds(data / WINDOWS)) if windows else []
    return sets


def fit_inputs(sets: Mapping[str, Sequence[Row]]) -> Iterator[Input]:
    for name, rows in sets.items():
        for n, row in enumerate(rows):
            about = {"path": row["path"]} if row["path"] else {"language": row["language"] or None}
            for field in UPDATES:
                if row.get(field):
                    request = {"original": row["before"], "update": row[field], **about}
                    yield {"id": f"{name}/{n}-{field}-{row['id']}".replace(" ", "_"), "request": request}


# -- drawn edits -------------------------------------------------------------------------------------------------------
def draw_draft(rng: random.Random, rows: Sequence[Row]) -> Draft:
    """A real change of a fit edit, or a drawn change of another file.  Raises Ambiguous: there is none."""
    if rng.random() < FROM_SETS:
        row = rng.choice(rows)
        before, after = (
            str(row[name]).replace("\r", "").removesuffix("\n").split("\n") for name in ("before", "after")
        )
        hunks = diff_lines(before, after)
        changes = tuple(Change(hunk.a0, hunk.a1, tuple(after[hunk.b0 : hunk.b1])) for hunk in hunks)
        draft = Draft(before, changes, rng.random() < 0.9, row["path"] or "src/a.py")
    else:
        file = draw_file(rng)
        lines, others = read_lines(file), read_lines(draw_file(rng))
        if lines is None or others is None:
            raise Ambiguous("no text")
        lines, has_newline = lines[:MAX_LINES], rng.random() < 0.9
        draft = Draft(lines, draw_changes(rng, lines, others, has_newline=has_newline), has_newline, f"src/{file.name}")
    if not draft.changes or len(draft.lines) > MAX_LINES or not "".join(draft.lines).strip():
        raise Ambiguous("no change, or too long")
    return draft


def text_of(draft: Draft, lines: Sequence[str]) -> str:
    return "\n".join(lines) + ("\n" if draft.has_newline and lines else "")


def write_sketch(rng: random.Random, draft: Draft) -> str:
    before, after = text_of(draft, draft.lines), text_of(draft, draft.result)
    language = detect_language(name=None, path=draft.path)
    made = draw_sketch(before, after, language=language, path=draft.path, clean=0.4, rng=rng, tries=3)
    if made is None:
        raise Ambiguous("no sketch")
    return made.update


def write_call(rng: random.Random, draft: Draft) -> str:
    """The call of a tool, its arguments as an object or as JSON in a string."""
    name = rng.choice(TOOLS)
    arguments: dict[str, Any] = {"path": draft.path}
    change = draft.changes[0]
    if name == "str_replace":
        start, stop = max(0, change.start - 2), change.stop + 2
        shown = [*draft.lines[start : change.start], *change.new, *draft.lines[change.stop : stop]]
        arguments |= {"old_str": "\n".join(draft.lines[start:stop]), "new_str": "\n".join(shown)}
    elif name == "edit_file":
        arguments |= {"instructions": "change it", "code_edit": write_sketch(rng, draft)}
    elif name == "apply_patch":
        arguments = {"input": WRITERS["v4a_patch"](rng, draft)[0]}
    else:
        arguments |= {"content": text_of(draft, draft.result)}
    inner: object = json.dumps(arguments) if rng.random() < 0.4 else arguments
    return json.dumps({"name": name, rng.choice(("arguments", "input", "parameters")): inner})


def write_chat(rng: random.Random, draft: Draft) -> str:
    """A reply with prose and each change in a fence of its own, in another format."""
    parts = ["I made these changes.\n"]
    for change in draft.changes:
        one = Draft(draft.lines, (change,), draft.has_newline, draft.path)
        kind = rng.choice((*WRITERS, "sketch"))
        text = write_sketch(rng, one) if kind == "sketch" else WRITERS[kind](rng, one)[0]
        text = text.rstrip("\n")
        parts.append(rng.choice(("First", f"In `{draft.path}`", "Then")) + ":\n")
        parts.append(text if "```" in text else f"```{rng.choice(('', 'python', 'diff'))}\n{text}\n```\n")
    return "\n".join([*parts, "Run the tests to be sure.\n"])


def draw_edit(rng: random.Random, kind: str, rows: Sequence[Row]) -> Input:
    """An input without an id.  Raises Ambiguous: draw again."""
    if kind == "patch":
        return draw_patch(rng, rows)
    draft = draw_draft(rng, rows)
    written = {"sketch": write_sketch, "tool_call": write_call, "chat": write_chat, "instruction": write_sketch}
    update = written[kind](rng, draft) if kind in written else WRITERS[kind](rng, draft)[0]
    request: Input = {"original": text_of(draft, draft.lines), "update": update, "path": draft.path}
    if kind == "instruction":
        line = next((line.strip() for line in draft.lines[draft.changes[0].start :] if line.strip()), "the end")
        request["instruction"] = rng.choice(("Put it after `{}`.", "Replace `{}`.", "Insert before {}")).format(line)
        request["update"] = rng.choice((update, update, "\n".join(draft.changes[0].new), ""))
    elif kind in WRITERS and rng.random() < 0.2:
        request["format"] = rng.choice((kind, kind, *WRITERS))
    return {"request": request}


def draw_patch(rng: random.Random, rows: Sequence[Row]) -> Input:
    """A patch or reply over two to four files, with one made, deleted or renamed now and then."""
    drafts = {draft.path: draft for draft in (draw_draft(rng, rows) for _ in range(rng.randrange(2, 5)))}
    kind = rng.choice(("unified_diff", "v4a_patch", "search_replace", "chat"))
    parts, files = [], [[path, text_of(draft, draft.lines)] for path, draft in drafts.items()]
    for path, draft in drafts.items():
        text = write_sketch(rng, draft) if kind == "chat" else WRITERS[kind](random.Random(3), draft)[0]
        if kind in ("search_replace", "chat"):
            text = f"{path}\n{text}" if text.startswith("```") else f"{path}\n```\n{text}```\n"
        parts.append(
            text.replace("*** Begin Patch\n", "").replace("*** End Patch\n", "") if kind == "v4a_patch" else text
        )
    first = files[0][0]
    extra = rng.choice(("", "", "create", "delete", "rename"))
    if kind == "unified_diff" and extra:
        parts += {
            "create": ["--- /dev/null\n+++ b/new.py\n@@ -0,0 +1,2 @@\n+a = 1\n+b = 2\n"],
            "delete": ["--- a/old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-a = 1\n"],
            "rename": ["diff --git a/old.py b/moved.py\nrename from old.py\nrename to moved.py\n"],
        }[extra]
        files.append(["old.py", "a = 1\n"])
    elif kind == "v4a_patch" and extra:
        parts.append(
            {"create": "*** Add File: new.py\n+a = 1\n", "delete": f"*** Delete File: {first}\n"}.get(extra, "")
        )
    text = "".join(parts)
    patch = f"*** Begin Patch\n{text}*** End Patch\n" if kind == "v4a_patch" else text
    return {"patch": patch, "files": files}


# -- damage ------------------------------------------------------------------------------------------------------------
def _reindented(rng: random.Random, text: str) -> str:
    if rng.random() < 0.5:
        return "\n".join("    " + line if line.strip() else line for line in text.split("\n"))
    return "\n".join(line.removeprefix("    ").removeprefix("\t") for line in text.split("\n"))


DAMAGE: Mapping[str, Callable[[random.Random, str], str]] = {
    "truncated": lambda rng, text: text[: rng.randrange(len(text) // 3, len(text) + 1)],
    "reindented": _reindented,
    "crlf": lambda _, text: text.replace("\n", "\r\n"),
    "tabs": lambda _, text: text.replace("    ", "\t"),
    "no_newline": lambda _, text: text.rstrip("\n"),
    "unicode": lambda rng, text: text.replace(*rng.choice((("e", "é"), (" ", "\u00a0"), ('"', "”"), ("\n", "\u2028")))),
    "doubled": lambda _, text: text + "\n" + text,
    "shuffled": lambda rng, text: "\n".join(sorted(text.split("\n"), key=lambda _: rng.random())),
    "lost_lines": lambda rng, text: "\n".join(line for line in text.split("\n") if rng.random() > 0.1),
}
SUFFIXES = (".py", ".ts", ".md", ".yaml", ".c", ".go", ".txt", "")


def damage(rng: random.Random, given: Input) -> tuple[str, Input]:
    """The input with its edit, its file or both damaged, or the file taken for another language; and how."""
    kind = rng.choice((*DAMAGE, "language"))
    if "patch" in given:
        kind = rng.choice(tuple(DAMAGE)) if kind == "language" else kind
        return kind, {**given, "patch": DAMAGE[kind](rng, given["patch"])}
    request = given["request"]
    if kind == "language":
        path = request["path"].rpartition(".")[0] + rng.choice(SUFFIXES)
        return kind, {"request": {**request, "path": path}}
    names = rng.choice((("update",), ("original",), ("update", "original")))
    if kind in ("truncated", "shuffled", "doubled", "lost_lines"):
        names = ("update",)
    return f"{kind}-{'-'.join(names)}", {"request": {**request, **{n: DAMAGE[kind](rng, request[n]) for n in names}}}


# -- all ---------------------------------------------------------------------------------------------------------------
KINDS = (*WRITERS, "sketch", "sketch", "tool_call", "chat", "instruction", "patch")


def drawn_inputs(rows: Sequence[Row], n_drawn: int, seed: int = SEED) -> Iterator[Input]:
    """Drawn inputs, each kind as often; every second one is damaged."""
    for number in range(n_drawn):
        rng, kind = random.Random(f"{seed}:{number}"), KINDS[number % len(KINDS)]
        while True:
            try:
                given = draw_edit(rng, kind, rows)
                break
            except Ambiguous:
                continue
        how, given = damage(rng, given) if number // len(KINDS) % 2 else ("", given)
        yield {"id": f"{kind}/{number}" + (f"-{how}" if how else ""), **given}


def all_inputs(data: Path | None, n_drawn: int = N_DRAWN) -> Iterable[Input]:
    sets = read_rows(data)
    rows = [*sets["tried"], *sets["own"], *sets.get("real", ())]
    yield from fit_inputs(sets)
    yield from drawn_inputs(rows, n_drawn)
