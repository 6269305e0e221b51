"""Property tests here fail on wrong answers, not on a busy machine; a failure prints what reproduces it."""

from hypothesis import settings

settings.register_profile("edits", deadline=None, print_blob=True)
settings.load_profile("edits")
