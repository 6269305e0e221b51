"""Where prose or the instruction says that new code goes."""

from __future__ import annotations

import pytest

from apply_service.merge.merge import merge

ORIGINAL = """\
import math


class Cart:
    def add(self, item):
        self.items.append(item)

    def list(self):
        return self.items


class Order:
    def add(self, item):
        self.cart.add(item)

    def pay(self):
        return math.fsum(self.cart.list())


def total(xs):
    found = 0
    for x in xs:
        found += x
    return found
"""
METHOD = "    def clear(self):\n        self.items = []\n"
IN_CART = "        return self.items\n"
IN_ORDER = "        return math.fsum(self.cart.list())\n"
CART_ADD = "        self.items.append(item)\n"
LOOP = "        found += x\n"
LINE = "    print(found)\n"


@pytest.mark.parametrize(
    ("said", "behind"),
    [
        ("Add to class Cart:", IN_CART),
        ("Add this method to `Cart`:", IN_CART),
        ("Add this method to Order:", IN_ORDER),
        ("Add this method to Cart, after `add`:", CART_ADD),
        ("add method clear to class Order", IN_ORDER),
    ],
)
@pytest.mark.parametrize("code", [METHOD, "def clear(self):\n    self.items = []\n"])
def test_a_new_method_goes_where_the_words_say(said: str, behind: str, code: str) -> None:
    wanted = ORIGINAL.replace(behind, f"{behind}\n{METHOD}")
    assert merge(ORIGINAL, code, language="python", instruction=said).text == wanted


@pytest.mark.parametrize("said", ["In function `total`, after the loop:", "In function total, after the loop, add:"])
@pytest.mark.parametrize("code", [LINE, "print(found)\n"])
def test_a_statement_goes_behind_the_loop(said: str, code: str) -> None:
    wanted = ORIGINAL.replace(LOOP, LOOP + LINE)
    assert merge(ORIGINAL, code, language="python", instruction=said).text == wanted


def test_before_a_statement_is_no_replacement() -> None:
    wanted = ORIGINAL.replace("    return found\n", "    found *= 2\n    return found\n")
    found = merge(ORIGINAL, "found *= 2\n", language="python", instruction="In `total`, before the return:")
    assert found.text == wanted


def test_an_instruction_does_not_move_what_has_a_place() -> None:
    update = "LIMIT = 20\n"
    found = merge(
        "LIMIT = 10\n\n\ndef f():\n    limit = LIMIT\n", update, language="python", instruction="In `f`: limit"
    )
    assert found.text == "LIMIT = 20\n\n\ndef f():\n    limit = LIMIT\n"


def test_what_belongs_to_a_definition_stands_right_above_it() -> None:
    original = "import java.util.Set;\n\npublic final class ConcurrentSet<E> extends AbstractSet<E> {\n  int n;\n}\n"
    javadoc = "/**\n * @deprecated Use a key set instead.\n */\n@Deprecated\n"
    said = "Put this javadoc and annotation directly above `public final class ConcurrentSet<E>`:"
    wanted = original.replace("public final", f"{javadoc}public final")
    assert merge(original, javadoc, language="java", instruction=said).text == wanted


def test_an_entry_with_an_attribute_has_the_gaps_of_its_neighbours() -> None:
    original = """\
pub enum Error {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("Could not make the path absolute")]
    Absolute(#[source] io::Error),
}

impl Error {
    fn first(&self) {
        one();
    }

    fn second(&self) {
        two();
    }
}
"""
    variant = '    #[error("Failed to initialize")]\n    Init(PathBuf, #[source] io::Error),\n'
    update = f"// Add this variant to `pub enum Error`, between `Io` and `Absolute`:\n{variant}"
    wanted = original.replace('    #[error("Could', f'{variant}    #[error("Could')
    assert merge(original, update, language="rust").text == wanted
