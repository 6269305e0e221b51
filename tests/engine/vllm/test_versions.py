"""What is checked at start."""

from __future__ import annotations

import pytest

from apply_service.engine.vllm.proposer import check_draft_length, check_version
from apply_service.errors import MissingDependency, SettingsError


@pytest.mark.parametrize("version", ["0.32.0", "0.33.1", "0.33.0+cpu", "0.32.0rc1"])
def test_known_versions_pass(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["0.31.9", "0.34.0", "1.0.0", "dev", "", "0.9.2"])
def test_any_other_is_refused_by_name(version: str) -> None:
    with pytest.raises(MissingDependency) as caught:
        check_version(version)
    assert version in caught.value.message
    assert "0.32 to 0.33" in str(caught.value.limit)


@pytest.mark.parametrize("n_tokens", [1, 127, 128])
def test_draft_lengths_within_the_cap_pass(n_tokens: int) -> None:
    check_draft_length(n_tokens)


@pytest.mark.parametrize("n_tokens", [0, 129])
def test_draft_lengths_past_the_cap_are_refused(n_tokens: int) -> None:
    with pytest.raises(SettingsError):
        check_draft_length(n_tokens)
