(program (statement [
  (create_table (object_reference) @name)
  (create_view (object_reference) @name)
  (create_materialized_view (object_reference) @name)
  (create_type (object_reference) @name)
]) @class)
(program (statement [
  (create_function (object_reference) @name)
  (create_trigger (object_reference) @name)
]) @function)
(program (statement) @block)
(cte (identifier) @name) @key
