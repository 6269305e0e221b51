"""One editor a test."""

from collections.abc import Iterator

import pytest

from tests.editor_plugins.nvim.editor import Editor, open_editor


@pytest.fixture
def editor() -> Iterator[Editor]:
    with open_editor() as found:
        yield found
