"""A run that is killed at random moments, with no warning, ends up where an undisturbed one does."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from apply_eval.results import ROWS, read_results
from apply_eval.rows import read_rows_file
from tests.eval.fake_contest import N_SAMPLES, NAMES, do_run

ROOT = Path(__file__).parents[2]
N_ROWS = N_SAMPLES * len(NAMES)
DELAY_S = 0.004


def start(folder: Path) -> subprocess.Popen[bytes]:
    """The run, or its rest; it waits for ever before its last row, so that a kill never comes too late."""
    n_answers = N_ROWS - 1 - rows_of(folder / ROWS)
    command = [sys.executable, "-m", "tests.eval.fake_contest", str(folder), str(DELAY_S), str(n_answers)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)


def rows_of(path: Path) -> int:
    """Rows on disk, a torn one not counted."""
    return path.read_bytes().count(b'\n{"row"') if path.is_file() else 0


def kill_after_rows(folder: Path, n_rows: int) -> None:
    """Start the run, kill it once it has so many rows."""
    with start(folder) as process:
        while rows_of(folder / ROWS) < n_rows:
            assert process.poll() is None
            time.sleep(0.001)
        process.kill()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return do_run(tmp_path_factory.mktemp("undisturbed"))


def test_killed_at_random_moments_it_resumes_to_the_same_summary(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    rng = random.Random(seed)
    n_rows = 0
    for _ in range(3):
        n_rows += rng.randrange(5, N_ROWS // 4)
        kill_after_rows(tmp_path, n_rows)
    if rng.random() < 0.5:  # the kill came while a line was being written
        with (tmp_path / ROWS).open("ab") as file:
            file.write(b'{"row":{"id":"sample-07","name":"fa')
    do_run(tmp_path)
    found = read_results(tmp_path).values
    assert found["complete"]
    assert found["summary"] == json.loads(json.dumps(undisturbed["summary"]))
    assert found["rows"] == json.loads(json.dumps(undisturbed["rows"]))
    assert len(found["sessions"]) == 4
    record = read_rows_file(tmp_path / ROWS)
    assert len(record.all_rows) == N_ROWS, "a sample was measured twice"


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    do_run(tmp_path)
    n_before = rows_of(tmp_path / ROWS)
    do_run(tmp_path)
    assert rows_of(tmp_path / ROWS) == n_before == N_ROWS
