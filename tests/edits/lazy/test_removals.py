"""Comments that say that something was removed: in words that find one thing, in words that find several or none."""

from __future__ import annotations

import pytest

from apply_service.merge.merge import merge
from apply_service.types import Certainty

ROUTES = """const app = express();

app.get('/health', (req, res) => {
  res.json({ ok: true });
});

// Which version runs
app.get('/version', (req, res) => {
  res.json({ version: '1.2.0' });
});

app.get('/users/:id', (req, res) => {
  res.json(find(req.params.id));
});

app.listen(80);
"""
VERSION = ROUTES[ROUTES.index("// Which") : ROUTES.index("app.get('/users")]
USERS = ROUTES[ROUTES.index("app.get('/users") : ROUTES.index("app.listen")]

SERVICE = """import logging

TIMEOUT = 10
RETRIES = 3


def fetch(url, timeout=TIMEOUT):
    return get(url, timeout)


# Only for old clients
def fetch_xml(url):
    return parse(get(url, TIMEOUT))


def store(data):
    for attempt in range(RETRIES):
        put(data)
"""
JOBS = """on: push
jobs:
  lint:
    runs-on: ubuntu
    steps:
      - run: make lint

  docs:
    runs-on: ubuntu
    steps:
      - run: make docs

  test:
    runs-on: ubuntu
    steps:
      - run: make test
"""
STYLE = """.card {
  margin: 0;
}

.card-title {
  color: red;
}

.footer {
  margin: 0;
}
"""
CASES = {
    "a route": (
        "javascript",
        ROUTES,
        "// ...\n\n// removed: /version route\n\napp.listen(8080);\n",
        VERSION,
        "80)",
        "8080)",
    ),
    "a route with a parameter": (
        *("javascript", ROUTES, "// ...\n// removed: GET /users/:id endpoint\n// ...\napp.listen(8080);\n"),
        *(USERS, "80)", "8080)"),
    ),
    "a constant": (
        *("python", SERVICE.replace("get(url, TIMEOUT)", "get(url)").replace("=TIMEOUT", "=10")),
        "import logging\n\n# removed: the TIMEOUT constant\n\nRETRIES = 5\n\n# ...\n",
        *("TIMEOUT = 10\n", "RETRIES = 3", "RETRIES = 5"),
    ),
    "a job": (
        *("yaml", JOBS, "# ...\n  # removed: docs job\n  # ...\n  test:\n    runs-on: debian\n    # ...\n"),
        "  docs:\n    runs-on: ubuntu\n    steps:\n      - run: make docs\n\n",
        *("test:\n    runs-on: ubuntu", "test:\n    runs-on: debian"),
    ),
    "a rule": (
        *("css", STYLE, "/* ... */\n\n/* removed: .card-title rule */\n\n.footer {\n  margin: 1px;\n}\n"),
        *(".card-title {\n  color: red;\n}\n\n", ".footer {\n  margin: 0", ".footer {\n  margin: 1px"),
    ),
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_words_that_find_one_thing_remove_it(case: str) -> None:
    language, original, update, gone, old, new = CASES[case]
    assert original.count(gone) == original.count(old) == 1
    found = merge(original, update, language=language, path="a")
    assert found.text == original.replace(gone, "").replace(old, new)


@pytest.mark.parametrize(
    ("language", "original", "update"),
    [
        ("javascript", ROUTES, "// ...\n\n// removed: /metrics route\n\napp.listen(8080);\n"),
        ("javascript", ROUTES, "// ...\n\n// removed: res route\n\napp.listen(8080);\n"),
        ("python", SERVICE, "# ...\n\n# removed: url helpers\n\ndef store(data):\n    put(data)\n"),
        ("yaml", JOBS, "# ...\n  # removed: deploy job\n  # ...\n  test:\n    runs-on: debian\n    # ...\n"),
        ("css", STYLE, "/* ... */\n\n/* removed: .header rule */\n\n.footer {\n  margin: 1px;\n}\n"),
    ],
)
def test_words_that_find_nothing_or_several_things_are_told(language: str, original: str, update: str) -> None:
    found = merge(original, update, language=language, path="a")
    assert found.certainty is not Certainty.CERTAIN
    assert any(reason.startswith("nothing was removed where the edit has the comment `") for reason in found.reasons)


def test_of_several_lines_with_a_name_the_one_that_sets_it_is_meant() -> None:
    update = "import logging\n\n# removed: TIMEOUT setting\n\nRETRIES = 5\n\n# ...\n"
    found = merge(SERVICE, update, language="python", path="a.py")
    assert "TIMEOUT = 10" not in found.text
    assert "timeout=TIMEOUT" in found.text


def test_a_sentence_above_code_where_nothing_goes_is_a_comment_of_the_program() -> None:
    original = "def expire(users):\n    for user in users:\n        users.remove(user)\n"
    new = "        # removed users go to the archive first\n        archive(user)\n"
    update = f"def expire(users):\n    for user in users:\n{new}        users.remove(user)\n"
    assert merge(original, update, language="python", path="a.py").text == update


def test_a_sentence_above_code_in_the_place_of_what_it_names_says_what_went() -> None:
    original = "def expire(users):\n    check(users)\n    users.clear()\n"
    update = "def expire(users):\n    # removed the check of users (no longer needed)\n    users.clear()\n"
    found = merge(original, update, language="python", path="a.py")
    assert found.text == "def expire(users):\n    users.clear()\n"
