(rule_set (selectors) @name (block) @body) @section
(media_statement (block) @body) @section
(supports_statement (block) @body) @section
(keyframes_statement (keyframe_block_list) @body) @section
(keyframe_block (block) @body) @section
(at_rule (block) @body) @section
(scope_statement (block) @body) @section

(import_statement) @import
