"""The pieces of `benchmarks.gpu`: which there are, in which order, and what is left of each.

A piece is a shape and batch sizes, or the checks.  Results are written after every sample, so that a run that is
stopped anywhere goes on where it was.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apply_service.errors import FileNotReadable, SettingsError
from benchmarks.report import write_result

CHECKS = "correctness"
NAME = "bench-gpu.json"
MAX_CAUSES, MAX_MESSAGE, MAX_FRAMES = 4, 1_500, 25
"""Of a failure that is kept."""


@dataclass(frozen=True, slots=True)
class Piece:
    """`shape` at `batches`; the checks have none."""

    name: str
    shape: str = ""
    batches: tuple[int, ...] = ()


def failure_of(error: BaseException, during: str) -> dict[str, Any]:
    """What a result keeps of an error: enough to find its cause when the machine is gone; no machine's folders."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and len(chain) < MAX_CAUSES:
        chain.append(cause)
    return {
        "during": during,
        "errors": [f"{type(one).__name__}: {str(one)[:MAX_MESSAGE]}" for one in chain],
        "frames": [
            f"{'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno} {frame.name}: {frame.line}"
            for frame in traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
        ],
    }


def plan_pieces(shapes: Sequence[str], batches: Sequence[int]) -> list[Piece]:
    """All pieces, the most important first: checks, the first two shapes alone, their batches, then the rest, always
    alone before together."""
    alone = [Piece(f"{shape}-alone", shape, (1,)) for shape in shapes if 1 in batches]
    larger = tuple(n for n in sorted(batches) if n > 1)
    together = [Piece(f"{shape}-batches", shape, larger) for shape in shapes if larger]
    return [Piece(CHECKS), *alone[:2], *together[:2], *alone[2:], *together[2:]]


def choose_pieces(pieces: Sequence[Piece], wanted: str | None) -> list[Piece]:
    """Those named, in the order in which they are named; all of them where none is.

    Raises:
        SettingsError: no such piece.
    """
    if wanted is None:
        return list(pieces)
    known = {piece.name: piece for piece in pieces}
    names = wanted.split(",")
    if unknown := [name for name in names if name not in known]:
        raise SettingsError("no such piece", value=unknown, limit=list(known), remedy="name one of these")
    return [known[name] for name in names]


class Results:
    """The file of results in a folder, of which each piece is a part.  `run_id` tells runs apart whose pieces may not
    be mixed."""

    def __init__(self, folder: Path, run_id: Mapping[str, Any]) -> None:
        self._path = folder / NAME
        self._run_id = dict(run_id)

    def read(self, name: str) -> dict[str, Any]:
        """What there is of a piece.

        Raises:
            SettingsError: the folder holds another run.  FileNotReadable: it holds something else.
        """
        empty = {"piece": name, "run": self._run_id, "is_complete": False, "samples": [], "skipped": [], "failures": []}
        found: dict[str, Any] = self._pieces().get(name, empty)
        if found["run"] != self._run_id:
            changed = sorted(k for k in self._run_id if found["run"].get(k) != self._run_id[k])
            raise SettingsError(
                f"the folder holds pieces of another run, with other {', '.join(changed)}",
                value=str(self._path.parent),
                remedy="use another --out, or --fresh to begin anew",
            )
        return found

    def write(self, name: str, piece: Mapping[str, Any]) -> None:
        """Keep what there is of a piece."""
        write_result(self._path, self._load() | {"pieces": [*(self._pieces() | {name: dict(piece)}).values()]})

    def put_together(self, head: Mapping[str, Any], pieces: Sequence[Piece]) -> dict[str, Any]:
        """All pieces in their order under a head; returns what the file now holds."""
        value = dict(head) | {"pieces": [self.read(piece.name) for piece in pieces]}
        write_result(self._path, value)
        return value

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)

    def _pieces(self) -> dict[str, Any]:
        return {piece["piece"]: piece for piece in self._load()["pieces"]}

    def _load(self) -> dict[str, Any]:
        try:
            text = self._path.read_text(encoding="utf-8") if self._path.is_file() else '{"pieces": []}'
            value: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise FileNotReadable(
                f"{NAME} can't be read: {error}", value=str(self._path), remedy="use --fresh"
            ) from error
        return value
