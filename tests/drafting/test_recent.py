"""Earlier outputs: kept within bounds, never across callers, and drafted from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apply_service.build import build_runtime
from apply_service.drafting.lookup import PromptLookup, Suffix
from apply_service.drafting.recent import OUTPUTS_PER_FILE, RecentOutputs
from apply_service.pipeline import apply
from apply_service.protocols import DraftContext
from apply_service.settings import Settings
from apply_service.target import Runtime
from apply_service.types import ApplyRequest
from tests.drafting.simulation import job
from tests.plain_bytes import PlainBytes


def test_outputs_are_kept_by_caller_and_file() -> None:
    recent = RecentOutputs()
    recent.keep("ann", "a.py", [1, 2])
    recent.keep("ann", "b.py", [3])
    recent.keep("bob", "a.py", [4])
    assert recent.of("ann", "a.py") == ((1, 2),)
    assert recent.of("bob", "b.py") == recent.of("", "a.py") == recent.of("ann", None) == ()


def test_only_the_last_outputs_of_a_file_are_kept_each_once() -> None:
    recent = RecentOutputs()
    for i in range(OUTPUTS_PER_FILE + 2):
        recent.keep("", None, [i])
    recent.keep("", None, [3])
    assert recent.of("", None) == ((2,), (4,), (3,))
    assert recent.n_tokens == OUTPUTS_PER_FILE


def test_the_files_least_recently_written_are_dropped() -> None:
    recent = RecentOutputs(max_tokens=10)
    for name in ("a", "b", "a", "c"):
        recent.keep("ann", name, [ord(name)] * 4)
    assert recent.of("ann", "b") == ()
    assert recent.of("ann", "a")
    assert recent.of("ann", "c")
    recent.keep("ann", "d", [0] * 11)
    assert recent.n_tokens == 0


@pytest.mark.parametrize("drafter", [Suffix, PromptLookup])
def test_a_drafter_goes_on_from_an_earlier_output(drafter: type[Suffix | PromptLookup]) -> None:
    sources = PlainBytes().encode_sources(job("", "", ""))
    made = drafter(DraftContext(sources, [1, 2, 3, 50], max_new_tokens=20, earlier=([1, 2, 3, 60, 61, 62, 63],)))
    assert list(made.propose([9, 2, 3], 1).token_ids) == [50], "the prompt is nearer"
    draft = made.propose([9, 2, 3, 60, 61], 1)
    assert (list(draft.token_ids), draft.source) == ([62], "earlier")


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return build_runtime(Settings(drafter="suffix"))


REQUEST = ApplyRequest(
    original="def area(w, h):\n    return w * h\n",
    update="def area(w, h):\n    if w < 0:\n        return 0\n    return w * h\n",
    path="shapes.py",
    strategy="model",
    owner="ann",
)


def test_the_same_edit_again_takes_fewer_passes_and_nobody_elses_does(runtime: Runtime) -> None:
    first, again = (apply(REQUEST, runtime) for _ in range(2))
    assert again.merged_code == first.merged_code
    assert again.stats.passes < first.stats.passes
    assert again.stats.accepted_by_source["earlier"] > 0
    assert "earlier" not in first.stats.accepted_by_source
    for other in (replace(REQUEST, owner="bob"), replace(REQUEST, path="other.py")):
        result = apply(other, runtime)
        assert "earlier" not in result.stats.accepted_by_source
        assert result.merged_code == first.merged_code


def test_a_service_that_keeps_no_prompts_keeps_no_outputs() -> None:
    forgetful = build_runtime(Settings(drafter="suffix", prefix_cache_mb=0))
    results = [apply(REQUEST, forgetful) for _ in range(2)]
    assert all("earlier" not in result.stats.accepted_by_source for result in results)
