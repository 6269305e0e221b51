"""Which format an edit is written in.

First step of a request: a format that the request names is taken at its word, else the first that is sure of the
update, else the lazy snippet.  Content is never control: a snippet of a file that holds diffs or markers is no diff.
"""

from __future__ import annotations

from apply_service.errors import UnknownEditFormat
from apply_service.protocols import EditFormat
from apply_service.registry import EDIT_FORMATS, names, resolve


def detect_format(update: str, *, named: str | None) -> str:
    """The format's name in the registry.  `update` has LF line ends.

    Raises:
        UnknownEditFormat: `named` is none that the service knows.
    """
    if named is not None:
        if named not in EDIT_FORMATS:
            raise UnknownEditFormat(
                "no such edit format", value=named, limit=list(names(EDIT_FORMATS)), remedy="name one of these, or none"
            )
        return named
    *candidates, otherwise = names(EDIT_FORMATS)
    for name in candidates:
        edit_format: EditFormat = resolve(EDIT_FORMATS, name)()
        if edit_format.detect(update):
            return name
    return otherwise
