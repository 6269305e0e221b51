"""The library's `generate` as a contender: a timed run on one edit or a batch of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from apply_service.engine.torch_local import TorchEngine
from apply_service.target import Target
from benchmarks.bench_case import Case
from benchmarks.bench_sample import Sample
from benchmarks.hf_generate import generate

LOOKUP_TOKENS = 10


@dataclass(frozen=True, slots=True)
class PeerContender:
    """`n_lookup` None: plain decoding; else prompt lookup, which the library has for a single prompt only."""

    name: str
    target: Target
    engine: TorchEngine
    n_lookup: int | None = None

    @property
    def max_batch(self) -> int | None:
        return None if self.n_lookup is None else 1

    def run(self, cases: Sequence[Case], group: str, *, cap: int | None) -> Sample:
        """Decode the edits together, each at most `cap` tokens; timed from the requests on."""
        started_s = time.perf_counter()
        prompts = [self.target.prompt_format.encode_prompt(case.reread()) for case in cases]
        front_s = time.perf_counter() - started_s
        answers = [case.answer_ids for case in cases if case.answer_ids is not None]
        run = generate(
            self.engine.model,
            prompts,
            max_new_tokens=max(case.n_output for case in cases) if cap is None else cap,
            stop_ids=sorted(self.target.prompt_format.stop_ids),
            answers=answers or None,
            prompt_lookup=self.n_lookup,
        )
        texts = [text_of(self.target, ids) for ids in run.output_ids]
        ended_s = time.perf_counter()
        drafts = run.drafts if self.n_lookup else []
        return Sample(
            target=self.target.name,
            contender=self.name,
            batch=len(cases),
            group=group,
            n_prompt_tokens=sum(map(len, prompts)),
            n_tokens=run.n_tokens - run.n_prefill_tokens,
            n_chars=sum(map(len, texts)),
            decode_s=run.decode_s,
            first_token_s=front_s + run.first_token_s,
            passes=(len(run.forwards) - 1) * len(cases),
            drafted=sum(n for n, _ in drafts),
            accepted=sum(n for _, n in drafts),
            rejections=sum(accepted < drafted for drafted, accepted in drafts),
            is_capped=cap is not None,
            end_to_end_s=None if cap is not None else ended_s - started_s,
            draft_s=None if self.n_lookup else 0.0,
            n_exact=sum(is_right(text, case, cap) for text, case in zip(texts, cases, strict=True)),
        )


def text_of(target: Target, output_ids: Sequence[int]) -> str:
    """The text of a whole or half output."""
    stream = target.prompt_format.open_stream()
    return stream.push(output_ids) + stream.finish()


def is_right(text: str, case: Case, cap: int | None) -> bool:
    """Whether the text is the wanted one, or where it was cut its beginning; a cut may split a character."""
    return text == case.after if cap is None else case.after.startswith(text.rstrip("\ufffd"))
