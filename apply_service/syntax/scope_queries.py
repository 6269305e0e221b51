"""Which syntax nodes are scopes, per language, as tree-sitter queries.  Data only; `scopes` reads it.

A pattern's outermost capture is the kind of the scope (@function, @class, @block, @key, @section, @element); @name and
@body are its parts.  @wrapper/@wrapped pairs name what stands around a declaration and belongs to it (decorators,
`export`, `template <...>`).  A scope without @name is named by its first line.
"""

from __future__ import annotations

PYTHON = """
(function_definition name: (_) @name body: (_)? @body) @function
(class_definition name: (_) @name body: (_)? @body) @class
(decorated_definition definition: (_) @wrapped) @wrapper
(if_statement consequence: (_)? @body) @block
(elif_clause consequence: (_)? @body) @block
(else_clause body: (_)? @body) @block
(for_statement body: (_)? @body) @block
(while_statement body: (_)? @body) @block
(with_statement body: (_)? @body) @block
(try_statement body: (_)? @body) @block
(except_clause (block) @body) @block
(finally_clause (block) @body) @block
(match_statement body: (_)? @body) @block
(case_clause consequence: (_)? @body) @block
"""

JAVASCRIPT = """
(function_declaration name: (_) @name body: (_) @body) @function
(generator_function_declaration name: (_) @name body: (_) @body) @function
(method_definition name: (_) @name body: (_) @body) @function
(class_declaration name: (_) @name body: (_) @body) @class
(variable_declarator name: (_) @name value: [
  (arrow_function body: (statement_block) @body)
  (function_expression body: (_) @body)
]) @function
(variable_declarator name: (_) @name value: (class body: (_) @body)) @class
(variable_declarator name: (_) @name value: (object) @body) @key
(lexical_declaration (variable_declarator) @wrapped) @wrapper
(variable_declaration (variable_declarator) @wrapped) @wrapper
(export_statement declaration: (_) @wrapped) @wrapper
(assignment_expression left: (_) @name right: [
  (arrow_function body: (statement_block) @body)
  (function_expression body: (_) @body)
]) @function
(assignment_expression left: (_) @name right: (object) @body) @key
(pair key: (_) @name value: [
  (arrow_function body: (statement_block) @body)
  (function_expression body: (_) @body)
]) @function
(pair key: (_) @name value: [(object) (array)] @body) @key
(call_expression arguments: (arguments [
  (arrow_function body: (statement_block) @body)
  (function_expression body: (_) @body)
])) @block
(if_statement consequence: (statement_block) @body) @block
(else_clause (statement_block) @body) @block
(for_statement body: (_) @body) @block
(for_in_statement body: (_) @body) @block
(while_statement body: (_) @body) @block
(do_statement body: (_) @body) @block
(try_statement body: (_) @body) @block
(catch_clause body: (_) @body) @block
(finally_clause body: (_) @body) @block
(switch_statement body: (_) @body) @block
(switch_case) @block
(switch_default) @block
(class_static_block body: (_) @body) @block
"""

JSX = "(jsx_element) @element\n"

JS_FIELD = """
(field_definition property: (_) @name value: [
  (arrow_function body: (statement_block) @body)
  (function_expression body: (_) @body)
]) @function
"""

TYPESCRIPT = """
(abstract_class_declaration name: (_) @name body: (_) @body) @class
(interface_declaration name: (_) @name body: (_) @body) @class
(enum_declaration name: (_) @name body: (_) @body) @class
(type_alias_declaration name: (_) @name) @class
(internal_module name: (_) @name body: (_) @body) @module
(module name: (_) @name body: (_) @body) @module
(ambient_declaration (_) @wrapped) @wrapper
(public_field_definition name: (_) @name value: [
  (arrow_function body: (statement_block) @body)
  (function_expression body: (_) @body)
]) @function
(function_signature name: (_) @name) @function
(abstract_method_signature name: (_) @name) @function
(method_signature name: (_) @name) @function
"""

GO = """
(function_declaration name: (_) @name body: (_)? @body) @function
(method_declaration name: (_) @name body: (_)? @body) @function
(type_declaration (type_spec name: (_) @name type: (struct_type (_) @body))) @class
(type_declaration (type_spec name: (_) @name type: (interface_type)) ) @class
(type_declaration (type_spec name: (_) @name type: [(function_type) (type_identifier) (map_type) (slice_type)])) @class
(import_declaration (import_spec_list) @body) @block
(const_declaration . "const" . "(") @block
(var_declaration (var_spec_list) @body) @block
(if_statement consequence: (_) @body) @block
(for_statement body: (_) @body) @block
(expression_switch_statement) @block
(type_switch_statement) @block
(select_statement) @block
(expression_case) @block
(type_case) @block
(communication_case) @block
(default_case) @block
(call_expression arguments: (argument_list (func_literal body: (_) @body))) @block
(short_var_declaration left: (_) @name right: (expression_list (func_literal body: (_) @body))) @function
(keyed_element . (_) @name . (_ (func_literal body: (_) @body))) @function
(composite_literal body: (_) @body) @block
"""

RUST = """
(function_item name: (_) @name body: (_) @body) @function
(function_signature_item name: (_) @name) @function
(struct_item name: (_) @name body: (_)? @body) @class
(union_item name: (_) @name body: (_) @body) @class
(enum_item name: (_) @name body: (_) @body) @class
(trait_item name: (_) @name body: (_) @body) @class
(impl_item type: (_) @name body: (_) @body) @class
(mod_item name: (_) @name body: (_) @body) @module
(foreign_mod_item body: (_) @body) @module
(macro_definition name: (_) @name) @function
(enum_variant name: (_) @name body: (_) @body) @key
(if_expression consequence: (_) @body) @block
(else_clause (block) @body) @block
(for_expression body: (_) @body) @block
(while_expression body: (_) @body) @block
(loop_expression body: (_) @body) @block
(match_expression body: (_) @body) @block
(match_arm value: (block) @body) @block
(unsafe_block) @block
(async_block) @block
(call_expression arguments: (arguments (closure_expression body: (block) @body))) @block
"""

JAVA = """
(class_declaration name: (_) @name body: (_) @body) @class
(interface_declaration name: (_) @name body: (_) @body) @class
(enum_declaration name: (_) @name body: (_) @body) @class
(record_declaration name: (_) @name body: (_) @body) @class
(annotation_type_declaration name: (_) @name body: (_) @body) @class
(method_declaration name: (_) @name body: (_)? @body) @function
(constructor_declaration name: (_) @name body: (_) @body) @function
(compact_constructor_declaration name: (_) @name body: (_) @body) @function
(enum_constant name: (_) @name body: (_) @body) @class
(object_creation_expression (class_body) @body) @block
(if_statement consequence: (block) @body) @block
(for_statement body: (block) @body) @block
(enhanced_for_statement body: (block) @body) @block
(while_statement body: (block) @body) @block
(do_statement body: (block) @body) @block
(try_statement body: (_) @body) @block
(try_with_resources_statement body: (_) @body) @block
(catch_clause body: (_) @body) @block
(finally_clause (block) @body) @block
(synchronized_statement body: (_) @body) @block
(switch_expression body: (_) @body) @block
(switch_block_statement_group) @block
(switch_rule (block) @body) @block
(static_initializer (block) @body) @block
(lambda_expression body: (block) @body) @block
"""

C = """
(function_definition declarator: (_) @name body: (_) @body) @function
(struct_specifier name: (_) @name body: (_) @body) @class
(union_specifier name: (_) @name body: (_) @body) @class
(enum_specifier name: (_) @name body: (_) @body) @class
(type_definition type: [
  (struct_specifier !name body: (_) @body)
  (union_specifier !name body: (_) @body)
  (enum_specifier !name body: (_) @body)
] declarator: (_) @name) @class
(preproc_function_def name: (_) @name) @function
(preproc_ifdef name: (_)) @block
(preproc_if) @block
(preproc_else) @block
(preproc_elif) @block
(init_declarator declarator: (_) @name value: (initializer_list) @body) @key
(if_statement consequence: (compound_statement) @body) @block
(else_clause (compound_statement) @body) @block
(for_statement body: (compound_statement) @body) @block
(while_statement body: (compound_statement) @body) @block
(do_statement body: (compound_statement) @body) @block
(switch_statement body: (_) @body) @block
(case_statement) @block
"""

CPP = (
    C
    + """
(class_specifier name: (_) @name body: (_) @body) @class
(namespace_definition name: (_)? @name body: (_) @body) @module
(linkage_specification body: (declaration_list) @body) @module
(template_declaration (_) @wrapped) @wrapper
(for_range_loop body: (compound_statement) @body) @block
(try_statement body: (_) @body) @block
(catch_clause body: (_) @body) @block
(lambda_expression body: (_) @body) @block
"""
)

CSHARP = """
(namespace_declaration name: (_) @name body: (_) @body) @module
(class_declaration name: (_) @name body: (_) @body) @class
(interface_declaration name: (_) @name body: (_) @body) @class
(struct_declaration name: (_) @name body: (_) @body) @class
(record_declaration name: (_) @name body: (_)? @body) @class
(enum_declaration name: (_) @name body: (_) @body) @class
(method_declaration name: (_) @name body: (_)? @body) @function
(constructor_declaration name: (_) @name body: (_) @body) @function
(destructor_declaration name: (_) @name body: (_) @body) @function
(local_function_statement name: (_) @name body: (_) @body) @function
(operator_declaration body: (_) @body) @function
(property_declaration name: (_) @name accessors: (_) @body) @key
(indexer_declaration accessors: (_) @body) @key
(accessor_declaration name: (_) @name body: (block) @body) @block
(if_statement consequence: (block) @body) @block
(for_statement body: (block) @body) @block
(foreach_statement body: (block) @body) @block
(while_statement body: (block) @body) @block
(do_statement body: (block) @body) @block
(using_statement body: (block) @body) @block
(lock_statement (block) @body) @block
(try_statement body: (_) @body) @block
(catch_clause body: (_) @body) @block
(finally_clause (block) @body) @block
(switch_statement body: (_) @body) @block
(switch_section) @block
(lambda_expression body: (block) @body) @block
"""

RUBY = """
(module name: (_) @name) @module
(class name: (_) @name) @class
(singleton_class) @class
(method name: (_) @name) @function
(singleton_method name: (_) @name) @function
(call block: [(do_block) (block)]) @block
(assignment left: (_) @name right: [(array) (hash)] @body) @key
(if) @block
(unless) @block
(elsif) @block
(else) @block
(case) @block
(case_match) @block
(when) @block
(while) @block
(until) @block
(for) @block
(begin) @block
(rescue) @block
(ensure) @block
"""

PHP = """
(namespace_definition name: (_) @name body: (_) @body) @module
(class_declaration name: (_) @name body: (_) @body) @class
(interface_declaration name: (_) @name body: (_) @body) @class
(trait_declaration name: (_) @name body: (_) @body) @class
(enum_declaration name: (_) @name body: (_) @body) @class
(function_definition name: (_) @name body: (_) @body) @function
(method_declaration name: (_) @name body: (_)? @body) @function
(anonymous_function body: (_) @body) @block
(if_statement body: (_) @body) @block
(else_if_clause body: (_) @body) @block
(else_clause body: (_) @body) @block
(for_statement body: (_) @body) @block
(foreach_statement body: (_) @body) @block
(while_statement body: (_) @body) @block
(do_statement body: (_) @body) @block
(try_statement body: (_) @body) @block
(catch_clause body: (_) @body) @block
(finally_clause body: (_) @body) @block
(switch_statement body: (_) @body) @block
(case_statement) @block
(default_statement) @block
(match_expression body: (_) @body) @block
(array_element_initializer . (_) @name . (array_creation_expression) @body) @key
"""

KOTLIN = """
(class_declaration name: (_) @name [(class_body) (enum_class_body)]? @body) @class
(object_declaration name: (_) @name (class_body)? @body) @class
(companion_object (class_body) @body) @class
(function_declaration name: (_) @name (function_body)? @body) @function
(secondary_constructor (block) @body) @function
(anonymous_initializer) @block
(property_declaration (variable_declaration (identifier) @name)) @key
(if_expression) @block
(when_expression) @block
(when_entry (block) @body) @block
(for_statement) @block
(while_statement) @block
(do_while_statement) @block
(try_expression) @block
(catch_block) @block
(finally_block) @block
(call_expression (annotated_lambda) @body) @block
"""

HTML = """
(element (start_tag) @name) @element
(script_element (start_tag) @name) @element
(style_element (start_tag) @name) @element
"""

CSS = """
(rule_set (selectors) @name (block) @body) @section
(media_statement (block) @body) @section
(supports_statement (block) @body) @section
(keyframes_statement (keyframe_block_list) @body) @section
(keyframe_block (block) @body) @section
(at_rule (block) @body) @section
(scope_statement (block) @body) @section
"""

JSON = "(pair key: (_) @name value: (_) @body) @key\n"

YAML = """
(block_mapping_pair key: (_) @name value: (_)? @body) @key
(block_sequence_item) @block
"""

TOML = """
(table . [(bare_key) (dotted_key) (quoted_key)] @name) @section
(table_array_element . [(bare_key) (dotted_key) (quoted_key)] @name) @section
(pair . [(bare_key) (dotted_key) (quoted_key)] @name . (_) @body) @key
"""

MARKDOWN = """
(section (atx_heading) @name) @section
(section (setext_heading) @name) @section
(fenced_code_block) @block
"""

SHELL = """
(function_definition name: (_) @name body: (_) @body) @function
(if_statement) @block
(elif_clause) @block
(else_clause) @block
(for_statement body: (_) @body) @block
(c_style_for_statement body: (_) @body) @block
(while_statement body: (_) @body) @block
(case_statement) @block
(case_item) @block
"""

SQL = """
(program (statement [
  (create_table (object_reference) @name)
  (create_view (object_reference) @name)
  (create_materialized_view (object_reference) @name)
  (create_type (object_reference) @name)
]) @class)
(program (statement [
  (create_function (object_reference) @name)
  (create_trigger (object_reference) @name)
]) @function)
(program (statement) @block)
(cte (identifier) @name) @key
"""

SCOPE_QUERIES = {
    "python": PYTHON,
    "javascript": JAVASCRIPT + JSX + JS_FIELD,
    "typescript": JAVASCRIPT + TYPESCRIPT,
    "tsx": JAVASCRIPT + JSX + TYPESCRIPT,
    "go": GO,
    "rust": RUST,
    "java": JAVA,
    "c": C,
    "cpp": CPP,
    "csharp": CSHARP,
    "ruby": RUBY,
    "php": PHP,
    "kotlin": KOTLIN,
    "html": HTML,
    "css": CSS,
    "json": JSON,
    "yaml": YAML,
    "toml": TOML,
    "markdown": MARKDOWN,
    "shell": SHELL,
    "sql": SQL,
}
"""By canonical language name."""
