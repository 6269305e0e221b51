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
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from apply_eval.arguments import SPLITS, positive, probability
from apply_eval.commands.compare import add_compare
from apply_eval.commands.report import add_report
from apply_eval.commands.run import add_run
from apply_eval.errors import DataError
from apply_service.commands.output import print_error
from apply_service.errors import ApplyError
from apply_service.registry import EDIT_FORMATS, names

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
OWN_EDITS = Path(__file__).parent / "fixtures" / "own_edits.jsonl"


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
    add_report(add_command("report", help="the HTML page of a run"))
    add_compare(add_command("compare", help="two runs on the same samples; fails on a regression"))
    return parser


# -- mine --------------------------------------------------------------------------------------------------------------
def _add_mine(parser: argparse.ArgumentParser) -> None:
    from apply_eval.measures import EditKind
    from apply_eval.mine import MineFilter, StyleMix

    wanted = MineFilter()
    parser.add_argument("--repo", type=Path, default=Path(), help="a local git repository (default: here)")
    parser.add_argument("--out", type=Path, required=True, help="the JSONL file to write (.xz compresses)")
    parser.add_argument("--limit", type=positive, default=200, help="edits at most (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--styles", choices=get_args(StyleMix), default="mixed", help="how snippets are written")
    parser.add_argument(
        "--language", action="append", default=[], help="only this language; may be given several times"
    )
    parser.add_argument("--kind", choices=get_args(EditKind), help="only edits of this kind")
    parser.add_argument("--min-lines", type=positive, default=wanted.min_lines)
    parser.add_argument("--max-lines", type=positive, default=wanted.max_lines)
    parser.add_argument("--max-changed", type=positive, default=wanted.max_changed, help="changed lines at most")
    parser.add_argument("--max-hunks", type=positive, default=wanted.max_hunks)
    parser.add_argument("--since", help="only commits after this date, as git understands it")
    parser.add_argument("--until", help="only commits before this date")
    parser.add_argument("--max-commits", type=positive, default=wanted.max_commits, help="how far back to look")
    parser.add_argument("--name", help="the repository's name in the records (default: from its origin or folder)")
    parser.add_argument("--licence", default="", help="SPDX name to write into the records")
    parser.set_defaults(command=_mine)


def _mine(arguments: argparse.Namespace) -> int:
    from apply_eval.datasets import write_records
    from apply_eval.mine import MineFilter, mine

    filters = MineFilter(
        languages=frozenset(arguments.language),
        min_lines=arguments.min_lines,
        max_lines=arguments.max_lines,
        max_changed=arguments.max_changed,
        max_hunks=arguments.max_hunks,
        kind=arguments.kind,
        since=arguments.since,
        until=arguments.until,
        max_commits=arguments.max_commits,
    )
    records = list(
        mine(
            arguments.repo,
            filters=filters,
            limit=arguments.limit,
            seed=arguments.seed,
            styles=arguments.styles,
            name=arguments.name,
            licence=arguments.licence,
        )
    )
    n_written = write_records(arguments.out, records)
    print(f"{n_written} edits written to {arguments.out}")
    return 0


# -- import ------------------------------------------------------------------------------------------------------------
def _add_import(parser: argparse.ArgumentParser) -> None:
    from apply_eval.mine import StyleMix

    parser.add_argument("source", type=Path, help="JSONL with `before`, `after` and, unless --sketch, `update`")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--field", action="append", default=[], metavar="NAME=THEIRS", help="read field NAME from their field THEIRS"
    )
    parser.add_argument("--sketch", choices=get_args(StyleMix), help="write the snippets instead of reading them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=positive)
    parser.set_defaults(command=_import)


def _import(arguments: argparse.Namespace) -> int:
    from apply_eval.datasets import write_records
    from apply_eval.importing import import_records

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


# -- merge -------------------------------------------------------------------------------------------------------------
def _add_merge(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=Path, default=OWN_EDITS, help="a data set, JSONL (default: shipped edits of this project)"
    )
    parser.add_argument("--updates", type=Path, help="JSONL with `id` and `update`: replaces the snippets")
    parser.add_argument("--split", choices=SPLITS, help="only this part of the data set")
    parser.add_argument("--limit", type=positive, help="only the first N samples")
    parser.add_argument(
        "--threshold",
        type=probability,
        metavar="P",
        help="answers from P on count as applied unseen (default: as shipped)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap's intervals")
    parser.add_argument("--out", type=Path, help="folder for results.json")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the figures without the rows, to be committed")
    parser.add_argument("--format", choices=("auto", *names(EDIT_FORMATS)), default="auto", help="the edits' format")
    parser.set_defaults(command=_merge)


def _merge(arguments: argparse.Namespace) -> int:
    from apply_eval.datasets import join_updates, of_split, read_records
    from apply_eval.merge_report import print_summary, print_wrong_certain
    from apply_eval.merge_runner import format_merger, run_merge, shipped_threshold, summarise
    from apply_eval.provenance import provenance

    files = [path for path in (arguments.data, arguments.updates) if path is not None]
    records = read_records(arguments.data)
    if arguments.updates is not None:
        records = join_updates(records, arguments.updates)
    if arguments.split is not None:
        records = of_split(records, arguments.split)
    records = records[: arguments.limit]
    with _progress() as progress:
        task = progress.add_task("merge", total=len(records))
        rows = run_merge(records, format_merger(arguments.format), on_row=lambda: progress.advance(task))
    threshold = shipped_threshold() if arguments.threshold is None else arguments.threshold
    summary = {**summarise(rows, threshold=threshold, seed=arguments.seed), "split": arguments.split}
    console = Console()
    print_wrong_certain(console, rows, records)
    print_summary(console, summary)
    results = {**summary, "provenance": provenance(files, seed=arguments.seed)}
    if arguments.out is not None:
        _write_json(arguments.out / "results.json", results)
    if arguments.json is not None:
        _write_json(arguments.json, {name: value for name, value in results.items() if name != "rows"})
    return 0


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _write_json(path: Path, results: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"results in {path}")


# -- peers -------------------------------------------------------------------------------------------------------------
def _add_peers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="the cases, JSONL (.xz may be)")
    parser.add_argument("--out", type=Path, help="folder for results.json")
    parser.set_defaults(command=_peers)


def _peers(arguments: argparse.Namespace) -> int:
    from apply_eval.peers import print_peers, run_peers, summarise_peers
    from apply_eval.provenance import provenance

    with _progress() as progress:
        task = progress.add_task("peers", total=None)
        rows = run_peers(arguments.data, on_case=lambda: progress.advance(task))
    print_peers(Console(), rows)
    if arguments.out is not None:
        results = {**summarise_peers(rows), "provenance": provenance([arguments.data])}
        _write_json(arguments.out / "results.json", results)
    return FAILED if any(row.outcome == "silent" for row in rows) else 0


# -- fuzz --------------------------------------------------------------------------------------------------------------
def _add_fuzz(parser: argparse.ArgumentParser) -> None:
    from apply_eval.fuzz import FORMATS

    source = parser.add_mutually_exclusive_group()
    source.add_argument("--data", type=Path, help="JSONL with before and after (.xz may be)")
    source.add_argument("--repo", type=Path, help="a local git repository (default: here)")
    source.add_argument("--folder", type=Path, help="a folder of text files: random edits only")
    parser.add_argument("--cases", type=positive, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="one case of the run, shown in full")
    parser.add_argument("--files", type=positive, default=3000, help="real files at most")
    parser.add_argument("--format", action="append", choices=FORMATS, help="only this format; may be repeated")
    parser.set_defaults(command=_fuzz)


def _fuzz(arguments: argparse.Namespace) -> int:
    from apply_eval.fuzz import FORMATS, fuzz
    from apply_eval.fuzz_report import print_case, print_report

    sources = _fuzz_sources(arguments)
    numbers = range(arguments.cases) if arguments.only is None else [arguments.only]
    formats = tuple(arguments.format or FORMATS)
    with _progress() as progress:
        task = progress.add_task("fuzz", total=len(numbers))
        report = fuzz(
            sources, seed=arguments.seed, numbers=numbers, formats=formats, on_case=lambda: progress.advance(task)
        )
    console = Console()
    if arguments.only is not None:
        print_case(console, sources, seed=arguments.seed, number=arguments.only, formats=formats)
    print_report(console, report)
    return FAILED if report.failures or not report.n_cases else 0


def _fuzz_sources(arguments: argparse.Namespace) -> Any:
    from apply_eval.fuzz_sources import sources_of_data, sources_of_folder, sources_of_repo

    if arguments.data is not None:
        return sources_of_data(arguments.data, limit=arguments.files, seed=arguments.seed)
    if arguments.folder is not None:
        return sources_of_folder(arguments.folder, limit=arguments.files, seed=arguments.seed)
    return sources_of_repo(arguments.repo or Path(), limit=arguments.files, seed=arguments.seed)


if __name__ == "__main__":
    raise SystemExit(main())
