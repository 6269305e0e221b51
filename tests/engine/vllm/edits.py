"""Edits of files that have no line in common, as jobs and as what the target writes for them."""

from __future__ import annotations

from apply_service.protocols import EditContext, EditJob
from apply_service.registry import EDIT_FORMATS, resolve
from apply_service.reply.reader import detect_format


def edit_job(original: str, update: str, *, path: str = "a.py", language: str = "python") -> EditJob:
    """As the pipeline makes it."""
    predict = resolve(EDIT_FORMATS, detect_format(update, named=None))
    prediction = predict(original, update, EditContext(path, language))
    return EditJob(original, update, "", path, language, prediction)


def numbered_edit(number: int, n_functions: int = 12) -> EditJob:
    """A lazy snippet that changes the fourth function of a file."""
    functions = [f"def f{number}_{i}(x):\n    y = x + {number * 1000 + i}\n    return y\n" for i in range(n_functions)]
    changed = functions[3].replace("return y", f"return y * {number + 2}")
    return edit_job("\n\n".join(functions), f"# ... existing code ...\n{changed}# ... existing code ...\n")
