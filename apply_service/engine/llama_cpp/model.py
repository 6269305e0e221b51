"""Loads a GGUF file into llama.cpp, reads its vocabulary and metadata, and measures how fast it computes batches.

It calls the C interface through the bindings of `llama-cpp-python`, but uses none of that package's classes.

Batches of different sizes may give slightly different results, because llama.cpp picks its kernels by the number of
rows.  So the determinism is `tolerant`.  `measure_rows` runs the same tokens in batches and one at a time, and counts
the rows that choose a different token.  On some processors and with some files, all batches up to a certain size give
bitwise equal results.  Windows then stay within that size.
"""

from __future__ import annotations

import ctypes
import logging
import statistics
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from apply_service.engine.layout import Layout
from apply_service.engine.progress import telling
from apply_service.errors import MissingDependency, ModelNotLoadable, missing_extra
from apply_service.protocols import Part, Prefill, SamplingParams, Session, Verification, Window

MAGIC = b"GGUF"
ALL_LAYERS = 10_000
LEVELS = {1: logging.DEBUG, 2: logging.DEBUG, 3: logging.DEBUG, 4: logging.INFO}
"""Our log level for each level of the library's log.  Even the library's errors (4) are INFO, because callers get a
typed error."""
ERROR = 4
CONTROL, USER_DEFINED = 1 << 3, 1 << 4
"""Bits of a token's attributes."""
NO_TOKEN = -1

log = logging.getLogger(__name__)
_complaints: deque[str] = deque(maxlen=4)
_kept: list[Any] = []
"""Keeps the log function alive: the library calls it until the process ends."""


@cache
def open_library() -> Any:
    """Return the bindings of llama.cpp, and send the library's log to ours.  Raises MissingDependency if the bindings
    are not installed, or their library can't be loaded."""
    try:
        from llama_cpp import llama_cpp as library
    except ImportError as error:
        raise missing_extra(f"The engine llama.cpp runs on llama-cpp-python ({error})", "llamacpp") from error
    except (OSError, RuntimeError) as error:
        remedy = "install llama-cpp-python again, built for this machine"
        raise MissingDependency(f"llama.cpp can't be loaded: {error}", value="llama.cpp", remedy=remedy) from error

    def tell(level: int, text: bytes, _data: object) -> None:
        line = text.decode(errors="replace").strip()
        if line and level == ERROR:
            _complaints.append(line)
        if line:
            log.log(LEVELS.get(level, logging.DEBUG), "llama.cpp: %s", line)

    _kept.append(library.llama_log_callback(tell))
    library.llama_log_set(_kept[-1], ctypes.c_void_p(0))
    library.llama_backend_init()
    return library


def last_complaint() -> str:
    """Return the last error lines of the library's log, and forget them."""
    text = "; ".join(_complaints) or "llama.cpp does not say why"
    _complaints.clear()
    return text


class LlamaModel:
    """The weights and the vocabulary of one file.

    `device`: `auto` puts all layers on a GPU if the library was built for one.  `cuda` and `mps` demand a GPU.  `cpu`
    puts no layer on a GPU.

    Raises:
        MissingDependency: llama-cpp-python is not installed, or a GPU is demanded and the library was built without GPU
            support.
        ModelNotLoadable: the file is not a GGUF, llama.cpp can't load it, or this engine can't run the model.
    """

    def __init__(self, path: Path, *, device: str = "auto") -> None:
        started = time.perf_counter()
        refuse_other_files(path)
        self.library = library = open_library()
        self.path = path
        options = library.llama_model_default_params()
        self.is_on_gpu = device != "cpu" and bool(library.llama_supports_gpu_offload())
        if device in ("cuda", "mps") and not self.is_on_gpu:
            remedy = "use --device cpu, or install llama-cpp-python built for the GPU"
            raise MissingDependency("this llama.cpp was built for the CPU alone", value=device, remedy=remedy)
        options.n_gpu_layers = ALL_LAYERS if self.is_on_gpu else 0
        with telling(f"loading {path.name} into llama.cpp"):
            self.handle = library.llama_model_load_from_file(str(path).encode(), options)
        if not self.handle:
            remedy = "download it again, or use another model or a newer llama-cpp-python"
            message = f"llama.cpp can't load the file: {last_complaint()}"
            raise ModelNotLoadable(message, value=str(path), remedy=remedy)
        self.free = weakref.finalize(self, library.llama_model_free, self.handle)
        self._vocabulary = library.llama_model_get_vocab(self.handle)
        self.n_vocab: int = library.llama_vocab_n_tokens(self._vocabulary)
        self.n_trained: int = library.llama_model_n_ctx_train(self.handle)
        self._pieces: dict[int, bytes] = {}
        why = ""
        if library.llama_model_is_recurrent(self.handle) or library.llama_model_is_hybrid(self.handle):
            why = "the model keeps a recurrent state, which this engine can't roll back after a wrong draft"
        elif library.llama_model_has_encoder(self.handle) or not library.llama_model_has_decoder(self.handle):
            why = "the model is no plain decoder"
        if why:
            limit = "models whose only state is keys and values"
            raise ModelNotLoadable(why, value=str(path), limit=limit, remedy="use another model")
        self.load_s = time.perf_counter() - started

    def metadata(self, key: str) -> str | None:
        """Return the value of a metadata key as text; None if the file lacks the key."""
        room = ctypes.create_string_buffer(256)
        n_bytes = self.library.llama_model_meta_val_str(self.handle, key.encode(), room, len(room))
        return None if n_bytes < 0 else room.value.decode(errors="replace")

    @property
    def bytes_per_cell(self) -> int:
        """The bytes that one token's keys and values take in all layers, as 16-bit floats."""
        library, arch = self.library, self.metadata("general.architecture") or ""
        usual = library.llama_model_n_embd(self.handle) // max(1, library.llama_model_n_head(self.handle))
        lengths = (self.metadata(f"{arch}.attention.{name}_length") for name in ("key", "value"))
        sizes = sum(int(length) if length and length.isdecimal() else usual for length in lengths)
        n_heads: int = library.llama_model_n_head_kv(self.handle)
        return max(1, 2 * int(library.llama_model_n_layer(self.handle)) * n_heads * sizes)

    # -- the vocabulary ------------------------------------------------------------------------------------------------
    def encode(self, text: bytes, *, is_control: bool = False) -> list[int]:
        """Return the token ids of a text.  With `is_control`, the spelling of a control token becomes that token."""
        room = (ctypes.c_int32 * (len(text) + 8))()
        tokenize = self.library.llama_tokenize
        n_ids = tokenize(self._vocabulary, text, len(text), room, len(room), False, is_control)
        if n_ids < 0:  # more tokens than bytes: never seen, but the interface allows it
            room = (ctypes.c_int32 * -n_ids)()
            n_ids = tokenize(self._vocabulary, text, len(text), room, len(room), False, is_control)
        return room[:n_ids]

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token; empty for a control token."""
        if not 0 <= token < self.n_vocab:
            return b""
        if (known := self._pieces.get(token)) is None:
            room = ctypes.create_string_buffer(256)
            read = self.library.llama_token_to_piece
            n_bytes = read(self._vocabulary, token, room, len(room), 0, False)
            if n_bytes < 0:
                room = ctypes.create_string_buffer(-n_bytes)
                n_bytes = read(self._vocabulary, token, room, len(room), 0, False)
            known = self._pieces[token] = room.raw[:n_bytes]
        return known

    def pieces(self) -> Mapping[int, bytes]:
        """Return the bytes of every token."""
        return {token: self.piece(token) for token in range(self.n_vocab)}

    @cached_property
    def defined_by_user(self) -> list[bytes]:
        """Spellings that are always one token.  The tokenizer finds them before it merges anything."""
        attribute = self.library.llama_vocab_get_attr
        return [self.piece(i) for i in range(self.n_vocab) if attribute(self._vocabulary, i) & USER_DEFINED]

    @property
    def end_id(self) -> int | None:
        """The token that ends a chat turn, or else the token that ends a text; None if the file names neither."""
        ends = (self.library.llama_vocab_eot(self._vocabulary), self.library.llama_vocab_eos(self._vocabulary))
        return next((int(token) for token in ends if token != NO_TOKEN), None)

    @cached_property
    def stop_ids(self) -> frozenset[int]:
        """All tokens that end an answer."""
        is_end = self.library.llama_vocab_is_eog
        return frozenset(token for token in range(self.n_vocab) if is_end(self._vocabulary, token))

    @property
    def chat_template(self) -> str | None:
        """The Jinja template of a chat, as text.  This module never runs it."""
        template = self.library.llama_model_chat_template(self.handle, None)
        return None if template is None else template.decode(errors="replace")

    @property
    def names(self) -> dict[str, str]:
        """The spellings of the tokens that chat templates refer to by name."""
        library, vocabulary = self.library, self._vocabulary
        ids = {"bos_token": library.llama_vocab_bos(vocabulary), "eos_token": library.llama_vocab_eos(vocabulary)}
        texts = {name: b"" if i == NO_TOKEN else library.llama_vocab_get_text(vocabulary, i) for name, i in ids.items()}
        return {name: text.decode(errors="replace") for name, text in texts.items()}


def refuse_other_files(path: Path) -> None:
    """Raise ModelNotLoadable if the file can't be read, or is not a GGUF file."""
    remedy = "name a GGUF file (--model FILE.gguf), or leave out --engine llama.cpp"
    try:
        with path.open("rb") as file:
            magic = file.read(4)
        message = f"llama.cpp runs GGUF files, and this is none: it begins with {magic!r}, not with {MAGIC!r}"
    except FileNotFoundError:
        magic, message = b"", "there is no such file (llama.cpp runs GGUF files, by their names)"
    except OSError as error:
        magic, message = b"", f"llama.cpp runs GGUF files, and this can't be read as one: {error.strerror or error}"
    if magic != MAGIC:
        raise ModelNotLoadable(message, value=str(path), limit="a GGUF file", remedy=remedy)


# -- how fast batches are, and how often they choose another token -----------------------------------------------------
Logits = npt.NDArray[np.float32]

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""The row counts that the scheduler may choose for a pass."""
MEASURED = (2, 4, 8, 16, 32, 48, 64, 128, 256)
MOST_ROWS = SIZES[-1]
N_PROMPT = 24
N_PROBES = 12
"""At most this many rows of a batch are compared with single tokens."""
BUDGET_S = 0.9
LEAST_EXACT = 16
WORTH = 0.75
"""Windows keep to exact sizes if the largest exact size has at least `LEAST_EXACT` rows and reaches at least this share
of the best rows per second."""
ENOUGH = 0.9
"""A window size suffices if it reaches this share of the best rows per second."""
MOST_SLOWER = 1.4
"""One thread computes single tokens only if it takes at most this many times as long as all threads."""
SINGLES_S = 0.2
"""The time for measuring single tokens.  At least two are measured."""
SAMPLE = b"""def total(items, discount=0):
    cost = sum(item.price * item.quantity for item in items)
    if discount:
        cost = cost * (1 - discount)
    return round(cost, 2)


class Basket:
    def __init__(self, owner):
        self.owner = owner
        self.items = []

    def add(self, item, quantity=1):
        if quantity < 1:
            raise ValueError("quantity must be positive")
        self.items.append((item, quantity))
"""


class RowTest(NamedTuple):
    """The results of `measure_rows`.

    `seconds`: the time of a batch by its number of rows.  Without a GPU, it is this thread's processor time.
    `flipped_choices`: the share of `n_compared` rows that chose a different token than when computed as a single token.
    `exact_rows`: batches of up to this many rows gave bitwise the same results as single tokens.  `single_threads`: the
    number of threads that compute a single token.
    """

    seconds: Mapping[int, float]
    n_compared: int
    flipped_choices: float
    exact_rows: int
    single_threads: int

    @property
    def speedup_limit(self) -> float:
        """The rows per second of the best measured batch, divided by the rows per second of single tokens."""
        return max(n_rows / seconds for n_rows, seconds in self.seconds.items()) * self.seconds[1]

    @property
    def is_exact(self) -> bool:
        """Whether windows should have at most `exact_rows` rows: this size is large enough, and fast enough."""
        if self.exact_rows < LEAST_EXACT:
            return False
        times = pass_times_of(self.seconds, MOST_ROWS)
        best = max(n_rows / seconds for n_rows, seconds in times.items())
        return self.exact_rows / times[self.exact_rows] >= WORTH * best


class RowEngine(Protocol):
    """The parts of `engine.LlamaEngine` that `measure_rows` uses."""

    context_limit: int
    n_threads: int

    @property
    def is_on_gpu(self) -> bool: ...
    def open(self, prompt_ids: Sequence[int], max_new_tokens: int, *, owner: str = "") -> Session | None: ...
    def step(self, parts: Sequence[Part]) -> Sequence[Verification | None]: ...
    def logits(self, parts: Sequence[Part]) -> tuple[Logits, Layout]: ...
    def compute_single_tokens_with(self, n_threads: int) -> None: ...


class RowProbe:
    """Computes known tokens after a prompt, in batches of any size."""

    def __init__(self, engine: RowEngine, session: Session, ids: Sequence[int]) -> None:
        self._engine, self._session, self._ids = engine, session, ids
        self._start = session.length
        # On a CPU, count this thread's time: other processes may hold the processor for most of a batch.
        self.clock = time.perf_counter if engine.is_on_gpu else time.thread_time

    def run(self, first: int, n_rows: int) -> tuple[float, Logits]:
        """Compute tokens `first` to `first + n_rows` in one batch.  Returns the seconds, and the logits of the first
        rows."""
        self._session.length = self._start + first
        window = Window(self._session, self._ids[first], self._ids[first + 1 : first + n_rows], SamplingParams())
        begun = self.clock()
        logits = self._engine.logits([window])[0]
        return self.clock() - begun, logits[:N_PROBES].copy()

    def alone(self, most: int, budget_s: float) -> tuple[float, Logits]:
        """Compute up to `most` tokens one at a time.  Returns the median seconds of one token, and the logits of
        all."""
        started, found = self.clock(), list[tuple[float, Logits]]()
        while len(found) < most and (len(found) < 2 or self.clock() - started < budget_s):
            found.append(self.run(len(found), 1))
        return statistics.median(seconds for seconds, _ in found), np.concatenate([logits for _, logits in found])


def measure_rows(engine: RowEngine, most_rows: int, ids: Sequence[int]) -> RowTest:
    """Measure single tokens of `ids`, then larger and larger batches of the same tokens until `BUDGET_S` is spent.

    From 512 cells on, several threads sum the attention of a single token in a different order than the attention of a
    batch.  So one thread computes single tokens, if that makes batches exact and is not much slower.
    """
    ids = [*ids] * (1 + (N_PROMPT + 1 + most_rows) // max(1, len(ids)))
    n_prompt = min(N_PROMPT, engine.context_limit // 4)
    most_rows = min(most_rows, engine.context_limit - n_prompt - 1)
    session = engine.open(ids[: n_prompt + 1], most_rows)
    assert session is not None, "a new engine has room"
    with session:
        session.is_sound = False  # keep nothing of the session in the prefix cache
        while session.n_pending:
            engine.step([Prefill(session, min(session.n_pending, most_rows))])
        probe = RowProbe(engine, session, ids[n_prompt:])
        started = probe.clock()
        n_probes, threads = min(N_PROBES, most_rows), engine.n_threads
        single, alone = probe.alone(n_probes, SINGLES_S)
        batches = dict[int, tuple[float, Logits]]()
        for n_rows in [size for size in MEASURED if size <= most_rows]:
            batches[n_rows] = probe.run(0, n_rows)
            if probe.clock() - started + 1.8 * batches[n_rows][0] > BUDGET_S:
                break
        exact = _exact_rows(alone, batches) if threads == 1 else 1
        if threads > 1:
            engine.compute_single_tokens_with(1)
            slower, other = probe.alone(n_probes, SINGLES_S)
            if slower <= MOST_SLOWER * single and (found := _exact_rows(other, batches)) > 1:
                single, alone, threads, exact = slower, other, 1, found
            engine.compute_single_tokens_with(threads)
        session.length = n_prompt
    test = RowTest({1: single} | {n: seconds for n, (seconds, _) in batches.items()}, 0, 0.0, exact, threads)
    used = [logits for n, (_, logits) in batches.items() if n <= exact or not test.is_exact]
    n_compared = sum(min(len(logits), len(alone)) for logits in used)
    n_flipped = sum(int((one[: len(alone)].argmax(-1) != alone[: len(one)].argmax(-1)).sum()) for one in used)
    return test._replace(n_compared=n_compared, flipped_choices=n_flipped / max(1, n_compared))


def _exact_rows(alone: Logits, batches: Mapping[int, tuple[float, Logits]]) -> int:
    """Return the largest batch size up to which all measured batches are bitwise equal to single tokens."""
    exact = 1
    for n_rows, (_, logits) in batches.items():
        if not np.array_equal(logits[: len(alone)], alone[: len(logits)]):
            break
        exact = n_rows
    return exact


def most_worthwhile(times: Mapping[int, float]) -> int:
    """Return the smallest fast window size of at least `LEAST_EXACT` rows (see `ENOUGH`).  A smaller window wastes
    fewer rows after a wrong draft token."""
    sizes = {n_rows: n_rows / time for n_rows, time in times.items() if n_rows >= min(LEAST_EXACT, max(times))}
    return min(n_rows for n_rows, speed in sizes.items() if speed >= ENOUGH * max(sizes.values()))


def pass_times_of(seconds: Mapping[int, float], most_rows: int) -> dict[int, float]:
    """Return the time of each row count that a pass may have, relative to the time of one row.

    Times between two measured row counts are interpolated; times beyond the last are extrapolated from the last two.  A
    larger row count never takes less time, and never more time than as many single rows.
    """
    known = sorted(seconds)
    sizes = sorted({size for size in SIZES if size < most_rows} | {most_rows})
    times = np.interp(sizes, known, [seconds[n_rows] for n_rows in known])
    if len(known) > 1:
        slope = max(0.0, (seconds[known[-1]] - seconds[known[-2]]) / (known[-1] - known[-2]))
        times += slope * np.clip(np.array(sizes) - known[-1], 0, None)
    else:
        times *= np.array(sizes) / known[0]
    times = np.minimum(np.maximum.accumulate(times) / seconds[1], sizes)
    return dict(zip(sizes, times.tolist(), strict=True))
