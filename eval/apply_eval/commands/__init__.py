"""One file a command: its options, and the calls that do it."""
