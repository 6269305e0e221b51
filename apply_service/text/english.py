"""Finds sentences about an edit, and tells what they ask for.

Every scan passes over its line once, because a line of a reply may be long and strange.
"""

from __future__ import annotations

import re

from apply_service.text.paths import MAX_LENGTH

MAX_PROSE = 600
"""A paragraph of prose around code has at most this many characters."""
MIN_WORDS = 3
MIN_SHARE = 0.6
"""The minimum share of plain words among the words of a sentence, not counting quoted code."""
_SENTENCE = re.compile(r"^(?:\d+[.)] |[-*] )?[A-Z][^{}<>=;|\\]*[.:!?]$")
_QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”|(?<!\w)'[^']*'(?!\w)|[\w.$@:]+\([^()]*\)")
_PLAIN_WORD = re.compile(r"[(*_]*[A-Za-z][a-z]*(?:['’-][A-Za-z]+)*[),;:.!*_]*")
_CODE_SIGNS = re.compile(r"[{}<>=|\\$#\[\]]|;$|::|->")
_SMALL_WORDS = re.compile(
    r"(?<!\w)(?:the|an?|of|to|in|with|this|that|these|those|its?|and|or|before|after|from|into|by|is|are|as|on|for|at|"
    r"below|above|right|so|then|both|same|one|two|here's)(?!\w)",
    re.IGNORECASE,
)
_PROSE_START = re.compile(r"(?:(?:\d+[.)]|[-*]) )?[*_\"'(]*(?:[A-Z`§]|(?:and|then|also|next|finally|plus)\b)")
_VERBS = "replace|swap|overwrite|add|insert|append|prepend|put|place|remove|delete|drop"
_SIDE = r"(?:after|before|below|above|beneath|under|underneath|between)"
_AT_ONCE = r"(?:right|just|directly|immediately)"
_BRIEF = re.compile(
    rf"(?:(?:also|then|and|finally|next|please),? )*(?:(?:{_VERBS})(?: the)? +§(?:[ ,.:]|$)|"
    rf"(?:(?:in|inside) +§ *,? *)?(?:{_AT_ONCE} )?(?:{_SIDE}|in|inside) +§ *(?::|,? (?:and )?{_SIDE}))",
    re.IGNORECASE,
)
"""Orders, and words for a place, that need no other words because they have a quoted object."""
_CHANGES = re.compile(
    r"(?:fix|correct|update|modify|adjust|edit|rename|tweak|improve|refactor|rewrite)\b", re.IGNORECASE
)
"""Verbs that change the thing that they name without moving it."""
_ORDER = re.compile(
    rf"(?:^|[.,;:] |\b(?:and|then|also|please|next|finally)[,:]? )(?:\d+[.)] |[-*] )?[*_]*(?:{_VERBS})\b", re.IGNORECASE
)
_DELETION = re.compile(
    r"(?:^|[.,;] |\b(?:and|then|also|please|finally|next|now),? )(?:remove|delete|drop)\b", re.IGNORECASE
)
_CHANGE_TO = re.compile(
    r"(?:^|[,;:] |\b(?:and|then|also),? )(?:change|update|modify)\b.* to(?: this| be)?:$", re.IGNORECASE
)
_PLACE = re.compile(
    rf"(?:(?:^|[.,;:] |\b(?:and|then|next|also) )(?:\d+[.)] )?[*_]*|\b{_AT_ONCE} ){_SIDE} "
    r"(?:[a-z]+ ){0,4}§"
    rf"|\b{_AT_ONCE} {_SIDE} the \w"
    rf"|\b{_SIDE} the (?:\S+ ){{0,3}}"
    r"(?:import|line|function|method|class|block|loop|call|check|handler|route|test|entry)s?\b"
    r"|\b(?:at|to|near) (?:the )?(?:very )?(?:top|start|beginning|end|bottom)(?: of\b|:|, )",
    re.IGNORECASE,
)
"""Words that say where code goes: beside a thing that they quote, or at an edge of the file."""
_HEADING = re.compile(
    r"#{1,6} (?:step )?(?:\d+[.:)] )?(?P<heading>.+)|\*\*(?:step )?(?:\d+[.:)] )?(?P<bold>[^*]+)\*\*|"
    r"\d+[.)] (?P<item>[A-Z].+)",
    re.IGNORECASE,
)
_TRYING = re.compile(
    r"(?:.*[.!] )?(?:(?:now|then|and|finally|to|you can(?: now| then)?|let's|or) )*"
    r"(?:(?:try|test|use|call|verify|check) (?:it|them)\b.*|"
    r"(?:run|execute|invoke|start|launch)(?: (?:it|them|this|that|the (?:\w+ )?"
    r"(?:script|program|file|server|tests?|example|commands?))\b.*)?|"
    r"(?:example |sample )?(?:usage|output|result|example)s?(?: usage)?):$",
    re.IGNORECASE,
)


def is_sentence(line: str) -> bool:
    """Tell whether the line reads as prose around an edit ("Here is the change:")."""
    if len(line) > MAX_LENGTH or line[:1] in " \t":
        return False
    text = line.strip()
    return " " in text[3:] and _SENTENCE.match(text) is not None


def reads_as_english(paragraph: str) -> bool:
    """Tell whether the paragraph, which is one line, reads as English sentences about code.  It must end with ":" or
    "."."""
    text = paragraph.strip().rstrip("*_")
    if text.startswith("(") and text.endswith(")") and "(" not in text[1:]:
        text = f"{text[1:2].upper()}{text[2:-1].rstrip('.')}."
    if len(text) > MAX_PROSE or not text.endswith((":", ".")) or _PROSE_START.match(text) is None:
        return False
    bare = _QUOTED.sub(" § ", text)
    parts = [word for word in bare.split() if word.strip("(),.:;*_-–—")]
    words = [word for word in parts if word.strip("(),.:;*_-–—") != "§"]
    is_brief = _BRIEF.match(bare) is not None
    if _CODE_SIGNS.search(bare) is not None or not (
        is_brief or (len(parts) >= MIN_WORDS and _SMALL_WORDS.search(bare))
    ):
        return False
    return sum(_PLAIN_WORD.fullmatch(word) is not None for word in words) >= MIN_SHARE * len(words)


def is_order(paragraph: str) -> bool:
    """Tell whether the paragraph says what to do with the code that follows, or what to delete."""
    text = paragraph.strip().rstrip("*_")
    if len(text) > MAX_PROSE:
        return False
    bare = _QUOTED.sub("§", text)
    if _ORDER.search(bare) is None:
        is_place = _PLACE.search(bare) is not None and not changes_in_place(text)
        return text.endswith(":") and (is_place or _CHANGE_TO.search(bare) is not None)
    return text.endswith(":") or asks_to_delete(text)


def changes_in_place(sentence: str) -> bool:
    """Tell whether the sentence begins with a word that changes something without moving it."""
    return _CHANGES.match(sentence.lstrip("*_ ")) is not None


def as_lead(paragraph: str) -> str:
    """Return a heading or a bold line above code as the sentence that it stands for.  Other paragraphs are returned
    unchanged."""
    match = _HEADING.fullmatch(paragraph.strip()) if len(paragraph) <= MAX_LENGTH else None
    text = next(filter(None, match.groups()), "").strip(" *_") if match is not None else ""
    return f"{text}:" if text and not text.endswith((":", ".")) else paragraph


def asks_to_delete(paragraph: str) -> bool:
    """Tell whether the paragraph asks to delete something, whether or not code follows."""
    return _DELETION.search(_QUOTED.sub("§", paragraph.strip())) is not None


def leads_to_usage(paragraph: str) -> bool:
    """Tell whether the paragraph announces an example of use or its output, and not code of a file."""
    text = paragraph.strip().strip("*_# ")
    text = text if text.endswith(":") else f"{text}:"
    return len(text) <= MAX_PROSE and _TRYING.match(text) is not None and not is_order(text)
