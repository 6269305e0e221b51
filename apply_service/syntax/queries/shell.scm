(function_definition name: (_) @name body: (_) @body) @function
(if_statement) @block
(elif_clause) @block
(else_clause) @block
(for_statement body: (_) @body) @block
(c_style_for_statement body: (_) @body) @block
(while_statement body: (_) @body) @block
(case_statement) @block
(case_item) @block

(variable_assignment name: (_) @name) @definition.variable
