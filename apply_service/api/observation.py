"""What becomes of an edit when it has ended: its call learns of it, the metrics count it, and what is asked for beyond
that (a trace, its code in the log) is written.

Called once for each ticket, on the thread that ended it, in the context in which it was submitted.
"""

from __future__ import annotations

import logging

from apply_service.api.calls import current_call
from apply_service.errors import ApplyError
from apply_service.ticket import Ticket
from apply_service.types import FinalEvent

log = logging.getLogger("apply_service.edits")


def note_outcome(ticket: Ticket) -> None:
    """Tell the call how its edit ended."""
    call = current_call()
    if call is None:
        return
    if isinstance(ticket.terminal, FinalEvent):
        call.results.append(ticket.terminal.result)
    elif isinstance(ticket.terminal, ApplyError):
        call.note_error(ticket.terminal)


def log_code(ticket: Ticket) -> None:
    """Log the edit with its code: only where the settings ask for it."""
    request = ticket.request
    fields = {"original": request.original, "update": request.update, "instruction": request.instruction}
    if isinstance(ticket.terminal, FinalEvent):
        fields["merged_code"] = ticket.terminal.result.merged_code
    log.info("edit", extra={"fields": fields})
