"""Verifies windows (runs of draft tokens) in llama.cpp.

All rows of a pass are one batch.  All sequences share one KV cache, each under its own id.  After a pass the rows of
rejected tokens are removed from the cache.

The cache consists of cells.  A cell holds the keys and values of one token in all layers.  llama.cpp assigns the cells;
this module only counts how many cells each sequence may need.  A cell can belong to several sequences, so a kept
prompt is reused without a copy.
"""

from __future__ import annotations

import ctypes
import logging
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from apply_service.engine.kv_cache import PREFILL_GRAIN, refuse_over_limit, settle
from apply_service.engine.layout import Layout, WindowRows, pack
from apply_service.engine.llama_cpp.model import (
    MOST_ROWS,
    SAMPLE,
    LlamaModel,
    RowTest,
    last_complaint,
    measure_rows,
    most_worthwhile,
    pass_times_of,
)
from apply_service.engine.numpy_local import choose
from apply_service.errors import EngineFailure, ModelTooLarge
from apply_service.protocols import Part, Session, TokenIds, Verification, Window

MAX_SEQUENCES = 128
"""The maximum number of open sessions and kept prompts, counted together.  llama.cpp allows 256."""
LEAST_CONTEXT = 4096
"""There are at least this many cells, even if the settings allow less memory.  A model with a shorter context may have
fewer."""
LEAST_KEPT = 16
"""A prompt is worth keeping only if it has at least this many tokens."""
CELL_GRAIN = 256
"""llama.cpp rounds the size of its cache up to a multiple of this."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class KeptPrompt:
    """The first tokens of a prompt.  The sequence `sequence` holds their keys and values."""

    owner: str
    ids: TokenIds
    sequence: int


class LlamaEngine:
    """Verifies windows with `model`.

    `window`: the maximum number of draft tokens in a pass; if it is None, the measurement decides.  `n_threads`: the
    number of threads that compute a pass.  The constructor measures the speed of batches (`row_test`), for about a
    second.  Raises ModelTooLarge if llama.cpp has no memory for the model and its cache.
    """

    determinism: Literal["bitwise", "tolerant"] = "tolerant"

    def __init__(
        self,
        model: LlamaModel,
        *,
        name: str,
        window: int | None = None,
        n_threads: int = 1,
        kv_cache_bytes: int = 2**30,
        prefix_cache_bytes: int = 0,
    ) -> None:
        started = time.perf_counter()
        self.model = model
        self.name = name
        self.n_vocab = model.n_vocab
        self.n_threads = n_threads
        self._library = model.library
        size = model.bytes_per_cell
        n_wanted = max(kv_cache_bytes // size, min(model.n_trained, LEAST_CONTEXT))
        self.n_cells = -(-min(n_wanted, MAX_SEQUENCES * model.n_trained) // CELL_GRAIN) * CELL_GRAIN
        self.context_limit = min(model.n_trained, self.n_cells)
        most_rows = min(MOST_ROWS if window is None else window + 1, self.context_limit)
        options = self._library.llama_context_default_params()
        options.n_ctx = self.n_cells
        options.n_batch = options.n_ubatch = max(most_rows, MAX_SEQUENCES)  # llama.cpp aborts if n_batch is smaller
        options.n_seq_max = MAX_SEQUENCES
        options.kv_unified = True
        options.swa_full = True  # otherwise rows before a rejected token might be lost
        options.n_threads = options.n_threads_batch = self.n_threads
        if not self.is_on_gpu:  # only with this can batches be exact, and it is faster
            options.flash_attn_type = self._library.LLAMA_FLASH_ATTN_TYPE_ENABLED
        options.no_perf = True
        context = self._library.llama_init_from_model(self.model.handle, options)
        if not context:
            raise ModelTooLarge(
                f"llama.cpp has no memory for this model: {last_complaint()}",
                value=f"{self.n_cells * self.model.bytes_per_cell} bytes of keys and values",
                remedy="a smaller KV cache (--kv-cache-mb), or a smaller model",
            )
        self.free = weakref.finalize(self, self._library.llama_free, context)
        self._context = context
        self._memory = self._library.llama_get_memory(self._context)
        self._batch = _Batch(self._library, most_rows)
        self._free = list(range(MAX_SEQUENCES - 1, -1, -1))
        self._n_filled = [0] * MAX_SEQUENCES
        self._n_reserved = 0
        self._kept: list[KeptPrompt] = []
        """The kept prompts, the least recently used first."""
        self._most_kept = 0
        self.pass_times: Mapping[int, float] = {most_rows: 1.0}
        self.max_draft = most_rows - 1
        self.prefill_grain = max(1, min(PREFILL_GRAIN, most_rows // 2))
        self.row_test: RowTest = measure_rows(self, most_rows, model.encode(SAMPLE))
        self.pass_times = pass_times_of(self.row_test.seconds, most_rows)
        if window is None:
            test = self.row_test
            longest = test.exact_rows if test.is_exact else most_worthwhile(self.pass_times)
            sizes = {n_rows for n_rows in self.pass_times if n_rows <= longest} | {most_rows}  # the last for prompts
            self.pass_times = {n_rows: self.pass_times[n_rows] for n_rows in sorted(sizes)}
            self.max_draft = longest - 1
        self._most_kept = prefix_cache_bytes // size
        self.start_s = time.perf_counter() - started + model.load_s
        log.info("%s: in llama.cpp, %s", name, self.describe())

    def describe(self) -> str:
        """Return a line for people about the measurement at the start."""
        found, trained = self.row_test, self.model.n_trained
        divergence = f"divergence rate {found.flipped_choices:.4f} over {found.n_compared} rows"
        if found.is_exact:
            divergence += "; windows have the bits of single tokens"
        else:
            divergence += "; batches round otherwise, so the same request may be answered otherwise again"
        limit = f" of {trained}, as kv_cache_mb allows" if self.context_limit < trained else ""
        return (
            f"is ready in {self.start_s:.1f} s; {'all layers on the GPU' if self.is_on_gpu else 'on the CPU'}; "
            f"determinism: {self.determinism} ({divergence}); windows of up to {self.max_draft + 1} rows; rows of the "
            f"best measured batch are {found.speedup_limit:.1f} times as fast as single tokens; context "
            f"{self.context_limit}{limit}"
        )

    @property
    def is_on_gpu(self) -> bool:
        """Whether the layers are on a GPU."""
        return self.model.is_on_gpu

    def compute_single_tokens_with(self, n_threads: int) -> None:
        """Set the number of threads that compute a single token.  The number for batches does not change."""
        self._library.llama_set_n_threads(self._context, n_threads, self.n_threads)

    def plain(self) -> LlamaEngine:
        """Return the engine that decodes fastest without drafts.  It is this engine, because its passes have no
        padding."""
        return self

    # -- sequences -----------------------------------------------------------------------------------------------------
    @property
    def n_free(self) -> int:
        """The number of cells that no session has reserved and no kept prompt holds."""
        return self.n_cells - self._n_reserved - self._n_kept

    @property
    def _n_kept(self) -> int:
        return sum(len(one.ids) for one in self._kept)

    def open(self, prompt_ids: Sequence[int], max_new_tokens: int, *, owner: str = "") -> Session | None:
        n_cells = len(prompt_ids) + max_new_tokens
        is_short = self.context_limit < self.model.n_trained
        remedy = "raise kv_cache_mb, which holds so many tokens here, or send a smaller file" if is_short else None
        refuse_over_limit(len(prompt_ids), max_new_tokens, self.context_limit, remedy)
        if self.n_free + self._n_kept < n_cells or not (self._free or self._kept):
            return None
        best, n_cached = self._longest_kept(owner, np.asarray(prompt_ids[:-1], np.int64))
        if best is not None:  # the most recently used, so it is dropped last
            self._kept.remove(best)
            self._kept.append(best)
        if not self._free:
            if best is not None and len(self._kept) == 1:
                best, n_cached = None, 0
            self._drop(self._kept[0])
        sequence = self._free.pop()
        if best is not None:
            self._library.llama_memory_seq_cp(self._memory, best.sequence, sequence, 0, n_cached)
        while self.n_free < n_cells:  # the cells that the new sequence shares with a dropped prompt stay
            self._drop(self._kept[0])
        self._n_reserved += n_cells
        self._n_filled[sequence] = n_cached
        first = sequence * self.n_cells  # slots are virtual here: the first one identifies the sequence
        slots = range(first, first + n_cells)
        return Session(prompt_ids, slots, owner=owner, n_cached=n_cached, release=self._release)

    def _release(self, session: Session) -> None:
        sequence = session.slots.start // self.n_cells
        self._n_reserved -= len(session.slots)
        n_known = min(session.length, len(session.prompt_ids) - 1, self._n_filled[sequence])
        if not session.is_sound or not LEAST_KEPT <= n_known <= self._most_kept:
            self._forget(sequence)
            return
        ids = np.asarray(session.prompt_ids[:n_known], np.int64)
        best, n_shared = self._longest_kept(session.owner, ids)
        if best is not None and n_shared == n_known:  # a kept prompt already begins with the same tokens
            self._forget(sequence)
            return
        self._cut(sequence, n_known)
        for one in [
            one for one in self._kept if one.owner == session.owner and _n_shared(one.ids, ids) == len(one.ids)
        ]:
            self._drop(one)  # the new prompt begins with this one
        self._kept.append(KeptPrompt(session.owner, ids, sequence))
        while self._n_kept > self._most_kept:
            self._drop(self._kept[0])

    def _longest_kept(self, owner: str, ids: TokenIds) -> tuple[KeptPrompt | None, int]:
        """Return the owner's kept prompt that has the longest beginning in common with `ids`, and the length of that
        beginning."""
        shared = [(_n_shared(one.ids, ids), one) for one in self._kept if one.owner == owner]
        n_shared, best = max(shared, key=lambda pair: pair[0], default=(0, None))
        return (best, n_shared) if n_shared >= LEAST_KEPT else (None, 0)

    def _drop(self, prompt: KeptPrompt) -> None:
        self._kept.remove(prompt)
        self._forget(prompt.sequence)

    def _forget(self, sequence: int) -> None:
        self._cut(sequence, 0)
        self._free.append(sequence)

    def _cut(self, sequence: int, length: int) -> None:
        """Remove the rows of a sequence from position `length` on."""
        if self._n_filled[sequence] > length or length == 0:
            if not self._library.llama_memory_seq_rm(self._memory, sequence, length or -1, -1):
                raise EngineFailure("internal fault: llama.cpp can't remove rows from its cache", value=length)
            self._n_filled[sequence] = length

    def check_integrity(self) -> None:
        """Check the accounts of sequences and cells, while no session is open.  Raises EngineFailure if a sequence is
        neither free nor kept, cells are still reserved, or llama.cpp holds sequences other than the kept ones."""
        held = [
            sequence
            for sequence in range(MAX_SEQUENCES)
            if self._library.llama_memory_seq_pos_max(self._memory, sequence) >= 0
        ]
        kept = sorted(one.sequence for one in self._kept)
        if self._n_reserved or held != kept or len(self._free) + len(kept) != MAX_SEQUENCES:
            raise EngineFailure(
                f"internal fault: sequences {held} of the KV cache are in use, but {kept} should be", value=held
            )

    # -- passes --------------------------------------------------------------------------------------------------------
    def step(self, parts: Sequence[Part]) -> Sequence[Verification | None]:
        logits, layout = self.logits(parts)
        windows = [part for part in parts if isinstance(part, Window)]
        found = [_verify(logits, rows, window) for rows, window in zip(layout.windows, windows, strict=True)]
        answers = settle(parts, found)
        for part in parts:
            self._cut(part.session.slots.start // self.n_cells, part.session.length)
        return answers

    def logits(self, parts: Sequence[Part]) -> tuple[npt.NDArray[np.float32], Layout]:
        """Compute one batch.  Returns the logits [n, vocab] of the rows that choose a token, and the layout.

        The next batch overwrites these logits.  Sessions keep their lengths.  Raises EngineFailure if `layout.pack`
        does, if a request leaves a gap in its sequence, or if llama.cpp could not compute the batch.
        """
        n_rows = sum(part.n_rows for part in parts)
        layout = pack(parts, n_rows, n_vocab=self.n_vocab, n_keys=lambda _session, n_filled: n_filled, query_grain=1)
        places = [(one.first_slot // self.n_cells, one.position, one.n_rows) for one in layout.segments]
        for sequence, position, _ in places:
            if position > self._n_filled[sequence]:
                message = "internal fault: a request was to be computed after a gap"
                raise EngineFailure(message, value=position, limit=self._n_filled[sequence])
            self._cut(sequence, position)
        batch = self._batch.filled(layout, [sequence for sequence, _, n in places for _ in range(n)])
        code = self._library.llama_decode(self._context, batch)
        for sequence, position, n_new in places:
            self._n_filled[sequence] = position + n_new
            if code:
                self._cut(sequence, position)
        if code:
            raise EngineFailure(
                f"llama.cpp could not compute a batch of {n_rows} rows (code {code}): {last_complaint()}", value=code
            )
        n = len(layout.head_rows)
        if not n:
            self._library.llama_synchronize(self._context)
            return np.empty((0, self.n_vocab), np.float32), layout
        table = self._library.llama_get_logits(self._context)
        return np.ctypeslib.as_array(table, (n, self.n_vocab)), layout


def _n_shared(ids: TokenIds, other: TokenIds) -> int:
    """Return the length of the beginning that `ids` and `other` have in common."""
    n = min(len(ids), len(other))
    is_other = ids[:n] != other[:n]
    return int(is_other.argmax()) if is_other.any() else n


def _verify(logits: npt.NDArray[np.float32], rows: WindowRows, window: Window) -> Verification:
    """Return the target's decision on a window.  Rows after the first wrong draft token are ignored."""
    choices, logprobs = [-1] * rows.n_rows, [0.0] * rows.n_rows
    for i, position in enumerate(rows.positions.tolist()):
        allowed = None if rows.allowed is None else rows.allowed[i : i + 1]
        alone = WindowRows(0, 1, position, rows.sampling, allowed)
        chosen, told = choose(logits[rows.first + i][None], [alone])
        choices[i], logprobs[i] = int(chosen[0]), float(told[0])
        place = position - rows.position
        if place < len(window.draft_ids) and window.draft_ids[place] != choices[i]:
            break
    return rows._replace(first=0).verified(window, choices, logprobs)


class _Batch:
    """The arrays of llama.cpp's batch.  Every pass fills the same arrays again."""

    def __init__(self, library: Any, most_rows: int) -> None:
        self._ids, self._positions, self._sequences = np.zeros((3, most_rows), np.int32)
        self._n_sequences = np.ones(most_rows, np.int32)
        self._wants_logits = np.zeros(most_rows, np.int8)
        numbers, flags = ctypes.POINTER(ctypes.c_int32), ctypes.POINTER(ctypes.c_int8)
        first = self._sequences.ctypes.data
        each = self._sequences.itemsize
        self._places = (numbers * most_rows)(
            *(ctypes.cast(ctypes.c_void_p(first + each * i), numbers) for i in range(most_rows))
        )
        self._batch = library.llama_batch(
            n_tokens=0,
            token=self._ids.ctypes.data_as(numbers),
            pos=self._positions.ctypes.data_as(numbers),
            n_seq_id=self._n_sequences.ctypes.data_as(numbers),
            seq_id=ctypes.cast(self._places, ctypes.POINTER(numbers)),
            logits=self._wants_logits.ctypes.data_as(flags),
        )
        self._most_rows = most_rows

    def filled(self, layout: Layout, sequences: Sequence[int]) -> Any:
        """Return the batch of a pass.  Raises EngineFailure if the pass has more rows than a batch may have."""
        n_rows = len(sequences)
        if n_rows > self._most_rows:
            raise EngineFailure("internal fault: a pass has too many rows", value=n_rows, limit=self._most_rows)
        self._ids[:n_rows], self._positions[:n_rows], self._sequences[:n_rows] = layout.ids, layout.positions, sequences
        self._wants_logits[:n_rows] = np.isin(np.arange(n_rows), layout.head_rows)
        self._batch.n_tokens = n_rows
        return self._batch
