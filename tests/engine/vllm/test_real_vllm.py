"""The plug-in in a real vLLM, on the embedded model: `make test-vllm`.

Skipped unless VLLM_PYTHON names the interpreter of an environment with vLLM and this package: it takes minutes, so it
is no part of the usual run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from apply_eval.datasets import EditRecord, measure_edit
from apply_eval.decoders import METHODS, OURS, Vllm
from apply_eval.runners import RequestOptions
from apply_eval.target import TargetOptions, open_target
from apply_service.engine.vllm.message import OPS, encode_edit
from apply_service.models import embedded_directory
from apply_service.prompts.by_model import open_prompt_format
from tests.engine.vllm.edits import numbered_edit
from tests.engine.vllm.real_servers import Case, Server, counters, gap_at, started, write

PYTHON = os.environ.get("VLLM_PYTHON")
pytestmark = pytest.mark.skipif(not PYTHON, reason="VLLM_PYTHON names no environment with vLLM")
LIMITS = ["--max-model-len", "2048", "--max-num-seqs", "8"]
TIE_NATS = 1e-3
"""A drafted step computes in another order than an undrafted one: where the two best tokens are this close, either may
win."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Server]]:
    methods = {"plain": None, "told": METHODS[OURS]}
    assert PYTHON is not None
    with started(Path(PYTHON), embedded_directory(), methods, tmp_path_factory.mktemp("logs"), LIMITS) as found:
        yield found


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    prompt_format = open_prompt_format(str(embedded_directory()))
    jobs = [numbered_edit(number, n_functions=8) for number in range(1, 9)]
    return [
        Case(str(i), job, tuple(prompt_format.encode_prompt(job)), 700, prompt_format, job.prediction.text)
        for i, job in enumerate(jobs)
    ]


def assert_same(case: Case, a: list[int], b: list[int], plain: Server) -> None:
    if a != b:
        at = next(i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
        gap = gap_at(plain, case, a[:at])
        assert gap is not None
        assert gap < TIE_NATS, f"{case.id}: differ at {at}"


def test_drafts_do_not_change_what_is_written(servers: Any, cases: list[Case]) -> None:
    for case in cases[:4]:
        undrafted = write(servers["plain"], case, is_told=False)
        drafted = write(servers["told"], case, is_told=True)
        assert_same(case, undrafted.ids, drafted.ids, servers["plain"])
        assert len(drafted.puts) < len(undrafted.ids) / 4


def test_what_is_told_is_accepted(servers: Any, cases: list[Case]) -> None:
    before = counters(servers["told"])
    written = write(servers["told"], cases[0], is_told=True)
    after = counters(servers["told"])
    assert cases[0].is_right(written.ids)
    assert after["accepted"] - before["accepted"] > 0.95 * (len(written.ids) - len(written.puts))


def test_eight_files_at_once_never_mix(servers: Any, cases: list[Case]) -> None:
    alone = [write(servers["told"], case, is_told=True) for case in cases]
    before = counters(servers["told"])
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda case: write(servers["told"], case, is_told=True), cases))
    accepted = counters(servers["told"])["accepted"] - before["accepted"]
    for case, one, among in zip(cases, alone, together, strict=True):
        assert_same(case, one.ids, among.ids, servers["plain"])
        assert case.is_right(one.ids) == case.is_right(among.ids)
    assert accepted > 0.7 * sum(len(one.ids) for one in together), "foreign drafts would not have been accepted"


def test_a_malformed_message_costs_drafts_alone(servers: Any, cases: list[Case]) -> None:
    case, before = cases[0], counters(servers["told"])
    body = {"prompt": list(case.prompt_ids), "max_tokens": 8, "temperature": 0}
    body["vllm_xargs"] = {**encode_edit(case.job), OPS: [7, 7, 7]}
    answer = httpx2.post(f"{servers['told'].url}/v1/completions", json=body, timeout=600, trust_env=False)
    assert answer.status_code == 200
    assert counters(servers["told"]) == before
    assert case.is_right(write(servers["told"], case, is_told=True).ids), "the next one is drafted for as ever"


def test_an_edit_goes_through_parser_merge_prompt_vllm_and_checks(servers: Any, cases: list[Case]) -> None:
    job = cases[0].job
    record = EditRecord(
        "e", job.original, cases[0].after, measure_edit(job.original, cases[0].after), update=job.update,
        language="python", path="a.py",
    )  # fmt: skip
    options = RequestOptions(strategy="model", constrain="none")
    target = open_target(TargetOptions("embedded"), [record], options)
    runner = Vllm(OURS, servers["told"].url, target.runtime, options=options)
    answer = runner.answer(record)
    runner.close()
    assert answer.text == cases[0].after
    assert answer.passes is not None
    assert answer.passes < 20


def test_a_draft_past_the_cap_is_refused_at_start(tmp_path: Path) -> None:
    method = str(METHODS[OURS]).replace("127", "129")
    assert PYTHON is not None
    with pytest.raises(RuntimeError), started(Path(PYTHON), embedded_directory(), {"long": method}, tmp_path, LIMITS):
        pass
    assert "num_speculative_tokens is out of range" in (tmp_path / "long.log").read_text(errors="replace")
