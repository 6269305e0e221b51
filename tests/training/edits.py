"""Small real-looking edits for the training tests."""

from __future__ import annotations

import random

from training.corpus import Edit

BODY = """import os


def load(path):
    \"\"\"Read a file.\"\"\"
    with open(path) as file:
        return file.read()


def save(path, text):
    with open(path, "w") as file:
        file.write(text)


class Store:
    def __init__(self, root):
        self.root = root

    def get(self, name):
        return load(os.path.join(self.root, name))

    def put(self, name, text):
        save(os.path.join(self.root, name), text)
"""


def make_edits(n: int, *, seed: int = 0) -> list[Edit]:
    """`n` edits of one file: a line replaced, inserted or deleted at random places."""
    rng = random.Random(seed)
    edits: list[Edit] = []
    for at in range(n):
        lines = BODY.split("\n")
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(1, len(lines) - 2)
            indentation = " " * (len(lines[place]) - len(lines[place].lstrip()))
            new = f"{indentation}value_{rng.randrange(1000)} = call_{rng.randrange(1000)}(text)"
            lines[place : place + rng.choice((0, 1, 1))] = [new]
        edits.append(Edit(f"someone/repo-{at % 7}", f"src/file_{at}.py", "python", BODY, "\n".join(lines)))
    return edits
