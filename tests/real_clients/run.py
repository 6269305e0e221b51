"""Every client asks a live server for every edit; what comes back is compared with what is right.

    python -m tests.real_clients.run [--env FOLDER] [--out FILE.json]
    python -m docs.generate

`make test-real-clients` installs the packages into `--env` and runs this.  Some of them report to their vendors, so all
runs where loopback is the only network, as far as the machine allows it.  The server has the embedded model and a file
of keys.  The exit code is 1 if an answer is wrong, if a bad request was answered, or if the server is not idle at the
end.  docs/clients.md shows the result.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from apply_eval.provenance import provenance
from apply_service.api.keys import format_entry
from benchmarks.service.server import serving
from tests.real_clients.edits import all_edits, slow_edit

FOLDER = Path(__file__).parent
RESULT = FOLDER.parents[1] / "benchmarks" / "results" / "real-clients.json"
KEY = "sk-" + "0123456789abcdef" * 3
ISOLATED = "REAL_CLIENTS_ISOLATED"
TIMEOUT_S = 1800
STATUSES = {"wrong key": 401, "unknown model": 404, "no edit": 400, "cancelled": None}
"""What must not be answered, and the status of the client's error where it tells one; None: any."""

GOES_ON = frozenset({"@morphllm/morphmcp"})
"""Clients that do not pass on that a call was given up, so the server cannot know."""


def isolate() -> bool:
    """Start this program again where loopback is the only network; whether it already is there."""
    if ISOLATED in os.environ:
        return True
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode == 0:
        script = 'ip link set lo up && exec "$@"'
        again = [sys.executable, "-m", "tests.real_clients.run", *sys.argv[1:]]
        os.execvpe("unshare", ["unshare", "--net", "sh", "-c", script, "sh", *again], os.environ | {ISOLATED: "1"})
    print("no network of its own (unshare --net): the clients may reach their vendors", file=sys.stderr)
    return False


def said(command: list[str], job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What the program says of each request."""
    done = subprocess.run(
        command, input=json.dumps(job), stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[-1]} ended with code {done.returncode}")
    yield from map(json.loads, done.stdout.splitlines())


def judge(answers: list[dict[str, Any]], merged: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, Any]:
    """The counts of one client: edits that are right, refused (with the error) and wrong; and the errors it raised."""
    client = answers[0]["client"]
    found: dict[str, Any] = {"version": versions[package(client)], "right": 0, "refused": {}, "wrong": [], "errors": {}}
    for answer in answers:
        name, error = answer["edit"], answer.get("error")
        told = None if error is None else f"{error} {answer['status'] or ''}".strip()
        if name in STATUSES:
            is_right = error is not None and (STATUSES[name] is None or answer["status"] in (None, STATUSES[name]))
            goes_on = "" if answer.get("is_freed", True) else ", the edit goes on"
            is_right = is_right and (not goes_on or client in GOES_ON)
            found["errors"][name] = f"{told}{goes_on}" if is_right else f"WRONG: {told or 'answered'}{goes_on}"
        elif error is not None:
            found["refused"][name] = f"{told}: {answer['message'][:300]}"
        elif answer["text"] == merged[name]:
            found["right"] += 1
        else:
            found["wrong"].append(name)
    return found


def package(client: str) -> str:
    """`openai (npm)` of `openai (npm) stream`."""
    name, where, *_ = (*client.split(), "")
    return f"{name} {where}" if where.startswith("(") else name


def installed(npm: Path) -> dict[str, str]:
    """The pinned versions.  Raises RuntimeError: another one is installed."""
    node = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))["dependencies"]
    for name, version in node.items():
        at = json.loads((npm / "node_modules" / name / "package.json").read_text(encoding="utf-8"))["version"]
        if at != version:
            raise RuntimeError(f"{name} {at} is installed, not {version}")
    lines = (FOLDER / "requirements.txt").read_text(encoding="utf-8").split()
    python = {name: version for name, _, version in (line.partition("==") for line in lines)}
    both = {**node, **python}
    return both | {f"{name} (npm)": v for name, v in node.items()} | {f"{name} (PyPI)": v for name, v in python.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", type=Path, default=Path(".venv-clients"), help="the packages' own environment")
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    is_isolated = isolate()
    npm = arguments.env.resolve()
    edits = [edit._asdict() for edit in all_edits(npm / "node_modules")]
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys.toml"
        keys.write_text(format_entry("clients", KEY), encoding="utf-8")
        (Path(folder) / "work").mkdir()
        # A guess is the one edit that takes long enough to be given up: here the model decides it.
        with serving(["--keys-file", str(keys), "--decides", "guess"]) as server:
            job: dict[str, Any] = {
                "url": server.url,
                "key": KEY,
                "folder": f"{folder}/work",
                "npm": str(npm),
                "edits": edits,
            }
            job["slow"] = slow_edit()._asdict()
            job["service"] = [sys.executable, "-m", "apply_service.cli"]
            answers = [*said(["node", str(FOLDER / "clients.mjs")], job)]
            answers += said([str(npm / "bin" / "python"), str(FOLDER / "clients.py")], job)
            with urlopen(f"{server.url}/readyz", timeout=10) as response:
                ready = json.load(response)
    merged, versions = {edit["name"]: edit["merged"] for edit in edits}, installed(npm)
    of_client: dict[str, list[dict[str, Any]]] = {}
    for answer in answers:
        of_client.setdefault(answer["client"], []).append(answer)
    clients = {name: judge(of_client[name], merged, versions) for name in of_client}
    result = {
        "provenance": provenance([]),
        "is_isolated": is_isolated,
        "edits": {edit["name"]: len(edit["original"]) for edit in edits},
        "clients": clients,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    is_idle = ready["n_active"] == ready["queue_length"] == 0
    for name, found in clients.items():
        counts = f"{found['right']:3} right, {len(found['refused'])} refused, wrong: {found['wrong']}"
        print(f"{name:45} {counts} {found['errors']}")
    wrong = [edit for found in clients.values() for edit in found["wrong"]]
    answered = [error for found in clients.values() for error in found["errors"].values() if error.startswith("WRONG")]
    return 0 if is_idle and not wrong and not answered else 1


if __name__ == "__main__":
    sys.exit(main())
