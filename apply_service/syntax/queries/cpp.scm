(class_specifier name: (_) @name body: (_) @body) @class
(namespace_definition name: (_)? @name body: (_) @body) @module
(linkage_specification body: (declaration_list) @body) @module
(template_declaration (_) @wrapped) @wrapper
(for_range_loop body: (compound_statement) @body) @block
(try_statement body: (_) @body) @block
(catch_clause body: (_) @body) @block
(lambda_expression body: (_) @body) @block

(field_declaration declarator: (function_declarator) @name) @definition.variable

(using_declaration) @import
