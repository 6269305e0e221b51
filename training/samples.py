"""One training sample: a real edit, cut to size, sketched as a snippet, hinted by the merger, written as ids.

A sample is a pure function of (seed, index), so that data state is a number.  The target is always a true merge; the
hints are the real merger's, or spoilt, or absent.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from apply_eval.line_diff import diff_lines
from apply_eval.sketch import draw_style, sketch
from apply_service.errors import ApplyError
from apply_service.formats import lazy_snippet
from apply_service.prompts.compact import Compact, hints_of
from apply_service.protocols import EditContext
from apply_service.types import LineOp, Prediction
from training.corpus import Edit
from training.corruption import corrupt_ops
from training.sample_mix import SampleMix as SampleMix

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
HintKind = Literal["merger", "spoilt", "none"]

MIN_LINES = 8
TRIES = 3


class Sample(NamedTuple):
    """`ids` [n]: prompt and output; `positions` [n]; `weights` [n]: of the loss on predicting ids[i] (0 in the
    prompt)."""

    ids: Ints
    positions: Ints
    weights: Floats
    n_prompt: int
    hints: HintKind


class Case(NamedTuple):
    """An edit ready to be encoded: what the prompt shows, and the true operations."""

    edit: Edit
    update: str
    prediction: Prediction | None
    update_lines: tuple[str, ...]
    truth: tuple[LineOp, ...]
    """The merger's own operations where they are right: a right hint and the target agree on every tag."""
    canonical: tuple[LineOp, ...]
    """The sketcher's form of the same merge, for prompts without hints."""


class Listing(NamedTuple):
    """A case and its prompt; `hinted` are the operations that the prompt tells, None for none."""

    case: Case
    prompt: list[int]
    hinted: Sequence[LineOp] | None
    kind: HintKind


class SampleMaker:
    """Makes sample number i from a list of edits."""

    def __init__(self, edits: Sequence[Edit], compact: Compact, *, seed: int, mix: SampleMix | None = None) -> None:
        self._edits = edits
        self._compact = compact
        self._seed = seed
        self.mix = SampleMix() if mix is None else mix

    def make(self, index: int, *, max_lines: int) -> Sample | None:
        """Sample number `index` with at most `max_lines` original lines; None where the edit can't be sketched."""
        listing = self.listing(index, max_lines=max_lines)
        return None if listing is None else self._encode(listing, random.Random(f"encode {self._seed} {index}"))

    def case(self, index: int, *, max_lines: int) -> Case | None:
        rng = random.Random(f"sample {self._seed} {index}")
        edit = cut_edit(rng.choice(self._edits), max_lines=max_lines, rng=rng)
        for _ in range(TRIES):
            case = make_case(edit, rng, clean=rng.random() < self.mix.clean_style)
            if case is not None:
                return case
        return None

    def listing(self, index: int, *, max_lines: int) -> Listing | None:
        """The case with its prompt, hinted as the mix has it."""
        case = self.case(index, max_lines=max_lines)
        return None if case is None else self._listing(case, random.Random(f"hints {self._seed} {index}"))

    def _listing(self, case: Case, rng: random.Random) -> Listing:
        original = case.edit.before.split("\n")
        draw = rng.random()
        hinted: Sequence[LineOp] | None = None if case.prediction is None else case.prediction.ops
        kind: HintKind = "merger"
        if hinted is None or draw < self.mix.no_hints:
            kind, hinted = "none", None
        elif draw < self.mix.no_hints + self.mix.spoilt_hints:
            kind, hinted = "spoilt", corrupt_ops(hinted, case.update_lines, rng)
        if hinted is None:
            case = case._replace(truth=case.canonical)
        lines, vocabulary = case.update_lines, self._compact.vocabulary
        hints = None if hinted is None else hints_of(vocabulary, hinted, len(original), len(lines))
        return Listing(case, self._compact.encode_listing(original, lines, hints), hinted, kind)

    def _encode(self, listing: Listing, rng: random.Random) -> Sample:
        case, prompt, hinted, kind = listing
        output = self._compact.encode_ops(case.truth)
        weights = self._weights(output, case.truth, hinted)
        ids = np.array([*prompt, *output], dtype=np.int64)
        gap_places = np.flatnonzero(ids >= self._compact.vocabulary.n_text)
        return Sample(
            self._permuted(ids, rng),
            _positions(ids, len(prompt), gap_places, rng, self.mix.position_gaps),
            np.concatenate([np.zeros(len(prompt), np.float32), weights]),
            len(prompt),
            kind,
        )

    def _weights(self, output: Sequence[int], truth: Sequence[LineOp], hinted: Sequence[LineOp] | None) -> Floats:
        ids = np.array(output)
        weights = np.full(len(ids), self.mix.text_weight, np.float32)
        places = np.flatnonzero((ids >= self._compact.vocabulary.first_tag) | (ids == self._compact.vocabulary.end))
        contested = contested_steps(truth, hinted or ())
        before: LineOp | None = None
        for place, op, is_contested in zip(places, [*truth, None], contested, strict=True):
            is_plain = before is not None and op is not None and before.kind == op.kind == "keep"
            weights[place] = self.mix.plain_weight if is_plain else 1.0
            if hinted is None:
                weights[place] *= self.mix.unhinted_weight
            elif is_contested:
                weights[place] = self.mix.contested_weight
            before = op
        return weights

    def _permuted(self, ids: Ints, rng: random.Random) -> Ints:
        """Now and then with the text tokens permuted, so that only copying explains them."""
        if rng.random() >= self.mix.permuted:
            return ids
        vocabulary = self._compact.vocabulary
        table = np.arange(vocabulary.n_tokens)
        np.random.default_rng(rng.getrandbits(32)).shuffle(table[: vocabulary.n_text])
        return table[ids]


Key = tuple[str, int | None, int | None]


def _key(op: LineOp | None) -> Key:
    """What a decision names: the end, or a kind and its line."""
    if op is None:
        return ("end", None, None)
    return (op.kind, op.original_line, op.update_line if op.kind == "take" else None)


def matches_of(ops: Sequence[LineOp]) -> dict[int, int]:
    """Which update line each original line is paired with."""
    pairs = ((op.original_line, op.update_line) for op in ops if op.kind == "both")
    return {original: update for original, update in pairs if original is not None and update is not None}


def contested_steps(truth: Sequence[LineOp], hinted: Sequence[LineOp]) -> list[bool]:
    """For every operation of the truth and its end [n + 1]: whether obeying the hints would go wrong there."""
    told, keys = ([_key(None), *map(_key, ops), _key(None)] for ops in (hinted, truth))
    follows = dict(pairwise(told))
    return [follows.get(before) != key for before, key in pairwise(keys)]


def make_case(edit: Edit, rng: random.Random, *, clean: bool) -> Case | None:
    """Sketch `edit` and let the merger predict it.  None where there is no sketch, or where the merger re-reads a new
    line so that the truth can't be told with its lines."""
    style = draw_style(rng, clean=clean)
    drawn = sketch(edit.before, edit.after, language=edit.language, path=edit.path, style=style, rng=rng)
    if drawn is None:
        return None
    try:
        prediction = lazy_snippet.predict(edit.before, drawn.update, EditContext(edit.path, edit.language))
    except ApplyError:
        prediction = None
    lines = tuple(drawn.update.split("\n")) if prediction is None else prediction.update_lines
    takes = {op.update_line: op.text for op in drawn.ops if op.kind == "take"}
    is_told = all(line is not None and lines[line] == text for line, text in takes.items())
    if prediction is not None and prediction.text == edit.after:
        canonical = drawn.ops if is_told else prediction.ops
        return Case(edit, drawn.update, prediction, lines, prediction.ops, canonical)
    return Case(edit, drawn.update, prediction, lines, drawn.ops, drawn.ops) if is_told else None


def cut_edit(edit: Edit, *, max_lines: int, rng: random.Random) -> Edit:
    """A window of `edit` around some of its changes, of at most about `max_lines` original lines."""
    before, after = edit.before.split("\n"), edit.after.split("\n")
    target = int(np.exp(rng.uniform(np.log(MIN_LINES), np.log(max_lines))))
    if len(before) <= target + 2:
        return edit
    hunks = diff_lines(before, after)
    if not hunks:
        return edit
    first = last = rng.randrange(len(hunks))
    while last + 1 < len(hunks) and hunks[last + 1].a1 - hunks[first].a0 < 0.7 * target:
        last += 1
    spare = max(4, target - (hunks[last].a1 - hunks[first].a0))
    above = rng.randint(0, spare)
    low = max(hunks[first - 1].a1 if first else 0, hunks[first].a0 - above)
    ceiling = hunks[last + 1].a0 if last + 1 < len(hunks) else len(before)
    high = min(ceiling, hunks[last].a1 + spare - above)
    cut_before = before[low:high]
    cut_after = after[hunks[first].b0 - (hunks[first].a0 - low) : hunks[last].b1 + (high - hunks[last].a1)]
    return Edit(edit.repo, edit.path, edit.language, _closed(cut_before), _closed(cut_after))


def _closed(lines: Sequence[str]) -> str:
    return "\n".join(lines) + ("\n" if lines and lines[-1] else "")


def _positions(ids: Ints, n_prompt: int, places: Ints, rng: random.Random, share: float) -> Ints:
    """0, 1, 2... or, for a share of the samples, with gaps before a few lines: distances as in longer files."""
    positions = np.arange(len(ids))
    if rng.random() >= share:
        return positions
    for place in (*rng.sample(places.tolist(), min(2, len(places))), n_prompt):
        positions[place:] += rng.randint(0, 700)
    return positions
