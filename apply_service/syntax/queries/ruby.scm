(module name: (_) @name) @module
(class name: (_) @name) @class
(singleton_class) @class
(method name: (_) @name) @function
(singleton_method name: (_) @name) @function
(call block: [(do_block) (block)]) @block
(assignment left: (_) @name right: [(array) (hash)] @body) @key
(if) @block
(unless) @block
(elsif) @block
(else) @block
(case) @block
(case_match) @block
(when) @block
(while) @block
(until) @block
(for) @block
(begin) @block
(rescue) @block
(ensure) @block

(assignment left: (constant) @name) @definition.variable

((call !receiver method: (identifier) @loader arguments: (argument_list . (string))) @import
  (#any-of? @loader "require" "require_relative" "load"))
