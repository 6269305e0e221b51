"""Makes a release: version, changelog section, sdist, wheel, the editors' and clients' packages, checksums.

    python .ci/release.py VERSION [--write] [--out FOLDER]

Standard library only; pip fetches setuptools, npm what its packages need.  Everything is built from a copy of the last
commit, so a run without `--write` changes nothing but FOLDER (dist).  With it, version and changelog are written,
committed and tagged; pushing and uploading are left to you.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHANGELOG = "CHANGELOG.md"
NPM_PACKAGES = ("editor_plugins/vscode", "apply_service/clients/typescript")
VERSIONS = (
    "pyproject.toml",
    *(f"{folder}/{name}" for folder in NPM_PACKAGES for name in ("package.json", "package-lock.json")),
)
"""Files that say the version; in a lock file the first two times."""
_VERSION = re.compile(r'^(\s*"?version"?\s*[=:]\s*")([^"]+)(")', re.MULTILINE)
_UNRELEASED = re.compile(r"^## Unreleased\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("version", help="as 1.2.3")
    parser.add_argument("--write", action="store_true", help="write, commit and tag version and changelog")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the packages (default: dist)")
    arguments = parser.parse_args()
    if found := problems(ROOT, arguments.version):
        sys.exit("\n".join(f"release: {problem}" for problem in found))
    day = datetime.now(UTC).date().isoformat()
    out: Path = arguments.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = export(ROOT, Path(folder, "tree"))
        changed = stamp(tree, arguments.version, day)
        skipped = build(tree, out, arguments.version, Path(folder))
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(out.iterdir())]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    print(f"packages in {out}:")
    for path in sorted(out.iterdir()):
        print(f"  {path.name}  {path.stat().st_size / 1e6:.2f} MB")
    for reason in skipped:
        print(f"  not built: {reason}")
    if arguments.write:
        stamp(ROOT, arguments.version, day)
        git(ROOT, "commit", "--quiet", "-m", f"Release {arguments.version}", "--", *changed)
        git(ROOT, "tag", "-a", f"v{arguments.version}", "-m", f"Release {arguments.version}")
        print(f"committed and tagged v{arguments.version}; to publish: git push --follow-tags, then upload {out}")
    else:
        print(f"tried only; --write would change {', '.join(changed)}, commit them and tag v{arguments.version}")


def problems(root: Path, version: str) -> list[str]:
    """Why there can be no such release."""
    found = []
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        return [f"{version} is no version: give three numbers, as 1.2.3"]
    current = version_of(root)
    if [int(part) for part in version.split(".")] < [int(part) for part in current.split(".")]:
        found.append(f"{version} is older than the {current} of pyproject.toml")
    if f"v{version}" in git(root, "tag").split():
        found.append(f"the tag v{version} is there already")
    if git(root, "status", "--porcelain", "--untracked-files=no"):
        found.append("there are uncommitted changes: commit or stash them")
    unreleased = _UNRELEASED.search((root / CHANGELOG).read_text(encoding="utf-8"))
    if unreleased is None or not unreleased[1].strip():
        found.append(f"{CHANGELOG} has nothing below '## Unreleased'")
    return found


def version_of(root: Path) -> str:
    match = _VERSION.search((root / "pyproject.toml").read_text(encoding="utf-8"))
    assert match is not None, "pyproject.toml has a version"
    return match[2]


def stamp(root: Path, version: str, day: str) -> list[str]:
    """Write version and changelog section into a tree; the files that this concerns."""
    for name in VERSIONS:
        path = root / name
        n_times = 2 if path.name == "package-lock.json" else 1
        text = _VERSION.sub(rf"\g<1>{version}\g<3>", path.read_text(encoding="utf-8"), count=n_times)
        path.write_text(text, encoding="utf-8")
    path = root / CHANGELOG
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("## Unreleased\n", f"## Unreleased\n\n## {version} ({day})\n", 1), encoding="utf-8")
    return [*VERSIONS, CHANGELOG]


# -- packages ----------------------------------------------------------------------------------------------------------
def build(tree: Path, out: Path, version: str, scratch: Path) -> list[str]:
    """All packages into `out`; what could not be built, and why.  The wheel comes from the sdist, which so is whole."""
    python = scratch / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    environment = os.environ | {"SOURCE_DATE_EPOCH": git(ROOT, "log", "-1", "--format=%ct")}

    def run(*command: object, cwd: Path = tree) -> None:
        words = [str(word) for word in command]
        subprocess.run(words, check=True, cwd=cwd, env=environment, stdout=subprocess.DEVNULL)

    run(sys.executable, "-m", "venv", scratch / "env")
    run(python, "-m", "pip", "install", "--quiet", "setuptools>=77")
    run(python, "-c", f"from setuptools import build_meta; build_meta.build_sdist({str(out)!r})")
    (sdist,) = out.glob("*.tar.gz")
    run(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", out, sdist)
    with tarfile.open(out / f"apply-service.nvim-{version}.tar.gz", "w:gz") as archive:
        archive.add(tree / "editor_plugins" / "nvim", arcname=f"apply-service.nvim-{version}")
        archive.add(tree / "LICENSE", arcname=f"apply-service.nvim-{version}/LICENSE")
    npm = shutil.which("npm")
    if npm is None:
        return [f"{folder}: npm is not here" for folder in NPM_PACKAGES]
    vscode, typescript = (tree / folder for folder in NPM_PACKAGES)
    for folder in (vscode, typescript):
        run(npm, "ci", "--ignore-scripts", "--no-fund", "--no-audit", cwd=folder)
        shutil.copy(tree / "LICENSE", folder / "LICENSE")
    run(npm, "run", "package", cwd=vscode)
    shutil.move(vscode / "apply-service.vsix", out / f"apply-service-{version}.vsix")
    run(npm, "run", "build", cwd=typescript)
    run(npm, "pack", "--ignore-scripts", "--pack-destination", out, cwd=typescript)
    return []


def export(root: Path, folder: Path) -> Path:
    """A copy of the last commit's files."""
    folder.mkdir(parents=True)
    command = ["git", "-C", str(root), "archive", "HEAD"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as process,
        tarfile.open(fileobj=process.stdout, mode="r|") as archive,
    ):
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11.4 and newer
        archive.extractall(folder, **safe)
    return folder


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True)
    return done.stdout.decode().strip()


if __name__ == "__main__":
    main()
