"""Edits whose place is told in words, as chat models write them: above a fence, without one, in comments, or in the
instruction."""

from __future__ import annotations

from apply_service.merge.readings import readings

PYTHON = '''\
"""Orders of a small shop."""

import json
import os
from typing import Optional

from shop.models import Item, Order

LIMIT = 10
RATES = {
    "de": 0.19,
    "fr": 0.2,
}


def load(path: str) -> dict:
    """Read one file."""
    with open(path) as handle:
        data = json.load(handle)
    return data


class Cart:
    """A cart."""

    currency = "EUR"

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.items: list[Item] = []

    def add(self, item: Item) -> None:
        if item in self.items:
            raise ValueError(item)
        self.items.append(item)

    def total(self) -> float:
        result = 0.0
        for item in self.items:
            result += item.price
        return result


class Archive(Cart):
    def add(self, item: Item) -> None:
        super().add(item)
        self.flush()

    def flush(self) -> None:
        pass


def main() -> None:
    cart = Cart("me")
    cart.add(Item("book", 3.0))
    print(cart.total())


if __name__ == "__main__":
    main()
'''
# Name, language, reply, instruction, and what changes: old text and new text.


def test_no_reading_writes_a_comment_that_is_carried_out() -> None:
    update = "# Add this after the `load` function:\ndef save(path: str) -> None:\n    pass\n"
    found = readings(PYTHON, update, language="python", path="shop/cart.py")
    assert not any("Add this" in reading.text for reading in found)
