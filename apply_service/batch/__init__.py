"""Defines a request for several files, and its answer, as values that clients share.

`edits` asks the service for each file, `patch` applies one patch to all.  A file fails through an error, or through a
verdict that the caller does not accept.  Its verdicts are reported either way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from apply_service.errors import ApplyError, CheckFailed
from apply_service.types import ApplyResult, Verdict, is_refused

BatchMode = Literal["all_or_nothing", "independent"]
"""Whether one failed file withholds every result, or each file stands for itself."""
BatchStatus = Literal["applied", "partial", "refused"]
ItemStatus = Literal["ok", "failed", "withheld"]
FileAction = Literal["create", "modify", "delete", "rename", "copy", "mode"]


@dataclass(frozen=True, slots=True)
class PatchSource:
    """A file as it was before the patch."""

    path: str
    text: str
    encoding: str = "utf-8"


@dataclass(frozen=True, slots=True)
class PatchRequest:
    """One patch or reply in any format, and the files that it may name."""

    patch: str
    files: tuple[PatchSource, ...]
    mode: BatchMode = "all_or_nothing"
    on_verdict: Mapping[str, Literal["warn", "fail"]] = field(default_factory=dict)
    diff: bool = False


@dataclass(frozen=True, slots=True)
class BatchItem:
    """One file of a batch."""

    path: str | None
    """The file's name afterwards; a deleted file keeps its old name.  None if the request gave no name."""
    action: FileAction
    status: ItemStatus
    verdicts: tuple[Verdict, ...] = ()
    result: ApplyResult | None = None
    """The merge; None for a deleted or failed file, and if the batch was withheld."""
    error: ApplyError | None = None
    source: str | None = None
    """The file's name before; None for a new file."""
    new_mode: str | None = None
    """git's mode (`100755`), if a patch sets one."""
    diff: str | None = None
    """The whole change as a diff with names and mode, if it was asked for; the result's own diff is then None."""

    @classmethod
    def of(
        cls, path: str | None, answer: ApplyResult | ApplyError, rules: Mapping[str, str], *, is_new: bool
    ) -> BatchItem:
        """Return the item for an edit of one file: its answer, judged by the rules, or the error."""
        item = cls(path, "create" if is_new else "modify", "ok", source=None if is_new else path)
        if isinstance(answer, ApplyError):
            return replace(item, status="failed", error=answer)
        result = replace(answer, diff=None)
        return replace(item, verdicts=answer.verdicts, result=result, diff=answer.diff).judged(rules)

    def judged(self, on_verdict: Mapping[str, str]) -> BatchItem:
        """Return the item, marked as failed if it has a verdict that the rules do not accept."""
        failed = [verdict for verdict in self.verdicts if is_refused(verdict.check, verdict.severity, on_verdict)]
        if not failed:
            return self
        error = CheckFailed(
            f"{failed[0].check}: {failed[0].message}",
            value=sorted({verdict.check for verdict in failed}),
            remedy=f'Correct the edit, or accept the finding: on_verdict {{"{failed[0].check}": "warn"}}',
        )
        return replace(self, status="failed", result=None, diff=None, error=error)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The terminal answer to a batch.  Items have the order of the request, or of the patch."""

    mode: BatchMode
    items: tuple[BatchItem, ...]

    @classmethod
    def of(cls, mode: BatchMode, items: Sequence[BatchItem]) -> BatchResult:
        """Return the result with these items.  If the mode is `all_or_nothing` and one item failed, all results are
        left out."""
        if mode == "all_or_nothing" and any(item.status == "failed" for item in items):
            items = [
                replace(item, status="withheld", result=None, diff=None) if item.status == "ok" else item
                for item in items
            ]
        return cls(mode, tuple(items))

    @property
    def status(self) -> BatchStatus:
        """The outcome: `applied` if every file is ok, `refused` if no file is, else `partial` (only in the mode
        `independent`)."""
        n_ok = sum(item.status == "ok" for item in self.items)
        if n_ok == len(self.items):
            return "applied"
        return "partial" if n_ok else "refused"
