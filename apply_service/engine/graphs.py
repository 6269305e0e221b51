"""Passes on the device: computed step by step, or captured once for each key as a CUDA graph and replayed.

A pass of a model of 28 layers is some thousand kernels; launching them one by one takes longer than a GPU takes to run
them on a small window.  Everything that changes between passes of one key lies in its `PassInputs`.
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
"""The least recently used goes first; a graph of a large model holds some MiB of the driver's memory."""


class PassOutput(NamedTuple):
    """What a pass leaves on the device: the `table` of `passes.decide` where it was greedy, else the logits
    [n_head_rows, vocab]; neither where no row went through the head.  Of a replayed pass they hold until the next."""

    logits: torch.Tensor | None
    table: torch.Tensor | None


Fill = Callable[[PassInputs], None]
Compute = Callable[[PassInputs], PassOutput]
Replay = Callable[[], None]
Capture = Callable[[Callable[[], PassOutput]], tuple[PassOutput, Replay]]
"""Records what a function does on the device; its output, and how to do it again."""


class EagerPasses:
    """Computes every pass anew."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def run(self, key: PassKey, fill: Fill, compute: Compute) -> PassOutput:
        inputs = PassInputs(key, self._device)
        fill(inputs)
        return compute(inputs)


class GraphedPasses:
    """Captures the first pass of a key and replays it for all others.  `capture` is `CudaCapture()` but in tests."""

    def __init__(self, device: torch.device, capture: Capture, *, max_graphs: int = MAX_GRAPHS) -> None:
        self._device = device
        self._capture = capture
        self._max_graphs = max_graphs
        self._recorded: OrderedDict[PassKey, tuple[PassInputs, PassOutput, Replay]] = OrderedDict()
        self._logits: torch.Tensor | None = None
        self.n_captured = 0
        """Captures so far: the time of a pass of a new kind says nothing of the next ones."""

    @property
    def keys(self) -> tuple[PassKey, ...]:
        """Of the passes that are recorded, the least recently used first."""
        return tuple(self._recorded)

    def run(self, key: PassKey, fill: Fill, compute: Compute) -> PassOutput:
        if key in self._recorded:
            self._recorded.move_to_end(key)
            fill(self._recorded[key][0])
        else:
            while len(self._recorded) >= self._max_graphs:
                self._recorded.popitem(last=False)
            inputs = PassInputs(key, self._device)
            fill(inputs)
            self._recorded[key] = (inputs, *self._capture(lambda: self._in_one_place(compute(inputs))))
            self.n_captured += 1
        _, output, replay = self._recorded[key]
        replay()
        return output

    def _in_one_place(self, output: PassOutput) -> PassOutput:
        """Copy logits to the place that all passes share: a captured pass would keep its own for good, 78 MB for 256
        rows of 152,000 tokens.  The place is made where `capture` runs a pass before it records it."""
        if output.logits is None:
            return output
        n_rows = len(output.logits)
        if self._logits is None or len(self._logits) < n_rows:
            self._logits = torch.empty_like(output.logits)
        return PassOutput(self._logits[:n_rows].copy_(output.logits), output.table)


class CudaCapture:
    """Captures into CUDA graphs that share one pool of memory: they never run at the same time.

    On one stream of its own: the libraries keep a workspace for every stream that they ever saw, and memory is only
    shared between captures of the same stream.
    """

    def __init__(self) -> None:
        self._pool: Any = None
        self._stream: Any = None

    def __call__(self, compute: Callable[[], PassOutput]) -> tuple[PassOutput, Replay]:
        """Runs `compute` first, so that kernels are compiled and libraries have their workspaces; a pass may run any
        number of times, as it writes the same keys and values into the same slots."""
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
    """What runs the passes of an engine on `device`, and why without graphs where that was not asked for.

    Raises:
        MissingDependency: graphs were asked for by name and can't be captured here.
    """
    lack = "" if device.type == "cuda" else "no CUDA device"
    if not lack and not has_kernels:
        lack = "the attention of PyTorch takes its lengths from the host"
    if setting == "off":
        lack = "cuda_graphs is off"
    elif setting == "on" and lack:
        raise MissingDependency(f"passes can't be captured: {lack}", value="on", remedy="set cuda_graphs to auto")
    return (EagerPasses(device), lack) if lack else (GraphedPasses(device, CudaCapture()), "")
