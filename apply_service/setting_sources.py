"""Where settings are written: a TOML file and the environment.  The readers of both; `settings` says which one wins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from apply_service.disk.paths import platform_config_path
from apply_service.errors import SettingsError
from apply_service.setting_specs import ENV_PREFIX, SettingSpec, check_setting, parse_setting

CONFIG_VARIABLE = "APPLY_CONFIG"


def read_file(path: Path | None, specs: Sequence[SettingSpec]) -> Iterator[tuple[str, object]]:
    """Name and value of every setting in the file, checked; none where there is no file.  Raises SettingsError."""
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
    refuse_unknown(table, str(path), specs)
    for spec in specs:
        if spec.name in table:
            value = tuple(table[spec.name]) if spec.is_list and isinstance(table[spec.name], list) else table[spec.name]
            check_setting(spec, value, source=str(path))
            yield spec.name, value


def read_environment(environment: Mapping[str, str], specs: Sequence[SettingSpec]) -> Iterator[tuple[str, object]]:
    """Name and value of every setting in the environment, checked.  Raises SettingsError."""
    given = {key for key in environment if key.startswith(ENV_PREFIX)} - {CONFIG_VARIABLE}
    refuse_unknown({key.removeprefix(ENV_PREFIX).lower() for key in given}, "environment", specs)
    for spec in specs:
        if spec.variable in given:
            value = parse_setting(spec, environment[spec.variable], source=spec.variable)
            yield spec.name, value


def refuse_unknown(given: Mapping[str, object] | set[str], source: str, specs: Sequence[SettingSpec]) -> None:
    """Raises SettingsError where a name is no setting's."""
    known = [spec.name for spec in specs]
    for name in sorted(given):
        if name not in known:
            raise SettingsError(
                f"Unknown setting {name!r} ({source}).", value=name, limit=known, remedy="Correct or remove it."
            )


def config_path(config: str | Path | None, environment: Mapping[str, str]) -> Path | None:
    """The configuration file: the one that is named, else the platform's, if it is there."""
    named = config if config is not None else environment.get(CONFIG_VARIABLE)
    if named:
        return Path(named).expanduser()
    path = platform_config_path(environment)
    return path if path.is_file() else None
