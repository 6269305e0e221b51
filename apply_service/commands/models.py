"""`apply-service models`: which models a request may name here, without loading any."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import asdict, dataclass
from pathlib import Path

from apply_service.commands.exit_codes import OK
from apply_service.commands.output import write_line
from apply_service.engine.replay_shapes import PREFIX, find_shape, replay_directory
from apply_service.model_folder import EMBEDDED, embedded_directory
from apply_service.remote.endpoint import PREFIX as REMOTE_PREFIX
from apply_service.settings import Settings


@dataclass(frozen=True, slots=True)
class ModelListing:
    """What can be said of a model from its files."""

    name: str
    directory: str | None
    """None where the files are not in a folder of their own: in the hub's cache, to be downloaded, or elsewhere."""
    is_present: bool
    is_default: bool
    n_bytes: int = 0
    context_limit: int | None = None
    architecture: str | None = None


def run(arguments: Namespace, settings: Settings) -> int:
    """Run the command; the exit code."""
    listings = [describe(name, settings) for name in settings.model_sources]
    if arguments.json:
        write_line(json.dumps([asdict(listing) for listing in listings]))
    else:
        for listing in listings:
            write_line(_line(listing))
    return OK


def describe(name: str, settings: Settings) -> ModelListing:
    """A model by name; reads its configuration, not its weights."""
    source = settings.model_sources.get(name, name)
    directory = embedded_directory() if source == EMBEDDED else Path(source).expanduser()
    is_default = name == settings.model
    if source.startswith(PREFIX):
        shape = find_shape(source)
        kind = f"{shape.family}, {shape.n_params / 1e6:,.0f}M random weights that measure speed alone"
        return ModelListing(name, str(replay_directory()), True, is_default, 0, shape.context, kind)
    if source.startswith(REMOTE_PREFIX):
        return ModelListing(
            name, None, True, is_default, architecture=f"asked at {settings.vllm_url or settings.remote_url}"
        )
    config_path = directory / "config.json"
    if not config_path.is_file():
        return ModelListing(name, None, False, is_default)
    config = json.loads(config_path.read_text(encoding="utf-8"))
    return ModelListing(
        name=name,
        directory=str(directory),
        is_present=True,
        is_default=is_default,
        n_bytes=sum(path.stat().st_size for path in directory.glob("*.safetensors")),
        context_limit=config.get("max_position_embeddings"),
        architecture=next(iter(config.get("architectures") or []), None),
    )


def _line(listing: ModelListing) -> str:
    mark = "* " if listing.is_default else "  "
    if not listing.is_present:
        where = "not in this installation" if listing.name == EMBEDDED else "from the Hugging Face cache or hub"
        return f"{mark}{listing.name}: {where}"
    if listing.directory is None:
        return f"{mark}{listing.name}: {listing.architecture}"
    return (
        f"{mark}{listing.name}: {listing.architecture}, {listing.n_bytes / 2**20:.1f} MiB, "
        f"context {listing.context_limit}, {listing.directory}"
    )
