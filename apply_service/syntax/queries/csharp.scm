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

(field_declaration (variable_declaration (variable_declarator name: (_) @name))) @definition.variable

(using_directive) @import
