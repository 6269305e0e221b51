"""Where this platform keeps a program's configuration and its state; nothing is made here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path


def platform_config_path(environment: Mapping[str, str]) -> Path:
    """Where the configuration file is looked for."""
    if sys.platform == "win32":
        root = environment.get("APPDATA") or str(Path.home() / "AppData" / "Roaming")
    else:
        root = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(root) / "apply-service" / "config.toml"


def platform_state_path(environment: Mapping[str, str]) -> Path:
    """Where the program's own files go."""
    if sys.platform == "win32":
        root = environment.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        root = environment.get("XDG_STATE_HOME") or str(Path.home() / "Library" / "Application Support")
    else:
        root = environment.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(root) / "apply-service"
