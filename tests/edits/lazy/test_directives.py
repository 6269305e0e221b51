"""Which comments of a snippet speak about the edit, and which belong into the file."""

from __future__ import annotations

import pytest

from apply_service.merge.words.directives import Relation, find_directives, read_words

TEXT = """\
import os
import sys


class Queue:
    limit = 10

    def push(self, item):
        # wake up the reader
        self.items.append(item)

    def pop(self):
        return self.items.pop()


def token_of(line):
    return line.split()[-1]
"""
ORIGINAL = TEXT.split("\n")

CODE = "    def clear(self):\n        self.items = []"

DIRECTIVES = [
    "# add right after push()",
    "# insert between push and pop",
    "# Queue: goes above pop",
    "# in class Queue only, before `pop`",
    "# replaces pop",
    "# put this in front of token_of",
    "# directly below `limit = 10`",
    "# takes the place of token_of()",
    "# at the end of class Queue",
    "# at the very bottom of the file",
    "# very first method of Queue, right above push",
    "# new method, right before pop()",
    "# append to Queue, after pop",
    "# same spot, but ahead of `token_of`",
    "# push(): new signature, body stays",
    "# imports: below `import sys`",
    "# ... existing code (add this before token_of) ...",
]

COMMENTS = [
    "# insert the token after the last one",
    "# wake up the reader",
    "# Removes all items of the queue.",
    "# we add the item before the others so that pop is fair",
    "# TODO: replace this with a deque",
    "# the limit is checked below",
    "# keep the order",
    "# see push() for the details",
    "# after a restart the queue is empty",
    "# delete old items first",
    "# number of items before the first pop of a reader that has not been woken up yet.",
    "# returns nothing",
    "# Adds an item; does not wake up the reader.",
    "# This method is called between two writes.",
]


def found_in(update: str, language: str = "python") -> list[str]:
    return [
        directive.text
        for directive in find_directives(ORIGINAL, update.split("\n"), language=language, path="a/queue.py")
    ]


@pytest.mark.parametrize("comment", DIRECTIVES)
def test_comment_that_places_code_is_a_directive(comment: str) -> None:
    assert len(found_in(f"{comment}\n{CODE}")) == 1


@pytest.mark.parametrize("comment", COMMENTS)
def test_comment_of_the_program_is_none(comment: str) -> None:
    assert found_in(f"{comment}\n{CODE}") == []
    assert (
        found_in(f"    def clear(self):\n        self.items = []\n        {comment}\n        self.full = False") == []
    )


@pytest.mark.parametrize("sign", ["//", "/*", "<!--", "#", "--"])
def test_comment_signs_are_off(sign: str) -> None:
    closing = {"/*": " */", "<!--": " -->"}.get(sign, "")
    language = {"//": "javascript", "/*": "css", "<!--": "html", "#": "yaml", "--": "sql"}[sign]
    assert found_in(f"{sign} add right after push{closing}\nx", language) == ["add right after push"]


def test_directive_of_several_lines_is_one() -> None:
    update = "# replaces the old pop at the end of Queue,\n# and nothing else\n    def pop(self):\n        return None"
    (directive,) = find_directives(ORIGINAL, update.split("\n"), language="python", path=None)
    assert directive.lines == (0, 1)
    assert directive.block == (2, 3)


def test_content_that_is_a_comment_is_the_block() -> None:
    update = "# replaces the comment above self.items.append\n        # tell the reader"
    (directive,) = find_directives(ORIGINAL, update.split("\n"), language="python", path=None)
    assert directive.lines == (0,)
    assert directive.block == (1,)


def test_comment_of_the_file_is_none() -> None:
    original = ["# add right after push()", "x = 1", "def push():", "    pass"]
    assert find_directives(original, ["# add right after push()", "x = 2"], language="python", path=None) == []


def test_file_name_and_markers_are_none() -> None:
    assert found_in("# a/queue.py\n# ... existing code ...\n    def pop(self):\n        return None") == []
    assert found_in("# ... push and pop unchanged ...\n" + CODE) == []


def test_blocks_end_at_the_next_directive() -> None:
    update = "# add after push\na = 1\n\n# removes pop\n\n# goes below token_of\nb = 2"
    directives = find_directives(ORIGINAL, update.split("\n"), language="python", path=None)
    assert [directive.block for directive in directives] == [(1,), (), (6,)]


def test_scope_told_once_holds_for_all() -> None:
    update = "# All of this is in the Queue class.\n\n# add after push\n" + CODE
    (directive,) = find_directives(ORIGINAL, update.split("\n"), language="python", path=None)
    assert directive.lines == (0, 2)
    assert "Queue class" in directive.text


@pytest.mark.parametrize(
    ("text", "relation"),
    [
        ("before `x`", Relation.BEFORE),
        ("right under `x`", Relation.AFTER),
        ("in front of `x`", Relation.BEFORE),
        ("instead of `x`", Relation.TARGET),
        ("replaces `x`", Relation.TARGET),
        ("inside `x`", Relation.WITHIN),
        ("`x`: new body", Relation.WITHIN),
        ("`x` becomes", Relation.TARGET),
        ("drop `x`", Relation.GONE),
        ("`x` goes away", Relation.GONE),
        ("`x` stays", Relation.KEPT),
    ],
)
def test_words_give_relations(text: str, relation: Relation) -> None:
    assert [mention.relation for mention in read_words(text, bool).mentions if mention.text == "x"] == [relation]


def test_between_names_two_neighbours() -> None:
    mentions = read_words("goes between `a` and `b` in `c`", bool).mentions
    assert [mention.relation for mention in mentions] == [Relation.AFTER, Relation.BEFORE, Relation.WITHIN]


def test_long_lines_cost_little() -> None:
    update = "# add after " + "push " * 20_000
    assert found_in(f"{update}\nx = 1") == []


@pytest.mark.parametrize("update", ["\n", "```\n\n```", "# ... existing code ..."])
def test_a_snippet_without_a_line_of_code_has_none(update: str) -> None:
    assert found_in(update) == []
