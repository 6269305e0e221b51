"""Edits of another file, and file and edit exchanged: refused, and no right edit with them."""

from __future__ import annotations

import pytest

from apply_service.errors import ApplyError, Exchanged, Unrelated
from apply_service.pipeline import read_request
from apply_service.target import Runtime, no_target
from apply_service.types import ApplyRequest
from tests.newcomer.edits import EDITS, PROJECT

GO = (PROJECT / "store.go").read_text(encoding="utf-8")
PYTHON = (PROJECT / "inventory.py").read_text(encoding="utf-8")
FOREIGN = next(edit.snippet for edit in EDITS if edit.kind == "a function between two markers")
OTHER_THINGS = """\
def orbit(planet, eccentricity, anomaly):
    radius = planet.axis * (1 - eccentricity ** 2) / (1 + eccentricity * math.cos(anomaly))
    velocity = math.sqrt(gravity * planet.mass / radius)
    return Ephemeris(radius, velocity, planet.epoch)
"""


def read(original: str, update: str, path: str | None, **more: str) -> ApplyError | None:
    request = ApplyRequest(original, update, path=path, **more)  # type: ignore[arg-type]
    try:
        read_request(request, Runtime(load=no_target))
    except ApplyError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("original", "update", "path"), [(GO, FOREIGN, "store.go"), (PYTHON, OTHER_THINGS, "inventory.py")]
)
def test_a_snippet_of_another_file(original: str, update: str, path: str) -> None:
    assert isinstance(read(original, update, path), Unrelated)


@pytest.mark.parametrize(
    ("original", "update", "more"),
    [
        (GO, FOREIGN, {"instruction": "add an export"}),
        (GO, FOREIGN, {"path": None}),
        (GO, f"Put this at the end:\n\n```python\n{FOREIGN}```\n", {}),
        (GO, FOREIGN + "\n// below Len\n", {}),
        (GO, FOREIGN + "\nfunc (s *Store) Len() int {\n", {}),
        ("package a\n", FOREIGN, {}),
        ("", FOREIGN, {}),
        (
            PYTHON,
            OTHER_THINGS.replace("planet", "inventory")
            .replace("radius", "item")
            .replace("axis", "quantity")
            .replace("mass", "price"),
            {"path": "inventory.py"},
        ),
        (PYTHON, "x = 1\n", {"path": "inventory.py"}),
    ],
)
def test_less_evidence_is_no_refusal(original: str, update: str, more: dict[str, str]) -> None:
    assert not isinstance(read(original, update, **{"path": "store.go", **more}), Unrelated)


def test_a_new_part_of_a_configuration() -> None:
    original = (PROJECT / "deploy.yaml").read_text(encoding="utf-8")
    new = (
        "build:\n  os: ubuntu\n  tools:\n    python: three\n    nodejs: twenty\n  jobs:\n    post_create: fetch tags\n"
    )
    assert not isinstance(read(original, new, "deploy.yaml"), Unrelated)


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.kind)
def test_no_edit_of_this_project_is_refused(edit: object) -> None:
    assert not isinstance(read(edit.before, edit.snippet, edit.file), Unrelated | Exchanged)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "kind",
    [
        "a function between two markers",
        "an arm of a match and a variant in Rust",
        "a unified diff with wrong line numbers",
    ],
)
def test_file_and_edit_exchanged(kind: str) -> None:
    edit = next(edit for edit in EDITS if edit.kind == kind)
    assert isinstance(read(edit.snippet, edit.before, "edit.txt"), Exchanged)
    assert not isinstance(read(edit.snippet, edit.before, "edit.txt", format="whole_file"), Exchanged)


def test_bodies_of_dots_are_no_edit() -> None:
    stub = "class Store(Protocol):\n    def get(self, key: str) -> bytes:\n        ...\n"
    whole = stub.replace("...", "return self.entries[key]") + "\n    def put(self, key: str) -> None:\n        pass\n"
    assert not isinstance(read(stub, whole, "store.py"), Exchanged)
