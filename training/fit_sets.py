"""`python -m training.fit_sets --data DIR --out DIR`: the sets that the chooser of readings is fitted to.

From the folder of public sets (see `docs/evaluation.md`) and three files of this folder: snippets that were written by
hand for edits of these sets, edits of their files as a developer asks for them, and small edits.  Writes

- `hand.jsonl`: snippets written by hand, those of the `fit` split and ours;
- `careless.jsonl`: those of them that quote lines wrongly on purpose, rarer in real replies;
- `asked.jsonl`: everyday requests for files of these sets, with the answer as a chat model gives it, in no given style;
- `fit_sketch.jsonl`: the same edits of the `fit` split, sketched by a program;
- `tried.jsonl`: small edits as people try the service with, their wanted files written by hand, and cases of our tests;
- `kinds.jsonl`: edits of real files on which lines get lost, doubled or misplaced unseen, made by a program;
- `window_sketch.jsonl`: windows of other repositories, sketched in clean and in careless styles.

Same input, same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from apply_eval.sketch import draw_sketch
from training.kinds.__main__ import make_records
from training.kinds.sources import read_data

WRITTEN, ASKED, TRIED = "written_snippets.jsonl.xz", "asked_edits.jsonl.xz", "tried_edits.jsonl.xz"
CARELESS = "misquoted_context"
FIELDS = ("id", "repo", "path", "language", "subject", "before", "after")
SEED = 7
N_KINDS = 1600
"""Edits made of the kinds that careless merging gets wrong."""
A_REPOSITORY = 12
"""Windows sketched of one repository."""
TRIES = 4
"""Styles tried for one window."""
CLEAN = 0.4
"""Share of sketches in a clean style."""

Row = Mapping[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m training.fit_sets", description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the public sets")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    options = parser.parse_args(arguments)
    fit = [row for row in read(options.data / "model_written_fit.jsonl.xz") if row["split"] == "fit"]
    windows = read(options.data / "train_windows.jsonl.xz")
    written = join(read_own(WRITTEN), [*read(options.data / "real_edits_fit.jsonl.xz"), *windows])
    by_hand = [row_of(row, row["update"], row["style"]) for row in [*fit, *written] if keeps_end(row)]
    sets = {
        "hand": [row for row in by_hand if row["style"] != CARELESS],
        "careless": [row for row in by_hand if row["style"] == CARELESS],
        "asked": carry_out(read_own(ASKED), windows),
        "fit_sketch": [row_of(row, row["sketch"], "sketched") for row in fit],
        "tried": read_own(TRIED),
        "kinds": make_kinds(options.data / "train_windows.jsonl.xz"),
        "window_sketch": sketch_windows(windows, {row["id"].split("#")[0] for row in written}),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    for name, rows in sets.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (options.out / f"{name}.jsonl").write_text(text, encoding="utf-8")
        print(f"{name}.jsonl: {len(rows)} edits")
    return 0


def read(path: Path) -> list[dict[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        return [json.loads(line) for line in lines]


def read_own(name: str) -> list[dict[str, Any]]:
    """The rows of a file of this folder."""
    with resources.as_file(resources.files("training") / name) as path:
        return read(path)


def edit_id(row: Row) -> str:
    """The row's own id, or one for a window: that of its texts."""
    if "id" in row:
        return str(row["id"])
    return "window-" + hashlib.sha256(f"{row['before']}\0{row['after']}".encode()).hexdigest()[:16]


def row_of(row: Row, update: str, style: str) -> dict[str, Any]:
    return {**{name: row.get(name, "") for name in FIELDS}, "update": update, "style": style}


def keeps_end(row: Row) -> bool:
    """Whether the edit leaves the blank lines and the line end at the file's end alone: no snippet tells of these."""
    before, after = str(row["before"]), str(row["after"])
    return before[len(before.rstrip()) :] == after[len(after.rstrip()) :]


def join(written: Iterable[Row], edits: Iterable[Row]) -> list[dict[str, Any]]:
    """The edits that snippets were written for, with these; a number makes the ids of several snippets differ.  Raises
    KeyError: a snippet is for an edit that is not there."""
    known = {edit_id(row): row for row in edits}
    return [{**known[snippet["id"]], **snippet, "id": f"{snippet['id']}#{n}"} for n, snippet in enumerate(written)]


def carry_out(asked: Iterable[Row], edits: Iterable[Row]) -> list[dict[str, Any]]:
    """The requests for files of `edits`, with the files that they want: `changes` has the lines [start, stop) of the
    file that go, and the text that comes.  Raises KeyError: a request is for a file that is not there."""
    known = {edit_id(row): row for row in edits}
    found = []
    for n, request in enumerate(asked):
        row = known[request["id"]]
        lines = row["before"].splitlines(keepends=True)
        for start, stop, text in reversed(request["changes"]):
            lines[start:stop] = [text]
        found.append(
            row_of({**row, "id": f"{request['id']}#asked{n}", "after": "".join(lines)}, request["update"], "asked")
        )
    return found


def make_kinds(path: Path) -> list[dict[str, Any]]:
    """Edits of the kinds that may be fitted to."""
    return list(make_records(list(read_data(path)), splits=("fit",), n_edits=N_KINDS, seed=SEED))


def sketch_windows(windows: Sequence[Row], used: set[str]) -> list[dict[str, Any]]:
    """Sketches of windows that nobody wrote a snippet for."""
    rng = random.Random(SEED)
    shuffled = list(windows)
    rng.shuffle(shuffled)
    drawn: Counter[str] = Counter()
    found = []
    for row in shuffled:
        name = edit_id(row)
        if drawn[row["repo"]] >= A_REPOSITORY or name in used or "\r" in row["before"] or not keeps_end(row):
            continue
        made = draw_sketch(
            row["before"], row["after"], language=row["language"], path=row["path"], clean=CLEAN, rng=rng, tries=TRIES
        )
        if made is not None:
            drawn[row["repo"]] += 1
            found.append(row_of({**row, "id": f"sketch-{name}"}, made.update, "sketched"))
    return found


if __name__ == "__main__":
    raise SystemExit(main())
