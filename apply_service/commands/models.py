"""Runs `apply-service models`: lists the models that are here; `pull` downloads one and `rm` deletes one."""

from __future__ import annotations

import json
import shutil
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from apply_service.commands.output import OK, write_json, write_line, write_note
from apply_service.errors import InvalidField
from apply_service.models import EMBEDDED, embedded_directory, hub
from apply_service.settings import REMOTE_PREFIX, Settings


class ModelListing(NamedTuple):
    """What a model's files tell about it, without loading it."""

    name: str
    directory: str | None
    """The folder of the files; None if they are not here, or not in a folder of their own."""
    is_present: bool
    is_default: bool
    n_bytes: int = 0
    context_limit: int | None = None
    architecture: str | None = None
    is_named: bool = True
    """Whether a request may name it, with the current settings."""

    @property
    def description(self) -> str:
        if not self.is_present:
            if self.name in hub.KNOWN:
                return f"{hub.KNOWN[self.name].hub_id}, not downloaded: apply-service models pull {self.name}"
            return "not in this installation" if self.name == EMBEDDED else "from the Hugging Face hub"
        if self.directory is None:
            return str(self.architecture)
        context = "" if self.context_limit is None else f", context {self.context_limit}"
        return f"{self.architecture}, {self.n_bytes / 2**20:.1f} MiB{context}, {self.directory}"


def run(arguments: Namespace, settings: Settings) -> int:
    """Run `models` and return the exit code.  It lists models without reading weights, downloads one, or deletes one.

    Raises:
        InvalidField: `pull` or `rm` got no name, or `list` got one.
        UnknownModel: there is no such model.
        Unreachable: the hub can't be reached.
    """
    action, name = arguments.action, arguments.name
    if (name is None) != (action == "list"):
        raise InvalidField(
            f"models {action} takes {'no name' if name else 'the name of a model'}",
            value=name,
            remedy="see apply-service models --help",
        )
    if action == "pull":
        offer, model = hub.ask(name), hub.known(name)
        missing = (
            "" if offer.n_missing == offer.n_bytes else f", {offer.n_missing / 2**20:,.1f} MiB of it still to download"
        )
        write_note(f"{model.hub_id}: {offer.n_bytes / 2**20:,.1f} MiB{missing}; licence: {offer.licence}")
        pinned = "pinned" if model.revision else "the newest one; once downloaded, it is kept"
        write_note(f"Revision {offer.revision} ({pinned})")
        write_line(str(hub.pull(name, model.revision)))
        return OK
    if action == "rm":
        unpacked = {folder.name: folder for folder in (settings.state_path / "models").glob("*")}
        if name in unpacked:
            n_bytes = sum(path.stat().st_size for path in unpacked[name].glob("*"))
            shutil.rmtree(unpacked[name])
        else:
            n_bytes = hub.remove(name)
        write_note(f"Removed {name}: {n_bytes / 2**20:,.1f} MiB")
        return OK
    listings = list(_listings(settings))
    if arguments.json:
        write_json([one._asdict() for one in listings])
        return OK
    for one in listings:
        write_line(f"{'*' if one.is_default else ' '} {one.name}: {one.description}")
    return OK


def _listings(settings: Settings) -> Iterator[ModelListing]:
    """Yield the models that a request may name, then the short names, the unpacked GGUF files and other downloads."""
    for name, source in settings.model_sources.items():
        one = ModelListing(name, None, is_present=True, is_default=name == settings.model)
        if source.startswith(REMOTE_PREFIX):
            yield one._replace(architecture=f"asked at {settings.vllm_url or settings.remote_url}")
        elif (path := Path(source).expanduser()).is_file() and not hub.is_hub_name(source):
            yield one._replace(directory=str(path), n_bytes=path.stat().st_size, architecture="GGUF file")
        else:
            directory = embedded_directory() if source == EMBEDDED else path
            if hub.is_hub_name(source):
                directory = hub.find(source) or Path(hub.known(source).hub_id)
            yield _in_folder(one, directory)
    ids = {model.hub_id: name for name, model in hub.KNOWN.items()}
    for name in (*hub.KNOWN, *(hub_id for hub_id in sorted(hub.downloaded()) if hub_id not in ids)):
        folder = hub.find(name)
        if name in hub.KNOWN or folder is not None:
            yield _in_folder(ModelListing(name, None, True, is_default=False, is_named=False), folder)
    for folder in sorted((settings.state_path / "models").glob("*")):
        yield _in_folder(ModelListing(folder.name, None, True, is_default=False, is_named=False), folder)


def _in_folder(one: ModelListing, folder: Path | None) -> ModelListing:
    if folder is None or not (folder / "config.json").is_file():
        return one._replace(is_present=False)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return one._replace(
        directory=str(folder),
        n_bytes=sum(path.stat().st_size for path in folder.glob("*.safetensors")),
        context_limit=config.get("max_position_embeddings"),
        architecture=next(iter(config.get("architectures") or []), None),
    )
