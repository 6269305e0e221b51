"""Nothing of a hostile current folder is run: every command, and every process that one starts, in a hostile folder.

The folder holds a file for each module of the standard library and of each installed package.  Each writes a mark when
it is imported, and then becomes the module that it stands in front of, so that whatever follows is imported too.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path
from urllib.request import Request, urlopen

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from apply_service import isolation

SCRIPTS = Path(sys.executable).parent
SCRIPT = (str(SCRIPTS / "apply-service"),)
MODULE = (sys.executable, "-m", "apply_service.cli")
BEFORE = "def f():\n    return 1\n\n\ndef g():\n    return 2\n"
AFTER = BEFORE.replace("2", "3")
UPDATE = "# ... existing code ...\ndef g():\n    return 3\n"
PATCH = "--- a/shop.py\n+++ b/shop.py\n@@ -5,2 +5,2 @@\n def g():\n-    return 2\n+    return 3\n"
TRAP = """
import os, sys, _frozen_importlib as importing, _frozen_importlib_external as finding
with open({marks!r}, "a") as file:
    file.write(f"{{os.getpid()}} {{__name__}}\\n")
here = os.path.dirname(os.path.realpath(__file__))
spec = finding.PathFinder.find_spec(__name__, [entry for entry in sys.path if os.path.realpath(entry) != here])
if spec is None:
    raise ModuleNotFoundError(f"No module named {{__name__!r}}", name=__name__)
sys.modules[__name__] = module = importing.module_from_spec(spec)
spec.loader.exec_module(module)
"""

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")


@dataclass
class Trap:
    """A hostile folder, and where its modules write that they were run."""

    folder: Path
    marks: Path
    environment: dict[str, str]

    def run(self, *arguments: str, command: Sequence[str] = SCRIPT) -> str:
        """Run a command in the folder; what it prints."""
        done = subprocess.run(
            [*command, *arguments], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    def marked(self) -> dict[int, set[str]]:
        """The modules that were run, by process."""
        found: dict[int, set[str]] = {}
        for line in self.marks.read_text().splitlines() if self.marks.exists() else ():
            pid, name = line.split()
            found.setdefault(int(pid), set()).add(name)
        return found


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    folder, marks = tmp_path / "project", tmp_path / "marks"
    folder.mkdir()
    names = {name for name in {*sys.stdlib_module_names, *packages_distributions()} if name.isidentifier()}
    for name in names - {
        "__future__",
        "encodings",
        "apply_service",
        "apply_eval",
    }:  # the interpreter begins with `encodings`
        (folder / f"{name}.py").write_text(TRAP.format(marks=str(marks)))
    for name, text in (("shop.py", BEFORE), ("update.txt", UPDATE), ("change.diff", PATCH)):
        (folder / name).write_text(text)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("APPLY_", "PYTHON"))}
    state = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    return Trap(folder, marks, {**kept, **state, "OMP_NUM_THREADS": "1"})


def test_the_trap_springs(trap: Trap) -> None:
    trap.run(command=(sys.executable, "-c", "import json, random, rapidfuzz"))
    [names] = trap.marked().values()
    assert {"json", "random", "rapidfuzz"} <= names


COMMANDS = {
    "help": ["--help"],
    "version": ["--version"],
    "apply": ["apply", "shop.py", "update.txt", "--diff"],
    "in place": ["apply", "shop.py", "update.txt", "--in-place"],
    "model": ["apply", "shop.py", "update.txt", "--strategy", "model", "--json"],
    "patch": ["apply", "--patch", "change.diff"],
    "undo": ["undo", "shop.py"],
    "recover": ["recover"],
    "connect": ["connect", "codex"],
    "key": ["key", "me"],
    "models": ["models"],
    "doctor": ["doctor"],
    "completion": ["completion", "bash"],
    "status": ["status"],
}


def test_no_command_runs_what_lies_in_the_current_folder(trap: Trap) -> None:
    for arguments in COMMANDS.values():
        if arguments[0] == "undo":
            assert (trap.folder / "shop.py").read_text() == AFTER
        if arguments[0] == "status" or arguments[0] == "undo":
            with contextlib.suppress(AssertionError):
                trap.run(*arguments)
        else:
            trap.run(*arguments)
        assert trap.marked() == {}, arguments
    assert (trap.folder / "shop.py").read_text() == BEFORE
    assert "quick" in trap.run("--help", command=[str(SCRIPTS / "apply-eval")])
    assert trap.marked() == {}


@contextlib.contextmanager
def serving(trap: Trap, *words: str, command: Sequence[str] = SCRIPT) -> Iterator[tuple[str, int]]:
    """A server in the hostile folder: its URL and pid.  It is stopped at the end."""
    with subprocess.Popen(
        [*command, *words, "--port", "0"], cwd=trap.folder, env=trap.environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            yield next(line.split()[-1] for line in lines if " on http" in line), process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def edit_by_http(url: str, original: str = BEFORE) -> None:
    body = json.dumps({"original": original, "update": UPDATE, "path": "shop.py"}).encode()
    with urlopen(Request(f"{url}/v1/apply", body, {"Content-Type": "application/json"}), timeout=120) as answer:
        assert json.load(answer)["merged_code"].endswith("def g():\n    return 3\n")


def edit_all(url: str) -> None:
    """Small and large ones, which different processes read."""
    edit_by_http(url)
    edit_by_http(url, "x = 1\n" * 20_000 + BEFORE)


def test_a_server_runs_nothing_of_the_current_folder(trap: Trap) -> None:
    with serving(trap, "serve") as (url, _):
        edit_all(url)
    assert trap.marked() == {}


async def edit_by_mcp(trap: Trap, command: Sequence[str], environment: dict[str, str]) -> None:
    [program, *arguments] = [*command, "mcp"]
    parameters = StdioServerParameters(command=program, args=arguments, env=environment, cwd=str(trap.folder))
    async with Client(stdio_client(parameters)) as client:
        result = await client.call_tool("edit_file", {"path": "shop.py", "code_edit": UPDATE})
    assert not result.is_error, result
    assert (trap.folder / "shop.py").read_text() == AFTER


def test_an_agents_server_runs_nothing_of_the_current_folder(trap: Trap) -> None:
    anyio.run(edit_by_mcp, trap, SCRIPT, trap.environment)
    assert trap.marked() == {}


def test_a_background_server_runs_nothing_of_the_current_folder(trap: Trap) -> None:
    trap.run("start")
    try:
        assert json.loads(trap.run("status", "--json"))["is_ready"]
        trap.run("apply", "shop.py", "update.txt", "--in-place")
        assert (trap.folder / "shop.py").read_text() == AFTER
    finally:
        trap.run("stop")
    assert trap.marked() == {}


# -- what runs before us: the interpreter with the user's own module path ----------------------------------------------
WAYS = {
    "python -m": (MODULE, {}),
    "PYTHONPATH": (SCRIPT, {"PYTHONPATH": "{folder}"}),
    "empty PYTHONPATH": (SCRIPT, {"PYTHONPATH": os.pathsep}),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, trap: Trap) -> tuple[str, ...]:
    command, more = WAYS[request.param]
    trap.environment |= {name: value.format(folder=trap.folder) for name, value in more.items()}
    return command


def test_children_of_a_server_do_not_inherit_the_users_module_path(trap: Trap, way: tuple[str, ...]) -> None:
    with serving(trap, "serve", command=way) as (url, pid):
        edit_all(url)
    assert trap.marked().keys() <= {pid}


def test_children_of_an_agents_server_do_not_either(trap: Trap, way: tuple[str, ...]) -> None:
    anyio.run(edit_by_mcp, trap, way, trap.environment)
    assert len(trap.marked()) <= 1, "the server itself"


def test_a_background_server_does_not_either(trap: Trap, way: tuple[str, ...]) -> None:
    try:
        trap.run("start", command=way)
        trap.marks.unlink(missing_ok=True)
        trap.environment.pop("PYTHONPATH", None)
        pid = json.loads(trap.run("status", "--json"))["pid"]
        trap.run("apply", "shop.py", "update.txt", "--in-place")
    finally:
        trap.run("stop")
    assert pid not in trap.marked()
    assert trap.marked() == {}


# -- names on the module path that are no folders ----------------------------------------------------------------------
BEFORE_US = {"_winapi", "org"}
"""Modules that the standard library looks for and does without, while the command line itself is imported."""
MISSING = BEFORE_US | {"msvcrt", "winreg", "uvloop", "a2wsgi", "orjson", "brotli", "watchfiles"}
START = "import sys; from apply_service.cli import main; sys.exit(main())"


@pytest.fixture
def hooked(trap: Trap, tmp_path: Path) -> tuple[str, ...]:
    """The command line in an environment whose module path has the name of a hook, as setuptools puts there for an
    installation with `-e`; the hostile folder has a folder of that name."""
    venv.create(tmp_path / "venv", symlinks=True)
    [packages] = (tmp_path / "venv").glob("lib/python*/site-packages")
    library = Path(os.__file__).parent
    installed = [entry for entry in sys.path if os.path.isabs(entry) and not library.is_relative_to(entry)]
    lines = [isolation.HOME, *installed, "import sys; sys.path.append('__hook__')"]
    (packages / "those.pth").write_text("\n".join(lines))
    (trap.folder / "__hook__").mkdir()
    for name in MISSING:
        (trap.folder / "__hook__" / f"{name}.py").write_text(TRAP.format(marks=str(trap.marks)))
    return (str(tmp_path / "venv" / "bin" / "python"), "-P", "-c", START)


def test_the_folder_of_a_hook_springs(trap: Trap, hooked: tuple[str, ...]) -> None:
    trap.run(command=(*hooked[:-1], "import org"))
    assert [*trap.marked().values()] == [{"org"}]


def test_no_name_on_the_module_path_is_looked_for_in_the_current_folder(trap: Trap, hooked: tuple[str, ...]) -> None:
    trap.run("apply", "shop.py", "update.txt", "--diff", command=hooked)
    with serving(trap, "serve", command=hooked) as (url, pid):
        edit_all(url)
        children = trap.marked().keys() - {pid}
    anyio.run(edit_by_mcp, trap, hooked, trap.environment)
    assert set().union(*trap.marked().values()) <= BEFORE_US
    assert len(children) == 1, "the first command"


def test_a_background_server_does_not_look_there(trap: Trap, hooked: tuple[str, ...]) -> None:
    try:
        trap.run("start", command=hooked)
        pid = json.loads(trap.run("status", "--json", command=hooked))["pid"]
    finally:
        trap.run("stop", command=hooked)
    assert pid not in trap.marked()


# -- who else uses the package -----------------------------------------------------------------------------------------
LIBRARY = """
    import sys
    from apply_service.build import build_runtime, open_service
    from apply_service.settings import Settings
    from apply_service.types import ApplyRequest

    if __name__ == "__main__":
        settings = Settings()
        with open_service(build_runtime(settings), settings) as service:
            original, update = open("shop.py").read(), open("update.txt").read()
            print(service.apply(ApplyRequest(original, update, path="shop.py")).merged_code, end="")
    else:
        raise AssertionError("the user's program is run a second time")
"""


def test_a_users_own_program_is_not_run_again_by_our_processes(trap: Trap) -> None:
    (trap.folder / "program.py").write_text(textwrap.dedent(LIBRARY))
    with subprocess.Popen(
        [sys.executable, "program.py"], cwd=trap.folder, env=trap.environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read() == AFTER
    assert trap.marked().keys() <= {process.pid}


# -- the parts ---------------------------------------------------------------------------------------------------------
def test_a_program_leaves_the_current_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    other = str(tmp_path / "other")
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), other, f"{other}/.."])
    isolation.leave_current_folder()
    assert sys.path == [other]


def test_a_program_leaves_what_is_named_from_the_current_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    library = os.path.dirname(os.__file__)
    monkeypatch.setattr(sys, "path", ["before", library, "behind"])
    isolation.leave_current_folder()
    assert sys.path == [library]


def test_a_program_that_lies_in_the_current_folder_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(isolation.HOME)
    monkeypatch.setattr(sys, "path", ["", "/elsewhere"])
    isolation.leave_current_folder()
    assert sys.path == ["", "/elsewhere"]


def test_children_find_what_the_installation_added(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As the wrappers of some distributions do."""
    added = tmp_path / "added"
    added.mkdir()
    (added / "only_there.py").write_text("def main(): print('found'); return 0\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(added)])
    command = isolation.python_command("only_there")
    done = subprocess.run(command, env=isolation.clean_environment(), capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "found\n", done.stderr
