(function_item name: (_) @name body: (_) @body) @function
(function_signature_item name: (_) @name) @function
(struct_item name: (_) @name body: (_)? @body) @class
(union_item name: (_) @name body: (_) @body) @class
(enum_item name: (_) @name body: (_) @body) @class
(trait_item name: (_) @name body: (_) @body) @class
(impl_item type: (_) @name body: (_) @body) @class
(mod_item name: (_) @name body: (_) @body) @module
(foreign_mod_item body: (_) @body) @module
(macro_definition name: (_) @name) @function
(enum_variant name: (_) @name body: (_) @body) @key
(if_expression consequence: (_) @body) @block
(else_clause (block) @body) @block
(for_expression body: (_) @body) @block
(while_expression body: (_) @body) @block
(loop_expression body: (_) @body) @block
(match_expression body: (_) @body) @block
(match_arm value: (block) @body) @block
(unsafe_block) @block
(async_block) @block
(call_expression arguments: (arguments (closure_expression body: (block) @body))) @block

(const_item name: (_) @name) @definition.variable
(static_item name: (_) @name) @definition.variable
(type_item name: (_) @name) @definition.class

[(use_declaration) (extern_crate_declaration)] @import
