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

(const_element . (_) @name) @definition.variable
(property_element name: (_) @name) @definition.variable

(namespace_use_declaration) @import
