"""Finds the edit in a model's reply: its format, the text that the format reads, and the prose around it.

    clean      removes what stands around every line
    recognise  each format says what it finds, and how surely the format is meant
    format     one format is chosen; a reply without marks is a lazy snippet
    read       the format takes its text out of the reply; a snippet is taken out of fences and prose
    edit       `prose` and `findings` report the rest

A format is known by its marks (`<<<<<<< SEARCH`), never by the code between them.  If the text around the marks is
code, and the file lacks the lines that they quote, the marks are text of that code, as in a test that holds a diff.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from apply_service.errors import UnknownEditFormat
from apply_service.merge.siblings import expand_lists
from apply_service.merge.signed import is_signed
from apply_service.registry import EDIT_FORMATS
from apply_service.reply.found import CHECK, SNIPPET, FoundEdit, OpenReply
from apply_service.reply.orders import added_import, is_of_code, repeats
from apply_service.reply.snippet import read_snippet
from apply_service.text.paths import named_path
from apply_service.types import DOUBT, Prediction, Verdict


def read_reply(
    text: str, *, original: str, path: str | None = None, language: str | None = None, named: str | None = None
) -> FoundEdit:
    """Return the edit of the file at `path` in a reply.  `named`: the format of the reply according to the caller.
    Raises UnknownEditFormat if the service does not know the format `named`.  Raises MalformedEdit if the edit can't be
    read, or if it is unclear which of several is for this file.
    """
    opened = OpenReply(text, original, path, language, named)
    return _read(opened, opened.format if named is None else detect_format(text, named=named))


def detect_format(update: str, *, named: str | None, original: str = "") -> str:
    """Return the name (in the registry) of the format that a reply's edit has.  `update` has LF line ends.  Raises
    UnknownEditFormat if the service does not know the format `named`.
    """
    if named is None:
        return OpenReply(update, original).format
    if named not in EDIT_FORMATS:
        raise UnknownEditFormat(
            "no such edit format",
            value=named,
            limit=list(EDIT_FORMATS),
            remedy="name one of these, or leave the format out",
        )
    return named


def named_files(text: str, known: Collection[str] = ()) -> tuple[str, ...]:
    """Return the files that a reply says it edits, in the order of the reply.

    A file that is only mentioned in the sentence above a fence counts if it is one of the `known` files.
    """
    return OpenReply(text, "").named_files(known)


def read_patch_reply(text: str, originals: Iterable[str] = ()) -> FoundEdit:
    """Return the edit in a reply for several files.

    A patch is returned without the text around it.  For any other format, `update` is the whole reply.  The caller then
    reads each file's part in `parts`, or the whole reply for each file if there are no parts.
    """
    opened = OpenReply(text, "\n".join(originals))
    name, speaker = opened.format, opened.speaker
    if speaker.is_patch:
        alone = speaker.read_alone()
        edit = _read(opened, name) if alone is None else opened.edit(name, alone)
        return replace(edit, is_patch=True)
    if parts := opened.parts():
        return replace(_read(opened, name), update=text, parts=parts)
    return FoundEdit(name, text)


def name_finding(edit: FoundEdit, prediction: Prediction) -> Verdict | None:
    """Return a warning if a snippet's first line was left out because it looks like the name of the file."""
    if edit.format != SNIPPET:
        return None
    lines = edit.update.split("\n")
    first = next((at for at, line in enumerate(lines) if line.strip()), None)
    if first is None or named_path(lines[first]) is None or first not in prediction.unplaced:
        return None
    return Verdict(
        CHECK, "warning", f"the first line was taken for the file's name and left out: {lines[first][:80]!r}"
    )


def _not_done(opened: OpenReply, name: str, edit: FoundEdit) -> list[str]:
    """Return the orders (sentences that ask for a change) after the edit that nothing carries out.  The merger carries
    out those that stand in a snippet."""
    carries_out = name == SNIPPET and not is_signed(opened.reply.original.split("\n"), edit.update.split("\n"))
    done = edit.update if carries_out else ""
    return [one for one in opened.orders if one.rstrip(".!") not in done and (added_import(one) or one) not in done]


def _read(opened: OpenReply, name: str) -> FoundEdit:
    """Return the reply's edit, read as the format of that name.

    Orders after the edit are a reason for doubt.  Only some orders are carried out, and none if the format says exactly
    what changes.
    """
    reply, found = opened.reply, opened.formats[name]
    if not found.is_snippet:
        edit = opened.edit(name, found.read())
    elif name == SNIPPET:
        edit = read_snippet(opened)
        edit = replace(edit, update=expand_lists(reply.original, edit.update, reply.language))
    else:
        edit = replace(read_snippet(opened), format=name)
    if opened.called is not None:
        edit = replace(edit, prose="\n".join(filter(None, [opened.called.prose, edit.prose])))
        return edit.but(DOUBT, "the JSON of the call was broken and was mended") if opened.called.is_mended else edit
    if reply.is_prose_file and not found.has_marks and not reply.plain_fences:
        return edit
    left = _not_done(opened, name, edit)
    for asked in (*repeats(reply, edit.update), *left[:1]):
        edit = edit.but(DOUBT, f"the edit may not do what this sentence asks: {asked[:80]!r}")
    if not left or any(map(is_of_code, left)):
        return edit
    # These orders say nothing about the place of the code above them.
    told = [order.rstrip(".!").lower() for order in left]
    said = (x for x in edit.prose.split("\n") if not any(x.lower() in t or t in x.lower() for t in told))
    return replace(edit, prose="\n".join(said))
