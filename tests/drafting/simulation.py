"""A target that writes a known answer, to count the passes and rejections of a drafter in no time."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from functools import cache

from apply_eval.replay import FILES
from apply_service.decoding.verify import Decoding
from apply_service.models import embedded_directory
from apply_service.prompts.tokenizer import ContentTokenizer, text_sources
from apply_service.protocols import DraftContext, Drafter, EditJob
from apply_service.types import Certainty, DecodeStats, LineOp, Prediction
from tests.decoding.alone import decode_alone
from tests.fake_engine import ScriptedEngine
from tests.plain_bytes import END, PlainBytes

TEXT_END = 1 << 20


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
    return passes_to(drafter, [*after.encode(), END], window=window)


def passes_in(
    tokenizer: ContentTokenizer, drafter: Callable[[DraftContext], Drafter], job: EditJob, after: str
) -> DecodeStats:
    """What it takes to write `after` in the tokens of `tokenizer`."""
    sources = text_sources(job, tokenizer, before="", after="", end_id=TEXT_END)
    return passes_to(drafter(DraftContext(sources, [0])), [*tokenizer.encode(after).ids, TEXT_END])


def passes_to(drafter: Drafter, answer: list[int], *, window: int = 255) -> DecodeStats:
    """What it takes a drafter to write these ids, the last of which ends the output."""
    decoding = Decoding(ScriptedEngine(answer, max_draft=window), [0], drafter, len(answer) + 9, frozenset(answer[-1:]))
    for _ in decode_alone(decoding):
        pass
    assert decoding.output_ids == answer
    return decoding.stats


@cache
def tokenizers() -> dict[str, ContentTokenizer]:
    """Two ways to cut text: line ends at the start of the indentation's token, and at the end of the token before."""
    models = embedded_directory().parent
    replay = lzma.decompress((FILES / "tokenizer.json.xz").read_bytes()).decode()
    return {
        "before": ContentTokenizer((models / "embedded" / "tokenizer.json").read_text(encoding="utf-8")),
        "after": ContentTokenizer(replay),
    }
