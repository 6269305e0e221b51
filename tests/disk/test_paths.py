"""Allowed folders: what is inside, judged by where a name leads."""

import contextlib
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


@pytest.mark.parametrize(
    "name",
    [
        *("GIT~1/config", "git~1./hooks/x", ".git./config", ".git /config", ".git. ./config", "sub/.Git/x"),
        *(".g\u200cit/config", "\ufeff.git/config", ".git\u2060/../.git\u200f/x", ".git::$INDEX_ALLOCATION/config"),
        *("sub\\.git\\config", ".git", "GIT~1", ".git:x"),
    ],
)
def test_names_that_some_file_system_takes_for_git(root: Path, name: str) -> None:
    with pytest.raises(OutsideRoots, match="git's own data"):
        Roots([root]).resolve(name)


@pytest.mark.parametrize("name", [".gitignore", ".github/x", "git~2", "git", "x.git", ".git-x/y", "ahead", "HEAD.md"])
def test_names_that_only_look_like_gits(root: Path, name: str) -> None:
    assert Roots([root]).resolve(name) == root / name


def bare(folder: Path) -> Path:
    for name in ("objects", "refs", "hooks"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text("")
    return folder


@pytest.mark.parametrize("name", ["config", "hooks/post-checkout", "hooks/deep/x", "new", "refs/heads/x"])
@pytest.mark.parametrize("place", [".", "sub", "sub/deep.git"])
def test_a_bare_repository_is_gits(root: Path, place: str, name: str) -> None:
    bare(root / place)
    with pytest.raises(OutsideRoots, match="git's own data"):
        Roots([root]).resolve(f"{place}/{name}")


def test_a_folder_that_shares_anothers_objects_is_gits(root: Path) -> None:
    (root / "sub" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "sub" / "commondir").write_text("../other\n")
    with pytest.raises(OutsideRoots, match="git's own data"):
        Roots([root]).resolve("sub/config.worktree")


@pytest.mark.parametrize("name", ["HEAD", "sub/HEAD", "x/y/HEAD"])
def test_no_repository_can_be_made(root: Path, name: str) -> None:
    with pytest.raises(OutsideRoots, match="git's own data"):
        Roots([root]).resolve(name)


@pytest.mark.parametrize("below", [".git/hooks", ".git/x/y", ".GIT/hooks", "sub/bare/hooks", "sub/bare/info/x"])
def test_a_root_in_gits_own_data_allows_nothing(root: Path, below: str) -> None:
    bare(root / "sub" / "bare")
    (root / below).mkdir(parents=True, exist_ok=True)
    with pytest.raises(OutsideRoots, match="git's own data"):
        Roots([root / below]).resolve("post-checkout")


def test_a_working_tree_below_a_folder_of_git_can_be_edited(root: Path) -> None:
    tree = root / ".git" / "trees" / "main"
    (tree / "src" / "config").mkdir(parents=True)
    (root / ".git" / "worktrees" / "main").mkdir(parents=True)
    (root / ".git" / "worktrees" / "main" / "HEAD").write_text("ref: refs/heads/main\n")
    (tree / ".git").write_text("gitdir: ../../worktrees/main\n")
    assert Roots([tree]).resolve("src/a.py") == tree / "src" / "a.py"
    assert Roots([tree / "src" / "config"]).resolve("a.py") == tree / "src" / "config" / "a.py"


def test_what_lies_above_the_root_makes_no_repository_of_it(root: Path) -> None:
    """A file of the name HEAD, as there may be one in a folder of programs."""
    (root / "HEAD").write_text("")
    (root / "config").mkdir()
    assert Roots([root / "config"]).resolve("a.py") == root / "config" / "a.py"


def test_a_working_tree_in_the_folder_of_its_bare_repository_can_be_edited(root: Path) -> None:
    bare(root)
    (root / "main" / "src").mkdir(parents=True)
    (root / "main" / ".git").write_text("gitdir: ../worktrees/main\n")
    (root / "worktrees" / "main").mkdir(parents=True)
    (root / "worktrees" / "main" / "HEAD").write_text("ref: refs/heads/main\n")
    assert Roots([root]).resolve("main/src/a.py") == root / "main" / "src" / "a.py"
    for name in ("main/.git", "worktrees/main/gitdir", "config"):
        with pytest.raises(OutsideRoots, match="git's own data"):
            Roots([root]).resolve(name)


@needs_links
@pytest.mark.parametrize("kind", ["repository", "worktree", "guarded"])
def test_another_name_of_a_guarded_file_is_refused(root: Path, kind: str) -> None:
    state = root.parent / "state"
    place = {"repository": root / ".git", "worktree": root.parent / "out", "guarded": state / "backups"}[kind]
    (place / "hooks").mkdir(parents=True)
    if kind == "worktree":
        (place / "worktrees" / "x").mkdir(parents=True)
        (place / "worktrees" / "x" / "commondir").write_text("../..\n")
        (root / ".git").write_text("gitdir: ../out/worktrees/x\n")
    (place / "hooks" / "pre-commit").write_bytes(b"#!/bin/sh\n")
    os.link(place / "hooks" / "pre-commit", root / "sub" / "harmless.txt")
    os.link(root / "a.py", root / "sub" / "twin.py")
    roots = Roots([root / "sub"], [state])
    with pytest.raises(OutsideRoots, match="hard link"):
        roots.resolve("harmless.txt")
    assert roots.resolve("twin.py") == root / "sub" / "twin.py"


OURS = [
    "state/journal/x.json",
    "state/backups/1/2.json",
    "state",
    "sub/../state/x",
    "sub/./../state/y",
    "conf.toml",
]
FOLDED = ["STATE/journal/x.json", "state./x", "state /x", "st\u200cate/x", "CONF.toml"]


@pytest.mark.parametrize("name", OURS)
def test_the_state_folder_is_nobodys(root: Path, name: str) -> None:
    (root / "state" / "journal").mkdir(parents=True)
    (root / "conf.toml").write_text("")
    with pytest.raises(OutsideRoots, match="apply-service's own data"):
        Roots([root], [root / "state", root / "conf.toml"]).resolve(name)


@pytest.mark.parametrize("name", [*OURS, *FOLDED])
def test_nor_is_one_that_does_not_exist_yet(root: Path, name: str) -> None:
    with pytest.raises(OutsideRoots, match="apply-service's own data"):
        Roots([root], [root / "state", root / "conf.toml"]).resolve(name)


@pytest.mark.parametrize("below", ["", "journal", "backups/x"])
def test_a_root_in_the_state_folder_allows_nothing(tmp_path: Path, below: str) -> None:
    (tmp_path / "state" / below).mkdir(parents=True)
    with pytest.raises(OutsideRoots, match="apply-service's own data"):
        Roots([tmp_path / "state" / below], [tmp_path / "state"]).resolve("x.json")


@needs_links
def test_links_to_and_of_the_state_folder_are_seen_through(root: Path, tmp_path: Path) -> None:
    (root / "real").mkdir()
    (tmp_path / "state").symlink_to(root / "real")
    (root / "alias").symlink_to("real")
    roots = Roots([root], [tmp_path / "state"])
    for name in ("real/journal/x.json", "alias/x", "alias"):
        with pytest.raises(OutsideRoots, match="apply-service's own data"):
            roots.resolve(name)
    assert roots.resolve("a.py") == root / "a.py"


def test_beside_the_state_folder_edits_are_allowed(root: Path) -> None:
    roots = Roots([root], [root / "state"])
    for name in ("state2/x", "sub/state/x", "stat"):
        assert roots.resolve(name) == root / name


@pytest.mark.parametrize("name", ["config", "objects/x", "refs/x", "hooks/pre-commit", "commondir"])
def test_no_repository_can_be_made_around_a_head_that_is_there(root: Path, name: str) -> None:
    """Each by itself is harmless; together they are a repository, whose `config` names programs."""
    (root / "sub" / "HEAD").write_text("ref: refs/heads/main\n")
    with pytest.raises(OutsideRoots, match="git's own data"):
        Roots([root]).resolve(f"sub/{name}")


@pytest.mark.parametrize("name", ["head", "sub/Head", "x/HeAd"])
def test_no_repository_can_be_made_where_case_does_not_count(root: Path, name: str) -> None:
    """Linux has such file systems, too: folders of ext4 with `casefold`, CIFS, Windows' own disks under WSL."""
    with pytest.raises(OutsideRoots, match="git's own data"):
        Roots([root]).resolve(name)


@pytest.mark.parametrize("leads_to", [".", "./", "../sub"])
def test_a_repository_whose_git_file_leads_to_itself_is_gits(root: Path, leads_to: str) -> None:
    bare(root / "sub")
    (root / "sub" / ".git").write_text(f"gitdir: {leads_to}\n")
    for name in ("config", "hooks/pre-commit"):
        with pytest.raises(OutsideRoots, match="git's own data"):
            Roots([root]).resolve(f"sub/{name}")


@needs_links
@pytest.mark.parametrize(
    "kind", ["empty folder", "link to itself", "pipe", "circle", "link to a folder that leads back"]
)
def test_what_is_called_git_and_is_no_repository_frees_nothing(root: Path, kind: str) -> None:
    """Git goes on looking, and takes the folder itself for the repository."""
    bare(root / "sub")
    own = root / "sub" / ".git"
    if kind == "empty folder":
        own.mkdir()
    elif kind == "link to itself":
        own.symlink_to(".")
    elif kind == "pipe":
        os.mkfifo(own)
    elif kind == "circle":
        bare(root / "other")
        own.write_text("gitdir: ../other\n")
        (root / "other" / ".git").write_text("gitdir: ../sub\n")
    else:
        (root / "sub" / "s").mkdir()
        (root / "sub" / "s" / ".git").symlink_to("..")
        own.symlink_to("s")
    for name in ("config", "hooks/pre-commit"):
        with pytest.raises(OutsideRoots, match="git's own data"):
            Roots([root]).resolve(f"sub/{name}")


@pytest.mark.parametrize("name", ["config", "hooks/pre-commit", "config::$DATA", "hooks\\pre-commit"])
def test_where_another_repository_keeps_its_files_there_need_be_no_head(root: Path, name: str) -> None:
    for folder in ("objects", "refs"):
        (root / "common" / folder).mkdir(parents=True)
    with pytest.raises(OutsideRoots, match="git's own data"):
        Roots([root]).resolve(f"common/{name}")


@pytest.mark.parametrize("name", ["HEAD::$DATA", "sub\\HEAD"])
def test_other_spellings_of_head(root: Path, name: str) -> None:
    with pytest.raises(OutsideRoots, match="git's own data"):
        Roots([root]).resolve(name)


def test_a_component_called_head_is_no_repository(root: Path) -> None:
    (root / "components" / "HEAD").mkdir(parents=True)
    (root / "components" / "HEAD" / "index.tsx").write_text("x")
    for name in ("components/hooks/useX.ts", "components/config", "components/info/a.py", "components/HEAD/index.tsx"):
        assert Roots([root]).resolve(name) == root / name


@pytest.mark.parametrize("name", ["a" * 300 + "/head", "a" * 300 + "/HEAD", "a" * 300])
def test_a_name_that_no_file_can_have_is_no_crash(root: Path, name: str) -> None:
    with contextlib.suppress(OutsideRoots):
        assert Roots([root]).resolve(name).is_relative_to(root)
