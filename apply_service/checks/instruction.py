"""What an instruction beside an update orders and the result visibly lacks.

Clients send an instruction with every edit, mostly a summary of it.  Only three orders can be held against a text
without understanding it: to remove a name that stays, to rename one that stays, to add one that is not there.  A name
counts where it is quoted, and one that goes also where it looks like code and no other word follows.
"""

from __future__ import annotations

import re

MAX_READ = 4000
"""The characters of an instruction that are read."""
_ORDER = re.compile(
    r"(?:^|[.;:,]\s+|\b(?:and|then|also|please|now|must|should|i|i'll|i'm|am|will) )"
    r"(?:(?P<gone>remov|delet|dropp?)|(?P<renamed>renam)|(?P<added>add))(?:e|es|s|ed|ing)? "
    r"(?:(?:the|an?|this|that|my|our|its|old|new|unused|now|obsolete|dead|deprecated) )*",
    re.IGNORECASE | re.MULTILINE,
)
_QUOTED = r"`(?P<tick>[^`\s]{1,100})`|\"(?P<double>[^\"\s]{1,100})\"|'(?P<single>[^'\s]{1,100})'"
_QUOTED_NAME = re.compile(_QUOTED)
_NAME = re.compile(
    rf"{_QUOTED}|(?P<bare>(?=[\w$.]*(?:[a-z0-9][A-Z]|\w[_.]\w|\w\(\)))[\w$]+(?:\.[\w$]+)*)"
    r"(?=(?:\(\))?(?:$|[.,;:!](?:\s|$)| (?:from|in|and|to|as|since|which)\b))"
)
_ANOTHER = re.compile(r"(?:\(\))? (?:to|as|into) ")


def unmet_order(instruction: str, original: str, merged: str) -> str | None:
    """The first order that `merged` contradicts, in words; None where there is none."""
    text = instruction[:MAX_READ]
    for order in _ORDER.finditer(text):
        found = (_QUOTED_NAME if order["added"] else _NAME).match(text, order.end())
        if found is None:
            continue
        name = _bare(found)
        before, after = (_count(name, side) for side in (original, merged))
        if order["added"]:
            # `Cart.clear` is written as `clear` where the class stands around it.
            if not before and not _count(re.findall(r"\w+|\W+", name)[-1], merged) and not after:
                return f"to add `{name}`, which the result does not have"
            continue
        if before and after >= before:
            return f"to {'remove' if order['gone'] else 'rename'} `{name}`, which the result still has"
        joint = _ANOTHER.match(text, found.end())
        new = _NAME.match(text, joint.end()) if before and joint is not None and order["renamed"] else None
        if new is not None and not _count(_bare(new), merged):
            return f"to rename `{name}` to `{_bare(new)}`, which the result does not have"
    return None


def _bare(found: re.Match[str]) -> str:
    """The name without its quotes and without the brackets of a call."""
    name: str = next(filter(None, found.groups()))
    return name.partition("(")[0] or name


def _count(name: str, text: str) -> int:
    """How often the name stands in the text, and not as a part of another."""
    return len(re.findall(rf"(?<!\w){re.escape(name)}(?!\w)", text))
