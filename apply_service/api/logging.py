"""Log lines of a server: text for people, JSON for collectors, both with the id of the request they belong to.

Logs hold no code: loggers of this package write names and numbers, foreign exceptions are logged by kind and place
(`middleware`, `service`), and `log_code` is the one way to have texts of edits in them.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from apply_service.api.calls import current_call
from apply_service.settings import Settings

PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:,+@")
QUIET = ("httpx", "urllib3", "opentelemetry")
"""Libraries that log each of their own requests."""


def configure_logging(settings: Settings) -> None:
    """Send the process's logs to standard error, as the settings say."""
    formatter = JsonFormatter() if settings.log_format == "json" else TextFormatter()
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (UTC), level, logger, message, request_id, and the fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
            **_fields(record),
        }
        # ASCII only: a path may hold lone surrogates, which UTF-8 cannot.
        return json.dumps(line, ensure_ascii=True, default=str)


class TextFormatter(logging.Formatter):
    """`time LEVEL logger: message key=value ...`; a value with spaces or control characters is written as JSON."""

    def format(self, record: logging.LogRecord) -> str:
        words = "".join(f" {name}={_word(value)}" for name, value in _fields(record).items())
        return f"{_time(record)} {record.levelname} {record.name}: {_message(record)}{words}"


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    call = current_call()
    given: dict[str, Any] = getattr(record, "fields", {})
    return ({} if call is None else {"request_id": call.request_id}) | given


def _message(record: logging.LogRecord) -> str:
    """The message, and where an exception came from; not what the exception says, which may quote code."""
    text = record.getMessage()
    if record.exc_info is not None and record.exc_info[0] is not None:
        text += f" [{record.exc_info[0].__name__}{_place(record.exc_info[2])}]"
    return text


def _place(trace: Any) -> str:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


def _time(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def _word(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if text and not set(text) - PLAIN else json.dumps(value, default=str)
