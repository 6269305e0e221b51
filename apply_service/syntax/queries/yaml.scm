(block_mapping_pair key: (_) @name value: (_)? @body) @key
(block_sequence_item) @block
