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

(declaration declarator: (_) @name) @definition.variable
(type_definition declarator: (_) @name) @definition.class
(preproc_def name: (_) @name) @definition.variable

(preproc_include) @import
