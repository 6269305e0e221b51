"""Hostile edits by every way into a real server, while `/healthz` is asked every 20 ms.

    python -m tests.fuzz.hostile [--edits NAME;...] [--ways NAME,...] [--out FILE.json] [-- options of `serve`]
    python -m docs.generate

The result of a whole run is kept in benchmarks/results/hostile.json, and docs/operations.md shows it.

Each edit has a deadline of one second.  It must end in the right answer, where there is one, or in an error with a
code, within the deadline and `MARGIN_S`; `/healthz` must answer within `HEALTH_S` meanwhile.  The exit code says
whether that was so.

Other work on the machine makes answers late as well.  So each wait for `/healthz` is told twice: as it was, and less
the longest time that one thread of the server stood ready while no processor was free, and that of the one who asks
(`held`; Linux).  What is held for too long is a fault.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from multiprocessing.connection import Connection
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from apply_eval.provenance import provenance
from benchmarks.service.server import Server, ready_s, serving

RESULT = Path(__file__).parents[2] / "benchmarks" / "results" / "hostile.json"
DEADLINE_S = 1.0
MARGIN_S = 0.5
"""Reading the body before the deadline begins, and writing the answer after it: 10 MB take a quarter of a second."""
HEALTH_S = 0.05
HEALTH_INTERVAL_S = 0.02
CLIENT_TIMEOUT_S = 120.0
SERVE = ("--default-timeout-s", str(DEADLINE_S))
MCP_HEADERS = {"Accept": "application/json, text/event-stream"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "hostile", "version": "1"},
    },
}
MARK = "# ... existing code ...\n"
FILE = "".join(f"def f{i}(a):\n    b = a + {i}\n    return b\n\n\n" for i in range(20))
ANCHOR = "    b = a + 3\n"
GOOD = {"original": "a = 1\n", "update": "<<<<<<< SEARCH\na = 1\n=======\na = 2\n>>>>>>> REPLACE\n", "path": "good.py"}


class Hostile(NamedTuple):
    """`wanted`: the one right text, where a program must find it."""

    original: str
    update: str
    wanted: str | None = None
    path: str = "f.py"


def rows(n: int, line: str) -> str:
    """So many lines, or groups of them, numbered where `{}` stands."""
    return "".join(line.replace("{}", str(i)) for i in range(n))


def around(middle: str) -> Hostile:
    """A snippet of `FILE` with something odd in it."""
    return Hostile(FILE, f"{MARK}def f3(a):\n{middle}\n    return b\n{MARK}")


def block(old: str, new: str) -> str:
    return f"<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n"


def in_block(original: str) -> Hostile:
    """A plain edit of a file whose text is odd."""
    return Hostile(original + FILE, block(ANCHOR, "    b = 0\n"), original + FILE.replace(ANCHOR, "    b = 0\n"))


def diff(body: str) -> str:
    return "--- a/f.py\n+++ b/f.py\n" + body


def patch(body: str) -> str:
    return f"*** Begin Patch\n*** Update File: f.py\n{body}*** End Patch\n"


def as_json(n: int, old: str) -> str:
    return json.dumps(
        {"edits": [{"old_string": old.replace("{}", str(i)), "new_string": f"y = {i}\n"} for i in range(n)]}
    )


FOR_MODEL = Hostile(FILE, "    c = a\n", path="g.py")
X = "x = {}\n"
EDITS: dict[str, Callable[[], Hostile]] = {
    "named lines of blanks and a brace, 8 KB": lambda: around(("name" + " " * 398 + "{\n") * 20),
    "named lines of blanks and a brace, 2 MB": lambda: around(("name" + " " * 398 + "{\n") * 5000),
    "a long run of dots": lambda: around("# " + "." * 1_000_000),
    "a long run of dots and blanks": lambda: around("# " + ". " * 500_000),
    "a long run of blanks": lambda: around(" " * 1_000_000 + "x"),
    "a long run of brackets": lambda: around("(" * 1_000_000),
    "brackets that close": lambda: around("(" * 250_000 + ")" * 250_000),
    "a long line of words": lambda: around("word " * 1_000_000),
    "combining signs": lambda: around("e" + "\u0301" * 500_000),
    "carriage returns": lambda: around("\r" * 1_000_000),
    "a text that is never closed": lambda: around('    b = """' + "text\n" * 1_000_000),
    "dotted comments, 9.7 MB, in the edit": lambda: around(rows(300_000, "# a.b.c ... and {} more of it ...\n")),
    "dotted comments, 9.7 MB, in the file": lambda: in_block(
        rows(170_000, "# a.b.c ... and {} more of it, and on, and on ...\n")
    ),
    "dotted comments, 9.7 MB, in the file, lazy": lambda: Hostile(
        rows(170_000, "# a.b.c ... and {} more of it, and on, and on ...\n") + FILE, around("    b = 0")[1]
    ),
    "nested 2,000 deep": lambda: around("".join(" " * i + "if x:\n" for i in range(4, 2000))),
    "a file nested 2,000 deep": lambda: in_block(
        "".join(" " * i + "if x:\n" for i in range(2000)) + " " * 2000 + "y\n"
    ),
    "thousands of markers": lambda: around(MARK * 40_000),
    "thousands of markers with lines between": lambda: around((MARK + "    b = 1\n") * 5_000),
    "every other line of the file": lambda: Hostile(
        rows(10_000, X), "".join(f"x = {2 * i}\n{MARK}" for i in range(5_000))
    ),
    "heads of blocks without end": lambda: Hostile(FILE, "<<<<<<< SEARCH\nx\n" * 60_000),
    "indented heads of blocks": lambda: Hostile(FILE, "   <<<<<<< SEARCH\n   x\n   =======\n" * 30_000),
    "dividers of blocks": lambda: Hostile(FILE, "<<<<<<< SEARCH\n" + "=======\n" * 60_000),
    "5,000 blocks": lambda: Hostile(rows(5_000, X), rows(5_000, block(X, "y = {}\n")), rows(5_000, "y = {}\n")),
    "5,000 blocks that are not found": lambda: Hostile(rows(5_000, X), rows(5_000, block("z == {}\n", "y\n"))),
    "a long block, misquoted": lambda: Hostile(rows(20_000, X), block(rows(20_000, "x ={}\n") + "what\n", "y\n")),
    "blocks in a chain": lambda: Hostile("a0\n", "".join(block(f"a{i}\n", f"a{i + 1}\n") for i in range(5_000))),
    "20,000 hunks of one line": lambda: Hostile(
        rows(20_000, X),
        diff("".join(f"@@ -{i + 1} +{i + 1} @@\n-x = {i}\n+y = {i}\n" for i in range(20_000))),
        rows(20_000, "y = {}\n"),
    ),
    "20,000 equal hunks without numbers": lambda: Hostile("x\n" * 20_000, diff("@@ @@\n-x\n+y\n" * 20_000)),
    "5,000 hunks that are not found": lambda: Hostile(rows(5_000, X), diff(rows(5_000, "@@ @@\n-z = {}\n+y = {}\n"))),
    "a diff of 10,000 files": lambda: Hostile(
        FILE, rows(10_000, "diff --git a/{} b/{}\n--- a/{}\n+++ b/{}\n@@ -1 +1 @@\n-x\n+y\n")
    ),
    "a heading of blanks": lambda: Hostile(FILE, diff(f"@@ -1 +1 @@{' ' * 1_000_000}x\n-def f0(a):\n+y\n")),
    "a patch of 5,000 hunks": lambda: Hostile(rows(5_000, X), patch(rows(5_000, "@@\n-x = {}\n+y = {}\n"))),
    "a patch of 20,000 files": lambda: Hostile(
        FILE, "*** Begin Patch\n" + rows(20_000, "*** Add File: {}\n+x\n") + "*** End Patch\n"
    ),
    "patches that only begin": lambda: Hostile(FILE, "*** Begin Patch\n" * 60_000),
    "JSON with a million arrays": lambda: Hostile(FILE, '{"old_string": ' + "[" * 1_000_000),
    "JSON with 10,000 edits": lambda: Hostile(rows(10_000, X), as_json(10_000, X)),
    "JSON with 5,000 edits": lambda: Hostile(rows(5_000, X), as_json(5_000, X)),
    "JSON with 5,000 edits that are not found": lambda: Hostile(rows(5_000, X), as_json(5_000, "z == {}\n")),
    "JSON of backslashes": lambda: Hostile(FILE, as_json(1, "\\" * 1_000_000)),
    "JSON objects alone": lambda: Hostile(FILE, '{"old_string": "x"}\n' * 50_000),
    "one line of 5 MB, lazy": lambda: Hostile("x" * 5_000_000, f"{MARK}y = 1\n{MARK}"),
    "one line of 5 MB with a line quoted": lambda: Hostile("x" * 5_000_000 + "\n" + FILE, around("    b = 0")[1]),
    "20,000 equal lines, lazy": lambda: Hostile("x = 1\n" * 20_000, f"{MARK}x = 1\ny = 2\nx = 1\n{MARK}"),
    "20,000 equal lines, in both": lambda: Hostile("x = 1\n" * 20_000, "x = 1\n" * 20_000 + "y = 2\n" + MARK),
    "20,000 equal lines, a block": lambda: Hostile("x\n" * 20_000, block("x\n" * 10_000 + "y\n", "z\n")),
    "20,000 lines, nearly the file": lambda: Hostile(rows(20_000, X), rows(20_000, X).replace("0\n", "00\n")),
    "20,000 lines, reversed": lambda: Hostile(
        rows(20_000, X), MARK + "".join(reversed(rows(20_000, X).splitlines(keepends=True)))
    ),
    "5,000 notes of removal": lambda: Hostile(rows(5_000, "def f{}(): pass\n"), rows(5_000, "# removed f{}\n" + MARK)),
    "5,000 notes of places": lambda: Hostile(rows(5_000, X), rows(5_000, "# add after x = {}\ny = {}\n")),
    "words lost": lambda: Hostile(
        rows(5_000, "# say the quick brown fox jumps over {}\n"), rows(5_000, "# say the brown fox jumps over {}0\nx\n")
    ),
    "50,000 fences": lambda: around("```\n" * 50_000),
    "tags of a chat": lambda: around("</code>\n<code>\n" * 50_000 + "</code>" + " " * 500_000 + "x"),
    "prose, 10 MB": lambda: Hostile(FILE, "And so it goes on for ever and ever. " * 270_000),
}


# -- ways in -----------------------------------------------------------------------------------------------------------
def as_native(edit: Hostile) -> tuple[str, dict[str, Any]]:
    original, update, _, path = edit
    return "/v1/apply", {"original": original, "update": update, "path": path, "timeout_s": DEADLINE_S}


def as_stream(edit: Hostile) -> tuple[str, dict[str, Any]]:
    return "/v1/apply", {**as_native(edit)[1], "stream": True}


def as_batch(edit: Hostile) -> tuple[str, dict[str, Any]]:
    return "/v1/apply/batch", {"mode": "independent", "edits": [as_native(edit)[1], GOOD]}


def as_patch(edit: Hostile) -> tuple[str, dict[str, Any]]:
    return "/v1/apply/batch", {"patch": edit.update, "files": [{"path": edit.path, "original": edit.original}]}


def as_code_apply(edit: Hostile) -> tuple[str, dict[str, Any]]:
    options = {"timeout_s": DEADLINE_S, "path": edit.path}
    return "/v1/code/apply", {"initial_code": edit.original, "edit_snippet": edit.update, "apply_service": options}


def as_tags(edit: Hostile) -> tuple[str, dict[str, Any]]:
    text = f"<code>{edit.original}</code>\n<update>{edit.update}</update>"
    options = {"timeout_s": DEADLINE_S, "path": edit.path}
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": text}], "apply_service": options}


def as_prediction(edit: Hostile) -> tuple[str, dict[str, Any]]:
    return "/v1/chat/completions", {
        "messages": [{"role": "user", "content": edit.update}],
        "prediction": {"type": "content", "content": edit.original},
        "apply_service": {"timeout_s": DEADLINE_S, "path": edit.path},
    }


def as_tool_call(edit: Hostile) -> tuple[str, dict[str, Any]]:
    """The file must lie in the server's folder."""
    arguments = {"path": edit.path, "code_edit": edit.update, "dryRun": True}
    call = {"name": "edit_file", "arguments": arguments}
    return "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}


MCP = "mcp"
WAYS: dict[str, Callable[[Hostile], tuple[str, dict[str, Any]]]] = {
    "native": as_native,
    "stream": as_stream,
    "batch": as_batch,
    "patch": as_patch,
    "code_apply": as_code_apply,
    "tags": as_tags,
    "prediction": as_prediction,
    MCP: as_tool_call,
}


class Ended(NamedTuple):
    """How a request ended.  `code`: the error's; empty of an answer.  `merged`: None where the way does not tell."""

    status: int
    code: str
    merged: str | None


def read_end(way: str, status: int, body: bytes) -> Ended:
    """Raises ValueError, LookupError, TypeError for what is neither an answer nor a typed error."""
    text = body.decode()
    if way == "stream" and status == 200:
        text = text.rstrip().rsplit("\ndata: ", 1)[1]
    if way == MCP and text.startswith(("event:", "data:")):
        text = text.rstrip().rsplit("data: ", 1)[1]
    answer = json.loads(text)
    if way == MCP and "result" in answer:
        result = answer["result"]
        text = str(result["content"][0]["text"])
        if not result.get("isError"):
            return Ended(status, "", None)
        return Ended(status, text.partition("[")[2].partition("]")[0] or "refused", None)
    if way in ("batch", "patch") and status == 200:
        item = answer["items"][0]
        if item["error"] is not None or item["answer"] is None:
            return Ended(status, item["error"]["code"] if item["error"] else "verdict", None)
        return Ended(status, "", item["answer"]["merged_code"])
    if "error" in answer:
        error = answer["error"]
        return Ended(status, str(error["code"] if isinstance(error, dict) else answer["code"]), None)
    if way in ("tags", "prediction"):
        return Ended(status, "", answer["choices"][0]["message"]["content"])
    return Ended(status, "", answer["merged_code"])


class Wait(NamedTuple):
    """Seconds of one answer of `/healthz`."""

    seconds: float
    held_s: float
    """Less the waits for a processor."""


def fault(ended: Ended, seconds: float, worst_health_s: float, wanted: str | None) -> str:
    """What must not have happened; empty where all is well."""
    if ended.code in ("engine_failure", "internal_error") or (ended.status != 504 and not 200 <= ended.status < 500):
        return f"failed: {ended.status} {ended.code}"
    if wanted is not None and ended.merged not in (None, wanted):
        return "a wrong answer"
    if seconds > DEADLINE_S + MARGIN_S:
        return f"late: {seconds:.2f} s"
    return f"/healthz waited {1000 * worst_health_s:.0f} ms" if worst_health_s > HEALTH_S else ""


# -- run ---------------------------------------------------------------------------------------------------------------
def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edits", help="names, or beginnings of names, separated by semicolons; default: all")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--out", type=Path, help=f"default: {RESULT.name} in benchmarks/results for a whole run")
    parser.add_argument("serve", nargs="*", metavar="-- OPTION", help="options of `apply-service serve`")
    options = parser.parse_args()
    wanted = tuple(options.edits.split(";")) if options.edits else ("",)
    edits = {name: make for name, make in EDITS.items() if name.startswith(wanted)}
    found: list[dict[str, Any]] = []
    ways = options.ways.split(",")
    is_whole = len(edits) == len(EDITS) and set(ways) == set(WAYS)
    out = options.out or (RESULT if is_whole else None)
    if http_ways := [way for way in ways if way != MCP]:
        with serving([*SERVE, *options.serve]) as server:
            found += run(server, edits, http_ways)
    if MCP in ways:
        with tempfile.TemporaryDirectory() as folder, serving_mcp(Path(folder)) as server:
            found += run(server, edits, [MCP], Path(folder))
    waits: list[Wait] = [wait for one in found for wait in one.pop("health")]
    summary = {
        "kind": "hostile",
        "schema_version": 1,
        "provenance": provenance([]),
        "requests": len(found),
        "edits": len(edits),
        "ended": dict(sorted(Counter(one["ended"] for one in found).items())),
        "longest_s": max(one["seconds"] for one in found),
        "healthz_ms": told([wait.seconds for wait in waits]),
        "held_ms": told([wait.held_s for wait in waits]),
        "faults": sum(bool(one["fault"]) for one in found),
    }
    print(json.dumps(summary))
    if out is not None:
        rows = ",\n".join(json.dumps(one) for one in found)
        out.write_text(f'{json.dumps(summary)[:-1]}, "found": [\n{rows}\n]}}\n', encoding="utf-8")
    return 1 if summary["faults"] else 0


def told(seconds: Sequence[float]) -> dict[str, float]:
    """Percentiles in milliseconds, how many there are, and how many over `HEALTH_S`."""
    ordered = sorted(seconds)
    shown = {f"p{p}": round(1000 * ordered[len(ordered) * p // 100], 1) for p in (50, 90, 99)}
    worst = {"max": round(1000 * ordered[-1], 1), "n": len(ordered), "over": sum(s > HEALTH_S for s in ordered)}
    return shown | worst


def run(
    server: Server, edits: Mapping[str, Callable[[], Hostile]], ways: Sequence[str], folder: Path | None = None
) -> Iterator[dict[str, Any]]:
    """Send each edit by each way, one after the other, and print what became of it.  `folder`: MCP's."""
    url = server.url
    if folder is None:
        send(url, "/v1/apply", GOOD)
    else:
        (folder / FOR_MODEL.path).write_text(FOR_MODEL.original)
    headers = {} if folder is None else begin_session(url)
    with polled(server) as take:
        for name, make in edits.items():
            edit = make()
            n_chars = len(edit.original) + len(edit.update)
            if folder is not None:
                (folder / edit.path).write_bytes(edit.original.encode())
            for way in ways:
                path, body = WAYS[way](edit)
                take()
                seconds, status, answer = send(url, path, body, headers)
                health = take()
                try:
                    ended = read_end(way, status, answer)
                    wrong = fault(ended, seconds, max(wait.held_s for wait in health), edit.wanted)
                except (ValueError, LookupError, TypeError):
                    ended, wrong = Ended(status, "unreadable", None), f"no typed answer: {status} {answer[:200]!r}"
                end = f"{ended.status} {ended.code or 'answered'}"
                waited = " ".join(f"{1000 * max(column):5.0f}" for column in zip(*health, strict=True))
                print(f"{way:10} {name:45} {n_chars:9} {seconds:6.2f} s {waited} ms  {end:28} {wrong}", flush=True)
                yield {
                    "way": way,
                    "edit": name,
                    "n_chars": n_chars,
                    "seconds": round(seconds, 3),
                    "ended": end,
                    "fault": wrong,
                    "health": health,
                }


def send(
    url: str, path: str, body: Mapping[str, Any], headers: Mapping[str, str] = MappingProxyType({})
) -> tuple[float, int, bytes]:
    """Seconds, status and body; status 0 where the connection breaks."""
    content = json.dumps(body).encode()
    parts = urlsplit(url)
    http = HTTPConnection(parts.hostname or "", parts.port, timeout=CLIENT_TIMEOUT_S)
    began = time.monotonic()
    try:
        http.request("POST", path, content, {"Content-Type": "application/json", **headers})
        answer = http.getresponse()
        content = answer.read()
        return time.monotonic() - began, answer.status, content
    except (OSError, HTTPException) as error:
        return time.monotonic() - began, 0, repr(error).encode()
    finally:
        http.close()


def begin_session(url: str) -> dict[str, str]:
    """The headers of requests in a new session of MCP, once its model is loaded: until then imports hold the loop."""
    parts = urlsplit(url)
    http = HTTPConnection(parts.hostname or "", parts.port, timeout=CLIENT_TIMEOUT_S)
    http.request("POST", "/mcp", json.dumps(HELLO), {"Content-Type": "application/json", **MCP_HEADERS})
    session = http.getresponse().headers["Mcp-Session-Id"]
    http.close()
    headers = {**MCP_HEADERS, "Mcp-Session-Id": session}
    send(url, "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
    while b"deadline_exceeded" in send(url, *as_tool_call(FOR_MODEL), headers)[2]:
        time.sleep(0.2)
    return headers


@contextmanager
def polled(server: Server) -> Iterator[Callable[[], list[Wait]]]:
    """Asks `/healthz` all the time, from a process of its own, as this one is busy with large bodies.  Gives a function
    for the waits since it was last called."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    poller = context.Process(target=poll, args=(server, there), daemon=True)
    poller.start()

    def take() -> list[Wait]:
        here.send("take")
        found: list[Wait] = here.recv()
        return found

    try:
        yield take
    finally:
        here.send("stop")
        poller.join()


def poll(server: Server, line: Connection[Any, Any]) -> None:
    """What `polled` has done: over one connection, until it is told to stop."""
    parts = urlsplit(server.url)
    http = HTTPConnection(parts.hostname or "", parts.port, timeout=CLIENT_TIMEOUT_S)
    found: list[Wait] = []
    while True:
        before = ready_s(server.pid), ready_s(os.getpid())
        began = time.monotonic()
        http.request("GET", "/healthz")
        http.getresponse().read()
        seconds = time.monotonic() - began
        after = ready_s(server.pid), ready_s(os.getpid())
        waited_s = sum(
            max((new[one] - old.get(one, 0) for one in new), default=0) for old, new in zip(before, after, strict=True)
        )
        found.append(Wait(seconds, max(0.0, seconds - waited_s)))
        if line.poll(HEALTH_INTERVAL_S):
            if line.recv() == "stop":
                return
            line.send(found)
            found = []


@contextmanager
def serving_mcp(folder: Path) -> Iterator[Server]:
    """`apply-service mcp` over HTTP, which answers 404 where the service has its `/healthz`."""
    command = [sys.executable, "-m", "apply_service.cli", "mcp", "--listen", "127.0.0.1:0", "--root", str(folder)]
    environment = {**os.environ, "APPLY_SERVICE_DEFAULT_TIMEOUT_S": str(DEADLINE_S)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            said = process.stderr.readline()
            if not said.startswith("Serving "):
                raise RuntimeError(said + process.stderr.read())
            yield Server(said.split()[-1].removesuffix("/mcp"), process.pid)
        finally:
            process.terminate()
            print(process.stderr.read(), file=sys.stderr)
            process.wait(60)


if __name__ == "__main__":
    sys.exit(main())
