"""Every case of `cases` gives its wanted text, with the certainty that it says."""

from __future__ import annotations

import pytest

from apply_service.merge.merge import merge
from apply_service.merge.readings import readings
from apply_service.merge.words.sites import merge_placed
from apply_service.reply.reader import read_reply
from apply_service.types import Certainty
from tests.edits.case_files import Case, read_all

EVERY = read_all()


def readings_of(case: Case) -> list[str]:
    """The texts that the case asks about, likeliest first."""
    asks, language, path = case.fields.get("asks", "the merge"), case.said("language"), case.said("path")
    update, instruction = case.edit, case.fields.get("instruction", "")
    if "of a reply" in asks:
        reply = read_reply(update, original=case.original, path=path, language=language)
        update, instruction = reply.update, "\n".join(filter(None, [instruction, reply.prose]))
    if asks == "the place":
        lines = case.original.removesuffix("\n").split("\n")
        placed = merge_placed(lines, update.split("\n"), language=language, path=path, instruction=instruction)
        return ["\n".join(op.text for op in ops if op.kind != "drop") + "\n" for _, ops in placed]
    if asks.startswith("a reading"):
        found = readings(case.original, update, language=language, path=path, instruction=instruction)
        return [reading.text for reading in found]
    assert asks.startswith("the merge"), f"{case.name}: asks {asks}"
    merged = merge(case.original, update, language=language, path=path, instruction=instruction)
    certainty = case.said("certainty")
    if certainty is not None:
        assert (merged.certainty is Certainty.CERTAIN) == {"certain": True, "not certain": False}[certainty]
    return [merged.text]


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    found = readings_of(case)
    if case.fields.get("asks", "").startswith("a reading"):
        assert case.wanted in found
    else:
        assert found[0] == case.wanted
