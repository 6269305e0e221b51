"""Runs the passes of the torch engine: sends the inputs to the device, runs the pass, and brings back the choices.

A pass of a model with 28 layers is about a thousand kernels.  For a small window, launching the kernels one by one
takes longer than running them.  So the first pass of each kind (`PassKey`) is captured as a CUDA graph, and later
passes of that kind replay the graph.  Everything that may differ between passes of one key lies in its `PassInputs`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import torch

from apply_service.engine.layout import Layout
from apply_service.errors import MissingDependency
from apply_service.protocols import Window

FIELDS = ("ids", "positions", "slots", "head_rows", "known_ids")
"""The columns [n_rows] of a block of inputs, in their order.  `tiles` [n_tiles, 3] comes after them."""
BOOST = 1e4
"""This is added to the logit of a known next token.  Logits of random weights are always smaller."""

KnownRows = Sequence[tuple[int, Sequence[int]]]
"""Tokens that rows of the head must choose (for a replay target).  Each pair has a first row, and the tokens of that
row and the following rows."""


# -- what the device is sent -------------------------------------------------------------------------------------------
class PassKey(NamedTuple):
    """The kind of a pass.  A captured pass can be replayed for every pass with the same key.

    `n_head_rows` rows go through the head, and the first `n_choices` of them choose a token.  If `is_greedy`, the
    choices are a part of the pass.
    """

    n_rows: int
    n_head_rows: int
    n_choices: int
    n_tiles: int
    n_splits: int
    is_greedy: bool


def power_of_two(n: int) -> int:
    """Return the smallest power of two that is at least `n`; 0 for 0.  Rounded counts make fewer kinds of passes."""
    return 1 << (n - 1).bit_length() if n else 0


class PassInputs:
    """The data of one pass, as a single block of integers that is sent to the device in one copy.

    The block of a key never moves, so a captured pass can be replayed with other contents.

    The device tensors are int64, [n_rows] except for `tiles` [n_tiles, 3]:

    - `ids`, `positions`.
    - `slots`: the slot for the keys and values of each row; -1 for padding.
    - `head_rows`: the rows that go through the head; 0 for padding.
    - `known_ids`: the token that each row of the head must choose (see `KnownRows`); -1 if the model chooses.
    """

    def __init__(self, key: PassKey, device: torch.device) -> None:
        self.key = key
        n_columns = len(FIELDS) * key.n_rows
        is_cuda = device.type == "cuda"
        self._host = torch.zeros(n_columns + 3 * key.n_tiles, dtype=torch.int64, pin_memory=is_cuda)
        self._device = torch.zeros_like(self._host, device=device) if is_cuda else self._host
        self._sent = torch.cuda.Event() if is_cuda else None  # type: ignore[no-untyped-call]
        columns = self._device[:n_columns].view(len(FIELDS), key.n_rows)
        self.ids, self.positions, self.slots, self.head_rows, self.known_ids = columns.unbind()
        self.tiles = self._device[n_columns:].view(-1, 3)

    def fill(self, layout: Layout, known: KnownRows = (), tiles: Iterable[tuple[int, int, int]] = ()) -> None:
        """Write the data of a pass into the block and send it.  Waits until the previous contents have been sent."""
        if self._sent is not None:
            self._sent.synchronize()
        n_rows = self.key.n_rows
        numbers = self._host.numpy()
        columns = numbers[: len(FIELDS) * n_rows].reshape(len(FIELDS), n_rows)
        ids, positions, slots, head_rows, known_ids = columns
        ids[:] = layout.ids
        positions[:] = layout.positions
        slots[:] = known_ids[:] = -1
        head_rows[:] = 0
        head_rows[: len(layout.head_rows)] = layout.head_rows
        for segment in layout.segments:
            rows = slice(segment.first_row, segment.first_row + segment.n_rows)
            slots[rows] = segment.first_slot + positions[rows]
        for first, wanted in known:
            known_ids[first : first + len(wanted)] = wanted
        table = numbers[len(FIELDS) * n_rows :].reshape(-1, 3)
        table[:] = 0
        for i, tile in enumerate(tiles):
            table[i] = tile
        if self._sent is not None:
            self._device.copy_(self._host, non_blocking=True)
            self._sent.record()


# -- what the device decides -------------------------------------------------------------------------------------------
def is_greedy(window: Window) -> bool:
    """Tell whether each row of the window just chooses its best token, without temperature or mask."""
    is_masked = window.allowed is not None and any(tokens is not None for tokens in window.allowed)
    return window.sampling.temperature <= 0 and not is_masked


def raise_known(logits: torch.Tensor, known_ids: torch.Tensor) -> torch.Tensor:
    """Change `logits` [n, vocab] in place so that each row chooses its token of `known_ids` [n].  A row with -1 is not
    changed."""
    boost = (known_ids >= 0).to(logits.dtype) * BOOST
    return logits.scatter_add_(1, known_ids.clamp(min=0)[:, None], boost[:, None])


def decide(choices: torch.Tensor, logprobs: torch.Tensor) -> torch.Tensor:
    """Return the choice and the log probability of each row of the head as one tensor [2, n] float64, so that one
    transfer brings both to the host.  `Layout.verified` makes the answers from this tensor."""
    return torch.stack([choices.double(), logprobs.double()])


# -- how a pass runs ---------------------------------------------------------------------------------------------------
GraphSetting = Literal["auto", "on", "off"]
MAX_GRAPHS = 96
"""At most this many graphs are kept.  If there would be more, the least recently used one is dropped.

A graph of a large model holds some MiB of the driver's memory.
"""


class PassOutput(NamedTuple):
    """The results of a pass on the device.

    A greedy pass gives the `table` of `decide`.  Any other pass gives the logits [n_head_rows, vocab].  Both are None
    if no row went through the head.  The next pass overwrites the output of a replayed pass.
    """

    logits: torch.Tensor | None
    table: torch.Tensor | None


Compute = Callable[[], PassOutput]
Replay = Callable[[], None]
Capture = Callable[[Compute], tuple[PassOutput, Replay]]
"""Records the work of a function on the device.  Returns the function's output, and another function that repeats the
work."""


class Passes:
    """Runs passes.  With `capture`, it captures the first pass of each key, and replays it for later passes of that
    key.  Outside tests, `capture` is `CudaCapture()`."""

    def __init__(self, device: torch.device, capture: Capture | None = None, *, max_graphs: int = MAX_GRAPHS) -> None:
        self._device = device
        self.capture = capture
        self._max_graphs = max_graphs
        self._recorded: OrderedDict[PassKey, tuple[PassInputs, PassOutput, Replay]] = OrderedDict()
        self._logits: torch.Tensor | None = None
        self.n_captured = 0
        """How many passes were captured so far.  A pass that is being captured takes longer than its replays."""

    @property
    def keys(self) -> tuple[PassKey, ...]:
        """The keys of the recorded passes, the least recently used first."""
        return tuple(self._recorded)

    def inputs(self, key: PassKey) -> PassInputs:
        """Return the block of inputs for a pass of this key.  The caller fills it and gives it to `run`."""
        return self._recorded[key][0] if key in self._recorded else PassInputs(key, self._device)

    def run(self, inputs: PassInputs, compute: Compute) -> PassOutput:
        """Return the output of `compute` with `inputs`.  If there is a `capture`, the pass is captured and replayed."""
        if self.capture is None:
            return compute()
        if inputs.key not in self._recorded:
            while len(self._recorded) >= self._max_graphs:
                self._recorded.popitem(last=False)
            self._recorded[inputs.key] = (inputs, *self.capture(lambda: self._in_one_place(compute())))
            self.n_captured += 1
        self._recorded.move_to_end(inputs.key)
        _, output, replay = self._recorded[inputs.key]
        replay()
        return output

    def _in_one_place(self, output: PassOutput) -> PassOutput:
        """Copy logits into a buffer that all passes share.

        Otherwise every captured pass would keep logits of its own: 78 MB for 256 rows of 152,000 tokens.  The buffer is
        allocated outside the recording, when `capture` runs the pass for the first time.
        """
        if output.logits is None:
            return output
        n_rows = len(output.logits)
        if self._logits is None or len(self._logits) < n_rows:
            self._logits = torch.empty_like(output.logits)
        return PassOutput(self._logits[:n_rows].copy_(output.logits), output.table)


class CudaCapture:
    """Captures passes as CUDA graphs.  The graphs share one memory pool, because they never run at the same time.

    All captures use the same stream, for two reasons.  The libraries keep a workspace for every stream that they have
    ever seen.  And captures share memory only on the same stream.
    """

    def __init__(self) -> None:
        self._pool: Any = None
        self._stream: Any = None

    def __call__(self, compute: Compute) -> tuple[PassOutput, Replay]:
        """Capture `compute`.

        `compute` runs twice before the capture, so that kernels are compiled and libraries have their workspaces.
        Running a pass again does no harm: it writes the same keys and values into the same slots.
        """
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        self._stream = self._stream or torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for _ in range(2):
                compute()
        torch.cuda.current_stream().wait_stream(self._stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            output = compute()
        return output, graph.replay


def open_passes(setting: GraphSetting, device: torch.device, *, has_kernels: bool) -> tuple[Passes, str]:
    """Return the `Passes` of an engine on `device`, and the reason if they use no graphs (an empty text if they do).
    Raises MissingDependency if the setting demands graphs, but they can't be captured here."""
    lack = "" if device.type == "cuda" else "no CUDA device"
    if not lack and not has_kernels:
        lack = "PyTorch's attention does not work in them"
    if setting == "off":
        lack = "cuda_graphs is off"
    elif setting == "on" and lack:
        raise MissingDependency(f"CUDA graphs can't be used: {lack}", value="on", remedy="set cuda_graphs to auto")
    return (Passes(device), lack) if lack else (Passes(device, CudaCapture()), "")
