"""Tries what `make release` has left in a folder: each package is installed into an empty place and used.

    python .ci/try_release.py [FOLDER]    # default: dist

Standard library only.  The wheel and the sdist give the shipped answer in an empty environment.  The plugins are loaded
in Neovim and installed into code-server (`make test-vscode` brings it) where these are here, else only unpacked and
looked through.  The TypeScript client is imported by node.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from try_wheel import ROOT, try_package

CODE_SERVER = ROOT / ".vscode-test" / "node_modules" / "code-server" / "out" / "node" / "entry.js"
LOAD_NEOVIM_PLUGIN = """
vim.cmd.runtime("plugin/apply_service.lua")
assert(vim.fn.exists(":ApplySnippet") == 2, "there is no command :ApplySnippet")
for _, file in ipairs(vim.api.nvim_get_runtime_file("lua/apply_service/*.lua", true)) do
  require("apply_service." .. vim.fn.fnamemodify(file, ":t:r"))
end
vim.cmd.helptags(vim.fn.fnamemodify(vim.api.nvim_get_runtime_file("doc/apply-service.txt", false)[1], ":h"))
vim.cmd.help("apply-service")
"""


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "dist").resolve()
    if found := problems(folder):
        sys.exit("\n".join(f"{folder.name}: {problem}" for problem in found))
    for pattern, attempt in ATTEMPTS.items():
        (package,) = folder.glob(pattern)
        attempt(package)


def problems(folder: Path) -> list[str]:
    """What is missing in a folder, is there twice, or is not what its checksum says."""
    found = [f"not one {pattern}" for pattern in ATTEMPTS if len(list(folder.glob(pattern))) != 1]
    sums = folder / "SHA256SUMS"
    if not sums.is_file():
        return [*found, "no SHA256SUMS"]
    said = dict(line.split("  ", 1)[::-1] for line in sums.read_text(encoding="utf-8").splitlines())
    packages = {path.name: path for path in folder.iterdir() if path != sums}
    found += [f"{name} is not in SHA256SUMS" for name in sorted(packages.keys() - said.keys())]
    for name, digest in said.items():
        if name not in packages:
            found.append(f"{name} is missing")
        elif hashlib.sha256(packages[name].read_bytes()).hexdigest() != digest:
            found.append(f"{name} has another checksum")
    return found


def try_vscode(package: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with zipfile.ZipFile(package) as archive:
            archive.extractall(folder / "files")
        plugin = folder / "files" / "extension"
        manifest = json.loads((plugin / "package.json").read_bytes())
        require(plugin, manifest["main"], manifest.get("icon", ""), "readme.md", "changelog.md", "LICENSE.txt")
        how = "unpacked"
        if CODE_SERVER.is_file():
            run = ["node", CODE_SERVER, "--extensions-dir", folder / "extensions", "--user-data-dir", folder / "data"]
            environment = os.environ | {"HOME": name}
            subprocess.run([*run, "--install-extension", package], check=True, capture_output=True, env=environment)
            listed = subprocess.check_output([*run, "--list-extensions", "--show-versions"], text=True, env=environment)
            wanted = f"{manifest['publisher']}.{manifest['name']}@{manifest['version']}"
            if wanted not in listed.split():
                sys.exit(f"{package.name}: code-server does not list {wanted}")
            how = "installed into code-server"
    print(f"{package}: {how}")


def try_neovim(package: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        with tarfile.open(package) as archive:
            archive.extractall(name)
        (plugin,) = Path(name).iterdir()
        require(plugin, "LICENSE", "README.md", "doc/apply-service.txt", "plugin/apply_service.lua")
        how = "unpacked"
        if nvim := shutil.which("nvim"):
            script = Path(name, "load.lua")
            script.write_text(LOAD_NEOVIM_PLUGIN, encoding="utf-8")
            options = ("--clean", "--headless", "--cmd", f"set runtimepath^={plugin}", "-l", script)
            subprocess.run([nvim, *options], check=True)
            how = "loaded in Neovim"
    print(f"{package}: {how}")


def try_typescript(package: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name, "package.json").write_text("{}")
        options = ("--no-audit", "--no-fund", "--silent", "--prefix", name)
        subprocess.run([shutil.which("npm") or "npm", "install", *options, package], check=True)
        require(Path(name, "node_modules", "apply-service-client"), "LICENSE", "README.md", "dist/index.d.ts")
        code = "import {ApplyClient} from 'apply-service-client'; new ApplyClient({baseUrl: 'http://127.0.0.1:8765'})"
        subprocess.run(["node", "--input-type=module", "--eval", code], check=True, cwd=name)
    print(f"{package}: imported by node")


def require(folder: Path, *names: str) -> None:
    """Exit where a file is missing."""
    if missing := [name for name in names if not (folder / name).exists()]:
        sys.exit(f"{folder.name}: {', '.join(missing)} missing")


ATTEMPTS: dict[str, Callable[[Path], None]] = {
    "*.vsix": try_vscode,
    "apply-service.nvim-*.tar.gz": try_neovim,
    "apply-service-client-*.tgz": try_typescript,
    "apply_service-*.whl": try_package,
    "apply_service-*.tar.gz": try_package,
}
"""What a release has, and how each is tried."""


if __name__ == "__main__":
    main()
