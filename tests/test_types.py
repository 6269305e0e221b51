"""Which findings stand against a result."""

import pytest

from apply_service.types import is_refused


@pytest.mark.parametrize(
    ("severity", "rule", "refused"),
    [
        ("error", None, True),
        ("error", "warn", False),
        ("error", "fail", True),
        ("warning", None, False),
        ("warning", "warn", False),
        ("warning", "fail", True),
        ("pass", None, False),
        ("pass", "fail", False),
    ],
)
def test_the_rule(severity: str, rule: str | None, refused: bool) -> None:
    rules = {"another": "fail"} | ({} if rule is None else {"syntax": rule})
    assert is_refused("syntax", severity, rules) is refused
