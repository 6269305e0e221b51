(jsx_element) @element
