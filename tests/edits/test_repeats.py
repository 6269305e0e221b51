"""New lines that are hidden lines of the file: a copy, or those lines laid elsewhere?"""

from __future__ import annotations

import pytest

from tests.edits.merges import assert_merged, edited

POOL = """\
import connections


class Pool:
    def open(self, address):
        connection = connections.connect_to(address)
        connection.set_keep_alive_of(self.seconds)
        self.open_connections.append(connection)
        return connection

    def close(self):
        for connection in self.open_connections:
            connection.close()
        self.open_connections.clear()
"""
REPEATED = """\
        connection = connections.connect_to(address)
        connection.set_keep_alive_of(self.seconds)
        self.open_connections.append(connection)
"""
OTHER = """\
        replacement = connections.connect_again(address)
        replacement.set_waiting_time_of(self.minutes)
        self.all_replacements.append(replacement)
"""


def closing_after(lines: str) -> str:
    return edited(POOL, "    def close(self):\n", f"    def close(self):\n{lines}")


def update_of(lines: str) -> str:
    return f"""\
# ... existing code ...
    def close(self):
{lines}        for connection in self.open_connections:
            connection.close()
        self.open_connections.clear()
"""


def test_a_run_of_hidden_lines() -> None:
    assert_merged(POOL, update_of(REPEATED), closing_after(REPEATED))


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(OTHER, id="lines of its own"),
        pytest.param(REPEATED.splitlines(keepends=True)[0], id="one line"),
    ],
)
def test_what_is_no_run_of_them(lines: str) -> None:
    assert_merged(POOL, update_of(lines), closing_after(lines))


def test_a_copy_of_lines_that_the_snippet_shows() -> None:
    update = edited(POOL, "    def close(self):\n", f"    def close(self):\n{REPEATED}")
    shown = update[update.index("    def open") :]
    assert_merged(POOL, f"# ... existing code ...\n{shown}", update)
