"""`make same`: every answer of the merge code, compared with that of an earlier commit.

    python -m tests.same --against COMMIT --accept allowed.txt

For restructuring `apply_service/edits` byte for byte.  Both trees read the same inputs (`inputs`) in processes of their
own (`probe`), the commit in a temporary worktree; its hashes stay in `runs/same/COMMIT.json` for the next time.  Prints
how many inputs differ in which aspect, and of the first ones where; exits with 1 if there are any but those of
`--accept`, a file with an input's id and the reason on each line.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.same import probe
from tests.same.inputs import N_DRAWN, all_inputs
from tests.same.probe import ASPECTS, canonical

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "runs" / "same"
N_SHOWN = 20
WIDTH = 100
"""Characters shown of a value."""
AROUND = 30
"""Of these, how many stand before the first character that differs."""

Hashes = dict[str, dict[str, str]]
"""Of each input, of each aspect."""


class SameError(Exception):
    """The comparison can't be made."""


# -- trees -------------------------------------------------------------------------------------------------------------
def git(*arguments: str, root: Path = ROOT) -> str:
    """What git says.  Raises SameError: it failed."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise SameError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


@contextmanager
def tree_at(commit: str, root: Path = ROOT) -> Iterator[Path]:
    """A worktree of the commit, for a while."""
    with TemporaryDirectory(prefix="same-") as folder:
        tree = Path(folder) / "tree"
        git("worktree", "add", "--quiet", "--detach", str(tree), commit, root=root)
        try:
            yield tree
        finally:
            git("worktree", "remove", "--force", str(tree), root=root)


def run_probe(tree: Path, lines: Sequence[str], n_processes: int, *, with_values: bool = False) -> dict[str, Any]:
    """Each input's hashes, or its values, as the package of `tree` has them.  `lines`: inputs as JSON.  Raises
    SameError: a process failed."""
    paths = os.pathsep.join([str(tree), str(tree / "eval")])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    command = [sys.executable, "-P", str(Path(probe.__file__).resolve())]
    with TemporaryDirectory(prefix="same-") as folder:
        running, outs = [], []
        for n in range(n_processes):
            inputs, out = Path(folder) / f"inputs{n}", Path(folder) / f"out{n}"
            inputs.write_text("".join(line + "\n" for line in lines[n::n_processes]), encoding="utf-8")
            options = ["--tree", str(tree), *(["--values"] if with_values else [])]
            running.append(subprocess.Popen([*command, str(inputs), str(out), *options], cwd=folder, env=environment))
            outs.append(out)
        codes = [process.wait() for process in running]
        if any(codes):
            raise SameError(f"the package of {tree} could not be run; see above")
        return dict(json.loads(line) for out in outs for line in out.read_text(encoding="utf-8").splitlines())


def hashes_at(commit: str, lines: Sequence[str], n_processes: int, runs: Path = RUNS) -> Hashes:
    """The commit's hashes: those that were kept if they are of the same inputs and probe, else made and kept."""
    script = Path(probe.__file__).read_text(encoding="utf-8")
    key = blake2b("\n".join([sys.version, script, *lines]).encode(), digest_size=16).hexdigest()
    file = runs / f"{commit}.json"
    if file.is_file():
        kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if kept["key"] == key:
            found: Hashes = kept["hashes"]
            return found
    with tree_at(commit) as tree:
        found = run_probe(tree, lines, n_processes)
    runs.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"key": key, "hashes": found}), encoding="utf-8")
    return found


# -- differences -------------------------------------------------------------------------------------------------------
def compare(old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """The inputs that differ, in order, with the aspects that do."""
    differing = {name: [aspect for aspect in ASPECTS if old[name][aspect] != new[name][aspect]] for name in old}
    return {name: aspects for name, aspects in differing.items() if aspects}


def first_difference(old: object, new: object, place: str = "") -> tuple[str, object, object]:
    """Where two JSON values first differ, as `.readings[2].name`, and what each has there."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            if name not in old or name not in new or old[name] != new[name]:
                return first_difference(old.get(name), new.get(name), f"{place}.{name}")
    if isinstance(old, list) and isinstance(new, list):
        for n, (a, b) in enumerate(zip(old, new, strict=False)):
            if a != b:
                return first_difference(a, b, f"{place}[{n}]")
        return f"{place} (length)", len(old), len(new)
    return place, old, new


def show(old: object, new: object) -> tuple[str, str]:
    """Both values shortly, around the first character that differs."""
    a, b = canonical(old), canonical(new)
    at = next((n for n, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]), min(len(a), len(b)))
    start = max(0, at - AROUND) if max(len(a), len(b)) > WIDTH else 0
    told = [("..." if start else "") + text[start : start + WIDTH] for text in (a, b)]
    return told[0], told[1]


def tell(name: str, aspects: Sequence[str], old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Lines on one input: of each aspect that differs, where, and both values."""
    lines = [f"{name}: {', '.join(aspects)}"]
    for aspect in aspects:
        place, before, after = first_difference(old[aspect], new[aspect])
        if before == after:
            lines.append(f"  {aspect}: not the same when run again, so it does not follow from the input alone")
            continue
        shown = show(before, after)
        lines += [f"  {aspect}{place}", f"    old {shown[0]}", f"    new {shown[1]}"]
    return lines


def read_accepted(path: Path | None) -> dict[str, str]:
    """The reason for each input that may differ.  Raises SameError: a line has no reason."""
    found: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path is not None else ():
        if not line.strip() or line.startswith("#"):
            continue
        name, _, reason = line.strip().partition(" ")
        if not reason.strip():
            raise SameError(f"{name} has no reason: write it behind the id")
        found[name] = reason.strip()
    return found


def report(differing: Mapping[str, Sequence[str]], n_inputs: int, accepted: Mapping[str, str]) -> list[str]:
    """How many were compared, and how many differ in each aspect."""
    counts = Counter(aspect for name, aspects in differing.items() if name not in accepted for aspect in aspects)
    n_differing = len(differing.keys() - accepted.keys())
    lines = [f"{n_inputs} inputs compared, {n_differing} differ"]
    lines += [f"  {aspect:12} {counts[aspect]}" for aspect in ASPECTS]
    if known := differing.keys() & accepted.keys():
        lines.append(f"{len(known)} more differ, which is accepted")
    if unneeded := sorted(accepted.keys() - differing.keys()):
        lines.append(f"accepted, but the same: {', '.join(unneeded[:N_SHOWN])}")
    return lines


# -- the command -------------------------------------------------------------------------------------------------------
def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.same", description=__doc__.split("\n\n")[0])
    parser.add_argument("--against", default="HEAD", metavar="COMMIT", help="to compare with (default: the last one)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the public sets, used where it is there")
    parser.add_argument("--drawn", type=int, default=N_DRAWN, metavar="N", help=f"drawn inputs (default: {N_DRAWN})")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth input, for a first look")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="of each tree (default: 2)")
    parser.add_argument("--accept", type=Path, metavar="FILE", help="lines with an id and why it may differ")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options, began = parse_options(arguments), time.monotonic()
    try:
        accepted = read_accepted(options.accept)
        commit = git("rev-parse", "--verify", f"{options.against}^{{commit}}")
        inputs = [json.dumps(given) for given in all_inputs(options.data, options.drawn)][:: options.every]
        names = [json.loads(line)["id"] for line in inputs]
        print(f"{len(inputs)} inputs, against {commit[:12]}", flush=True)
        old = hashes_at(commit, inputs, options.processes)
        new = run_probe(ROOT, inputs, options.processes)
        differing = compare({name: old[name] for name in names}, new)
        print("\n".join(report(differing, len(inputs), accepted)))
        shown = [name for name in differing if name not in accepted][:N_SHOWN]
        if shown:
            few = [line for name, line in zip(names, inputs, strict=True) if name in shown]
            with tree_at(commit) as tree:
                values = [run_probe(where, few, 1, with_values=True) for where in (tree, ROOT)]
            for name in shown:
                print("\n".join(tell(name, differing[name], values[0][name], values[1][name])))
        print(f"{time.monotonic() - began:.0f} s")
    except SameError as error:
        print(error, file=sys.stderr)
        return 2
    return 1 if shown else 0


if __name__ == "__main__":
    sys.exit(main())
