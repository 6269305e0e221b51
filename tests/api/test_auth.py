"""Who is let in: keys where there are any, no web pages where there are none, loopback unless told otherwise."""

from pathlib import Path

import pytest

from apply_service.api.app import public_name
from apply_service.api.auth import PAGE_PATHS, refuse_open_network
from apply_service.errors import SettingsError
from apply_service.settings import Settings
from tests.api.layers import ALICE, BOB, BODY, bearer, layered, write_keys
from tests.doubles import ScriptedRun


def test_with_keys_only_their_holders_are_served(tmp_path: Path) -> None:
    run = ScriptedRun()
    with layered(run, keys_file=write_keys(tmp_path)) as http:
        for headers in (bearer(ALICE), {"X-API-Key": BOB}, {"Authorization": f"bearer  {ALICE} "}):
            assert http.post("/v1/apply", json=BODY, headers=headers).status_code == 200
        for headers in (
            {},
            bearer(ALICE + "x"),
            bearer(""),
            {"Authorization": ALICE},
            {"Authorization": f"Basic {ALICE}"},
            {"X-API-Key": ""},
            {b"X-API-Key": b"caf\xe9" * 10},
        ):
            refused = http.post("/v1/apply", json=BODY, headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthorized")
            assert refused.headers["www-authenticate"] == "Bearer"
            assert ALICE not in refused.text
    assert run.n_started == 3


def test_requests_belong_to_the_holder_of_their_key(tmp_path: Path) -> None:
    """The prefix cache keeps owners apart."""
    run = ScriptedRun()
    with layered(run, keys_file=write_keys(tmp_path)) as http:
        for key in (ALICE, BOB, ALICE):
            http.post("/v1/apply", json=BODY, headers=bearer(key)).raise_for_status()
        http.post("/v1/apply/batch", json={"edits": [BODY]}, headers=bearer(BOB)).raise_for_status()
    owners = [request.owner for request in run.requests]
    assert owners == [owners[0], owners[1], owners[0], owners[1]]
    assert len({*owners, ""}) == 3


def test_health_and_documentation_are_open_and_nothing_else(tmp_path: Path) -> None:
    with layered(ScriptedRun(), keys_file=write_keys(tmp_path)) as http:
        for path in ("/healthz", "/readyz", "/docs", "/openapi.json"):
            assert http.get(path).status_code == 200
        for path in ("/v1/models", "/metrics", "/nothing", "/healthz/x", "//nothing", "/docs/x"):
            url = f"http://testserver{path}"
            assert http.get(url, follow_redirects=False).status_code == 401


FOLDER = "/srv/secret-customer"
NAMES = {"model": f"{FOLDER}/Qwen-7B/", "models": (f"small={FOLDER}/small", f"{FOLDER}/big.gguf", "owner/name")}
SHORT = ["Qwen-7B", "small", "big.gguf", "name", "embedded"]
FULL = [f"{FOLDER}/Qwen-7B/", "small", f"{FOLDER}/big.gguf", "owner/name", "embedded"]


def test_without_a_key_no_folder_is_told(tmp_path: Path) -> None:
    run = ScriptedRun()
    with layered(run, keys_file=write_keys(tmp_path), **NAMES) as http:
        paths = ("/healthz", "/readyz", "/docs", "/openapi.json", *PAGE_PATHS, "/metrics", "/v1/models", "/v1/x", "/x")
        for headers in ({}, bearer("wrong-key-0123456789-0123456789"), {"Host": "evil.example"}):
            answers = [http.request(way, path, headers=headers) for path in paths for way in ("GET", "POST")]
            for told in (f"{answer.headers} {answer.text}" for answer in answers):
                assert "secret-customer" not in told
                assert str(tmp_path) not in told
            ready = http.get("/readyz", headers=headers).json()
            assert [ready["model"], ready["models"]] == ["Qwen-7B", SHORT]
        for headers in (bearer(ALICE), {"X-API-Key": BOB}):
            ready = http.get("/readyz", headers=headers).json()
            assert [ready["model"], ready["models"]] == [NAMES["model"], FULL]


def test_without_keys_no_web_page_learns_of_folders() -> None:
    with layered(ScriptedRun(), **NAMES) as http:
        for headers in ({"Host": "evil.example"}, {"Host": "localhost", "Origin": "https://evil.example"}):
            ready = http.get("http://127.0.0.1/readyz", headers=headers).json()
            assert [ready["model"], ready["models"]] == ["Qwen-7B", SHORT]
        ready = http.get("http://127.0.0.1/readyz").json()
        assert [ready["model"], ready["models"]] == [NAMES["model"], FULL]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("embedded", "embedded"),
        ("/models/a", "a"),
        ("C:\\models\\a\\", "a"),
        ("~/a.gguf", "a.gguf"),
        ("remote:a", "remote:a"),
        ("/", "model"),
    ],
)
def test_the_public_name_of_a_model(name: str, told: str) -> None:
    assert public_name(name) == told


def test_without_keys_a_key_is_no_matter() -> None:
    with layered(ScriptedRun()) as http:
        assert http.post("/v1/apply", json=BODY, headers=bearer("whatever")).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:8765", "null"])
def test_without_keys_no_web_page_may_ask(origin: str) -> None:
    run = ScriptedRun()
    with layered(run) as http:
        refused = http.post("/v1/apply", json=BODY, headers={"Origin": origin})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "origin_refused")
    assert refused.json()["error"]["value"] == origin
    assert run.n_started == 0


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "localhost.evil.example", "127.0.0.1.evil.example"]
)
def test_without_keys_loopback_is_not_asked_by_a_foreign_name(host: str) -> None:
    """A page whose name leads to this machine reads by GET, which carries no origin."""
    with layered(ScriptedRun()) as http:
        for path in ("/metrics", "/v1/models"):
            refused = http.get(f"http://127.0.0.1{path}", headers={"Host": host})
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "origin_refused")
            assert refused.json()["error"]["value"] == host
        assert http.get("http://127.0.0.1/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8765",
        "localhost.",
        "127.0.0.1:8765",
        "[::1]",
        "[::1]:8765",
        "[::FFFF:127.0.0.1]:1",
        "a.localhost",
        "mybox",
        "MyBox:80",
    ],
)
def test_without_keys_loopback_is_asked_by_its_own_names(host: str) -> None:
    with layered(ScriptedRun(), host="mybox") as http:
        assert http.get("http://127.0.0.1/metrics", headers={"Host": host}).status_code == 200


NO_HOSTS = [
    "",
    " ",
    ":",
    ":8765",
    "localhost:80@evil.example",
    "[::1]evil.example",
    "[::1]:80@evil.example",
    "[::1].evil.example",
    "user@localhost",
    "user:pw@localhost:8765",
    "localhost:",
    "localhost:http",
    "localhost:8765:80",
    "localhost:+80",
    "localhost:99999",
    "localhost:65536",
    "localhost, evil.example",
    "localhost,localhost",
    "localhost evil.example",
    "localhost/evil.example",
    "localhost#evil.example",
    "localhost?evil.example",
    "localhost\\evil.example",
    "localhost\tevil.example",
    "localhost..",
    ".localhost",
    "evil..localhost",
    "loc%61lhost",
    "localhost%00.evil.example",
    "[fe80::1%eth0]",
    "[fe80::1%25eth0]:8765",
    "[127.0.0.1]",
    "[localhost]",
    "[::1",
    "::1",
    "[::1]]",
    "[[::1]]",
    "[v1.a:b]",
    "127.1",
    "0177.0.0.1",
    "0x7f.0.0.1",
    "2130706433",
    "http://localhost",
    "\uff4c\uff4f\uff43alhost".encode(),
    "l\u043ecalhost".encode(),
    b"localhost\xad",
    "127\u30020\u30020\u30021".encode(),
    "xn--lcalhost-94g",
]


@pytest.mark.parametrize("host", NO_HOSTS)
def test_without_keys_what_is_no_host_and_port_is_a_foreign_name(host: str | bytes) -> None:
    """`localhost:80@evil.example` passed as localhost; so the own page did of a host that is none."""
    run = ScriptedRun()
    with layered(run, playground="on") as http:
        own = host if isinstance(host, bytes) else host.encode()
        refused = http.get("http://127.0.0.1/v1/models", headers={b"Host": own})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "origin_refused")
        for origin in (b"http://" + own, own):
            page = http.post("http://127.0.0.1/v1/apply", json=BODY, headers={b"Host": own, b"Origin": origin})
            assert (page.status_code, page.json()["error"]["code"]) == (403, "origin_refused")
    assert run.n_started == 0


@pytest.mark.parametrize("hosts", [("localhost", "localhost"), ("localhost", "evil.example"), ("evil.example", "::1")])
def test_without_keys_two_hosts_are_none(hosts: tuple[str, str]) -> None:
    with layered(ScriptedRun()) as http:
        refused = http.get("http://127.0.0.1/metrics", headers=[("Host", host) for host in hosts])
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "origin_refused")


def test_without_keys_two_origins_are_no_page_of_ours() -> None:
    own, foreign = "http://127.0.0.1:8765", "https://evil.example"
    with layered(ScriptedRun(), cors_origins=("https://good.example",)) as http:
        for origins in ((own, foreign), (foreign, own), (own, own), ("https://good.example", foreign)):
            headers = [("Host", "127.0.0.1:8765"), *(("Origin", origin) for origin in origins)]
            assert http.post("http://127.0.0.1/v1/apply", json=BODY, headers=headers).status_code == 403


def test_an_open_service_and_one_with_keys_have_any_name(tmp_path: Path) -> None:
    ask = {"Host": "apply.example"}
    with layered(ScriptedRun(), allow_open=True) as http:
        assert http.get("http://127.0.0.1/metrics", headers=ask).status_code == 200
    with layered(ScriptedRun(), keys_file=write_keys(tmp_path)) as http:
        assert http.get("http://127.0.0.1/metrics", headers=ask | bearer(ALICE)).status_code == 200
    with layered(ScriptedRun()) as http:
        assert http.get("http://10.1.2.3/metrics", headers=ask).status_code == 200


def test_cors_is_off_unless_an_origin_is_named() -> None:
    ask = {"Origin": "https://good.example", "Access-Control-Request-Method": "POST"}
    with layered(ScriptedRun()) as http:
        assert "access-control-allow-origin" not in http.options("/v1/apply", headers=ask).headers
    with layered(ScriptedRun(), cors_origins=("https://good.example",)) as http:
        preflight = http.options("/v1/apply", headers=ask)
        assert preflight.headers["access-control-allow-origin"] == "https://good.example"
        answer = http.post("/v1/apply", json=BODY, headers={"Origin": "https://good.example"})
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "https://good.example"
        assert "X-Request-Id" in answer.headers["access-control-expose-headers"]
        other = http.post("/v1/apply", json=BODY, headers={"Origin": "https://other.example"})
        assert other.status_code == 403
        assert "access-control-allow-origin" not in other.headers


def test_a_page_may_read_why_it_was_refused(tmp_path: Path) -> None:
    origin = {"Origin": "https://good.example"}
    with layered(ScriptedRun(), keys_file=write_keys(tmp_path), cors_origins=("https://good.example",)) as http:
        refused = http.post("/v1/apply", json=BODY, headers=origin)
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == "https://good.example"


def test_a_network_is_refused_without_keys_unless_asked_for() -> None:
    for address in ("127.0.0.1", "127.8.8.8", "::1"):
        refuse_open_network(address, Settings())
    for address in ("0.0.0.0", "192.168.1.7", "::"):
        with pytest.raises(SettingsError) as caught:
            refuse_open_network(address, Settings())
        assert "--keys-file" in caught.value.remedy
        refuse_open_network(address, Settings(allow_open=True))
        refuse_open_network(address, Settings(keys_file="keys.toml"))


def test_the_openapi_page_says_how_a_key_is_sent(tmp_path: Path) -> None:
    with layered(ScriptedRun(), keys_file=write_keys(tmp_path)) as http:
        schema = http.get("/openapi.json").json()
        assert http.get("/docs").status_code == 200
    assert schema["components"]["securitySchemes"]["key"] == {"type": "http", "scheme": "bearer"}
    operations = [operation for path in schema["paths"].values() for operation in path.values()]
    assert all(operation["security"] == [{"key": []}] for operation in operations)
    with layered(ScriptedRun()) as http:
        assert '"security"' not in http.get("/openapi.json").text
