"""`kill -9` while files are written: each is wholly old or wholly new, and a batch as a whole is one or the other.

A small process that has everything imported, because it has done it all once, forks a child for each command: the kills
fall into the work and not into the start of Python.  They come at any moment, and, one after the other, before each
operation that changes the disk (files opened to be written, renamed, linked, removed; folders).
"""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.seeds import draw_seed

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")

NAMES = [f"src/f{i}.py" for i in range(8)]
N_LINES = 60
WRITING_S = 0.03
"""About as long as it takes to write a batch's files."""

FORKER = """
    import json, os, signal, sys
    from apply_service.cli import main

    def count(event, values):
        global n_steps
        if event in CHANGES or (event == "open" and values[2] & (os.O_WRONLY | os.O_RDWR)):
            n_steps += 1
            if n_steps == fatal:
                os.kill(os.getpid(), signal.SIGKILL)

    CHANGES = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir"}
    for arguments in json.loads(sys.argv[1]):
        assert main(arguments) == 0
    print("ready", flush=True)
    for line in sys.stdin:
        arguments, fatal = json.loads(line)
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null, number)
            n_steps = 0
            sys.addaudithook(count)
            code = main(arguments)
            os.write(tell, str(n_steps).encode())
            os._exit(code)
        print(child, flush=True)
        os.close(tell)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(code, os.read(told, 20).decode() or 0, flush=True)
        os.close(told)
"""
NEVER = -1


def project(version: int) -> dict[str, bytes]:
    """All files of a version.  Between two, every file changes, one comes, one goes, and one moves."""
    files = {name: f"{name} = {version}\n".encode() * N_LINES for name in NAMES}
    files["even.txt" if version % 2 == 0 else "new/folder/odd.txt"] = b"one of both\n"
    files["here.txt" if version % 2 == 0 else "moved/there.txt"] = b"moves\n"
    return files


def patch(version: int) -> str:
    """From `version` to the next."""
    parts = []
    for name in NAMES:
        old, new = f"{name} = {version}\n", f"{name} = {version + 1}\n"
        lines = f"-{old}" * N_LINES + f"+{new}" * N_LINES
        parts.append(f"--- a/{name}\n+++ b/{name}\n@@ -1,{N_LINES} +1,{N_LINES} @@\n{lines}")
    even, odd, here, there = "even.txt", "new/folder/odd.txt", "here.txt", "moved/there.txt"
    if version % 2:
        even, odd, here, there = odd, even, there, here
    parts.append(f"--- a/{even}\n+++ /dev/null\n@@ -1 +0,0 @@\n-one of both\n")
    parts.append(f"--- /dev/null\n+++ b/{odd}\n@@ -0,0 +1 @@\n+one of both\n")
    parts.append(f"diff --git a/{here} b/{there}\nsimilarity index 100%\nrename from {here}\nrename to {there}\n")
    return "".join(parts)


def batch(version: int) -> str:
    """The files that only change, as edits."""
    edits = [{"path": name, "update": f"{name} = {version + 1}\n" * N_LINES, "format": "whole_file"} for name in NAMES]
    return json.dumps({"edits": edits})


@dataclass
class Machine:
    """A project on disk, and commands that are killed."""

    root: Path
    process: "subprocess.Popen[str]"
    rng: random.Random
    n_hit: int = 0
    """Kills that left a batch half written."""
    n_dead: int = 0
    """Commands that were killed before they had ended."""
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each command takes unkilled, by its first argument."""
    steps: dict[str, int] = field(default_factory=dict)
    """How often it changes the disk."""

    def run(self, *arguments: str) -> int:
        started = time.perf_counter()
        self._start(arguments)
        code, self.steps[arguments[1]] = self._end()
        self.seconds[arguments[1]] = time.perf_counter() - started
        return code

    def kill_before(self, step: int, *arguments: str) -> None:
        """Run the command, which ends before the `step`-th time (from 1) that it changes the disk."""
        self._start(arguments, fatal=step)
        assert self._end()[0] == -signal.SIGKILL

    def kill(self, *arguments: str) -> None:
        """Run the command and kill it, at any moment or at any moment after the journal was opened."""
        seconds = self.seconds[arguments[1]]
        child = self._start(arguments)
        if self.rng.random() < 0.6 and "--in-place" in arguments:
            self._await_note(2 * seconds)
            seconds = WRITING_S
        time.sleep(self.rng.random() * seconds)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        self.n_dead += self._end()[0] == -signal.SIGKILL
        self.n_hit += bool(self.notes())

    @property
    def notes_folder(self) -> Path:
        return self.root.parent / "state" / "apply-service" / "journal"

    def notes(self) -> list[Path]:
        return list(self.notes_folder.glob("*.json"))

    def _await_note(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        while not self.notes() and time.perf_counter() < end:
            time.sleep(0.0001)

    def _start(self, arguments: tuple[str, ...], *, fatal: int = NEVER) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([arguments, fatal]) + "\n")
        self.process.stdin.flush()
        return int(self._line())

    def _end(self) -> tuple[int, int]:
        """The exit code, and how often the command changed the disk; 0 where it was killed."""
        code, n_steps = self._line().split()
        return int(code), int(n_steps)

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def tree(self, *, with_litter: bool = True) -> dict[str, bytes]:
        paths = (path for path in self.root.rglob("*") if path.is_file())
        found = {str(path.relative_to(self.root)): path.read_bytes() for path in paths}
        return found if with_litter else {name: data for name, data in found.items() if ".apply-tmp" not in name}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A project of version 0, and commands that have been run once elsewhere."""
    seed = draw_seed()
    for name in ("work", "warm"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, 0)
    (tmp_path / "patch").write_text(patch(0))
    (tmp_path / "batch").write_text(batch(0))
    (tmp_path / "update").write_text("x = 1\n" * N_LINES)
    options = ["--in-place", "--root", str(tmp_path / "warm"), "--state-dir", str(tmp_path / "warm-state")]
    warm = [
        ["apply", "--batch", "../batch", *options],
        ["apply", "../warm/a.py", "--update", "../update", "--format", "whole_file", "--in-place", *options[3:]],
        ["undo", "../warm/a.py", *options[3:]],
        ["recover", "--json", *options[3:]],
    ]
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(FORKER), json.dumps(warm)],
        cwd=tmp_path / "work",
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline() not in ("ready\n", ""):
            pass
        yield Machine(tmp_path / "work", process, random.Random(seed))


def write(root: Path, version: int) -> None:
    for name, data in project(version).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


rounds = pytest.mark.parametrize("n_rounds", [10, pytest.param(200, marks=pytest.mark.slow)])


def assert_whole(found: dict[str, bytes], version: int) -> None:
    """Every file is wholly as in this version or as in the next."""
    old, new = project(version), project(version + 1)
    for name, data in found.items():
        assert data in (old.get(name), new.get(name)), name
    for name in NAMES:
        assert name in found


@rounds
def test_a_batch_is_written_or_not(machine: Machine, n_rounds: int) -> None:
    edit = str(machine.root.parent / "edit")
    machine.run("recover", "--json")
    for version, kind in ((0, "--patch"), (1, "--patch"), (2, "--batch")):  # how long they take unkilled
        Path(edit).write_text(patch(version) if kind == "--patch" else batch(version))
        assert machine.run("apply", kind, edit, "--in-place") == 0
    version = 2
    write(machine.root, version)
    for _ in range(n_rounds):
        version = one_round(machine, edit, version)
    print(f"{machine.n_dead} killed, {machine.n_hit} of them while files were written")
    assert machine.n_dead >= n_rounds // 10
    assert machine.n_hit >= n_rounds // 20, "few rounds may miss the moments in which files are written"


def one_round(machine: Machine, edit: str, version: int) -> int:
    """Kill a batch, recover (perhaps killed too), and see what is there; the version that then stands."""
    kind = machine.rng.choice(("--patch", "--patch", "--batch"))
    Path(edit).write_text(patch(version) if kind == "--patch" else batch(version))
    machine.kill("apply", kind, edit, "--in-place")
    assert_whole(machine.tree(with_litter=False), version)
    while machine.rng.random() < 0.3:
        machine.kill("recover", "--json")
        assert_whole(machine.tree(with_litter=False), version)
    assert machine.run("recover", "--json") == 0
    after = project(version + 1)
    if kind == "--batch":
        after = project(version) | {name: after[name] for name in NAMES}
    found = machine.tree()
    assert found in (project(version), after)
    if found == project(version):
        assert machine.run("apply", kind, edit, "--in-place") == 0
        assert machine.tree() == after
    if kind == "--patch":
        return version + 1
    write(machine.root, version)
    return version


def test_a_batch_that_ends_before_any_of_its_steps_is_taken_back(machine: Machine) -> None:
    edit = machine.root.parent / "edit"
    edit.write_text(patch(0))
    command = ("apply", "--patch", str(edit), "--in-place")
    for _ in range(2):  # the first time the folders of state are made, too
        reset(machine)
        assert machine.run(*command) == 0
    assert machine.tree() == project(1)
    n_steps = machine.steps["--patch"]
    assert n_steps > 2 * len(NAMES), "each file is opened and put into its place"
    for step in range(1, n_steps + 1):
        reset(machine)
        machine.kill_before(step, *command)
        assert_whole(machine.tree(with_litter=False), 0)
        assert machine.run("recover", "--json") == 0
        assert not machine.notes()
        assert machine.tree() == project(0), f"step {step} of {n_steps}"


def reset(machine: Machine) -> None:
    """Version 0, and no old backups, which an edit would remove at its end."""
    shutil.rmtree(machine.notes_folder.parent / "backups", ignore_errors=True)
    for path in machine.root.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    write(machine.root, 0)


@rounds
def test_one_file_in_place(machine: Machine, n_rounds: int) -> None:
    path, update = machine.root / "a.py", machine.root.parent / "update"
    command = ("apply", "a.py", "--update", str(update), "--format", "whole_file", "--in-place")
    path.write_bytes(text_of(0))
    update.write_bytes(text_of(1))
    assert machine.run(*command) == 0
    assert machine.run("undo", "a.py") == 0
    version = 0
    for _ in range(n_rounds):
        update.write_bytes(text_of(version + 1))
        machine.kill(*(command if machine.rng.random() < 0.8 else ("undo", "a.py")))
        found = [number for number in (version - 1, version, version + 1) if path.read_bytes() == text_of(number)]
        assert found, "the file is neither old nor new"
        version = found[0]
    print(f"{machine.n_dead} killed")
    assert machine.n_dead >= n_rounds // 10


def text_of(version: int) -> bytes:
    return f"x = {version}\n".encode() * 2000
