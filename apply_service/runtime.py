"""Old name of what is in `target`."""

from apply_service.target import Runtime as Runtime
