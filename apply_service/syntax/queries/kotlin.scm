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

(import) @import
