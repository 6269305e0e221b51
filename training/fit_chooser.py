"""`python -m training.fit_chooser`: count which readings of edits are right, and keep what tells them apart.

    python -m training.fit_chooser --data hand-written.jsonl.xz --data sketched.jsonl.xz --weight sketched.jsonl.xz=0.1

All readings of every edit that may be fitted to are told right or wrong, and a chooser is fitted to them.  Writes its
numbers to `chooser.json` beside the merger, and prints the report: every figure in it is of edits whose repository the
chooser had not seen (cross-validation).  The threshold at which answers are applied is found there too and frozen with
the numbers.  Needs the extra `train`.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

from apply_eval.arguments import positive, probability
from apply_eval.datasets import EditRecord
from apply_eval.errors import DataError
from apply_eval.provenance import provenance
from apply_service.merge.merge import BROKEN
from apply_service.merge.rank.chooser import MODEL_FILE, VERSION, Chooser, ChooserThresholds, Tree, Trees, parse
from apply_service.merge.readings import readings
from apply_service.reply.reader import read_reply
from apply_service.syntax.trees import breaks_syntax
from apply_service.text.fidelity import normalise
from apply_service.types import DOUBT, Reading
from training.chooser_data import Choice, Readings, collect, feature_names, read_fit_records
from training.chooser_fit import fit_chooser
from training.chooser_report import REFUSED_BELOW, counts_of, describe, lines, pick_threshold

PACKAGE = "apply_service.merge.rank"


def main(arguments: Sequence[str] | None = None, *, readings_of: Readings | None = None) -> int:
    """Fit, write, report.  `readings_of`: another merger than the package's."""
    options = parse_options(arguments)
    n_processes = options.processes
    choices, n_others = read_choices(options.data, dict(options.weight), readings_of or lazy_readings, n_processes)
    names = feature_names(choices)
    made, outcomes = fit_chooser(choices, names, options.folds, n_processes)
    threshold = pick_threshold(outcomes, options.wrong)
    files = [file for pair in options.data for file in pair if file is not None]
    report = {
        "kind": "chooser",
        "wrong": options.wrong,
        "folds": options.folds,
        "sets": counts_of(choices, n_others),
        "out_of_fold": describe(outcomes, threshold, seed=options.seed),
        "provenance": provenance(files, seed=options.seed),
    }
    chooser = made._replace(thresholds=ChooserThresholds(threshold, REFUSED_BELOW))
    write(options.out, chooser, short_provenance(report))
    if options.report is not None:
        options.report.parent.mkdir(parents=True, exist_ok=True)
        options.report.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print("\n".join(lines(report)))
    print(f"numbers in {options.out}")
    return 0


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m training.fit_chooser", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--data",
        type=_files,
        action="append",
        required=True,
        metavar="FILE[+UPDATES]",
        help="a set that may be fitted to, JSONL (.xz may be), and a file of other snippets for it; may be repeated",
    )
    parser.add_argument(
        "--weight",
        type=_weight,
        action="append",
        default=[],
        metavar="NAME=W",
        help="what each edit of the set of this file name counts (default: 1; of several with updates: the updates')",
    )
    parser.add_argument("--wrong", type=probability, default=0.01, help="share of applied answers that may be wrong")
    parser.add_argument("--folds", type=positive, default=6, help="of the cross-validation by repository")
    parser.add_argument("--processes", type=positive, default=1, help="that read edits and fit folds (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap's intervals")
    default = Path(str(resources.files(PACKAGE))) / MODEL_FILE
    parser.add_argument("--out", type=Path, default=default, help="file of the numbers (default: in the package)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="the report as JSON")
    options = parser.parse_args(arguments)
    if options.folds < 2:
        parser.error("--folds: two at least")
    return options


def _files(text: str) -> tuple[Path, Path | None]:
    name, plus, updates = text.partition("+")
    return Path(name), Path(updates) if plus else None


def _weight(text: str) -> tuple[str, float]:
    name, sign, weight = text.rpartition("=")
    try:
        value = float(weight)
    except ValueError:
        value = 0.0
    if not sign or not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=W with a number above zero")
    return name, value


def read_choices(
    data: Sequence[tuple[Path, Path | None]],
    weights: Mapping[str, float],
    readings_of: Readings,
    n_processes: int = 1,
) -> tuple[list[Choice], dict[str, int]]:
    """The choices of all sets, and of each how many edits are in other formats.  Raises DataError: a set that nothing
    may be fitted to, a weight for a set that is not there, a set twice."""
    names = [(updates or path).name for path, updates in data]
    if len(set(names)) < len(names) or (unknown := weights.keys() - set(names)):
        wrong = names if len(set(names)) < len(names) else sorted(unknown)
        raise DataError("a set is given twice, or a weight is given for a set that is not", value=wrong)
    choices: list[Choice] = []
    n_others: dict[str, int] = {}
    for name, (path, updates) in zip(names, data, strict=True):
        records = read_fit_records(path, updates)
        found, n_others[name] = collect(
            records, readings_of, source=name, weight=weights.get(name, 1.0), n_processes=n_processes
        )
        choices += found
    return choices, n_others


def lazy_readings(record: EditRecord) -> list[tuple[Reading, float]]:
    """All readings of an edit by the package's merger, of the snippet as it is found in its reply, each with the most
    that the service would let its probability be."""
    original, path, language = normalise(record.before), record.path, record.language
    reply = read_reply(normalise(record.update), original=original, path=path, language=language)
    found = readings(original, reply.update, language=language, path=path, instruction=reply.prose)
    limit = 0.0 if any(finding.check == DOUBT for finding in reply.findings) else 1.0
    limited = []
    for one in found:
        most = BROKEN if breaks_syntax(original, one.text, language) else 1.0
        limited.append((Reading(one.ops, one.features, 0.0, one.way), min(limit, most, one.limit)))
    return limited


# -- writing -----------------------------------------------------------------------------------------------------------
def short_provenance(report: Mapping[str, Any]) -> dict[str, Any]:
    """What the numbers were fitted to and with, and what they were worth."""
    start = report["provenance"]
    applied = report["out_of_fold"]["all"]["applied"]
    return {
        "created": start["created"],
        "commit": start["commit"],
        "data": start["data"],
        "sets": report["sets"],
        "folds": report["folds"],
        "wrong": report["wrong"],
        "out_of_fold": {
            "exact": report["out_of_fold"]["all"]["exact"],
            "n_applied": applied["n_applied"],
            "n_wrong": applied["n_wrong"],
        },
        "versions": {"python": platform.python_version()} | {name: version(name) for name in ("numpy", "scikit-learn")},
    }


def write(path: Path, chooser: Chooser, origin: Mapping[str, Any]) -> None:
    """The numbers as JSON, a line for each part; read again before they are kept."""
    values = {
        "version": VERSION,
        "features": list(chooser.features),
        "first": _trees(chooser.first),
        "second": _trees(chooser.second),
        "elsewhere": chooser.elsewhere,
        "thresholds": chooser.thresholds._asdict(),
        "provenance": origin,
    }
    text = "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(part)}" for name, part in values.items()) + "\n}\n"
    assert parse(json.loads(text)) == chooser, "numbers survive JSON"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _trees(found: Trees) -> dict[str, Any]:
    return {"inputs": found.inputs, "start": found.start, "trees": [_nested(tree) for tree in found.trees]}


def _nested(tree: Tree) -> Any:
    return [tree[0], tree[1], _nested(tree[2]), _nested(tree[3])] if isinstance(tree, tuple) else tree


if __name__ == "__main__":
    raise SystemExit(main())
