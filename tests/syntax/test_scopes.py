"""Scopes in every language: what they are called, where they start, end and belong."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from apply_service.syntax.scopes import Scope, find_scopes, is_fallback
from tests.syntax.samples import SAMPLES


class Expected(NamedTuple):
    """A scope as a reader sees it: its header line and last line, and the name of the scope around it."""

    kind: str
    name: str
    header: str
    last: str
    parent: str | None = None


EXPECTED: dict[str, list[Expected]] = {
    "python": [
        Expected("function", "f", "def f(", "# trailing comment"),
        Expected("block", "if a:", "if a:", "return 2", "f"),
        Expected("block", "else:", "else:", "return 2", "if a:"),
        Expected("class", "A", "class A(B):", "pass"),
        Expected("method", "g", "async def g(self): return 1", "async def g(self): return 1", "A"),
        Expected("method", "h", "def h(self):", "pass", "A"),
        Expected("block", "with y:", "with y:", "pass", "for i in x:"),
    ],
    "typescript": [
        Expected("function", "f", "export async function f(a: number): Promise<void> {", "}"),
        Expected("class", "A", "export default class A extends B {", "}"),
        Expected("method", "foo", "foo(): void {", "}", "A"),
        Expected("method", "bar", "bar = async () => {", "};", "A"),
        Expected("function", "arrow", "export const arrow = (x: number) => {", "};"),
        Expected("class", "I", "interface I {", "}"),
        Expected("key", "module.exports", "module.exports = {", "};"),
        Expected("function", "go", "go: function () {", "},", "methods"),
        Expected("block", 'it("works", async () => {', 'it("works", async () => {', "});", 'describe("thing", () => {'),
        Expected("module", "N", "namespace N {", "}"),
        Expected("function", "q", "export function q() {}", "export function q() {}", "N"),
    ],
    "javascript": [
        Expected("function", "f", "export async function f(a) {", "}"),
        Expected("method", "foo", "foo() {", "}", "A"),
        Expected("method", "bar", "bar = async () => {", "};", "A"),
    ],
    "go": [
        Expected("class", "T", "type T struct {", "}"),
        Expected("class", "I", "type I interface {", "}"),
        Expected("block", "var (", "var (", ")"),
        Expected("function", "F", "func F(a int) error {", "}"),
        Expected("block", "case 1:", "case 1:", "foo()", "switch a {"),
        Expected("function", "M", "func (t *T) M() {", "}"),
    ],
    "rust": [
        Expected("class", "S", "pub struct S {", "}"),
        Expected("class", "Display for S", "impl Display for S {", "}"),
        Expected("method", "fmt", "fn fmt(&self) -> Result {", "}", "Display for S"),
        Expected("block", "A => {", "A => {", "}", "match x {"),
        Expected("module", "tests", "pub(crate) mod tests {", "}"),
    ],
    "java": [
        Expected("class", "A", "public class A extends B {", "}"),
        Expected("method", "f", "public <T> void f(int a) throws E {", "}", "A"),
        Expected("block", "list.forEach(x -> {", "list.forEach(x -> {", "});", "f"),
        Expected("class", "R", "record R(int a) {}", "record R(int a) {}"),
    ],
    "c": [
        Expected("class", "T", "typedef struct {", "} T;"),
        Expected("function", "foo", "static int", "}"),
        Expected("function", "bar", "char *bar(void) { return 0; }", "char *bar(void) { return 0; }"),
        Expected("function", "z", "int z(void) {", "}", "#ifdef Z"),
    ],
    "cpp": [
        Expected("class", "A", "class A : public B<T> {", "};", "a"),
        Expected("method", "f", "int f(int x) const {", "}", "A"),
        Expected("function", "A::g", "int A::g(int a) {", "}", "a"),
        Expected("function", "operator==", "bool operator==(const A& a, const A& b) {", "}", "a"),
    ],
    "csharp": [
        Expected("module", "N", "namespace N", "}"),
        Expected("class", "A", "public class A : B", "}", "N"),
        Expected("method", "M", "public void M(int a)", "}", "A"),
    ],
    "ruby": [
        Expected("module", "M", "module M", "end"),
        Expected("method", "f", "def f(a)", "end", "A"),
        Expected("block", "x.each do |y|", "x.each do |y|", "end", "f"),
        Expected("block", 'it "y" do', 'it "y" do', "end", 'describe "x" do'),
    ],
    "php": [
        Expected("class", "A", "final class A extends B implements I", "}"),
        Expected("method", "f", "public function f(int $a): int", "}", "A"),
        Expected("function", "g", "function g() {", "}"),
    ],
    "kotlin": [
        Expected("class", "A", "class A(val x: Int) : B() {", "}"),
        Expected("method", "f", "override fun f(a: Int): Int {", "}", "A"),
        Expected("block", "list.forEach {", "list.forEach {", "}", "f"),
        Expected("class", "O", "object O {", "}"),
    ],
    "html": [
        Expected("element", "body", "<body>", "</body>", "html"),
        Expected("element", "div#main", '<div id="main" class="x">', "</div>", "body"),
        Expected("element", "script", '<script src="a">', "</script>", "head"),
    ],
    "css": [
        Expected("section", ":root", ":root {", "}"),
        Expected("section", ".a > b, c:hover", ".a > b,", "}"),
        Expected("section", ".d", ".d {", "}", "@media (max-width: 1px) {"),
    ],
    "json": [
        Expected("key", "b", '"b": {', "}"),
        Expected("key", "c", '"c": [', "]", "b"),
    ],
    "yaml": [
        Expected("key", "jobs", "jobs:", "- uses: y"),
        Expected("key", "steps", "steps:", "- uses: y", "build"),
        Expected("block", "- name: x", "- name: x", "bar", "steps"),
        Expected("key", "q", '"q": 2', '"q": 2'),
    ],
    "toml": [
        Expected("section", "a.b", "[a.b]", "z = { c = 1 }"),
        Expected("key", "y", "y = [", "]", "a"),
        Expected("section", "arr", "[[arr]]", "n = 1"),
    ],
    "markdown": [
        Expected("section", "T", "# T", "para"),
        Expected("section", "A", "## A", "para", "T"),
        Expected("section", "A1", "### A1", "para", "A"),
        Expected("block", "```python", "```python", "```", "A"),
    ],
    "shell": [
        Expected("function", "foo", "foo() {", "}"),
        Expected("block", "elif b; then", "elif b; then", "y", "if [ a ]; then"),
        Expected("block", "a)", "a)", ";;", "case $x in"),
        Expected("function", "bar", "function bar {", "}"),
    ],
    "sql": [
        Expected("class", "a", "CREATE TABLE a (", ");"),
        Expected("function", "f", "CREATE OR REPLACE FUNCTION f() RETURNS int AS $$", "$$ LANGUAGE plpgsql;"),
        Expected("block", "INSERT INTO a VALUES (1);", "INSERT INTO a VALUES (1);", "INSERT INTO a VALUES (1);"),
    ],
}


def describe(scope: Scope, scopes: tuple[Scope, ...], lines: list[str]) -> Expected:
    parent = None if scope.parent is None else scopes[scope.parent].name
    return Expected(scope.kind, scope.name, lines[scope.header_line].strip(), lines[scope.end_line - 1].strip(), parent)


@pytest.mark.parametrize("language", sorted(EXPECTED))
def test_scopes_of_a_sample(language: str) -> None:
    text = SAMPLES[language]
    scopes, lines = find_scopes(text, language), text.split("\n")
    found = [describe(scope, scopes, lines) for scope in scopes]
    for expected in EXPECTED[language]:
        assert expected in found


def test_every_language_with_a_sample_is_expected() -> None:
    assert set(EXPECTED) == set(SAMPLES)


def find(scopes: tuple[Scope, ...], name: str) -> Scope:
    return next(scope for scope in scopes if scope.name == name)


def test_a_decorated_function_in_detail() -> None:
    scope = find(find_scopes(SAMPLES["python"], "python"), "f")
    lines = SAMPLES["python"].split("\n")
    assert lines[scope.lead_line] == "# doc"
    assert lines[scope.start_line] == "@deco("
    assert lines[scope.header_line] == "def f("
    assert lines[scope.body_start_line].strip() == "# first", "comments before the first statement are body"
    assert scope.body_end_line == scope.end_line, "no closing line in Python"


def test_a_braced_method_in_detail() -> None:
    scope = next(s for s in find_scopes(SAMPLES["rust"], "rust") if s.name == "fmt")
    lines = SAMPLES["rust"].split("\n")
    assert lines[scope.lead_line].strip() == "/// doc"
    assert lines[scope.body_start_line].strip() == "match x {"
    assert lines[scope.body_end_line] == "    }", "the closing line is outside the body"
    assert scope.end_line == scope.body_end_line + 1


def test_a_multi_line_header_ends_where_the_body_starts() -> None:
    text = "class A {\n  foo(\n    a: number,\n  ): void {\n    go();\n  }\n}\n"
    scope = find(find_scopes(text, "typescript"), "foo")
    assert (scope.header_line, scope.body_start_line, scope.body_end_line, scope.end_line) == (1, 4, 5, 6)


def test_brace_on_its_own_line_belongs_to_the_header() -> None:
    scope = find(find_scopes("int f(void)\n{\n  a();\n}\n", "c"), "f")
    assert (scope.header_line, scope.body_start_line, scope.body_end_line, scope.end_line) == (0, 2, 3, 4)


def test_a_scope_on_one_line_has_an_empty_body_after_it() -> None:
    scope = find(find_scopes("class A {\n  f() { return 1; }\n}\n", "javascript"), "f")
    assert scope.body_start_line == scope.body_end_line == scope.end_line == 2


def test_java_annotations_stand_before_the_header() -> None:
    text = "class A {\n  /** doc */\n  @Foo(1)\n  @Bar\n  void f() {\n    x();\n  }\n}\n"
    scope = find(find_scopes(text, "java"), "f")
    assert (scope.lead_line, scope.start_line, scope.header_line) == (1, 2, 4)


def test_columns_are_not_bytes() -> None:
    text = "class Å:\n    'ß𝒳é'\n    def ü(self): return {\n        'ä': 1,\n    }\n\n    def z(self):\n        pass\n"
    scopes = find_scopes(text, "python")
    assert [scope.name for scope in scopes] == ["Å", "ü", "z"]
    assert (scopes[1].header_line, scopes[1].body_start_line, scopes[1].end_line) == (2, 3, 5)


def test_broken_code_keeps_the_scopes_that_can_be_made_out() -> None:
    text = "def a():\n    return (1\n\ndef b():\n    pass\n\nclass C:\n    def d(self):\n        pass\n"
    names = {scope.name for scope in find_scopes(text, "python")}
    assert {"C", "d"} <= names, "what stands past the damage"


@pytest.mark.parametrize("language", [None, "klingon", "lua"])
def test_an_unknown_language_falls_back_to_indentation_and_says_so(language: str | None) -> None:
    text = "-- doc\nfunction a()\n  if x then\n    y()\n  end\nend\n\ntop()\n"
    assert is_fallback(text, language)
    scopes = find_scopes(text, language)
    assert [(s.name, s.kind, s.header_line, s.body_start_line, s.body_end_line, s.end_line) for s in scopes] == [
        ("function a()", "block", 1, 2, 5, 6),
        ("if x then", "block", 2, 3, 4, 5),
    ]
    assert scopes[1].parent == 0
    assert scopes[0].lead_line == (0 if language == "lua" else 1), "only a known language has comments"


def test_a_refused_text_is_a_fallback() -> None:
    text = "[" + "1," * 100_000 + "\n  a\n    b"
    assert is_fallback(text, "java")
    assert [scope.kind for scope in find_scopes(text, "java")] == ["block", "block"]
    assert not is_fallback("class A {}", "java")


def test_indentation_with_tabs_and_blank_lines() -> None:
    scopes = find_scopes("a\n\tb\n\n\t\tc\n\n\td\n\n\ne\n", None)
    assert [(s.name, s.header_line, s.end_line, s.parent) for s in scopes] == [
        ("a", 0, 6, None),
        ("b", 1, 4, 0),
    ]


@pytest.mark.parametrize("text", ["", "\n", "   ", "\n\n  a"])
def test_next_to_nothing_has_no_scopes(text: str) -> None:
    for language in (None, *SAMPLES):
        assert find_scopes(text, language) == ()


def test_deep_nesting_needs_no_recursion() -> None:
    depth = 3_000
    rng = random.Random(1)
    text = "\n".join("{" + f'"k{rng.randrange(10**6)}": ' for _ in range(depth)) + "1" + "}" * depth
    scopes = find_scopes(text, "json")
    assert len(scopes) == depth
    assert scopes[-1].parent == depth - 2


def check_bounds(scopes: tuple[Scope, ...], n_lines: int, message: str) -> None:
    for index, scope in enumerate(scopes):
        assert scope.lead_line <= scope.start_line <= scope.header_line < scope.end_line <= n_lines, message
        assert scope.header_line < scope.body_start_line <= scope.body_end_line <= scope.end_line, message
        assert scope.name, message
        if scope.parent is not None:
            parent = scopes[scope.parent]
            assert scope.parent < index, message
            assert parent.start_line <= scope.header_line, message


@pytest.mark.parametrize("language", [None, *SAMPLES])
def test_mutilated_samples_give_scopes_within_bounds(language: str | None) -> None:
    """Cuts and splices of a sample: never an exception, never a line outside the text."""
    seed = 20261120
    rng = random.Random(f"{seed}-{language}")
    source = SAMPLES[language or "python"]
    for case in range(60):
        text = mutilate(source, rng)
        message = f"seed {seed}, language {language}, case {case}: {text!r}"
        check_bounds(find_scopes(text, language), text.count("\n") + 1, message)


def mutilate(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 3)):
        at, to = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
        what = rng.randrange(4)
        if what == 0:
            text = text[:at]
        elif what == 1:
            text = text[:at] + text[min(to, at + 30) :]
        elif what == 2:
            text = text[:at] + rng.choice("(){}[]<>\"'`/*#@$:;\\\n\té𝒳\0") + text[at:]
        else:
            text = text[:to] + text[at:]
    return text
