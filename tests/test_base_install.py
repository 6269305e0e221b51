"""A plain install has no torch: the main job works without it, and what needs it says how to get it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from apply_eval.mine import OWN_EDITS
from apply_service.cli import build_parser, commands_of
from tests.eval.git_history import make_repo

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LEFT_OUT = (
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "huggingface_hub",
    "triton",
    "mcp",
    "gguf",
    "ray",
)
HARNESS = ("quick", "mine", "chats", "merge", "peers", "run", "lossless", "target", "report", "compare")
RUN = f"""
import sys
sys.modules.update(dict.fromkeys({LEFT_OUT!r}))  # their import fails as if they were not there
from MODULE import main
sys.exit(main())
"""


def run(*arguments: str, module: str = "apply_service.cli", without: str = "") -> subprocess.CompletedProcess[str]:
    program = f"import sys; sys.modules.update(dict.fromkeys({without.split()!r}))\n{RUN.replace('MODULE', module)}"
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def edit(tmp_path: Path) -> tuple[str, str]:
    file, update = tmp_path / "a.py", tmp_path / "update.py"
    file.write_text("def f():\n    return 1\n\n\ndef g():\n    return 2\n")
    update.write_text("# ... existing code ...\ndef g():\n    return 3\n")
    return str(file), str(update)


@pytest.mark.parametrize("strategy", ["auto", "model", "exact"])
def test_the_main_job(edit: tuple[str, str], strategy: str) -> None:
    file, update = edit
    done = run("apply", file, "--update", update, "--strategy", strategy, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["merged_code"] == Path(file).read_text().replace("return 2", "return 3")


@pytest.mark.parametrize(
    ("options", "extra"),
    [
        (["--model", "fastapply-1.5b"], "models"),
        (["--engine", "torch"], "models"),
        (["--device", "cuda"], "models"),
        (["--dtype", "bfloat16"], "models"),
    ],
)
def test_another_model_names_the_extra(edit: tuple[str, str], options: list[str], extra: str) -> None:
    file, update = edit
    done = run("apply", file, "--update", update, "--strategy", "model", *options)
    assert done.returncode == 4, done.stderr
    assert "which a plain install leaves out" in done.stderr
    assert f"{sys.executable} -m pip install 'apply-service[{extra}]'" in done.stderr


def test_the_command_that_installs_an_extra_needs_no_pip_where_there_is_none(edit: tuple[str, str]) -> None:
    file, update = edit
    done = run("apply", file, "--update", update, "--engine", "torch", "--strategy", "model", without="pip")
    assert f"Run: uv pip install --python {sys.executable} 'apply-service[models]'" in done.stderr


def test_models_are_listed_but_not_pulled() -> None:
    listed = run("models", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    assert any(one["name"] == "embedded" and one["is_present"] for one in json.loads(listed.stdout))
    pulled = run("models", "pull", "fastapply-1.5b")
    assert "apply-service[models]" in pulled.stderr


def test_the_harness_measures_what_asks_no_model(tmp_path: Path) -> None:
    edit = "<<<<<<< SEARCH\nb = 2\n=======\nb = 3\n>>>>>>> REPLACE\n"
    case = {"source": "s", "name": "n", "mode": "single", "format": "search_replace", "path": "a.py", "update": edit}
    cases = tmp_path / "cases.jsonl"
    cases.write_text(json.dumps(case | {"original": "a = 1\nb = 2\n", "expected": "a = 1\nb = 3\n"}) + "\n")
    peers = run("peers", "--data", str(cases), "--out", str(tmp_path / "peers"), module="apply_eval")
    assert peers.returncode == 0, peers.stderr
    assert json.loads((tmp_path / "peers" / "results.json").read_bytes())["total"]["exact"] == 1
    lossless = run("lossless", "http://127.0.0.1:9", "--plain", "http://127.0.0.1:10", module="apply_eval")
    assert "The service can't be reached" in lossless.stderr
    merge = run("merge", "--limit", "3", module="apply_eval")
    assert merge.returncode == 0, merge.stderr
    assert " of 3 exact (" in merge.stdout
    numbers = "".join(f"number_{n} = {n}\n" for n in range(20))
    files = [numbers, numbers.replace("number_4 = 4", "number_4 = 44")]
    commits = [(f"Change {n}", f"2026-01-0{n}", {"a.py": text.encode()}) for n, text in enumerate(files, 1)]
    repo = make_repo(tmp_path / "repo", commits)
    quick = run("quick", str(repo), "--out", str(tmp_path / "quick"), module="apply_eval")
    assert quick.returncode == 0, quick.stderr
    assert quick.stdout.startswith("1 of 1 right, ")
    assert (tmp_path / "quick" / "report.html").is_file()


@pytest.mark.parametrize("options", [[], ["--no-plain", "--peers", "hf-plain"], ["--target", "replay:tiny-2m"]])
def test_the_harness_names_its_extra(tmp_path: Path, options: list[str]) -> None:
    done = run("run", "--data", str(OWN_EDITS), "--limit", "1", "--out", str(tmp_path), *options, module="apply_eval")
    assert done.returncode == 2
    assert done.stderr.startswith("apply-eval: This needs ")
    assert "which a plain install leaves out.\n" in done.stderr
    assert f"{sys.executable} -m pip install 'apply-service[eval]'" in done.stderr


@pytest.mark.parametrize("command", [(), *((name,) for name in commands_of(build_parser()))])
def test_help_needs_no_extra(command: tuple[str, ...]) -> None:
    done = run(*command, "--help")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", ["", *HARNESS])
def test_help_of_the_harness_needs_no_extra(command: str) -> None:
    done = run(*command.split(), "--help", module="apply_eval")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: apply-eval")


def test_extras_named_by_errors_exist() -> None:
    extras = set()
    for path in (*(ROOT / "apply_service").rglob("*.py"), *(ROOT / "eval").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "missing_extra":
                extras.add(ast.literal_eval(node.args[1]))
    assert {"models", "gguf", "eval"} <= extras <= set(PROJECT["optional-dependencies"])


def test_the_base_is_light() -> None:
    """What weighs most is named in extras alone; grammars apart, the base asks for few packages."""
    names = [requirement.split(">")[0].split("[")[0] for requirement in PROJECT["dependencies"]]
    assert not set(names) & set(LEFT_OUT)
    assert len([name for name in names if not name.startswith("tree-sitter-")]) <= 16
