"""`apply-eval`: make data sets of real edits, and measure on them.

Parses arguments, calls one function, prints.  What needs packages beyond a plain install is imported where it is used.
Exit codes: 0 done, 1 the measured thing failed (peers: a wrong answer that no verdict tells; run: a contestant of whom
nothing could be scored; compare: a regression; lossless: drafts change answers, or it could not be told), 2 bad
arguments or data, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

from apply_eval.arguments import DEFAULT_DRAFTERS, DIALECTS, ENDPOINTS, SPLITS, json_object, positive, probability
from apply_eval.compare import print_comparison
from apply_eval.datasets import EditKind, chosen_records, write_records
from apply_eval.errors import DataError
from apply_eval.mine import OWN_EDITS, OWN_LIMIT, OWN_MAX_LINES, OWN_PROMPTS, MineFilter, StyleMix, mine
from apply_eval.numbers import print_results, progress
from apply_eval.provenance import provenance
from apply_eval.results import read_results
from apply_eval.statistics import CONFIDENCE_THRESHOLD
from apply_service.commands.output import print_error
from apply_service.errors import ApplyError, missing_extra
from apply_service.registry import EDIT_FORMATS
from apply_service.types import Strategy

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
EXTRA = ("huggingface_hub", "tokenizers", "torch", "transformers")
"""What a plain install leaves out."""
TARGET_EDITS = 200
"""Answered twice, unless the user says how many."""
LOSSLESS_LIMIT = 25
"""So many edits and free prompts, greedy and seeded: a hundred requests with drafts, two hundred without."""
Add = Callable[..., argparse.Action]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    arguments = build_parser().parse_args(argv)
    try:
        code: int = arguments.command(arguments)
    except ApplyError as error:
        print_error(error, program="apply-eval")
        return BAD_INPUT
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA:
            raise
        print_error(missing_extra(f"This needs {package}", "eval"), program="apply-eval")
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def build_parser() -> argparse.ArgumentParser:
    """All commands with their options."""
    parser = argparse.ArgumentParser(prog="apply-eval", description=__doc__.split("\n")[0] if __doc__ else None)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add_command(name: str, command: Callable[[argparse.Namespace], int], says: str) -> Add:
        own = commands.add_parser(name, help=says, allow_abbrev=False)
        own.set_defaults(command=command)
        return own.add_argument

    says = "edits of a repository's own history, in two minutes: how many the service gets right, in one sentence"
    _add_quick(add_command("quick", _quick, says))
    _add_chats(
        add_command("chats", _chats, "replies in a repository's chat histories, beside the commits that they made")
    )
    _add_mine(add_command("mine", _mine, "real edits out of a local git history, with lazy snippets"))
    _add_merge(add_command("merge", _merge, "the deterministic merger on a data set"))

    add = add_command("peers", _peers, "other projects' cases of edit formats, strategy exact")
    add("--data", type=Path, required=True, help="the cases, JSONL (.xz may be)")
    add("--out", type=Path, help="folder for results.json")

    _add_run(add_command("run", _run, "drafters, peers or a service on a data set: right answers, speed, report"))

    says = "what a target decides better than the merge, by kind of edit, for its record or the setting `decides`"
    _add_target(add_command("target", _target, says))

    says = "whether a server's drafts change what it writes, and whether they pay: any OpenAI-compatible server"
    _add_lossless(add_command("lossless", _lossless, says))

    add = add_command("report", _report, "the HTML page of a run")
    add("run", type=Path, metavar="RUN", help="the --out of a run, or its results.json")
    add("--out", type=Path, metavar="FOLDER", help="folder of the page (default: the run's)")

    add = add_command("compare", _compare, "two runs on the same samples; fails on a regression")
    add("a", type=Path, metavar="A", help="the run before: its --out, or its results.json")
    add("b", type=Path, metavar="B", help="the run after")
    text = "compare contestant A with B (default: equal names)"
    add("--pair", action="append", default=[], metavar="A=B", help=text)
    return parser


def _add_data(add: Add, *, default: Path | None, default_is: str, limit: int | None = None) -> None:
    add("--data", type=Path, default=default, metavar="FILE", help=f"a data set, JSONL (default: {default_is})")
    add("--updates", type=Path, metavar="FILE", help="JSONL with `id` and `update`: replaces the snippets")
    add("--split", choices=SPLITS, help="only this part of the data set")
    limit_help = (
        "only the first N samples" if limit is None else f"the N shortest, and N free prompts (default: {limit})"
    )
    add("--limit", type=positive, default=limit, metavar="N", help=limit_help)


def _write_json(path: Path, results: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"results in {path}")


# -- quick -------------------------------------------------------------------------------------------------------------
QUICK_S, QUICK_EDIT_S, QUICK_MAX_LINES = 90, 20, 400
"""No edit is begun after so long, none may take longer, and no file is longer: two minutes in all on two cores."""


def _add_quick(add: Add) -> None:
    add("repo", type=Path, nargs="?", default=Path(), metavar="REPO", help="a local git repository (default: here)")
    add("--limit", type=positive, default=20, metavar="N", help="edits at most (default: %(default)s)")
    strategy_help = "who decides (default: %(default)s, as the service does)"
    add("--strategy", choices=get_args(Strategy), default="auto", help=strategy_help)
    add("--target", default="embedded", metavar="NAME", help="embedded, a folder, or a Hugging Face id")
    add("--seed", type=int, default=0, metavar="N", help="which edits are drawn, and how their snippets are written")
    add("--out", type=Path, metavar="FOLDER", help="folder of the report (default: a new one for temporary files)")


def _quick(arguments: argparse.Namespace) -> int:
    until, wanted = time.monotonic() + QUICK_S, MineFilter(max_lines=QUICK_MAX_LINES)
    out: Path = arguments.out or Path(tempfile.mkdtemp(prefix="apply-eval-"))
    found = mine(arguments.repo, filters=wanted, limit=arguments.limit, seed=arguments.seed, styles="mixed")
    write_records(out / "edits.jsonl", found)
    options = {"data": out / "edits.jsonl", "timeout": QUICK_EDIT_S, "out": out}
    options |= {name: getattr(arguments, name) for name in ("strategy", "target", "seed")}
    return _run_as_served(options, until=until)


# -- chats -------------------------------------------------------------------------------------------------------------
def _add_chats(add: Add) -> None:
    add("repo", type=Path, nargs="?", default=Path(), metavar="REPO", help="a local git repository (default: here)")
    add("--limit", type=positive, metavar="N", help="only the first N edits")
    strategy_help = "who decides (default: %(default)s, as the service does)"
    add("--strategy", choices=get_args(Strategy), default="auto", help=strategy_help)
    add("--target", default="embedded", metavar="NAME", help="embedded, a folder, or a Hugging Face id")
    add("--timeout", type=float, default=120.0, metavar="S", help="deadline of an answer (default: %(default)s)")
    add("--seed", type=int, default=0, metavar="N", help="of the order and of the intervals")
    out_help = "folder of the replies, results and report (default: a new one for temporary files)"
    add("--out", type=Path, metavar="FOLDER", help=out_help)


def _chats(arguments: argparse.Namespace) -> int:
    from apply_eval.chats import find_edits, tell_counts

    found = find_edits(arguments.repo, limit=arguments.limit)
    print("\n".join(tell_counts(found.counts)))
    out: Path = arguments.out or Path(tempfile.mkdtemp(prefix="apply-eval-"))
    write_records(out / "edits.jsonl", found.records)
    options = {name: getattr(arguments, name) for name in ("strategy", "target", "timeout", "seed")}
    return _run_as_served({"data": out / "edits.jsonl", "out": out, **options}, chats=found.counts)


def _run_as_served(options: dict[str, Any], **more: Any) -> int:
    """A run of the service as it ships: it doubts what is below the merger's threshold."""
    from apply_eval.merge import shipped_threshold  # loads the grammars
    from apply_eval.run import run  # loads the engine

    options["confidence-threshold"] = shipped_threshold()
    words = [f"--{name}={value}" for name, value in options.items()]
    return run(build_parser().parse_args(["run", *words, "--no-plain", "--fresh"]), **more)


# -- data sets ---------------------------------------------------------------------------------------------------------
def _add_mine(add: Add) -> None:
    wanted = MineFilter()
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


def _mine(arguments: argparse.Namespace) -> int:
    given, own = vars(arguments), MineFilter.__dataclass_fields__
    filters = MineFilter(
        languages=frozenset(arguments.language), **{name: value for name, value in given.items() if name in own}
    )
    same = {name: given[name] for name in ("limit", "seed", "styles", "name", "licence")}
    n_written = write_records(arguments.out, list(mine(arguments.repo, filters=filters, **same)))
    print(f"{n_written} edits written to {arguments.out}")
    return 0


# -- the merger --------------------------------------------------------------------------------------------------------
def _add_merge(add: Add) -> None:
    _add_data(add, default=OWN_EDITS, default_is="shipped edits of this project")
    threshold_help = "answers from P on count as applied unseen (default: as shipped)"
    add("--threshold", type=probability, metavar="P", help=threshold_help)
    add("--seed", type=int, default=0, metavar="N", help="of the bootstrap's intervals")
    add("--out", type=Path, metavar="FOLDER", help="folder for results.json")
    add("--json", type=Path, metavar="FILE", help="the figures without the rows, to be committed")
    add("--format", choices=("auto", *EDIT_FORMATS), default="auto", help="the edits' format")


def _merge(arguments: argparse.Namespace) -> int:
    from apply_eval import merge  # loads the grammars

    records, files = chosen_records(arguments.data, updates=arguments.updates, split=arguments.split)
    records = records[: arguments.limit]
    with progress("merge", len(records)) as advance:
        rows = merge.run_merge(records, merge.format_merger(arguments.format), on_row=advance)
    threshold = merge.shipped_threshold() if arguments.threshold is None else arguments.threshold
    summary = {**merge.summarise(rows, threshold=threshold, seed=arguments.seed), "split": arguments.split}
    merge.print_wrong_certain(rows, records)
    merge.print_summary(summary)
    results = {**summary, "provenance": provenance(files, seed=arguments.seed)}
    if arguments.out is not None:
        _write_json(arguments.out / "results.json", results)
    if arguments.json is not None:
        _write_json(arguments.json, {name: value for name, value in results.items() if name != "rows"})
    return 0


def _peers(arguments: argparse.Namespace) -> int:
    from apply_eval import peers  # loads the grammars

    with progress("peers", None) as advance:
        rows = peers.run_peers(arguments.data, on_case=advance)
    peers.print_peers(rows)
    if arguments.out is not None:
        results = {**peers.summarise_peers(rows), "provenance": provenance([arguments.data])}
        _write_json(arguments.out / "results.json", results)
    return FAILED if any(row.outcome == "silent" for row in rows) else 0


# -- what a target may decide ------------------------------------------------------------------------------------------
def _add_target(add: Add) -> None:
    add("target", metavar="MODEL", help="embedded, a folder, a GGUF file, or a Hugging Face id")
    _add_data(add, default=None, default_is="edits of --repo, with snippets as careless models write them")
    add("--repo", type=Path, default=Path(), help="a local git repository (default: here)")
    add("--max-lines", type=positive, default=QUICK_MAX_LINES, help="of a file (default: %(default)s)")
    add("--seed", type=int, default=0, metavar="N", help="which edits are drawn, and how their snippets are written")
    add("--timeout", type=float, default=120.0, metavar="S", help="deadline of an answer (default: %(default)s)")
    add("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"), help="of the target")
    add("--write", action="store_true", help="put the counts into the record of MODEL, a folder")
    add("--json", type=Path, metavar="FILE", help="the counts, to be kept")


def _target(arguments: argparse.Namespace) -> int:
    from apply_eval import decides  # loads the engine
    from apply_service.build import build_runtime
    from apply_service.settings import Settings

    folder = Path(arguments.target).expanduser()
    if arguments.write and not folder.is_dir():
        raise DataError("--write puts the counts into a folder", value=arguments.target, remedy="name a folder")
    files: list[Path] = []
    if arguments.data is not None:
        records, files = chosen_records(arguments.data, updates=arguments.updates, split=arguments.split)
    else:
        wanted = MineFilter(max_lines=arguments.max_lines)
        limit = arguments.limit or TARGET_EDITS
        records = list(mine(arguments.repo, filters=wanted, limit=limit, seed=arguments.seed, styles="sloppy"))
    runtime = build_runtime(Settings(model=arguments.target, device=arguments.device))
    runtime.load(arguments.target)
    pairs = []
    with progress("target", len(records[: arguments.limit])) as advance:
        for record in records[: arguments.limit]:
            if (pair := decides.compare_edit(record, runtime, arguments.timeout)) is not None:
                pairs.append(pair)
            advance()
    counts = decides.count_kinds(pairs)
    decides.print_counts(counts)
    if arguments.json is not None:
        told = {kind: count._asdict() for kind, count in counts.items()}
        _write_json(arguments.json, {"counts": told, "provenance": provenance(files, seed=arguments.seed)})
    if arguments.write:
        print(f"counts in {decides.write_counts(folder, counts)}")
    return 0


# -- runs --------------------------------------------------------------------------------------------------------------
def _add_run(add: Add) -> None:
    own = f"{OWN_LIMIT} edits of files of at most {OWN_MAX_LINES} lines, mined from this project's history"
    _add_data(add, default=None, default_is=own)
    add("--max-lines", type=positive, metavar="N", help="only files of at most N lines")
    drafters_help = f"comma-separated, `+` chains two (default: {','.join(DEFAULT_DRAFTERS)})"
    add("--drafters", type=_names, metavar="A,B", help=drafters_help)
    add("--no-plain", action="store_true", help="leave out the undrafted baseline, and speed-ups with it")
    peers_help = (
        "hf-plain, hf-prompt-lookup, hf-prompt-lookup-128; vllm=URL, vllm-ngram=URL, vllm-ngram-128=URL, "
        "vllm-suffix=URL, vllm-merged-edit=URL"
    )
    add("--peers", type=_peer_urls, default={}, metavar="A,B=URL", help=peers_help)
    target_help = "embedded, a folder, a Hugging Face id, or replay:SHAPE"
    add("--target", default="embedded", metavar="NAME", help=target_help)
    add("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"), help="of the target")
    add("--dtype", default="auto", choices=("auto", "float32", "bfloat16"), help="of its weights")
    add("--window", type=positive, metavar="N", help="drafted tokens of a pass (default: the engine's choice)")
    add("--kv-cache-mb", type=positive, default=1024, metavar="N", help="for keys and values")
    add("--server", metavar="URL", help="measure a running service instead of a target in this process")
    add("--dialect", choices=DIALECTS, default="native", help="what the server speaks")
    add("--api-key", metavar="KEY", help="for the server; env:NAME reads it from the environment")
    add("--model", metavar="NAME", help="which of the server's models")
    strategy_help = "who decides (default: model, as a merge that is only scored takes no drafts; auto for a server)"
    add("--strategy", choices=get_args(Strategy), help=strategy_help)
    constrain_help = "the copy constraint (default: the target's own choice)"
    add("--constrain", choices=("sources", "none"), help=constrain_help)
    add("--timeout", type=float, default=600.0, metavar="S", help="deadline of a request in seconds")
    add("--seed", type=int, metavar="N", default=0, help="of the order, of sampling, of the intervals")
    threshold_help = "less counts as flagged (%(default)s)"
    add("--confidence-threshold", type=float, metavar="P", default=CONFIDENCE_THRESHOLD, help=threshold_help)
    add("--price-per-hour", type=float, metavar="P", help="of the machine: also tell what a million tokens cost")
    add("--out", type=Path, required=True, metavar="FOLDER", help="folder; a run that was stopped there goes on")
    add("--fresh", action="store_true", help="throw away what lies in --out")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def _peer_urls(text: str) -> dict[str, str | None]:
    """`a,b=URL` -> {a: None, b: URL}."""
    pairs = (part.partition("=") for part in _names(text))
    return {name: url if sign else None for name, sign, url in pairs}


def _run(arguments: argparse.Namespace) -> int:
    from apply_eval.run import run  # loads the engine

    return run(arguments)


# -- drafts on any server ----------------------------------------------------------------------------------------------
def _add_lossless(add: Add) -> None:
    add("url", metavar="URL", help="the server, with drafts; /v1 is added where it has no path")
    add("--plain", metavar="URL", help="the same model on a server without drafts")
    on_help = "fields of each body that turn drafts on, such as '{\"speculative\": true}'; null takes a field out"
    add("--on", type=json_object, metavar="JSON", help=on_help)
    add("--off", type=json_object, metavar="JSON", help="fields that turn them off")
    endpoint_help = "chat completions, or completions (default: %(default)s)"
    add("--endpoint", choices=ENDPOINTS, default="chat", help=endpoint_help)
    add("--model", metavar="NAME", help="which of the server's models (default: the first that it lists)")
    add("--api-key", metavar="KEY", help="for the server; env:NAME reads it from the environment")
    _add_data(add, default=OWN_EDITS, default_is="shipped edits of this project", limit=LOSSLESS_LIMIT)
    add("--prompts", type=Path, default=OWN_PROMPTS, metavar="FILE", help="free prompts, one a line (default: shipped)")
    tokens_help = "of a free prompt's answer; an edit's may be as long as its file (default: %(default)s)"
    add("--max-tokens", type=positive, default=256, metavar="N", help=tokens_help)
    temperature_help = "of the seeded half; 0 leaves it out (default: %(default)s)"
    add("--temperature", type=float, default=0.8, metavar="T", help=temperature_help)
    add("--seed", type=int, default=0, metavar="N", help="of the order, and of the sampling")
    add("--stream", action="store_true", help="ask for streams")
    add("--tell-edit", action="store_true", help="send each edit to our plug-in in vLLM, with drafts")
    add("--timeout", type=float, default=600.0, metavar="S", help="deadline of a request in seconds")
    add("--price-per-hour", type=float, metavar="P", help="of the server: also tell what a million tokens cost")
    add("--out", type=Path, metavar="FOLDER", help="folder for results.json and report.html")


def _lossless(arguments: argparse.Namespace) -> int:
    from apply_eval.lossless import run

    return run(arguments)


def _report(arguments: argparse.Namespace) -> int:
    from apply_eval.report import write_report

    results = read_results(arguments.run)
    folder = arguments.run if arguments.run.is_dir() else arguments.run.parent
    path = write_report(results, arguments.out or folder)
    print_results(results.values)
    print(f"report in {path.resolve().as_uri()}")
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    worse = print_comparison(read_results(arguments.a), read_results(arguments.b), arguments.pair)
    return FAILED if worse else 0


if __name__ == "__main__":
    raise SystemExit(main())
