"""The options of `apply-eval run`, and the values they stand for."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import cast, get_args

from apply_eval.arguments import SPLITS, positive
from apply_eval.running.plan import DEFAULT_DRAFTERS, RunOptions, ServerOptions
from apply_eval.scorers.trust import CONFIDENCE_THRESHOLD
from apply_eval.transports import TRANSPORTS
from apply_service.errors import InvalidField
from apply_service.types import Strategy

OWN_LIMIT, OWN_MAX_LINES = 24, 100
"""Of the default data: minutes on two cores."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add them to the parser."""
    _add_data(parser)
    _add_contestants(parser)
    parser.add_argument(
        "--strategy",
        choices=get_args(Strategy),
        help="who decides (default: model, as a merge that is only scored takes no drafts; auto for a server)",
    )
    parser.add_argument(
        "--constrain", choices=("sources", "none"), help="the copy constraint (default: the target's own choice)"
    )
    parser.add_argument("--concurrency", type=positive, metavar="N", default=1, help="requests at a time (default: 1)")
    parser.add_argument(
        "--repeats", type=positive, metavar="N", default=1, help="times each sample is run; medians count"
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


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=Path, metavar="FILE", help="a data set, JSONL (default: edits mined from this project's history)"
    )
    parser.add_argument(
        "--updates", type=Path, metavar="FILE", help="JSONL with `id` and `update`: replaces the snippets"
    )
    parser.add_argument("--split", choices=SPLITS, help="only this part of the data set")
    parser.add_argument(
        "--limit", type=positive, metavar="N", help=f"only the first N samples (without --data: {OWN_LIMIT})"
    )
    parser.add_argument(
        "--max-lines",
        type=positive,
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
        help="hf-plain, hf-prompt-lookup; vllm=URL, vllm-ngram=URL, vllm-suffix=URL, vllm-merged-edit=URL",
    )
    parser.add_argument(
        "--target", default="embedded", metavar="NAME", help="embedded, a folder, a Hugging Face id, or replay:SHAPE"
    )
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"), help="of the target")
    parser.add_argument("--dtype", default="auto", choices=("auto", "float32", "bfloat16"), help="of its weights")
    parser.add_argument(
        "--window", type=positive, metavar="N", help="drafted tokens of a pass (default: the engine's choice)"
    )
    parser.add_argument("--torch-threads", type=positive, metavar="N", help="CPU threads of a pass")
    parser.add_argument("--kv-cache-mb", type=positive, default=1024, metavar="N", help="for keys and values")
    parser.add_argument("--server", metavar="URL", help="measure a running service instead of a target in this process")
    parser.add_argument("--dialect", choices=tuple(TRANSPORTS), default="native", help="what the server speaks")
    parser.add_argument("--api-key", metavar="KEY", help="for the server; env:NAME reads it from the environment")
    parser.add_argument("--model", metavar="NAME", help="which of the server's models")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def _peers(text: str) -> dict[str, str | None]:
    """`a,b=URL` -> {a: None, b: URL}."""
    pairs = (part.partition("=") for part in _names(text))
    return {name: url if sign else None for name, sign, url in pairs}


# -- values -----------------------------------------------------------------------------------------------------------
def options_of(arguments: argparse.Namespace) -> RunOptions:
    """The options of the command line as values.

    Raises:
        InvalidField: options that have no effect together.
    """
    from apply_eval.runners.request import RequestOptions
    from apply_eval.runners.target import TargetOptions

    _refuse_idle_options(arguments)
    request = RequestOptions(_strategy(arguments), arguments.constrain, arguments.seed, arguments.timeout)
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


def _strategy(arguments: argparse.Namespace) -> Strategy:
    if arguments.strategy is not None:
        return cast(Strategy, arguments.strategy)
    return "auto" if arguments.server is not None else "model"


def _refuse_idle_options(arguments: argparse.Namespace) -> None:
    """An option that would be ignored is an error."""
    of_server = {"--api-key": arguments.api_key, "--model": arguments.model}
    idle = [name for name, value in of_server.items() if value is not None and arguments.server is None]
    if arguments.dialect != "native" and arguments.server is None:
        idle.append("--dialect")
    if arguments.target != "embedded" and (arguments.server is not None or arguments.strategy == "exact"):
        idle.append("--target")
    if arguments.dialect != "native" and arguments.strategy not in (None, "auto"):
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
