"""The settings of a fleet: those of a single server, less what Ray decides, and how many ingresses there are.

Read once, where the application is built, from the configuration file's `args` alone: ingresses and engines get the
same values wherever they run, and no environment or file of a node changes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """Settings of every replica, and the number of ingresses."""

    settings: Settings
    n_ingresses: int = 1

    def __post_init__(self) -> None:
        if self.n_ingresses < 1:
            raise SettingsError(
                f"Bad value for {INGRESSES}.",
                value=self.n_ingresses,
                limit="1 or more",
                remedy="Raise it, or leave it out.",
            )
        self._refuse_open_doors()
        if self.n_ingresses > 1:
            self._refuse_split_memory()

    def _refuse_open_doors(self) -> None:
        if self.settings.keys_file is None and not self.settings.allow_open:
            raise SettingsError(
                "No API keys are configured.",
                limit="keys_file, or allow_open",
                remedy="Name a keys_file, or say allow_open: true where only a trusted network reaches Ray.",
            )

    def _refuse_split_memory(self) -> None:
        for name, value in PER_INGRESS.items():
            if getattr(self.settings, name) != value:
                raise SettingsError(
                    f"{name}: each of {self.n_ingresses} ingresses would keep or count it for itself.",
                    value=getattr(self.settings, name),
                    limit=value,
                    remedy=f"Have one ingress, or set {name} to {'null' if value is None else value}.",
                )


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
            why = MEANINGLESS.get(spec.name, "it is the command line's")
            raise SettingsError(
                f"{spec.name} has no meaning on Ray Serve: {why}.", value=values[spec.name], remedy="Remove it."
            )
    return FleetSettings(Settings(**values), n_ingresses)
