"""Finds orders: sentences around the code of a reply that ask for a change, or say what a fence is for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from apply_service.formats.recognise import ReplyLines
from apply_service.reply.prose import join
from apply_service.text.english import MAX_PROSE, as_lead, asks_to_delete, is_order, leads_to_usage, reads_as_english
from apply_service.text.fences import Fence
from apply_service.text.lines import is_import
from apply_service.text.paths import is_same_file

_SENTENCE_END = re.compile(r"(?<=[.!])\s+")
_ORDER_BEHIND = re.compile(
    r"(?:(?:also|then|and|finally|next|please|you (?:should|must|need to|can|may|could)|don't forget to|remember to|"
    r"now),? )*"
    r"(?:remove|delete|drop|rename|move|add|insert|append|replace|change|update|swap|put)\b.*[.!]$",
    re.IGNORECASE,
)
_REPEATS = re.compile(
    r"(?:^|[.;:,] |\b(?:should|must|to|please|then|also|and|you) )(?:do|make|apply|repeat|mirror|change|update)\b"
    r"[^.]{0,80}\b(?:the same|analogous\w*|similar\w*|likewise|corresponding\w*)\b",
    re.IGNORECASE,
)
"""Matches an order to make the edit's change at another place as well."""
_OTHER_FILE = re.compile(r"\b(?:another|other|separate|different) (?:script|file|module|page)\b", re.IGNORECASE)
_NEXT_ORDER = re.compile(
    r",? (?:and|then|and then|and also) "
    r"(?=(?:remove|delete|drop|rename|move|add|insert|append|replace|change|update)\b)"
)
_CHANGE_TO = re.compile(r"(?:change|update) (?P<what>.+) to:$", re.IGNORECASE)
_ADDED_CODE = re.compile(
    r"(?:(?:also|then|and|finally|next|please|don't forget to|remember to|now),? )*"
    r"(?:add|insert|put|place|include|append) (?:the |an? )?(?:\w+ ){0,2}`(?P<code>[^`]+)`",
    re.IGNORECASE,
)
_MAY_DELETE = re.compile(
    r"\byou (?:can|may|should) (?:now |safely |also |then )*(?:remove|delete|drop)\b", re.IGNORECASE
)
_CONDITION = re.compile(r"\b(?:if|once|when|unless|until|later|afterwards?|eventually|someday)\b", re.IGNORECASE)
_SUGGESTION = re.compile(
    r"\W*(?:(?:but|and|or) )?(?:if|unless|once|optionally|alternatively|later)\b.*:$", re.IGNORECASE
)
_OF_IMPORTS = re.compile(r"\b(?:imports?|requires?|includes?|at the (?:very )?top)\b", re.IGNORECASE)
_OF_THIS_CODE = re.compile(
    r"(?:please )?(?:add|insert|append|put|place) (?:this|these|it|them|that|the (?:\w+ )?above)\b", re.IGNORECASE
)
_WISH = re.compile(r"\b(?:can|may|could|should) ", re.IGNORECASE)
IMPORT_ORDER = "Add this import after the imports:"
MAX_BEHIND = 20
"""At most this many paragraphs after an edit are searched for orders."""


# -- words about a fence -----------------------------------------------------------------------------------------------
def lead(reply: ReplyLines, fence: Fence) -> str:
    """Return the last line above a fence that is not blank; it may introduce the fence."""
    return next((reply.lines[at] for at in range(fence.opening - 1, -1, -1) if reply.lines[at].strip()), "")


def is_foreign(reply: ReplyLines, fence: Fence) -> bool:
    """Tell whether the words above the fence are about another file."""
    is_named = fence.path is not None and not fence.is_surely_named and not is_same_file(fence.path, reply.path)
    return is_named or _OTHER_FILE.search(lead(reply, fence)[:MAX_PROSE]) is not None


def is_suggested(reply: ReplyLines, fence: Fence) -> bool:
    """Tell whether the fence is for a case that may never come ("If that is too many, use:")."""
    last = _SENTENCE_END.split(lead(reply, fence)[:MAX_PROSE])[-1]
    return fence.path is None and _SUGGESTION.match(last) is not None


def shows_usage(reply: ReplyLines, fence: Fence) -> bool:
    """Tell whether the fence is an example of use: the line above says so, and the file has no line of the fence."""
    above = [line for line in reply.lines[max(0, fence.opening - 2) : fence.opening] if line.strip()]
    is_named = fence.path is not None and fence.is_surely_named
    return not is_named and above != [] and leads_to_usage(above[-1]) and not reply.shows_file(fence)


# -- orders ------------------------------------------------------------------------------------------------------------
def orders_above(reply: ReplyLines, fence: Fence) -> tuple[list[str], str]:
    """Return two parts of the paragraph above a fence: the sentences that ask to delete something, and the order for
    the code inside (empty if there is no order)."""
    above = range(*_paragraph_above(reply, fence.opening))
    text = as_lead(join(reply.lines, above))
    if not reply.fenced.isdisjoint(above) or not reads_as_english(text):
        return [], ""
    code = [line for line in reply.lines[fence.opening + 1 : fence.closing] if line.strip()]
    if code and _OF_IMPORTS.search(text) is not None and not is_order(text) and all(map(is_import, code)):
        return [], IMPORT_ORDER
    return _parted([order for one in _SENTENCE_END.split(text) for order in _as_orders(one)], text)


def _parted(sentences: Sequence[str], text: str) -> tuple[list[str], str]:
    """Return the sentences that ask to delete something, and the other sentences as one order (empty if they are no
    order)."""
    apart = [one for one in sentences if one.endswith(".") and asks_to_delete(one) and reads_as_english(one)]
    if len(apart) == len(sentences) and not any(map(_ORDER_BEHIND.match, apart)):
        return [], text if is_order(text) else ""
    rest = [one for one in sentences if one not in apart]
    if rest and "`" in rest[-1] and is_order(rest[-1]):
        rest = rest[-1:]  # The sentences before it give reasons.
    order = " ".join(rest)
    return apart, order if is_order(order) else ""


def _as_orders(sentence: str) -> list[str]:
    """Return the orders in a sentence above code.

    A sentence that asks first for a deletion and then for a change becomes two orders.  A sentence that allows the
    deletion of the one thing that it quotes becomes an order to delete that thing.  Any other sentence stays as it is.
    """
    parts = [sentence]
    first, *rest = _NEXT_ORDER.split(sentence, maxsplit=1)
    if rest and sentence.endswith(":") and asks_to_delete(first):
        changed = _CHANGE_TO.match(rest[0])
        parts = [f"{first}.", rest[0] if changed is None else f"Replace {changed['what']} with:"]
    for at, part in enumerate(parts):
        named = part.split("`")[1::2]
        if len(named) == 1 and _MAY_DELETE.search(part) is not None and _CONDITION.search(part) is None:
            parts[at] = f"Remove `{named[0]}`."
    return parts


def _paragraph_above(reply: ReplyLines, row: int) -> tuple[int, int]:
    """Return the first line of the last paragraph above `row`, and one past its last line."""
    stop = next((at + 1 for at in range(row - 1, -1, -1) if reply.lines[at].strip()), 0)
    least = max(0, stop - MAX_PROSE)
    return next((at + 1 for at in range(stop - 1, least - 1, -1) if not reply.lines[at].strip()), least), stop


def orders_behind(reply: ReplyLines) -> list[str]:
    """Return the orders at the reply's end that ask for further changes."""
    found: list[str] = []
    stop = len(reply.lines)
    for _ in range(MAX_BEHIND):
        fence = next((fence for fence in reply.plain_fences if fence.opening < stop <= fence.closing + 1), None)
        if fence is not None and shows_usage(reply, fence):
            stop = _paragraph_above(reply, fence.opening)[0]
            continue
        start, stop = _paragraph_above(reply, stop)
        start = max([start, *(fence.closing + 1 for fence in reply.plain_fences if fence.closing < stop)])
        text = join(reply.lines, range(start, stop))
        is_of_file = any(map(reply.is_of_file, range(start, stop)))
        if fence is not None or not start or len(text) > MAX_PROSE or is_of_file:
            break
        orders: list[str] = []
        for sentence in filter(_ORDER_BEHIND.match, _SENTENCE_END.split(text)):
            parts = _NEXT_ORDER.split(sentence.rstrip(".!"))
            orders += [f"{part[:1].upper()}{part[1:]}." for part in parts] if len(parts) > 1 else [sentence]
        if text and not orders and not reads_as_english(text):
            break
        found, stop = orders + found, start
    return found


def added_import(order: str) -> str | None:
    """Return the import that an order quotes and asks to add."""
    match = _ADDED_CODE.match(order)
    return match["code"] if match is not None and is_import(match["code"]) else None


def is_of_code(order: str) -> bool:
    """Tell whether the order is about the code of the edit ("Add this to ...")."""
    return _OF_THIS_CODE.match(order) is not None


def is_deletion(order: str) -> bool:
    """Tell whether the order surely asks to delete something."""
    return asks_to_delete(order) and _WISH.search(order) is None and reads_as_english(order)


def repeats(reply: ReplyLines, update: str) -> list[str]:
    """Return the first sentence around the edit that asks for the same change elsewhere in the file.

    The sentence must quote a name of the file that the edit's code lacks.  The result is empty if there is no such
    sentence.
    """
    inside = reply.within((fence.opening, fence.closing) for fence in reply.fences)
    outside = (line for at, line in enumerate(reply.lines) if at not in inside and "`" in line)
    asking = (one for one in outside if len(one) <= MAX_PROSE and _REPEATS.search(one.strip()) is not None)
    found: Sequence[str] = [line for line in islice(asking, MAX_BEHIND) if reads_as_english(line)]
    # Prose in the update quotes the names too, so only its code counts.
    code = "\n".join(line for line in update.split("\n") if "`" not in line) if found else ""
    for line in found:
        named = [word.strip("()") for word in line.split("`")[1::2]]
        if any(word and word in reply.original and word not in code for word in named):
            return [line.strip()]
    return []
