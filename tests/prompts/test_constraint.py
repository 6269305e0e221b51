"""`constrain: sources` on text: what is allowed is just what can still become an output made of the sources' lines."""

from __future__ import annotations

import lzma
import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from apply_eval.replay import FILES
from apply_service.decoding.verify import Decoding
from apply_service.drafting.drafter import open_drafter
from apply_service.prompts.chat import BegunChat, Chat, FastApply, Osmosis, TaggedOutput
from apply_service.prompts.constraint import SourceConstraint, VocabularyBytes, source_lines
from apply_service.prompts.tokenizer import ChatTokenizer
from apply_service.protocols import DraftContext, EditJob, SamplingParams
from apply_service.types import FinishReason
from tests.decoding.alone import decode_alone
from tests.engine.tiny_models import tiny_tokenizer
from tests.fake_engine import FakeEngine, hashed
from tests.plain_bytes import N_VOCAB, PlainBytes, decode_bytes
from tests.prompts.test_chat import job

BYTES = VocabularyBytes({byte: bytes([byte]) for byte in range(256)})

REPLAY_TOKENIZER = FILES / "tokenizer.json.xz"
WORDS = [b"a", b"ab", b"b\n", b"\n\n", b"a\nab", b"\n\na", b"<e", b"<e>", b"\n<e>", b"b<", b">\n", b"\na\n"]
SMALL = VocabularyBytes({i: bytes([i]) for i in range(256)} | {256 + i: word for i, word in enumerate(WORDS)})
SMALL_END = 999
SMALL_TOKENS = [*(ord(char) for char in "ab\n<e>c"), *range(256, 256 + len(WORDS)), SMALL_END]
FORMATS = [FastApply, Osmosis, Chat, BegunChat]


def is_start(text: bytes, lines: Sequence[bytes], before: bytes, after: bytes, *, whole: bool = False) -> bool:
    """Whether `text` begins (is) an output: by trying every way to cut it."""
    if not text.startswith(before):
        return not whole and before.startswith(text)
    closings = {after, after.removeprefix(b"\n")}
    starts, seen = {len(before)}, {len(before)}
    while starts:
        rest = text[starts.pop() :]
        ends = [*closings, *(line + after for line in lines)]
        if any(rest == end if whole else end.startswith(rest) for end in ends):
            return True
        for line in lines:
            if not whole and (line + b"\n").startswith(rest):
                return True
            if rest.startswith(line + b"\n"):
                at = len(text) - len(rest) + len(line) + 1
                if at not in seen:
                    seen.add(at)
                    starts.add(at)
    return False


def test_the_oracle_knows_an_output_from_a_beginning() -> None:
    lines = [b"a", b"ab"]
    assert is_start(b"<a\na", lines, b"<", b">")
    assert not is_start(b"<a\na", lines, b"<", b">", whole=True)
    assert is_start(b"<a\nab>", lines, b"<", b">", whole=True)
    assert not is_start(b"<a\nb", lines, b"<", b">")


@settings(deadline=None, max_examples=300)
@given(
    lines=st.lists(st.sampled_from(["a", "ab", "b", "", "aab", "<e>", "ba"]), min_size=1, max_size=4),
    frame=st.sampled_from([("", ""), ("", "<e>"), ("<", "\n<e>"), ("<\n", "\n<e>"), ("ab", "b")]),
    seed=st.integers(0, 10_000),
)
def test_allowed_is_what_can_still_become_an_output(lines: list[str], frame: tuple[str, str], seed: int) -> None:
    before, after = frame
    raw = [line.encode() for line in lines]
    constraint = SourceConstraint(SMALL, lines, end_id=SMALL_END, before=before, after=after)
    rng = random.Random(seed)
    output: list[int] = []
    text = b""
    for _ in range(12):
        (mask,) = constraint.masks(output, [])
        assert mask is not None
        allowed = set(mask.tolist())
        for token in SMALL_TOKENS:
            is_end = token == SMALL_END
            fits = is_start(text + SMALL.piece(token), raw, before.encode(), after.encode(), whole=is_end)
            assert (token in allowed) == fits, (text, SMALL.piece(token))
        token = rng.choice(sorted(allowed))
        if token == SMALL_END:
            return
        output.append(token)
        text += SMALL.piece(token)


def wrapped(one: TaggedOutput, text: str) -> str:
    return one.tags.wrap(text)


@pytest.mark.parametrize("make", FORMATS)
@pytest.mark.parametrize("merged", ["a = 1\nb = 2\n", "b = 2\na = 1", "", "\n\n", "é\t🙂  \n</merged>\n"])
def test_the_usual_spelling_of_an_output_is_allowed(make: type[FastApply | Osmosis | Chat], merged: str) -> None:
    one = make(ChatTokenizer(tiny_tokenizer()))
    edit = job(original="a = 1\nb = 2\n\né\t🙂  \n</merged>", update="c = 3", merged=merged)
    constraint = one.constraint(edit)
    assert constraint is not None
    ids = [*one._chat.content.encode(wrapped(one, merged)).ids, one._chat.end_id]
    for token, mask in zip(ids, constraint.masks([], ids), strict=False):
        assert mask is not None
        assert token in mask


@pytest.mark.parametrize("make", FORMATS)
@pytest.mark.parametrize("seed", range(5))
def test_whatever_the_target_chooses_is_made_of_the_sources(make: type[FastApply | Osmosis | Chat], seed: int) -> None:
    one = make(ChatTokenizer(tiny_tokenizer()))
    edit = job(original="def f():\n    return 1\n\n\nx = f()\n", update="    return 2", merged="    return 2\n")
    constraint = one.constraint(edit)
    assert constraint is not None
    rng, output = random.Random(seed), list[int]()
    while not output or output[-1] not in one.stop_ids:
        mask = constraint.masks(output, [])[0]
        assert mask is not None
        is_ending = len(output) > 200 and one._chat.end_id in mask
        output.append(one._chat.end_id if is_ending else rng.choice(mask.tolist()))
    assert set(one.decode_output(output).split("\n")) <= {"def f():", "    return 1", "    return 2", "x = f()", ""}


def test_markers_are_no_lines_to_write() -> None:
    update = "// ... existing code ...\nnew();\n"
    edit = job(original="old();\n", update=update, merged="new();\n")
    ops = tuple(op if op.text != "new();" else op.__class__("take", None, 1, op.text) for op in edit.prediction.ops)
    edit = EditJob(edit.original, update, "", None, None, edit.prediction.__class__(ops, (), edit.prediction.certainty))
    assert source_lines(edit) == ["old();", "new();"]


# -- cost --------------------------------------------------------------------------------------------------------------
class Watched(dict[object, object]):
    """Counts look-ups; once sealed, nothing may go over all of it."""

    def __init__(self, values: dict[object, object]) -> None:
        super().__init__(values)
        self.n_looked_up = 0
        self.is_sealed = False

    def get(self, key: object, default: object = None) -> object:
        self.n_looked_up += 1
        return super().get(key, default)

    def __iter__(self) -> Iterator[object]:
        assert not self.is_sealed, "work as large as the vocabulary"
        return super().__iter__()

    def items(self) -> object:  # type: ignore[override]
        assert not self.is_sealed, "work as large as the vocabulary"
        return super().items()


def test_a_place_costs_look_ups_by_its_lines_and_none_by_the_vocabulary() -> None:
    rng = random.Random(2)
    words = {bytes(rng.choices(b"abcdef \n", k=rng.randint(2, 9))) for _ in range(30_000)}
    vocabulary = VocabularyBytes(dict(enumerate([bytes([i]) for i in range(256)] + sorted(words))))
    pieces, ids = Watched({**vocabulary._pieces}), Watched({**vocabulary._ids})
    vocabulary._pieces, vocabulary._ids = pieces, ids  # type: ignore[assignment]
    lines = ["".join(rng.choices("abcdef ", k=12)) for _ in range(40)]
    constraint = SourceConstraint(vocabulary, lines, end_id=10**6)
    constraint.masks([], [])  # what is prepared once a request
    pieces.is_sealed = ids.is_sealed = True
    ids.n_looked_up = 0
    text = list("\n".join(lines).encode())
    masks = constraint.masks([], text)
    assert all(mask is not None for mask in masks)
    n_looked_up = ids.n_looked_up
    assert 0 < n_looked_up <= 2 * len(masks) * vocabulary.longest
    constraint.masks([], text)
    assert ids.n_looked_up == n_looked_up, "a place that comes again costs nothing"


# -- lossless ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("drafter", ["merged_edit", "original", "prompt_lookup", "suffix"])
@pytest.mark.parametrize("seed", range(4))
def test_drafts_change_nothing_under_the_constraint(drafter: str, temperature: float, seed: int) -> None:
    plain_bytes = PlainBytes()
    edit = job(
        original="if a:\n  go()\nelse:\n  stop()\n", update="  go(1)", merged="if a:\n  go(1)\nelse:\n  stop()\n"
    )

    def decode(name: str) -> tuple[list[int], FinishReason | None]:
        prompt_ids = plain_bytes.encode_prompt(edit)
        context = DraftContext(plain_bytes.encode_sources(edit), prompt_ids, None, 300)
        engine = FakeEngine(hashed(N_VOCAB, seed=seed))
        sampling = SamplingParams(temperature, seed)
        made = open_drafter(name, context)
        stop_ids = plain_bytes.stop_ids
        (end_id,) = stop_ids
        rules = SourceConstraint(BYTES, source_lines(edit), end_id=end_id)
        with Decoding(engine, prompt_ids, made, 300, stop_ids, sampling, rules) as decoding:
            for _ in decode_alone(decoding):
                pass
        return decoding.output_ids, decoding.finish_reason

    drafted, undrafted = decode(drafter), decode("none")
    assert drafted == undrafted
    known = {*source_lines(edit), "", "  go(1)"}
    whole = decode_bytes(drafted[0]).split("\n")
    assert set(whole if drafted[1] is FinishReason.STOP else whole[:-1]) <= known


# -- vocabularies ------------------------------------------------------------------------------------------------------
def test_a_vocabulary_of_32768_entries_is_read_byte_for_byte() -> None:
    tokenizer = Tokenizer.from_str(lzma.decompress(REPLAY_TOKENIZER.read_bytes()).decode())
    vocabulary = VocabularyBytes.of(tokenizer)
    assert vocabulary is not None
    text = "def f(x):\n\n\n    return {'é': x}  # 日本 🙂\r\n\tend\n"
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert b"".join(map(vocabulary.piece, ids)).decode() == text


def test_a_vocabulary_that_lacks_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="single bytes"):
        VocabularyBytes({0: b"a"})


def test_pieces_that_go_on_after_a_start_are_found() -> None:
    assert dict(SMALL.longer(b"\n")) == {b"\n\n": [259], b"\n\na": [261], b"\n<e>": [264], b"\na\n": [267]}
    assert BYTES.longest == 1
    assert np.array_equal(BYTES.ids(b"a"), [97])
