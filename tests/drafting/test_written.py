"""What is written for new text stops where it leads back into a source, which goes on in its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from apply_service.drafting.copy import Original
from apply_service.drafting.drafter import Chain
from apply_service.drafting.written import WritingDrafter
from apply_service.protocols import DraftContext
from tests.adversarial import told
from tests.drafting.simulation import job, passes_of
from tests.plain_bytes import PlainBytes

FILE = "".join(f"def function_{i}(a, b):\n    total_{i} = a + b * {i}\n    return total_{i}\n\n\n" for i in range(30))
AT = FILE.index("def function_15(")
NEW = "LIMIT = 12345\n\n\n"
AFTER = FILE[:AT] + NEW + FILE[AT:]


class Writes(WritingDrafter):
    """Writes a known text byte by byte, and counts what it wrote."""

    def __init__(self, context: DraftContext, text: str) -> None:
        super().__init__(context, "writes", most=24, least=0.05)
        self._ids = list(text.encode())
        self.n_written = 0

    def write(self, output_ids: Sequence[int], n_tokens: int) -> Iterator[int]:
        for token in self._ids[len(output_ids) :]:
            self.n_written += 1
            yield token


@pytest.fixture
def context() -> DraftContext:
    prompt_format, edit = PlainBytes(), job(FILE, "", FILE)
    return DraftContext(prompt_format.encode_sources(edit), prompt_format.encode_prompt(edit), max_new_tokens=9_999)


def chained(context: DraftContext, text: str) -> tuple[Chain, Writes]:
    """A chain that has followed the output up to the new text, and its writer."""
    first = Original(context)
    first.propose(list(FILE[:AT].encode()), 0)
    second = Writes(replace(context, resume=first.resume), text)
    return Chain(first, second), second


def test_a_source_goes_on_where_new_text_leads_back_into_it(context: DraftContext) -> None:
    _, second = chained(context, AFTER)
    output = list(AFTER[: AT + len(NEW) - 4].encode())
    draft = second.propose(output, 60)
    assert bytes(draft.token_ids).decode() == AFTER[len(output) : len(output) + 60]
    assert second.n_written < 12
    assert draft.source == "writes"


def test_only_what_it_wrote_counts_for_its_acceptance(context: DraftContext) -> None:
    _, second = chained(context, AFTER)
    output = list(AFTER[: AT + len(NEW) - 4].encode())
    second.propose(output, 60)
    second.observe(told(40, 1))
    ((accepted, rejected),) = context.learnt.values()
    assert (accepted, rejected) == (second.n_written, 0)


def test_without_a_copying_drafter_it_writes_on(context: DraftContext) -> None:
    alone = Writes(context, AFTER)
    output = list(AFTER[: AT + len(NEW) - 4].encode())
    assert len(alone.propose(output, 60).token_ids) == alone.n_written > 12


def test_the_chain_takes_fewer_passes_and_writes_less(context: DraftContext) -> None:
    first, other, second = Original(context), Original(context), Writes(context, AFTER)
    writer = Writes(replace(context, resume=other.resume, learnt={}), AFTER)
    apart = passes_of(Chain(first, second), AFTER)
    together = passes_of(Chain(other, writer), AFTER)
    assert together.passes <= apart.passes
    assert writer.n_written < second.n_written
