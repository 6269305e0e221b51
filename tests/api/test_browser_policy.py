"""What a browser is told about every answer, as it may be asked to show any of them."""

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from tests.api.layers import ALICE, BODY, bearer, layered, write_keys
from tests.doubles import ScriptedRun

ANSWERS = [
    ("GET", "/healthz", 200),
    ("HEAD", "/healthz", 200),
    ("GET", "/readyz", 200),
    ("GET", "/docs", 200),
    ("GET", "/openapi.json", 200),
    ("GET", "/metrics", 200),
    ("GET", "/v1/models", 200),
    ("POST", "/v1/apply", 200),
    ("GET", "/", 200),
    ("GET", "/<script>alert(1)</script>", 404),
    ("GET", "/v1/apply", 405),
    ("PUT", "/docs", 405),
    ("POST", "/v1/completions", 400),
    ("GET", "/v1/models", 401),
    ("POST", "/v1/code/apply", 401),
]


@pytest.mark.parametrize(("method", "path", "status"), ANSWERS)
def test_every_answer_is_for_no_frame_and_runs_nothing(tmp_path: Path, method: str, path: str, status: int) -> None:
    key = {} if status == 401 else bearer(ALICE)
    with layered(ScriptedRun(), keys_file=write_keys(tmp_path)) as http:
        answer = http.request(method, path, json=BODY if method == "POST" else None, headers=key)
    assert answer.status_code == status
    policy = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "script-src" not in policy or path == "/"
    if path != "/docs":
        assert ("text/html" in answer.headers["content-type"]) == (path == "/")


def test_a_stream_and_a_page_that_is_refused_are_told_so_too() -> None:
    with layered(ScriptedRun()) as http:
        stream = http.post("/v1/apply", json=BODY | {"stream": True})
        refused = http.post("/v1/apply", json=BODY, headers={"Origin": "https://evil.example"})
    assert (stream.status_code, refused.status_code) == (200, 403)
    for answer in (stream, refused):
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_documentation_has_its_own_style_and_no_other() -> None:
    with layered(ScriptedRun()) as http:
        page = http.get("/docs")
    styles = re.findall("<style>(.*?)</style>", page.text, re.DOTALL)
    hashes = [f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'" for style in styles]
    policy = dict(rule.split(" ", 1) for rule in page.headers["content-security-policy"].split("; "))
    assert len(styles) == 1
    assert policy["style-src"] == hashes[0]
    assert not re.search(r"<script|\sstyle=|\son[a-z]+=|<link|<img", page.text)
