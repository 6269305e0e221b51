"""The languages: their names, files, comments, tree-sitter grammars and queries.  Grammars load on first use.

To add one, add a row to `LANGUAGES` and, where it has a grammar, `queries/NAME.scm`.  An unknown language is None
everywhere; callers then work by indentation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import tree_sitter

QUERIES = Path(__file__).parent / "queries"
HASH = ("#",)
SLASHES = ("//",)
DASHES = ("--",)
C_BLOCK = (("/*", "*/"),)
JSX_BLOCK = (("/*", "*/"), ("{/*", "*/}"))
MARKUP_BLOCK = (("<!--", "-->"),)


@dataclass(frozen=True, slots=True)
class Language:
    """One language."""

    name: str
    grammar: str | None = None
    """"package:function" of a tree-sitter wheel; None: scopes come from indentation."""
    aliases: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    line_comment: tuple[str, ...] = ()
    """What starts a comment to the end of the line, the usual one first."""
    block_comment: tuple[tuple[str, str], ...] = ()
    filenames: tuple[str, ...] = ()
    is_indented: bool = False
    """Whether indentation alone delimits blocks."""
    may_hang: bool = False
    """Whether the grammar may loop for ever on broken code, so that its reads are counted."""
    dialect: str | None = None
    """The language to try where this one's grammar finds errors (TypeScript: TSX)."""
    queries: tuple[str, ...] = ()
    """Files of `queries/` that are joined; empty: the language's own."""


LANGUAGES = (
    # name, grammar, aliases, extensions, line comments, block comments
    Language(
        "python",
        "tree_sitter_python:language",
        ("py", "python3"),
        ("py", "pyi", "pyw"),
        HASH,
        filenames=("SConstruct", "SConscript"),
        is_indented=True,
    ),
    Language(
        "typescript",
        "tree_sitter_typescript:language_typescript",
        ("ts",),
        ("ts", "mts", "cts"),
        SLASHES,
        C_BLOCK,
        dialect="tsx",
        queries=("ecma", "typescript"),
    ),
    Language(
        "tsx",
        "tree_sitter_typescript:language_tsx",
        ("typescriptreact",),
        ("tsx",),
        SLASHES,
        JSX_BLOCK,
        queries=("ecma", "jsx", "typescript"),
    ),
    Language(
        "javascript",
        "tree_sitter_javascript:language",
        ("js", "jsx", "javascriptreact", "node", "mjs", "cjs"),
        ("js", "jsx", "mjs", "cjs"),
        SLASHES,
        JSX_BLOCK,
        queries=("ecma", "jsx", "javascript"),
    ),
    Language("go", "tree_sitter_go:language", ("golang",), ("go",), SLASHES, C_BLOCK),
    Language("rust", "tree_sitter_rust:language", ("rs",), ("rs",), SLASHES, C_BLOCK),
    Language("java", "tree_sitter_java:language", (), ("java",), SLASHES, C_BLOCK),
    Language("c", "tree_sitter_c:language", (), ("c", "h"), SLASHES, C_BLOCK, dialect="cpp"),
    Language(
        "cpp",
        "tree_sitter_cpp:language",
        ("c++", "cxx", "objectivec++", "arduino"),
        ("cpp", "cc", "cxx", "c++", "hpp", "hh", "hxx", "h++", "ipp", "inl", "ino", "cu", "cuh", "tpp"),
        SLASHES,
        C_BLOCK,
        queries=("c", "cpp"),
    ),
    Language("csharp", "tree_sitter_c_sharp:language", ("c#", "cs", "c_sharp"), ("cs", "csx"), SLASHES, C_BLOCK),
    Language(
        "ruby",
        "tree_sitter_ruby:language",
        ("rb",),
        ("rb", "rake", "gemspec", "ru", "podspec"),
        HASH,
        (("=begin", "=end"),),
        filenames=("Rakefile", "Gemfile", "Guardfile", "Vagrantfile", "Podfile", "Brewfile", "Fastfile"),
    ),
    Language("php", "tree_sitter_php:language_php", (), ("php", "phtml", "php5", "php7", "inc"), ("//", "#"), C_BLOCK),
    Language("kotlin", "tree_sitter_kotlin:language", ("kt",), ("kt", "kts"), SLASHES, C_BLOCK, may_hang=True),
    Language("html", "tree_sitter_html:language", ("htm", "xhtml"), ("html", "htm", "xhtml"), (), MARKUP_BLOCK),
    Language("css", "tree_sitter_css:language", ("scss", "less"), ("css", "scss", "less"), SLASHES, C_BLOCK),
    Language(
        "json",
        "tree_sitter_json:language",
        ("jsonc", "json5"),
        ("json", "jsonc", "json5", "webmanifest", "code-workspace", "ipynb"),
        SLASHES,
        C_BLOCK,
        filenames=(".eslintrc", ".babelrc", ".prettierrc"),
    ),
    Language(
        "yaml",
        "tree_sitter_yaml:language",
        ("yml",),
        ("yaml", "yml"),
        HASH,
        filenames=(".clang-format", ".clang-tidy"),
        is_indented=True,
    ),
    Language(
        "toml",
        "tree_sitter_toml:language",
        (),
        ("toml",),
        HASH,
        filenames=("Pipfile", "Cargo.lock", "poetry.lock", "uv.lock"),
    ),
    Language(
        "markdown", "tree_sitter_markdown:language", ("md", "gfm"), ("md", "markdown", "mdown", "mkd"), (), MARKUP_BLOCK
    ),
    Language(
        "shell",
        "tree_sitter_bash:language",
        ("bash", "sh", "zsh", "shellscript", "ksh"),
        ("sh", "bash", "zsh", "ksh", "bats"),
        HASH,
        filenames=(".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", "PKGBUILD"),
    ),
    Language(
        "sql",
        "tree_sitter_sql:language",
        ("postgresql", "mysql", "plsql", "sqlite"),
        ("sql", "ddl", "psql"),
        DASHES,
        C_BLOCK,
    ),
    # Known by name and comment syntax only.
    Language("swift", None, (), ("swift",), SLASHES, C_BLOCK),
    Language("scala", None, (), ("scala", "sc", "sbt"), SLASHES, C_BLOCK),
    Language("dart", None, (), ("dart",), SLASHES, C_BLOCK),
    Language("zig", None, (), ("zig",), SLASHES),
    Language("proto", None, ("protobuf",), ("proto",), SLASHES, C_BLOCK),
    Language("objectivec", None, ("objc",), ("m", "mm"), SLASHES, C_BLOCK),
    Language("groovy", None, (), ("groovy", "gradle"), SLASHES, C_BLOCK),
    Language("lua", None, (), ("lua",), DASHES, (("--[[", "]]"),)),
    Language("haskell", None, ("hs",), ("hs",), DASHES, (("{-", "-}"),)),
    Language("elixir", None, ("ex",), ("ex", "exs"), HASH),
    Language("perl", None, ("pl",), ("pl", "pm"), HASH),
    Language("r", None, (), ("r", "R"), HASH),
    Language("julia", None, ("jl",), ("jl",), HASH, (("#=", "=#"),)),
    Language("nim", None, (), ("nim",), HASH, is_indented=True),
    Language("dockerfile", None, ("docker",), ("dockerfile",), HASH, filenames=("Dockerfile",)),
    Language("make", None, ("makefile",), ("mk",), HASH, filenames=("Makefile",)),
    Language("cmake", None, (), ("cmake",), HASH, filenames=("CMakeLists.txt",)),
    Language("hcl", None, ("terraform", "tf"), ("tf", "hcl", "tfvars"), ("#", "//")),
    Language("nix", None, (), ("nix",), HASH, C_BLOCK),
    Language("ini", None, ("cfg", "conf"), ("ini", "cfg", "conf", "properties"), ("#", ";")),
    Language("xml", None, (), ("xml", "svg", "xsd", "xsl", "csproj", "props"), (), MARKUP_BLOCK),
    Language("vue", None, (), ("vue",), SLASHES, (("<!--", "-->"), ("/*", "*/"))),
    Language("svelte", None, (), ("svelte",), SLASHES, (("<!--", "-->"), ("/*", "*/"))),
    Language("vim", None, ("vimscript",), ("vim",), ('"',)),
    Language("clojure", None, ("clj",), ("clj", "cljs", "edn"), (";",)),
    Language("ocaml", None, ("ml",), ("ml", "mli"), (), (("(*", "*)"),)),
    Language("latex", None, ("tex",), ("tex", "sty"), ("%",)),
    Language("erlang", None, ("erl",), ("erl", "hrl"), ("%",)),
)
"""The languages with a grammar first."""

STEM_FILES = frozenset({"dockerfile", "makefile"})
"""Names that keep their language with any extension (`Dockerfile.dev`)."""


BY_NAME = {name: language for language in LANGUAGES for name in (language.name, *language.aliases)}
BY_FILENAME = {name.lower(): language for language in LANGUAGES for name in language.filenames}
BY_EXTENSION = {end.lower(): language for language in reversed(LANGUAGES) for end in language.extensions}
"""Where two languages share an extension, the first one has it."""


def find_language(name: str | None) -> Language | None:
    """The language that goes by `name` (canonical or alias, any case), or None."""
    return BY_NAME.get(name.strip().lower()) if name else None


def language_of_path(path: str | None) -> Language | None:
    """The language of a file by its name; both kinds of slashes count."""
    if not path:
        return None
    filename = path.replace("\\", "/").rsplit("/", 1)[-1].lower()
    exact = BY_FILENAME.get(filename) or BY_EXTENSION.get(filename.rpartition(".")[2])
    if exact is not None or "." not in filename:
        return exact
    stem = filename.split(".", 1)[0]
    return find_language(stem) if stem in STEM_FILES else None


def detect_language(*, name: str | None = None, path: str | None = None) -> str | None:
    """The canonical name for a declared language and a path; None where neither is known.

    The declared language wins, except that the path refines it to TSX (typescript, `.tsx`: tsx).
    """
    declared, by_path = find_language(name), language_of_path(path)
    if declared is None:
        return by_path.name if by_path is not None else None
    is_tsx = declared.dialect == "tsx" and by_path is not None and by_path.name == "tsx"
    return "tsx" if is_tsx else declared.name


def line_comment(name: str | None) -> tuple[str, ...]:
    """What starts a comment to the end of the line, the usual one first; empty where there is none."""
    language = find_language(name)
    return language.line_comment if language is not None else ()


def block_comment(name: str | None) -> tuple[tuple[str, str], ...]:
    """Pairs (opening, closing); empty where there is none."""
    language = find_language(name)
    return language.block_comment if language is not None else ()


def has_grammar(name: str | None) -> bool:
    language = find_language(name)
    return language is not None and language.grammar is not None


@cache
def load_grammar(name: str | None) -> tree_sitter.Language | None:
    """The tree-sitter grammar of a language; None where it has none."""
    language = find_language(name)
    if language is None or language.grammar is None:
        return None
    module, _, function = language.grammar.partition(":")
    return tree_sitter.Language(getattr(import_module(module), function)())


@cache
def load_query(name: str) -> tree_sitter.Query | None:
    """The query of a language with a grammar.  Its captures:

    - @function, @class, @module, @block, @key, @section, @element: a scope of that kind, with @name and @body.  Without
      @name, its first line is its name.
    - @wrapped in @wrapper: a declaration and what around it belongs to it (decorators, `export`, `template <...>`).
    - @definition.variable, @definition.class, @definition.export: what declares @name and is no scope.
    - @import: an import statement.
    """
    language, grammar = find_language(name), load_grammar(name)
    if language is None or grammar is None:
        return None
    files = [QUERIES / f"{part}.scm" for part in language.queries or (language.name,)]
    return tree_sitter.Query(grammar, "\n".join(file.read_text(encoding="utf-8") for file in files))
