"""`apply-service apply --batch` and `--patch`: several files, all of them or each for itself.

Reads what the batch or patch names from disk, asks for the answer (`answering`), and prints diffs or writes the files
back.  Names are judged by `roots`: a batch may come from an agent, a patch from anywhere.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apply_service.backups import BackupStore
from apply_service.commands.answering import answer_batch
from apply_service.commands.content import UTF8, merged_bytes, original_fields, read_bytes, read_text
from apply_service.commands.exit_codes import FILE, OK, REFUSED
from apply_service.commands.output import (
    color_diff,
    print_error,
    print_failure,
    summary_lines,
    write_line,
    write_note,
    write_out,
)
from apply_service.errors import ApplyError, FileError, InvalidField, UnsupportedParameter
from apply_service.files import FileWrite, SourceFile, read_source
from apply_service.roots import Roots
from apply_service.settings import Settings, is_color_wanted
from apply_service.verdict_rules import DOUBT

READ_HERE = frozenset({"original", "original_b64", "files"})
"""What a request to a server holds and a batch on disk does not: the files are there."""

EXECUTABLE = "100755"


@dataclass(frozen=True, slots=True)
class Plan:
    """The request, and the files it names, as they were read, by the names it gives them."""

    request: Mapping[str, Any]
    sources: Mapping[str, SourceFile]

    @property
    def is_together(self) -> bool:
        return bool(self.request.get("mode", "all_or_nothing") == "all_or_nothing")


def run(arguments: Namespace, settings: Settings) -> int:
    """Run the command; the exit code.  Raises ApplyError."""
    roots = Roots(arguments.root or ["."])
    wants_diff = arguments.diff or not (arguments.in_place or arguments.json)
    try:
        if arguments.batch is not None:
            plan = _plan_edits(_read_batch(arguments.batch), roots, wants_diff=wants_diff)
        else:
            encoding = arguments.encoding or UTF8
            plan = _plan_patch(_patch_fields(arguments), encoding, roots, wants_diff=wants_diff)
        request = _with_rule_of_doubt(plan.request, arguments)
        answer = answer_batch(json.dumps(request).encode(), settings, len(plan.sources))
        n_unwritten = _write_back(plan, answer, settings) if arguments.in_place else 0
    except ApplyError as error:
        return print_failure(error, is_json=arguments.json)
    _print_answer(answer, arguments, settings)
    if n_unwritten:
        return FILE
    return OK if answer["status"] == "applied" else REFUSED


def _with_rule_of_doubt(request: Mapping[str, Any], arguments: Namespace) -> Mapping[str, Any]:
    """The request with what shall happen to an answer in doubt, wherever it does not say so itself."""
    rule = "warn" if arguments.allow_doubt else "fail" if arguments.in_place else None
    if rule is None:
        return request
    if "edits" not in request:
        return _ruled(request, rule)
    return {**request, "edits": [_ruled(edit, rule) for edit in request["edits"]]}


def _ruled(edit: Mapping[str, Any], rule: str) -> Mapping[str, Any]:
    """The edit with the rule, unless it has one; rules that are no object are for whoever answers to refuse."""
    own = edit.get("on_verdict") or {}
    return {**edit, "on_verdict": {DOUBT: rule, **own}} if isinstance(own, Mapping) else edit


# -- what is asked -----------------------------------------------------------------------------------------------------
def _read_batch(name: str) -> dict[str, Any]:
    """The batch as an object, as far as it is one: whoever answers it checks it in earnest."""
    try:
        batch = json.loads(read_bytes(name))
    except ValueError as error:
        raise InvalidField(f"The batch is not JSON: {error}.", value=name, remedy="Write one JSON object.") from error
    if not isinstance(batch, dict):
        raise InvalidField("The batch is no JSON object.", value=name, remedy='Write {"edits": [...]}.')
    return batch


def _patch_fields(arguments: Namespace) -> dict[str, Any]:
    fields: dict[str, Any] = {"patch": read_text(arguments.patch)}
    if arguments.independent:
        fields["mode"] = "independent"
    if arguments.on_verdict:
        fields["on_verdict"] = dict(arguments.on_verdict)
    return fields


def _plan_edits(batch: dict[str, Any], roots: Roots, *, wants_diff: bool) -> Plan:
    """The batch with the files' own bytes in it."""
    _refuse_contents(batch)
    if "patch" in batch:
        return _plan_patch(batch, UTF8, roots, wants_diff=wants_diff)
    edits, sources = [], {}
    for number, edit in enumerate(_edits_of(batch)):
        _refuse_contents(edit)
        path = edit.get("path")
        if not isinstance(path, str):
            raise InvalidField(f"edits.{number} names no file.", value=path, remedy='Give each edit a "path".')
        sources[path] = read_source(roots.resolve(path), needs_folder=False)
        encoding = str(edit.get("encoding", UTF8))
        edits.append({**edit, **dict(original_fields(sources[path].data, encoding)), "diff": wants_diff})
    return Plan({**batch, "edits": edits}, sources)


def _edits_of(batch: Mapping[str, Any]) -> list[dict[str, Any]]:
    edits = batch.get("edits")
    if not isinstance(edits, list) or not all(isinstance(edit, dict) for edit in edits):
        raise InvalidField(
            'A batch holds "edits", a list of objects, or a "patch".', value="edits", remedy='Write {"edits": [...]}.'
        )
    return edits


def _refuse_contents(part: Mapping[str, Any]) -> None:
    if given := sorted(READ_HERE & part.keys()):
        raise UnsupportedParameter(
            f"The files are read from disk: {', '.join(given)} would have no effect.",
            value=given,
            remedy="Leave them out, or send the batch to a server by HTTP.",
        )


def _plan_patch(fields: Mapping[str, Any], encoding: str, roots: Roots, *, wants_diff: bool) -> Plan:
    """A patch with the files that it names and that there are."""
    from apply_service.edits.fidelity import normalise
    from apply_service.edits.patch import read_patch
    from apply_service.edits.reply import named_files, read_patch_reply

    reply = read_patch_reply(normalise(str(fields["patch"])))
    changes = read_patch(reply.update) if reply.is_patch else ()
    _refuse_moved_links([change.path for change in changes if change.action in ("delete", "rename")], roots)
    names = dict.fromkeys(name for change in changes for name in change.names if name)
    if not reply.is_patch:
        names = dict.fromkeys(named_files(reply.update))
    sources = {name: read_source(roots.resolve(name), needs_folder=False) for name in names}
    files = [
        {"path": name, **dict(original_fields(source.data, encoding))}
        for name, source in sources.items()
        if source.exists
    ]
    return Plan({**fields, "files": files, "diff": wants_diff}, sources)


def _refuse_moved_links(names: list[str], roots: Roots) -> None:
    """What goes by deleting or moving is the file that a link leads to, which nobody asked for."""
    for name in names:
        if roots.is_link(name):
            raise UnsupportedParameter(
                f"{name} is a symbolic link: the patch would take away the file that it leads to.",
                value=name,
                remedy="Name the file itself, or change the link by other means.",
            )


# -- writing -----------------------------------------------------------------------------------------------------------
def _write_back(plan: Plan, answer: dict[str, Any], settings: Settings) -> int:
    """Write what is ok; the number of files that could not be.  Raises FileError where all or nothing is asked for, or
    names go from one file to another."""
    store = BackupStore(settings.state_path, settings.backups_kept)
    done = [item for item in answer["items"] if item["status"] == "ok"]
    gained, given_up = ({item[name] for item in done if item["path"] != item["source"]} for name in ("path", "source"))
    if plan.is_together or (gained & given_up) - {None}:
        store.write_all(_all_writes(done, plan.sources))
        return 0
    return sum(not _write_one(store, item, plan) for item in done)


def _write_one(store: BackupStore, item: dict[str, Any], plan: Plan) -> bool:
    try:
        store.write_all(list(_writes(item, plan.sources)))
    except FileError as error:
        print_error(error)
        item |= {"status": "failed", "answer": None, "error": error.as_dict()}
        return False
    return True


def _all_writes(items: Sequence[Mapping[str, Any]], sources: Mapping[str, SourceFile]) -> list[FileWrite]:
    """What becomes of all files together: a name that one item gives up and another takes is written."""
    writes = [write for item in items for write in _writes(item, sources)]
    written = {write.source.target for write in writes if write.data is not None}
    return [write for write in writes if write.data is not None or write.source.target not in written]


def _writes(item: Mapping[str, Any], sources: Mapping[str, SourceFile]) -> Iterator[FileWrite]:
    """What becomes of the files that an item speaks of."""
    before = None if item["source"] is None else sources[item["source"]]
    if item["action"] != "delete":
        after = sources[item["path"]]
        yield FileWrite(after, merged_bytes(item["answer"]), _is_executable(item, before, after))
    if item["action"] in ("delete", "rename") and before is not None:
        yield FileWrite(before, None)


def _is_executable(item: Mapping[str, Any], before: SourceFile | None, after: SourceFile) -> bool | None:
    """None leaves it as it is; a file that is moved or copied stays what it was."""
    if item["new_mode"] is not None:
        return bool(item["new_mode"] == EXECUTABLE)
    is_elsewhere = before is not None and before.target != after.target
    return bool((before.mode or 0) & 0o100) if is_elsewhere and before is not None else None


# -- the answer --------------------------------------------------------------------------------------------------------
def _print_answer(answer: Mapping[str, Any], arguments: Namespace, settings: Settings) -> None:
    if arguments.json:
        write_line(json.dumps(answer, ensure_ascii=False))
    elif diff := "".join(item["diff"] or "" for item in answer["items"]):
        write_out(color_diff(diff) if is_color_wanted(settings, sys.stdout.isatty()) else diff)
    if not arguments.quiet:
        for item in answer["items"]:
            for line in _item_lines(item):
                write_note(line)
        write_note(_outcome(answer, is_written=arguments.in_place))


def _item_lines(item: Mapping[str, Any]) -> Iterator[str]:
    if item["answer"] is not None:
        first, *rest = summary_lines(item["answer"])
        yield f"{item['path']}: {item['action']}: {first}"
        yield from rest
        return
    yield f"{item['path']}: {item['action']}" + (f": {item['status']}" if item["status"] != "ok" else "")
    if item["error"] is not None:
        yield f"  error: {item['error']['message']} [{item['error']['code']}]"
        yield f"  remedy: {item['error']['remedy']}"


def _outcome(answer: Mapping[str, Any], *, is_written: bool) -> str:
    n_ok = sum(item["status"] == "ok" for item in answer["items"])
    what = f"{n_ok} of {len(answer['items'])} files {'written' if is_written else 'can be written'}"
    return f"{answer['status']}: {what}" + (
        "; to take one back: apply-service undo FILE" if is_written and n_ok else ""
    )
