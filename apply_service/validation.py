"""What a request must be before any work is done on it: what front ends refuse too, for callers of the library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from apply_service.drafting.chain import check_drafter
from apply_service.edits.fidelity import SourceText, encode
from apply_service.errors import BadEncoding, EmptyUpdate, InvalidField, NulByte, StaleBase, UnknownModel
from apply_service.registry import CHECKS, names
from apply_service.results import hash_bytes
from apply_service.runtime import Runtime
from apply_service.strategies import STRATEGY_VERDICTS
from apply_service.types import ApplyRequest, Strategy

MAX_TEMPERATURE = 2.0
ONE_OF = "name one of these"


def validate(request: ApplyRequest, runtime: Runtime) -> SourceText:
    """Refuse what can't be applied, before any work.

    Raises:
        RequestError: the class says which field and why.
    """
    if not request.update.strip() and not request.instruction.strip():
        raise EmptyUpdate("there is no edit", value=request.update, remedy="send `update` or `instruction`")
    for name, text in (
        ("original", request.original),
        ("update", request.update),
        ("instruction", request.instruction),
    ):
        if "\0" in text:
            raise NulByte(
                f"`{name}` holds a NUL character", value=text.index("\0"), remedy="send text, not binary data"
            )
    _refuse_unknown_names(request, runtime)
    _refuse_bad_values(request)
    source = SourceText.of(request.original, request.encoding)
    if request.base_sha256 is not None and request.base_sha256.lower() != hash_bytes(encode(request.original, source)):
        raise StaleBase(
            "the original is not the one the edit was made for",
            value=request.base_sha256,
            limit=hash_bytes(encode(request.original, source)),
            remedy="read the file again and repeat the edit",
        )
    return source


def _refuse_unknown_names(request: ApplyRequest, runtime: Runtime) -> None:
    if request.model is not None and request.model not in runtime.models:
        raise UnknownModel(
            "this service has no such model",
            value=request.model,
            limit=list(runtime.models),
            remedy=ONE_OF,
        )
    if request.drafter is not None:
        check_drafter(request.drafter, has_draft_model=runtime.has_draft_model)
    refuse_unknown_checks(request.on_verdict)


def refuse_unknown_checks(on_verdict: Mapping[str, str]) -> None:
    """Raises InvalidField where a rule is for a check that there is none of: it would never take effect."""
    if unknown := sorted(on_verdict.keys() - {*CHECKS, *STRATEGY_VERDICTS}):
        limit = [*names(CHECKS), *STRATEGY_VERDICTS]
        raise InvalidField("`on_verdict` names unknown checks", value=unknown, limit=limit, remedy=ONE_OF)


def _refuse_bad_values(request: ApplyRequest) -> None:
    """What the front ends refuse as well, for callers of the library."""
    if request.strategy not in get_args(Strategy):
        raise InvalidField("no such strategy", value=request.strategy, limit=list(get_args(Strategy)), remedy=ONE_OF)
    if request.constrain not in (None, "sources", "none"):
        raise InvalidField("no such constraint", value=request.constrain, limit=["sources", "none"], remedy=ONE_OF)
    if not 0 <= request.temperature <= MAX_TEMPERATURE:
        raise InvalidField(
            "`temperature` is out of range",
            value=request.temperature,
            limit=f"0 to {MAX_TEMPERATURE:g}",
            remedy="set it within the range; 0 is greedy",
        )
    if request.max_tokens is not None and request.max_tokens < 1:
        raise InvalidField(
            "`max_tokens` must be positive",
            value=request.max_tokens,
            limit="1 or more",
            remedy="raise it or leave it out",
        )
    for name, text in (("update", request.update), ("instruction", request.instruction)):
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise BadEncoding(f"`{name}` holds a lone surrogate", value=name, remedy="send well-formed text")
