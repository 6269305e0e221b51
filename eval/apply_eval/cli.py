"""`apply-eval`: make data sets of real edits, and measure on them.

Parses arguments, calls one function, prints.  Exit codes: 0 done, 1 the measured thing failed (fuzz: a failure; peers:
a wrong answer that no verdict tells; run: a contestant of whom nothing could be scored; compare: a regression), 2 bad
arguments or data, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

from rich.console import Console

from apply_eval.arguments import SPLITS, positive, probability
from apply_eval.compare import Limits, compare_rows, differences_table, exact_in_one, refuse_other_samples
from apply_eval.datasets import EditKind, chosen_records, write_records
from apply_eval.errors import DataError
from apply_eval.loop import DEFAULT_DRAFTERS
from apply_eval.mine import OWN_EDITS, OWN_LIMIT, OWN_MAX_LINES, MineFilter, StyleMix, import_records, mine
from apply_eval.numbers import print_results, progress
from apply_eval.provenance import provenance
from apply_eval.results import RunResults, read_results
from apply_eval.scores import CONFIDENCE_THRESHOLD
from apply_eval.services import DIALECTS
from apply_service.commands.output import print_error
from apply_service.errors import ApplyError
from apply_service.registry import EDIT_FORMATS, names
from apply_service.types import Strategy

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
MAX_IDS, MIN_WIDTH = 10, 100


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    arguments = build_parser().parse_args(argv)
    try:
        code: int = arguments.command(arguments)
    except ApplyError as error:
        print_error(error, program="apply-eval")
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def build_parser() -> argparse.ArgumentParser:
    """All commands with their options."""
    parser = argparse.ArgumentParser(prog="apply-eval", description=__doc__.split("\n")[0] if __doc__ else None)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add_command = partial(commands.add_parser, allow_abbrev=False)
    _add_mine(add_command("mine", help="real edits out of a local git history, with lazy snippets"))
    _add_import(add_command("import", help="any JSONL with before, after and update as a data set"))
    _add_merge(add_command("merge", help="the deterministic merger on a data set"))
    _add_peers(add_command("peers", help="other projects' cases of edit formats, strategy exact"))
    _add_fuzz(add_command("fuzz", help="random edits of real files through the merger"))
    add_run(add_command("run", help="drafters, peers or a service on a data set: right answers, speed, report"))
    _add_report(add_command("report", help="the HTML page of a run"))
    _add_compare(add_command("compare", help="two runs on the same samples; fails on a regression"))
    return parser


def _write_json(path: Path, results: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"results in {path}")


# -- data sets ---------------------------------------------------------------------------------------------------------
def _add_mine(parser: argparse.ArgumentParser) -> None:
    add, wanted = parser.add_argument, MineFilter()
    add("--repo", type=Path, default=Path(), help="a local git repository (default: here)")
    add("--out", type=Path, required=True, help="the JSONL file to write (.xz compresses)")
    add("--limit", type=positive, default=200, help="edits at most (default: %(default)s)")
    add("--seed", type=int, default=0)
    add("--styles", choices=get_args(StyleMix), default="mixed", help="how snippets are written")
    add("--language", action="append", default=[], help="only this language; may be given several times")
    add("--kind", choices=get_args(EditKind), help="only edits of this kind")
    add("--min-lines", type=positive, default=wanted.min_lines)
    add("--max-lines", type=positive, default=wanted.max_lines)
    add("--max-changed", type=positive, default=wanted.max_changed, help="changed lines at most")
    add("--max-hunks", type=positive, default=wanted.max_hunks)
    add("--since", help="only commits after this date, as git understands it")
    add("--until", help="only commits before this date")
    add("--max-commits", type=positive, default=wanted.max_commits, help="how far back to look")
    add("--name", help="the repository's name in the records (default: from its origin or folder)")
    add("--licence", default="", help="SPDX name to write into the records")
    parser.set_defaults(command=_mine)


def _mine(arguments: argparse.Namespace) -> int:
    given, own = vars(arguments), MineFilter.__dataclass_fields__
    filters = MineFilter(
        languages=frozenset(arguments.language), **{name: value for name, value in given.items() if name in own}
    )
    same = {name: given[name] for name in ("limit", "seed", "styles", "name", "licence")}
    n_written = write_records(arguments.out, list(mine(arguments.repo, filters=filters, **same)))
    print(f"{n_written} edits written to {arguments.out}")
    return 0


def _add_import(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("source", type=Path, help="JSONL with `before`, `after` and, unless --sketch, `update`")
    add("--out", type=Path, required=True)
    field_help = "read field NAME from their field THEIRS"
    add("--field", action="append", default=[], metavar="NAME=THEIRS", help=field_help)
    add("--sketch", choices=get_args(StyleMix), help="write the snippets instead of reading them")
    add("--seed", type=int, default=0)
    add("--limit", type=positive)
    parser.set_defaults(command=_import)


def _import(arguments: argparse.Namespace) -> int:
    renames: dict[str, str] = {}
    for pair in arguments.field:
        name, sign, theirs = pair.partition("=")
        if not sign:
            raise DataError(f"--field wants NAME=THEIRS, not {pair!r}", value=pair)
        renames[name] = theirs
    records, n_skipped = import_records(
        arguments.source, renames=renames, sketch_styles=arguments.sketch, seed=arguments.seed, limit=arguments.limit
    )
    n_written = write_records(arguments.out, records)
    print(f"{n_written} edits written to {arguments.out}, {n_skipped} left out (no snippet can show them)")
    return 0


# -- the merger --------------------------------------------------------------------------------------------------------
def _add_merge(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--data", type=Path, default=OWN_EDITS, help="a data set, JSONL (default: shipped edits of this project)")
    add("--updates", type=Path, help="JSONL with `id` and `update`: replaces the snippets")
    add("--split", choices=SPLITS, help="only this part of the data set")
    add("--limit", type=positive, help="only the first N samples")
    threshold_help = "answers from P on count as applied unseen (default: as shipped)"
    add("--threshold", type=probability, metavar="P", help=threshold_help)
    add("--seed", type=int, default=0, help="of the bootstrap's intervals")
    add("--out", type=Path, help="folder for results.json")
    add("--json", type=Path, metavar="FILE", help="the figures without the rows, to be committed")
    add("--format", choices=("auto", *names(EDIT_FORMATS)), default="auto", help="the edits' format")
    parser.set_defaults(command=_merge)


def _merge(arguments: argparse.Namespace) -> int:
    from apply_eval.merge import (
        format_merger,
        print_summary,
        print_wrong_certain,
        run_merge,
        shipped_threshold,
        summarise,
    )

    records, files = chosen_records(arguments.data, updates=arguments.updates, split=arguments.split)
    records = records[: arguments.limit]
    with progress("merge", len(records)) as advance:
        rows = run_merge(records, format_merger(arguments.format), on_row=advance)
    threshold = shipped_threshold() if arguments.threshold is None else arguments.threshold
    summary = {**summarise(rows, threshold=threshold, seed=arguments.seed), "split": arguments.split}
    print_wrong_certain(Console(), rows, records)
    print_summary(Console(), summary)
    results = {**summary, "provenance": provenance(files, seed=arguments.seed)}
    if arguments.out is not None:
        _write_json(arguments.out / "results.json", results)
    if arguments.json is not None:
        _write_json(arguments.json, {name: value for name, value in results.items() if name != "rows"})
    return 0


def _add_peers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="the cases, JSONL (.xz may be)")
    parser.add_argument("--out", type=Path, help="folder for results.json")
    parser.set_defaults(command=_peers)


def _peers(arguments: argparse.Namespace) -> int:
    from apply_eval.peers import print_peers, run_peers, summarise_peers

    with progress("peers", None) as advance:
        rows = run_peers(arguments.data, on_case=advance)
    print_peers(Console(), rows)
    if arguments.out is not None:
        results = {**summarise_peers(rows), "provenance": provenance([arguments.data])}
        _write_json(arguments.out / "results.json", results)
    return FAILED if any(row.outcome == "silent" for row in rows) else 0


def _add_fuzz(parser: argparse.ArgumentParser) -> None:
    from apply_eval.fuzz import FORMATS

    source = parser.add_mutually_exclusive_group()
    source.add_argument("--data", type=Path, help="JSONL with before and after (.xz may be)")
    source.add_argument("--repo", type=Path, help="a local git repository (default: here)")
    source.add_argument("--folder", type=Path, help="a folder of text files: random edits only")
    add = parser.add_argument
    add("--cases", type=positive, default=1000)
    add("--seed", type=int, default=0)
    add("--only", type=int, metavar="NUMBER", help="one case of the run, shown in full")
    add("--files", type=positive, default=3000, help="real files at most")
    add("--format", action="append", choices=FORMATS, help="only this format; may be repeated")
    parser.set_defaults(command=_fuzz)


def _fuzz(arguments: argparse.Namespace) -> int:
    from apply_eval.fuzz import (
        FORMATS,
        fuzz,
        print_case,
        print_report,
        sources_of_data,
        sources_of_folder,
        sources_of_repo,
    )

    limit, seed = arguments.files, arguments.seed
    if arguments.data is not None:
        sources = sources_of_data(arguments.data, limit=limit, seed=seed)
    elif arguments.folder is not None:
        sources = sources_of_folder(arguments.folder, limit=limit, seed=seed)
    else:
        sources = sources_of_repo(arguments.repo or Path(), limit=limit, seed=seed)
    numbers = range(arguments.cases) if arguments.only is None else [arguments.only]
    formats = tuple(arguments.format or FORMATS)
    with progress("fuzz", len(numbers)) as advance:
        report = fuzz(sources, seed=seed, numbers=numbers, formats=formats, on_case=advance)
    if arguments.only is not None:
        print_case(Console(), sources, seed=seed, number=arguments.only, formats=formats)
    print_report(Console(), report)
    return FAILED if report.failures or not report.n_cases else 0


# -- runs --------------------------------------------------------------------------------------------------------------
def add_run(parser: argparse.ArgumentParser) -> None:
    """The options of `apply-eval run`."""
    add = parser.add_argument
    data_help = "a data set, JSONL (default: edits mined from this project's history)"
    add("--data", type=Path, metavar="FILE", help=data_help)
    add("--updates", type=Path, metavar="FILE", help="JSONL with `id` and `update`: replaces the snippets")
    add("--split", choices=SPLITS, help="only this part of the data set")
    add("--limit", type=positive, metavar="N", help=f"only the first N samples (without --data: {OWN_LIMIT})")
    lines_help = f"only files of at most N lines (without --data: {OWN_MAX_LINES})"
    add("--max-lines", type=positive, metavar="N", help=lines_help)
    drafters_help = f"comma-separated, `+` chains two (default: {','.join(DEFAULT_DRAFTERS)})"
    add("--drafters", type=_names, metavar="A,B", help=drafters_help)
    add("--no-plain", action="store_true", help="leave out the undrafted baseline, and speed-ups with it")
    peers_help = "hf-plain, hf-prompt-lookup; vllm=URL, vllm-ngram=URL, vllm-suffix=URL, vllm-merged-edit=URL"
    add("--peers", type=_peer_urls, default={}, metavar="A,B=URL", help=peers_help)
    target_help = "embedded, a folder, a Hugging Face id, or replay:SHAPE"
    add("--target", default="embedded", metavar="NAME", help=target_help)
    add("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"), help="of the target")
    add("--dtype", default="auto", choices=("auto", "float32", "bfloat16"), help="of its weights")
    add("--window", type=positive, metavar="N", help="drafted tokens of a pass (default: the engine's choice)")
    add("--torch-threads", type=positive, metavar="N", help="CPU threads of a pass")
    add("--kv-cache-mb", type=positive, default=1024, metavar="N", help="for keys and values")
    add("--server", metavar="URL", help="measure a running service instead of a target in this process")
    add("--dialect", choices=DIALECTS, default="native", help="what the server speaks")
    add("--api-key", metavar="KEY", help="for the server; env:NAME reads it from the environment")
    add("--model", metavar="NAME", help="which of the server's models")
    strategy_help = "who decides (default: model, as a merge that is only scored takes no drafts; auto for a server)"
    add("--strategy", choices=get_args(Strategy), help=strategy_help)
    constrain_help = "the copy constraint (default: the target's own choice)"
    add("--constrain", choices=("sources", "none"), help=constrain_help)
    add("--concurrency", type=positive, metavar="N", default=1, help="requests at a time (default: 1)")
    add("--repeats", type=positive, metavar="N", default=1, help="times each sample is run; medians count")
    add("--timeout", type=float, default=600.0, metavar="S", help="deadline of a request in seconds")
    add("--seed", type=int, metavar="N", default=0, help="of the order, of sampling, of the intervals")
    add("--price-per-hour", type=float, metavar="P", help="of the machine: adds costs to the results")
    threshold_help = "less counts as flagged (%(default)s)"
    add("--confidence-threshold", type=float, metavar="P", default=CONFIDENCE_THRESHOLD, help=threshold_help)
    add("--out", type=Path, required=True, metavar="FOLDER", help="folder; a run that was stopped there goes on")
    add("--fresh", action="store_true", help="throw away what lies in --out")
    parser.set_defaults(command=_run)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def _peer_urls(text: str) -> dict[str, str | None]:
    """`a,b=URL` -> {a: None, b: URL}."""
    pairs = (part.partition("=") for part in _names(text))
    return {name: url if sign else None for name, sign, url in pairs}


def _run(arguments: argparse.Namespace) -> int:
    from apply_eval.run import run  # loads the engine

    return run(arguments)


def _add_report(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", type=Path, metavar="RUN", help="the --out of a run, or its results.json")
    others_help = "runs of the same at other concurrencies, for throughput by concurrency"
    add("others", type=Path, nargs="*", metavar="RUN...", help=others_help)
    add("--out", type=Path, metavar="FOLDER", help="folder of the page (default: the run's)")
    parser.set_defaults(command=_report)


def _report(arguments: argparse.Namespace) -> int:
    from apply_eval.report import write_report

    results = read_results(arguments.run)
    folder = arguments.run if arguments.run.is_dir() else arguments.run.parent
    others = [read_results(path) for path in arguments.others]
    path = write_report(results, arguments.out or folder, others=others)
    print_results(results.values)
    print(f"report in {path.resolve().as_uri()}")
    return 0


def _add_compare(parser: argparse.ArgumentParser) -> None:
    add, usual = parser.add_argument, Limits()
    add("a", type=Path, metavar="A", help="the run before: its --out, or its results.json")
    add("b", type=Path, metavar="B", help="the run after")
    pair_help = "compare contestant A with B (default: equal names)"
    add("--pair", action="append", default=[], metavar="A=B", help=pair_help)
    exact_help = "exact match may fall by that (default: %(default)s)"
    add("--exact-drop", type=float, default=usual.exact_drop, help=exact_help)
    silent_help = "silent errors may rise by that (%(default)s)"
    add("--silent-rise", type=float, metavar="X", default=usual.silent_rise, help=silent_help)
    slow_help = "share of speed that may be lost (default: %(default)s)"
    add("--slowdown", type=float, default=usual.slowdown, help=slow_help)
    passes_help = "share of passes that may be added (%(default)s)"
    add("--more-passes", type=float, default=usual.more_passes, help=passes_help)
    parser.set_defaults(command=_compare)


def _compare(arguments: argparse.Namespace) -> int:
    """Print the differences of every pair; 1 where one of them is a regression."""
    a, b = read_results(arguments.a), read_results(arguments.b)
    refuse_other_samples(a.facts, b.facts)
    is_same_machine = _conditions(a) == _conditions(b)
    given = (arguments.exact_drop, arguments.silent_rise, arguments.slowdown, arguments.more_passes)
    limits, threshold = Limits(*given, is_same_machine), b.values["summary_options"]["confidence_threshold"]
    console, worse = Console(), []
    console.width = max(MIN_WIDTH, console.width)
    pairs = [pair.partition("=")[::2] for pair in arguments.pair] or [(n, n) for n in a.names if n in b.names]
    if not pairs:
        raise DataError("the runs have no contestant in common", value=a.names, limit=b.names, remedy="name a --pair")
    for left, right in pairs:
        if left not in a.names or right not in b.names:
            raise DataError(f"no such pair: {left}={right}", value=[left, right], limit=[a.names, b.names])
        rows = [row for row in a.rows if row.name == left], [row for row in b.rows if row.name == right]
        found = compare_rows(*rows, limits=limits, threshold=threshold)
        title = left if left == right else f"{left} -> {right}"
        console.print(differences_table(title, found))
        for name, ids in zip("AB", exact_in_one(*rows), strict=True):
            if ids:
                print(f"right in {name} alone: {', '.join(ids[:MAX_IDS])}" + (" ..." if len(ids) > MAX_IDS else ""))
        worse += [f"{title}: {difference.field}" for difference in found if difference.is_regression]
    if not is_same_machine:
        print("machine, device or concurrency differ: speeds are shown, not judged")
    print("no regression" if not worse else "regressions: " + ", ".join(worse))
    return FAILED if worse else 0


def _conditions(results: RunResults) -> object:
    """What speeds depend on beside the code."""
    start = results.values["provenance"] or {}
    model = results.values["plan"]["model"] or {}
    return start.get("hardware"), model.get("device"), results.values["plan"]["concurrency"]


if __name__ == "__main__":
    raise SystemExit(main())
