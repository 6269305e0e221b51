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

(variable_declarator name: (identifier) @name) @definition.variable
(variable_declarator name: (object_pattern (shorthand_property_identifier_pattern) @name)) @definition.variable
(variable_declarator name: (object_pattern (pair_pattern value: (identifier) @name))) @definition.variable
(export_specifier name: (_) @name) @definition.export

(import_statement) @import
