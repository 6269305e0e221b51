"""Twenty edits through the command line, as a newcomer types them: each is right, or says that it may not be."""

from __future__ import annotations

from pathlib import Path

import pytest

from apply_service.cli import main
from tests.newcomer.edits import EDITS, Edit

LEAST_WRITTEN = 12
"""Of the twenty, that are written unseen."""


def apply(edit: Edit, folder: Path, *options: str) -> tuple[int, str]:
    """The exit code of the command, and what its file then holds."""
    file, snippet = folder / edit.file, folder / "snippet.txt"
    file.write_bytes(edit.before.encode())
    snippet.write_text(edit.snippet, encoding="utf-8")
    code = main(["apply", str(file), str(snippet), *options])
    return code, file.read_bytes().decode()


def judge(edit: Edit, code: int, held: str, said: str) -> bool:
    """Whether the edit was written.  Fails where it was written wrong, or left out without a reason."""
    if code == 0:
        assert held == edit.after, f"{edit.kind}: wrong, and written unseen"
        assert "undo with `apply-service undo " in said
        return True
    assert held == edit.before, f"{edit.kind}: written although it is refused"
    assert code in (1, 5)
    first, *more = said.splitlines()
    assert edit.file in first
    assert more, f"{edit.kind}: nothing says why, or what to do"
    assert "--diff" in more[-1] or code == 5
    return False


@pytest.fixture(scope="module")
def written() -> list[str]:
    return []


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.kind)
def test_an_edit_is_right_or_in_doubt(
    edit: Edit, tmp_path: Path, written: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, held = apply(edit, tmp_path, "--in-place")
    if judge(edit, code, held, capsys.readouterr().err):
        written.append(edit.kind)


def test_most_need_no_look(written: list[str], request: pytest.FixtureRequest) -> None:
    if len([item for item in request.session.items if "test_an_edit_is_right" in item.name]) < len(EDITS):
        pytest.skip("counts all of the edits")
    assert len(EDITS) == 20
    assert len(written) >= LEAST_WRITTEN, written


def test_what_would_be_wrong_is_found_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The judge of the edits above can fail."""
    edit = next(edit for edit in EDITS if edit.kind == "a constant")
    code, held = apply(edit, tmp_path, "--in-place")
    said = capsys.readouterr().err
    for wrong in (
        (code, held + "\n", said),
        (1, held, said),
        (1, edit.before, "client.ts: no"),
        (0, edit.before, said),
    ):
        with pytest.raises(AssertionError):
            judge(edit, *wrong)
    assert judge(edit, code, held, said)
