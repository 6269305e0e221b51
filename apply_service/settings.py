"""Every setting of the service: name, default, range and explanation, each said once, here.

The only reader of the environment and of the configuration file.  It builds nothing: `build` turns a `Settings` into a
running service, and `serve --help` and the reference in `docs/` are printed from the fields below.

Precedence: command line > environment (`APPLY_QUEUE_LIMIT=8`) > file (`queue_limit = 8`, TOML) > default.  An unknown
key and a value out of range stop the start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from apply_service.errors import SettingsError
from apply_service.setting_specs import ENV_PREFIX, SettingSpec, check_setting, parse_setting, setting

CONFIG_VARIABLE = "APPLY_CONFIG"
NOT_SETTINGS = frozenset({CONFIG_VARIABLE, "APPLY_SHARED_DATA"})
"""Variables with our prefix that are no settings: the file's path, and extra data for the tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, checked.  Build it with `load_settings`; built by hand it is checked just the same."""

    host: str = setting(
        "127.0.0.1", "Address to listen on. Anything but loopback opens the service to a network.", group="http"
    )
    port: int = setting(8765, "Port to listen on; 0 takes a free one.", group="http", low=0, high=65535)
    queue_limit: int = setting(
        64, "Requests that may wait for the engine; one more is answered 429.", group="http", low=1, high=100_000
    )
    default_timeout_s: float = setting(
        120.0, "Deadline of a request that names none, in seconds.", group="http", low=0.001, high=86_400
    )
    max_timeout_s: float = setting(
        600.0, "Longest deadline a request may ask for, in seconds.", group="http", low=0.001, high=86_400
    )
    drain_timeout_s: float = setting(
        30.0, "How long a stopping server lets accepted requests finish, in seconds.", group="http", low=0, high=86_400
    )
    max_body_bytes: int = setting(
        16 * 2**20, "Largest request body, in bytes; a larger one is answered 413.", group="http", low=1024, high=2**31
    )
    max_lines: int = setting(
        200_000, "Most lines in an original or an update; more are answered 413.", group="http", low=1, high=100_000_000
    )
    keys_file: str | None = setting(
        None, "File of hashed API keys (`apply-service key`); with none, every caller is let in.", group="http"
    )
    allow_open: bool = setting(
        False,
        "Listen beyond loopback although there are no API keys. Anyone who can reach it may use it.",
        group="http",
    )
    rate_limit: int | None = setting(
        None, "Requests a minute of each API key; one more is answered 429.", group="http", low=1, high=1_000_000
    )
    concurrency_limit: int | None = setting(
        None, "Requests of each API key at once; one more is answered 429.", group="http", low=1, high=100_000
    )
    in_flight_limit: int = setting(
        512,
        "Requests at once over all keys, those being read or written included; one more is answered 429.",
        group="http",
        low=1,
        high=100_000,
    )
    body_timeout_s: float = setting(
        30.0,
        "How long a client may take to send its headers, and then its body, in seconds.",
        group="http",
        low=0.01,
        high=86_400,
    )
    write_timeout_s: float = setting(
        60.0,
        "How long a client may leave a piece of its answer unread, in seconds.",
        group="http",
        low=0.01,
        high=86_400,
    )
    idempotency_ttl_s: float = setting(
        600.0,
        "How long an answer is kept for its Idempotency-Key, in seconds; 0 keeps none.",
        group="http",
        low=0,
        high=86_400,
    )
    idempotency_bytes: int = setting(
        64 * 2**20,
        "Memory for kept answers, in bytes; the least recently used go first.",
        group="http",
        low=1024,
        high=2**36,
    )
    cors_origins: tuple[str, ...] = setting(
        (), "Origins whose web pages may call the service, as `https://example.org`; `*` is all.", group="http"
    )
    log_level: str = setting(
        "info",
        "Least severity that is logged.",
        group="http",
        choices=("debug", "info", "warning", "error"),
    )
    log_format: str = setting("text", "Shape of a log line.", group="http", choices=("text", "json"))
    log_code: bool = setting(
        False,
        "Log the code of every edit as well: original, update and result. Otherwise logs never hold code.",
        group="http",
    )
    trace_endpoint: str | None = setting(
        None,
        "OTLP/HTTP URL that OpenTelemetry traces are sent to; none sends none. Needs the extra `otel`.",
        group="http",
    )

    model: str = setting(
        "embedded",
        "Target model: `embedded`, a folder, a Hugging Face id, or `replay:SHAPE` to measure speed.",
        group="engine",
    )
    models: tuple[str, ...] = setting(
        (),
        "More models that requests may name: NAME, or NAME=SOURCE (as for `model`). Each is loaded on first use.",
        group="engine",
    )
    model_aliases: tuple[str, ...] = setting(
        (
            "auto",
            "Fast-Apply",
            "fastapply-1.5b",
            "morph-v2",
            "morph-v3-fast",
            "morph-v3-large",
            "morph/morph-v3-fast",
            "morph/morph-v3-large",
            "relace-apply-2.5-lite",
            "relace-apply-3",
            "relace/relace-apply-3",
            "mercury-coder",
            "mercury-edit",
        ),
        "Other names that HTTP clients may give a model: NAME stands for the service's own, NAME=MODEL for that one.",
        group="http",
    )
    stream_at_once: bool = setting(
        False,
        "OpenAI-like streams send text as it is decoded; otherwise once nothing can replace it any more.",
        group="http",
    )
    device: str = setting(
        "auto",
        "Where the model runs; `auto` takes CUDA where there is one.",
        group="engine",
        choices=("auto", "cpu", "cuda", "mps"),
    )
    dtype: str = setting(
        "auto",
        "Number format of the weights; `auto` takes what suits the device.",
        group="engine",
        choices=("auto", "float32", "bfloat16"),
    )
    window: int | None = setting(
        None, "Draft tokens verified in one pass; none lets the engine choose.", group="engine", low=1, high=8192
    )
    max_active: int = setting(
        64, "Requests decoded at a time, in shared passes; more wait in the queue.", group="engine", low=1, high=4096
    )
    kv_cache_mb: int = setting(
        1024,
        "Memory for keys and values of all requests, in MiB; at least one full context is taken.",
        group="engine",
        low=1,
        high=2**22,
    )
    prefix_cache_mb: int = setting(
        256,
        "Of that, how much may hold prompts already read, for edits of the same file; 0 keeps none.",
        group="engine",
        low=0,
        high=2**22,
    )
    drafter: str = setting(
        "merged_edit",
        "Drafter of a request that names none. It changes the speed, never the answer.",
        group="engine",
    )
    allow_remote_code: bool = setting(
        False, "Run Python code that comes with a model. Only for models you trust.", group="engine"
    )
    torch_threads: int | None = setting(
        None, "CPU threads of a forward pass; none leaves it to torch.", group="engine", low=1, high=1024
    )

    server: str | None = setting(
        None, "URL of a running service that `apply` asks instead of loading a model.", group="command"
    )
    api_key: str | None = setting(None, "API key that `apply` sends to `server`.", group="command")
    color: str = setting(
        "auto",
        "Coloured diffs; `auto` colours a terminal unless NO_COLOR is set.",
        group="command",
        choices=("auto", "always", "never"),
    )
    state_dir: str | None = setting(
        None, "Folder for backups; none takes the platform's own place for state.", group="backups"
    )
    backups_kept: int = setting(
        10, "Backups kept of each file that `--in-place` changed.", group="backups", low=1, high=10_000
    )

    def __post_init__(self) -> None:
        for spec in setting_specs():
            check_setting(spec, getattr(self, spec.name), source="argument")

    @property
    def state_path(self) -> Path:
        """Where backups go; never created here."""
        return Path(self.state_dir).expanduser() if self.state_dir is not None else _platform_state_path()


@cache
def setting_specs() -> tuple[SettingSpec, ...]:
    """All settings in the order of the class."""
    hints = get_type_hints(Settings)
    return tuple(SettingSpec.of(item, hints[item.name]) for item in fields(Settings))


def load_settings(
    command_line: Mapping[str, object] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    config: str | Path | None = None,
) -> Settings:
    """The settings in force.  `command_line` holds only what was given there; a None in it counts as not given.

    `environment` is the process's own unless passed.  The file is `config`, else APPLY_CONFIG, else the platform's
    configuration folder, where it may be missing.

    Raises:
        SettingsError: names the key, where it stands, its value and the range.
    """
    environment = os.environ if environment is None else environment
    values: dict[str, Any] = dict(_from_file(_config_path(config, environment)))
    values |= dict(_from_environment(environment))
    values |= {name: value for name, value in (command_line or {}).items() if value is not None}
    _refuse_unknown(values, "command line")
    return Settings(**values)


def is_color_wanted(settings: Settings, is_terminal: bool, environment: Mapping[str, str] | None = None) -> bool:
    """Whether output is to be coloured."""
    environment = os.environ if environment is None else environment
    if settings.color == "auto":
        return is_terminal and not environment.get("NO_COLOR")
    return settings.color == "always"


# -- sources -----------------------------------------------------------------------------------------------------------
def _from_file(path: Path | None) -> Iterator[tuple[str, object]]:
    if path is None:
        return
    import tomllib  # most commands have no file to read, and start sooner without

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(
            f"The configuration file cannot be read: {error}",
            value=str(path),
            remedy="Mend the file, or name another by --config.",
        ) from error
    _refuse_unknown(table, str(path))
    for spec in setting_specs():
        if spec.name in table:
            value = tuple(table[spec.name]) if spec.is_list and isinstance(table[spec.name], list) else table[spec.name]
            check_setting(spec, value, source=str(path))
            yield spec.name, value


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, object]]:
    given = {key for key in environment if key.startswith(ENV_PREFIX)} - NOT_SETTINGS
    _refuse_unknown({key.removeprefix(ENV_PREFIX).lower() for key in given}, "environment")
    for spec in setting_specs():
        if spec.variable in given:
            value = parse_setting(spec, environment[spec.variable], source=spec.variable)
            yield spec.name, value


def _refuse_unknown(given: Mapping[str, object] | set[str], source: str) -> None:
    known = [spec.name for spec in setting_specs()]
    for name in sorted(given):
        if name not in known:
            raise SettingsError(
                f"Unknown setting {name!r} ({source}).", value=name, limit=known, remedy="Correct or remove it."
            )


def _config_path(config: str | Path | None, environment: Mapping[str, str]) -> Path | None:
    named = config if config is not None else environment.get(CONFIG_VARIABLE)
    if named:
        return Path(named).expanduser()
    path = _platform_config_path(environment)
    return path if path.is_file() else None


# -- platform ----------------------------------------------------------------------------------------------------------
def _platform_config_path(environment: Mapping[str, str]) -> Path:
    if sys.platform == "win32":
        root = environment.get("APPDATA") or str(Path.home() / "AppData" / "Roaming")
    else:
        root = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(root) / "apply-service" / "config.toml"


def _platform_state_path() -> Path:
    if sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        root = os.environ.get("XDG_STATE_HOME") or str(Path.home() / "Library" / "Application Support")
    else:
        root = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(root) / "apply-service"
