"""A large file in parts of a size that can be sent, and put together again, every byte checked."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from apply_service.errors import FileNotReadable

MAX_BYTES = 15 * 2**20
MANIFEST = "manifest.json"


def split_file(path: Path, folder: Path, *, max_bytes: int = MAX_BYTES) -> list[Path]:
    """Write `path` as parts of at most `max_bytes` and a manifest into `folder`, which holds nothing else afterwards of
    what an earlier call wrote; the parts."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("part-*"), folder / MANIFEST):
        old.unlink(missing_ok=True)
    parts: list[Path] = []
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(max_bytes):
            digest.update(piece)
            parts.append(folder / f"part-{len(parts):03d}")
            parts[-1].write_bytes(piece)
    manifest = {"name": path.name, "sha256": digest.hexdigest(), "parts": [part.name for part in parts]}
    (folder / MANIFEST).write_text(json.dumps(manifest) + "\n", encoding="utf-8")
    return parts


def join_parts(folder: Path, path: Path) -> None:
    """Put the parts in `folder` together as `path`, whole or not at all.  Raises FileNotReadable: a part is missing, or
    they are not what was split."""
    partial = path.with_suffix(".partial")
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        digest = hashlib.sha256()
        with partial.open("wb") as file:
            for name in manifest["parts"]:
                piece = (folder / name).read_bytes()
                digest.update(piece)
                file.write(piece)
    except (OSError, ValueError, KeyError) as error:
        raise FileNotReadable(f"the parts can't be put together: {error}", value=str(folder)) from error
    if digest.hexdigest() != manifest["sha256"]:
        partial.unlink()
        raise FileNotReadable("the parts are not those of one file", value=str(folder), remedy="fetch them again")
    os.replace(partial, path)
