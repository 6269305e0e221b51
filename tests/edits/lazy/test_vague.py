"""Whether the quoted lines fit another place: each case beside one that differs in what decides."""

from __future__ import annotations

import pytest

from apply_service.edits.lazy.readings import find_readings
from apply_service.edits.lazy.vague import REASON

SCALES = """\
def first(x):
    y = scale(x)
    return y


def second(x):
    y = scale(x)
    return y
"""
TWINS = "begin()\nload_all(1)\nsave_all(1)\nfinish()\nbegin()\nsweep_all(2)\nfinish()\nstop()\n"
LOADED = "# ...\nbegin()\nload_all(1)\ncheck_all(1)\nsave_all(1)\nfinish()\n# ...\n"


@pytest.mark.parametrize(
    ("original", "update", "wanted"),
    [
        (SCALES, "# ...\n    y = scale(x)\n    z = check(y)\n    return y\n# ...\n", True),
        (SCALES, "# ...\ndef second(x):\n    y = scale(x)\n    z = check(y)\n    return y\n# ...\n", False),
        (SCALES, "# ...\ndef second(x):\n    # ...\n    y = scale(x)\n    z = check(y)\n    return y\n", False),
        (TWINS, LOADED, True),
        (TWINS.replace("begin()\nsweep", "enter()\nsweep"), LOADED, False),
        (TWINS, "# ...\nsweep_all(2)\ncheck_all(2)\nfinish()\n# ...\n", False),
        ("{\n}\n{\n}\n", "# ...\n}\nx\n# ...\n", True),
    ],
)
def test_is_vague(original: str, update: str, wanted: bool) -> None:
    found = find_readings(original.split("\n")[:-1], update.split("\n"), language="python", path=None)
    assert (REASON in found[0].draft.reasons) is wanted
