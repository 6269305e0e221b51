"""The HTTP layer and everything a request of an exact format needs stay free of torch."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module", ["apply_service.api.app", "apply_service.clients.http", "apply_service.service", "apply_service.cli"]
)
def test_importing_it_does_not_import_torch(module: str) -> None:
    script = f"import sys, {module}; print(sorted({{'torch', 'transformers'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", ["apply_service.cli", "apply_service.clients.http", "apply_service.commands.apply"])
def test_what_asks_a_server_is_light(module: str) -> None:
    heavy = "{'torch', 'pydantic', 'fastapi', 'httpx', 'numpy', 'rapidfuzz', 'tree_sitter', 'asyncio'}"
    script = f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
