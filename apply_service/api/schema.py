"""What the native dialect takes, field by field, and its translation into the service's own request.

The command line's `--request -` goes through the same schema without any HTTP; the answer's is in `answer`.  What the
other dialects' schemas share with it is here too.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from apply_service.api.errors import from_validation
from apply_service.edits.fidelity import SourceText, decode
from apply_service.errors import InvalidField, TooLarge
from apply_service.registry import CHECKS
from apply_service.strategies import STRATEGY_VERDICTS
from apply_service.types import ApplyRequest, Strategy

Sha256 = Annotated[str, Field(pattern="^[0-9a-fA-F]{64}$")]
MAX_SEED = 2**63 - 1
VERDICT_NAMES = ", ".join((*CHECKS, *STRATEGY_VERDICTS))


class RequestModel(BaseModel):
    """A body whose fields are all known: one that is not listed is refused by name."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    @classmethod
    def parse_json(cls, body: bytes | str) -> Self:
        """The request in a JSON text.

        Raises:
            UnknownField, InvalidField, BadEncoding: names the field, its value and its range.
        """
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            findings: list[Any] = error.errors(include_url=False)
            raise from_validation(findings, known_fields(cls, findings)) from None


class EditTexts(RequestModel):
    """The file and the edit."""

    original: str | None = Field(None, description='The file\'s text as it is, line ends untouched; `""`: a new file.')
    original_b64: str | None = Field(
        None, description="The file's bytes in base64, in place of `original`; the answer then has `merged_b64`."
    )
    encoding: str = Field("utf-8", description="What the file's bytes are encoded in.", min_length=1, max_length=40)
    update: str = Field("", description="The edit: lazy snippet, search/replace blocks, diff, patch or whole file.")
    instruction: str = Field("", description="What the edit is to do, in words.")


class EditOptions(RequestModel):
    """How an edit is applied, in every dialect."""

    path: str | None = Field(None, description="The file's name; tells the language. Nothing is opened.")
    language: str | None = Field(None, description="The file's language, where its name does not tell.")
    format: str | None = Field(None, description="Format of the update; left out, it is detected.")
    base_sha256: Sha256 | None = Field(
        None, description="Hash of the bytes that the edit was made for; another original is refused as stale."
    )
    strategy: Strategy = Field("auto", description="Who decides: `exact` the program, `model` the target.")
    drafter: str | None = Field(
        None, description="Drafter by name, or two as `merged_edit+suffix`. Changes the speed, never the answer."
    )
    constrain: Literal["sources", "none"] | None = Field(
        None,
        description="`sources`: every line that the target writes is one of the original or of the update.",
    )
    timeout_s: float | None = Field(None, gt=0, description="Deadline in seconds, queueing included.")
    on_verdict: dict[str, Literal["warn", "fail"]] = Field(
        default_factory=dict, description=f"What a finding does, by the name of its check: {VERDICT_NAMES}."
    )
    diff: bool = Field(False, description="Also answer with a unified diff.")


class NativeRequest(EditOptions, EditTexts):
    """One edit of one file.  A field that is not listed is refused by name."""

    model: str | None = Field(None, description="Target model by name or alias; left out, the service's own.")
    temperature: float = Field(0.0, ge=0.0, le=2.0, description="0 is greedy.")
    seed: int = Field(0, ge=0, le=MAX_SEED, description="Seed of the sampling; the answer repeats it.")
    max_tokens: int | None = Field(None, ge=1, description="Most tokens to generate; reaching it is an error.")
    stream: bool = Field(False, description="Answer as server-sent events.")

    @classmethod
    def parse(cls, body: bytes | str) -> Self:
        """The request in a JSON text.

        Raises:
            UnknownField, InvalidField, BadEncoding: names the field, its value and its range.
        """
        call = cls.parse_json(body)
        refuse_unclear_original(call.original, call.original_b64)
        return call

    def to_request(self) -> ApplyRequest:
        """The service's own request; a model or drafter that was left out stays so, for the service to choose.

        Raises:
            InvalidField, BadEncoding: the bytes are no base64, or not in that encoding.
        """
        source = read_original(self.original, self.original_b64, self.encoding)
        values = self.model_dump(exclude={"original", "original_b64", "encoding", "stream"})
        return ApplyRequest(original=source.text, encoding=source.encoding, **values)


def known_fields(model: type[BaseModel], findings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The fields that there are where the first unknown one of pydantic's findings stands."""
    unknown = next((finding["loc"] for finding in findings if finding["type"] == "extra_forbidden"), ())
    for part in unknown[:-1]:
        field = model.model_fields.get(str(part))
        model = model if field is None else next(_models_in(field.annotation), model)
    return list(model.model_fields)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def refuse_unclear_original(original: str | None, original_b64: str | None) -> None:
    """Raises InvalidField unless the file is there in exactly one form."""
    if (original is None) == (original_b64 is None):
        raise InvalidField(
            "Give the file as `original` or as `original_b64`, one of the two.",
            value="original",
            limit=["original", "original_b64"],
            remedy='For a new file send "original": "".',
        )


def read_original(original: str | None, original_b64: str | None, encoding: str) -> SourceText:
    """The file's text.  Raises InvalidField or BadEncoding."""
    if original is not None:
        return SourceText.of(original, encoding)
    try:
        data = base64.b64decode(original_b64 or "", validate=True)
    except ValueError as error:  # binascii's own, and another one for what is not ASCII
        raise InvalidField(
            f"original_b64 is not base64: {error}.", value="original_b64", remedy="Send standard base64."
        ) from error
    return decode(data, encoding)


def refuse_too_many_lines(request: ApplyRequest, limit: int) -> None:
    """Raises TooLarge where original or update have more lines than the service takes."""
    for name, text in (("original", request.original), ("update", request.update)):
        if (n_lines := text.count("\n") + 1) > limit:
            raise TooLarge(
                f"{name} has too many lines.",
                value=n_lines,
                limit=limit,
                remedy="Send a part of it, or raise max_lines.",
            )


def body_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a body without references, as it can stand anywhere in the OpenAPI page."""
    schema = model.model_json_schema()
    shapes = schema.pop("$defs", {})

    def inline(node: Any) -> Any:
        if isinstance(node, dict):
            shape = shapes.get(str(node.get("$ref", "")).rsplit("/", 1)[-1])
            rest = {key: inline(value) for key, value in node.items() if key != "$ref"}
            return rest if shape is None else {**inline(shape), **rest}
        return [inline(item) for item in node] if isinstance(node, list) else node

    inlined: dict[str, Any] = inline(schema)
    return inlined


def request_body(model: type[BaseModel]) -> dict[str, Any]:
    """A route's body for the OpenAPI page."""
    return {"required": True, "content": {"application/json": {"schema": body_schema(model)}}}
