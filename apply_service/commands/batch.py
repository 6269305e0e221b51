"""Runs `apply-service apply --batch` and `--patch`: edits several files, either all or nothing or each by itself.

The command reads the files that the batch or patch names, asks for the answer (`request`), and prints diffs or writes
the files back.  `Roots` checks the names, because a batch may come from an agent and a patch from anywhere.
"""

from __future__ import annotations

import itertools
import json
import secrets
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apply_service.commands import output
from apply_service.commands.request import (
    Answerer,
    file_encoding,
    merged_bytes,
    original_fields,
    read_bytes,
    read_text,
    refused_verdicts,
    with_guess,
)
from apply_service.commands.undo import shown, undo_command
from apply_service.disk.backups import BackupStore
from apply_service.disk.encodings import FileEncoding
from apply_service.disk.files import FileWrite, SourceFile, read_as_judged
from apply_service.disk.paths import Roots
from apply_service.errors import (
    ApplyError,
    BadEncoding,
    CheckFailed,
    FileError,
    InvalidField,
    TooLarge,
    UnsupportedParameter,
)
from apply_service.settings import own_places
from apply_service.types import DOUBT

Json = dict[str, Any]
Sources = Mapping[str, SourceFile]
"""The files of a batch as they were read, by the names that the batch gives them."""


def run(arguments: Namespace, answerer: Answerer, store: BackupStore | None) -> int:
    """Run the command and return the exit code.  `store`: the store that writes the files, with --in-place.  Raises
    ApplyError."""
    settings = answerer.settings
    roots = Roots(arguments.root or ["."], own_places(settings, config=arguments.config))
    wants_diff = arguments.diff or not (arguments.in_place or arguments.json)
    n_unwritten, written = 0, list[FileWrite]()
    try:
        batch = _read_batch(arguments, settings.max_file_bytes)
        on_disk = BatchFiles(roots, arguments.encoding, settings.max_file_bytes)
        request, sources = _with_files(batch, on_disk, wants_diff=wants_diff)
        parts = [request] if "patch" in batch else request["edits"]
        _set_rule_of_doubt(parts, arguments)
        answer = answerer.batch(json.dumps(request).encode(), len(sources))
        is_together = request.get("mode", "all_or_nothing") == "all_or_nothing"
        _tell_guesses(answer, sources, on_disk.guesses, is_together=is_together)
        if store is not None:
            edit = secrets.token_hex(8)

            def write(writes: list[FileWrite]) -> None:
                with output.spinning(f"writing {len(writes)} files"):
                    store.write_all(writes, roots=roots.folders, is_forced=arguments.force, edit=edit)
                written.extend(one for one in writes if one.is_change)

            n_unwritten = _write_back(answer["items"], sources, write, is_together=is_together)
    except ApplyError as error:
        return output.print_failure(error, is_json=arguments.json)
    if arguments.json:
        output.write_json(answer)
    elif diff := "".join(item["diff"] or "" for item in answer["items"]):
        output.write_diff(diff, settings)
    return _end(answer, parts, arguments, n_unwritten, written)


def _set_rule_of_doubt(parts: Sequence[Json], arguments: Namespace) -> None:
    """Set whether a doubt fails an edit.  It does if files are written, unless an option accepts it.  A rule in the
    edit itself comes first."""
    if arguments.allow_doubt or arguments.in_place:
        rule = "warn" if arguments.allow_doubt else "fail"
        for part in parts:
            own = part.get("on_verdict") or {}
            if isinstance(own, dict):  # `answerer` refuses anything else
                part["on_verdict"] = {DOUBT: rule, **own}


def _end(
    answer: Json, parts: Sequence[Json], arguments: Namespace, n_unwritten: int, written: Sequence[FileWrite]
) -> int:
    """Report what became of the files, and return the exit code."""
    asked = zip(answer["items"], itertools.cycle(parts), strict=False)
    is_doubted = any(refused_verdicts(item, part) for item, part in asked)
    code = output.OK if answer["status"] == "applied" and not is_doubted else output.REFUSED
    if n_unwritten:
        code = output.FILE
    if code or not arguments.quiet:
        for line in _summary(answer, is_written=arguments.in_place, is_verbose=arguments.verbose):
            output.write_note(line)
        if written:
            of_roots = [word for root in arguments.root or () for word in ("--root", root)]
            options = ["--all", *of_roots] if len(written) > 1 else []
            output.write_note(f"Undo with `{undo_command(shown(written[0].source.target), *options)}`.")
    return code


# -- the request -------------------------------------------------------------------------------------------------------
def _read_batch(arguments: Namespace, max_bytes: int) -> Json:
    """Return the batch as an object; its fields are checked later, by the answerer."""
    if arguments.patch is not None:
        mode = {"mode": "independent"} if arguments.independent else {}
        rules = {"on_verdict": dict(arguments.on_verdict)} if arguments.on_verdict else {}
        return {"patch": read_text(arguments.patch, max_bytes), **mode, **rules}
    name = arguments.batch
    try:
        batch = json.loads(read_bytes(name, max_bytes))
    except ValueError as error:
        raise InvalidField(
            f"The batch is not valid JSON: {error}.", value=name, remedy="Write one JSON object."
        ) from error
    if not isinstance(batch, dict):
        raise InvalidField("The batch is not a JSON object.", value=name, remedy='Write {"edits": [...]}.')
    _refuse_contents(batch)
    return batch


def _refuse_contents(part: Json) -> None:
    """Raise UnsupportedParameter for fields that only a request to a server may have."""
    if given := sorted({"original", "original_b64", "files"} & part.keys()):
        message = f"{', '.join(given)} would have no effect, because the files are read from disk."
        remedy = f"Leave out {', '.join(given)}, or send the batch to a server by HTTP."
        raise UnsupportedParameter(message, value=given, remedy=remedy)


@dataclass(slots=True)
class BatchFiles:
    """The files on disk that a batch names: how they are read, and how much has been read."""

    roots: Roots
    encoding: str | None
    """The encoding of all files, if the user named one."""
    max_bytes: int
    """The limit for all files together."""
    n_bytes: int = 0
    guesses: dict[str, FileEncoding] = field(default_factory=dict)
    """The encodings that were guessed, by the names of their files."""

    def read(self, name: str) -> SourceFile:
        """Return the file of this name.  Raises OutsideRoots, InvalidField, FileNotReadable, TooLarge."""
        source = read_as_judged(self.roots.resolve(name), self.max_bytes)
        self.n_bytes += len(source.data)
        if self.n_bytes > self.max_bytes:
            message = "The files of the batch are together larger than the limit."
            remedy = "Make several batches, or raise max_file_bytes (--max-file-bytes)."
            raise TooLarge(message, value=self.n_bytes, limit=self.max_bytes, remedy=remedy)
        return source

    def fields(self, name: str, source: SourceFile, encoding: str | None = None) -> dict[str, str]:
        """Return the request's fields for the file.  `encoding`: the encoding that the batch names for this file."""
        found = file_encoding(source.data, encoding or self.encoding)
        if found.is_guess:
            self.guesses[name] = found
        return original_fields(source.data, found.name)


def _names_in_patch(text: str, on_disk: BatchFiles) -> Sequence[str]:
    """Return the files that a patch or a reply names.  Raises UnsupportedParameter if it removes or renames a file
    through a link."""
    from apply_service.formats.patch import read_patch
    from apply_service.reply.reader import named_files, read_patch_reply
    from apply_service.text.fidelity import normalise

    reply = read_patch_reply(normalise(text))
    if not reply.is_patch:
        return named_files(reply.update)
    changes = read_patch(reply.update)
    for change in changes:
        if change.action in ("delete", "rename") and on_disk.roots.is_link(change.path):
            message = f"{change.path} is a symbolic link: the patch would remove or rename the file that it points to."
            remedy = "Name that file itself in the patch, or change the link with git."
            raise UnsupportedParameter(message, value=change.path, remedy=remedy)
    return [name for change in changes for name in change.names if name]


def _with_files(batch: Json, on_disk: BatchFiles, *, wants_diff: bool) -> tuple[Json, Sources]:
    """Return the batch, with the bytes of all files that its edits or its patch name."""
    sources: dict[str, SourceFile] = {}
    if "patch" in batch:
        for name in _names_in_patch(str(batch["patch"]), on_disk):
            sources[name] = on_disk.read(name)
        existing = {name: source for name, source in sources.items() if source.exists}
        files = [{"path": name, **on_disk.fields(name, source)} for name, source in existing.items()]
        return {**batch, "files": files, "diff": wants_diff}, sources
    asked = batch.get("edits")
    if not isinstance(asked, list) or not all(isinstance(edit, dict) for edit in asked):
        raise InvalidField(
            'The batch has neither "edits", a list of objects, nor a "patch".',
            value="edits",
            remedy='Write {"edits": [...]}.',
        )
    edits = []
    for number, edit in enumerate(asked):
        _refuse_contents(edit)
        path = edit.get("path")
        if not isinstance(path, str):
            raise InvalidField(f'edits.{number} has no "path".', value=path, remedy="Add the path of the file to edit.")
        sources[path] = on_disk.read(path)
        named = edit.get("encoding")
        original = on_disk.fields(path, sources[path], None if named is None else str(named))
        edits.append({**edit, **original, "diff": wants_diff})
    return {**batch, "edits": edits}, sources


def _tell_guesses(answer: Json, sources: Sources, guesses: Mapping[str, FileEncoding], *, is_together: bool) -> None:
    """Report each file whose encoding is a guess, in the answer for that file.  A file fails if its edit brings in
    characters that the guess may write wrongly.  If all or nothing is asked for, raise BadEncoding instead."""
    for item in answer["items"]:
        name = item["source"]
        if name not in guesses:
            continue
        if item["answer"] is None:
            if item["error"] is not None:
                item["error"]["remedy"] += guesses[name].hint
            continue
        try:
            item["answer"] = with_guess(item["answer"], guesses[name], sources[name].data)
        except BadEncoding as error:
            error.message = f"{name}: {error.message}"
            if is_together:
                raise
            item |= {"status": "failed", "answer": None, "diff": None, "error": error.as_dict()}
            answer["status"] = "partial" if any(one["status"] == "ok" for one in answer["items"]) else "refused"


# -- writing -----------------------------------------------------------------------------------------------------------
def _write_back(
    items: Sequence[Json], sources: Sources, write: Callable[[list[FileWrite]], None], *, is_together: bool
) -> int:
    """Write the files with status `ok`, and return how many could not be written.  Raises FileError instead if all or
    nothing is asked for, or if one item takes a name that another item gives up."""
    done = [item for item in items if item["status"] == "ok"]
    moved = [item for item in done if item["path"] != item["source"]]
    taken_over = {item["path"] for item in moved} & {item["source"] for item in moved} - {None}
    if is_together or taken_over:
        writes = [one for item in done for one in _writes(item, sources)]
        # A name that one item gives up and another takes is written, not deleted.
        written = {one.source.target for one in writes if one.data is not None}
        write([one for one in writes if one.data is not None or one.source.target not in written])
        return 0
    n_unwritten = 0
    for item in done:
        try:
            write(list(_writes(item, sources)))
        except FileError as error:
            output.print_error(error)
            item |= {"status": "failed", "answer": None, "error": error.as_dict()}
            n_unwritten += 1
    return n_unwritten


def _writes(item: Json, sources: Sources) -> Iterator[FileWrite]:
    """Yield the writes that an item asks for."""
    before = None if item["source"] is None else sources[item["source"]]
    if item["action"] != "delete":
        after = sources[item["path"]]
        is_executable, like = None, None
        if item["new_mode"] is not None:
            is_executable = item["new_mode"] == "100755"
        if before is not None and before.target != after.target:  # a moved or copied file stays executable
            like = before
            is_executable = bool((before.mode or 0) & 0o100) if is_executable is None else is_executable
        yield FileWrite(after, merged_bytes(item["answer"]), is_executable, like)
    if item["action"] in ("delete", "rename") and before is not None:
        yield FileWrite(before, None)


# -- the answer --------------------------------------------------------------------------------------------------------
def _summary(answer: Json, *, is_written: bool, is_verbose: bool) -> Iterator[str]:
    for item in answer["items"]:
        head = f"{item['path']}: {item['action']}"
        if item["answer"] is not None:
            yield f"{head}: {output.headline(item['answer'])}"
            yield from output.findings(item["answer"])
            if is_verbose:
                yield from output.details(item["answer"])
            continue
        yield head + (f": {item['status']}" if item["status"] != "ok" else "")
        if item["error"] is not None and item["error"]["code"] == CheckFailed.code:
            yield from output.findings(item)
            yield "  Look at it without --in-place; --allow-doubt or --on-verdict CHECK=warn write it all the same."
        elif item["error"] is not None:
            yield f"  {item['error']['message']}"
            yield f"  {item['error']['remedy']}"
    n_ok = sum(item["status"] == "ok" for item in answer["items"])
    done = "written" if is_written else "can be written"
    answers = [item["answer"] for item in answer["items"] if item["answer"] is not None and not is_written]
    n_doubted = sum(any(v["check"] == DOUBT and v["severity"] != "pass" for v in one["verdicts"]) for one in answers)
    only = f", {n_doubted} of them only with --allow-doubt" if n_doubted else ""
    yield f"{answer['status']}: {n_ok} of {len(answer['items'])} files {done}{only}"
