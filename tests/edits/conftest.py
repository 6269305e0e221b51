"""Property tests here fail on wrong answers, not on a busy machine; a failure prints what reproduces it."""

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.edits.merges")
settings.register_profile("edits", deadline=None, print_blob=True)
settings.load_profile("edits")
