(abstract_class_declaration name: (_) @name body: (_) @body) @class
(interface_declaration name: (_) @name body: (_) @body) @class
(enum_declaration name: (_) @name body: (_) @body) @class
(type_alias_declaration name: (_) @name) @class
(internal_module name: (_) @name body: (_) @body) @module
(module name: (_) @name body: (_) @body) @module
(ambient_declaration (_) @wrapped) @wrapper
(public_field_definition name: (_) @name value: [
  (arrow_function body: (statement_block) @body)
  (function_expression body: (_) @body)
]) @function
(function_signature name: (_) @name) @function
(abstract_method_signature name: (_) @name) @function
(method_signature name: (_) @name) @function

(public_field_definition name: (_) @name) @definition.variable
