"""Pure work that would hold the engine thread for long, done in processes beside it: edits are read there, and large
answers put together.  `pool` lends the processes, `process` is what runs in one.
"""
