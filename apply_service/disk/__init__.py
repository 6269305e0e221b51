"""The files of the command line and of coding agents, on disk.

state (our own folders); paths (what may be edited, where state lies) -> files (one file) -> journal (several, all or
none) -> backups (undo)
"""
