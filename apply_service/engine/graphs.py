"""Runs passes on the device: step by step, or captured once for each key as a CUDA graph and then replayed.

A pass of a model with 28 layers is about a thousand kernels.  For a small window, launching them one by one takes
longer than running them.  Everything that changes between passes of one key lies in its `PassInputs`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch

from apply_service.engine.passes import PassInputs, PassKey
from apply_service.errors import MissingDependency

GraphSetting = Literal["auto", "on", "off"]
MAX_GRAPHS = 96
"""Beyond this number the least recently used graph is dropped.

A graph of a large model holds some MiB of the driver's memory.
"""


class PassOutput(NamedTuple):
    """What a pass leaves on the device.

    A greedy pass leaves the `table` of `passes.decide`, any other the logits [n_head_rows, vocab].  Both are None if no
    row went through the head.  The next pass overwrites the output of a replayed pass.
    """

    logits: torch.Tensor | None
    table: torch.Tensor | None


Compute = Callable[[], PassOutput]
Replay = Callable[[], None]
Capture = Callable[[Compute], tuple[PassOutput, Replay]]
"""Records what a function does on the device.  Returns its output and a function that repeats it."""


class EagerPasses:
    """Computes every pass anew."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def inputs(self, key: PassKey) -> PassInputs:
        """The block of inputs for a pass of this key; to be filled, and then given to `run`."""
        return PassInputs(key, self._device)

    def run(self, inputs: PassInputs, compute: Compute) -> PassOutput:  # noqa: ARG002  `compute` has them
        return compute()


class GraphedPasses:
    """Captures the first pass of a key and replays it for the others.  `capture`: `CudaCapture()`, except in tests."""

    def __init__(self, device: torch.device, capture: Capture, *, max_graphs: int = MAX_GRAPHS) -> None:
        self._device = device
        self._capture = capture
        self._max_graphs = max_graphs
        self._recorded: OrderedDict[PassKey, tuple[PassInputs, PassOutput, Replay]] = OrderedDict()
        self._logits: torch.Tensor | None = None
        self.n_captured = 0
        """How many passes were captured so far.  The time of a captured pass does not predict the replays."""

    @property
    def keys(self) -> tuple[PassKey, ...]:
        """The keys of the recorded passes, the least recently used first."""
        return tuple(self._recorded)

    def inputs(self, key: PassKey) -> PassInputs:
        return self._recorded[key][0] if key in self._recorded else PassInputs(key, self._device)

    def run(self, inputs: PassInputs, compute: Compute) -> PassOutput:
        if inputs.key not in self._recorded:
            while len(self._recorded) >= self._max_graphs:
                self._recorded.popitem(last=False)
            self._recorded[inputs.key] = (inputs, *self._capture(lambda: self._in_one_place(compute())))
            self.n_captured += 1
        self._recorded.move_to_end(inputs.key)
        _, output, replay = self._recorded[inputs.key]
        replay()
        return output

    def _in_one_place(self, output: PassOutput) -> PassOutput:
        """Copy logits into a buffer that all passes share.

        Otherwise every captured pass would keep its own logits for good: 78 MB for 256 rows of 152,000 tokens.  The
        buffer is allocated when `capture` runs a pass before it records it.
        """
        if output.logits is None:
            return output
        n_rows = len(output.logits)
        if self._logits is None or len(self._logits) < n_rows:
            self._logits = torch.empty_like(output.logits)
        return PassOutput(self._logits[:n_rows].copy_(output.logits), output.table)


class CudaCapture:
    """Captures into CUDA graphs that share one memory pool, as they never run at the same time.

    All captures use one stream of their own.  The libraries keep a workspace for every stream that they have ever seen,
    and captures share memory only on the same stream.
    """

    def __init__(self) -> None:
        self._pool: Any = None
        self._stream: Any = None

    def __call__(self, compute: Compute) -> tuple[PassOutput, Replay]:
        """Capture `compute`.

        It runs twice before the capture, so that kernels are compiled and libraries have their workspaces.  A pass may
        run any number of times: it writes the same keys and values into the same slots.
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


def open_passes(
    setting: GraphSetting, device: torch.device, *, has_kernels: bool
) -> tuple[EagerPasses | GraphedPasses, str]:
    """What runs the passes of an engine on `device`, and the reason if it uses no graphs (else an empty text).  Raises
    MissingDependency: graphs were asked for by name and can't be captured here."""
    lack = "" if device.type == "cuda" else "no CUDA device"
    if not lack and not has_kernels:
        lack = "PyTorch's attention needs its lengths on the host"
    if setting == "off":
        lack = "cuda_graphs is off"
    elif setting == "on" and lack:
        raise MissingDependency(f"passes can't be captured: {lack}", value="on", remedy="set cuda_graphs to auto")
    return (EagerPasses(device), lack) if lack else (GraphedPasses(device, CudaCapture()), "")
