"""`apply-eval run`: contestants answer a data set; rows, results and a report come out."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, get_args

from apply_eval.commands.progress import progress
from apply_eval.datasets import EditRecord, join_updates, read_records, write_records
from apply_eval.errors import DataError
from apply_eval.metrics.summary import SummaryOptions
from apply_eval.own_edits import own_records
from apply_eval.running.plan import DEFAULT_DRAFTERS, RunOptions, ServerOptions, plan_of
from apply_eval.running.results import ROWS, build_results, write_results
from apply_eval.running.rows import facts_of
from apply_eval.running.rows_file import RowsFile
from apply_eval.scorers.trust import CONFIDENCE_THRESHOLD
from apply_eval.transports import TRANSPORTS
from apply_service.errors import ApplyError, InvalidField
from apply_service.types import Strategy

FAILED, INTERRUPTED = 1, 130
OWN_DATA = "data.jsonl"
OWN_LIMIT, OWN_MAX_LINES = 24, 100


def add_run(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    _add_data(parser)
    _add_contestants(parser)
    parser.add_argument("--strategy", choices=get_args(Strategy), default="auto", help="who decides (default: auto)")
    parser.add_argument(
        "--constrain", choices=("sources", "none"), help="the copy constraint (default: the target's own choice)"
    )
    parser.add_argument("--concurrency", type=_positive, metavar="N", default=1, help="requests at a time (default: 1)")
    parser.add_argument(
        "--repeats", type=_positive, metavar="N", default=1, help="times each sample is run; medians count"
    )
    parser.add_argument("--timeout", type=float, default=600.0, metavar="S", help="deadline of a request in seconds")
    parser.add_argument("--seed", type=int, metavar="N", default=0, help="of the order, of sampling, of the intervals")
    parser.add_argument("--price-per-hour", type=float, metavar="P", help="of the machine: adds costs to the results")
    parser.add_argument(
        "--confidence-threshold",
        type=float,
        metavar="P",
        default=CONFIDENCE_THRESHOLD,
        help="less counts as flagged (%(default)s)",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="folder; a run that was stopped there goes on"
    )
    parser.add_argument("--fresh", action="store_true", help="throw away what lies in --out")
    parser.set_defaults(command=run)


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=Path, metavar="FILE", help="a data set, JSONL (default: edits mined from this project's history)"
    )
    parser.add_argument(
        "--updates", type=Path, metavar="FILE", help="JSONL with `id` and `update`: replaces the snippets"
    )
    parser.add_argument(
        "--limit", type=_positive, metavar="N", help=f"only the first N samples (without --data: {OWN_LIMIT})"
    )
    parser.add_argument(
        "--max-lines",
        type=_positive,
        metavar="N",
        help=f"only files of at most N lines (without --data: {OWN_MAX_LINES})",
    )


def _add_contestants(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--drafters",
        type=_names,
        metavar="A,B",
        help=f"comma-separated, `+` chains two (default: {','.join(DEFAULT_DRAFTERS)})",
    )
    parser.add_argument(
        "--no-plain", action="store_true", help="leave out the undrafted baseline, and speed-ups with it"
    )
    parser.add_argument(
        "--peers",
        type=_peers,
        default={},
        metavar="A,B=URL",
        help="hf-plain, hf-prompt-lookup; vllm=URL, vllm-ngram=URL, vllm-suffix=URL",
    )
    parser.add_argument(
        "--target", default="embedded", metavar="NAME", help="embedded, a folder, a Hugging Face id, or replay:SHAPE"
    )
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"), help="of the target")
    parser.add_argument("--dtype", default="auto", choices=("auto", "float32", "bfloat16"), help="of its weights")
    parser.add_argument(
        "--window", type=_positive, metavar="N", help="drafted tokens of a pass (default: the engine's choice)"
    )
    parser.add_argument("--torch-threads", type=_positive, metavar="N", help="CPU threads of a pass")
    parser.add_argument("--kv-cache-mb", type=_positive, default=1024, metavar="N", help="for keys and values")
    parser.add_argument("--server", metavar="URL", help="measure a running service instead of a target in this process")
    parser.add_argument("--dialect", choices=tuple(TRANSPORTS), default="native", help="what the server speaks")
    parser.add_argument("--api-key", metavar="KEY", help="for the server; env:NAME reads it from the environment")
    parser.add_argument("--model", metavar="NAME", help="which of the server's models")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def _peers(text: str) -> dict[str, str | None]:
    """`a,b=URL` -> {a: None, b: URL}."""
    pairs = (part.partition("=") for part in _names(text))
    return {name: url if sign else None for name, sign, url in pairs}


# -- the command -------------------------------------------------------------------------------------------------------
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


def options_of(arguments: argparse.Namespace) -> RunOptions:
    """The options of the command line as values.

    Raises:
        InvalidField: options that have no effect together.
    """
    from apply_eval.runners.request import RequestOptions
    from apply_eval.runners.target import TargetOptions

    _refuse_idle_options(arguments)
    request = RequestOptions(arguments.strategy, arguments.constrain, arguments.seed, arguments.timeout)
    target = TargetOptions(
        arguments.target,
        arguments.device,
        arguments.dtype,
        arguments.window,
        arguments.torch_threads,
        arguments.kv_cache_mb,
    )
    server = None
    if arguments.server is not None:
        server = ServerOptions(arguments.server, arguments.dialect, arguments.model, _key(arguments.api_key))
    return RunOptions(
        drafters=arguments.drafters,
        peers=arguments.peers,
        target=target,
        server=server,
        request=request,
        with_plain=not arguments.no_plain,
        concurrency=arguments.concurrency,
        repeats=arguments.repeats,
    )


def _refuse_idle_options(arguments: argparse.Namespace) -> None:
    """An option that would be ignored is an error."""
    of_server = {"--api-key": arguments.api_key, "--model": arguments.model}
    idle = [name for name, value in of_server.items() if value is not None and arguments.server is None]
    if arguments.dialect != "native" and arguments.server is None:
        idle.append("--dialect")
    if arguments.target != "embedded" and (arguments.server is not None or arguments.strategy == "exact"):
        idle.append("--target")
    if arguments.dialect != "native" and arguments.strategy != "auto":
        idle.append("--strategy")
    if idle:
        raise InvalidField(f"{', '.join(idle)} would have no effect here", value=idle, remedy="leave it out")


def _key(text: str | None) -> str | None:
    if text is None or not text.startswith("env:"):
        return text
    name = text.removeprefix("env:")
    if name not in os.environ:
        raise InvalidField(f"the environment has no {name}", value=name, remedy="set it, or give the key itself")
    return os.environ[name]


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

    if not path.is_file() or not path.stat().st_size:
        return None
    sessions = read_rows_file(path).sessions
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
