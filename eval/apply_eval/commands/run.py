"""`apply-eval run`: contestants answer a data set; rows, results and a report come out."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from apply_eval.commands.progress import progress
from apply_eval.commands.run_options import OWN_LIMIT, OWN_MAX_LINES, add_options, options_of
from apply_eval.datasets import EditRecord, join_updates, of_split, read_records, write_records
from apply_eval.errors import DataError
from apply_eval.metrics.summary import SummaryOptions
from apply_eval.own_edits import own_records
from apply_eval.running.plan import RunOptions, plan_of
from apply_eval.running.results import ROWS, build_results, write_results
from apply_eval.running.rows import facts_of
from apply_eval.running.rows_file import RowsFile
from apply_service.errors import ApplyError

FAILED, INTERRUPTED = 1, 130
OWN_DATA = "data.jsonl"


def add_run(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_options(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Open, measure, write.  What is done when it stops is kept, whatever stops it."""
    from apply_eval.provenance import provenance
    from apply_eval.runners.contest import open_contest
    from apply_eval.running.loop import refuse_one_at_a_time

    options = options_of(arguments)
    if arguments.fresh:
        _throw_away(arguments.out)
    records, files = _read_data(arguments)
    known = _earlier_plain(arguments.out / ROWS)
    contest = open_contest(options, records, plain=known)
    with closing(contest):
        refuse_one_at_a_time(list(contest.runners.values()), options.concurrency)
        start = provenance(files, seed=arguments.seed)
        plan = plan_of(
            options,
            names=list(contest.runners),
            data=start["data"],
            sample_ids=[record.id for record in records],
            model=contest.model,
        )
        with RowsFile(arguments.out / ROWS, plan) as file:
            file.add_session({**start, "model": contest.model, "plain": contest.plain})
            return _measure(arguments, options, records, contest, file)


def _throw_away(folder: Path) -> None:
    """What a run has written there, nothing else."""
    for name in (ROWS, OWN_DATA, "results.json", "report.html"):
        (folder / name).unlink(missing_ok=True)


def _read_data(arguments: argparse.Namespace) -> tuple[list[EditRecord], list[Path]]:
    """The samples, and the files they come from."""
    path: Path = arguments.data if arguments.data is not None else _own_data(arguments)
    files = [path]
    records = read_records(path)
    if arguments.updates is not None:
        records, files = join_updates(records, arguments.updates), [path, arguments.updates]
    if arguments.split is not None:
        records = of_split(records, arguments.split)
    if arguments.max_lines is not None:
        records = [record for record in records if record.measures.n_lines_before <= arguments.max_lines]
    records = records[: arguments.limit]
    if not records:
        raise DataError("no sample is as short as that", value=arguments.max_lines, remedy="raise --max-lines")
    return records, files


def _own_data(arguments: argparse.Namespace) -> Path:
    """Edits of this project, mined once a run: history may have grown when it goes on."""
    path: Path = arguments.out / OWN_DATA
    if not path.is_file():
        limit, max_lines = arguments.limit or OWN_LIMIT, arguments.max_lines or OWN_MAX_LINES
        write_records(path, own_records(limit=limit, max_lines=max_lines, seed=arguments.seed))
    return path


def _earlier_plain(path: Path) -> dict[str, Any] | None:
    """What `plain` was when the run was begun: going on must not change it."""
    from apply_eval.running.rows_file import read_rows_file

    try:
        sessions = read_rows_file(path).sessions
    except DataError:  # nothing there yet, or no run: opening it for more tells which
        return None
    return sessions[0]["plain"] if sessions else None


def _measure(
    arguments: argparse.Namespace, options: RunOptions, records: Sequence[EditRecord], contest: Any, file: RowsFile
) -> int:
    from apply_eval.running.loop import Loop
    from apply_eval.running.schedule import schedule

    ids = [record.id for record in records]
    turns = list(
        schedule(
            ids, list(contest.runners), repeats=options.repeats, concurrency=options.concurrency, seed=arguments.seed
        )
    )
    n_done = sum(row.is_scored for row in file.record.rows)
    loop = Loop({record.id: record for record in records}, contest.runners, file, concurrency=options.concurrency)
    stopped: BaseException | None = None
    with progress(sum(len(turn.ids) for turn in turns), n_done) as advance, _term_interrupts():
        loop.on_row = lambda row: advance(row.name)
        try:
            if loop.pending(turns):
                loop.warm_up(min(records, key=lambda record: len(record.before)))
            loop.run(turns)
        except (KeyboardInterrupt, ApplyError) as error:
            stopped = error
    if isinstance(stopped, KeyboardInterrupt) and not file.record.rows:
        return INTERRUPTED
    unscored = _finish(arguments, records, contest.plain, file)
    if isinstance(stopped, ApplyError):
        raise stopped
    if stopped is not None:
        print("stopped: what is done is kept, the same command goes on", file=sys.stderr)
        return INTERRUPTED
    if unscored:
        print(f"apply-eval: no sample of {', '.join(unscored)} could be scored", file=sys.stderr)
    return FAILED if unscored else 0


def _finish(
    arguments: argparse.Namespace, records: Sequence[EditRecord], plain: dict[str, Any] | None, file: RowsFile
) -> list[str]:
    """Write results and report, print the table; contestants of whom no sample could be scored."""
    from apply_eval.report.page import write_report
    from apply_eval.report.terminal import print_results
    from apply_eval.running.results import read_results

    options = SummaryOptions(arguments.seed, arguments.price_per_hour, arguments.confidence_threshold)
    results = build_results(file.record, [facts_of(record) for record in records], options, plain=plain)
    path = write_results(arguments.out, results)
    report = write_report(read_results(arguments.out), arguments.out)
    print_results(results)
    print(f"results in {path}\nreport in {report.resolve().as_uri()}")
    return [name for name, figures in results["summary"].items() if not figures["n_scored"]]


@contextmanager
def _term_interrupts() -> Iterator[None]:
    """A polite kill stops the run as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt
