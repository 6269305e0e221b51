"""What a tree makes of every input: `python -P probe.py INPUTS OUT`, with the tree first on `PYTHONPATH`.

This file runs on commits that know nothing of it, so it imports the package alone, and of that what has long had its
name.  What a restructuring moves is found through `ADAPTERS`.  Each line of OUT is an input's id and, of each aspect,
the hash of its canonical JSON, or with `--values` the value itself.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any
from zlib import crc32

import apply_service
from apply_service.batch import BatchItem, PatchRequest, PatchSource
from apply_service.errors import ApplyError
from apply_service.pipeline import read_request, run
from apply_service.protocols import EditJob
from apply_service.target import Runtime, no_target
from apply_service.types import ApplyRequest, ApplyResult, FinalEvent, Prediction

ASPECTS = ("text", "probability", "reasons", "findings", "features", "error")
ADAPTERS = (
    "apply_service.merge.readings:readings",
    "apply_service.merge.merge:readings",
    "apply_service.edits.lazy.merge:readings",
)
"""Where the readings of a lazy snippet, unranked, with all their features may be found; the first that is there counts.
Each is called as `readings(original, update, language=, path=, instruction=)` and gives readings, or pairs that
begin with one.  A tree that moves the function adds its new place, and keeps the old one for earlier commits."""
NORMALISE = ("apply_service.text.fidelity:normalise", "apply_service.edits.fidelity:normalise")
"""The same of the function that gives a text LF line ends."""
APPLY_PATCH = ("apply_service.batch.run:apply_patch_request", "apply_service.batch.patch:apply_patch_request")
"""And of the function that applies a patch over several files."""

A_DEEP = 3
"""Of so many lazy snippets one has the features of all its readings compared, the others those of the readings that the
merger ranks highest: finding all takes as long as the merge."""

Value = dict[str, Any]


def find_function(places: Iterable[str] = ADAPTERS) -> Callable[..., Any]:
    """The first of these functions that the package has.  Raises ImportError: it has none."""
    for place in places:
        module, _, name = place.partition(":")
        try:
            return getattr(import_module(module), name)  # type: ignore[no-any-return]
        except (ImportError, AttributeError):
            continue
    raise ImportError(
        "a function moved: add its new place to ADAPTERS, NORMALISE or APPLY_PATCH in tests/same/probe.py"
    )


# -- one input ---------------------------------------------------------------------------------------------------------
def probe(given: Mapping[str, Any], readings: Callable[..., Any]) -> Value:
    """Everything that the tree says of an input, by aspect.  What is raised is part of it."""
    if "patch" in given:
        return _of_patch(given)
    runtime = Runtime(load=no_target)
    values: Value = dict.fromkeys(ASPECTS)
    request = ApplyRequest(**given["request"], strategy="exact", diff=True)
    try:
        edit = read_request(request, runtime)
        values = _of_prediction(edit.job)
        if edit.job.format == "lazy_snippet" and crc32(given["id"].encode()) % A_DEEP == 0:
            values["features"] = _of_readings(readings, request, edit.job)
        values["findings"] += [asdict(one) for one in edit.checks or ()]
        (final,) = run(request, runtime, None, edit)
        assert isinstance(final, FinalEvent), "a program needs no passes"
        _add_result(values, final.result)
    except ApplyError as error:
        values["error"] = error.as_dict()
    except Exception as crash:
        values["error"] = {"code": "crash", "message": f"{type(crash).__name__}: {crash}"}
    return values


def _of_prediction(job: EditJob) -> Value:
    """The merge as it was predicted, before anything was decided."""
    prediction: Prediction = job.prediction
    names = [(_name(one), _digest(one.text), one.ops) for one in prediction.readings]
    return {
        "text": {
            "format": job.format,
            "update": job.update,
            "ops": prediction.ops,
            "update_lines": prediction.update_lines,
            "unplaced": prediction.unplaced,
            "ends": prediction.ends,
            "readings": names,
        },
        "probability": {
            "probability": prediction.probability,
            "readings": [one.probability for one in prediction.readings],
        },
        "reasons": {
            "certainty": prediction.certainty.value,
            "determined": prediction.determined,
            "reasons": prediction.reasons,
        },
        "findings": [asdict(one) for one in job.findings],
        "features": [dict(one.features) for one in prediction.readings],
        "error": None,
    }


def _of_readings(readings: Callable[..., Any], request: ApplyRequest, job: EditJob) -> list[Any]:
    """All readings of a lazy snippet, also those that the merger leaves out: name, text, features."""
    original = find_function(NORMALISE)(request.original)
    if not original.strip():
        return []
    about = {"language": job.language, "path": job.path, "instruction": job.instruction}
    found = [one if hasattr(one, "text") else one[0] for one in readings(original, job.update, **about)]
    return [(_name(one), _digest(one.text), dict(one.features)) for one in found]


def _name(reading: Any) -> str:
    """How the reading was found.  Earlier trees call it `name`."""
    return str(reading.way) if hasattr(reading, "way") else str(reading.name)


def _add_result(values: Value, result: ApplyResult) -> None:
    values["text"] |= {
        "merged_code": result.merged_code,
        "diff": result.diff,
        "edits": [asdict(one) for one in result.edits],
        "spans": [asdict(one) for one in result.spans],
        "hunks": [asdict(one) | {"confidence": None} for one in result.hunks],
        "reading": result.reading,
        "hashes": (result.source_sha256, result.result_sha256),
    }
    values["probability"] |= {
        "confidence": result.confidence,
        "kind": result.confidence_kind,
        "hunks": [one.confidence for one in result.hunks],
    }
    values["reasons"] |= {"told": result.reasons, "told_certainty": result.certainty}
    values["findings"] += [*map(asdict, result.verdicts), *map(asdict, result.readings)]


def _of_patch(given: Mapping[str, Any]) -> Value:
    """What becomes of every file of a patch."""
    values: Value = dict.fromkeys(ASPECTS)
    sources = tuple(PatchSource(path, text) for path, text in given["files"])
    try:
        batch = find_function(APPLY_PATCH)(PatchRequest(given["patch"], sources, mode="independent", diff=True))
    except ApplyError as error:
        return {**values, "error": error.as_dict()}
    except Exception as crash:
        return {**values, "error": {"code": "crash", "message": f"{type(crash).__name__}: {crash}"}}
    items = [_of_item(item) for item in batch.items]
    return {name: [item[name] for item in items] for name in ASPECTS}


def _of_item(item: BatchItem) -> Value:
    names: Value = {name: getattr(item, name) for name in ("path", "source", "action", "status", "new_mode", "diff")}
    values: Value = {**dict.fromkeys(ASPECTS), "text": names, "probability": {}, "reasons": {}, "findings": []}
    if item.result is not None:
        _add_result(values, item.result)
    values["findings"] += map(asdict, item.verdicts)
    values["error"] = item.error and item.error.as_dict()
    return values


# -- all inputs --------------------------------------------------------------------------------------------------------
def canonical(value: object) -> str:
    """The same JSON for the same value: floats at full precision, names in order, lone surrogates kept."""
    return json.dumps(value, sort_keys=True, default=_plain)


def _plain(value: Any) -> object:
    """What JSON lacks: NumPy's numbers as Python's, sets in order, anything else as it shows itself."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return sorted(value) if isinstance(value, set | frozenset) else repr(value)


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def hash_values(values: Mapping[str, object]) -> dict[str, str]:
    """The hash of each aspect."""
    return {name: _digest(canonical(values[name])) for name in ASPECTS}


def probe_all(inputs: Iterable[str], *, with_values: bool) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Each input's id with its hashes or values; `inputs` are lines of JSON."""
    readings = find_function()
    for line in inputs:
        given = json.loads(line)
        values = probe(given, readings)
        yield given["id"], values if with_values else hash_values(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("inputs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tree", type=Path, required=True, help="that the package must come from")
    parser.add_argument("--values", action="store_true")
    options = parser.parse_args()
    home = Path(apply_service.__file__).resolve()
    if not home.is_relative_to(options.tree.resolve()):
        parser.error(f"the package is imported from {home}")
    with options.inputs.open(encoding="utf-8") as inputs, options.out.open("w", encoding="utf-8") as out:
        for name, values in probe_all(inputs, with_values=options.values):
            out.write(canonical([name, values]) + "\n")


if __name__ == "__main__":
    main()
