(function_declaration name: (_) @name body: (_)? @body) @function
(method_declaration name: (_) @name body: (_)? @body) @function
(type_declaration (type_spec name: (_) @name type: (struct_type (_) @body))) @class
(type_declaration (type_spec name: (_) @name type: (interface_type)) ) @class
(type_declaration (type_spec name: (_) @name type: [(function_type) (type_identifier) (map_type) (slice_type)])) @class
(import_declaration (import_spec_list) @body) @block
(const_declaration . "const" . "(") @block
(var_declaration (var_spec_list) @body) @block
(if_statement consequence: (_) @body) @block
(for_statement body: (_) @body) @block
(expression_switch_statement) @block
(type_switch_statement) @block
(select_statement) @block
(expression_case) @block
(type_case) @block
(communication_case) @block
(default_case) @block
(call_expression arguments: (argument_list (func_literal body: (_) @body))) @block
(short_var_declaration left: (_) @name right: (expression_list (func_literal body: (_) @body))) @function
(keyed_element . (_) @name . (_ (func_literal body: (_) @body))) @function
(composite_literal body: (_) @body) @block

(const_spec name: (_) @name) @definition.variable
(var_spec name: (_) @name) @definition.variable
(type_spec name: (_) @name) @definition.class
(type_alias name: (_) @name) @definition.class

(import_spec) @import
