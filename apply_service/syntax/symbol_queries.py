"""Which syntax nodes declare names beside scopes (variables, constants, prototypes), and which are imports.  Data only.

@name is what is declared; the other capture is its kind.  `symbols` keeps those outside functions.
"""

from __future__ import annotations

JAVASCRIPT = """
(variable_declarator name: (identifier) @name) @variable
(variable_declarator name: (object_pattern (shorthand_property_identifier_pattern) @name)) @variable
(variable_declarator name: (object_pattern (pair_pattern value: (identifier) @name))) @variable
(export_specifier name: (_) @name) @export
"""

C = """
(declaration declarator: (_) @name) @variable
(type_definition declarator: (_) @name) @class
(preproc_def name: (_) @name) @variable
"""

SYMBOL_QUERIES = {
    "python": "(expression_statement (assignment left: (identifier) @name)) @variable",
    "javascript": JAVASCRIPT + "(field_definition property: (_) @name) @variable",
    "typescript": JAVASCRIPT + "(public_field_definition name: (_) @name) @variable",
    "tsx": JAVASCRIPT + "(public_field_definition name: (_) @name) @variable",
    "go": """
        (const_spec name: (_) @name) @variable
        (var_spec name: (_) @name) @variable
        (type_spec name: (_) @name) @class
        (type_alias name: (_) @name) @class
    """,
    "rust": """
        (const_item name: (_) @name) @variable
        (static_item name: (_) @name) @variable
        (type_item name: (_) @name) @class
    """,
    "java": """
        (field_declaration declarator: (variable_declarator name: (_) @name)) @variable
        (constant_declaration declarator: (variable_declarator name: (_) @name)) @variable
    """,
    "c": C,
    "cpp": C + "(field_declaration declarator: (function_declarator) @name) @variable",
    "csharp": "(field_declaration (variable_declaration (variable_declarator name: (_) @name))) @variable",
    "ruby": "(assignment left: (constant) @name) @variable",
    "php": """
        (const_element . (_) @name) @variable
        (property_element name: (_) @name) @variable
    """,
    "shell": "(variable_assignment name: (_) @name) @variable",
}

IMPORT_QUERIES = {
    "python": "[(import_statement) (import_from_statement) (future_import_statement)] @import",
    "javascript": "(import_statement) @import",
    "typescript": "(import_statement) @import",
    "tsx": "(import_statement) @import",
    "go": "(import_spec) @import",
    "rust": "[(use_declaration) (extern_crate_declaration)] @import",
    "java": "(import_declaration) @import",
    "c": "(preproc_include) @import",
    "cpp": "[(preproc_include) (using_declaration)] @import",
    "csharp": "(using_directive) @import",
    "ruby": "(call !receiver method: (identifier) arguments: (argument_list . (string))) @import",
    "php": "(namespace_use_declaration) @import",
    "kotlin": "(import) @import",
    "css": "(import_statement) @import",
}
