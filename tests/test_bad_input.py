"""What no edit can be made of: one typed error each, the same in CLI and HTTP, and the file untouched."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from starlette.testclient import TestClient

from apply_service import build
from apply_service.api.app import create_app
from apply_service.build import open_service
from apply_service.cli import main
from apply_service.errors import UnknownModel
from apply_service.settings import Settings
from apply_service.target import Runtime, Target
from tests.commands.conftest import errors_told, last_code  # noqa: F401
from tests.fake_engine import FakeEngine, hashed
from tests.plain_bytes import N_VOCAB, PlainBytes

GOOD = b"a = 1\nb = 2\n"
LATIN = "caf\xe9 = 1\n".encode("latin-1")


class Case(NamedTuple):
    """A file, an edit and options; the error that comes of them."""

    name: str
    code: str
    status: int
    exit_code: int
    data: bytes = GOOD
    update: bytes = b"a = 2\n# ... existing code ...\n"
    options: tuple[str, ...] = ()
    fields: tuple[tuple[str, Any], ...] = ()


CASES = [
    Case("empty snippet", "empty_update", 422, 2, update=b""),
    Case("blank snippet", "empty_update", 422, 2, update=b" \n\t\n"),
    Case("undeclared latin-1", "bad_encoding", 422, 2, data=LATIN),
    Case("undeclared utf-16", "bad_encoding", 422, 2, data=GOOD.decode().encode("utf-16")),
    Case(
        "wrong encoding",
        "bad_encoding",
        422,
        2,
        data=b"\xff",
        options=("--encoding", "ascii"),
        fields=(("encoding", "ascii"),),
    ),
    Case(
        "no such encoding",
        "bad_encoding",
        422,
        2,
        options=("--encoding", "ebcdic-x"),
        fields=(("encoding", "ebcdic-x"),),
    ),
    Case("NUL in the file", "nul_byte", 422, 2, data=b"a\0b\n"),
    Case("NUL in the edit", "nul_byte", 422, 2, update=b"a\0b\n"),
    Case(
        "over the context limit",
        "context_limit",
        413,
        2,
        data=GOOD * 500,
        update=b"".join(b"c%d = 2\n" % i for i in range(2000)) + b"# ... existing code ...\n",
        options=("--strategy", "model"),
        fields=(("strategy", "model"),),
    ),
    Case(
        "unknown model",
        "unknown_model",
        404,
        4,
        options=("--model", "nope", "--strategy", "model"),
        fields=(("model", "nope"), ("strategy", "model")),
    ),
    Case("unknown drafter", "unknown_drafter", 422, 2, options=("--drafter", "nope"), fields=(("drafter", "nope"),)),
    Case("unknown format", "unknown_edit_format", 422, 2, options=("--format", "nope"), fields=(("format", "nope"),)),
    Case("unknown strategy", "invalid_field", 422, 2, options=("--strategy", "nope"), fields=(("strategy", "nope"),)),
    Case("bad temperature", "invalid_field", 422, 2, options=("--temperature", "9"), fields=(("temperature", 9),)),
    Case("bad deadline", "invalid_field", 422, 2, options=("--timeout", "0"), fields=(("timeout_s", 0),)),
]
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
on_the_command_line = pytest.mark.parametrize(
    "case", [case for case in CASES if not case.name.startswith("undeclared")], ids=lambda case: case.name
)
"""There the encoding of a file is found out."""


def load(name: str) -> Target:
    if name != "embedded":
        raise UnknownModel("no such model", value=name, limit=["embedded"], remedy="name one of these")
    return Target("embedded", FakeEngine(hashed(N_VOCAB), context_limit=4000), PlainBytes())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(build, "build_runtime", lambda settings: Runtime(load=load))
    return tmp_path


@pytest.fixture
def http() -> Iterator[TestClient]:
    with open_service(Runtime(load=load), Settings()) as service:
        yield TestClient(create_app(service, Settings()), raise_server_exceptions=False)
        assert service.wait_until_idle(5)
        service.check_integrity()


def request_of(case: Case) -> dict[str, Any]:
    data = base64.b64encode(case.data).decode()
    return {"original_b64": data, "update": case.update.decode(), "path": "a.py", **dict(case.fields)}


def check_error(error: dict[str, Any], case: Case) -> None:
    assert set(error) == {"code", "message", "value", "limit", "remedy"}
    assert error["code"] == case.code
    assert error["message"]
    assert error["remedy"]
    assert error["value"] is not None


@cases
@pytest.mark.parametrize("stream", [False, True])
def test_over_http(case: Case, stream: bool, http: TestClient) -> None:
    response = http.post("/v1/apply", json=request_of(case) | {"stream": stream})
    assert response.status_code == case.status
    check_error(response.json()["error"], case)


@on_the_command_line
@pytest.mark.parametrize("way", [(), ("--in-place",), ("--json",), ("--diff", "--in-place", "--json")], ids=" ".join)
def test_on_the_command_line(
    case: Case, way: tuple[str, ...], folder: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    (folder / "a.py").write_bytes(case.data)
    (folder / "edit").write_bytes(case.update)
    assert main(["apply", "a.py", "--update", "edit", *case.options, *way]) == case.exit_code
    out, err = capsysbinary.readouterr()
    assert last_code() == case.code
    assert b"\n  " in err
    if "--json" in way:
        check_error(json.loads(out)["error"], case)
    else:
        assert out == b""
    assert (folder / "a.py").read_bytes() == case.data
    assert sorted(path.name for path in folder.iterdir()) == ["a.py", "edit"]


@cases
def test_as_a_json_request_on_the_command_line(
    case: Case, folder: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    (folder / "request.json").write_text(json.dumps(request_of(case)))
    assert main(["apply", "--request", "request.json"]) == case.exit_code
    check_error(json.loads(capsysbinary.readouterr().out)["error"], case)
    assert last_code() == case.code


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"original": "", "update": "x", "orignal": ""}', "unknown_field"),
        (b'{"original": "a\\u0000", "update": "x"}', "nul_byte"),
        (b'{"original": "\\ud800", "update": "x"}', "bad_encoding"),
        (b'{"original": "a", "update": "x", "base_sha256": "' + b"0" * 64 + b'"}', "stale_base"),
        (b'{"original": "a", "update": "x', "invalid_field"),
    ],
)
def test_what_only_json_can_say(
    body: bytes, code: str, http: TestClient, folder: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    response = http.post("/v1/apply", content=body, headers={"content-type": "application/json"})
    assert response.status_code == (409 if code == "stale_base" else 422)
    assert response.json()["error"]["code"] == code
    (folder / "request.json").write_bytes(body)
    assert main(["apply", "--request", "request.json"]) == (3 if code == "stale_base" else 2)
    assert json.loads(capsysbinary.readouterr().out)["error"]["code"] == code
    assert last_code() == code


def test_a_crash_is_a_typed_error_on_the_command_line_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    def crash(name: str) -> Target:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(build, "build_runtime", lambda settings: Runtime(load=crash))
    (folder / "a.py").write_bytes(GOOD)
    (folder / "edit").write_bytes(b"a = 2\n# ... existing code ...\n")
    assert main(["apply", "a.py", "--update", "edit", "--strategy", "model", "--in-place"]) == 4
    err = capsysbinary.readouterr().err
    assert last_code() == "engine_failure"
    assert b"ZeroDivisionError" in err
    assert b"secret" not in err
    assert (folder / "a.py").read_bytes() == GOOD
