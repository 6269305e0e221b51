"""A target that writes a known answer, to count the passes and rejections of a drafter in no time."""

from __future__ import annotations

from collections.abc import Callable

from apply_service.decoding.scheduler import decode_alone
from apply_service.decoding.verify import Decoding
from apply_service.engine.fake import ScriptedEngine
from apply_service.prompts.plain_bytes import END, PlainBytes
from apply_service.protocols import DraftContext, Drafter, EditJob
from apply_service.types import Certainty, DecodeStats, LineOp, Prediction


def job(original: str, update: str, predicted: str) -> EditJob:
    """A job whose predicted merge is given as text (line operations don't matter to byte drafts)."""
    ops = tuple(LineOp("take", None, 0, line) for line in predicted.split("\n"))
    return EditJob(original, update, "", None, None, Prediction(ops, tuple(update.split("\n")), Certainty.LIKELY))


def passes(drafter: Callable[[DraftContext], Drafter], job: EditJob, after: str, *, window: int = 255) -> DecodeStats:
    """What it takes to write `after`, byte by byte."""
    prompt_format = PlainBytes()
    context = DraftContext(prompt_format.encode_sources(job), prompt_format.encode_prompt(job))
    return passes_of(drafter(context), after, window=window)


def passes_of(drafter: Drafter, after: str, *, window: int = 255) -> DecodeStats:
    """What it takes a drafter to write `after`, byte by byte."""
    answer = [*after.encode(), END]
    engine = ScriptedEngine(answer, max_draft=window)
    decoding = Decoding(engine, [0], drafter, len(answer) + 9, frozenset({END}))
    for _ in decode_alone(decoding):
        pass
    assert bytes(decoding.output_ids[:-1]).decode() == after
    return decoding.stats
