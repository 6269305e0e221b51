"""`apply-eval`: the evaluation harness."""

from __future__ import annotations

import os

from apply_service.commands.output import print_error
from apply_service.errors import missing_extra
from apply_service.isolation import leave_current_folder


def main() -> int:
    """The command.  Its packages are an extra: what is missing is told by an error, not by a traceback."""
    leave_current_folder()
    # As `build` sets it for the service, but before anything here imports torch, which reads it only once.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        from apply_eval.cli import main as run

        return run()
    except ModuleNotFoundError as error:
        print_error(missing_extra(f"apply-eval takes packages like {error.name}", "eval"))
        return 2
