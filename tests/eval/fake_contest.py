"""A run without a model: contestants whose answers and times depend on names alone.

    python -m tests.eval.fake_contest FOLDER DELAY_S N_ANSWERS

does such a run into FOLDER, slowly enough to be killed in the middle, and waits for ever after N_ANSWERS answers;
started again it goes on.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apply_eval.datasets import EditRecord
from apply_eval.loop import Loop, schedule
from apply_eval.results import ROWS, build_results, write_results
from apply_eval.rows import RowsFile, facts_of
from apply_eval.runners import MISSING_OVER_HTTP, Answer
from apply_eval.summary import SummaryOptions
from apply_service.errors import ApplyError, NeedsMoreContext
from tests.eval.rows import record

NAMES = ("plain", "fast", "faster")
N_SAMPLES = 30


class FakeRunner:
    """Right for two samples in three, wrong for one in six, else it refuses.  Counts what it is asked."""

    missing = MISSING_OVER_HTTP

    def __init__(
        self,
        name: str,
        *,
        delay_s: float = 0.0,
        errors: Sequence[ApplyError] = (),
        places: threading.Semaphore | None = None,
    ) -> None:
        self.name = name
        self.asked: list[str] = []
        self._delay_s = delay_s
        self._errors = list(errors)
        self._places = places

    def answer(self, edit: EditRecord) -> Answer:
        self.asked.append(edit.id)
        time.sleep(self._delay_s)
        if self._places is not None:
            self._places.acquire()
        if self._errors:
            raise self._errors.pop(0)
        chance = zlib.crc32(edit.id.encode()) % 6
        if chance == 0:
            raise NeedsMoreContext("no anchor")
        speed = 10.0 * (1 + NAMES.index(self.name)) if self.name in NAMES else 10.0
        return Answer(
            text=edit.before if chance == 1 else edit.after,
            latency_s=(1 + chance) / speed,
            ttft_s=0.01,
            n_tokens=50,
            tok_s=speed * (1 + chance),
            passes=5,
            n_drafted=60,
            n_accepted=45,
            rejections=1,
            accepted_by_source={"predicted": 45},
            confidence=0.4 if chance == 2 else 0.99,
            strategy="model",
        )

    def close(self) -> None:
        """Nothing is held."""


def samples() -> list[EditRecord]:
    return [record(f"sample-{i:02d}", language="go" if i % 3 else "python") for i in range(N_SAMPLES)]


def plan(**changes: Any) -> dict[str, Any]:
    values = {
        "data": [{"name": "made.jsonl", "sha256": "0" * 64}],
        "sample_ids": [found.id for found in samples()],
        "names": list(NAMES),
        "model": None,
        "server": None,
        "request": {"strategy": "auto", "constrain": None},
    }
    return values | changes


def session() -> dict[str, Any]:
    return {"created": "2026-01-01T00:00:00+00:00", "commit": "c0ffee", "dirty": False, "versions": {"python": "3"},
            "hardware": {"cpu": "none", "n_cpus": 1}, "command": ["apply-eval", "run"], "seed": 0,
            "data": [{"name": "made.jsonl", "sha256": "0" * 64}]}  # fmt: skip


def do_run(folder: Path, *, delay_s: float = 0.0, n_answers: int | None = None) -> dict[str, Any]:
    """Begin or go on with the run in `folder`; its results, also written there.  After `n_answers` it hangs."""
    records = samples()
    with RowsFile(folder / ROWS, plan()) as file:
        file.add_session(session())
        places = None if n_answers is None else threading.Semaphore(n_answers)
        runners = {name: FakeRunner(name, delay_s=delay_s, places=places) for name in NAMES}
        loop = Loop({r.id: r for r in records}, runners, file)
        ids = [r.id for r in records]
        loop.run(schedule(ids, NAMES, seed=0))
        results = build_results(file.record, [facts_of(r) for r in records], SummaryOptions(), plain=None)
    write_results(folder, results)
    return results


if __name__ == "__main__":
    do_run(Path(sys.argv[1]), delay_s=float(sys.argv[2]), n_answers=int(sys.argv[3]))
    print(json.dumps("done"))
