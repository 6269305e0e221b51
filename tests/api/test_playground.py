"""The page at `/`: where it is served, what the browser is told, and who may call from it."""

import re
from pathlib import Path

import pytest

from apply_service.api.auth import PAGE_PATHS
from apply_service.api.pages import FILES
from tests.api.layers import ALICE, BODY, bearer, layered, write_keys
from tests.doubles import ScriptedRun

HERE = {"Host": "127.0.0.1:8765", "Origin": "http://127.0.0.1:8765"}


def test_the_page_and_its_files_are_served_with_a_strict_policy() -> None:
    with layered(ScriptedRun()) as http:
        for path, (_, kind) in FILES.items():
            answer = http.get(path)
            assert answer.status_code == 200
            assert answer.headers["content-type"] == f"{kind}; charset=utf-8"
            policy = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
            assert policy["default-src"] == policy["frame-ancestors"] == policy["form-action"] == "'none'"
            assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
            assert policy["require-trusted-types-for"] == "'script'"
            assert "unsafe" not in answer.headers["content-security-policy"]
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert http.head(path).status_code == 200


def test_the_page_names_nothing_from_elsewhere_and_makes_no_markup() -> None:
    with layered(ScriptedRun()) as http:
        texts = {path: http.get(path).text for path in FILES}
    wanted = {found.lstrip("./") for text in texts.values() for found in re.findall(r'"(\.?/?playground[^"]+)"', text)}
    assert {f"/{name}" for name in wanted} == texts.keys() - {"/"}
    name_of_svg = "http://www.w3.org/2000/svg"
    makes_markup = re.compile(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|\sstyle=|\son[a-z]+=\"")
    for text in texts.values():
        assert set(re.findall(r"https?://[^'\"]*", text)) <= {name_of_svg}
        assert not makes_markup.search(text)


@pytest.mark.parametrize(
    ("playground", "allow_open", "has_keys", "is_served"),
    [
        ("auto", False, False, True),
        ("auto", False, True, True),
        ("auto", True, True, True),
        ("auto", True, False, False),
        ("on", True, False, True),
        ("off", False, False, False),
        ("off", False, True, False),
    ],
)
def test_the_setting_and_openness_say_where_it_is(
    tmp_path: Path, playground: str, allow_open: bool, has_keys: bool, is_served: bool
) -> None:
    keys = write_keys(tmp_path) if has_keys else None
    with layered(ScriptedRun(), playground=playground, allow_open=allow_open, keys_file=keys) as http:
        for path in FILES:
            assert http.get(path).status_code == (200 if is_served else 404)


def test_where_keys_are_set_the_page_loads_and_each_of_its_calls_needs_one(tmp_path: Path) -> None:
    assert FILES.keys() == PAGE_PATHS
    run = ScriptedRun()
    with layered(run, keys_file=write_keys(tmp_path)) as http:
        assert http.get("/").status_code == 200
        assert http.get("/v1/models", headers=HERE).status_code == 401
        assert http.post("/v1/apply", json=BODY, headers=HERE).status_code == 401
        assert run.n_started == 0
        assert http.get("/v1/models", headers=HERE | bearer(ALICE)).status_code == 200
        assert http.post("/v1/apply", json=BODY, headers=HERE | bearer(ALICE)).status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "[::1]:8765", "192.168.1.7", "mybox"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_without_keys_the_own_page_may_ask(host: str, scheme: str) -> None:
    with layered(ScriptedRun(), host="mybox") as http:
        answer = http.post("/v1/apply", json=BODY, headers={"Host": host, "Origin": f"{scheme}://{host}"})
        assert answer.status_code == 200


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("evil.example", "http://evil.example"),  # a name that was made to lead here
        ("127.0.0.1:8765", "http://127.0.0.1:3000"),
        ("127.0.0.1:8765", "http://localhost:8765"),
        ("127.0.0.1:8765", "null"),
        ("localhost.evil.example:8765", "http://localhost.evil.example:8765"),
    ],
)
@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3"])
@pytest.mark.parametrize("allow_open", [False, True])
def test_without_keys_no_other_page_may_ask(host: str, origin: str, address: str, allow_open: bool) -> None:
    run = ScriptedRun()
    with layered(run, allow_open=allow_open, playground="on") as http:
        ask = {"Host": host, "Origin": origin}
        refused = http.post(f"http://{address}/v1/apply", json=BODY, headers=ask)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "origin_refused")
    assert run.n_started == 0


def test_where_there_is_no_page_none_may_ask() -> None:
    with layered(ScriptedRun(), playground="off") as http:
        assert http.post("/v1/apply", json=BODY, headers=HERE).status_code == 403
