"""Reads the file and the edit from a chat, and writes the merged file back in the client's form.

Three kinds of chat are accepted, tried in this order.  All others are refused: the service holds no conversations.

1. A tagged message: `<instruction>..</instruction> <code>FILE</code> <update>EDIT</update>`.
2. A prediction and an edit: the predicted text is the file.  The one user message that differs from it is the edit, if
   it surely is one (`is_edit`).
3. A prediction and any other message: the message is an instruction, which only instruct models accept.

File and edit may contain any of the tags.  They are split at the *seam* `</code><update>`, which may contain white
space only.  The code starts at the first `<code>` at the start of a line (or after `</instruction>`); the edit ends at
the last `</update>`.  A message with two seams is ambiguous and refused.  Text between tags is taken as it is.  Text
before the first and after the last tag is not part of the edit.  If there is no such seam, or a tag stands before or
behind the tagged parts, other orders of the tags are tried (`read_other_order`).

Morph's clients send a long file in two parts, and announce it in a header (`EXTRALONG`).  One part is a table of its
long lines, the other the file with a placeholder for each of them.  The placeholders are replaced here, so the answer
is the plain file, which those clients accept.  Without the header, such text is the file's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from itertools import islice, pairwise
from typing import Literal, NamedTuple

from apply_service.errors import AmbiguousTags, NotAnEdit, TooLarge
from apply_service.registry import EDIT_FORMATS
from apply_service.reply.reader import detect_format
from apply_service.syntax.languages import detect_language
from apply_service.syntax.trees import guess_language
from apply_service.text.fences import find_fences, is_fence
from apply_service.text.markers import is_marker

APPLY_TOKEN = "<|!@#IS_APPLY!@#|>"
"""A mark that one client appends to its message; not part of the edit."""
REMEDY = "send the file and the edit in separate JSON fields: POST /v1/code/apply or /v1/apply"
ANCHORS = "the table with which Morph's SDK shortens the file"
OPENING, CLOSING = "<updated-code>", "</updated-code>"
ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"})
ESCAPED = re.compile(r"(?:[^&<>\"']++|&(?:amp|lt|gt|quot|apos);)*+")
MIN_ANCHOR = 3
"""A line with fewer visible characters than this does not show which file it is from."""


class TagSet(NamedTuple):
    """One spelling of the tags.  If `is_padded`, each tag includes one line break towards the text."""

    seam: re.Pattern[str]
    opening: re.Pattern[str]
    closing: str
    is_padded: bool = False


MORPH = TagSet(re.compile(r"</code>\s*<update>"), re.compile(r"^[ \t]*<code>", re.MULTILINE), "</update>")
MERCURY = TagSet(
    re.compile(r"<\|/original_code\|>\s*<\|update_snippet\|>"),
    re.compile(r"^[ \t]*<\|original_code\|>", re.MULTILINE),
    "<|/update_snippet|>",
    is_padded=True,
)
INSTRUCTION = re.compile(r"^[ \t]*<instructions?>", re.MULTILINE)
INSTRUCTION_SEAM = re.compile(r"</instructions?>\s*<code>")
STRAY = re.compile(r"^[ \t]*<(?:code|update|instructions?)>", re.MULTILINE)
TAG = re.compile("<(?P<slash>/?)(?P<name>code|update|instruction)s?>")

EXTRALONG = ("X-Morph-Apply-Context", "extralong")
"""The header of a client that writes the code with placeholders."""
ANCHORED = re.compile(
    r"⟪MORPH_DEFINITIONS_BEGIN_(?P<space>\d+)⟫\n(?P<table>.*?)\n⟪MORPH_DEFINITIONS_END_(?P=space)⟫\n"
    r"(?P<begin>⟪MORPH_CODE_BEGIN_(?P=space)⟫)\n(?P<skeleton>.*)",
    re.DOTALL,
)
"""A line of the table is `PLACEHOLDER="TEXT"`, the text as JSON."""
ANCHOR_RULES = "\n\nLARGE-FILE ANCHOR PROTOCOL:\n"
"""The heading of a part of the instruction.  That part is meant for models that would write placeholders."""


class Tagged(NamedTuple):
    """The text between the tags, and around them."""

    code: str
    update: str
    instruction: str
    around: str


@dataclass(frozen=True, slots=True)
class ChatEdit:
    """The edit in a chat."""

    original: str
    update: str
    instruction: str
    wrapping: Literal["bare", "tagged", "escaped"] = "bare"

    def language(self) -> str | None:
        """Return the language of the edit's fences, by title or file name, if they all have the same one; else the
        language that the file seems to be in."""
        fences = find_fences(self.update.split("\n"))
        named = {detect_language(name=fence.language, path=fence.path) for fence in fences}
        return named.pop() if len(named) == 1 and None not in named else guess_language(self.original)

    def write(self, piece: str) -> str:
        """Return a piece of the merged file as the client expects it."""
        return piece.translate(ESCAPES) if self.wrapping == "escaped" else piece

    def whole(self, merged: str) -> str:
        """Return the merged file as the client expects it, tags included."""
        return self.head + self.write(merged) + self.tail

    @property
    def head(self) -> str:
        return "" if self.wrapping == "bare" else OPENING

    @property
    def tail(self) -> str:
        return "" if self.wrapping == "bare" else CLOSING


def read_chat(
    system: Sequence[str], user: Sequence[str], prediction: str | None, tags: TagSet, max_anchored: int | None = None
) -> ChatEdit:
    """Return the edit in these messages and this prediction.

    `max_anchored`: the maximum number of characters of the code once its placeholders are replaced; None unless the
    client says that the code may have placeholders.

    Raises:
        NotAnEdit: there is no edit, or more than one.
        AmbiguousTags: `read_tags` raises it, or the tagged code differs from the prediction.
        The errors of `expand`.
    """
    tagged = read_tags(user[-1], tags) if user else None
    if tagged is None and prediction is None and user and tags is MORPH:
        tagged = read_other_order(user[-1])
    if tagged is not None and max_anchored is not None:
        tagged = expand(tagged, max_anchored)
    if tagged is None and prediction is not None:
        return read_beside_prediction(system, user, prediction)
    if tagged is None:
        raise NotAnEdit(
            "the messages hold no edit: this service merges edits into files and does not chat",
            limit="<code>FILE</code><update>EDIT</update>, or a prediction and an edit",
            remedy="send <code>FILE</code><update>EDIT</update>, or the file as `prediction` and the edit as message",
        )
    if len(user) > 1:
        message = f"the request has {len(user)} user messages, but it takes only the one with the file and the edit"
        raise NotAnEdit(message, value=len(user), limit=1, remedy="leave the other user messages out")
    if prediction is not None and prediction != tagged.code:
        raise AmbiguousTags("the file in the tags is not the file in `prediction`", remedy="send the file only once")
    return wrapped(tagged, is_tag_asked=any(OPENING in text for text in (*system, tagged.around)))


def wrapped(tagged: Tagged, *, is_tag_asked: bool) -> ChatEdit:
    """Return the edit, and the form in which the client wants the file.  The file is escaped if the client's texts
    are."""
    if not is_tag_asked:
        return ChatEdit(tagged.code, tagged.update, tagged.instruction)
    if not (ESCAPED.fullmatch(tagged.code) and ESCAPED.fullmatch(tagged.update)):
        return ChatEdit(tagged.code, tagged.update, tagged.instruction, "tagged")
    return ChatEdit(unescape(tagged.code), unescape(tagged.update), tagged.instruction, "escaped")


def read_beside_prediction(system: Sequence[str], user: Sequence[str], prediction: str) -> ChatEdit:
    """Return the edit or instruction in the one user message that is not the file.  Raises NotAnEdit if there is not
    exactly one."""
    messages = [text for text in user if text != prediction]
    if len(messages) != 1:
        message = f"a request with `prediction` takes one more user message, and this one has {len(messages)}"
        remedy = "send one user message, with the edit or the instruction"
        raise NotAnEdit(message, value=len(messages), limit=1, remedy=remedy)
    if is_edit(messages[0].replace("\r\n", "\n"), prediction.replace("\r\n", "\n")):
        return ChatEdit(prediction, messages[0], "")
    return ChatEdit(prediction, "", "\n\n".join((*system, *messages)))


def is_edit(text: str, original: str) -> bool:
    """Tell whether a message is surely an edit of the file, not prose about an edit.

    Such a message is a diff, a patch or search/replace blocks; a single fenced block; or a snippet without fences.  A
    snippet without fences must not repeat the whole file, and must have a marker or begin with a line of the file.
    """
    *_, otherwise = EDIT_FORMATS
    if detect_format(text, named=None, original=original) != otherwise:
        return True
    lines = [line for line in text.split("\n") if line.strip()]
    fences = [at for at, line in enumerate(lines) if is_fence(line)]
    if fences:
        return fences == [0, len(lines) - 1]
    if not lines or (original.strip() and original.strip() in text):
        return False
    first = lines[0].strip()
    is_anchored = len(first) >= MIN_ANCHOR and any(first == known.strip() for known in original.split("\n"))
    return is_anchored or any(is_marker(line) for line in lines)


def read_tags(text: str, tags: TagSet) -> Tagged | None:
    """Return the tagged parts of a message; None if the message has no seam.  Raises AmbiguousTags if there are two
    seams, and NotAnEdit if the opening or closing tag is missing, or the tags are in an unknown order."""
    text = text.removesuffix(APPLY_TOKEN)
    if tags.seam.search(text) is None:
        return None
    before, after = _split_once(text, tags.seam)
    update, closing, tail = after.rpartition(tags.closing)
    if not closing:
        remedy = f"end the edit with {tags.closing}, or {REMEDY}"
        raise NotAnEdit(f"the edit has no closing tag {tags.closing}", value=after[-80:], remedy=remedy)
    opening, asked, instruction = tags.opening.search(before), INSTRUCTION.search(before), ""
    if asked is not None and (opening is None or asked.start() < opening.start()):
        instruction, code = _split_once(before[asked.end() :], INSTRUCTION_SEAM)
        head = before[: asked.start()]
    elif opening is not None:
        head, code = before[: opening.start()], before[opening.end() :]
    else:
        message = "no line begins with the tag that opens the file's text, such as <code>"
        raise NotAnEdit(message, value=before[:80], remedy=f"put that tag before the file's text, or {REMEDY}")
    if stray := STRAY.search(head) or STRAY.search(tail) or re.search("</instructions?>", tail):
        if tags is MORPH and (other := read_other_order(text)) is not None:
            return other
        message = f"the tag {stray[0]} is out of place"
        remedy = "send the instruction, the code and the update in this order"
        raise NotAnEdit(message, value=stray[0], remedy=remedy)
    if tags.is_padded:
        code, update = (part.removeprefix("\n").removesuffix("\n") for part in (code, update))
    return Tagged(code, update, instruction, head + tail)


def read_other_order(text: str) -> Tagged | None:
    """Return the tagged parts of a message with Morph's tags in any order.  Return None if the text has a surplus tag,
    or anything but white space between two parts."""
    tags = list(islice(TAG.finditer(text), 7))
    order = [tag["name"] for tag in tags[::2]]
    if sorted(order) not in (["code", "update"], ["code", "instruction", "update"]):
        return None
    texts = [text[tag.end() : following.start()] for tag, following in pairwise(tags)]
    begins_line = not text[: tags[0].start()].rpartition("\n")[2].strip()
    are_pairs = [(tag["slash"], tag["name"]) for tag in tags] == [
        (slash, name) for name in order for slash in ("", "/")
    ]
    if not (begins_line and are_pairs) or any(map(str.strip, texts[1::2])):
        return None
    part = dict(zip(order, texts[::2], strict=True))
    around = text[: tags[0].start()] + text[tags[-1].end() :]
    return Tagged(part["code"], part["update"], part.get("instruction", ""), around)


def _split_once(text: str, seam: re.Pattern[str]) -> tuple[str, str]:
    """Return the text before and after the seam.  Raises AmbiguousTags unless there is exactly one seam."""
    found = list(seam.finditer(text))
    if len(found) != 1:
        twice = "the file or the edit contains the tags itself, so it is not clear where each of them ends"
        message = twice if found else "no file follows the instruction"
        raise AmbiguousTags(message, value=len(found), limit=1, remedy=REMEDY)
    return text[: found[0].start()], text[found[0].end() :]


def expand(tagged: Tagged, max_chars: int) -> Tagged:
    """Return the tagged parts with each placeholder replaced by its line.  Code without a table stays as it is.

    Raises:
        NotAnEdit: the table can't be read, or lacks a placeholder.
        TooLarge: the code has more than `max_chars` characters.
        AmbiguousTags: the file or the edit holds a text at which the client would cut the answer.
    """
    remedy = "set anchorCompaction: false in Morph's SDK"
    if not tagged.code.startswith("⟪MORPH_DEFINITIONS_BEGIN_"):
        return tagged
    found = ANCHORED.fullmatch(tagged.code)
    if found is None:
        raise NotAnEdit(f"{ANCHORS} is cut off", value=tagged.code[:80], remedy=remedy)
    try:
        lines = (line.partition("=") for line in found["table"].split("\n"))
        texts = {placeholder: json.loads('"' + text.removeprefix('"')) for placeholder, _, text in lines}
        "".join(texts.values()).encode()  # raises for lone surrogates
        parts = re.split(rf"(⟪M{found['space']}:\d+:[^⟪⟫]+⟫)", found["skeleton"])
        parts[1::2] = [texts[placeholder] for placeholder in parts[1::2]]
    except (ValueError, KeyError) as error:
        raise NotAnEdit(
            f"the file that was sent with {ANCHORS} is not complete", value=str(error)[:80], remedy=remedy
        ) from None
    if (n_chars := sum(map(len, parts))) > max_chars:
        message = "the file is too large after the parts that Morph's SDK cut out are restored"
        raise TooLarge(message, value=n_chars, limit=max_chars, remedy="send a smaller file, or a part of it")
    code = "".join(parts)
    if found["begin"] in code or found["begin"] in tagged.update:
        message = f"the file or the edit contains {found['begin']}, a mark that Morph's SDK adds to shortened files"
        raise AmbiguousTags(message, value=found["begin"], remedy=remedy)
    return tagged._replace(code=code, instruction=tagged.instruction.rsplit(ANCHOR_RULES, 1)[0])
