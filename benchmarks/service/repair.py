"""How often a failed edit is mended by what the service says of it: `python -m benchmarks.service.repair SET ...`.

Takes right edits of one place out of sets with `before` and `after`, writes each as a call with exact quotes, and
damages the quote as models do: in one of nine ways, in old and new text alike.  Then the call is sent; where it is
refused or in doubt, the failure's `next` is sent once, as it stands.

With `--moved` the file moved on instead: it has one change of an edit of several, and the call makes another one, with
N_SHOWN lines of the older file around it.  It is sent alone, with the older file's hash, and with the older file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from apply_service.errors import ApplyError
from apply_service.formats.quotes import Quote, quote_changes
from apply_service.pipeline import read_request, run
from apply_service.target import Runtime, no_target
from apply_service.text.diff import diff_lines, unified_diff_text
from apply_service.types import ApplyRequest, ApplyResult, FinalEvent

SEED = 43
N_SHOWN = 12
"""Lines around a change that a call quotes, of a file that moved on."""
SHOW = False
Lines = list[str]
Damage = Callable[[Lines, random.Random], Lines]


def drop_comment(lines: Lines, rng: random.Random) -> Lines:
    """Leave out a line that is a comment, else the comment behind a line's code."""
    found = [k for k, line in enumerate(lines) if line.lstrip()[:2] in ("# ", "//", "/*", "* ")]
    if found:
        at = rng.choice(found)
        return lines[:at] + lines[at + 1 :]
    return [re.sub(r"\s+(?:#|//) .*$", "", line) for line in lines]


def dedent(lines: Lines, _: random.Random) -> Lines:
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return [line[margin:] if margin else "    " + line if line.strip() else line for line in lines]


def swap(lines: Lines, rng: random.Random) -> Lines:
    places = [k for k in range(len(lines) - 1) if lines[k].strip() and lines[k + 1].strip()]
    if not places:
        return lines
    at = rng.choice(places)
    return [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]


def lose_word(lines: Lines, rng: random.Random) -> Lines:
    places = [k for k, line in enumerate(lines) if len(line.split()) > 2]
    if not places:
        return lines
    at = rng.choice(places)
    words = list(re.finditer(r"\S+", lines[at]))
    word = words[rng.randrange(1, len(words))]
    return [*lines[:at], lines[at][: word.start()].rstrip() + lines[at][word.end() :], *lines[at + 1 :]]


def rename(lines: Lines, rng: random.Random) -> Lines:
    names = [(k, m) for k, line in enumerate(lines) for m in re.finditer(r"\b[a-z]\w{4,}\b", line)]
    if not names:
        return lines
    at, name = rng.choice(names)
    return [*lines[:at], lines[at][: name.start()] + name[0][:-1] + lines[at][name.end() :], *lines[at + 1 :]]


def drop_blank(lines: Lines, _: random.Random) -> Lines:
    kept = [line for line in lines if line.strip()]
    return (
        kept
        if len(kept) < len(lines)
        else [line for k, line in enumerate(lines) for line in ([line, ""] if k == 0 else [line])]
    )


def requote(lines: Lines, _: random.Random) -> Lines:
    return [line.translate(str.maketrans("'\"", "\"'")) for line in lines]


def squeeze(lines: Lines, _: random.Random) -> Lines:
    """Write each line with single blanks, and none before brackets."""
    return [line[: len(line) - len(line.lstrip())] + re.sub(r"\s*([(\[{,])\s*", r"\1", line.strip()) for line in lines]


def drop_line(lines: Lines, rng: random.Random) -> Lines:
    if len(lines) < 3:
        return lines
    at = rng.randrange(1, len(lines) - 1)
    return lines[:at] + lines[at + 1 :]


WAYS: dict[str, Damage] = {
    "a comment left out": drop_comment,
    "another indentation": dedent,
    "two lines swapped": swap,
    "a word lost": lose_word,
    "a name misspelt": rename,
    "blank lines": drop_blank,
    "other quotes": requote,
    "other blanks": squeeze,
    "a line left out": drop_line,
}


def damaged(quote: Quote, way: Damage, rng: random.Random) -> tuple[Lines, Lines]:
    """Return old and new text of the quote, the unchanged lines of both damaged alike, and the removed ones too."""
    old, new = list(quote.old), list(quote.new)
    if way is dedent:
        both = dedent([*old, *new], rng)
        return both[: len(old)], both[len(old) :]
    head = next((k for k, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    tail = next((k for k, (a, b) in enumerate(zip(old[head:][::-1], new[head:][::-1], strict=False)) if a != b),
                min(len(old), len(new)) - head)  # fmt: skip
    parts = [way(part, random.Random(rng.random())) if part else part
             for part in (old[:head], old[head : len(old) - tail], old[len(old) - tail :])]  # fmt: skip
    chosen = rng.randrange(3)
    kept = [old[:head], old[head : len(old) - tail], old[len(old) - tail :]]
    everywhere = way in (requote, squeeze)
    told = [parts[k] if everywhere or k == chosen else kept[k] for k in range(3)]
    return [*told[0], *told[1], *told[2]], [*told[0], *new[head : len(new) - tail], *told[2]]


def written(form: str, path: str, old: Lines, new: Lines) -> str:
    if form == "json":
        return json.dumps({"path": path, "old_string": "\n".join(old), "new_string": "\n".join(new)})
    if form == "block":
        return "\n".join([path, "<<<<<<< SEARCH", *old, "=======", *new, ">>>>>>> REPLACE", ""])
    rows: Lines = []
    done = 0
    for a0, a1, b0, b1 in diff_lines(old, new):
        rows += [*(f" {line}" for line in old[done:a0]), *(f"-{line}" for line in old[a0:a1])]
        rows += (f"+{line}" for line in new[b0:b1])
        done = a1
    rows += (f" {line}" for line in old[done:])
    return "\n".join(["*** Begin Patch", f"*** Update File: {path}", "@@", *rows, "*** End Patch", ""])


def edits_of(paths: Sequence[Path]) -> Iterator[tuple[str, str, str]]:
    for path in paths:
        opener = lzma.open if path.suffix == ".xz" else open
        with opener(path, "rt", encoding="utf-8") as file:
            for row in map(json.loads, file):
                before, after = row.get("before") or row.get("original"), row.get("after") or row.get("merged")
                if before and after and before != after and len(before) < 60_000:
                    yield row.get("path") or "a.py", before.replace("\r\n", "\n"), after.replace("\r\n", "\n")


def send(original: str, update: str, path: str, **fields: Any) -> ApplyResult | ApplyError:
    request = ApplyRequest(original=original, update=update, path=path, strategy="exact", **fields)
    runtime = Runtime(no_target)
    try:
        *_, final = run(request, runtime, None, read_request(request, runtime))
    except ApplyError as error:
        return error
    assert isinstance(final, FinalEvent)
    return final.result


def is_told(result: ApplyResult) -> bool:
    return bool(result.reasons) or any(verdict.severity != "pass" for verdict in result.verdicts)


def outcome(original: str, wanted: str, update: str, path: str) -> tuple[str, str | None]:
    """Return what came of a call, and the next one."""
    result = send(original, update, path)
    if isinstance(result, ApplyError):
        failed = [str(one["next"]) for one in result.failures if one["next"]]
        return "refused", failed[0] if failed else None
    told = [one.next for one in result.failures if one.next]
    is_right = result.merged_code == wanted
    doubt = "told" if is_told(result) else "unseen"
    if SHOW and not is_right:
        print(unified_diff_text(wanted, result.merged_code, "wanted-result"))
    return f"{'right' if is_right else 'wrong'}, {doubt}", told[0] if told else None


def send_moved(edits: Sequence[tuple[str, str, str]], n: int, rng: random.Random) -> None:
    """Print what comes of calls that were written for an older file, by what is sent with them."""
    counts: Counter[tuple[str, str]] = Counter()
    n_sent = 0
    for path, before, after in edits:
        if n_sent == n:
            break
        old, new = before.split("\n"), after.split("\n")
        changes = list(diff_lines(old, new))
        if len(changes) < 2:
            continue
        k = rng.randrange(len(changes) - 1)
        made, asked = rng.sample((changes[k], changes[k + 1]), 2)
        start, stop = max(0, asked.a0 - N_SHOWN), min(len(old), asked.a1 + N_SHOWN)
        quoted = old[start:stop]
        call = [*old[start : asked.a0], *new[asked.b0 : asked.b1], *old[asked.a1 : stop]]
        now = "\n".join([*old[: made.a0], *new[made.b0 : made.b1], *old[made.a1 :]])
        both = "\n".join([*old[: changes[k].a0], *new[changes[k].b0 : changes[k + 1].b1], *old[changes[k + 1].a1 :]])
        if before.count("\n".join(quoted)) != 1 or now.count("\n".join(quoted)) == 1:
            continue  # the quote stands in the newer file too: nothing is stale
        n_sent += 1
        update = written("json", path, quoted, call)
        sha256 = hashlib.sha256(before.encode()).hexdigest()
        for sent, fields in (("the call", {}), ("its hash", {"base_sha256": sha256}), ("its base", {"base": before})):
            result = send(now, update, path, **fields)
            if isinstance(result, ApplyError):
                counts[sent, result.code] += 1
            else:
                right = "right" if result.merged_code == both else "wrong"
                counts[sent, f"{right}, {'told' if is_told(result) else 'unseen'}"] += 1
    print(f"{n_sent} calls for a file that moved on")
    for sent in ("the call", "its hash", "its base"):
        print(f"{sent:24}", {end: count for (name, end), count in counts.most_common() if name == sent})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("-n", type=int, default=500)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--show", action="store_true", help="print what stays wrong")
    parser.add_argument("--moved", action="store_true", help="the file moved on; the quote is right")
    options = parser.parse_args()
    global SHOW
    SHOW = options.show
    rng = random.Random(options.seed)
    counts: Counter[tuple[str, str]] = Counter()
    edits = list(edits_of(options.sets))
    rng.shuffle(edits)
    if options.moved:
        send_moved(edits, options.n, rng)
        return
    n = 0
    for path, before, after in edits:
        if n == options.n:
            break
        quotes = quote_changes(before.split("\n"), after.split("\n"), 3)
        if not quotes or len(quotes) != 1 or len(quotes[0].old) > 60:
            continue
        name = rng.choice(list(WAYS))
        form = rng.choice(["json", "block", "patch"])
        old, new = damaged(quotes[0], WAYS[name], rng)
        if old == list(quotes[0].old) or old == new or before.count("\n".join(old)) == 1:
            continue  # no damage: the quote still stands in the file
        n += 1
        first, following = outcome(before, after, written(form, path, old, new), path)
        end = first
        if not first.startswith("right") and following is not None:
            second, _ = outcome(before, after, following, path)
            end = f"{second} by next"
        elif not first.startswith("right"):
            end = f"{first}, no next"
        counts[name, end] += 1
        if options.show and not end.startswith("right"):
            print("=" * 60, name, form, end)
            print(unified_diff_text("\n".join(quotes[0].old), "\n".join(old), "quote-damaged"), "-" * 40)
            print(unified_diff_text("\n".join(old), "\n".join(new), "old-new"))
    kinds = sorted({end for _, end in counts})
    for name in WAYS:
        print(f"{name:24}", {end: counts[name, end] for end in kinds if counts[name, end]})
    total = Counter[str]()
    for (_, end), count in counts.items():
        total[end] += count
    print(dict(total.most_common()))
    print(f"right {sum(c for e, c in total.items() if e.startswith('right'))} of {n}")


if __name__ == "__main__":
    main()
