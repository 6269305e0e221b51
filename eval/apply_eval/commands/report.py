"""`apply-eval report`: the HTML page of a run, or of several at different concurrencies."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_report(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("run", type=Path, metavar="RUN", help="the --out of a run, or its results.json")
    parser.add_argument(
        "others",
        type=Path,
        nargs="*",
        metavar="RUN...",
        help="runs of the same at other concurrencies, for the throughput curve",
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="folder of the page (default: the run's)")
    parser.set_defaults(command=report)


def report(arguments: argparse.Namespace) -> int:
    """Read, draw, write."""

    from apply_eval.report.page import write_report
    from apply_eval.report.terminal import print_results
    from apply_eval.running.results import read_results

    results = read_results(arguments.run)
    folder = arguments.run if arguments.run.is_dir() else arguments.run.parent
    others = [read_results(path) for path in arguments.others]
    path = write_report(results, arguments.out or folder, others=others)
    print_results(results.values)
    print(f"report in {path.resolve().as_uri()}")
    return 0
