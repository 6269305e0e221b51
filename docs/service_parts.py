"""The generated parts of `operations.md` and `clients.md`: what the measurements of the service found last."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.service.load import latency_table, stage_table
from docs.tables import table


def load() -> str:
    """All phases of the load."""
    return _shown(report.RESULTS / "load.json", load_text)


def hostile() -> str:
    """The edits made to be slow."""
    return _shown(report.RESULTS / "hostile.json", hostile_text)


def real_clients() -> str:
    """The vendors' own clients."""
    return _shown(report.RESULTS / "real-clients.json", clients_text)


def _shown(path: Path, render: Callable[[Mapping[str, Any]], str]) -> str:
    if not path.is_file():
        return "Not measured yet.\n"
    return render(json.loads(path.read_text(encoding="utf-8")))


def load_text(result: Mapping[str, Any]) -> str:
    """A result of `benchmarks.service.load`."""
    kept = "every promise was kept" if not result["broken"] else "broken: " + "; ".join(result["broken"])
    head = f"{result['clients']} clients, {result['minutes']:g} minutes, {_origin(result)}: {kept}.\n"
    return "\n".join([head, *(_phase(name, phase) for name, phase in result["phases"].items())])


def hostile_text(result: Mapping[str, Any]) -> str:
    """A result of `tests.fuzz.hostile`."""
    waits = (("as it was", result["healthz_ms"]), ("less the waits for a processor", result["held_ms"]))
    faults = [one for one in result["found"] if one["fault"]]
    lines = [
        f"{result['requests']} requests with {result['edits']} edits, {_origin(result)}: "
        f"{len(faults) or 'no'} faults, the longest request {result['longest_s']:g} s.\n",
        "How they ended: " + ", ".join(f"`{ending}` {n}" for ending, n in result["ended"].items()) + ".\n",
        table(
            ("`/healthz` meanwhile", "n", "p50 ms", "p90 ms", "p99 ms", "max ms", "over 50 ms"),
            [(name, *(str(found[key]) for key in ("n", "p50", "p90", "p99", "max", "over"))) for name, found in waits],
        ),
    ]
    if faults:
        lines.append(table(("edit", "way", "fault"), [(one["edit"], one["way"], one["fault"]) for one in faults]))
    return "\n".join(lines)


def clients_text(result: Mapping[str, Any]) -> str:
    """A result of `tests.real_clients.run`."""
    n, sizes = len(result["edits"]), result["edits"].values()
    network = "loopback as the only network" if result["is_isolated"] else "the machine's own network"
    head = f"{n} edits of files of {min(sizes):,} to {max(sizes):,} characters, {network}, {_origin(result)}.\n"
    rows = []
    for name, found in result["clients"].items():
        refused = [f"{edit}: {why}" for edit, why in found["refused"].items()]
        wrong = [f"**wrong**: {edit}" for edit in found["wrong"]]
        told = ", ".join(f"{probe} `{error}`" for probe, error in found["errors"].items())
        rows.append((name, found["version"], f"{found['right']} of {n}", "; ".join((*wrong, *refused)) or "-", told))
    return head + "\n" + table(("client", "version", "right", "what is not, and why", "what it raises"), rows)


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
    "real-clients": real_clients,
    "load": load,
    "hostile": hostile,
}
