"""Finds models by name: short names of known models, and files in the Hugging Face cache.

The hub's client library downloads files, resumes downloads and shows progress.  Only data is fetched (safetensors,
JSON, text and templates), unless the caller allows code.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apply_service.errors import (
    ApplyError,
    MissingDependency,
    ModelNotLoadable,
    UnknownModel,
    Unreachable,
    missing_extra,
)
from apply_service.models import EMBEDDED

HUB_ID = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
ERRNO = re.compile(r"\[Errno -?\d+\] ")
HUB_TIMEOUT_S = 10
DATA_FILES = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja")


@dataclass(frozen=True, slots=True)
class KnownModel:
    """The model of a short name.  `revision` is None if its commit hash could not be looked up.  In that case, `pull`
    takes the newest commit, and later starts take the commit that was pulled."""

    hub_id: str
    revision: str | None = None


KNOWN = {
    "fastapply-1.5b": KnownModel("Kortix/FastApply-1.5B-v1.0"),
    "fastapply-7b": KnownModel("Kortix/FastApply-7B-v1.0"),
    "osmosis-apply-1.7b": KnownModel("osmosis-ai/Osmosis-Apply-1.7B"),
    "aixapply-4b": KnownModel("aiXcoder/aiXapply-4B-SFT"),
    "aixapply-4b-rl": KnownModel("aiXcoder/aiXapply-4B-RL"),
    "qwen2.5-coder-0.5b": KnownModel("Qwen/Qwen2.5-Coder-0.5B-Instruct", "ea3f2471cf1b1f0db85067f1ef93848e38e88c25"),
    "qwen2.5-coder-1.5b": KnownModel("Qwen/Qwen2.5-Coder-1.5B-Instruct", "2e1fd397ee46e1388853d2af2c993145b0f1098a"),
    "qwen2.5-coder-7b": KnownModel("Qwen/Qwen2.5-Coder-7B-Instruct", "c03e6d358207e414f1eca0bb1891e29f1db0e242"),
}


@dataclass(frozen=True, slots=True)
class Offer:
    """A model on the hub: its total bytes, the bytes still to download, its commit and its licence."""

    n_bytes: int
    n_missing: int
    revision: str
    licence: str


def client() -> Any:
    """Return the hub's client library.  Raises MissingDependency if it is not installed."""
    try:
        import huggingface_hub
    except ImportError as error:
        raise missing_extra("Downloading models takes the package huggingface_hub", "models") from error
    return huggingface_hub


def is_hub_name(name: str) -> bool:
    """Tell whether a name means a model on the hub: a short name, or owner/name.

    Such a name means the hub even if there is a folder of that name here, because a cloned project may bring one.
    `./owner/name` names the folder.
    """
    return name in KNOWN or (HUB_ID.fullmatch(name) is not None and not name.endswith(".gguf"))


def known(name: str) -> KnownModel:
    """Return the model of a short name or of an id (owner/name).  Raises UnknownModel if the name is neither."""
    if (found := KNOWN.get(name)) is not None:
        return found
    if not HUB_ID.fullmatch(name):
        raise _unknown(name, "there is no such model")
    return KnownModel(name)


def ask(name: str) -> Offer:
    """Return what `pull` would download.

    Raises:
        MissingDependency: the hub's client library is not installed.
        UnknownModel: the hub has no such model.
        ModelNotLoadable: the disk is full or can't be written.
        Unreachable: the hub does not answer.
    """
    model, library = known(name), client()
    try:
        info = library.model_info(model.hub_id, revision=model.revision, timeout=HUB_TIMEOUT_S)
        wanted: dict[str, Any] = {"revision": info.sha, "allow_patterns": list(DATA_FILES)}
        files = library.snapshot_download(model.hub_id, **wanted, dry_run=True)
    except Exception as error:
        raise _not_found(name, error) from error
    n_missing = sum(file.file_size or 0 for file in files if not file.is_cached)
    licence = getattr(info.card_data, "license", None) or "not stated"
    return Offer(sum(file.file_size or 0 for file in files), n_missing, str(info.sha), str(licence))


def pull(name: str, revision: str | None = None, *, allow_code: bool = False) -> Path:
    """Download the missing files of a model, and return its folder.  Raises the errors of `ask`."""
    model, library = known(name), client()
    patterns = [*DATA_FILES, "*.py"] if allow_code else list(DATA_FILES)
    try:
        commit = revision or model.revision
        return Path(library.snapshot_download(model.hub_id, revision=commit, allow_patterns=patterns))
    except Exception as error:
        raise _not_found(name, error) from error


def find(name: str) -> Path | None:
    """Return the folder of a model if it is completely downloaded, or else None.  Asks no server.  Raises UnknownModel
    if the name is malformed."""
    model = known(name)
    try:
        library = client()
    except MissingDependency:
        return None
    wanted: dict[str, Any] = {"revision": model.revision, "allow_patterns": list(DATA_FILES)}
    try:
        return Path(library.snapshot_download(model.hub_id, **wanted, local_files_only=True))
    except library.errors.LocalEntryNotFoundError:
        return None


def find_or_pull(name: str, *, allow_code: bool) -> Path:
    """Return the folder of a model.  A model named by its id is downloaded if necessary; a model named by its short
    name must have been pulled before.

    Raises:
        UnknownModel: there is no such model, a short name's model is not downloaded, or the name is also that of a
            folder.
        MissingDependency, ModelNotLoadable, Unreachable: for the reasons given in `ask`.
    """
    folder = find(name)
    if folder is not None and (not allow_code or any(folder.glob("*.py"))):
        return folder
    if Path(name).is_dir():
        message = "this is a name of the hub, and there is a folder of that name too"
        remedy = f"write ./{name} for the folder, or run `apply-service models pull {name}` for the hub's model"
        raise UnknownModel(message, value=name, remedy=remedy)
    if name in KNOWN:
        raise UnknownModel(
            "this model has not been downloaded",
            value=name,
            limit=KNOWN[name].hub_id,
            remedy=f"run `apply-service models pull {name}`, which shows size and licence first",
        )
    library = client()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # standard error is the caller's
    try:  # one quick request first, because the client retries for a long time
        library.get_hf_file_metadata(library.hf_hub_url(name, "config.json"), timeout=HUB_TIMEOUT_S)
    except Exception as error:
        raise _not_found(name, error) from error
    return pull(name, allow_code=allow_code)


def downloaded() -> dict[str, Any]:
    """Return the models in the client's cache, by id."""
    try:
        library = client()
    except MissingDependency:
        return {}
    try:
        return {repo.repo_id: repo for repo in library.scan_cache_dir().repos if repo.repo_type == "model"}
    except library.errors.CacheNotFound:
        return {}


def remove(name: str) -> int:
    """Delete all downloaded files of a model, and return the number of freed bytes.  Raises UnknownModel if there are
    no such files."""
    hub_id = known(name).hub_id
    if (repo := downloaded().get(hub_id)) is None:
        raise UnknownModel(
            "this model is not downloaded, so it can't be removed",
            value=name,
            limit=sorted(downloaded()),
            remedy="name one that `apply-service models list` shows as downloaded",
        )
    plan = client().scan_cache_dir().delete_revisions(*(one.commit_hash for one in repo.revisions))
    plan.execute()
    return int(plan.expected_freed_size)


def first_line(error: Exception) -> str:
    """Return the first line of an error's text."""
    return str(error).strip().split("\n", 1)[0][:300]


def _not_found(name: str, error: Exception) -> ApplyError:
    """Return the ApplyError for an error of the client library."""
    library = client()
    if isinstance(error, library.errors.HfHubHTTPError) and error.response.status_code < 500:
        return _unknown(name, f"The hub has no such model, or does not give it to you: {first_line(error)}")
    is_disk = isinstance(error, OSError) and not isinstance(error, ConnectionError | FileNotFoundError | TimeoutError)
    if is_disk:
        return ModelNotLoadable(
            f"The model could not be downloaded: {first_line(error)}",
            value=name,
            remedy="Check that the disk has room and can be written, then try again.",
        )
    page = f"{library.constants.ENDPOINT}/{known(name).hub_id}/tree/{known(name).revision or 'main'}"
    return Unreachable(
        f"The model {name} cannot be downloaded, because the hub does not answer: {ERRNO.sub('', first_line(error))}",
        value=name,
        remedy=f"By hand: open {page} on a machine with a network, and copy the files {', '.join(DATA_FILES)} "
        "into one folder here. The page of each weights file shows its SHA-256: compare it with that of the copy. "
        "Then name the folder in place of the model: --model FOLDER.",
    )


def _unknown(name: str, message: str) -> UnknownModel:
    return UnknownModel(
        message,
        value=name,
        limit=[EMBEDDED, *KNOWN, "a folder", "a GGUF file", "a Hugging Face id (owner/name)"],
        remedy="check the spelling; `apply-service models` lists the models that you have",
    )
