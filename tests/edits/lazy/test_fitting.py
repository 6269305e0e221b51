"""How the blocks of a snippet are brought to the file's indentation."""

from __future__ import annotations

from apply_service.edits.lazy.candidates import LineIndex
from apply_service.edits.lazy.fitting import fit_blocks

FILE = [
    "class Loader:",
    "    def load(self, path):",
    "        text = self.read(path)",
    "        return self.parse(text)",
    "",
    "    def reload(self, path):",
    "        self.cache.pop(path)",
    "        return self.load(path)",
]


def fitted(*blocks: list[str]) -> list[list[str]]:
    shifts = fit_blocks(blocks, LineIndex(FILE))
    return [[shift.apply(line) for line in lines] for lines, shift in zip(blocks, shifts, strict=True)]


def test_a_block_without_a_known_line_moves_with_the_others() -> None:
    known = ["text = self.read(path)", "return self.parse(text)"]
    new = ["self.cache.pop(path, None)"]
    assert fitted(known, new) == [[" " * 8 + line for line in known], ["        self.cache.pop(path, None)"]]


def test_narrow_levels_are_widened_rather_than_the_block_moved() -> None:
    block = ["  def reload(self, path):", "    self.forget(path)", "    return self.load(path)", "class Other:"]
    assert fitted(block) == [
        ["    def reload(self, path):", "        self.forget(path)", "        return self.load(path)", "class Other:"]
    ]
