(table . [(bare_key) (dotted_key) (quoted_key)] @name) @section
(table_array_element . [(bare_key) (dotted_key) (quoted_key)] @name) @section
(pair . [(bare_key) (dotted_key) (quoted_key)] @name . (_) @body) @key
