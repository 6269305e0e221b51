"""Which drafter for which work: every drafter alone and behind the copied sources, on one target, in one run.

    python -m benchmarks.decoding.drafters --model FOLDER [--draft-model FOLDER] [--head eagle3=FOLDER]... --out FILE

Three kinds of work on the same edits: `instruction` (the commit's subject alone), `whole_file` (the update is the whole
new file) and `lazy` (the snippet).  The target decides token by token, in all of them, up to `--tokens` tokens.  All
contenders take turns on each edit.  `plain` is the undrafted run, unpadded; `times_plain` is of the decoding alone.
`differs` counts outputs that are not those of the padded run without drafts (`--law`).

With `--vllm NAME=URL#PID` vLLM's servers take part in place of our engine, after their first token.  Seconds are the
processor time of the process PID and its children, and `plain` is the server `vllm`.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

from apply_eval.datasets import EditRecord, chosen_records
from apply_eval.decoders import METHODS, Vllm
from apply_eval.library import library_model
from apply_eval.mine import OWN_EDITS
from apply_eval.provenance import provenance, safe_path
from apply_eval.runners import RequestOptions
from apply_service.build import build_runtime
from apply_service.drafting.drafter import drafter_names
from apply_service.engine.heads.base import open_head
from apply_service.engine.torch_local import TorchEngine
from apply_service.errors import UnsupportedParameter
from apply_service.models import EMBEDDED, embedded_directory
from apply_service.registry import HEADS, NO_DRAFTS, head_of
from apply_service.settings import Settings
from apply_service.target import Runtime, Target, in_process, open_decoding
from apply_service.text.fidelity import normalise
from apply_service.types import ApplyRequest
from benchmarks.decoding.cases import make_case
from benchmarks.decoding.contenders import (
    LOOKUP_TOKENS,
    Case,
    PeerContender,
    describe_device,
    read_prompts,
    wait_for_device,
    write_outputs,
)
from benchmarks.report import number, table, told_errors, write_result

WORKS = ("instruction", "whole_file", "lazy")
COPIES = "merged_edit+suffix"
PLAIN, VLLM = "plain", "vllm"
OPTIONS = ("limit", "tokens", "max_tokens", "temperature", "law", "new_text")
"""What the result keeps of the options."""


@dataclass
class Tally:
    """Sums over the edits of one kind of work, by one contender."""

    n_edits: int = 0
    n_tokens: int = 0
    passes: int = 0
    drafted: int = 0
    accepted: int = 0
    seconds: float = 0.0
    differs: int | None = None

    def row(self, plain: Tally) -> dict[str, Any]:
        """What a line of the table says."""
        # the library verifies its first draft with the prompt: a short output may need no pass of its own
        speed = self.n_tokens / self.seconds if self.seconds else None
        times_plain = None if speed is None else speed * plain.seconds / plain.n_tokens
        return {
            "n_edits": self.n_edits,
            "acceptance": round(self.accepted / self.drafted, 4) if self.drafted else None,
            "tokens_per_pass": round(self.n_tokens / self.passes, 3) if self.passes else None,
            "passes_per_edit": round(self.passes / self.n_edits, 2),
            "tok_s": None if speed is None else round(speed, 3),
            "times_plain": None if times_plain is None else round(times_plain, 3),
            "differs": self.differs,
        }


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    with told_errors():
        result = measure(options)
    write_result(options.out, result)
    print(render(result))
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decoding.drafters", description=__doc__)
    parser.add_argument("--model", required=True, help="folder of the target, or `embedded`")
    parser.add_argument("--draft-model", help="folder of a smaller model with the same tokenizer")
    text = "NAME, or NAME=FOLDER for one with its own files; `p-eagle` is the parallel form of `eagle3`"
    parser.add_argument("--head", action="append", default=[], help=text)
    parser.add_argument("--drafters", help="these names alone, separated by commas; default: all, and behind " + COPIES)
    parser.add_argument("--data", type=Path, default=OWN_EDITS, help="edits; default: this project's own")
    parser.add_argument("--works", default=",".join(WORKS))
    parser.add_argument("--limit", type=int, default=12, help="edits drawn at random")
    parser.add_argument("--tokens", type=int, default=256, help="tokens after which an output is cut")
    parser.add_argument("--max-tokens", type=int, default=4_096, help="context that an edit may take")
    text = "only edits of which the target writes more than a part of the file, within --tokens"
    parser.add_argument("--new-text", action="store_true", help=text)
    parser.add_argument("--peers", action="store_true", help="the library's prompt lookup as well")
    text = f"vLLM's servers on the same model, NAME=URL#PID, in place of ours: {', '.join(METHODS)}"
    parser.add_argument("--vllm", action="append", default=[], help=text)
    parser.add_argument("--law", action="store_true", help="compare with the padded run without drafts, which is slow")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run everything.  Raises as `load_target` and `open_head` do."""
    records, files = chosen_records(options.data, updates=None, split=None)
    random.Random(options.seed).shuffle(records)
    heads = dict(head.partition("=")[::2] for head in options.head)
    if unknown := set(map(drafter_of, heads)) - HEADS.keys():
        raise UnsupportedParameter("no such head", value=sorted(unknown), limit=list(HEADS), remedy="name one of these")
    settings = Settings(
        model=options.model,
        draft_model=options.draft_model,
        engine="torch",
        dtype=options.dtype,
        device=options.device,
        prefix_cache_mb=0,
    )
    runtime = build_runtime(settings)
    target = in_process(runtime.load(options.model))
    engine: Any = target.engine
    contenders: dict[str, Any] = dict(map(partial(open_server, runtime), options.vllm))
    base = VLLM if contenders else PLAIN
    contenders = contenders or dict(open_contenders(target, heads, options))
    tallies: dict[str, dict[str, Tally]] = {work: defaultdict(Tally) for work in options.works.split(",")}
    for work, by_name in tallies.items():
        cases = (case for record in records if (case := case_of(record, work, target, options)) is not None)
        chosen = (case for case in cases if not options.new_text or has_new_text(case, target, options))
        for i, case in enumerate(islice(chosen, options.limit)):
            names = [*contenders]
            for name in names if i == 0 else ():
                if head_of(drafter_of(name)) is not None:  # a head may look at its target before its first draft
                    run(name, contenders[name], target, case, options, Tally())
            first = i % len(names)
            wanted = decode(target, NO_DRAFTS, case, options, Tally()) if options.law else None
            written = {
                name: run(name, contenders[name], target, case, options, by_name[name])
                for name in names[first:] + names[:first]
            }
            wanted = written.get(VLLM, wanted)
            for name, ids in written.items():
                if wanted is not None and name not in (base, *LOOKUP_TOKENS):
                    by_name[name].differs = (by_name[name].differs or 0) + (ids != wanted)
            print(f"{work}: edit {i + 1}", file=sys.stderr, flush=True)
    return {
        "kind": "drafters",
        "provenance": provenance(files, seed=options.seed),
        "device": describe_device(options.device),
        "model": safe_path(options.model),
        "dtype": str(engine.pool.shape.dtype).removeprefix("torch."),
        "determinism": engine.determinism,
        "options": {
            name: getattr(options, name) for name in ("limit", "tokens", "max_tokens", "temperature", "law", "new_text")
        },
        "works": {
            work: {name: tally.row(by_name[base]) for name, tally in by_name.items() if tally.n_edits}
            for work, by_name in tallies.items()
        },
    }


def open_contenders(
    target: Target, heads: Mapping[str, str], options: argparse.Namespace
) -> Iterator[tuple[str, Target | PeerContender]]:
    """Yield each contender by its name; every drafter learns what is accepted of its own drafts alone."""
    engine: Any = target.engine
    yield PLAIN, replace(target, engine=engine.plain())
    if options.peers:
        yield from (
            (name, PeerContender(name, target, library_model(engine))) for name, n in LOOKUP_TOKENS.items() if n
        )
    with_heads = {name: beside(target, name, folder, options) for name, folder in heads.items()}
    names = [name for name in drafter_names(has_draft_model=options.draft_model is not None) if name != NO_DRAFTS]
    for label in heads:
        kind = drafter_of(label)
        known = drafter_names(has_draft_model=False, head=kind)
        names += [name.replace(kind, label) for name in known if head_of(name)]
    chosen = [name for name in dict.fromkeys(names) if "+" not in name or name.startswith(COPIES)]
    for name in chosen if options.drafters is None else options.drafters.split(","):
        head = next((part for part in name.split("+") if part in with_heads), None)
        yield name, replace(target if head is None else with_heads[head], learnt={})


def drafter_of(name: str) -> str:
    """Return the registry's name of a contender: P-EAGLE's heads are a form of `eagle3`."""
    return name.replace("p-eagle", "eagle3")


def beside(target: Target, name: str, folder: str, options: argparse.Namespace) -> Target:
    """Return the target with a head, in an engine of its own around the same weights, as each head reads other
    states."""
    old: Any = target.engine
    engine = TorchEngine(
        old.model,
        name=old.name,
        buckets=old.buckets,
        determinism=old.determinism,
        query_grain=old.query_grain,
        pass_times=old.pass_times,
        attention=old.attention,
        cuda_graphs="on" if old.has_graphs else "off",
    )
    model = embedded_directory() if options.model == EMBEDDED else Path(options.model)
    head = open_head(drafter_of(name), engine, model, Path(folder) if folder else None)
    return replace(target, engine=engine, head=head)


def has_new_text(case: Case, target: Target, options: argparse.Namespace) -> bool:
    """Tell whether the target's own output is more than a part of the file."""
    stream = target.prompt_format.open_stream()
    text = stream.push(decode(replace(target, learnt={}), COPIES, case, options, Tally()))
    return text.rstrip("\ufffd") not in case.job.original


def case_of(record: EditRecord, work: str, target: Target, options: argparse.Namespace) -> Case | None:
    """Return an edit as this kind of work; None if it has no subject, or is too long."""
    update = {"lazy": record.update, "whole_file": normalise(record.after), "instruction": ""}[work]
    if not update and not record.subject:
        return None
    request = ApplyRequest(original=record.before, update=update, path=record.path, strategy="model", seed=options.seed)
    if work == "instruction":
        request = replace(request, instruction=record.subject)
    case = make_case(record, target.prompt_format, request=replace(request, temperature=options.temperature))
    return case if len(case.prompt_ids) + options.tokens + 64 <= options.max_tokens else None


def open_server(runtime: Runtime, told: str) -> tuple[str, Vllm]:
    """Return the peer that `NAME=URL#PID` names, by its name.  Raises as `Vllm` does."""
    name, _, address = told.partition("=")
    url, _, pid = address.partition("#")
    server = Vllm(name, url, runtime, options=RequestOptions(strategy="model", constrain="none"))
    server.clock = partial(processor_s, int(pid))
    return name, server


def processor_s(pid: int) -> float:
    """Return the seconds that processors have worked for a process and its children (Linux)."""
    process = Path("/proc", str(pid))
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    children = [child for task in process.glob("task/*/children") for child in task.read_text().split()]
    own_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own_s + sum(processor_s(int(child)) for child in children)


def run(name: str, by: Any, target: Target, case: Case, options: argparse.Namespace, tally: Tally) -> list[int]:
    """Let one contender write, and count it.  Returns its output, as far as it is known."""
    if isinstance(by, Vllm):
        return ask(by, target, case, options, tally)
    if isinstance(by, Target):
        return decode(by, NO_DRAFTS if name == PLAIN else drafter_of(name), case, options, tally)
    sample = by.run([case], case.id, cap=options.tokens)
    count(tally, sample.n_tokens, sample.passes, sample.drafted, sample.accepted, sample.decode_s)
    return []


def ask(server: Vllm, target: Target, case: Case, options: argparse.Namespace, tally: Tally) -> list[int]:
    """Let a server write an edit; what comes with the first token is not counted.  Returns the output."""
    before = server.count_drafts()
    with open_decoding(case.job, replace(case.request, max_tokens=options.tokens), target, NO_DRAFTS) as decoding:
        found, _ = server.write(target, decoding, case.job)
    drafted, accepted = (n - m for n, m in zip(server.count_drafts(), before, strict=True))
    n_tokens = len(found.ids) - 1  # vLLM writes one token with the prompt
    count(tally, n_tokens, found.passes - 1, drafted, accepted, n_tokens / found.tok_s if found.tok_s else 0.0)
    return found.ids


def decode(target: Target, drafter: str, case: Case, options: argparse.Namespace, tally: Tally) -> list[int]:
    """Write an edit; the prompt is read before the clock runs.  Returns the output."""
    request = replace(case.request, max_tokens=options.tokens, owner=uuid4().hex)
    with open_decoding(case.job, request, target, drafter) as decoding:
        read_prompts([decoding])
        wait_for_device()
        started_s = time.perf_counter()
        write_outputs([decoding])
        seconds = time.perf_counter() - started_s
    stats = decoding.stats
    count(tally, len(decoding.output_ids), stats.passes, stats.drafted_tokens, stats.accepted_tokens, seconds)
    return decoding.output_ids


def count(tally: Tally, n_tokens: int, passes: int, drafted: int, accepted: int, seconds: float) -> None:
    tally.n_edits += 1
    tally.n_tokens += n_tokens
    tally.passes += passes
    tally.drafted += drafted
    tally.accepted += accepted
    tally.seconds += seconds


def render(result: Mapping[str, Any]) -> str:
    """One table: a line for each kind of work and contender, the fastest first."""
    lines = [("work", "drafter", "accepted", "tokens a pass", "passes an edit", "tok/s", "times plain", "differs")]
    for work, rows in result["works"].items():
        for name, row in sorted(rows.items(), key=lambda item: -(item[1]["times_plain"] or 0.0)):
            share, differs = row["acceptance"], row["differs"]
            lines.append((
                *(work, name, "" if share is None else f"{share:.0%}"),
                *("" if row[key] is None else number(row[key])
                  for key in ("tokens_per_pass", "passes_per_edit", "tok_s", "times_plain")),
                "" if differs is None else str(differs),
            ))  # fmt: skip
    return table(lines)


if __name__ == "__main__":
    raise SystemExit(main())
