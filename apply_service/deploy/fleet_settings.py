"""The settings of a fleet: those of a single server, less what Ray decides, and how many ingresses there are.

Read once, where the application is built, from the configuration file's `args` alone: ingresses and engines get the
same values wherever they run, and no environment or file of a node changes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from apply_service.errors import SettingsError
from apply_service.settings import Settings, refuse_unknown, setting_specs

INGRESSES = "ingresses"
MEANINGLESS = {
    "host": "`http_options.host` says where Ray listens",
    "port": "`http_options.port` says where Ray listens",
    "write_timeout_s": "Ray writes the answers",
    "backups_kept": "it is the command line's",
}
"""Settings of the single server's listener and of files on disk; those of group `command` mean nothing here either."""
PER_INGRESS = {"idempotency_ttl_s": 0, "rate_limit": None, "concurrency_limit": None}
"""What each ingress keeps or counts for itself -> the value with which it does not."""


class FleetSettings(NamedTuple):
    """Settings of every replica, and the number of ingresses."""

    settings: Settings
    n_ingresses: int = 1


def read_fleet_settings(args: Mapping[str, Any]) -> FleetSettings:
    """From the `args` of a configuration file; what they leave out has its default.

    Raises:
        SettingsError: a name is unknown or means nothing here, a value is out of range, callers would be let in without
            a key although nobody said so, or several ingresses would each keep what must be kept once.
    """
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in args.items()}
    n_ingresses = values.pop(INGRESSES, 1)
    specs = setting_specs()
    refuse_unknown(values, "args")
    for spec in specs:
        if spec.name in values and (spec.name in MEANINGLESS or spec.group == "command"):
            message = (
                f"{spec.name} has no meaning on Ray Serve: {MEANINGLESS.get(spec.name, MEANINGLESS['backups_kept'])}"
            )
            raise SettingsError(message, value=values[spec.name], remedy="remove it")
    settings = Settings(**values)
    if n_ingresses < 1:
        message, remedy = f"bad value for {INGRESSES}", "raise it, or leave it out"
        raise SettingsError(message, value=n_ingresses, limit="1 or more", remedy=remedy)
    if settings.keys_file is None and not settings.allow_open:
        remedy = "name a keys_file, or say allow_open: true where only a trusted network reaches Ray"
        raise SettingsError("no API keys are configured", limit="keys_file, or allow_open", remedy=remedy)
    for name, value in PER_INGRESS.items() if n_ingresses > 1 else ():
        if getattr(settings, name) != value:
            raise SettingsError(
                f"{name}: each of {n_ingresses} ingresses would keep or count it for itself",
                value=getattr(settings, name),
                limit=value,
                remedy=f"have one ingress, or set {name} to {'null' if value is None else value}",
            )
    return FleetSettings(settings, n_ingresses)
