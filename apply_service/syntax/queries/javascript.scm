(field_definition property: (_) @name value: [
  (arrow_function body: (statement_block) @body)
  (function_expression body: (_) @body)
]) @function

(field_definition property: (_) @name) @definition.variable
