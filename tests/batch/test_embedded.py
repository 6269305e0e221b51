"""A batch that the embedded model decides: the same answers as each edit alone."""

import asyncio
from dataclasses import replace
from pathlib import Path

from apply_service.batch.run import apply_edits, share_deadline
from apply_service.build import build_runtime, open_service
from apply_service.settings import Settings
from apply_service.types import ApplyRequest

EXAMPLE = Path(__file__).parents[2] / "benchmarks" / "example"


def requests() -> list[ApplyRequest]:
    original, update = ((EXAMPLE / name).read_text() for name in ("cart.py", "update.txt"))
    one = ApplyRequest(original, update, path="cart.py", strategy="model")
    small = ApplyRequest(
        "def f():\n    return 1\n\n\ndef g():\n    return 2\n",
        "# ... existing code ...\n\ndef g():\n    return 3\n",
        path="small.py",
        strategy="model",
    )
    return [one, small, replace(one, path="other.py"), replace(small, path="b.py", update=small.update + "\n\nx = 1\n")]


def test_the_same_answers_as_alone() -> None:
    settings = Settings()
    with open_service(build_runtime(settings), settings) as service:
        alone = [service.apply(request) for request in requests()]
        batch = asyncio.run(apply_edits(service.submit, requests(), "independent"))
        assert service.wait_until_idle(5)
        service.check_integrity()
    assert [result.model for result in alone] == ["embedded"] * 4
    for item, result in zip(batch.items, alone, strict=True):
        assert item.verdicts == result.verdicts
        if item.result is not None:
            assert item.result.merged_code == result.merged_code
    merged = batch.items[0].result
    assert merged is not None
    assert merged.merged_code == (EXAMPLE / "merged.py").read_text()


def test_edits_without_a_deadline_share_one() -> None:
    first, second, *others = requests()
    asked = [first, replace(second, timeout_s=5.0), *others]
    assert [request.timeout_s for request in share_deadline(asked, 10.0, 600.0)] == [40.0, 5.0, 40.0, 40.0]
    assert [request.timeout_s for request in share_deadline(asked, 10.0, 25.0)] == [25.0, 5.0, 25.0, 25.0]
