"""What each word of the command line does, one file a command; `cli` parses and calls them.

Importing this package costs nothing: each command imports what it needs when it runs, so that asking a server never
pays for a model.
"""
