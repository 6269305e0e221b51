"""Defines the fields of native requests and batches, and turns them into the service's own requests.

The command line reads `--request -` and `--batch` with the same models, so this module does not import the HTTP
framework.  Besides the native API, the service's other API dialects use `EditOptions`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from apply_service.api.errors import from_validation
from apply_service.batch import BatchMode, PatchRequest, PatchSource
from apply_service.errors import ApplyError, InvalidField, StaleBase, TooLarge, UnsupportedParameter
from apply_service.registry import CHECKS
from apply_service.strategies import STRATEGY_VERDICTS
from apply_service.text.fidelity import SourceText, decode, hash_of
from apply_service.types import ApplyRequest, Strategy

T = TypeVar("T")
R = TypeVar("R")
Sha256 = Annotated[str, Field(pattern="^[0-9a-fA-F]{64}$")]
MAX_SEED = 2**63 - 1
VERDICT_NAMES = ", ".join((*CHECKS, *STRATEGY_VERDICTS))
FORMS = ("original", "original_b64")
OF_THE_PATCH = ("files", "on_verdict", "diff")


class RequestModel(BaseModel):
    """A body that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    @classmethod
    def parse(cls, body: bytes | str) -> Self:
        """Return the request in a JSON text.  Raises UnknownField, InvalidField or BadEncoding; each names the field,
        the value and the range."""
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            raise from_validation(error, cls) from None


class SourceFields(RequestModel):
    """The file, as text or as bytes."""

    original: str | None = Field(None, description='The file\'s text as it is, line ends untouched; `""`: a new file.')
    original_b64: str | None = Field(
        None, description="The file's bytes in base64, in place of `original`; the answer then has `merged_b64`."
    )
    encoding: str = Field("utf-8", description="What the file's bytes are encoded in.", min_length=1, max_length=40)

    def refuse_unclear(self) -> None:
        """Raise InvalidField unless the file is given in exactly one form."""
        if (self.original is None) == (self.original_b64 is None):
            is_missing, forms = self.original is None, list(FORMS)
            what = (
                "has neither `original` nor `original_b64`" if is_missing else "has both `original` and `original_b64`"
            )
            message = f"the request {what}"
            raise InvalidField(
                message, value="original", limit=forms, remedy='send one of them; for a new file "original": ""'
            )

    def read(self) -> SourceText:
        """Return the file's text.  Raises InvalidField or BadEncoding."""
        if self.original is not None:
            return SourceText.of(self.original, self.encoding)
        try:
            data = base64.b64decode(self.original_b64 or "", validate=True)
        except ValueError as error:  # binascii raises a subclass, and ValueError itself for text beyond ASCII
            message = f"original_b64 is not base64: {error}"
            raise InvalidField(message, value="original_b64", remedy="send standard base64") from error
        return decode(data, self.encoding)


class EditTexts(SourceFields):
    """The file and the edit."""

    update: str = Field("", description="The edit: lazy snippet, search/replace blocks, diff, patch or whole file.")
    instruction: str = Field("", description="What the edit is to do, in words.")


def _number_as_text(value: object) -> object:
    """Return a number as text, and anything else as it is: a reading is named by its number or by its id."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class EditOptions(RequestModel):
    """How an edit is applied, in every dialect."""

    path: str | None = Field(None, description="The file's name; tells the language. Nothing is opened.")
    language: str | None = Field(None, description="The file's language, where its name does not tell.")
    format: str | None = Field(None, description="Format of the update; left out, it is detected.")
    base: str | None = Field(
        None,
        description="The text that the edit was made for, where the file is newer: the edit is applied to it, and "
        "merged three-way with the file.",
    )
    base_sha256: Sha256 | None = Field(
        None,
        description="Hash of the bytes that the edit was made for; another original (or `base`) is refused as stale.",
    )
    conflicts: Literal["error", "markers"] = Field(
        "error", description="Of lines that both the file and the edit changed since `base`: refuse, or write both."
    )
    strategy: Strategy = Field("auto", description="Who decides: `exact` the program, `model` the target.")
    drafter: str | None = Field(
        None,
        description="Drafter by name, or up to three as `merged_edit+suffix`. Changes the speed, never the answer.",
    )
    constrain: Literal["sources", "none"] | None = Field(
        None,
        description="`sources`: every line that the target writes is one of the original or of the update.",
    )
    timeout_s: float | None = Field(None, gt=0, description="Deadline in seconds, queueing included.")
    on_verdict: dict[str, Literal["warn", "fail"]] = Field(
        default_factory=dict, description=f"What a finding does, by the name of its check: {VERDICT_NAMES}."
    )
    diff: bool = Field(False, description="Also answer with a unified diff, and one of each other reading.")
    reading: Annotated[str | None, BeforeValidator(_number_as_text)] = Field(
        None,
        pattern="^(?:[1-9]|[0-9a-f]{12})$",
        description="The reading of the edit to return, by its id in an answer to the same request, or by its number: "
        "1 is the likeliest, the others follow as the answer lists them.",
    )


class NativeRequest(EditOptions, EditTexts):
    """One edit of one file.  A field that is not listed is refused, and the error names it."""

    model: str | None = Field(None, description="Target model by name or alias; left out, the service's own.")
    temperature: float = Field(0.0, ge=0.0, le=2.0, description="0 is greedy.")
    seed: int = Field(0, ge=0, le=MAX_SEED, description="Seed of the sampling; the answer repeats it.")
    max_tokens: int | None = Field(None, ge=1, description="Most tokens to generate; reaching it is an error.")
    stream: bool = Field(False, description="Answer as server-sent events.")

    @classmethod
    def parse(cls, body: bytes | str) -> Self:
        """Return the request, as `RequestModel.parse` does.  The file must be given in exactly one form."""
        call = super().parse(body)
        call.refuse_unclear()
        return call

    def refuse_in_batch(self) -> None:
        """Raise UnsupportedParameter or InvalidField if this can't be an edit of a batch."""
        if "stream" in self.model_fields_set:
            remedy = "leave `stream` out, or send the edit alone to /v1/apply"
            raise UnsupportedParameter("the answer to a batch can't be streamed", value="stream", remedy=remedy)
        self.refuse_unclear()

    def to_request(self) -> ApplyRequest:
        """Return the service's own request.  Raises InvalidField if the bytes are not base64, BadEncoding if they are
        not in the named encoding."""
        source = self.read()
        values = self.model_dump(exclude={*FORMS, "encoding", "stream"})
        return ApplyRequest(original=source.text, encoding=source.encoding, **values)


# -- several files -----------------------------------------------------------------------------------------------------
class BatchFile(SourceFields):
    """A file that the patch may name."""

    path: str = Field(description="Its name, as the patch has it.", min_length=1)
    base_sha256: Sha256 | None = Field(None, description="Hash of the bytes that the patch was made for.")

    def to_source(self) -> PatchSource:
        """Return the file for the patch.  Raises InvalidField, BadEncoding or StaleBase."""
        source = self.read()
        found = hash_of(source.text, source)
        if self.base_sha256 is not None and self.base_sha256.lower() != found:
            remedy = "read the file again and make a new patch"
            message = "the file has changed since the patch was made: its hash is not base_sha256"
            raise StaleBase(message, value=self.base_sha256, limit=found, remedy=remedy)
        return PatchSource(self.path, source.text, source.encoding)


class BatchRequest(RequestModel):
    """Several files in one request.  A field that is not listed is refused, and the error names it."""

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
    def parse(cls, body: bytes | str, max_edits: int | None = None) -> Self:
        """Return the batch, as `RequestModel.parse` does.  Also raises UnsupportedParameter, and TooLarge if the batch
        has more than `max_edits` edits."""
        call = super().parse(body)
        if (call.edits is None) == (call.patch is None):
            message = f"the batch has {'neither `edits` nor' if call.patch is None else 'both `edits` and'} a `patch`"
            both = ["edits", "patch"]
            raise InvalidField(message, value="edits", limit=both, remedy="send one of the two")
        if call.patch is None and (given := sorted(call.model_fields_set.intersection(OF_THE_PATCH))):
            message = f"the batch has no `patch`, so {', '.join(given)} would have no effect"
            raise UnsupportedParameter(message, value=given, remedy="leave it out, or set it in each edit")
        _each("edits", call.edits or [], NativeRequest.refuse_in_batch)
        _each("files", call.files, BatchFile.refuse_unclear)
        n_edits = len(call.files if call.edits is None else call.edits)
        if max_edits is not None and n_edits > max_edits:
            remedy = "split it into several batches, or raise max_batch_edits"
            raise TooLarge("the batch holds too many edits", value=n_edits, limit=max_edits, remedy=remedy)
        return call

    def to_requests(self) -> list[ApplyRequest]:
        """Return the service's own requests.  Raises InvalidField or BadEncoding, which name the edit."""
        return _each("edits", self.edits or [], NativeRequest.to_request)

    def to_patch(self) -> PatchRequest:
        """Return the patch and its files.  Raises InvalidField, BadEncoding or StaleBase, which name the file."""
        sources = _each("files", self.files, BatchFile.to_source)
        return PatchRequest(self.patch or "", tuple(sources), self.mode, self.on_verdict, self.diff)


def _each(name: str, items: Iterable[T], work: Callable[[T], R]) -> list[R]:
    """Return the result of `work` for each item.  The messages of its errors begin with the name of the edit or
    file."""
    done = []
    for number, item in enumerate(items):
        try:
            done.append(work(item))
        except ApplyError as error:
            error.message = f"{name}.{number}: {error.message}"
            raise
    return done
