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
from dataclasses import Field, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

from apply_service.errors import SettingsError

ENV_PREFIX = "APPLY_"
CONFIG_VARIABLE = "APPLY_CONFIG"
NOT_SETTINGS = frozenset({CONFIG_VARIABLE, "APPLY_SHARED_DATA"})
"""Variables with our prefix that are no settings: the file's path, and extra data for the tests."""

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off"})
NONE_WORDS = frozenset({"", "none"})


def _setting(
    default: Any,
    text: str,
    *,
    group: str,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    metadata = {"help": text, "group": group, "low": low, "high": high, "choices": choices}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, checked.  Build it with `load_settings`; built by hand it is checked just the same."""

    host: str = _setting(
        "127.0.0.1", "Address to listen on. Anything but loopback opens the service to a network.", group="http"
    )
    port: int = _setting(8765, "Port to listen on; 0 takes a free one.", group="http", low=0, high=65535)
    queue_limit: int = _setting(
        64, "Requests that may wait for the engine; one more is answered 429.", group="http", low=1, high=100_000
    )
    default_timeout_s: float = _setting(
        120.0, "Deadline of a request that names none, in seconds.", group="http", low=0.001, high=86_400
    )
    max_timeout_s: float = _setting(
        600.0, "Longest deadline a request may ask for, in seconds.", group="http", low=0.001, high=86_400
    )
    drain_timeout_s: float = _setting(
        30.0, "How long a stopping server lets accepted requests finish, in seconds.", group="http", low=0, high=86_400
    )
    max_body_bytes: int = _setting(
        16 * 2**20, "Largest request body, in bytes; a larger one is answered 413.", group="http", low=1024, high=2**31
    )
    max_lines: int = _setting(
        200_000, "Most lines in an original or an update; more are answered 413.", group="http", low=1, high=100_000_000
    )
    log_level: str = _setting(
        "info",
        "Least severity that is logged. Logs never hold code.",
        group="http",
        choices=("debug", "info", "warning", "error"),
    )

    model: str = _setting("embedded", "Target model: `embedded`, a folder, or a Hugging Face id.", group="engine")
    device: str = _setting(
        "auto",
        "Where the model runs; `auto` takes CUDA where there is one.",
        group="engine",
        choices=("auto", "cpu", "cuda", "mps"),
    )
    dtype: str = _setting(
        "auto",
        "Number format of the weights; `auto` takes what suits the device.",
        group="engine",
        choices=("auto", "float32", "bfloat16"),
    )
    window: int | None = _setting(
        None, "Draft tokens verified in one pass; none lets the engine choose.", group="engine", low=1, high=8192
    )
    drafter: str = _setting(
        "merged_edit",
        "Drafter of a request that names none. It changes the speed, never the answer.",
        group="engine",
    )
    allow_remote_code: bool = _setting(
        False, "Run Python code that comes with a model. Only for models you trust.", group="engine"
    )
    torch_threads: int | None = _setting(
        None, "CPU threads of a forward pass; none leaves it to torch.", group="engine", low=1, high=1024
    )

    server: str | None = _setting(
        None, "URL of a running service that `apply` asks instead of loading a model.", group="command"
    )
    color: str = _setting(
        "auto",
        "Coloured diffs; `auto` colours a terminal unless NO_COLOR is set.",
        group="command",
        choices=("auto", "always", "never"),
    )
    state_dir: str | None = _setting(
        None, "Folder for backups; none takes the platform's own place for state.", group="backups"
    )
    backups_kept: int = _setting(
        10, "Backups kept of each file that `--in-place` changed.", group="backups", low=1, high=10_000
    )

    def __post_init__(self) -> None:
        for spec in setting_specs():
            _check(spec, getattr(self, spec.name), source="argument")

    @property
    def state_path(self) -> Path:
        """Where backups go; never created here."""
        return Path(self.state_dir).expanduser() if self.state_dir is not None else _platform_state_path()


@dataclass(frozen=True, slots=True)
class SettingSpec:
    """One setting as documentation, argument parser and checker see it."""

    name: str
    kind: type
    is_optional: bool
    default: object
    help: str
    group: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return ENV_PREFIX + self.name.upper()

    @property
    def default_text(self) -> str:
        """The default as it would be written in the environment."""
        if self.default is None:
            return "none"
        return str(self.default).lower() if self.kind is bool else str(self.default)

    @property
    def range(self) -> str:
        """The allowed values in words."""
        if self.choices:
            words = " | ".join(self.choices)
        elif self.kind is bool:
            words = "true | false"
        elif self.low is not None:
            words = f"{_number(self.low)} to {_number(self.high)}"
        else:
            words = "text"
        return f"{words}, or none" if self.is_optional else words


@cache
def setting_specs() -> tuple[SettingSpec, ...]:
    """All settings in the order of the class."""
    hints = get_type_hints(Settings)
    return tuple(_spec(item, hints[item.name]) for item in fields(Settings))


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
            _check(spec, table[spec.name], source=str(path))
            yield spec.name, table[spec.name]


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


# -- values ------------------------------------------------------------------------------------------------------------
def parse_setting(spec: SettingSpec, text: str, *, source: str) -> object:
    """The value that `text`, from the environment or the command line, stands for; checked."""
    value: object = text
    if spec.is_optional and text.lower() in NONE_WORDS:
        value = None
    elif spec.kind is bool:
        value = True if text.lower() in TRUE_WORDS else False if text.lower() in FALSE_WORDS else text
    elif spec.kind in (int, float):
        value = _parse_number(spec.kind, text)
    _check(spec, value, source=source)
    return value


def _parse_number(kind: type, text: str) -> object:
    try:
        return kind(text)
    except ValueError:
        return text


def _check(spec: SettingSpec, value: object, *, source: str) -> None:
    if not _is_allowed(spec, value):
        raise SettingsError(
            f"Bad value for {spec.name} ({source}): {value!r}; allowed: {spec.range}.",
            value=value,
            limit=spec.range,
            remedy=f"Set {spec.name} within its range.",
        )


def _is_allowed(spec: SettingSpec, value: object) -> bool:
    if value is None:
        return spec.is_optional
    if isinstance(value, bool) or spec.kind is bool:
        return isinstance(value, bool) and spec.kind is bool
    if not isinstance(value, (int, float) if spec.kind is float else spec.kind):
        return False
    if spec.choices:
        return value in spec.choices
    if spec.low is None or spec.high is None:
        return value != ""
    return isinstance(value, (int, float)) and spec.low <= value <= spec.high


def _spec(item: Field[Any], hint: Any) -> SettingSpec:
    kinds = get_args(hint) or (hint,)
    return SettingSpec(
        name=item.name,
        kind=kinds[0],
        is_optional=type(None) in kinds,
        default=item.default,
        help=item.metadata["help"],
        group=item.metadata["group"],
        low=item.metadata["low"],
        high=item.metadata["high"],
        choices=item.metadata["choices"],
    )


def _number(value: float | None) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


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
