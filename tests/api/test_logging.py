"""Log lines: text and JSON, ids in each, nothing that an exception says."""

import contextvars
import json
import logging
import sys

import pytest

from apply_service.api.calls import HttpCall, JsonFormatter, TextFormatter, configure_logging, current_call
from apply_service.settings import Settings


def record(message: str = "answered", **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("apply_service.access", logging.INFO, __file__, 1, message, (), None)
    made.created, made.msecs = 0.25, 250.0
    made.fields = fields
    return made


def test_a_line_of_json() -> None:
    line = json.loads(JsonFormatter().format(record(path="/a\n\ud800", status=200)))
    assert line == {
        "time": "1970-01-01T00:00:00.250Z",
        "level": "info",
        "logger": "apply_service.access",
        "message": "answered",
        "path": "/a\n\ud800",
        "status": 200,
    }


def test_a_line_of_text_stays_one_line() -> None:
    line = TextFormatter().format(record(path="/a\nERROR forged", empty="", codes=["x"], n=1))
    assert line == (
        "1970-01-01T00:00:00.250Z INFO apply_service.access: answered "
        r'path="/a\nERROR forged" empty="" codes=["x"] n=1'
    )


def test_the_id_of_the_request_stands_in_every_line_of_it() -> None:
    def within() -> tuple[str, str]:
        current_call.set(HttpCall("r-1"))
        return JsonFormatter().format(record()), TextFormatter().format(record())

    as_json, as_text = contextvars.copy_context().run(within)
    assert json.loads(as_json)["request_id"] == "r-1"
    assert 'request_id="r-1"' in as_text
    assert "request_id" not in JsonFormatter().format(record())


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_an_exception_is_its_kind_and_place(formatter: logging.Formatter) -> None:
    made = record("it broke")
    try:
        raise ValueError("the user's code")
    except ValueError:
        made.exc_info = sys.exc_info()
    line = formatter.format(made)
    assert "ValueError" in line
    assert "test_logging.py" in line
    assert "user's" not in line


def test_settings_choose_shape_and_level(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        configure_logging(Settings(log_format="json", log_level="warning"))
        logging.getLogger("x").info("quiet")
        logging.getLogger("x").warning("said")
        lines = capsys.readouterr().err.splitlines()
    finally:
        root.handlers[:], _ = before
        root.setLevel(before[1])
    assert [json.loads(line)["message"] for line in lines] == ["said"]
