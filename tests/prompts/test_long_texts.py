"""Texts far beyond the context: refused before they are encoded, and others go on while a long one is encoded."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import apply_service
from apply_eval.replay import Replay
from apply_service.build import build_runtime
from apply_service.deadline import Deadline
from apply_service.errors import ContextLimitExceeded
from apply_service.pipeline import apply, read_edit
from apply_service.prompts.chat import Chat
from apply_service.prompts.compact import Compact
from apply_service.prompts.tokenizer import ChatTokenizer, ContentTokenizer
from apply_service.protocols import EditJob, PromptFormat
from apply_service.settings import Settings
from apply_service.target import CHARS_PER_TOKEN, Runtime, Target, in_process, open_decoding
from apply_service.types import ApplyRequest
from tests.engine.tiny_models import tiny_tokenizer
from tests.fake_engine import FakeEngine, hashed
from tests.plain_bytes import N_VOCAB, PlainBytes
from tests.seeds import draw_seed

PACKAGE = Path(apply_service.__file__).parent
SOURCE = (PACKAGE / "service.py").read_text(encoding="utf-8")
LIMIT = 2000
MARK = "# ... existing code ...\n"
LAZY = f"{MARK}STEP_S = 1\n{MARK}"


def formats() -> dict[str, PromptFormat]:
    return {
        "compact": Compact.from_directory(PACKAGE / "models/embedded"),
        "replay": Replay(),
        "chat": Chat(ChatTokenizer(tiny_tokenizer())),
        "plain": PlainBytes(),
    }


def read(original: str, update: str) -> EditJob:
    return read_edit(ApplyRequest(original=original, update=update, path="a.py"), "python")


@pytest.mark.parametrize("name", ["compact", "replay", "chat", "plain"])
@pytest.mark.parametrize(
    ("original", "update"),
    [(SOURCE * 60, LAZY), ("x" * 1_000_000, LAZY), ("a = 1\n", f"{MARK}" + "b = 2\n" * 200_000)],
    ids=["many lines", "one line", "a long edit"],
)
def test_a_hopeless_text_is_refused_from_its_beginning(
    name: str, original: str, update: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt_format, n_chars = formats()[name], list[int]()
    encode_prompt = prompt_format.encode_prompt

    def counted(job: EditJob) -> list[int]:
        n_chars.append(len(job.original) + len(job.update))
        return encode_prompt(job)

    monkeypatch.setattr(prompt_format, "encode_prompt", counted)
    target = Target("m", FakeEngine(hashed(N_VOCAB), context_limit=LIMIT), prompt_format)
    job = read("a = 1\n", LAZY)
    lines = tuple(update.split("\n"))
    job = replace(job, original=original, update=update, prediction=replace(job.prediction, update_lines=lines))
    request = ApplyRequest(original=original, update=update)
    for run in (
        target.decide([job], request, "none", Deadline(), is_streamed=False),
        target.score([(job, job.prediction)], request, Deadline()),
    ):
        with pytest.raises(ContextLimitExceeded) as caught:
            next(run)
        assert caught.value.limit == LIMIT
        assert isinstance(caught.value.value, int)
        assert caught.value.value > LIMIT
    assert max(n_chars) <= 2 * 4 * CHARS_PER_TOKEN * LIMIT


@pytest.mark.parametrize("name", ["compact", "replay", "chat"])
def test_nothing_that_fits_is_refused(name: str) -> None:
    """Texts of few tokens a character, of words cut anywhere, and the limit just as high as their prompt is long."""
    seed = draw_seed()
    dice = random.Random(seed)
    prompt_format = formats()[name]
    for _ in range(40):
        unit = dice.choice([" ", "\t", "=", "x", "ab", "-", "\n", "é", "import numpy as np\n", SOURCE])
        text = (unit * (20_000 // len(unit) + 1))[: dice.randrange(2_000, 20_000)]
        job = read(text, LAZY)
        n_prompt = len(prompt_format.encode_prompt(job))
        engine = FakeEngine(hashed(N_VOCAB), context_limit=n_prompt)
        Target("m", engine, prompt_format).refuse_hopeless(job)  # raises nothing


def test_few_tokens_for_many_characters_are_encoded_whole() -> None:
    replay = Replay()
    job = read(" " * 400_000 + "x\n", LAZY)
    n_prompt = len(replay.encode_prompt(job))
    assert CHARS_PER_TOKEN * n_prompt < 400_000  # so that its beginning is looked at
    Target("m", FakeEngine(hashed(N_VOCAB), context_limit=n_prompt), replay).refuse_hopeless(job)


def test_a_certain_merge_stands_in_for_a_hopeless_target() -> None:
    file = "".join(f"def f{i}(a):\n    return a + {i}\n\n\n" for i in range(2000))
    beside = [f"def f{i}(a):\n    return a + {i}\n\n\n" for i in (6, 8)]
    update = f"{MARK}{beside[0]}def f7(a):\n    return {'a' * 3000}\n\n\n{beside[1]}{MARK}"
    merged = file.replace("    return a + 7\n", f"    return {'a' * 3000}\n")
    target = Target("m", FakeEngine(hashed(N_VOCAB), context_limit=300), PlainBytes())
    runtime = Runtime(load=lambda _: target)
    request = ApplyRequest(original=file, update=update, path="a.py")
    with pytest.raises(ContextLimitExceeded):
        apply(replace(request, strategy="model"), runtime)
    result = apply(request, runtime)
    assert (result.strategy, result.merged_code) == ("fallback", merged)
    assert any(v.check == "fallback" and "context limit" in v.message for v in result.verdicts)


def test_the_embedded_model_refuses_five_megabytes_at_once() -> None:
    runtime = build_runtime(Settings())
    runtime.load("embedded")
    job = read("x" * 5_000_000, LAZY)
    request = ApplyRequest(original=job.original, update=job.update)
    began = time.process_time()
    with pytest.raises(ContextLimitExceeded):
        open_decoding(job, request, in_process(runtime.load("embedded")), "none")
    assert time.process_time() - began < 1.0


def test_other_threads_run_while_a_long_text_is_encoded() -> None:
    tokenizer = ContentTokenizer(tiny_tokenizer().backend_tokenizer.to_str())
    text = SOURCE * 20
    ticks, is_over = [], threading.Event()

    def tick() -> None:
        while not is_over.wait(0.005):
            ticks.append(time.monotonic())

    ticking = threading.Thread(target=tick)
    ticking.start()
    began = time.monotonic()
    tokenizer.encode(text)
    ended = time.monotonic()
    is_over.set()
    ticking.join()
    assert ended - began > 0.1, "too short to tell"
    assert sum(began < at < ended for at in ticks) >= 10, "the thread that encodes kept the interpreter to itself"
