"""The wordings of markers, deletion notes, placement hints and file names, as patterns; `markers` applies them.

A pattern sees the text of a line without its comment signs, but for the two that take those off.
"""

from __future__ import annotations

import re

LEAD = re.compile(
    r"^\s*(?:\{\s*/\*+|/\*+|<!--+|\{#|\{\{!--|//+!?|#+(?!\[)!?|--+\[*|;+|%+|\"\"\"|'''|\*(?=\s|$)|REM\b|'(?=\s*\.{3}))\s*"
)
TAIL = re.compile(r"\s*(?:\*+/\s*\}?|--+>|#\}|\"\"\"|'''|--\]\]|--\}\})\s*$")
ELLIPSIS = r"(?:\.{2,}|…)"
ONLY_ELLIPSIS = re.compile(rf"^[\(\[<{{]*\s*{ELLIPSIS}\s*[\)\]>}}]*$")
LEADING = re.compile(rf"^[\(\[<]*\s*{ELLIPSIS}(?=[\s\(\[]|$)")
TRAILING = re.compile(rf"{ELLIPSIS}\s*[\)\]>]*$")
NOUN = (
    r"(?:code|codes|imports?|"
    r"methods?|functions?|implementations?|contents?|fields?|tests?|test cases?|cases?|config\w*|"
    r"parameters?|params|arguments?|args|logic|body|bodies|routes?|lines?|entries|examples?|properties|attributes?|"
    r"definitions?|declarations?|statements?|members?|class(?:es)?|file|setup|code blocks?|items?|rules?|keys?|values?|"
    r"options?|settings?|styles?|types?|variables?|constants?|exports?|handlers?|helpers?|steps?|jobs?|sections?|text|"
    r"docs?|docstrings?|comments?|specs?|contexts?|elements?|markup|stuff|parts?|things?|dependencies|samplers|branches)"
)
PHRASE = re.compile(
    r"\b(?:existing|rest of|the rest|remaining|remainder|unchanged|unmodified|untouched|same as|stays?|remains?|"
    r"previous|other|others|omitted|keep|kept|as before|as is|no changes?|snip(?:ped)?|above|below|original|etc)\b",
    re.IGNORECASE,
)
STRONG = re.compile(
    rf"^[\(\[<]*\s*(?:"
    rf"(?:all |the )*(?:rest|remainder)(?: of\b.*| (?:is |stays |remains )?(?:the same|unchanged|as is|as before).*)?"
    rf"|(?:all |the |any |my |your )*(?:existing|previous|other|remaining|original|unchanged|same)"
    rf"(?: \w+){{0,2}} {NOUN}"
    rf"(?: (?:here|above|below|go(?:es)? here|unchanged|as before|as is|"
    rf"(?:stays?|remains?) (?:the same|unchanged|as is)|(?:are|is) unchanged))*"
    rf"|(?:\S+ ){{0,6}}(?:is |are )?(?:left |kept |remains? |stays? )?(?:unchanged|unmodified|untouched)"
    rf"(?: (?:here|below|above|from here))?"
    rf"|(?:\S+ ){{0,6}}(?:remains?|stays?) (?:the same|unchanged|as (?:is|before|it was)).*"
    rf"|same as (?:before|above|original|in the original|existing).*"
    rf"|no (?:other )?changes?(?: (?:here|below|above|needed|from here|to .*|in .*))?"
    rf"|keep (?:the )?(?:rest|everything|existing|all|other|remaining)\b.*|keep (?:this |it )?as is"
    rf"|(?:\S+ ){{0,3}}omitted(?: for brevity)?"
    rf"|snip(?:ped)?"
    rf")\s*[\)\]>\.:;,]*$",
    re.IGNORECASE,
)
ENCLOSED = re.compile(r"^(?:\(.*\)|\[.*\]|<.*>)[.;]?$")
TOLD = re.compile(
    r"\b(?:existing|rest|remaining|unchanged|unmodified|untouched|(?:not|never) (?:changed|touched|modified)|same|"
    r"stays?|remains?|omitted|kept|as (?:before|is|it (?:is|was)|they (?:are|were))|no changes?|unaffected|"
    r"like before|etc)\b|"
    r"\.{2,}|…",
    re.IGNORECASE,
)
DELETED = re.compile(
    r"^[\(\[<]*\s*(?:\.{2,}|…)?\s*(?:(?:removed|deleted|dropped)\b(?:[:\s]|$)|(?:remove|delete|drop)\s*:)|"
    r"^.{1,80}?\s(?:(?:is|was|were|are|has been|have been)\s)?(?:removed|deleted|dropped)\s*"
    r"(?:[,;:(].*|here|in favou?r of .*|\.{2,}|…)?[\.\)\]]*$",
    re.IGNORECASE,
)
CONDITION = re.compile(
    r"^(?:if|when|whenever|once|after|before|because|since|unless|until|while|whether|as soon as)\b", re.IGNORECASE
)
PLAIN_NOTE = re.compile(
    r"^(?:\(\s*removed\b.*\)|\[\s*removed\b.*\]|removed\s*:.*|deleted\s*:.*|"
    r"(?:removed|deleted) (?:these|this|the (?:old|following)|old|unused)\b.*|"
    r"\S+(?: \S+)? removed|(?:removed|deleted) \S+)$",
    re.IGNORECASE,
)
HINT = re.compile(
    r"^[\(\[<]*\s*(?:\.{2,}|…)?\s*(?:.{0,60}?[,;:]\s*)?(?:please )?"
    r"(?:add|insert|place|put|append|prepend|new|goes|this goes|belongs|comes)\b.{0,60}?\b"
    r"(?P<where>after|before|below|above|under|following|inside|within|into|in|at|to)\b\s*(?P<target>.*?)\s*(?:\.{2,}|…)?[\)\]>]*:?$",
    re.IGNORECASE,
)
EDGE = re.compile(
    r"^(?:the )?(?:very )?(?P<edge>end|bottom|start|top|beginning)(?: of (?:the )?(?P<target>.*?))?\s*$", re.IGNORECASE
)
FILE = re.compile(
    r"^(?:(?:file(?:name)?|path)\s*[:=]\s*|[*#`\s]+)?`?(?P<path>[\w@.+~-]+(?:[/\\][\w@.+~\[\]()-]+)*\.[A-Za-z]\w{0,9}|(?:[\w.-]+/)+[\w.-]+|(?:\w+/)*(?:Dockerfile|Makefile|Gemfile|Rakefile))`?[*`:]*$"
)
FENCE = re.compile(r"^\s*(?P<sign>`{3,}|~{3,})\s*(?P<info>[^`]*)$")


IMPERATIVE = re.compile(
    r"^[\(\[<]*\s*(?:\.{2,}|…)?\s*(?:new,?\s+goes|add|insert|place|put|append|prepend|this goes|goes)\b", re.IGNORECASE
)
