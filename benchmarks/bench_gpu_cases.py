"""Edits prepared for `benchmarks.bench_gpu`: read, merged and drawn beforehand, so that a machine with a GPU needs
neither the merger nor the parsers.  One compressed JSON file; `bench_gpu_prepare` writes it."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apply_service.errors import FileNotReadable
from apply_service.prompts.replay import Replay
from apply_service.protocols import EditJob
from apply_service.types import ApplyRequest, Certainty, LineOp, Prediction
from benchmarks.bench_case import Case

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class PreparedEdit:
    """An edit as the merger reads it.  `merge_s`: what reading and merging took where it was prepared."""

    id: str
    job: EditJob
    after: str
    merge_s: float

    def as_json(self) -> dict[str, Any]:
        job, prediction = self.job, self.job.prediction
        return {
            "id": self.id,
            "original": job.original,
            "update": job.update,
            "path": job.path,
            "language": job.language,
            "after": self.after,
            "merge_s": round(self.merge_s, 6),
            "ops": [list(op) for op in prediction.ops],
            "update_lines": list(prediction.update_lines),
            "certainty": prediction.certainty.value,
        }

    @classmethod
    def of_json(cls, row: dict[str, Any]) -> PreparedEdit:
        ops = tuple(LineOp(*op) for op in row["ops"])
        prediction = Prediction(ops, tuple(row["update_lines"]), Certainty(row["certainty"]))
        job = EditJob(row["original"], row["update"], "", row["path"], row["language"], prediction)
        return cls(row["id"], job, row["after"], row["merge_s"])


@dataclass(frozen=True, slots=True)
class Prepared:
    """The file: edits in the order drawn, where they come from, and its digest."""

    edits: tuple[PreparedEdit, ...]
    provenance: dict[str, Any]
    digest: str = ""

    def write(self, path: Path) -> None:
        """One file, whole or not at all."""
        value = {
            "schema_version": SCHEMA_VERSION,
            "provenance": self.provenance,
            "edits": [edit.as_json() for edit in self.edits],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_bytes(lzma.compress(json.dumps(value, ensure_ascii=False).encode()))
        partial.replace(path)

    @classmethod
    def read(cls, path: Path) -> Prepared:
        """
        Raises:
            FileNotReadable: it is not there, or not such a file.
        """
        try:
            raw = path.read_bytes()
            value = json.loads(lzma.decompress(raw))
            if value["schema_version"] != SCHEMA_VERSION:
                raise ValueError(f"schema version {value['schema_version']}")
            edits = tuple(PreparedEdit.of_json(row) for row in value["edits"])
        except (OSError, ValueError, KeyError, TypeError, lzma.LZMAError) as error:
            raise FileNotReadable(
                f"the prepared edits can't be read: {error}",
                value=str(path),
                remedy="make them where the project is installed whole: make bench-gpu-prepare",
            ) from error
        return cls(edits, value["provenance"], hashlib.sha256(raw).hexdigest())


def cases_of(edits: Sequence[PreparedEdit], prompt_format: Replay) -> list[Case]:
    """The edits as a replay target sees them, in their order."""
    return [_case(edit, prompt_format) for edit in edits]


def _case(edit: PreparedEdit, prompt_format: Replay) -> Case:
    job = edit.job
    request = ApplyRequest(original=job.original, update=job.update, path=job.path, strategy="model", constrain="none")
    answer = tuple(prompt_format.encode_output(edit.after))
    prompt = tuple(prompt_format.encode_prompt(job))
    return Case(edit.id, request, job, edit.after, prompt, answer, len(answer), reread=lambda: job)
