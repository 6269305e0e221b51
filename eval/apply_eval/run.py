"""`apply-eval run`: contestants answer a data set; rows, results and a report come out."""

from __future__ import annotations

import argparse
import math
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from apply_eval import contest as contests
from apply_eval.datasets import EditRecord, chosen_records, write_records
from apply_eval.errors import DataError
from apply_eval.loop import Loop, RunOptions, plan_of, schedule
from apply_eval.mine import OWN_LIMIT, OWN_MAX_LINES, own_records
from apply_eval.numbers import print_results, progress, verdict_sentence
from apply_eval.provenance import provenance
from apply_eval.report import REPORT, write_report
from apply_eval.results import RESULTS, ROWS, build_results, read_results, write_results
from apply_eval.rows import RowsFile, facts_of, read_rows_file
from apply_eval.runners import RequestOptions
from apply_eval.services import ServerOptions, read_api_key
from apply_eval.summary import SummaryOptions
from apply_eval.target import TargetOptions
from apply_service.errors import ApplyError, InvalidField
from apply_service.types import Strategy

FAILED, INTERRUPTED = 1, 130
OWN_DATA = "data.jsonl"


def run(arguments: argparse.Namespace, *, until: float = math.inf, chats: Mapping[str, Any] | None = None) -> int:
    """Open, measure, write.  What is done when it stops is kept, whatever stops it.  With `until` (of
    `time.monotonic`) no sample is begun after it, and one sentence is printed in place of the table.  `chats`: the
    counts of the chats that the data comes from, for the results."""
    options = options_of(arguments)
    if arguments.fresh:
        for name in (ROWS, OWN_DATA, RESULTS, REPORT):  # what a run has written there, nothing else
            (arguments.out / name).unlink(missing_ok=True)
    records, files = _read_data(arguments)
    plain = None
    with suppress(DataError):  # nothing there yet, or no run: opening it for more tells which
        plain = next((start["plain"] for start in read_rows_file(arguments.out / ROWS).sessions), None)
    contest = contests.open_contest(options, records, plain=plain)  # going on must not change it
    with closing(contest):
        start, ids = provenance(files, seed=arguments.seed), [record.id for record in records]
        names = list(contest.runners)
        plan = plan_of(options, names=names, data=start["data"], sample_ids=ids, model=contest.model)
        with RowsFile(arguments.out / ROWS, plan) as file:
            file.add_session({**start, "model": contest.model, "plain": contest.plain})
            return _measure(arguments, records, contest, file, until, chats)


def options_of(arguments: argparse.Namespace) -> RunOptions:
    """The options of the command line as values.  Raises InvalidField: options that have no effect together."""
    is_here = arguments.server is None
    idle = [f"--{n.replace('_', '-')}" for n in ("api_key", "model") if is_here and getattr(arguments, n) is not None]
    if arguments.dialect != "native" and is_here:
        idle.append("--dialect")
    if arguments.target != "embedded" and (not is_here or arguments.strategy == "exact"):
        idle.append("--target")
    if arguments.dialect != "native" and arguments.strategy not in (None, "auto"):
        idle.append("--strategy")
    if idle:
        raise InvalidField(f"{', '.join(idle)} would have no effect here", value=idle, remedy="leave it out")
    # What decides in a server is what it serves; here drafts are compared, and a merge that is only scored takes none.
    strategy: Strategy = arguments.strategy or ("model" if arguments.server is None else "auto")
    server = None
    if arguments.server is not None:
        server = ServerOptions(arguments.server, arguments.dialect, arguments.model, read_api_key(arguments.api_key))
    own: dict[str, Any] = {n: getattr(arguments, n) for n in ("device", "dtype", "window", "kv_cache_mb")}
    # A contestant that decides parts of a file can't be compared with one that writes all of it.
    windows = "context" if strategy == "model" else "auto"
    return RunOptions(
        drafters=arguments.drafters,
        peers=arguments.peers,
        target=TargetOptions(arguments.target, windows=windows, **own),
        server=server,
        request=RequestOptions(strategy, arguments.constrain, arguments.seed, arguments.timeout),
        with_plain=not arguments.no_plain,
    )


def _read_data(arguments: argparse.Namespace) -> tuple[list[EditRecord], list[Path]]:
    """The samples, and the files they come from."""
    path = arguments.data or arguments.out / OWN_DATA
    if arguments.data is None and not path.is_file():  # mined once a run: history may have grown when it goes on
        limit, max_lines = arguments.limit or OWN_LIMIT, arguments.max_lines or OWN_MAX_LINES
        write_records(path, own_records(limit=limit, max_lines=max_lines, seed=arguments.seed))
    records, files = chosen_records(path, updates=arguments.updates, split=arguments.split)
    if arguments.max_lines is not None:
        records = [record for record in records if record.measures.n_lines_before <= arguments.max_lines]
    if not records:
        raise DataError("no sample is as short as that", value=arguments.max_lines, remedy="raise --max-lines")
    return records[: arguments.limit], files


def _measure(
    arguments: argparse.Namespace,
    records: Sequence[EditRecord],
    contest: contests.Contest,
    file: RowsFile,
    until: float,
    chats: Mapping[str, Any] | None,
) -> int:
    turns = schedule([record.id for record in records], list(contest.runners), seed=arguments.seed)
    loop = Loop({record.id: record for record in records}, contest.runners, file, until=until)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill stops the run as Ctrl-C does
    n_done, stopped = sum(row.is_scored for row in file.record.rows), None
    with progress("run", len(turns), n_done) as advance:
        loop.on_row = lambda _: advance()
        try:
            if loop.pending(turns):
                loop.warm_up(min(records, key=lambda record: len(record.before)))
            loop.run(turns)
        except (KeyboardInterrupt, ApplyError) as error:
            stopped = error
    if isinstance(stopped, KeyboardInterrupt) and not file.record.rows:
        return INTERRUPTED
    summary = SummaryOptions(arguments.seed, arguments.confidence_threshold, arguments.price_per_hour)
    results = build_results(file.record, [facts_of(record) for record in records], summary, plain=contest.plain)
    if chats is not None:
        results["chats"] = chats
    path = write_results(arguments.out, results)
    report = write_report(read_results(arguments.out), arguments.out)
    if until < math.inf or chats is not None:
        print("\n".join(verdict_sentence(figures) for figures in results["summary"].values()))
    else:
        print_results(results)
    print(f"results in {path}\nreport in {report.resolve().as_uri()}")
    if isinstance(stopped, ApplyError):
        raise stopped
    if stopped is not None:
        print("stopped: what is done is kept, the same command goes on", file=sys.stderr)
        return INTERRUPTED
    unscored = [name for name, figures in results["summary"].items() if not figures["n_scored"]]
    if unscored:
        print(f"apply-eval: no sample of {', '.join(unscored)} could be scored", file=sys.stderr)
    return FAILED if unscored else 0
