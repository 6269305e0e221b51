"""Work that would hold the engine thread for long, done in processes beside it.

`large_edits` is the way of a large edit through one of them, `pool` lends the processes, `process` is what runs in one,
`stand_in` the target as it is seen from there.
"""
