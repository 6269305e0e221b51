"""Parsing: cached, tolerant, and refused where a grammar would take for ever or crash."""

from __future__ import annotations

import ast
import time
from pathlib import Path

import pytest

import apply_service
from apply_service.syntax.languages import LANGUAGES
from apply_service.syntax.trees import MAX_CHARS, MAX_PLAIN_BYTES, guess_language, parse
from tests.syntax import samples

PARSED = [language.name for language in LANGUAGES if language.grammar is not None]


def test_a_text_is_parsed_once() -> None:
    text = "def once():\n    pass\n"
    assert parse(text, "python") is parse(text, "python")


def test_no_grammar_no_tree() -> None:
    assert parse("x", None) is None
    assert parse("x", "lua") is None


def test_rows_are_those_of_split() -> None:
    text = "a = '\u2028'\nb = '\x0c'\nc = '𝒳é'\nd = 1"
    tree = parse(text, "python")
    assert tree is not None
    rows = [child.start_point[0] for child in tree.root.named_children]
    assert rows == [0, 1, 2, 3]
    assert [tree.text_of(child) for child in tree.root.named_children] == text.split("\n")


def test_a_lone_surrogate_moves_no_row() -> None:
    tree = parse("a = '\ud800'\nb = 1\n", "python")
    assert tree is not None
    assert tree.root.named_children[1].start_point[0] == 1


def test_typescript_falls_back_to_its_dialect() -> None:
    jsx = "const a = <div id='x'>hello</div>;\n"
    tree = parse(jsx, "typescript")
    assert tree is not None
    assert tree.language == "tsx"
    assert not tree.root.has_error
    cast = parse("const a = <T>b;\n", "typescript")
    assert cast is not None
    assert cast.language == "typescript"


def test_a_c_header_may_be_cpp() -> None:
    tree = parse("namespace a {\nclass B : public C {\n public:\n  B();\n};\n}\n", "c")
    assert tree is not None
    assert tree.language == "cpp"


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("java", "a<" * 20_000),
        ("java", "[" + "1," * 100_000),
        ("csharp", "a<\n" * 20_000),
        ("c", "[" + "1," * 100_000),
        ("shell", "|a\n" * 50_000),
        ("yaml", "- " * 5_000),
        ("yaml", "\n".join(" " * i + "a:" for i in range(300))),
        ("yaml", "\n".join(" " * i + "a:" for i in range(190)) + "\n" + " " * 190 + "- " * 80),
        ("python", "x = 1\n" * (MAX_CHARS // 6 + 1)),
    ],
)
def test_hostile_text_is_refused_at_once(language: str, text: str) -> None:
    started_s = time.thread_time()
    assert parse(text, language) is None
    assert time.thread_time() - started_s < 1.0


@pytest.mark.parametrize("text", ["val a: Int\n@D(", "val a: Int\n@", 'val a = 1\n@D(R("a")', "var x = 1\n @A @B @"])
def test_kotlin_ends_at_the_end_of_the_text(text: str) -> None:
    """The scanner of the grammar (1.1.0) ran past the end for ever."""
    assert parse(text, "kotlin") is not None


def test_kotlin_running_in_a_circle_is_stopped() -> None:
    """Found by cutting files in pieces: the parser read the same text again and again.  (Words are made up, but their
    first letters and lengths matter.)"""
    text = (
        "{saralolemo\n"
        "        saralolemo\n"
        " \\       vamonum = with(remumeralul.punomotorolotem) { Honumemelutunonenen.fulunolom}\n"
        "                aenelu(hetumemala.nora, hetumemala.valor)\n"
        "            }\n"
        "        }\n"
        "        val rolota = Huraletorararare(setota, rumatoralal, henalum, vamonum, balu, conoreranom)\n"
        "            cunet ?: return@ielemurorerotoruta\n"
        "            foture.camome(tene)\n"
        "        }\n"
        "\n"
        "    } catch (cunet: Tatanutam) {\n"
        "        ratarato.catamunemutonumamanor(cunet)\n"
        "        throw cunet\n"
        "    }\n"
        "\n"
    )
    started_s = time.thread_time()
    assert parse(text, "kotlin") is None
    assert time.thread_time() - started_s < 2.0


def test_long_plain_code_is_not_taken_for_hostile() -> None:
    text = "\n".join(f"def f{i}(a, b{i * 7}):\n    return a + {i * i}\n" for i in range(3_000))
    assert len(text) > MAX_PLAIN_BYTES
    assert parse(text, "python") is not None


@pytest.mark.parametrize("language", PARSED)
@pytest.mark.parametrize(
    "text", ["", "\n", " ", "\t\n\n", "(", "}", '"', "'", "`", "/*", "<", "@", "$", "\\", "é", "\ufeff"]
)
def test_scraps_are_parsed(language: str, text: str) -> None:
    tree = parse(text, language)
    assert tree is not None
    assert tree.root.start_byte <= len(tree.source)


def test_no_point_is_read_by_attribute() -> None:
    """`Point.row` of tree-sitter 0.26.0 frees what it does not own; the interpreter crashes much later."""
    for path in Path(apply_service.__file__).with_name("syntax").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("row", "column"), f"{path.name}:{node.lineno}: take point[0], point[1]"


@pytest.mark.parametrize("name", ["python", "typescript", "javascript", "go", "rust", "java"])
def test_a_file_without_a_name_is_known_by_its_looks(name: str) -> None:
    assert guess_language(getattr(samples, name.upper())) == name


def test_a_guess_may_be_a_dialect() -> None:
    assert guess_language("interface A {}\nconst a = (b: A) => <div>{b}</div>;\n") == "tsx"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a = 1\n",
        "import this, then def it(\n",
        "def f(:\n    pass\n",
        samples.CSHARP,
        samples.C,
    ],
)
def test_a_file_that_nothing_tells_of_has_no_language(text: str) -> None:
    assert guess_language(text) is None


@pytest.mark.parametrize(
    "text", ["class " + "a" * 200_000, "public " + "a " * 100_000, "import " + "a." * 99_999 + "!"]
)
def test_a_guess_takes_linear_time(text: str) -> None:
    started = time.perf_counter()
    guess_language(text)
    assert time.perf_counter() - started < 2
