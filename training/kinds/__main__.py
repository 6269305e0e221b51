"""Edits on which lines get lost, doubled or misplaced unseen, made of real files: about forty kinds, half to fit rules
on and half to check them, and snippets that can be read in several places.

    python -m training.kinds [--data F.jsonl.xz ...] [--repo DIR ...] --out OUT.jsonl [--edits N] [--seed S]
                               [--split fit|check|twins]

`style` is the kind, `split` its half, drawn by the hash of its name among kinds of like difficulty.  The wanted file is
`after`, byte for byte; a kind whose name ends in `-ambiguous` and a twin have several readings, `places`, and an answer
without a doubt is wrong.  No merger is asked: what a snippet means is settled by the plan it is made of.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from training.kinds import closed_kinds, open_kinds
from training.kinds.plans import compose
from training.kinds.sources import Source, read_data, read_repository
from training.kinds.twins import find_twin

TRIES = 600
"""Files of a language looked at for a kind, beside four for each edit that is wanted of it."""
PLANS = 3
"""Plans of one file tried until one can be shown clearly."""

KINDS = {"fit": open_kinds.KINDS, "check": closed_kinds.KINDS}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m training.kinds", description=__doc__)
    parser.add_argument("--data", type=Path, nargs="*", default=[], help="JSON-lines sets of edits, xz or plain")
    parser.add_argument("--repo", type=Path, nargs="*", default=[], help="folders whose tracked files are used")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--edits", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--split", choices=("fit", "check", "twins"), help="one part alone; default: all")
    options = parser.parse_args(arguments)
    sources = [source for path in options.data for source in read_data(path)]
    sources += [source for folder in options.repo for source in read_repository(folder)]
    if not sources:
        sys.exit("no file that edits can be made of: name a set with --data, or a git repository with --repo")
    splits = (options.split,) if options.split else ("fit", "check", "twins")
    records = list(make_records(sources, splits=splits, n_edits=options.edits, seed=options.seed))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    options.out.write_text(text, encoding="utf-8", newline="\n")
    counts = Counter(record["split"] for record in records)
    print(f"{options.out}: {len(records)} edits, " + ", ".join(f"{name} {n}" for name, n in sorted(counts.items())))
    return 0


def make_records(
    sources: Sequence[Source], *, splits: Sequence[str], n_edits: int, seed: int
) -> Iterator[dict[str, Any]]:
    """Edits of these parts, as many of each kind as there are places for; twins are a quarter of a run of all parts."""
    n_twins = 0 if "twins" not in splits else n_edits if len(splits) == 1 else n_edits // 4
    kinds = [(name_of(kind), split, kind) for split in splits if split in KINDS for kind in KINDS[split]]
    makers = [(style, split, _kind_maker(kind), -(-(n_edits - n_twins) // len(kinds))) for style, split, kind in kinds]
    if n_twins:
        makers.append(("twins", "twins", _twin, n_twins))
    for style, split, make, wanted in makers:
        rng = random.Random(f"{seed}:{style}")
        made: set[str] = set()
        for source in _drawn(sources, rng, wanted):
            found = make(source, rng)
            if found is None:
                continue
            texts = (source.path, source.text, found["update"], found["after"])
            digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]
            if digest in made:
                continue
            made.add(digest)
            yield {
                "id": f"{style}-{digest}",
                "repo": source.repo,
                "path": source.path,
                "language": source.language,
                "subject": source.subject,
                "before": source.text,
                "after": found.pop("after"),
                "update": found.pop("update"),
                "style": style,
                "split": split,
                **found,
            }
            if len(made) == wanted:
                break


def name_of(kind: Any) -> str:
    return str(kind.__name__).replace("_", "-")


def _kind_maker(kind: Any) -> Any:
    def make(source: Source, rng: random.Random) -> dict[str, Any] | None:
        for _ in range(PLANS):
            plan = kind(source, rng)
            if plan is None:
                return None
            edit = compose(source, plan, rng)
            if edit is None:
                continue
            found: dict[str, Any] = {"update": edit.update, "after": edit.after}
            if edit.wanted:
                found |= {"places": list(plan.places), "wanted_texts": list(edit.wanted), "meant": plan.ops[0].start}
            return found
        return None

    return make


def _twin(source: Source, rng: random.Random) -> dict[str, Any] | None:
    twin = find_twin(source, rng)
    if twin is None:
        return None
    return {"update": twin.update, "after": twin.after, "places": list(twin.places), "wanted_texts": list(twin.wanted)}


def _drawn(sources: Sequence[Source], rng: random.Random, wanted: int) -> Iterator[Source]:
    """Files in an order drawn at random, languages in turn, each file once."""
    by_language: dict[str, list[Source]] = defaultdict(list)
    for source in sources:
        by_language[source.language].append(source)
    left = {name: rng.sample(files, min(len(files), TRIES + 4 * wanted)) for name, files in sorted(by_language.items())}
    while left:
        for name in rng.sample(sorted(left), len(left)):
            yield left[name].pop()
            if not left[name]:
                del left[name]


if __name__ == "__main__":
    raise SystemExit(main())
