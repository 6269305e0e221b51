"""Lists the languages: names, files, comments, tree-sitter grammars and queries.  Grammars load on first use.

To add a language, add a row to `TABLE` and, if it has a grammar, `queries/NAME.scm`.  For an unknown language the
functions return None; callers then work by indentation.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import tree_sitter

TABLE = """
python py python3 | py pyi pyw | # | | python
typescript ts | ts mts cts | // | /* */ | typescript:language_typescript
tsx typescriptreact | tsx | // | /* */ {/* */} | typescript:language_tsx
javascript js jsx javascriptreact node mjs cjs | js jsx mjs cjs | // | /* */ {/* */} | javascript
go golang | go | // | /* */ | go
rust rs | rs | // | /* */ | rust
java | java | // | /* */ | java
c | c h | // | /* */ | c
cpp c++ cxx objectivec++ arduino | cpp cc cxx c++ hpp hh hxx h++ ipp inl ino cu cuh tpp | // | /* */ | cpp
csharp c# cs c_sharp | cs csx | // | /* */ | c_sharp
ruby rb | rb rake gemspec ru podspec | # | =begin =end | ruby
php | php phtml php5 php7 inc | // # | /* */ | php:language_php
kotlin kt | kt kts | // | /* */ | kotlin
html htm xhtml | html htm xhtml | | <!-- --> | html
css scss less | css scss less | // | /* */ | css
json jsonc json5 | json jsonc json5 webmanifest code-workspace ipynb | // | /* */ | json
yaml yml | yaml yml | # | | yaml
toml | toml | # | | toml
markdown md gfm | md markdown mdown mkd | | <!-- --> | markdown
shell bash sh zsh shellscript ksh | sh bash zsh ksh bats | # | | bash
sql postgresql mysql plsql sqlite | sql ddl psql | -- | /* */ | sql
swift | swift | // | /* */
scala | scala sc sbt | // | /* */
dart | dart | // | /* */
zig | zig | //
proto protobuf | proto | // | /* */
objectivec objc | m mm | // | /* */
groovy | groovy gradle | // | /* */
lua | lua | -- | --[[ ]]
haskell hs | hs | -- | {- -}
elixir ex | ex exs | #
perl pl | pl pm | #
r | r R | #
julia jl | jl | # | #= =#
nim | nim | #
dockerfile docker | dockerfile | #
make makefile | mk | #
cmake | cmake | #
hcl terraform tf | tf hcl tfvars | # //
nix | nix | # | /* */
ini cfg conf | ini cfg conf properties | # ;
xml | xml svg xsd xsl csproj props | | <!-- -->
vue | vue | // | <!-- --> /* */
svelte | svelte | // | <!-- --> /* */
vim vimscript | vim | "
clojure clj | clj cljs edn | ;
ocaml ml | ml mli | | (* *)
latex tex | tex sty | %
erlang erl | erl hrl | %
"""
"""A row for each language: name and aliases | file name extensions | line comments, the usual one first | block
comments | grammar ("package:function" of a tree-sitter wheel, without `tree_sitter_` and `:language`).  Languages with
a grammar come first.  The others have only names and comment syntax."""

FILENAMES = {
    "python": "SConstruct SConscript",
    "ruby": "Rakefile Gemfile Guardfile Vagrantfile Podfile Brewfile Fastfile",
    "json": ".eslintrc .babelrc .prettierrc",
    "yaml": ".clang-format .clang-tidy",
    "toml": "Pipfile Cargo.lock poetry.lock uv.lock",
    "shell": ".bashrc .bash_profile .profile .zshrc .zshenv PKGBUILD",
    "dockerfile": "Dockerfile",
    "make": "Makefile",
    "cmake": "CMakeLists.txt",
}
QUERIES = Path(__file__).parent / "queries"
QUERY_PARTS = {
    "typescript": ("ecma", "typescript"),
    "tsx": ("ecma", "jsx", "typescript"),
    "javascript": ("ecma", "jsx", "javascript"),
    "cpp": ("c", "cpp"),
}
"""Languages whose query is joined from several files of `queries/`."""
DIALECTS = {"typescript": "tsx", "c": "cpp"}
"""Language -> the language whose grammar is tried if the first one's own grammar finds errors."""
STEM_FILES = frozenset({"dockerfile", "makefile"})
"""Names of files that show the language whatever the extension (`Dockerfile.dev`)."""


class Language(NamedTuple):
    """A row of `TABLE`."""

    name: str
    aliases: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    line_comment: tuple[str, ...] = ()
    block_comment: tuple[tuple[str, str], ...] = ()
    grammar: str | None = None

    @classmethod
    def from_row(cls, row: str) -> Language:
        names, extensions, line, block, grammar = ([*map(str.split, row.split("|")), [], [], [], []])[:5]
        pairs = tuple(zip(block[::2], block[1::2], strict=True))
        return cls(names[0], tuple(names[1:]), tuple(extensions), tuple(line), pairs, grammar[0] if grammar else None)


LANGUAGES = tuple(map(Language.from_row, TABLE.strip().splitlines()))
BY_NAME = {name: language for language in LANGUAGES for name in (language.name, *language.aliases)}
BY_FILENAME = {file.lower(): BY_NAME[name] for name, files in FILENAMES.items() for file in files.split()}
BY_EXTENSION = {end.lower(): language for language in reversed(LANGUAGES) for end in language.extensions}
"""An extension that two languages share means the first of them."""


def find_language(name: str | None) -> Language | None:
    """Return the language with this name (canonical or alias, in any case), or None."""
    return BY_NAME.get(name.strip().lower()) if name else None


def language_of_path(path: str | None) -> Language | None:
    """Return the language of a file by its name.  The path may have either kind of slashes."""
    if not path:
        return None
    filename = path.replace("\\", "/").rsplit("/", 1)[-1].lower()
    exact = BY_FILENAME.get(filename) or BY_EXTENSION.get(filename.rpartition(".")[2])
    if exact is not None or "." not in filename:
        return exact
    stem = filename.split(".", 1)[0]
    return find_language(stem) if stem in STEM_FILES else None


def detect_language(*, name: str | None = None, path: str | None = None) -> str | None:
    """Return the canonical name of a language, found by its declared name or a path; None if neither is known.

    The declared name wins, but TypeScript in a `.tsx` file is TSX.
    """
    declared, by_path = find_language(name), language_of_path(path)
    if declared is None:
        return by_path.name if by_path is not None else None
    is_tsx = declared.name == "typescript" and by_path is not None and by_path.name == "tsx"
    return "tsx" if is_tsx else declared.name


@cache
def load_grammar(name: str | None) -> tree_sitter.Language | None:
    """Return the tree-sitter grammar of a language; None if there is no grammar for it."""
    language = find_language(name)
    if language is None or language.grammar is None:
        return None
    package, _, function = language.grammar.partition(":")
    return tree_sitter.Language(getattr(import_module(f"tree_sitter_{package}"), function or "language")())


@cache
def load_query(name: str) -> tree_sitter.Query | None:
    """Return the query of a language with a grammar.  Its captures:

    - @function, @class, @module, @block, @key, @section, @element: a scope of that kind, with @name and @body.  A scope
      without @name has its first line as its name.
    - @wrapped in @wrapper: a declaration, and what encloses and belongs to it (decorators, `export`, `template <...>`).
    - @definition.variable, @definition.class, @definition.export: a declaration of @name that is not a scope.
    - @import: an import statement.
    """
    language, grammar = find_language(name), load_grammar(name)
    if language is None or grammar is None:
        return None
    files = [QUERIES / f"{part}.scm" for part in QUERY_PARTS.get(language.name, (language.name,))]
    return tree_sitter.Query(grammar, "\n".join(file.read_text(encoding="utf-8") for file in files))
