"""The house keeps its shape: imports point downward, siblings do not know each other, nothing runs in a circle."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.density import MOST, branch_points, dense_functions, known_functions

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "apply_service"

LAYERS = (
    {"cli"},
    {"commands", "deploy"},
    {"api", "build", "clients", "mcp"},
    {"batch", "service"},
    {"serving"},
    {"pipeline"},
    {"remote", "strategies"},
    {"checks", "target", "engine.vllm"},
    {"reply", "prompts", "drafting", "decoding", "engine", "settings"},
    {"formats"},
    {"merge"},
    {"text"},
    {"deadline", "disk", "models", "protocols"},
    {"types", "errors", "isolation", "registry", "syntax"},
)
"""Top to bottom.  A name may import from lower layers only, and from itself."""

LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

MERGE_LAYERS = (
    {"merge"},
    {"readings"},
    {"makers", "rank"},
    {"rows", "signed", "variants"},
    {"write"},
    {"loose", "proposal", "regions", "removals", "twins"},
    {"reading", "words"},
    {"fitting"},
    {"candidates"},
    {"notes", "wording"},
    {"align", "entries", "siblings", "statements"},
)
"""Those of the merge, top to bottom: making readings, laying lines on the file, reading a snippet, telling lines."""


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Dotted apply_service modules that a file imports, lazily or not."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {_module(f"{node.module}.{alias.name}") for alias in node.names}
    return {name for name in found if name.split(".")[0] == "apply_service"}


def _module(dotted: str) -> str:
    """What `from a.b import c` runs: `a.b.c` where that is a module, else `a.b`."""
    path = ROOT.joinpath(*dotted.split("."))
    return dotted if path.is_dir() or path.with_suffix(".py").is_file() else dotted.rpartition(".")[0]


PLUG_IN = "engine.vllm"
"""A program of its own, put together by vLLM: it stands above what it is made of."""


def room(dotted: str) -> str:
    """`apply_service.merge.align` -> `merge`."""
    if f"{dotted}.".startswith(f"apply_service.{PLUG_IN}."):
        return PLUG_IN
    parts = dotted.split(".")
    return parts[1] if len(parts) > 1 else ""


def dotted_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_downward(path: Path) -> None:
    here = room(dotted_name(path))
    if here == "":
        return
    assert here in LEVEL, f"{here} has no layer: name one in LAYERS"
    for dotted in imports(path):
        there = room(dotted)
        assert there, f"{path}: imports the package itself"
        assert there == here or LEVEL[there] > LEVEL[here], f"{path}: {here} must not import {dotted}"


@pytest.mark.parametrize("path", sorted((PACKAGE / "merge").rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_inside_the_merge_point_downward(path: Path) -> None:
    level = {name: level for level, names in enumerate(MERGE_LAYERS) for name in names}
    room_of = "apply_service.merge."
    here = dotted_name(path).removeprefix(room_of).split(".")[0]
    if path.name == "__init__.py":
        return
    assert here in level, f"{here} has no layer: name one in MERGE_LAYERS"
    for there in {dotted.removeprefix(room_of).split(".")[0] for dotted in imports(path) if dotted.startswith(room_of)}:
        assert there == here or level[there] > level[here], f"{path}: {here} must not import {there}"


def test_every_folder_with_modules_is_a_package() -> None:
    """Else setuptools puts the name of a hook on the module path of an installation with `-e`, and Python takes it for
    a folder of the current one: see `apply_service.isolation`."""
    folders = {path.parent for top in (PACKAGE, ROOT / "eval" / "apply_eval") for path in top.rglob("*.py")}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]
    assert found["namespaces"] is False, "folders of data are no packages either"


def test_imports_are_told_by_module(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("from apply_service.api import keys\ndef f():\n    from apply_service.api.keys import make_key\n")
    assert imports(file) == {"apply_service.api.keys"}
    file.write_text("import apply_service.types, json\nfrom apply_service import api\nfrom json import dumps\n")
    assert imports(file) == {"apply_service.types", "apply_service.api"}


def test_no_import_cycle() -> None:
    graph = {dotted_name(path): imports(path) for path in modules()}
    assert list(TopologicalSorter(graph).static_order())


@pytest.mark.parametrize(
    "name",
    [
        *("api", "text", "merge", "formats", "reply", "checks", "syntax", "drafting", "decoding", "clients", "mcp"),
        *("batch", "disk"),
    ],
)
def test_room_is_free_of_torch(name: str) -> None:
    for path in (PACKAGE / name).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(n.split(".")[0] in {"torch", "transformers"} for n in names), f"{path} imports torch"


def test_a_class_name_means_one_thing() -> None:
    classes = (
        node.name
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in Counter(classes).items() if count > 1] == []


@pytest.mark.parametrize("name", ["engine", "decoding"])
def test_engine_and_decoding_see_no_text(name: str) -> None:
    for path in (PACKAGE / name).rglob("*.py"):
        if room(dotted_name(path)) == PLUG_IN:
            continue
        assert not any(
            room(dotted) in {"text", "merge", "formats", "reply", "prompts", "syntax"} for dotted in imports(path)
        )


def test_similarity_is_rapidfuzz_alone() -> None:
    """The standard library's matcher is quadratic and guesses badly: nothing may import it."""
    unwanted = "diff" + "lib"
    for path in ROOT.rglob("*.py"):
        if any(part.startswith(".") or part == "node_modules" for part in path.relative_to(ROOT).parts):
            continue
        if path.is_relative_to(ROOT / "benchmarks" / "example"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert unwanted not in names, path


def test_no_function_becomes_dense() -> None:
    """A function that branches more than 15 times is split by its questions; those that did before may only shrink."""
    known = known_functions()
    grown = {name: n for name, n in dense_functions().items() if n > known.get(name, MOST)}
    assert grown == {}, "split them by question"


def test_what_is_dense_no_more_leaves_the_list() -> None:
    found, known = dense_functions(), known_functions()
    assert found == known, "python -m tests.density"


@pytest.mark.parametrize(
    ("body", "n"),
    [
        ("return 1", 0),
        ("if a and b or c:\n        pass", 3),
        ("return [x for x in y for z in x if z]", 2),
        ("try:\n        pass\n    except A:\n        pass\n    except B:\n        pass", 2),
        ("def g():\n        return 1 if a else 2\n    return g", 0),
        ("match a:\n        case 1:\n            pass\n        case _:\n            pass", 2),
        ("while a:\n        b = 1 if c else 2", 2),
    ],
)
def test_branch_points_are_counted(body: str, n: int) -> None:
    assert branch_points(ast.parse(f"def f():\n    {body}\n").body[0]) == n


NO_VERB = (
    "The ",
    "A ",
    "An ",
    "Whether ",
    "What ",
    "How ",
    "All ",
    "One ",
    "As ",
    "For ",
    "Of ",
    "To ",
    "In ",
    "From ",
)
ROUTES = {"batch", "chat", "mercury_chat", "completion", "responses"}
"""Their docstrings are what the API's page says of a path."""


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_the_docstring_of_a_function_starts_with_a_verb(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in ROUTES:
            is_noun = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
            text = ast.get_docstring(node) or ""
            assert is_noun or not text.startswith(NO_VERB), f"{path}:{node.lineno}: {text.splitlines()[0]}"
