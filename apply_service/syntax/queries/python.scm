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

(expression_statement (assignment left: (identifier) @name)) @definition.variable

[(import_statement) (import_from_statement) (future_import_statement)] @import
