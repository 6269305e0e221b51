"""An edit whose place is a guess is answered with a doubt, or refused where the caller wants that."""

from __future__ import annotations

import httpx2
import pytest

from tests.contract.edits import PYTHON, PYTHON_MERGED, PYTHON_UPDATE

NOWHERE = "total = 1\n# ... existing code ...\ncount = 2\n"
"""Shows no line of the file."""


def ask(url: str, update: str, **options: object) -> httpx2.Response:
    body = {"original": PYTHON, "update": update, "path": "shapes.py", **options}
    return httpx2.post(f"{url}/v1/apply", json=body, timeout=300)


def doubts(response: httpx2.Response) -> list[dict[str, object]]:
    assert response.status_code == 200, response.text
    return [verdict for verdict in response.json()["verdicts"] if verdict["check"] == "doubt"]


@pytest.mark.parametrize("strategy", ["auto", "model"])
def test_a_guess_is_told(url: str, strategy: str) -> None:
    response = ask(url, NOWHERE, strategy=strategy)
    (found,) = doubts(response)
    assert found["severity"] in ("warning", "error")
    assert response.json()["certainty"] in ("likely", "guess")
    assert response.json()["reasons"][0] in str(found["message"])


def test_a_guess_is_refused_where_the_caller_wants_that(url: str) -> None:
    response = ask(url, NOWHERE, on_verdict={"doubt": "fail"})
    assert (response.status_code, response.json()["error"]["code"]) == (422, "check_failed")
    assert response.json()["error"]["value"] == ["doubt"]


def test_an_edit_with_anchors_has_no_such_finding(url: str) -> None:
    response = ask(url, PYTHON_UPDATE, on_verdict={"doubt": "fail"})
    assert doubts(response) == []
    assert response.json()["merged_code"] == PYTHON_MERGED
