(pair key: (_) @name value: (_) @body) @key
