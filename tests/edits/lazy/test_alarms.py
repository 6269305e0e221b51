"""Results that look wrong: each beside one that differs in what decides."""

from __future__ import annotations

import pytest

from apply_service.merge.merge import UNSURE, merge
from apply_service.merge.rank.alarms import find_alarms

LUA = "function f(x)\n  if x then\n    go()\n  end\nend\n"
CLASS = "class A {\n  void f() {\n    grow();\n  }\n\n  void grow()\n  {\n  }\n}\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (LUA, LUA.replace("  end\n", "  else\n    stop()\n  end\n  end\n"), "`end` closes a scope twice"),
        (LUA, LUA.replace("  end\n", "  else\n    stop()\n  end\n", 1), ""),
        (LUA + "end\n", LUA.replace("go", "run") + "end\n", ""),
        (CLASS, CLASS[:-2] + "  void grow()\n  {\n  }\n}\n", "`void grow()` stands twice in one scope"),
        (CLASS, CLASS + "class B {\n  void grow()\n  {\n  }\n}\n", ""),
        (CLASS, CLASS.replace("  void grow()\n  {\n  }\n", ""), "`grow` is removed and still used"),
        (CLASS, CLASS.replace("  void grow()\n  {\n  }\n", "").replace("grow();", "h();"), ""),
        (CLASS, CLASS.replace("grow()", "run()"), ""),
    ],
)
def test_what_looks_wrong(old: str, new: str, said: str) -> None:
    found = find_alarms(old.split("\n"), new.split("\n"))
    assert found == ([said] if said else [])


def test_an_answer_with_an_alarm_is_not_sure() -> None:
    loads = "def load(path):\n    return read(path)\n\n\n"
    runs = "def run(path):\n    check(path)\n    data = load(path)\n    return data\n"
    found = merge(f"import os\n\n\n{loads}{runs}", f"import os\n\n\n{runs}# ...\n", language="python")
    assert "def load" not in found.text
    assert found.probability is not None
    assert found.probability <= UNSURE
    assert "`load` is removed and still used" in found.reasons
