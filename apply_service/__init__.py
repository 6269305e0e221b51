"""Applies code edits: original file + edit -> the whole merged file.

The way of a request: a front end (`cli`, `api`) turns it into an `ApplyRequest`, and `service` queues it for the one
engine thread.  `pipeline.run` detects the edit's format and predicts the merge (`formats`, `merge`).  If the format
leaves a choice, a target model may decide (`strategies`): `prompts` writes what the model sees, `drafting` drafts what
the model will write, and `decoding` verifies the draft on an `engine`.  Then the original's bytes are restored,
`checks` look at the answer, and an `ApplyResult` goes back.  `build` turns settings into a running service.

    from apply_service.build import build_runtime
    from apply_service.pipeline import apply
    from apply_service.settings import Settings
    from apply_service.types import ApplyRequest

    result = apply(ApplyRequest(original=..., update=..., path="app.py"), build_runtime(Settings()))

Importing this package imports nothing else: the command line has to start in milliseconds.
"""
