(element (start_tag) @name) @element
(script_element (start_tag) @name) @element
(style_element (start_tag) @name) @element
