"""Sizing: the roofline against figures worked out elsewhere, the simulation against queueing theory."""

import random
import statistics

import pytest

from apply_service.engine.replay_shapes import read_shapes
from benchmarks.sizing import H200, Edit, Roofline, count_edit, predicted_s, time_of
from benchmarks.sizing_fit import Asked, Fit, fit, predict
from benchmarks.sizing_simulation import Cost, Fleet, Job, Scaling, poisson


@pytest.mark.parametrize(
    ("model", "short_ms", "long_ms", "knee"),
    [
        ("qwen2.5-coder-1.5b", 0.74, 4.67, 162),
        ("qwen2.5-coder-7b", 3.33, 19.9, 171),
        ("qwen2.5-coder-32b", 15.1, 88.0, 175),
        ("llama-3-70b", 32.6, 190, 175),
        ("llama-3-70b-fp8", 16.4, 112, 150),
    ],
)
def test_pass_times_are_those_of_the_published_shapes(model: str, short_ms: float, long_ms: float, knee: int) -> None:
    """Worked out by hand beforehand: up to 128 rows, and 1,024, at a context of 3,000."""
    roof = Roofline.of(read_shapes()[model], H200)
    assert 1e3 * roof.pass_s(128) == pytest.approx(short_ms, rel=0.01)
    assert 1e3 * roof.pass_s(1024) == pytest.approx(long_ms, rel=0.01)
    assert round(roof.knee) == pytest.approx(knee, abs=1)


ROOF = Roofline(memory_s=0.010, row_s=0.0001)
EDIT = Edit(prompt_tokens=1_000, output_tokens=400, rows=404, passes=4)


def test_an_edit_alone() -> None:
    # 1,000 rows read: 0.1 s; four passes of 101 rows, just beyond the knee: 0.0101 s each; five times 1 ms beside them.
    assert EDIT.alone_s(ROOF, cached=0.0, overhead_s=0.001) == pytest.approx(0.1 + 0.0404 + 0.005)
    assert EDIT.undrafted_s(ROOF, cached=0.0, overhead_s=0.001) == pytest.approx(0.1 + 4.0 + 0.401)


def test_a_busy_device_pays_by_the_row() -> None:
    # (1,000 / 2 + 404) rows, and 1 ms for every 100 of them.
    assert EDIT.device_s(ROOF, cached=0.5, overhead_s=0.001) == pytest.approx(0.0904 + 0.00904)


def test_counts_are_means_of_our_drafter_alone() -> None:
    def sample(contender: str, batch: int, scale: int) -> dict[str, object]:
        return {"contender": contender, "batch": batch, "n_prompt_tokens": 100 * scale, "n_tokens": 50 * scale} | {
            "passes": scale,
            "drafted": 60 * scale,
        }

    samples = [sample("merged_edit", 1, 1), sample("merged_edit", 1, 3), sample("merged_edit", 8, 99)]
    assert count_edit({"samples": [*samples, sample("plain", 1, 99)]}) == Edit(200, 100, 122, 2)


def test_passes_are_padded_to_what_was_measured() -> None:
    pass_s = {64: 1.0, 256: 3.0}
    assert [time_of(n, pass_s) for n in (1, 64, 65, 256)] == [1.0, 1.0, 3.0, 3.0]
    sample = {"n_prompt_tokens": 300, "drafted": 126, "passes": 2}  # 256 + 44 rows read, two passes of 64
    assert predicted_s(sample, pass_s) == (3.0 + 1.0 + 1.0, 2.0)


# -- simulation --------------------------------------------------------------------------------------------------------
def arrivals(rate: float, n: int, *, files: int = 1_000) -> list[Job]:
    dice = random.Random(7)
    times = list(poisson(lambda _: rate, rate, n / rate, dice))
    return [Job(at_s, dice.randrange(files), 0, 1) for at_s in times]


ONE_A_SECOND = Cost(lambda _: 1.0, max_rows=256, max_active=1)


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_one_engine_waits_as_theory_says(load: float) -> None:
    """Poisson arrivals, constant service: the mean wait is load / (2 (1 - load)) services (Pollaczek-Khinchine)."""
    answered = Fleet(ONE_A_SECOND, Scaling(1, 1)).run(arrivals(load, 8_000))
    waited = statistics.fmean(one.seconds for one in answered) - 1.0
    assert waited == pytest.approx(load / (2 * (1 - load)), rel=0.1)


def test_every_edit_is_answered_once_by_engines_that_scale() -> None:
    jobs = arrivals(3.0, 3_000)
    scaling = Scaling(1, 6, target_ongoing=2, upscale_delay_s=5, downscale_delay_s=20, start_s=10)
    fleet = Fleet(ONE_A_SECOND, scaling)
    answered = fleet.run(jobs)
    assert sorted(one.job.at_s for one in answered) == [job.at_s for job in jobs]
    assert len({one.engine for one in answered}) >= 4  # three engines' work at least


def test_engines_beyond_the_least_go_when_the_load_has_gone() -> None:
    busy = arrivals(3.0, 300)
    late = [Job(busy[-1].at_s + 500 + i, 0, 0, 1) for i in range(3)]
    fleet = Fleet(ONE_A_SECOND, Scaling(1, 6, target_ongoing=2, upscale_delay_s=5, downscale_delay_s=20, start_s=10))
    fleet.run([*busy, *late])
    assert len([engine for engine in fleet.engines if not engine.is_draining]) == 1


def test_a_file_comes_back_to_its_engine_where_nobody_waits() -> None:
    jobs = [Job(10.0 * i, i % 5, 64, 1) for i in range(50)]
    by_file = Fleet(ONE_A_SECOND, Scaling(4, 4)).run(jobs)
    assert sum(one.is_hit for one in by_file) == 45
    by_load = Fleet(ONE_A_SECOND, Scaling(4, 4), "least load").run(jobs)
    assert sum(one.is_hit for one in by_load) < 40


def test_a_pass_is_shared() -> None:
    """Two edits of 100 tokens in passes of 100 rows: alone each takes one pass, together both take two."""
    cost = Cost(lambda n_rows: n_rows / 100, max_rows=100)
    [one] = Fleet(cost, Scaling(1, 1)).run([Job(0.0, 0, 0, 100)])
    both = Fleet(cost, Scaling(1, 1)).run([Job(0.0, 0, 0, 100), Job(0.0, 1, 0, 100)])
    assert one.seconds == pytest.approx(1.0)
    assert max(answer.seconds for answer in both) == pytest.approx(2.0)


# -- held against a server ---------------------------------------------------------------------------------------------
def asked(*, rows: int, seconds: float) -> Asked:
    return Asked(0.0, seconds, rows, 0, 0, 0, rows)


@pytest.mark.parametrize("costs", [(0.001, 0.0, 0.5), (0.001, 2e-6, 0.5), (0.0, 2e-6, 0.0)])
def test_the_costs_are_found_again(costs: tuple[float, float, float]) -> None:
    row_s, key_s, edit_s = costs
    times = {n: edit_s + row_s * n + key_s * n * n / 2 for n in (40, 100, 500, 900)}
    assert fit([asked(rows=n, seconds=seconds) for n, seconds in times.items()]) == pytest.approx(costs, abs=1e-9)


def test_rows_see_the_keys_of_their_own_window() -> None:
    whole = Asked(0.0, 1.0, 300, 100, 100, 0, 300)
    assert whole.row_keys == (400**2 - 100**2) / 2, "nobody reads what is cached"
    assert Asked(0.0, 1.0, 300, 0, 100, 0, 400, n_windows=2).row_keys == 2 * 200**2 / 2


@pytest.mark.parametrize("seconds", [(1.0, 0.5), (0.1, 3.0)])
def test_no_cost_is_below_nothing(seconds: tuple[float, float]) -> None:
    found = fit([asked(rows=100, seconds=seconds[0]), asked(rows=200, seconds=seconds[1])])
    assert min(found) >= 0
    assert max(found) > 0


def test_an_edit_that_comes_alone_takes_what_its_parts_take() -> None:
    one = Asked(0.0, 9.9, 300, 44, 256, 0, 513)  # 256 rows to read, 256 to write
    assert predict([one], Fit(0.001, 0.0, 0.05)) == pytest.approx([0.05 + 0.512])
    with_keys = Fit(0.001, 1e-6, 0.05)
    assert with_keys.alone_s(one) == pytest.approx(0.05 + 0.513 + (556**2 - 44**2) / 2e6)
    assert predict([one], with_keys) == pytest.approx([with_keys.alone_s(one)], rel=0.01)
