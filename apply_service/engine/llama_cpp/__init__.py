"""A GGUF file in llama.cpp as a target in this process.

`model` loads it, `engine` verifies windows, `rows` measures what rows cost and how often a batch chooses another token
than one token at a time.
"""
