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

(field_declaration declarator: (variable_declarator name: (_) @name)) @definition.variable
(constant_declaration declarator: (variable_declarator name: (_) @name)) @definition.variable

(import_declaration) @import
