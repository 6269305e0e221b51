"""`apply-service models`: pull from a hub on loopback with the real client, go on where it stopped, list, delete."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from apply_service.cli import main
from apply_service.models import hub
from tests.commands.conftest import last_code
from tests.engine.tiny_models import save_tiny

SHA = "a" * 40
OWN_ID = "someone/FastApply-tiny"


class Hub(BaseHTTPRequestHandler):
    """Two repositories with the same files, and only what the client asks for."""

    files: dict[str, bytes]
    cut_at: int | None
    """After so many bytes of the weights the connection breaks, once."""
    ranges: list[str]
    paths: list[str]

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if not self.path.startswith("/api/agent-"):  # what the client wants to know for itself
            self.paths.append(self.path)
        path = self.path.partition("?")[0]
        if not re.search("/(FastApply-tiny|Qwen2.5-Coder-0.5B-Instruct)", path):
            return self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        if path.startswith("/api/"):
            return self._send(200, json.dumps(self._about(path)).encode(), {"Content-Type": "application/json"})
        name = path.rpartition("/")[2]
        if name not in self.files:
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
        data = self.files[name]
        etag = f'"{hashlib.sha256(data).hexdigest()}"'
        headers = {"ETag": etag, "X-Repo-Commit": SHA, "Accept-Ranges": "bytes"}
        if (wanted := self.headers.get("Range")) is not None:
            first = int(wanted.removeprefix("bytes=").partition("-")[0])
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
            self.ranges.append(wanted)
            return self._send(206, data[first:], headers)
        return self._send(200, data, headers, cut_at=self.cut_at if name.endswith(".safetensors") else None)

    def _about(self, path: str) -> Any:
        sizes = {name: len(data) for name, data in self.files.items()}
        if "/tree/" in path:
            return [{"type": "file", "path": name, "size": n, "oid": "0" * 40} for name, n in sizes.items()]
        return {
            "id": OWN_ID,
            "sha": SHA,
            "cardData": {"license": "apache-2.0"},
            "siblings": [{"rfilename": name, "size": n} for name, n in sizes.items()],
        }

    def _send(self, status: int, body: bytes, headers: dict[str, str], *, cut_at: int | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body[:cut_at])
        if cut_at is not None:
            type(self).cut_at = None
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[type[Hub], dict[str, str]]]:
    """The hub, and an environment in which the client asks it and the cache is empty."""
    folder = save_tiny(tmp_path / "tiny")
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    files |= {"code.py": b"raise SystemExit", "pytorch_model.bin": b"pickle"}
    handler = type("H", (Hub,), {"files": files, "cut_at": None, "ranges": [], "paths": []})
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    own = {"HF_ENDPOINT": f"http://127.0.0.1:{httpd.server_port}", "HF_HOME": str(tmp_path / "hf")}
    own |= {"HF_HUB_DISABLE_XET": "1", "APPLY_SERVICE_STATE_DIR": str(tmp_path / "state"), "HF_HUB_OFFLINE": "0"}
    yield handler, {**os.environ, **own}
    httpd.shutdown()
    httpd.server_close()


def run(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "apply_service.cli", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def test_a_model_is_pulled_listed_loaded_and_deleted(server: tuple[type[Hub], dict[str, str]], tmp_path: Path) -> None:
    handler, environment = server
    found = run(environment, "models", "pull", OWN_ID)
    assert found.returncode == 0, found.stderr
    folder = Path(found.stdout.strip())
    n_bytes = sum(len(data) for name, data in handler.files.items() if not name.endswith((".py", ".bin")))
    assert f"{n_bytes / 2**20:,.1f} MiB; licence: apache-2.0" in found.stderr
    assert f"Revision {SHA} (the newest one; once downloaded" in found.stderr
    assert {path.name for path in folder.iterdir()} == handler.files.keys() - {"code.py", "pytorch_model.bin"}
    assert not any("code.py" in path or "pytorch_model" in path for path in handler.paths if "/resolve/" in path)

    handler.paths.clear()
    (tmp_path / "a.py").write_text("a = 1\n")
    (tmp_path / "update").write_text("a = 2\n")
    words = ("--update", str(tmp_path / "update"), "--model", OWN_ID, "--json", "--strategy", "model")
    applied = run(environment, "apply", str(tmp_path / "a.py"), *words, "--max-tokens", "4")
    assert "the model's answer was cut off at its token limit" in applied.stderr, (
        applied.stderr
    )  # it was loaded, and ran: its weights are random
    assert handler.paths == [], "what is here needs no hub"

    (listing,) = [one for one in json.loads(run(environment, "models", "--json").stdout) if one["name"] == OWN_ID]
    assert (listing["directory"], listing["is_present"], listing["is_named"]) == (str(folder), True, False)
    assert run(environment, "models", "rm", OWN_ID).returncode == 0
    assert not folder.exists()
    assert run(environment, "models", "rm", OWN_ID).returncode == 4


def test_a_pull_that_broke_off_goes_on(server: tuple[type[Hub], dict[str, str]]) -> None:
    """The client writes pieces of 10 MiB, asks again after what it has, and checks the length."""
    handler, environment = server
    handler.files["model.safetensors"] = os.urandom(25 * 2**20)
    handler.cut_at = 15 * 2**20
    found = run(environment, "models", "pull", OWN_ID)
    assert found.returncode == 0, found.stderr
    assert handler.ranges == [f"bytes={10 * 2**20}-"]
    weights = Path(found.stdout.strip()) / "model.safetensors"
    assert weights.read_bytes() == handler.files["model.safetensors"]


def test_a_short_name_asks_for_its_revision_and_is_not_pulled_unasked(
    server: tuple[type[Hub], dict[str, str]], tmp_path: Path
) -> None:
    handler, environment = server
    (tmp_path / "a.py").write_text("a = 1\n")
    words = ("apply", str(tmp_path / "a.py"), "--update", str(tmp_path / "a.py"), "--strategy", "model")
    refused = run(environment, *words, "--model", "qwen2.5-coder-0.5b")
    assert refused.returncode == 4
    assert "apply-service models pull qwen2.5-coder-0.5b" in refused.stderr
    assert handler.paths == []
    listed = run(environment, "models").stdout
    assert "qwen2.5-coder-0.5b: Qwen/Qwen2.5-Coder-0.5B-Instruct, not downloaded" in listed
    run(environment, "models", "pull", "qwen2.5-coder-0.5b")
    revision = hub.KNOWN["qwen2.5-coder-0.5b"].revision
    assert handler.paths[0].startswith(f"/api/models/Qwen/Qwen2.5-Coder-0.5B-Instruct/revision/{revision}")


def test_no_such_model_and_no_hub(server: tuple[type[Hub], dict[str, str]]) -> None:
    _, environment = server
    found = run(environment, "models", "pull", "no/such")
    assert found.returncode == 4
    assert "has no such model" in found.stderr
    for name, page in (
        (OWN_ID, f"/{OWN_ID}/tree/main"),
        ("fastapply-7b", "/Kortix/FastApply-7B-v1.0/tree/main"),
        ("qwen2.5-coder-0.5b", f"/Qwen/Qwen2.5-Coder-0.5B-Instruct/tree/{hub.KNOWN['qwen2.5-coder-0.5b'].revision}"),
    ):
        for gone in ({"HF_ENDPOINT": "http://127.0.0.1:9"}, {"HF_HUB_OFFLINE": "1"}):
            found = run(environment | gone, "models", "pull", name)
            assert found.returncode == 4
            first = found.stderr.splitlines()[0]
            assert f"The model {name} cannot be downloaded, because the hub does not answer" in first
            assert page in found.stderr
            assert "*.safetensors" in found.stderr
            assert "SHA-256" in found.stderr
            assert "Did you mean" not in found.stderr
            assert "Errno" not in found.stderr


@pytest.mark.parametrize("words", [["pull"], ["rm"], ["list", "x"]])
def test_a_name_goes_with_pull_and_rm_alone(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", *words]) == 2
    assert last_code() == "invalid_field"


def test_an_unpacked_file_is_listed_and_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_tiny(tmp_path / "models" / "tiny-0123")
    words = ["--state-dir", str(tmp_path)]
    assert main(["models", *words]) == 0
    assert "  tiny-0123: Qwen2ForCausalLM" in capsys.readouterr().out
    assert main(["models", "rm", "tiny-0123", *words]) == 0
    assert not (tmp_path / "models" / "tiny-0123").exists()
    assert main(["models", "rm", "..", *words]) == 4
    assert tmp_path.is_dir()
