"""What is known of each language: its names, files, comments and grammar.  Data only; `languages` reads it.

To add a language: one row here, and a query in `scope_queries` where there is a grammar.
"""

from __future__ import annotations

from dataclasses import dataclass

HASH = ("#",)
SLASHES = ("//",)
DASHES = ("--",)
C_BLOCK = (("/*", "*/"),)
JSX_BLOCK = (("/*", "*/"), ("{/*", "*/}"))
MARKUP_BLOCK = (("<!--", "-->"),)


@dataclass(frozen=True, slots=True)
class Language:
    """One row.  `grammar` is "package:function" of a tree-sitter wheel, None where scopes come from indentation."""

    name: str
    grammar: str | None = None
    aliases: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    filenames: tuple[str, ...] = ()
    line_comment: tuple[str, ...] = ()
    block_comment: tuple[tuple[str, str], ...] = ()
    is_indented: bool = False
    """Whether indentation alone delimits blocks."""
    is_watched: bool = False
    """Whether the grammar may loop for ever on broken code, so that its parse needs a time limit."""
    dialect: str | None = None
    """The language to try where this one's grammar finds errors (TypeScript: TSX)."""


LANGUAGES = (
    Language(
        "python",
        "tree_sitter_python:language",
        aliases=("py", "python3"),
        extensions=("py", "pyi", "pyw"),
        filenames=("SConstruct", "SConscript"),
        line_comment=HASH,
        is_indented=True,
    ),
    Language(
        "typescript",
        "tree_sitter_typescript:language_typescript",
        aliases=("ts",),
        extensions=("ts", "mts", "cts"),
        line_comment=SLASHES,
        block_comment=C_BLOCK,
        dialect="tsx",
    ),
    Language(
        "tsx",
        "tree_sitter_typescript:language_tsx",
        aliases=("typescriptreact",),
        extensions=("tsx",),
        line_comment=SLASHES,
        block_comment=JSX_BLOCK,
    ),
    Language(
        "javascript",
        "tree_sitter_javascript:language",
        aliases=("js", "jsx", "javascriptreact", "node", "mjs", "cjs"),
        extensions=("js", "jsx", "mjs", "cjs"),
        line_comment=SLASHES,
        block_comment=JSX_BLOCK,
    ),
    Language(
        "go",
        "tree_sitter_go:language",
        aliases=("golang",),
        extensions=("go",),
        line_comment=SLASHES,
        block_comment=C_BLOCK,
    ),
    Language(
        "rust",
        "tree_sitter_rust:language",
        aliases=("rs",),
        extensions=("rs",),
        line_comment=SLASHES,
        block_comment=C_BLOCK,
    ),
    Language("java", "tree_sitter_java:language", extensions=("java",), line_comment=SLASHES, block_comment=C_BLOCK),
    Language(
        "c",
        "tree_sitter_c:language",
        extensions=("c", "h"),
        line_comment=SLASHES,
        block_comment=C_BLOCK,
        dialect="cpp",
    ),
    Language(
        "cpp",
        "tree_sitter_cpp:language",
        aliases=("c++", "cxx", "objectivec++", "arduino"),
        extensions=("cpp", "cc", "cxx", "c++", "hpp", "hh", "hxx", "h++", "ipp", "inl", "ino", "cu", "cuh", "tpp"),
        line_comment=SLASHES,
        block_comment=C_BLOCK,
    ),
    Language(
        "csharp",
        "tree_sitter_c_sharp:language",
        aliases=("c#", "cs", "c_sharp"),
        extensions=("cs", "csx"),
        line_comment=SLASHES,
        block_comment=C_BLOCK,
    ),
    Language(
        "ruby",
        "tree_sitter_ruby:language",
        aliases=("rb",),
        extensions=("rb", "rake", "gemspec", "ru", "podspec"),
        filenames=("Rakefile", "Gemfile", "Guardfile", "Vagrantfile", "Podfile", "Brewfile", "Fastfile"),
        line_comment=HASH,
        block_comment=(("=begin", "=end"),),
    ),
    Language(
        "php",
        "tree_sitter_php:language_php",
        extensions=("php", "phtml", "php5", "php7", "inc"),
        line_comment=("//", "#"),
        block_comment=C_BLOCK,
    ),
    Language(
        "kotlin",
        "tree_sitter_kotlin:language",
        is_watched=True,
        aliases=("kt",),
        extensions=("kt", "kts"),
        line_comment=SLASHES,
        block_comment=C_BLOCK,
    ),
    Language(
        "html",
        "tree_sitter_html:language",
        aliases=("htm", "xhtml"),
        extensions=("html", "htm", "xhtml"),
        block_comment=MARKUP_BLOCK,
    ),
    Language(
        "css",
        "tree_sitter_css:language",
        aliases=("scss", "less"),
        extensions=("css", "scss", "less"),
        line_comment=SLASHES,
        block_comment=C_BLOCK,
    ),
    Language(
        "json",
        "tree_sitter_json:language",
        aliases=("jsonc", "json5"),
        extensions=("json", "jsonc", "json5", "webmanifest", "code-workspace", "ipynb"),
        filenames=(".eslintrc", ".babelrc", ".prettierrc"),
        line_comment=SLASHES,
        block_comment=C_BLOCK,
    ),
    Language(
        "yaml",
        "tree_sitter_yaml:language",
        aliases=("yml",),
        extensions=("yaml", "yml"),
        filenames=(".clang-format", ".clang-tidy"),
        line_comment=HASH,
        is_indented=True,
    ),
    Language(
        "toml",
        "tree_sitter_toml:language",
        extensions=("toml",),
        filenames=("Pipfile", "Cargo.lock", "poetry.lock", "uv.lock"),
        line_comment=HASH,
    ),
    Language(
        "markdown",
        "tree_sitter_markdown:language",
        aliases=("md", "gfm"),
        extensions=("md", "markdown", "mdown", "mkd"),
        block_comment=MARKUP_BLOCK,
    ),
    Language(
        "shell",
        "tree_sitter_bash:language",
        aliases=("bash", "sh", "zsh", "shellscript", "ksh"),
        extensions=("sh", "bash", "zsh", "ksh", "bats"),
        filenames=(".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", "PKGBUILD"),
        line_comment=HASH,
    ),
    Language(
        "sql",
        "tree_sitter_sql:language",
        aliases=("postgresql", "mysql", "plsql", "sqlite"),
        extensions=("sql", "ddl", "psql"),
        line_comment=DASHES,
        block_comment=C_BLOCK,
    ),
    # Known by name and comment syntax only.
    Language("swift", extensions=("swift",), line_comment=SLASHES, block_comment=C_BLOCK),
    Language("scala", extensions=("scala", "sc", "sbt"), line_comment=SLASHES, block_comment=C_BLOCK),
    Language("dart", extensions=("dart",), line_comment=SLASHES, block_comment=C_BLOCK),
    Language("zig", extensions=("zig",), line_comment=SLASHES),
    Language("proto", aliases=("protobuf",), extensions=("proto",), line_comment=SLASHES, block_comment=C_BLOCK),
    Language("objectivec", aliases=("objc",), extensions=("m", "mm"), line_comment=SLASHES, block_comment=C_BLOCK),
    Language("groovy", extensions=("groovy", "gradle"), line_comment=SLASHES, block_comment=C_BLOCK),
    Language("lua", extensions=("lua",), line_comment=DASHES, block_comment=(("--[[", "]]"),)),
    Language("haskell", aliases=("hs",), extensions=("hs",), line_comment=DASHES, block_comment=(("{-", "-}"),)),
    Language("elixir", aliases=("ex",), extensions=("ex", "exs"), line_comment=HASH),
    Language("perl", aliases=("pl",), extensions=("pl", "pm"), line_comment=HASH),
    Language("r", extensions=("r", "R"), line_comment=HASH),
    Language("julia", aliases=("jl",), extensions=("jl",), line_comment=HASH, block_comment=(("#=", "=#"),)),
    Language("nim", extensions=("nim",), line_comment=HASH, is_indented=True),
    Language(
        "dockerfile", aliases=("docker",), extensions=("dockerfile",), filenames=("Dockerfile",), line_comment=HASH
    ),
    Language("make", aliases=("makefile",), extensions=("mk",), filenames=("Makefile",), line_comment=HASH),
    Language("cmake", extensions=("cmake",), filenames=("CMakeLists.txt",), line_comment=HASH),
    Language("hcl", aliases=("terraform", "tf"), extensions=("tf", "hcl", "tfvars"), line_comment=("#", "//")),
    Language("nix", extensions=("nix",), line_comment=HASH, block_comment=C_BLOCK),
    Language("ini", aliases=("cfg", "conf"), extensions=("ini", "cfg", "conf", "properties"), line_comment=("#", ";")),
    Language("xml", extensions=("xml", "svg", "xsd", "xsl", "csproj", "props"), block_comment=MARKUP_BLOCK),
    Language("vue", extensions=("vue",), line_comment=SLASHES, block_comment=(("<!--", "-->"), ("/*", "*/"))),
    Language("svelte", extensions=("svelte",), line_comment=SLASHES, block_comment=(("<!--", "-->"), ("/*", "*/"))),
    Language("vim", aliases=("vimscript",), extensions=("vim",), line_comment=('"',)),
    Language("clojure", aliases=("clj",), extensions=("clj", "cljs", "edn"), line_comment=(";",)),
    Language("ocaml", aliases=("ml",), extensions=("ml", "mli"), block_comment=(("(*", "*)"),)),
    Language("latex", aliases=("tex",), extensions=("tex", "sty"), line_comment=("%",)),
    Language("erlang", aliases=("erl",), extensions=("erl", "hrl"), line_comment=("%",)),
)
"""The languages with a grammar first."""
