"""Real merge commits as edits of files that moved on: `python -m benchmarks.service.merges REPOSITORY [-n 500]`.

Of each file that both sides of a merge changed: the base is the merge base's file, the newer file that of the first
parent, the edit what the second parent made of the base, and the wanted text stands in the merge commit.  Beside it
stands what `git merge-file` makes of the three.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from apply_service.errors import ApplyError
from apply_service.pipeline import read_request, run
from apply_service.target import Runtime, no_target
from apply_service.types import ApplyRequest, FinalEvent


class Merged(NamedTuple):
    """One file of a merge commit."""

    name: str
    base: str
    ours: str
    theirs: str
    wanted: str


def git(repository: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, check=False).stdout


def merges(repository: Path) -> Iterator[Merged]:
    """Yield the files that both sides changed, newest merge first."""
    for line in git(repository, "log", "--merges", "--format=%H %P").decode().splitlines():
        commit, *parents = line.split()
        if len(parents) != 2:
            continue
        base = git(repository, "merge-base", *parents).decode().strip()
        changed = [set(git(repository, "diff", "--name-only", base, one).decode().split("\n")) for one in parents]
        for path in sorted(set.intersection(*changed) - {""}):
            try:
                texts = [git(repository, "show", f"{one}:{path}").decode() for one in (base, *parents, commit)]
            except UnicodeDecodeError:
                continue
            if all(texts) and len({*texts[:3]}) == 3:
                yield Merged(f"{commit[:8]} {path}", *texts)


def by_git(one: Merged) -> str:
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder, name) for name in ("ours", "base", "theirs")]
        for place, text in zip(places, (one.ours, one.base, one.theirs), strict=True):
            place.write_bytes(text.encode())
        done = subprocess.run(["git", "merge-file", "-p", *map(str, places)], capture_output=True, check=False)
    return "conflict" if done.returncode else "right" if done.stdout.decode() == one.wanted else "wrong"


def by_us(one: Merged) -> str:
    request = ApplyRequest(
        original=one.ours, base=one.base, update=one.theirs, format="whole_file", path=one.name, strategy="exact"
    )
    runtime = Runtime(no_target)
    try:
        *_, final = run(request, runtime, None, read_request(request, runtime))
    except ApplyError as error:
        return "conflict" if error.code == "edit_conflict" else f"refused: {error.code}"
    assert isinstance(final, FinalEvent)
    is_right = final.result.merged_code == one.wanted
    return f"{'right' if is_right else 'wrong'}, {'told' if final.result.reasons else 'unseen'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", type=Path)
    parser.add_argument("-n", type=int, default=500)
    options = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    for n, one in enumerate(merges(options.repository)):
        if n == options.n:
            break
        git_says, we_say = by_git(one), by_us(one)
        counts[git_says, we_say] += 1
        if (git_says, we_say) not in (("right", "right, unseen"), ("conflict", "conflict")):
            print(f"git: {git_says}; here: {we_say}: {one.name}")
    print("\n".join(f"git: {a}; here: {b}: {count}" for (a, b), count in sorted(counts.items())))


if __name__ == "__main__":
    main()
