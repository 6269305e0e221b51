"""A lazy marker in the answer."""

from __future__ import annotations

import pytest

from tests.checks.answers import answer, findings, severities

ORIGINAL = "import os\n\n\ndef f():\n    return 1\n\n\ndef g():\n    return 2\n"

MARKERS = {
    "python": [
        "# ... existing code ...",
        "# ... rest of the file ...",
        "# rest of the code remains unchanged",
        "# …existing code…",
    ],
    "typescript": [
        "// ... existing code ...",
        "/* ... existing code ... */",
        "// ... (rest of the function unchanged)",
        "// existing code here",
    ],
    "tsx": ["{/* ... existing code ... */}"],
    "html": ["<!-- ... existing code ... -->"],
    "css": ["/* ... rest of styles ... */"],
    "sql": ["-- ... existing code ..."],
    "yaml": ["# ... existing config ..."],
    "lua": ["-- ... other methods ..."],
    "json": ["// ... existing code ..."],
    "rust": ["// ... remaining methods unchanged ..."],
}
NO_MARKERS = [
    "# the rest of the code relies on this",
    "# ... and then some more",
    "# keep the existing value unless told otherwise",
    "// existing users are migrated first",
    "return ...",
    "...",
    "def f(*args): ...",
    "# use the same code as before for unchanged entries",
    "const rest = [...existing, ...remaining];",
    "...existing,",
    "foo(...rest)",
    "# TODO: remaining work",
    "// Other methods of this class are tested elsewhere",
    "/// Returns the rest of the line",
    "* unchanged",
]


@pytest.mark.parametrize(("language", "marker"), [(name, marker) for name, all_ in MARKERS.items() for marker in all_])
def test_a_marker_is_an_error(language: str, marker: str) -> None:
    merged = f"import os\n\n\ndef f():\n    return 1\n\n{marker}\n"
    found = findings(
        "marker_leak", answer(ORIGINAL, merged, update=f"x\n{marker}", expected=ORIGINAL, language=language)
    )
    assert severities(found) == {"error"}
    assert found[0].lines == (7, 7)


@pytest.mark.parametrize("marker", MARKERS["python"])
def test_a_marker_of_the_targets_own_is_one_too(marker: str) -> None:
    item = answer(ORIGINAL, ORIGINAL.replace("    return 1", f"    {marker}"), update="def f():\n    # ...\n")
    assert severities(findings("marker_leak", item)) == {"error"}


@pytest.mark.parametrize("line", NO_MARKERS)
def test_lines_of_real_files_are_no_markers(line: str) -> None:
    merged = ORIGINAL.replace("    return 1", f"    {line}")
    assert findings("marker_leak", answer(ORIGINAL, merged, expected=ORIGINAL)) == []
    assert findings("marker_leak", answer(ORIGINAL, merged, update=f"def f():\n    {line}\n")) == []


def test_the_files_own_marker_may_stay_and_move() -> None:
    original = "# ... existing code ...\na = 1\nb = 2\n"
    assert findings("marker_leak", answer(original, original + "c = 3\n", update="c = 3")) == []
    moved = "a = 1\n# ... existing code ...\nb = 2\n"
    assert findings("marker_leak", answer(original, moved, update="a = 1\n# ... existing code ...\nb = 2")) == []


def test_a_second_one_of_the_files_own_marker_is_a_leak() -> None:
    original = "# ... existing code ...\na = 1\nb = 2\n"
    merged = "# ... existing code ...\na = 1\n# ... existing code ...\n"
    found = findings(
        "marker_leak", answer(original, merged, update="a = 1\n# ... existing code ...", expected=original)
    )
    assert severities(found) == {"error"}


def test_bare_dots_leak_only_where_the_update_has_them_as_a_marker() -> None:
    merged = ORIGINAL.replace("    return 1", "    # ...")
    leak = answer(ORIGINAL, merged, update="def f():\n    # ...\n", expected=ORIGINAL)
    assert severities(findings("marker_leak", leak)) == {"error"}
    content = answer(ORIGINAL, merged, update="def f():\n    # ...\n")
    assert findings("marker_leak", content) == [], "the merger takes it for content"


def test_a_note_of_the_update_is_a_warning() -> None:
    merged = ORIGINAL.replace("    return 1", "    # REMOVED: os\n    return 1")
    item = answer(ORIGINAL, merged, update="# REMOVED: os\ndef f():", expected=ORIGINAL)
    assert severities(findings("marker_leak", item)) == {"warning"}
