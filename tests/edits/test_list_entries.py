"""New lines at the end of a block that are as like several lines of the file: entries of a list, not changed lines."""

from __future__ import annotations

from apply_service.edits.candidates import LineIndex
from apply_service.edits.merge import merge

COMMANDS = """\
def commands():
    return [
        command(ListUsers),
        command(ListGroups),
        command(ListHosts),
        command(ListZones),
    ]
"""


def test_a_line_is_plainest_where_no_other_is_nearly_as_like() -> None:
    index = LineIndex(["timeout = 30", "retries = 4", "name = load()"])
    assert index.is_plainest("timeout = 60", 0)
    assert not LineIndex(COMMANDS.split("\n")).is_plainest("        command(ListDisks),", 4)


def test_an_entry_below_its_neighbour_is_added() -> None:
    update = (
        "# ... existing code ...\n        command(ListGroups),\n        command(ListDisks),\n# ... existing code ...\n"
    )
    line = "        command(ListGroups),\n"
    wanted = COMMANDS.replace(line, line + "        command(ListDisks),\n")
    assert merge(COMMANDS, update, language="python").text == wanted


def test_an_entry_above_its_neighbour_is_added() -> None:
    update = (
        "# ... existing code ...\n        command(ListDisks),\n        command(ListZones),\n# ... existing code ...\n"
    )
    line = "        command(ListZones),\n"
    wanted = COMMANDS.replace(line, "        command(ListDisks),\n" + line)
    assert merge(COMMANDS, update, language="python").text == wanted


def test_a_line_like_one_other_alone_is_changed() -> None:
    original = "timeout = 30\nretries = 4\nname = load()\n"
    update = "# ...\nretries = 4\nname = load(retries)\n"
    assert merge(original, update, language="python").text == "timeout = 30\nretries = 4\nname = load(retries)\n"
