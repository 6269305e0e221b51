"""Allowed folders: what is inside, judged by where a name leads."""

import os
from pathlib import Path

import pytest

from apply_service.disk.paths import Roots
from apply_service.errors import FileNotReadable, InvalidField, OutsideRoots

needs_links = pytest.mark.skipif(os.name == "nt", reason="symbolic links need rights there")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("root/sub", "root2", "root-evil", "out"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "root" / "a.py").write_bytes(b"")
    (tmp_path / "root2" / "b.py").write_bytes(b"")
    return tmp_path / "root"


@pytest.mark.parametrize(
    "name", ["a.py", "sub/new.py", "no/such/folder.py", "sub/../a.py", "./a.py", "..a", "sub/.gitignore"]
)
def test_inside(root: Path, name: str) -> None:
    assert Roots([root]).resolve(name) == Path(os.path.normpath(root / name))
    assert Roots([root]).resolve(str(root / name)) == Path(os.path.normpath(root / name))


@pytest.mark.parametrize(
    "name", ["../out/x.py", "sub/../../out/x.py", "..", "/etc/passwd", "../root-evil/x.py", "~/x.py"]
)
def test_outside(root: Path, name: str) -> None:
    with pytest.raises(OutsideRoots) as caught:
        Roots([root]).resolve(name)
    assert caught.value.limit == [str(root)]
    assert caught.value.value == os.path.realpath(root / os.path.expanduser(name))


@needs_links
def test_links_are_followed(root: Path) -> None:
    (root / "away").symlink_to(root.parent / "out")
    (root / "file").symlink_to("/etc/passwd")
    (root / "home").symlink_to("sub")
    (root.parent / "entry").symlink_to(root)
    roots = Roots([root.parent / "entry"])
    assert roots.folders == (root,)
    for name in ("away/x.py", "file", "away/../root2/b.py"):
        with pytest.raises(OutsideRoots):
            roots.resolve(name)
    assert roots.is_link("file")
    assert not roots.is_link("a.py")
    assert roots.resolve("home/x.py") == root / "sub" / "x.py"
    assert roots.resolve(str(root.parent / "entry" / "a.py")) == root / "a.py"


@pytest.mark.parametrize("name", [".git/config", "sub/.git/hooks/pre-commit", ".GIT/config"])
def test_git_keeps_its_own(root: Path, name: str) -> None:
    with pytest.raises(OutsideRoots, match="git"):
        Roots([root]).resolve(name)


@pytest.mark.parametrize(
    "name", ["", "  ", "a\0b", "file:///etc/passwd", "https://example.org/x", "\ud800", "~nobody-at-all/x"]
)
def test_no_names(root: Path, name: str) -> None:
    with pytest.raises(InvalidField):
        Roots([root]).resolve(name)


def test_several_roots(root: Path) -> None:
    roots = Roots([root, root.parent / "root2"])
    assert roots.resolve("b.py") == root.parent / "root2" / "b.py"
    assert roots.resolve("new.py") == root / "new.py"
    with pytest.raises(OutsideRoots):
        roots.resolve("../out/x")


def test_a_root_must_be_a_folder(root: Path) -> None:
    for folder in (root / "a.py", root / "none"):
        with pytest.raises(FileNotReadable) as caught:
            Roots([folder])
        assert caught.value.value == str(folder)
