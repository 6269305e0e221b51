"""Open, self-hosted code-edit apply: original file + edit -> the whole merged file.

The life of a request: a front end (`cli`, `api`) reads it into an `ApplyRequest`; `service` queues it for the one
engine thread; `pipeline.run` detects the edit's format, predicts the merge (`edits`), and where the format leaves a
choice asks a target model (`strategies`): `prompts` write what it sees, `drafting` guesses what it will say, `decoding`
verifies the guess on an `engine`.  Then the original's bytes are restored, `checks` look at the answer, and an
`ApplyResult` goes back.  Settings become a running service in `build`.

    from apply_service.build import build_runtime
    from apply_service.pipeline import apply
    from apply_service.settings import Settings
    from apply_service.types import ApplyRequest

    result = apply(ApplyRequest(original=..., update=..., path="app.py"), build_runtime(Settings()))

Importing this package imports nothing else: the command line has to start in milliseconds.
"""
