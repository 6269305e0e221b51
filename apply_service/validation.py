"""Old name of what is in `pipeline`."""

from apply_service.pipeline import refuse_unknown_checks as refuse_unknown_checks
