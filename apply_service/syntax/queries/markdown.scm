(section (atx_heading) @name) @section
(section (setext_heading) @name) @section
(fenced_code_block) @block
