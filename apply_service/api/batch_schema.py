"""What `POST /v1/apply/batch` takes and answers, field by field.

Two forms: `edits`, each as `POST /v1/apply` takes it, or one `patch` over `files`.  Either is refused by name where it
holds a field of the other.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from apply_service.api.answer import ErrorDetail, NativeAnswer, VerdictOut
from apply_service.api.errors import error_body, from_validation
from apply_service.api.schema import NativeRequest, Sha256, known_fields, read_original, refuse_unclear_original
from apply_service.batch.requests import PatchRequest, PatchSource
from apply_service.batch.results import BatchItem, BatchMode, BatchResult, BatchStatus, FileAction, ItemStatus
from apply_service.edits.fidelity import SourceText, encode
from apply_service.errors import ApplyError, InvalidField, StaleBase, UnsupportedParameter
from apply_service.types import ApplyRequest

OF_THE_PATCH = ("files", "on_verdict", "diff")


class BatchFile(BaseModel):
    """A file that the patch may name."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    path: str = Field(description="Its name, as the patch has it.", min_length=1)
    original: str | None = Field(None, description="Its text as it is, line ends untouched.")
    original_b64: str | None = Field(None, description="Its bytes in base64, in place of `original`.")
    encoding: str = Field("utf-8", description="What its bytes are encoded in.", min_length=1, max_length=40)
    base_sha256: Sha256 | None = Field(None, description="Hash of the bytes that the patch was made for.")


class BatchRequest(BaseModel):
    """Several files in one request.  A field that is not listed is refused by name."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    mode: BatchMode = Field(
        "all_or_nothing",
        description="`all_or_nothing`: one file that fails withholds every result. `independent`: each for itself.",
    )
    edits: list[NativeRequest] | None = Field(
        None, description="Edits, each of a file of its own, as `POST /v1/apply` takes them, without `stream`."
    )
    patch: str | None = Field(
        None, description="In place of `edits`: one patch or reply over `files`, in any format; no model is asked."
    )
    files: list[BatchFile] = Field([], description="The files that the patch names, as they are.")
    on_verdict: dict[str, Literal["warn", "fail"]] = Field(
        default_factory=dict, description="With `patch`: what a finding does, by the name of its check."
    )
    diff: bool = Field(False, description="With `patch`: also answer with diffs.")

    @classmethod
    def parse(cls, body: bytes | str) -> Self:
        """The request in a JSON text.

        Raises:
            UnknownField, InvalidField, BadEncoding, UnsupportedParameter: names the field, its value and its range.
        """
        try:
            call = cls.model_validate_json(body)
        except ValidationError as error:
            findings: list[Any] = error.errors(include_url=False)
            raise from_validation(findings, known_fields(cls, findings)) from None
        call._refuse_mixed_forms()
        for number, edit in enumerate(call.edits or []):
            with _named(f"edits.{number}"):
                _refuse_stream(edit)
                refuse_unclear_original(edit.original, edit.original_b64)
        for number, file in enumerate(call.files):
            with _named(f"files.{number}"):
                refuse_unclear_original(file.original, file.original_b64)
        return call

    def to_requests(self) -> list[ApplyRequest]:
        """The service's own requests.  Raises InvalidField or BadEncoding, naming the edit."""
        requests = []
        for number, edit in enumerate(self.edits or []):
            with _named(f"edits.{number}"):
                requests.append(edit.to_request())
        return requests

    def to_patch(self) -> PatchRequest:
        """The patch and its files.  Raises InvalidField, BadEncoding or StaleBase, naming the file."""
        sources = []
        for number, file in enumerate(self.files):
            with _named(f"files.{number}"):
                source = read_original(file.original, file.original_b64, file.encoding)
                _refuse_stale(file, source)
                sources.append(PatchSource(file.path, source.text, source.encoding))
        return PatchRequest(self.patch or "", tuple(sources), self.mode, self.on_verdict, self.diff)

    @property
    def bytes_wanted(self) -> frozenset[str]:
        """Paths of the files that came as bytes, and are to go as such."""
        return frozenset(file.path for file in self.files if file.original_b64 is not None)

    def _refuse_mixed_forms(self) -> None:
        if (self.edits is None) == (self.patch is None):
            raise InvalidField(
                "Send `edits` or a `patch`, one of the two.",
                value="edits",
                limit=["edits", "patch"],
                remedy="Send one.",
            )
        if self.patch is None and (given := sorted(self.model_fields_set.intersection(OF_THE_PATCH))):
            raise UnsupportedParameter(
                f"Without a patch, {', '.join(given)} would have no effect.",
                value=given,
                remedy="Say it in each edit.",
            )


class BatchItemOut(BaseModel):
    """One file of the batch."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str | None = Field(description="Its name after; of a deleted file its name before.")
    source: str | None = Field(description="Its name before; null for a new file.")
    action: FileAction = Field(description="What happens to it.")
    new_mode: str | None = Field(description="git's mode (`100755`), where a patch sets one.")
    status: ItemStatus = Field(description="`withheld`: it is well, but another one failed.")
    verdicts: list[VerdictOut] = Field(description="What every check found, whatever the status.")
    answer: NativeAnswer | None = Field(description="As of `POST /v1/apply`; null unless ok, and of a deleted file.")
    error: ErrorDetail | None = Field(description="Why it failed.")
    diff: str | None = Field(description="The whole change, names and mode included, where it was asked for.")

    @classmethod
    def of(cls, item: BatchItem, *, with_bytes: bool) -> Self:
        error: Any = None if item.error is None else error_body(item.error)["error"]
        return cls(
            path=item.path,
            source=item.source,
            action=item.action,
            new_mode=item.new_mode,
            status=item.status,
            verdicts=[VerdictOut.model_validate(verdict) for verdict in item.verdicts],
            answer=None if item.result is None else NativeAnswer.of(item.result, with_bytes=with_bytes),
            error=None if error is None else ErrorDetail.model_validate(error),
            diff=item.diff,
        )


class BatchAnswer(BaseModel):
    """What became of each file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: BatchMode
    status: BatchStatus = Field(description="`applied`: every file is ok; `partial`: some are; `refused`: none is.")
    items: list[BatchItemOut] = Field(description="In the order of the edits, or of the patch.")

    @classmethod
    def of(cls, result: BatchResult, call: BatchRequest) -> Self:
        """The answer to a request; files that came as bytes go as bytes."""
        numbered = {number for number, edit in enumerate(call.edits or []) if edit.original_b64 is not None}
        items = [
            BatchItemOut.of(item, with_bytes=number in numbered or item.source in call.bytes_wanted)
            for number, item in enumerate(result.items)
        ]
        return cls(mode=result.mode, status=result.status, items=items)


class _named:  # noqa: N801 - a context manager, used as a function
    """Errors raised inside say which edit or file they mean."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ApplyError):
            error.message = f"{self._name}: {error.message}"


def _refuse_stream(edit: NativeRequest) -> None:
    if "stream" in edit.model_fields_set:
        raise UnsupportedParameter(
            "A batch is answered whole.", value="stream", remedy="Leave it out, or send the edit to /v1/apply."
        )


def _refuse_stale(file: BatchFile, source: SourceText) -> None:
    found = sha256(encode(source.text, source)).hexdigest()
    if file.base_sha256 is not None and file.base_sha256.lower() != found:
        raise StaleBase(
            "the file is not the one the patch was made for",
            value=file.base_sha256,
            limit=found,
            remedy="read the file again and make the patch anew",
        )
