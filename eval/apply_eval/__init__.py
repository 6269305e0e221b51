"""`apply-eval`: the evaluation harness."""

from __future__ import annotations

import os

from apply_service.isolation import leave_current_folder


def main() -> int:
    """Run the command."""
    leave_current_folder()
    # As `build` sets it for the service, but before anything here imports torch, which reads it only once.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    from apply_eval.cli import main as run

    return run()
