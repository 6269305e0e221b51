"""Takes the snippet out of a reply that has no marks of a format: out of fences or out of prose.  Orders are sentences
around the code that ask for a change (`orders`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from apply_service.errors import MalformedEdit
from apply_service.formats.recognise import MIN_KNOWN, ReadPart, ReplyLines
from apply_service.formats.search_replace import write_block
from apply_service.merge.signed import is_signed
from apply_service.reply.found import CHECK, SNIPPET, FoundEdit, OpenReply
from apply_service.reply.orders import (
    IMPORT_ORDER,
    added_import,
    is_deletion,
    is_foreign,
    is_of_code,
    is_suggested,
    lead,
    orders_above,
    shows_usage,
)
from apply_service.reply.prose import find_prose, join
from apply_service.text.english import asks_to_delete, is_order
from apply_service.text.fences import PAGE_TITLES, SHELLS, Fence, is_fence, page_fence
from apply_service.text.line_search import Likeness
from apply_service.text.markers import is_marker, strip_comment
from apply_service.text.paths import has_same_name, is_same_file, named_path
from apply_service.types import DOUBT

OF_QUOTES = "search_replace"
"""The format into which pairs of fences are turned: code of the file, and code that replaces it."""
DIFF_TITLES = ("diff", "patch", "udiff")
SCRIPTS = (".sh", ".bash", ".zsh", ".ps1")
_OLD_CODE = re.compile(
    r"\W*(?:.*[.,:] )?(?:(?:please|then|and|next|so|now|just|first),? )*"
    r"(?:(?:replace|change|swap|turn)\b.*|(?:before|old|from|was|currently)\b.{0,40})$",
    re.IGNORECASE,
)
_NEW_CODE = re.compile(r"\W*(?:and |then )*(?:to|with|by|into|after|new|becomes|now)\b.{0,60}$", re.IGNORECASE)
"""The two patterns match the words above code that is to be replaced, and the words above the new code."""


class Piece(NamedTuple):
    """Code, and the order for it (empty if there is no order).  An order to delete has no code."""

    order: str
    code: Sequence[str]


def read_snippet(opened: OpenReply) -> FoundEdit:
    """Return the snippet for this file.  Raises MalformedEdit if the reply is for several files, and it is unclear
    which of them is this one, or if the reply is only prose that does not ask to delete anything.
    """
    reply = opened.reply
    fences = own_fences(opened)
    if not fences and _may_wrap_page(reply):
        edit = FoundEdit(SNIPPET, reply.text)
        return edit.but(CHECK, "there may be a fence around the whole page: it was left there")
    if not fences:
        return read_unfenced(opened)
    used = reply.within((fence.opening, fence.closing) for fence in fences)
    others = [f.path for f in _other_fences(reply, fences) if f.is_surely_named]
    if blocks := _replaced(reply, fences):
        return opened.edit(OF_QUOTES, ReadPart("\n".join([*blocks, ""]), used, others))
    pieces = _pieces(opened, fences)
    is_ordered = any(order for order, _ in pieces)
    body = _written(reply, pieces) if is_ordered and len(pieces) > 1 else _body(reply, fences)
    is_open = fences[-1].closing == len(reply.lines)
    if is_open and body[-1:] == [""]:
        body = body[:-1]
    edit = opened.edit(SNIPPET, ReadPart("\n".join([*body, ""]), used, others))
    for check, warning in _warnings(reply, fences):
        edit = edit.but(check, warning)
    return replace(edit, may_be_file=not (is_open or is_ordered) and _may_be_file(reply, fences, body))


def _may_wrap_page(reply: ReplyLines) -> bool:
    """Tell whether one fence may enclose a whole new page that itself has fences."""
    found = reply.plain_fences
    is_new_page = reply.is_prose_file and reply.is_new_file and len(found) > 1
    return is_new_page and found[0].opening == 0 and found[-1].closing >= len(reply.lines) - 2


def _may_be_file(reply: ReplyLines, fences: Sequence[Fence], body: Sequence[str]) -> bool:
    """Tell whether a lone fence without markers may hold the whole file.  The fence must not be for another file."""
    if len(fences) > 1 or reply.is_prose_file or _wrong_names(reply, fences):
        return False
    return not any(is_marker(line) or is_fence(line) for line in body)


def _other_fences(reply: ReplyLines, fences: Sequence[Fence]) -> list[Fence]:
    chosen = {fence.opening for fence in fences}
    return [fence for fence in reply.plain_fences if fence.opening not in chosen]


def _warnings(reply: ReplyLines, fences: Sequence[Fence]) -> Iterator[tuple[str, str]]:
    """Yield the doubts about the choice of fences, each with the name of its check."""
    left = (fence for fence in _other_fences(reply, fences) if is_foreign(reply, fence))
    if reply.path is not None and (foreign := next(left, None)) is not None:
        told = lead(reply, foreign)[:80]
        yield DOUBT, f"a part of the reply seems to be of another file and was left out: {told!r}"
    if fences[0] not in reply.plain_fences:
        yield CHECK, "the fence around the page was taken to end at the last line"
    wrong = _wrong_names(reply, fences)
    if wrong and not (has_same_name(wrong[0], reply.path) and any(map(reply.shows_file, fences))):
        yield CHECK, f"the edit names another file: {wrong[0]}"
    if fences[-1].closing == len(reply.lines):
        yield CHECK, "the fence around the edit has no end: it may be cut short"


def _wrong_names(reply: ReplyLines, fences: Sequence[Fence]) -> list[str]:
    return [f.path for f in fences if f.path and f.is_surely_named and not is_same_file(f.path, reply.path)]


# -- which fences ------------------------------------------------------------------------------------------------------
def own_fences(opened: OpenReply) -> list[Fence]:
    """Return the fences with the snippet for this file; the list is empty if the fences are text of the file.

    Raises MalformedEdit if the fences name several files, and none of them is known to be this one.
    """
    reply, fences = opened.reply, list(opened.reply.plain_fences)
    if opened.format == SNIPPET and reply.has_own_fence:  # the blocks belong to other files
        in_blocks = reply.within(block[:2] for block in opened.blocks)
        fences = [fence for fence in fences if in_blocks.isdisjoint(fence.body)]
    if reply.is_prose_file and (page := page_fence(reply.lines, fences)) is not None:
        return [page]
    if not fences or _are_text(reply, fences):
        return []
    fences = _without_asides(reply, fences)
    if len(fences) > 1:
        fences = [fence if fence.path else _named_inside(reply, fence) for fence in fences]
    return _without_quotes(reply, _named_ones(reply, fences))


def _are_text(reply: ReplyLines, fences: Sequence[Fence]) -> bool:
    """Tell whether the fences are text of the file, so that the text around them belongs to the file too."""
    outside = [at for at, line in enumerate(reply.lines) if at not in reply.fenced and line.strip()]
    if any(map(reply.is_of_file, outside)):
        return True
    if reply.is_prose_file:
        if fences[0].language in DIFF_TITLES:
            return not is_signed(reply.original.split("\n"), _body(reply, fences))
        is_titled = fences[0].language in PAGE_TITLES
        return not is_titled and not any(fence.is_surely_named for fence in fences)
    # A new file has no lines yet that a fence could show.
    is_shown = reply.is_new_file or any(map(reply.shows_file, fences))
    return not is_shown and any(map(reply.is_code_shaped, outside))


def _without_asides(reply: ReplyLines, fences: list[Fence]) -> list[Fence]:
    """Return the fences that are not commands, not examples of use, and not code for a case that may never come.
    Fences of such a kind are kept if nothing else would be left.
    """
    if len(fences) > 1 and not (reply.path or "").endswith(SCRIPTS):
        fences = [fence for fence in fences if fence.language not in SHELLS] or fences
    fences = [fence for fence in fences if not shows_usage(reply, fence)] or fences
    return [fence for fence in fences if not is_suggested(reply, fence)] or fences


def _named_inside(reply: ReplyLines, fence: Fence) -> Fence:
    """Return the fence with the path that a comment in its first line names."""
    first = reply.lines[fence.opening + 1] if fence.body else ""
    is_note = strip_comment(first).is_comment and not reply.is_of_file(fence.opening + 1)
    path = named_path(first) if is_note else None
    return fence if path is None else replace(fence, path=path, is_surely_named=True)


def _named_ones(reply: ReplyLines, fences: list[Fence]) -> list[Fence]:
    """Return the fences that name this file or no file; all fences if none names this file.

    Raises MalformedEdit if the fences name several files.
    """
    named = {fence.path for fence in fences if fence.path is not None}
    mine = [fence for fence in fences if fence.path is not None and is_same_file(fence.path, reply.path)]
    if mine and reply.is_new_file:  # a fence without a name may belong to any file
        return mine
    if reply.path is not None and mine:
        return sorted([*mine, *(fence for fence in fences if fence.path is None)], key=lambda f: f.opening)
    if len(named) > 1 and any(fence.is_surely_named for fence in fences):
        raise MalformedEdit(
            "the reply is for several files, and it is not clear which of them is this one",
            value=reply.path,
            limit=sorted(named),
            remedy="send the `path` of the file, as the reply names it",
        )
    return fences


def _without_quotes(reply: ReplyLines, fences: list[Fence]) -> list[Fence]:
    """Return the fences that are not for other files and do not only quote the file.  If no fence would be left, return
    all."""
    mine = [fence for fence in fences if reply.path is None or not is_foreign(reply, fence)]
    if not mine or _replaced(reply, mine):
        return mine or fences
    told = ((fence, lead(reply, fence)) for fence in mine)
    left = [fence for fence, words in told if is_order(words) or not words.strip() or not _quotes(reply, fence)]
    return left if left and all(map(reply.shows_file, left)) else mine


def _quotes(reply: ReplyLines, fence: Fence) -> bool:
    """Tell whether the file contains the text of the fence unchanged, and the text is more than brackets."""
    says = any(sum(map(str.isalnum, reply.lines[at])) >= MIN_KNOWN for at in fence.body)
    return says and reply.file.stands(_body(reply, [fence]), Likeness.TRAILING)


def _replaced(reply: ReplyLines, fences: Sequence[Fence]) -> list[str]:
    """Return search/replace blocks, if all fences come in pairs: code of the file, and its replacement.

    The words above the two fences are like "Change this:" and "to this:".  The result is empty if a fence belongs to no
    such pair.
    """
    blocks: list[str] = []
    for old, new in zip(fences[::2], fences[1::2], strict=False):
        is_pair = _quotes(reply, old) and _OLD_CODE.match(lead(reply, old)) and _NEW_CODE.match(lead(reply, new))
        if not is_pair:
            return []
        blocks += write_block(_body(reply, [old]), _body(reply, [new]))
    return blocks if len(fences) % 2 == 0 else []


# -- code and its orders -----------------------------------------------------------------------------------------------
def _body(reply: ReplyLines, fences: Sequence[Fence]) -> list[str]:
    """Return the text of the fences.  With several fences, the fence lines stay in the text as gaps."""
    if len(fences) == 1:
        return [reply.lines[at] for at in fences[0].body]
    return [line for f in fences for line in reply.lines[f.opening : f.closing + 1]]


def _pieces(opened: OpenReply, fences: Sequence[Fence]) -> list[Piece]:
    """Return the code of each fence with the order above it.

    An order to delete has a piece of its own, without code, if it ends with "." or stands after the last fence.  An
    order after the last fence may also quote an import that it adds.
    """
    reply = opened.reply
    pieces: list[Piece] = []
    for fence in fences:
        apart, order = orders_above(reply, fence)
        pieces += [*(Piece(one, ()) for one in apart), Piece(order, _body(reply, [fence]))]
    if reply.is_prose_file or fences[-1].closing == len(reply.lines):
        return pieces
    for order in opened.orders:
        if is_of_code(order) and len(fences) == 1 and not pieces[0].order:
            pieces[0] = pieces[0]._replace(order=f"{order.rstrip('.!')}:")
        elif is_deletion(order):
            pieces.append(Piece(order, ()))
        elif (added := added_import(order)) is not None:
            pieces.append(Piece(IMPORT_ORDER, [added]))
    return pieces


def _written(reply: ReplyLines, pieces: Sequence[Piece]) -> list[str]:
    """Return the text of the pieces.  Each piece becomes its order, on a line of its own, and a fence below it."""
    sign = "`" * max(3, *(len(line) - len(line.lstrip("`")) + 1 for line in reply.lines))
    found: list[str] = []
    for order, code in pieces:
        found += [*([order] if order else []), sign, *code, sign]
    return found


def read_unfenced(opened: OpenReply) -> FoundEdit:
    """Return the snippet without the prose that stands around it without fences.

    Several pieces of code come in fences, each below its order.

    Raises MalformedEdit if there is only prose that does not ask to delete anything.
    """
    reply = opened.reply
    prose = find_prose(reply.lines, reply.original.split("\n"), reply.language, is_text=reply.is_prose_file)
    if not prose:
        return FoundEdit(SNIPPET, reply.text)
    pieces = _between(reply, prose)
    if not pieces:
        told = join(reply.lines, prose[0])
        raise MalformedEdit("the reply has prose but no code", value=told, remedy="send the lines that change")
    used = [at for _, code in pieces for at in code]
    if len(pieces) > 1 or not used:
        written = _written(reply, [Piece(order, reply.lines[code.start : code.stop]) for order, code in pieces])
        return opened.edit(SNIPPET, ReadPart("\n".join([*written, ""]), used, ()))
    # Blank lines after the code stay, because the last one may be meant for the file.
    end = next((span.start for span in prose if span.start > used[-1]), len(reply.lines))
    edit = opened.edit(SNIPPET, ReadPart("\n".join(reply.lines[used[0] : end]), used, ()))
    if (order := pieces[0][0]) and reply.is_prose_file and reply.is_new_file:
        told = "this sentence was ignored, because a new page has nothing to change"
        return edit.but(DOUBT, f"{told}: {order[:80]!r}")
    return edit


def _between(reply: ReplyLines, prose: Sequence[range]) -> list[tuple[str, range]]:
    """Return the code between paragraphs of prose, each with the order above it.  An order to delete may lack code."""
    pieces: list[tuple[str, range]] = []
    order, start = "", 0
    for span in [*prose, range(len(reply.lines), len(reply.lines))]:
        code = [at for at in range(start, span.start) if reply.lines[at].strip()]
        if code or asks_to_delete(order):
            pieces.append((order, range(code[0], code[-1] + 1) if code else range(0)))
        text = join(reply.lines, span)
        order, start = text if is_order(text) else "", span.stop
    return pieces
