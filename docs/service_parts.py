"""The generated parts of `operations.md`: what the benchmarks of the service found last."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.service import load as load_benchmark
from benchmarks.service.load import latency_table, stage_table
from docs.tables import table


def load() -> str:
    """Both phases of the load."""
    return _shown(load_benchmark.RESULT, load_text)


def _shown(path: Path, render: Callable[[Mapping[str, Any]], str]) -> str:
    if not path.is_file():
        return "Not measured yet.\n"
    return render(json.loads(path.read_text(encoding="utf-8")))


def load_text(result: Mapping[str, Any]) -> str:
    """A result of `benchmarks.service.load`."""
    kept = "every promise was kept" if not result["broken"] else "broken: " + "; ".join(result["broken"])
    head = f"{result['clients']} clients, {result['minutes']:g} minutes, {_origin(result)}: {kept}.\n"
    return "\n".join([head, *(_phase(name, phase) for name, phase in result["phases"].items())])


def _phase(name: str, phase: Mapping[str, Any]) -> str:
    memory = phase["memory_mb"]
    rows = [
        ("answers a second", str(phase["answers_per_s"])),
        ("ended how", ", ".join(f"`{ending}` {n}" for ending, n in phase["ended"].items())),
        ("answered 429", str(phase["n_refused"])),
        ("most waiting, most decoded at a time", f"{phase['max_queue_length']}, {phase['max_active']}"),
        ("idle and answering afterwards", "yes" if phase["is_idle_after"] and phase["answers_after"] else "**no**"),
    ]
    if memory is not None:
        rows.append(("memory, first and last fifth", f"{memory['first']:g} and {memory['last']:g} MiB"))
    parts = [f"Phase *{name}*:\n", table(("", ""), rows), latency_table(phase) + "\n", stage_table(phase) + "\n"]
    return "\n".join(parts)


def _origin(result: Mapping[str, Any]) -> str:
    """When, where and of which commit."""
    source = result["provenance"]
    commit = "unknown" if source["commit"] is None else source["commit"][:8] + (" and more" if source["dirty"] else "")
    hardware = source["hardware"]
    return f"{source['created'][:10]}, commit {commit}, {hardware['cpu']}, {hardware['n_cpus']} cores"


SERVICE_PARTS: Mapping[str, Callable[[], str]] = {
    "load": load,
}
